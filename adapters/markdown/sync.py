"""Table and index follow the files: when the store is opened, when one searches, by notices, and now and then.

Where the system tells of changes in a folder, a search looks at what it was told of since the last look and at nothing
else; where it does not, at all files, if that look is older than ``scan_interval_s``. All files are looked at too when
the store is opened, when a folder begins to be heard, now and then, and where so much was told at once that some of it
may have been lost. Whatever is found is read once: a file whose metadata is what it was is not opened, and one whose
content is what it was changes nothing.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from adapters.index import Index
from adapters.markdown.catalogue import Document, Shelf
from adapters.markdown.files import Root, Seen, Signature, Skip, Unreadable, look, read, scan
from adapters.markdown.items import document_of
from adapters.markdown.options import Options
from fusion.errors import FusionError, StoreDamaged
from fusion.lib.ignore import matcher
from fusion.lib.walk import is_listed
from fusion.lib.watch import Changes, changes, watch

BATCH = 200
"""files read between two commits of the index"""

MOST_TOLD = 200
"""paths told of since the last look that are looked at one by one; where there are more, all files are"""

QUIET_MS = 50
"""changes are reported when there was none for so long: a search sees what was written before that. A tenth of it would
take half a percent of a core, all day, for each folder"""
DEBOUNCE_MS = 100
"""and at the latest after this"""

_changes = partial(changes, quiet_ms=QUIET_MS, most_ms=DEBOUNCE_MS)

AGAIN_S = 1.0
"""until one tries again to hear of changes in a folder that is not there, or that could not be watched"""


@dataclass(frozen=True, slots=True)
class Timing:
    """What time is to a store: seconds that pass, waiting for them, and hearing of changes."""

    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    changes: Changes = _changes


@dataclass(slots=True)
class _Read:
    """What came of reading some files. ``settled``: their content is what it was, in this state of the file.

    ``passing``: the paths of those that must be read again, though nothing may tell of it: they were being written.
    """

    documents: list[Document] = field(default_factory=list)
    settled: dict[str, Signature] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    passing: list[str] = field(default_factory=list)


class Sync:
    """Keeps a shelf and an index in step with the files of some roots. ``folder`` is the store's own.

    ``writing`` is held by whoever changes files, shelf or index. Without an ``index`` only the shelf is kept in step.
    """

    def __init__(self, roots: Sequence[Root], options: Options, folder: Path, shelf: Shelf, timing: Timing) -> None:
        self.roots = roots
        self.shelf = shelf
        self.index: Index | None = None
        self.trouble = ""
        self.writing = asyncio.Lock()
        self._options = options
        self._folder = folder
        self._timing = timing
        self._skips: dict[str, list[Skip]] = {}
        self._refused: dict[str, tuple[Signature, str]] = {}  # files that will not be read until they change
        self._doomed: dict[str, None] = {}  # keys that the index still holds though their items are gone
        self._dirty = {root.name for root in roots}  # to be looked through
        self._told: dict[str, set[str]] = {}  # the paths of others that alone are to be looked at
        self._unsettled: dict[str, set[str]] = {}
        self._noticed = asyncio.Event()
        self._hearing: set[str] = set()
        self._deaf: dict[str, str] = {}
        self._next_look = timing.clock() + options.scan_interval_s
        self._following: asyncio.Task[None] | None = None
        self._behind: list[asyncio.Task[None]] = []
        self._closed = False

    @property
    def remarks(self) -> list[str]:
        """What is to be said of single files."""
        said = [str(skip) for skips in self._skips.values() for skip in skips]
        said += [f"{name}: {remark}" for name, known in self.shelf.documents.items() for remark in known.remarks]
        said += [f"{name}: changes are not heard of, so each search looks: {why}" for name, why in self._deaf.items()]
        return said

    @property
    def faults(self) -> list[str]:
        """What does not work that should."""
        said = [f"the files could not be looked through: {self.trouble}"] if self.trouble else []
        away = [root.folder for root in self.roots if root.name in self.shelf.hidden]
        return said + [f"{folder} is away: what it held is kept, and shown again when it is back" for folder in away]

    def begin(self) -> None:
        """From now on changes are followed behind."""
        works: list[Coroutine[Any, Any, None]] = [self._follow_notices()]
        if self._options.watch:
            works += [self._hear(root) for root in self.roots]
        if self._options.interval_s:
            works.append(self._follow_now_and_then())
        self._behind = [asyncio.create_task(work) for work in works]

    async def end(self) -> None:
        """Nothing is followed any more; what is being written is brought to its end."""
        self._closed = True
        for task in self._behind:
            task.cancel()
        await asyncio.gather(*self._behind, return_exceptions=True)
        if self._following is not None:
            await self._following

    async def freshen(self, deadline_s: float | None = None) -> None:
        """Follow the files if need be; where that takes more than half the time, who asked goes on with what he has."""
        if self._following is None or self._following.done():
            if not self._due():
                return
            self._following = asyncio.create_task(self.follow())
        await asyncio.wait({self._following}, timeout=None if deadline_s is None else deadline_s / 2)

    async def refresh(self) -> None:
        """Look at all files now, and follow what changed."""
        async with self.writing:
            if not self._closed:
                await self.sync(self.roots)

    async def sync(self, some: Sequence[Root]) -> None:
        """Bring table and index into step with the files of some roots. Called by whoever holds ``writing``."""
        for root in some:
            self._dirty.discard(root.name)
            self._told.pop(root.name, None)
            seen = await asyncio.to_thread(self._look, root)
            if root.name not in self.shelf.hidden:
                present = {file.document for file in seen}
                ours = [name for name in self.shelf.documents if name.startswith(f"{root.name}/")]
                await self._take_in(root, seen, [name for name in ours if name not in present])

    async def _sync_told(self, root: Root) -> None:
        """As ``sync``, of what was told of a root since the last look, and of nothing else where that is enough."""
        told = self._told.pop(root.name)
        few = len(told) <= MOST_TOLD and root.name not in self.shelf.hidden
        found = await asyncio.to_thread(look, root, told) if few else None
        if found is None:
            await self.sync([root])
            return
        seen, gone = found[0], {root.document(path) for path in found[1]}
        names = {file.document for file in seen} | gone
        skips = [skip for skip in self._skips.get(root.name, ()) if skip.document not in names]
        self._skips[root.name] = [*skips, *self._still_refused(seen)]
        below = tuple(f"{name}/" for name in names)  # what was a folder
        await self._take_in(root, seen, [n for n in self.shelf.documents if n in gone or n.startswith(below)])

    async def _take_in(self, root: Root, seen: Sequence[Seen], gone: Sequence[str]) -> None:
        """Files as they were seen, and documents whose files are gone."""
        changed = [file for file in seen if self._changed(file)]
        settled: dict[str, Signature] = {}
        for first in range(0, max(len(changed), 1), BATCH):
            if self._closed:
                return
            found = await asyncio.to_thread(self._read, changed[first : first + BATCH])
            await self._commit(found.documents, [*gone, *found.refused])
            gone = []
            settled |= found.settled
            if found.passing:
                self._unsettled.setdefault(root.name, set()).update(found.passing)
                self._noticed.set()
        await self.shelf.settle(settled, await self.stamp())

    async def repair(self) -> str | None:
        """Reads all files anew where the shelf is damaged, and says how; what is on it is served meanwhile. Called by
        whoever holds ``writing``."""
        try:
            await self.shelf.check()
        except StoreDamaged as error:
            anew = Sync(self.roots, self._options, self._folder, await self.shelf.anew(), self._timing)
            await anew.sync(self.roots)
            damaged, self.shelf = self.shelf, anew.shelf
            await damaged.discard()
            return str(error)
        return None

    async def stamp(self) -> str:
        """The index's, to stand on the shelf beside what it holds."""
        return "" if self.index is None else await asyncio.to_thread(lambda index: str(index.stamp), self.index)

    # When

    def _due(self) -> bool:
        now = self._timing.clock()
        if self._closed or (self.trouble and now < self._next_look):
            return False
        if self._dirty or self._told:
            return True
        return now >= self._next_look and not all(root.name in self._hearing for root in self.roots)

    async def follow(self) -> None:
        """A look whose failure costs no search: what was known goes on, and the description says what is wrong."""
        dirty, deaf = set(self._dirty), {root.name for root in self.roots} - self._hearing
        told = set(self._told)
        now = self._timing.clock()
        if now >= self._next_look:
            dirty |= deaf
        self._next_look = now + self._options.scan_interval_s
        try:
            async with self.writing:
                for root in self.roots:
                    if self._closed:
                        break
                    if root.name in dirty:
                        await self.sync([root])
                    elif root.name in self._told:
                        await self._sync_told(root)
            self.trouble = ""
        except (OSError, FusionError) as error:
            self._dirty |= dirty | told
            self.trouble = str(error)

    def mark(self, root: Root, paths: Iterable[str] | None = None) -> None:
        """Something changed in a root, at these paths or anywhere: who searches next looks at it."""
        if paths is None:
            self._dirty.add(root.name)
        else:
            self._told.setdefault(root.name, set()).update(paths)
        self._noticed.set()

    async def _follow_notices(self) -> None:
        """What was noticed is followed after a while, in which an editor may finish, unless a search was first."""
        while True:
            await self._noticed.wait()
            await self._timing.pause(self._options.debounce_s)
            self._noticed.clear()
            for name, paths in self._unsettled.items():
                self._told.setdefault(name, set()).update(paths)
            self._unsettled.clear()
            if self._dirty or self._told:
                await self.freshen()
            if self.trouble:
                self._noticed.set()

    async def _follow_now_and_then(self) -> None:
        while True:
            await self._timing.pause(self._options.interval_s)
            for root in self.roots:
                self.mark(root)

    async def _hear(self, root: Root) -> None:
        """Marks a root when something changes in it, as long as its folder is the same one; then listens anew."""
        timing = self._timing
        async with aclosing(
            watch(root.folder, timing.changes, recursive=not root.only, retry_s=AGAIN_S, pause=timing.pause)
        ) as notices:
            async for notice in notices:
                if notice.watching:
                    self._hearing.add(root.name)
                    self._deaf.pop(root.name, None)
                else:
                    self._hearing.discard(root.name)
                    if notice.error and root.folder.exists():
                        self._deaf[root.name] = notice.error
                changed = [path for path in notice.paths or () if self._is_meant(root, path)]
                if notice.paths is None or not all(path.is_relative_to(root.folder) for path in changed):
                    self.mark(root)
                elif changed:
                    self.mark(root, [path.relative_to(root.folder).as_posix() for path in changed])

    def _is_meant(self, root: Root, path: Path) -> bool:
        """Whether a look would come by a path. What is gone, and a folder, may have held anything."""
        if path.is_relative_to(self._folder) and not root.own:
            return False
        if not path.is_relative_to(root.folder):
            return True
        way = path.relative_to(root.folder)
        if root.only:
            return way.as_posix() in root.only
        if not is_listed(way.as_posix(), matcher(self._patterns(root)), path.is_dir()):
            return False
        return path.suffix.lower() in root.suffixes or not path.is_file()

    # What

    def _patterns(self, root: Root) -> Sequence[str]:
        # In its own folder only the gateway decides what counts.
        return (".*",) if root.own else self._options.ignore

    def _look(self, root: Root) -> list[Seen]:
        seen, skips = scan(root, self._patterns(root), self._folder)
        if any(skip.document == str(root.folder) for skip in skips):
            self.shelf.hidden.add(root.name)
        else:
            self.shelf.hidden.discard(root.name)
        self._skips[root.name] = [*skips, *self._still_refused(seen)]
        return seen

    def _still_refused(self, seen: Sequence[Seen]) -> list[Skip]:
        """Of files that were refused, those that are what they were; the others may be read again."""
        skips: list[Skip] = []
        for file, signature, reason in [(f, *self._refused[f.document]) for f in seen if f.document in self._refused]:
            if file.signature == signature:
                skips.append(Skip(file.document, reason))
            else:
                del self._refused[file.document]
        return skips

    def _changed(self, file: Seen) -> bool:
        known = self.shelf.documents.get(file.document)
        return file.document not in self._refused and (known is None or known.signature != file.signature)

    def _read(self, files: Iterable[Seen]) -> _Read:
        """The documents of files that could be read and are not what they were; the others are noted as skipped."""
        found = _Read()
        for file in files:
            try:
                limit, setting = self._options.limit_of(file.path)
                content = read(file.root, file.path, sys.maxsize if file.root.own else limit, setting)
                settled = content.settled
                known = self.shelf.documents.get(file.document)
                if known is None or known.digest != content.digest:
                    found.documents.append(document_of(file, content, self._options))
                elif settled is not None:
                    found.settled[file.document] = settled
                if settled is None:
                    found.passing.append(file.path)
            except Unreadable as error:
                self._skips[file.root.name].append(Skip(file.document, str(error)))
                if error.passing:
                    found.passing.append(file.path)
                else:
                    self._refused[file.document] = (file.signature, str(error))
                    found.refused.append(file.document)
        return found

    async def _commit(self, read: Sequence[Document], gone: Sequence[str]) -> None:
        """New entries into the index, then the table's step, then old entries out: whoever reads the index at any
        moment finds the table's present state in it, and passes over the rest."""
        if self.index is None:
            await self.shelf.change(read, gone)
            return
        before = await self.shelf.keys([*(document.name for document in read), *gone])
        after = {entry.key: entry for document in read for item in document.items for entry in item.entries}
        self._doomed.update(dict.fromkeys(key for key in before if key not in after))
        if fresh := [entry for key, entry in after.items() if before.get(key) != entry]:
            await self.index.put(fresh)
        await self.shelf.change(read, gone)
        if self._doomed:
            doomed = list(self._doomed)
            alive = {entry.key for entry in await asyncio.to_thread(self.shelf.pick, doomed)}
            await self.index.drop([key for key in doomed if key not in alive])
            self._doomed.clear()
