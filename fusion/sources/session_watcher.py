"""Keeps the memories of agents' sessions up to date while the server runs, in the background; opt-in.

As in seed 001 (`experimental.sessionMemory`), a transcript is read once it has grown by 100 KB or 50 lines. One that
has grown by less is read after it has rested for a while, so that a session's end is not lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from fusion.contract import Scope
from fusion.errors import BadInput, FusionError
from fusion.ingest.intake import NewMemory
from fusion.lib.observation import NewObservation
from fusion.sources.bookmarks import Bookmark, Bookmarks
from fusion.sources.files import DEFAULT_LIMITS, File, Limits, Unreadable, files, is_packed, opened, sized
from fusion.sources.readers import read
from fusion.sources.sessions import session_of

BATCH = 100
"""turns of one call of remember"""
_WAL = "-wal"

Remember = Callable[[Sequence[NewMemory]], Awaitable[object]]
Observe = Callable[[Sequence[NewObservation]], Awaitable[object]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Delta:
    """When a transcript is read on: after so many new bytes or lines, or any growth and so many seconds of rest."""

    bytes: int = 100_000
    lines: int = 50
    idle_s: float = 600.0

    def is_due(self, new_bytes: int, new_lines: int, rested_s: float) -> bool:
        if new_bytes <= 0:
            return False
        return new_bytes >= self.bytes or new_lines >= self.lines or rested_s >= self.idle_s


@dataclass(eq=False)
class SessionWatcher:
    """Follows the transcripts below ``paths``; their turns belong to ``owner``. Bookmarks are kept in ``home``.

    ``now`` returns the seconds since 1970, as in the times of files.
    """

    paths: Sequence[Path]
    owner: Scope
    home: Path
    remember: Remember
    delta: Delta = Delta()
    now: Callable[[], float] = time.time
    limits: Limits = DEFAULT_LIMITS
    observe: Observe | None = None
    """stores the calls and results of tools; None: they are left out"""
    _sizes: dict[Path, int] = field(default_factory=dict)
    """the size at the last reading of databases and packed files, whose bookmarks are not byte offsets"""
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def run(self, every_s: float) -> None:
        """Runs a round every ``every_s`` seconds until it is cancelled. One that fails is logged."""
        while True:
            try:
                await self.round()
            except (FusionError, OSError) as error:
                log.warning("sessions were not followed this time: %s", error)
            await asyncio.sleep(every_s)

    async def round(self) -> int:
        """Remembers the new turns of every transcript that is due; returns their number."""
        return await self._read(self.delta)

    async def read_all(self) -> int:
        """Remembers the new turns of every transcript that has grown at all; returns their number."""
        return await self._read(Delta(1, 1, 0.0))

    async def _read(self, delta: Delta) -> int:
        async with self._reading:
            return await self._read_due(delta)

    async def _read_due(self, delta: Delta) -> int:
        bookmarks = Bookmarks(self.home, self.owner)
        due = await asyncio.to_thread(lambda: dict(self._due(bookmarks, delta)))
        if not due:
            return 0
        seen: list[NewObservation] = []
        found = read(
            self.paths,
            self.owner,
            limits=self.limits,
            bookmarks=bookmarks,
            only=set(due),
            observe=None if self.observe is None else seen.append,
        )
        count = 0
        while batch := await asyncio.to_thread(lambda: list(islice(found, BATCH))):
            turns = [item for item in batch if isinstance(item, NewMemory)]
            await remember_each(self.remember, turns)
            await self._observe_all(seen)
            bookmarks.commit()
            count += len(turns)
        await self._observe_all(seen)
        bookmarks.commit()
        self._sizes.update(due)
        return count

    async def _observe_all(self, seen: list[NewObservation]) -> None:
        """Store what was seen so far, and empty the list. One that is refused is logged and left out alone."""
        taken, seen[:] = seen[:], []
        for start in range(0, len(taken), BATCH):
            await observe_each(self.observe, taken[start : start + BATCH])

    def _due(self, bookmarks: Bookmarks, delta: Delta) -> Iterator[tuple[Path, int]]:
        """The transcripts to read now, with their sizes."""
        for file in files(self.paths):
            if not isinstance(file, File) or file.form == "markdown":
                continue
            if too_large := self.limits.too_large(file):
                if file.path not in self._sizes:
                    log.warning("a transcript is not read: %s: %s", sized(file), too_large)
                self._sizes[file.path] = file.bytes
                continue
            try:
                size, rested_s = _state(file.path, self.now())
                if size == self._sizes.get(file.path):
                    continue
                new = (abs(size - self._sizes.get(file.path, 0)), 0)
                if file.form == "lines":
                    if session_of(file.path, self.owner) is None:
                        continue
                    new = _grown(file.path, bookmarks.find(str(file.path)), delta) or new
            except (OSError, Unreadable):
                continue  # gone, or unreadable: the next round tries again
            if delta.is_due(*new, rested_s):
                yield file.path, size


async def observe_each(observe: Observe | None, events: Sequence[NewObservation]) -> None:
    """Store observations. One that is refused (a secret in the name of its tool) is logged and left out alone."""
    if observe is None or not events:
        return
    try:
        await observe(events)
    except BadInput as error:
        if len(events) == 1:
            log.warning("an observation was refused: %s", error)
            return
        for event in events:
            await observe_each(observe, [event])


async def remember_each(remember: Remember, memories: Sequence[NewMemory]) -> None:
    """Remembers memories. One that is refused (a secret in its session's name) is logged and left out alone."""
    if not memories:
        return
    try:
        await remember(memories)
    except BadInput as error:
        if len(memories) == 1:
            log.warning("a memory was refused: %s", error)
            return
        for memory in memories:
            await remember_each(remember, [memory])


def _state(path: Path, now: float) -> tuple[int, float]:
    """The size of a file with its SQLite write-ahead log, and the seconds since the last write."""
    parts = [part.stat() for part in (path, path.with_name(path.name + _WAL)) if part.exists()]
    return sum(part.st_size for part in parts), now - max((part.st_mtime for part in parts), default=now)


def _grown(path: Path, mark: Bookmark | None, delta: Delta) -> tuple[int, int] | None:
    """The new bytes and lines of a transcript after its bookmark; lines are counted only where bytes do not decide.

    None for a packed one.
    """
    with opened(path) as file:
        if is_packed(file):
            return None
        size = file.seek(0, 2)
        start = mark.offset if mark is not None and mark.offset <= size else 0
        if size - start >= delta.bytes:
            return size - start, 0
        file.seek(start)
        return size - start, file.read(size - start).count(b"\n")
