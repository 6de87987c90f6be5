"""Watching a file or folder for changes, by the events of the system (watchfiles)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

STEP_MS = 50
"""milliseconds between two looks for system events: a tenth of it would take half a percent of a core, all day"""
GROUP_MS = 100
"""maximum milliseconds for which changes that follow each other within `STEP_MS` are collected"""
TICK_MS = 1000
"""maximum milliseconds between two sets, of which the second is empty if nothing changed"""

Changes = Callable[[Path, bool], AsyncGenerator[set[Path], None]]
"""The changed paths in a folder, recursively or not, as `system_changes` yields them."""


async def system_changes(folder: Path, recursive: bool) -> AsyncGenerator[set[Path], None]:
    """Yields the paths that changed in a folder, by a watch of its own, until the folder is deleted or moved.

    Yields an empty set as soon as the folder is watched, and every `TICK_MS` in which nothing changed. Raises
    ``OSError`` where there is no such folder, or the system has no more watches to give.
    """
    from watchfiles import Change, awatch

    async with aclosing(
        awatch(
            folder,
            watch_filter=None,
            debounce=GROUP_MS,
            step=STEP_MS,
            rust_timeout=TICK_MS,
            yield_on_timeout=True,
            recursive=recursive,
            ignore_permission_denied=True,
        )
    ) as events:
        # The watch begins in the first step of this task, which then waits for an event.
        first = asyncio.ensure_future(anext(events))
        try:
            await asyncio.sleep(0)
            if not first.done():
                yield set()
            found = await first
        finally:
            first.cancel()
            await asyncio.wait([first])
        while True:
            yield {Path(path) for _, path in found}
            if (Change.deleted, str(folder)) in found:
                return
            found = await anext(events)


class SharedChanges:
    """The changes in folders, with one watch for all who follow the same folder in this process.

    The system limits how many folders a user may watch, and a watched tree takes one watch for each folder in it.
    """

    def __init__(self, changes: Changes = system_changes) -> None:
        self._changes = changes
        self._watches: dict[tuple[asyncio.AbstractEventLoop, Path, bool], _SharedWatch] = {}

    async def changes(
        self, folder: Path, recursive: bool, *, quiet_ms: int = 0, most_ms: int = 0
    ) -> AsyncGenerator[set[Path], None]:
        """Yields as `system_changes`; a set of changes once no other came for ``quiet_ms``, or after ``most_ms``.

        The watch ends with its last reader, or for all of them when another folder takes the place of this one. Its
        error is raised for each reader.
        """
        key = (asyncio.get_running_loop(), folder, recursive)
        watch = self._watches.get(key)
        if watch is None or watch.task.done():
            watch = self._watches[key] = _SharedWatch(folder, self._changes(folder, recursive))
        reader = watch.add_reader()
        try:
            while (changed := await reader.next(quiet_ms / 1000, most_ms / 1000)) is not None:
                yield changed
        finally:
            watch.readers.remove(reader)
            if not watch.readers:
                if self._watches.get(key) is watch:
                    del self._watches[key]
                await watch.end()


class _SharedWatch:
    """A running watch of a folder, and its readers."""

    def __init__(self, folder: Path, events: AsyncGenerator[set[Path], None]) -> None:
        self.readers: list[_Reader] = []
        self._begun = False
        self.task = asyncio.create_task(self._run(folder, events))

    def add_reader(self) -> _Reader:
        reader = _Reader()
        self.readers.append(reader)
        if self._begun:
            reader.add(set())
        return reader

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])

    async def _run(self, folder: Path, events: AsyncGenerator[set[Path], None]) -> None:
        error: Exception | None = None
        identity = _identity(folder)
        try:
            async with aclosing(events):
                async for changed in events:
                    self._begun = True
                    for reader in self.readers:
                        reader.add(changed)
                    if _identity(folder) != identity:
                        break
        except Exception as reason:  # noqa: BLE001 — of any kind: each reader raises it
            error = reason
        for reader in self.readers:
            reader.end(error)


@dataclass(eq=False, slots=True)
class _Reader:
    """Collects changes until one follower of a folder takes them."""

    _paths: set[Path] = field(default_factory=set)
    _arrivals: int = 0
    _event: asyncio.Event = field(default_factory=asyncio.Event)
    _ended: bool = False
    _error: Exception | None = None

    def add(self, changed: set[Path]) -> None:
        self._paths |= changed
        self._arrivals += bool(changed)
        self._event.set()

    def end(self, error: Exception | None) -> None:
        self._ended, self._error = True, error
        self._event.set()

    async def next(self, quiet_s: float, most_s: float) -> set[Path] | None:
        """The changes since the last call; None if the watch ended. Raises its error."""
        await self._event.wait()
        if self._paths and quiet_s:
            await self._rest(quiet_s, most_s)
        if self._error is not None:
            raise self._error
        if self._ended:
            return None
        self._event.clear()
        changed, self._paths = self._paths, set()
        return changed

    async def _rest(self, quiet_s: float, most_s: float) -> None:
        """Returns once no change arrived for ``quiet_s``, and at the latest after ``most_s``."""
        try:
            async with asyncio.timeout(most_s):
                arrivals = -1
                while arrivals != self._arrivals:
                    arrivals = self._arrivals
                    await asyncio.sleep(quiet_s)
        except TimeoutError:
            pass


_shared = SharedChanges()
changes = _shared.changes
"""the changes in a folder, with one watch for all who follow it in this process"""


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
