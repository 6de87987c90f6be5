"""Keeps the memories of folders of notes up to date while the server runs, in the background.

Markdown is read as by `fusion ingest`. Changed files are read shortly after their change events; all files are checked
at the start and at intervals, because events can be lost. A file that has a bookmark and is unchanged is not opened. A
bookmark is set once all memories of a file are in the journal and the lost ones are retired, so an interrupted round is
repeated. It is valid only while the journal has as many memories of the file as then.

A file that cannot be read retires nothing. Neither does a folder without notes, nor a named file whose folder is empty:
an unmounted disk looks like that.
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
from fusion.journal.retire import CompleteFile, SourceCount
from fusion.lib.ignore import ALWAYS, matcher
from fusion.lib.watch import changes, watch
from fusion.sources.bookmarks import Bookmark, Bookmarks, is_untouched
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
from fusion.sources.ingest_lock import lock_for_server
from fusion.sources.readers import markdown
from fusion.sources.session_watcher import Remember, remember_each

BATCH = 25
"""memories of one call of remember; files are read until there are so many"""
PAGE = 1000
MAX_CHANGED_PATHS = 100
"""changed paths that are checked one by one; with more, all files are checked"""
QUIET_MS = 300
"""milliseconds without another change after which a change is read"""
DEBOUNCE_MS = 1500
"""milliseconds after which a change is read at the latest (seed 001)"""
BOOKMARKS_S = 2.0
"""seconds between two writes of bookmarks in a long round: a server that is killed repeats at most so much"""
RETRY_S = 5.0
"""seconds until a failed round, and watching a path, is tried again"""
BUSY_RETRY_S = 1.0
"""seconds until a round is tried again that `fusion ingest` locked out"""

_changes = partial(changes, quiet_ms=QUIET_MS, most_ms=DEBOUNCE_MS)

log = logging.getLogger(__name__)


class NoteStore(Protocol):
    """Stores the memories of files; the home's `Intake` implements it."""

    @property
    def remember(self) -> Remember: ...

    async def retire(self, scope: Scope, files: Sequence[CompleteFile]) -> Mapping[str, int]: ...

    async def sources(self, scope: Scope, prefix: str, after: str, limit: int) -> Sequence[SourceCount]: ...


@dataclass
class _Read:
    """The memories of some files; for those that were read to their end, the revisions and a bookmark, too."""

    files: int = 0
    memories: list[NewMemory] = field(default_factory=list)
    whole: list[CompleteFile] = field(default_factory=list)
    marks: dict[str, Bookmark] = field(default_factory=dict)

    def add_complete(self, source: str, revisions: Sequence[str], mark: Bookmark | None) -> None:
        self.whole.append(CompleteFile(source, tuple(revisions)))
        if mark is not None:
            self.marks[source] = mark


@dataclass(eq=False)
class NoteWatcher:
    """Follows the Markdown at and below ``paths``, except what the patterns ``ignore`` match.

    The memories belong to ``owner``; bookmarks are kept in ``home``.
    """

    paths: Sequence[Path]
    owner: Scope
    home: Path
    store: NoteStore
    ignore: Sequence[str] = ()
    every_s: float = 300.0
    limits: Limits = DEFAULT_LIMITS
    first_round_done: asyncio.Event = field(default_factory=asyncio.Event)
    """set once the first round is over, also if it failed"""
    _changed: set[Path] | None = None
    """the paths that changed since the last round; None: any may have"""
    _event: asyncio.Event = field(default_factory=asyncio.Event)
    _marks: dict[str, Bookmark] = field(default_factory=dict)
    """the bookmarks of this run by source; a home keeps a bounded number of them"""
    _unwritten: set[str] = field(default_factory=set)
    """the sources of bookmarks that are not written to the home yet"""
    _sources: set[str] = field(default_factory=set)
    """the sources at these paths that have memories"""
    _error: str = ""
    _empty: dict[Path, bool] = field(default_factory=dict)
    """paths where no note is found, and whether there are memories of them"""
    _unwatched: dict[Path, str] = field(default_factory=dict)
    _unread: dict[str, str] = field(default_factory=dict)
    """why notes could not be read, by source"""
    linked: Mapping[str, int] = field(default_factory=dict)
    """the number of links below these paths by kind; none is followed"""

    @property
    def faults(self) -> list[str]:
        """The faults, one sentence each."""
        faults = [f"notes are not followed now, which is tried again: {self._error}"] if self._error else []
        for path, kept in self._empty.items():
            faults.append(f"{path} is away or empty" + (": what was read of it is kept" if kept else ""))
        faults += [
            f"{path}: there are no change events, so all its files are checked: {why}"
            for path, why in self._unwatched.items()
        ]
        if self._unread:
            source, reason = next(iter(self._unread.items()))
            more = f" and {len(self._unread) - 1} more" if len(self._unread) > 1 else ""
            faults.append(f"notes that cannot be read keep their earlier memories: {source[5:]}{more}: {reason}")
        return faults

    def __post_init__(self) -> None:
        self._ignored = matcher((*ALWAYS, *self.ignore))

    async def run(self) -> None:
        """Follows the notes until it is cancelled. A round that fails is reported and tried again."""
        followers = [asyncio.create_task(self._follow(path)) for path in self.paths]
        try:
            while True:
                pause_s = await self._attempt()
                self.first_round_done.set()
                try:
                    async with asyncio.timeout(pause_s):
                        await self._event.wait()
                except TimeoutError:
                    self._changed = self._changed or None
        finally:
            for task in followers:
                task.cancel()
            await asyncio.gather(*followers, return_exceptions=True)

    async def _attempt(self) -> float:
        """Runs a round; returns the seconds to wait then, if nothing changes."""
        try:
            await self.round()
            self._error = ""
            return self.every_s
        except StoreBusy:
            return BUSY_RETRY_S
        except Exception as error:  # noqa: BLE001 — of any kind: it must be reported that notes are not followed
            self._error = str(error) if isinstance(error, FusionError | OSError) else repr(error)
            log.warning("notes were not followed this time: %s", self._error)
            return RETRY_S

    async def round(self) -> int:
        """Reads what changed; returns how many files were read, or are gone.

        Raises StoreBusy while `fusion ingest` reads. The next round continues one that was interrupted.
        """
        self._event.clear()
        changed, self._changed = self._changed, set()
        try:
            with lock_for_server(self.home):  # also for the check, which would be in vain while a command reads
                due, gone = await self._find_due(changed)
            count = len(due) + len(gone)
            written = time.monotonic()
            while due:
                began = time.monotonic()
                with lock_for_server(self.home):
                    due = due[await self._update(due) :]
                if began - written > BOOKMARKS_S:
                    await asyncio.to_thread(self._write_bookmarks)
                    written = began
                await asyncio.sleep(time.monotonic() - began)  # leaves half of the time for questions
            if gone:
                with lock_for_server(self.home):
                    still = [CompleteFile(source) for source in gone if is_gone(Path(source[5:]))]
                    await self.store.retire(self.owner, still)
                self._sources.difference_update(gone)
            return count
        except BaseException:
            self._changed = None if changed is None or self._changed is None else self._changed | changed
            raise
        finally:
            if self._unwritten:
                await asyncio.to_thread(self._write_bookmarks)

    # What changed ----------------------------------------------------------------------------------------------------

    async def _find_due(self, changed: set[Path] | None) -> tuple[Sequence[File], Sequence[str]]:
        """The files to read, and the sources whose files are gone."""
        if changed is not None and len(changed) <= MAX_CHANGED_PATHS:
            found = await asyncio.to_thread(self._check, changed)
            if found is not None:
                return found, ()
        counts = {row.source: row.memories for path in self.paths async for row in self._sources_below(path.resolve())}
        self._sources = set(counts)
        return await asyncio.to_thread(self._check_all, counts)

    def _check(self, changed: set[Path]) -> list[File] | None:
        """The files at these paths; None if all files must be checked: a path is a folder, or a known file is gone."""
        for path in changed:
            below = f"file:{path}{os.sep}"
            gone = is_gone(path) and any(s == below[:-1] or s.startswith(below) for s in self._sources)
            if gone or is_folder(path):
                return None
        notes = [path for path in changed if form_of(path) == "markdown" and is_file(path)]
        found = [file_at(path, self.paths, self._ignored) for path in notes]
        return [file for file in found if file is not None]

    def _check_all(self, counts: Mapping[str, int]) -> tuple[list[File], list[str]]:
        marks = Bookmarks(self.home, self.owner)
        passed: Counter[str] = Counter()
        every = list(files(self.paths, passed, self._ignored))
        self.linked = linked(every, passed)
        notes = (f for f in every if isinstance(f, File) and f.form == "markdown")
        found = {f"file:{file.path}": file for file in notes}
        self._unread = {source: why for source, why in self._unread.items() if source in found}
        self._empty, gone = {}, dict[str, None]()
        for path in self.paths:
            root = path.resolve()
            here = f"file:{root}"
            known = {source for source in counts if source == here or source.startswith(here + os.sep)}
            if here in known and _was_deleted(root):
                known.remove(here)
                gone[here] = None
            if not any(s == here or s.startswith(here + os.sep) for s in found) and (
                known or not (is_folder(root) or is_file(root))
            ):
                self._empty[path] = bool(known)
                continue
            for source in sorted(known - found.keys()):
                missing = Path(source[5:])
                if is_gone(missing):
                    gone[source] = None
                elif form_of(missing) == "markdown" and is_below(missing, root, self._ignored):
                    self._unread[source] = _why_not_found(missing)
        due = [file for source, file in found.items() if not self._is_unchanged(source, file, marks, counts)]
        kept = tuple(f"file:{path.resolve()}{os.sep}" for path in self._empty)  # such as a disk below another folder
        return due, [source for source in gone if not source.startswith(kept)]

    def _is_unchanged(self, source: str, file: File, marks: Bookmarks, counts: Mapping[str, int]) -> bool:
        """Whether neither a file nor its memories changed since it was read."""
        mark = self._marks.get(source) or marks.find(str(file.path))
        try:
            return mark is not None and mark.memories == counts.get(source, 0) and is_untouched(mark, file.path.lstat())
        except OSError:  # gone since; reading it reports why
            return False

    async def _sources_below(self, root: Path) -> AsyncIterator[SourceCount]:
        """The sources at a path or below it, with the number of current memories of each."""
        prefix, after = f"file:{root}", ""
        while page := await self.store.sources(self.owner, prefix, after, PAGE):
            for row in page:
                if row.source == prefix or row.source.startswith(prefix + os.sep):
                    yield row
            after = page[-1].source

    # Reading the files -----------------------------------------------------------------------------------------------

    async def _update(self, due: Sequence[File]) -> int:
        """Remembers the first of these files and retires what they lost; returns how many files were read."""
        read = await asyncio.to_thread(self._read, due)
        for first in range(0, len(read.memories), BATCH):
            await remember_each(self.store.remember, read.memories[first : first + BATCH])
        await self.store.retire(self.owner, read.whole)
        for source, mark in read.marks.items():
            kept = [row for row in await self.store.sources(self.owner, source, "", 1) if row.source == source]
            self._marks[source] = replace(mark, memories=sum(row.memories for row in kept))
            self._sources.add(source)
            self._unwritten.add(source)
        return read.files

    def _read(self, due: Sequence[File]) -> _Read:
        """Reads the first of these files, until there are `BATCH` memories."""
        read = _Read()
        for file in due:
            source, problem = f"file:{file.path}", ""
            for item in markdown(file, self.owner, read.add_complete, limits=self.limits):
                if isinstance(item, Skip):
                    problem = (
                        item.reason if item.where == str(file.path) else f"{file.bytes / 1e6:,.1f} MB, {item.reason}"
                    )
                else:
                    read.memories.append(item)
            read.files += 1
            if not problem or (read.whole and read.whole[-1].source == source):
                self._unread.pop(source, None)
            elif self._unread.get(source) != problem:
                self._unread[source] = problem
                log.warning("a note was not read: %s: %s", file.path, problem)
            if len(read.memories) >= BATCH:
                break
        return read

    def _write_bookmarks(self) -> None:
        """Writes the new bookmarks to the home."""
        marks = Bookmarks(self.home, self.owner)
        while self._unwritten:
            source = self._unwritten.pop()
            marks.set(source[5:], self._marks[source])
        marks.commit()

    # Change events ---------------------------------------------------------------------------------------------------

    def _add_changes(self, paths: set[Path] | None) -> None:
        self._changed = None if paths is None or self._changed is None else self._changed | paths
        self._event.set()

    async def _follow(self, path: Path) -> None:
        """Collects the change events of one path."""
        async with aclosing(watch(path, _changes, retry_s=RETRY_S)) as notices:
            async for notice in notices:
                if notice.watching:
                    self._unwatched.pop(path, None)
                elif notice.error and (is_folder(path) or is_file(path)):
                    self._unwatched[path] = notice.error
                    self._add_changes(None)
                if notice.paths is None:
                    self._add_changes(None)
                elif changed := {one for one in notice.paths if self._may_be_note(one, path.resolve())}:
                    self._add_changes(changed)

    def _may_be_note(self, path: Path, root: Path) -> bool:
        """Whether a changed path is a note, or may have held notes: a folder, or what is gone."""
        below = is_below(path, root, self._ignored)
        return path == root or (below and (form_of(path) == "markdown" or not is_file(path)))


def _was_deleted(file: Path) -> bool:
    """Whether a file is gone from a folder that is not empty, as that of an unmounted disk would be."""
    try:
        return is_gone(file) and any(file.parent.iterdir())
    except OSError:
        return False


def _why_not_found(path: Path) -> str:
    """Why a walk did not find a note that exists."""
    try:
        with opened(path):
            return "not found in its folder"
    except Unreadable as reason:
        return str(reason)
