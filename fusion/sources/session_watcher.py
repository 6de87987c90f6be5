"""Agents' sessions as memory while the server runs: opt-in, behind everything else, never in a question's way.

Seed 001 (`experimental.sessionMemory`): a transcript is read on once it has grown by 100 KB or 50 lines since the last
time. What grew by less is read when it has rested for a while, so that a session's end is not lost.
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
from fusion.sources.files import DEFAULT_LIMITS, File, Limits, Unreadable, files, is_packed, opened, sized
from fusion.sources.offsets import ReadOffset, ReadOffsets
from fusion.sources.readers import read
from fusion.sources.sessions import session_of

BATCH = 100
"""turns handed in at once"""
_LOG = "-wal"

Remember = Callable[[Sequence[NewMemory]], Awaitable[object]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Delta:
    """How much a transcript grows before it is read on: bytes or lines; or seconds that it rested, with any growth."""

    bytes: int = 100_000
    lines: int = 50
    idle_s: float = 600.0

    def due(self, new_bytes: int, new_lines: int, rested_s: float) -> bool:
        if new_bytes <= 0:
            return False
        return new_bytes >= self.bytes or new_lines >= self.lines or rested_s >= self.idle_s


@dataclass(eq=False)
class SessionWatcher:
    """Follows the transcripts below ``paths``, whose turns are ``whose`` (and their agent's); bookmarks are the home's.

    ``now`` is the time of day in seconds, as files have it.
    """

    paths: Sequence[Path]
    whose: Scope
    home: Path
    remember: Remember
    delta: Delta = Delta()
    now: Callable[[], float] = time.time
    limits: Limits = DEFAULT_LIMITS
    _sizes: dict[Path, int] = field(default_factory=dict)
    """of databases and packed files, whose bookmarks are no places in them, when they were last read"""

    async def run(self, every_s: float) -> None:
        """Looks every so often, until it is cancelled; a round that fails costs that round."""
        while True:
            try:
                await self.round()
            except (FusionError, OSError) as error:
                log.warning("sessions were not followed this time: %s", error)
            await asyncio.sleep(every_s)

    async def round(self) -> int:
        """Remembers what is new in every transcript that is due; how many turns that were."""
        bookmarks = ReadOffsets(self.home, self.whose)
        due = await asyncio.to_thread(lambda: dict(self._due(bookmarks)))
        if not due:
            return 0
        found = read(self.paths, self.whose, limits=self.limits, bookmarks=bookmarks, only=set(due))
        count = 0
        while batch := await asyncio.to_thread(lambda: list(islice(found, BATCH))):
            turns = [item for item in batch if isinstance(item, NewMemory)]
            await hand_in(self.remember, turns)
            bookmarks.commit()
            count += len(turns)
        bookmarks.commit()
        self._sizes.update(due)
        return count

    def _due(self, bookmarks: ReadOffsets) -> Iterator[tuple[Path, int]]:
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
                    if session_of(file.path, self.whose) is None:
                        continue
                    new = _grown(file.path, bookmarks.find(str(file.path)), self.delta) or new
            except (OSError, Unreadable):
                continue  # gone, or not to be read: the next look says the same, or better
            if self.delta.due(*new, rested_s):
                yield file.path, size


async def hand_in(remember: Remember, memories: Sequence[NewMemory]) -> None:
    """Hands memories in; one that is refused (a secret in its session's name) is left out alone."""
    if not memories:
        return
    try:
        await remember(memories)
    except BadInput as error:
        if len(memories) == 1:
            log.warning("a memory was refused: %s", error)
            return
        for memory in memories:
            await hand_in(remember, [memory])


def _state(path: Path, now: float) -> tuple[int, float]:
    """How large a file is with what SQLite has yet to move into it, and for how many seconds nobody wrote to it."""
    parts = [part.stat() for part in (path, path.with_name(path.name + _LOG)) if part.exists()]
    return sum(part.st_size for part in parts), now - max((part.st_mtime for part in parts), default=now)


def _grown(path: Path, mark: ReadOffset | None, delta: Delta) -> tuple[int, int] | None:
    """Bytes and lines of a transcript behind its bookmark, as far as they decide; None of one that is packed."""
    with opened(path) as file:
        if is_packed(file):
            return None
        size = file.seek(0, 2)
        start = mark.offset if mark is not None and mark.offset <= size else 0
        if size - start >= delta.bytes:
            return size - start, 0
        file.seek(start)
        return size - start, file.read(size - start).count(b"\n")
