"""Folders of notes as memory while the server runs: what is written, edited or deleted there, every backend answers.

The same reading as `fusion ingest`, of Markdown only, and behind everything else. What the system gives notice of is
read when it was left alone for a moment; everything is looked at when the server starts, and now and then, since
notices can be lost. A look opens no file that has a bookmark and that nobody touched. A bookmark is set when all of a
file was journalled and what it has no more is retired, so that what breaks off is read again; it is believed only while
the journal has as many memories of the file as it had then, so that what others did to them is made up for.

As with `fusion ingest`, a file that could not be read retires nothing, and neither does a folder in which no note is
found, nor a file that was named and whose folder is empty: a disk that is not mounted looks like that.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from fusion.contract import Scope
from fusion.errors import FusionError, StoreBusy
from fusion.ingest.intake import NewMemory
from fusion.journal.retire import SourceCount, Whole
from fusion.lib.ignore import ALWAYS, matcher
from fusion.lib.watch import changes, watch
from fusion.sources.files import (
    DEFAULT_LIMITS,
    File,
    Limits,
    Skip,
    Unreadable,
    file_at,
    files,
    form_of,
    is_below,
    is_file,
    is_folder,
    is_gone,
    linked,
    opened,
)
from fusion.sources.lock import reading_behind
from fusion.sources.offsets import ReadOffset, ReadOffsets, is_untouched
from fusion.sources.readers import markdown
from fusion.sources.session_watcher import Remember, hand_in

BATCH = 25
"""memories handed in at once; files are read until there are so many"""
PAGE = 1000
MOST_TOLD = 100
"""paths that are looked at one by one; of more, everything is"""
QUIET_MS = 300
"""a change is read when there was no other for so long"""
DEBOUNCE_MS = 1500
"""and at the latest after this (seed 001)"""
MARKED_S = 2.0
"""between two writings of bookmarks in a long round; a server that is killed reads so much again"""
AGAIN_S = 5.0
"""until a round that failed, and hearing of a folder's changes, is tried again"""
BUSY_S = 1.0
"""…and a round that waits for `fusion ingest`"""

_changes = partial(changes, quiet_ms=QUIET_MS, most_ms=DEBOUNCE_MS)

log = logging.getLogger(__name__)


class Keeps(Protocol):
    """Where what stands in files is kept: the home's `Intake`."""

    @property
    def remember(self) -> Remember: ...

    async def retire(self, scope: Scope, files: Sequence[Whole]) -> Mapping[str, int]: ...

    async def sources(self, scope: Scope, prefix: str, after: str, limit: int) -> Sequence[SourceCount]: ...


@dataclass
class _Read:
    """What some files have, and of those that were read to their end: the revisions, and a bookmark behind each."""

    files: int = 0
    memories: list[NewMemory] = field(default_factory=list)
    whole: list[Whole] = field(default_factory=list)
    marks: dict[str, ReadOffset] = field(default_factory=dict)

    def add_complete(self, source: str, revisions: Sequence[str], mark: ReadOffset | None) -> None:
        self.whole.append(Whole(source, tuple(revisions)))
        if mark is not None:
            self.marks[source] = mark


@dataclass(eq=False)
class NoteWatcher:
    """Follows the Markdown below ``paths``, but for what the patterns ``ignore`` leave out; it is ``whose``, and
    bookmarks are the home's."""

    paths: Sequence[Path]
    whose: Scope
    home: Path
    keeps: Keeps
    ignore: Sequence[str] = ()
    every_s: float = 300.0
    limits: Limits = DEFAULT_LIMITS
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    """set once the first round is over, whatever came of it"""
    _told: set[Path] | None = None
    """what may have changed since the last round; None: anything"""
    _heard: asyncio.Event = field(default_factory=asyncio.Event)
    _marks: dict[str, ReadOffset] = field(default_factory=dict)
    """by source, as of this run: a home keeps a bounded number of them"""
    _fresh: set[str] = field(default_factory=set)
    """of these, what the home does not have yet"""
    _sources: set[str] = field(default_factory=set)
    """what the journal has of these paths"""
    _trouble: str = ""
    _away: dict[Path, bool] = field(default_factory=dict)
    """paths where nothing is found, and whether there are memories of it"""
    _deaf: dict[Path, str] = field(default_factory=dict)
    _unread: dict[str, str] = field(default_factory=dict)
    """why notes could not be read, by source"""
    linked: Mapping[str, int] = field(default_factory=dict)
    """how many links are below these paths, by kind: none is followed"""

    @property
    def faults(self) -> list[str]:
        """What does not work that should."""
        said = [f"notes are not followed, which is tried again: {self._trouble}"] if self._trouble else []
        for path, kept in self._away.items():
            said.append(f"{path} is away or empty" + (": what was read of it is kept" if kept else ""))
        said += [f"{path}: changes are not heard of, so it is looked at: {why}" for path, why in self._deaf.items()]
        if self._unread:
            source, reason = next(iter(self._unread.items()))
            more = f" and {len(self._unread) - 1} more" if len(self._unread) > 1 else ""
            said.append(f"notes that cannot be read are answered as they were: {source[5:]}{more}: {reason}")
        return said

    def __post_init__(self) -> None:
        self._ignored = matcher((*ALWAYS, *self.ignore))

    async def run(self) -> None:
        """Goes on until it is cancelled. A round that fails is told, and costs that round."""
        hearing = [asyncio.create_task(self._hear(path)) for path in self.paths]
        try:
            while True:
                pause_s = await self._attempt()
                self.looked.set()
                try:
                    async with asyncio.timeout(pause_s):
                        await self._heard.wait()
                except TimeoutError:
                    self._told = self._told or None
        finally:
            for task in hearing:
                task.cancel()
            await asyncio.gather(*hearing, return_exceptions=True)

    async def _attempt(self) -> float:
        """A round; and for how many seconds to wait then, while nothing is heard of."""
        try:
            await self.round()
            self._trouble = ""
            return self.every_s
        except StoreBusy:
            return BUSY_S
        except Exception as error:  # noqa: BLE001 — whatever it is, notes that nobody follows must not look followed
            self._trouble = str(error) if isinstance(error, FusionError | OSError) else repr(error)
            log.warning("notes were not followed this time: %s", self._trouble)
            return AGAIN_S

    async def round(self) -> int:
        """Takes in what changed: how many files were read, or are gone.

        Raises StoreBusy while `fusion ingest` reads. What a round did not do that broke off, the next one does.
        """
        self._heard.clear()
        told, self._told = self._told, set()
        try:
            with reading_behind(self.home):  # while a command reads, even a look would take its time for nothing
                due, gone = await self._look(told)
            count = len(due) + len(gone)
            marked = time.monotonic()
            while due:
                began = time.monotonic()
                with reading_behind(self.home):
                    due = due[await self._take_in(due) :]
                if began - marked > MARKED_S:
                    await asyncio.to_thread(self._mark)
                    marked = began
                await asyncio.sleep(time.monotonic() - began)  # half of the time is for questions
            if gone:
                with reading_behind(self.home):
                    still = [Whole(source) for source in gone if is_gone(Path(source[5:]))]
                    await self.keeps.retire(self.whose, still)
                self._sources.difference_update(gone)
            return count
        except BaseException:
            self._told = None if told is None or self._told is None else self._told | told
            raise
        finally:
            if self._fresh:
                await asyncio.to_thread(self._mark)

    # What changed ------------------------------------------------------------------------------------------------

    async def _look(self, told: set[Path] | None) -> tuple[Sequence[File], Sequence[str]]:
        """The files to read, and the sources whose files are gone."""
        if told is not None and len(told) <= MOST_TOLD:
            found = await asyncio.to_thread(self._look_at, told)
            if found is not None:
                return found, ()
        counts = {row.source: row.memories for path in self.paths async for row in self._known_of(path.resolve())}
        self._sources = set(counts)
        return await asyncio.to_thread(self._look_at_all, counts)

    def _look_at(self, told: set[Path]) -> list[File] | None:
        """The files at these paths; None where only a look at everything tells what there is."""
        for path in told:
            below = f"file:{path}{os.sep}"
            gone = is_gone(path) and any(s == below[:-1] or s.startswith(below) for s in self._sources)
            if gone or is_folder(path):
                return None
        notes = [path for path in told if form_of(path) == "markdown" and is_file(path)]
        found = [file_at(path, self.paths, self._ignored) for path in notes]
        return [file for file in found if file is not None]

    def _look_at_all(self, counts: Mapping[str, int]) -> tuple[list[File], list[str]]:
        marks = ReadOffsets(self.home, self.whose)
        passed: Counter[str] = Counter()
        every = list(files(self.paths, passed, self._ignored))
        self.linked = linked(every, passed)
        notes = (f for f in every if isinstance(f, File) and f.form == "markdown")
        found = {f"file:{file.path}": file for file in notes}
        self._unread = {source: why for source, why in self._unread.items() if source in found}
        self._away, gone = {}, dict[str, None]()
        for path in self.paths:
            root = path.resolve()
            here = f"file:{root}"
            ours = {source for source in counts if source == here or source.startswith(here + os.sep)}
            if here in ours and _was_deleted(root):
                ours.remove(here)
                gone[here] = None
            if not any(s == here or s.startswith(here + os.sep) for s in found) and (
                ours or not (is_folder(root) or is_file(root))
            ):
                self._away[path] = bool(ours)
                continue
            for source in sorted(ours - found.keys()):
                missing = Path(source[5:])
                if is_gone(missing):
                    gone[source] = None
                elif form_of(missing) == "markdown" and is_below(missing, root, self._ignored):
                    self._unread[source] = _why_not_found(missing)
        due = [file for source, file in found.items() if not self._is_known(source, file, marks, counts)]
        kept = tuple(f"file:{path.resolve()}{os.sep}" for path in self._away)  # a disk below another folder, say
        return due, [source for source in gone if not source.startswith(kept)]

    def _is_known(self, source: str, file: File, marks: ReadOffsets, counts: Mapping[str, int]) -> bool:
        """Whether nobody touched a file since it was read, nor what is kept of it."""
        mark = self._marks.get(source) or marks.find(str(file.path))
        try:
            return mark is not None and mark.memories == counts.get(source, 0) and is_untouched(mark, file.path.lstat())
        except OSError:  # gone or away since; whoever reads it is told
            return False

    async def _known_of(self, root: Path) -> AsyncIterator[SourceCount]:
        """The sources at a path or below it, with how many memories are current of each."""
        prefix, after = f"file:{root}", ""
        while page := await self.keeps.sources(self.whose, prefix, after, PAGE):
            for row in page:
                if row.source == prefix or row.source.startswith(prefix + os.sep):
                    yield row
            after = page[-1].source

    # What is there now -------------------------------------------------------------------------------------------

    async def _take_in(self, due: Sequence[File]) -> int:
        """Remembers what the first of these files have, and retires what they have no more; how many files."""
        read = await asyncio.to_thread(self._read, due)
        for first in range(0, len(read.memories), BATCH):
            await hand_in(self.keeps.remember, read.memories[first : first + BATCH])
        await self.keeps.retire(self.whose, read.whole)
        for source, mark in read.marks.items():
            kept = [row for row in await self.keeps.sources(self.whose, source, "", 1) if row.source == source]
            self._marks[source] = replace(mark, memories=sum(row.memories for row in kept))
            self._sources.add(source)
            self._fresh.add(source)
        return read.files

    def _read(self, due: Sequence[File]) -> _Read:
        """The first of these files, until there are enough memories for once."""
        read = _Read()
        for file in due:
            source, wrong = f"file:{file.path}", ""
            for item in markdown(file, self.whose, read.add_complete, limits=self.limits):
                if isinstance(item, Skip):
                    wrong = (
                        item.reason if item.where == str(file.path) else f"{file.bytes / 1e6:,.1f} MB, {item.reason}"
                    )
                else:
                    read.memories.append(item)
            read.files += 1
            if not wrong or (read.whole and read.whole[-1].source == source):
                self._unread.pop(source, None)
            elif self._unread.get(source) != wrong:
                self._unread[source] = wrong
                log.warning("a note was not read: %s: %s", file.path, wrong)
            if len(read.memories) >= BATCH:
                break
        return read

    def _mark(self) -> None:
        """Keeps the bookmarks for the next run; they are written as one file."""
        marks = ReadOffsets(self.home, self.whose)
        while self._fresh:
            source = self._fresh.pop()
            marks.reached(source[5:], self._marks[source])
        marks.commit()

    # When --------------------------------------------------------------------------------------------------------

    def _tell(self, paths: set[Path] | None) -> None:
        self._told = None if paths is None or self._told is None else self._told | paths
        self._heard.set()

    async def _hear(self, path: Path) -> None:
        """Follows the change events of one path."""
        async with aclosing(watch(path, _changes, retry_s=AGAIN_S)) as notices:
            async for notice in notices:
                if notice.watching:
                    self._deaf.pop(path, None)
                elif notice.error and (is_folder(path) or is_file(path)):
                    self._deaf[path] = notice.error
                    self._tell(None)
                if notice.paths is None:
                    self._tell(None)
                elif changed := {one for one in notice.paths if self._may_be_note(one, path.resolve())}:
                    self._tell(changed)

    def _may_be_note(self, path: Path, root: Path) -> bool:
        """Whether a look may find something else at a path now. What is gone, and a folder, may have held notes."""
        below = is_below(path, root, self._ignored)
        return path == root or (below and (form_of(path) == "markdown" or not is_file(path)))


def _was_deleted(file: Path) -> bool:
    """Whether a file is gone from a folder in which something else is: a disk that is not mounted has nothing."""
    try:
        return is_gone(file) and any(file.parent.iterdir())
    except OSError:
        return False


def _why_not_found(path: Path) -> str:
    """Why a walk did not come by a note that is there."""
    try:
        with opened(path):
            return "not found in its folder"
    except Unreadable as reason:
        return str(reason)
