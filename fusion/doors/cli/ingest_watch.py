"""`fusion ingest --watch`: one round over all files, then one for each change, until it is stopped.

After a file was removed, a round reads all files, because only what is left shows what to retire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from watchfiles import Change, awatch

from fusion.doors.cli.ingest import Summary, send
from fusion.errors import FusionError
from fusion.sources.files import Limits, form_of, is_below
from fusion.sources.lock import lock_for_command

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.contract import Scope

QUIET_MS = 300
"""a change is read when its file has been left alone for this long"""
DEBOUNCE_MS = 1500
"""and at the latest after this (seed 001)"""
RETRY_S = 10.0
"""before all files are read again after a round that failed"""
_LOG = "-wal"
"""the file next to a database to which SQLite writes first"""


async def watch(
    paths: Sequence[Path],
    scope: Scope,
    gateway: AbstractAsyncContextManager[AsyncClient],
    stop: asyncio.Event,
    *,
    home: Path,
    limits: Limits,
    report: Callable[[Summary], None],
    complain: Callable[[FusionError], None],
    wait: bool = True,
    quiet: bool = False,
) -> None:
    """Follows ``paths`` until ``stop`` is set; ``report`` gets each round, ``complain`` the error of one that failed.

    ``stop`` also ends a round under way: what was acknowledged is kept, the rest is left to the next run.
    """
    changes = _Changes(paths, stop)

    async def one_round(only: set[Path] | None) -> Summary:
        async with lock_for_command(home) as done:
            return await send(
                client, paths, scope, wait=wait, quiet=quiet, home=home, only=only, done=done, limits=limits
            )

    only: set[Path] | None = None  # None: all files, in the first round and after a failure
    async with gateway as client:
        try:
            while not stop.is_set():
                work = asyncio.create_task(one_round(only))
                await _first(work, stop)
                if stop.is_set() and not work.done():
                    work.cancel()
                    await asyncio.wait([work])
                    return
                try:
                    report(work.result())
                    only = await changes.next()
                except FusionError as error:
                    complain(error)
                    await changes.next(RETRY_S)
                    only = None
        finally:
            stop.set()
            await changes.close()


async def _first(work: asyncio.Task[Summary], stop: asyncio.Event) -> None:
    """Returns when the work is done or the event is set."""
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([work, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()


class _Changes:
    """The files that changed since the last call of `next`; it watches from its creation on."""

    def __init__(self, paths: Sequence[Path], stop: asyncio.Event) -> None:
        self._stop = stop
        self._found: asyncio.Queue[set[Path] | None] = asyncio.Queue()
        real = [path.resolve() for path in paths]
        self._folders = [path for path in real if path.is_dir()]
        self._files = {path for path in real if not path.is_dir()}
        self._tasks: list[asyncio.Task[None]] = []
        if self._folders:
            self._tasks.append(asyncio.create_task(self._follow(self._folders, recursive=True)))
        if self._files:
            # Not the file itself: an editor that saves under another name and renames would end the watch.
            folders = sorted({path.parent for path in self._files})
            self._tasks.append(asyncio.create_task(self._follow(folders, recursive=False)))

    async def next(self, timeout_s: float | None = None) -> set[Path] | None:
        """Waits for a change, for ``timeout_s`` or for the end. ``None``: something is gone."""
        found = asyncio.create_task(self._found.get())
        stopped = asyncio.create_task(self._stop.wait())
        await asyncio.wait([found, stopped], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        changes = [found.result()] if found.done() else []
        found.cancel()
        stopped.cancel()
        while not self._found.empty():
            changes.append(self._found.get_nowait())
        return None if None in changes else {path for paths in changes if paths for path in paths}

    async def close(self) -> None:
        """Raises the error of a watcher, for example that the system has no more watches."""
        await asyncio.gather(*self._tasks)

    async def _follow(self, folders: Iterable[Path], *, recursive: bool) -> None:
        try:
            async for found in awatch(
                *folders,
                watch_filter=lambda change, path: self._is_followed(_file_of(path), gone=change is Change.deleted),
                debounce=DEBOUNCE_MS,
                step=QUIET_MS,
                stop_event=self._stop,
                recursive=recursive,
            ):
                # An editor that saves by renaming takes a file away, and puts it back.
                if any(change is Change.deleted and not _file_of(path).exists() for change, path in found):
                    self._found.put_nowait(None)
                    continue
                changed = {_file_of(path) for _, path in found}
                # What was written into a new folder before it was followed has no notice of its own.
                within = {
                    file
                    for path in changed
                    if path.is_dir()
                    for file in path.rglob("*")
                    if self._is_followed(file, gone=False)
                }
                if files := {path for path in changed | within if not path.is_dir()}:
                    self._found.put_nowait(files)
        finally:
            self._stop.set()  # a watcher that failed must not look like one without changes

    def _is_followed(self, path: Path, *, gone: bool) -> bool:
        if path in self._files:
            return True
        # What is gone and has no ending may have been a folder.
        read = form_of(path) is not None or path.is_dir() or (gone and not path.suffix)
        return read and any(is_below(path, folder) for folder in self._folders)


def _file_of(path: str) -> Path:
    return Path(path.removesuffix(_LOG))
