"""`fusion ingest --watch`: one round over all files, then one for each change, until it is stopped.

After a file was removed, a round reads all files, because only what is left shows what to retire.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from fusion.doors.cli.ingest import Summary, reading_into, send
from fusion.errors import FusionError
from fusion.lib.watch import changes
from fusion.lib.watch import watch as watch_path
from fusion.sources.files import File, Limits, files, form_of, is_below, is_folder, is_there

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.contract import Scope

QUIET_MS = 300
"""milliseconds without another change after which a changed file is read"""
DEBOUNCE_MS = 1500
"""milliseconds after which a changed file is read at the latest (seed 001)"""
RETRY_S = 10.0
"""seconds before all files are read again after a failed round"""
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
    changed = _Changes(paths, stop)

    async def one_round(only: set[Path] | None) -> Summary:
        async with reading_into(home) as done:
            return await send(
                client, paths, scope, wait=wait, quiet=quiet, home=home, only=only, done=done, limits=limits
            )

    only: set[Path] | None = None  # None: all files, in the first round and after a failure
    async with gateway as client:
        try:
            await changed.begin()
            while not stop.is_set():
                work = asyncio.create_task(one_round(only))
                await _first(work, stop)
                if stop.is_set() and not work.done():
                    work.cancel()
                    await asyncio.wait([work])
                    return
                try:
                    report(work.result())
                    only = await changed.next()
                except FusionError as error:
                    complain(error)
                    await changed.next(RETRY_S)
                    only = None
        finally:
            stop.set()
            await changed.close()


async def _first(work: asyncio.Task[Summary], stop: asyncio.Event) -> None:
    """Returns when the work is done or the event is set."""
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([work, stopped], return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()


class _Changes:
    """The files that changed since the last call of `next`; `begin` starts to watch."""

    def __init__(self, paths: Sequence[Path], stop: asyncio.Event) -> None:
        self._stop = stop
        self._found: asyncio.Queue[set[Path] | None] = asyncio.Queue()
        self._paths = [path.resolve() for path in paths]
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Returns once all paths are watched, or one cannot be."""
        watched = [asyncio.Event() for _ in self._paths]
        for path, event in zip(self._paths, watched, strict=True):
            self._tasks.append(asyncio.create_task(self._follow(path, event)))
        for event in watched:
            await event.wait()

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
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    async def _follow(self, path: Path, watched: asyncio.Event) -> None:
        try:
            async with aclosing(watch_path(path, _changed_files, retry_s=RETRY_S)) as notices:
                async for notice in notices:
                    if notice.error and is_there(path):
                        raise OSError(f"{path} cannot be watched: {notice.error}")
                    if not watched.is_set():
                        watched.set()  # the first round, which follows, reads all files
                    elif notice.paths is None:
                        self._found.put_nowait(None)
                    elif (found := await asyncio.to_thread(_to_read, path, notice.paths)) != set():
                        self._found.put_nowait(found)
        finally:
            self._stop.set()  # a watcher that failed must not look like one without changes
            watched.set()


def _to_read(root: Path, changed: Iterable[Path]) -> set[Path] | None:
    """The files to read among changed paths at or below ``root``; None for all: something is gone."""
    followed = [path for path in changed if is_below(path, root)]
    # An editor that saves by renaming takes a file away, and puts it back. What has no suffix may be a folder.
    if any(not is_there(path) and (path == root or form_of(path) or not path.suffix) for path in followed):
        return None
    # What was written into a new folder before it was watched has no change event of its own.
    inner = [file.path for file in files([path for path in followed if is_folder(path)]) if isinstance(file, File)]
    return {*inner, *(path for path in followed if not is_folder(path) and (path == root or form_of(path)))}


async def _changed_files(folder: Path, recursive: bool) -> AsyncGenerator[set[Path], None]:
    """The changed paths in a folder, with databases in place of the logs to which SQLite writes first."""
    async with aclosing(changes(folder, recursive, quiet_ms=QUIET_MS, most_ms=DEBOUNCE_MS)) as events:
        async for paths in events:
            yield {path.with_name(path.name.removesuffix(_LOG)) for path in paths}
