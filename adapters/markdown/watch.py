"""Hearing of changes in a folder by the system's own notices."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path

Notices = Callable[[Path, bool], AsyncGenerator[set[Path], None]]
"""Of a folder, recursively or not: an empty set as soon as changes are heard of and now and then after, and the paths
that changed. Raises ``OSError`` where the system has no more watches to give."""

STEP_MS = 50
"""changes are told together when there was none for so long: what was written before that, a search sees. A tenth of it
would tell within 20 ms, and take half a percent of a core, all day, for each folder"""
TOGETHER_MS = 100
"""and at the latest after this"""
TICK_MS = 1000
"""between two empty sets"""


async def notices(folder: Path, recursive: bool) -> AsyncGenerator[set[Path], None]:
    """`Notices` of a real folder."""
    from watchfiles import awatch

    told = awatch(
        folder,
        watch_filter=None,
        debounce=TOGETHER_MS,
        step=STEP_MS,
        rust_timeout=TICK_MS,
        yield_on_timeout=True,
        recursive=recursive,
        ignore_permission_denied=True,
    )
    async for changes in told:
        yield {Path(path) for _, path in changes}
