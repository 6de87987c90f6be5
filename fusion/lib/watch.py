"""What the system tells of changes below a folder, by watchfiles."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

TICK_MS = 1000
"""between two empty sets"""


async def changes(folder: Path, recursive: bool, *, quiet_ms: int, most_ms: int) -> AsyncGenerator[set[Path], None]:
    """The paths that changed, told when nothing else did for ``quiet_ms``, and at the latest after ``most_ms``.

    An empty set as soon as one hears, and every `TICK_MS` in which nothing changed. Raises ``OSError`` where there is
    no such folder, or the system has no more watches to give.
    """
    from watchfiles import awatch

    told = awatch(
        folder,
        watch_filter=None,
        debounce=most_ms,
        step=quiet_ms,
        rust_timeout=TICK_MS,
        yield_on_timeout=True,
        recursive=recursive,
        ignore_permission_denied=True,
    )
    async for found in told:
        yield {Path(path) for _, path in found}
