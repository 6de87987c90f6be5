"""Watching a file or folder for changes, by the events of the system (watchfiles)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

TICK_MS = 1000
"""the longest time between two sets, of which the second is empty if nothing changed"""

Changes = Callable[[Path, bool], AsyncGenerator[set[Path], None]]
"""The changed paths in a folder, recursively or not, as `changes` yields them."""


async def changes(folder: Path, recursive: bool, *, quiet_ms: int, most_ms: int) -> AsyncGenerator[set[Path], None]:
    """Yields the changed paths once no other changed for ``quiet_ms``, and at the latest after ``most_ms``.

    Yields an empty set as soon as the folder is watched, and every `TICK_MS` in which nothing changed. Raises
    ``OSError`` where there is no such folder, or the system has no more watches to give.
    """
    from watchfiles import awatch

    events = awatch(
        folder,
        watch_filter=None,
        debounce=most_ms,
        step=quiet_ms,
        rust_timeout=TICK_MS,
        yield_on_timeout=True,
        recursive=recursive,
        ignore_permission_denied=True,
    )
    async for event in events:
        yield {Path(path) for _, path in event}


@dataclass(frozen=True, slots=True)
class Notice:
    """The paths that changed; None: anything may have. ``error``: why the path is not watched now."""

    paths: frozenset[Path] | None = frozenset()
    watching: bool = True
    error: str = ""


async def watch(
    path: Path,
    changes: Changes,
    *,
    recursive: bool = True,
    retry_s: float,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncGenerator[Notice, None]:
    """Watch a folder or file without end; if it is replaced by another one, that is watched.

    The first notice of each watch says that anything may have changed. If the path cannot be watched, a notice has the
    error, and the next attempt follows after ``retry_s`` seconds.
    """
    while True:
        root = Path(os.path.realpath(path))
        identity = _identity(root)
        # A file is watched through its folder: an editor that saves under another name and renames would be lost.
        folder = root if identity is not None and identity[0] else root.parent
        try:
            async with aclosing(changes(folder, recursive and folder == root)) as events:
                anything = True
                async for changed in events:
                    same = _identity(root) == identity
                    paths = changed if folder == root else changed & {root}
                    yield Notice(None if anything or not same else frozenset(paths), same)
                    if not same:
                        break
                    anything = False
        except (OSError, RuntimeError) as error:
            yield Notice(watching=False, error=str(error))
            await pause(retry_s)


def _identity(root: Path) -> tuple[bool, int, int] | None:
    """Whether a folder is at the path, and the device and inode of it or else of its parent; None without either."""
    try:
        is_folder = root.is_dir()
        about = (root if is_folder else root.parent).stat()
    except OSError:
        return None
    return is_folder, about.st_dev, about.st_ino
