"""Hearing of changes in a folder by the system's own notices."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from fusion.lib.watch import changes

Notices = Callable[[Path, bool], AsyncGenerator[set[Path], None]]
"""Of a folder, recursively or not: an empty set as soon as changes are heard of and now and then after, and the paths
that changed. Raises ``OSError`` where the system has no more watches to give."""

STEP_MS = 50
"""changes are told together when there was none for so long: what was written before that, a search sees. A tenth of it
would tell within 20 ms, and take half a percent of a core, all day, for each folder"""
TOGETHER_MS = 100
"""and at the latest after this"""


def notices(folder: Path, recursive: bool) -> AsyncGenerator[set[Path], None]:
    """`Notices` of a real folder."""
    return changes(folder, recursive, quiet_ms=STEP_MS, most_ms=TOGETHER_MS)
