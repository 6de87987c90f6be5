"""Keep the item table and the index in step with the files: at opening, before a search, on change events, and in
periodic scans.

Where the system reports changes in a folder, a search reads only the files reported since the last scan. Elsewhere it
scans all files if the last scan is older than ``scan_interval_s``. A full scan also happens at opening, when a watch
begins, periodically, and after a burst of events in which some may have been lost. A file is opened only if its
metadata changed, and indexed again only if its content did.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adapters.index import Index
from adapters.markdown.catalogue import Document, ItemTable
from adapters.markdown.files import Root, Seen, Signature, Skip, Unreadable, look, read, scan
from adapters.markdown.items import document_of
from adapters.markdown.options import Options
from fusion.errors import FusionError, StoreDamaged
from fusion.lib.ignore import matcher
from fusion.lib.walk import is_listed
from fusion.lib.watch import Changes, changes, watch

BATCH = 200
"""files read between two commits of the index"""

MAX_CHANGED_PATHS = 200
"""maximum changed paths for which a search reads just those files; with more it scans all"""

AGAIN_S = 1.0
"""seconds until the watch of a missing or unwatchable folder is tried again"""


@dataclass(frozen=True, slots=True)
class Timing:
    """The clock, sleep and file watch of a store; tests pass their own."""

    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    changes: Changes = changes


@dataclass(slots=True)
class _Read:
    """The result of reading some files. ``settled`` have a new state but the same content.

    ``passing`` are paths that were being written and must be read again, even without a change event.
    """

    documents: list[Document] = field(default_factory=list)
    settled: dict[str, Signature] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    passing: list[str] = field(default_factory=list)


class Sync:
    """Keeps the item table and the index in step with the files of some roots. ``folder`` is the store's own.

    Changing files, table or index requires the lock ``writing``. Without an ``index`` only the table is kept in step.
    """

    def __init__(self, roots: Sequence[Root], options: Options, folder: Path, table: ItemTable, timing: Timing) -> None:
        self.roots = roots
        self.table = table
        self.index: Index | None = None
        self.trouble = ""
        self.writing = asyncio.Lock()
        self._options = options
        self._folder = folder
        self._timing = timing
        self._skips: dict[str, list[Skip]] = {}
        self._refused: dict[str, tuple[Signature, str]] = {}  # files that will not be read until they change
        self._to_drop: dict[str, None] = {}  # keys that the index still holds though their items are gone
        self._dirty = {root.name for root in roots}  # to be looked through
        self._changed_paths: dict[str, set[str]] = {}  # the paths of others that alone are to be looked at
        self._unsettled: dict[str, set[str]] = {}
        self._noticed = asyncio.Event()
        self._watched: set[str] = set()
        self._unwatched: dict[str, str] = {}
        self._next_look = timing.clock() + options.scan_interval_s
        self._following: asyncio.Task[None] | None = None
        self._behind: list[asyncio.Task[None]] = []
        self._closed = False

    @property
    def remarks(self) -> list[str]:
        """Notes on single files, for a description of the backend."""
        said = [str(skip) for skips in self._skips.values() for skip in skips]
        said += [f"{name}: {remark}" for name, known in self.table.documents.items() for remark in known.remarks]
        said += [
            f"{name}: change events do not arrive, so each search scans: {why}" for name, why in self._unwatched.items()
        ]
        return said

    @property
    def faults(self) -> list[str]:
        """The current faults, for a description of the backend."""
        said = [f"the files could not be looked through: {self.trouble}"] if self.trouble else []
        away = [root.folder for root in self.roots if root.name in self.table.hidden]
        return said + [f"{folder} is away: what it held is kept, and shown again when it is back" for folder in away]

    def begin(self) -> None:
        """Start to follow changes in the background."""
        works: list[Coroutine[Any, Any, None]] = [self._follow_notices()]
        if self._options.watch:
            works += [self._watch(root) for root in self.roots]
        if self._options.interval_s:
            works.append(self._follow_now_and_then())
        self._behind = [asyncio.create_task(work) for work in works]

    async def end(self) -> None:
        """Stop following changes; finish the current write."""
        self._closed = True
        for task in self._behind:
            task.cancel()
        await asyncio.gather(*self._behind, return_exceptions=True)
        if self._following is not None:
            await self._following

    async def before_search(self, deadline_s: float) -> None:
        """Sync before a search unless ``sync_on_search`` is off; give up after half of ``deadline_s``."""
        if self._options.sync_on_search:
            await self.freshen(deadline_s)

    def session_started(self) -> None:
        """Scan all files soon, because a session starts: a change event may have been lost."""
        if self._options.sync_on_session_start:
            self._mark_all()

    async def freshen(self, deadline_s: float | None = None) -> None:
        """Sync if needed; give up after half of ``deadline_s``, and search the last state."""
        if self._following is None or self._following.done():
            if not self._due():
                return
            self._following = asyncio.create_task(self.follow())
        await asyncio.wait({self._following}, timeout=None if deadline_s is None else deadline_s / 2)

    async def refresh(self) -> None:
        """Scan all files now and index what changed."""
        async with self.writing:
            if not self._closed:
                await self.sync(self.roots)

    async def sync(self, some: Sequence[Root]) -> None:
        """Bring table and index into step with the files of some roots. The caller holds ``writing``."""
        for root in some:
            self._dirty.discard(root.name)
            self._changed_paths.pop(root.name, None)
            seen = await asyncio.to_thread(self._look, root)
            if root.name not in self.table.hidden:
                present = {file.document for file in seen}
                ours = [name for name in self.table.documents if name.startswith(f"{root.name}/")]
                await self._take_in(root, seen, [name for name in ours if name not in present])

    async def sync_paths(self, root: Root, paths: Iterable[str]) -> None:
        """As ``sync``, but of these files and of those that were reported since the last scan."""
        self._changed_paths.setdefault(root.name, set()).update(paths)
        await self._sync_reported(root)

    async def sync_known(self, root: Root, paths: Iterable[str]) -> None:
        """As ``sync_paths`` where the system reports what else changes; elsewhere as ``sync``."""
        if root.name in self._watched and root.name not in self._dirty:
            await self.sync_paths(root, paths)
        else:
            await self.sync([root])

    async def _sync_reported(self, root: Root) -> None:
        """As ``sync``, but read only the files of a root that were reported since the last scan, if that suffices."""
        reported = self._changed_paths.pop(root.name)
        few = len(reported) <= MAX_CHANGED_PATHS and root.name not in self.table.hidden
        found = await asyncio.to_thread(look, root, reported) if few else None
        if found is None:
            await self.sync([root])
            return
        seen, gone = found[0], {root.document(path) for path in found[1]}
        names = {file.document for file in seen} | gone
        skips = [skip for skip in self._skips.get(root.name, ()) if skip.document not in names]
        self._skips[root.name] = [*skips, *self._still_refused(seen)]
        below = tuple(f"{name}/" for name in names)  # what was a folder
        await self._take_in(root, seen, [n for n in self.table.documents if n in gone or n.startswith(below)])

    async def _take_in(self, root: Root, seen: Sequence[Seen], gone: Sequence[str]) -> None:
        """Index changed files, and drop the documents of deleted ones."""
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
        await self.table.settle(settled, await self.stamp())

    async def repair(self) -> str | None:
        """If the table is damaged, build a new one from the files and return the damage; meanwhile the old one is
        served. The caller holds ``writing``."""
        try:
            await self.table.check()
        except StoreDamaged as error:
            rebuilt = Sync(self.roots, self._options, self._folder, await self.table.open_replacement(), self._timing)
            await rebuilt.sync(self.roots)
            damaged, self.table = self.table, rebuilt.table
            await damaged.discard()
            return str(error)
        return None

    async def stamp(self) -> str:
        """The index's stamp, which the table stores with its items."""
        return "" if self.index is None else await asyncio.to_thread(lambda index: str(index.stamp), self.index)

    # When

    def _due(self) -> bool:
        now = self._timing.clock()
        if self._closed or (self.trouble and now < self._next_look):
            return False
        if self._dirty or self._changed_paths:
            return True
        return now >= self._next_look and not all(root.name in self._watched for root in self.roots)

    async def follow(self) -> None:
        """A scan whose failure fails no search: the last state is served, and the description reports the fault."""
        dirty, unwatched = set(self._dirty), {root.name for root in self.roots} - self._watched
        reported = set(self._changed_paths)
        now = self._timing.clock()
        if now >= self._next_look:
            dirty |= unwatched
        self._next_look = now + self._options.scan_interval_s
        try:
            async with self.writing:
                for root in self.roots:
                    if self._closed:
                        break
                    if root.name in dirty:
                        await self.sync([root])
                    elif root.name in self._changed_paths:
                        await self._sync_reported(root)
            self.trouble = ""
        except (OSError, FusionError) as error:
            self._dirty |= dirty | reported
            self.trouble = str(error)

    def mark(self, root: Root, paths: Iterable[str] | None = None) -> None:
        """Note a change in a root, at these paths or anywhere; the next search reads it."""
        if paths is None:
            self._dirty.add(root.name)
        else:
            self._changed_paths.setdefault(root.name, set()).update(paths)
        self._noticed.set()

    async def _follow_notices(self) -> None:
        """Index reported changes after a pause in which an editor may finish, unless a search did so before."""
        while True:
            await self._noticed.wait()
            await self._timing.pause(self._options.debounce_s)
            self._noticed.clear()
            for name, paths in self._unsettled.items():
                self._changed_paths.setdefault(name, set()).update(paths)
            self._unsettled.clear()
            if self._dirty or self._changed_paths:
                await self.freshen()
            if self.trouble:
                self._noticed.set()

    async def _follow_now_and_then(self) -> None:
        while True:
            await self._timing.pause(self._options.interval_s)
            self._mark_all()

    def _mark_all(self) -> None:
        for root in self.roots:
            self.mark(root)

    async def _watch(self, root: Root) -> None:
        """Mark a root when something in it changes; when its folder is replaced, watch the new one."""
        timing = self._timing
        async with aclosing(
            watch(root.folder, timing.changes, recursive=not root.only, retry_s=AGAIN_S, pause=timing.pause)
        ) as notices:
            async for notice in notices:
                if notice.watching:
                    self._watched.add(root.name)
                    self._unwatched.pop(root.name, None)
                else:
                    self._watched.discard(root.name)
                    if notice.error and root.folder.exists():
                        self._unwatched[root.name] = notice.error
                changed = [path for path in notice.paths or () if self._would_be_scanned(root, path)]
                if notice.paths is None or not all(path.is_relative_to(root.folder) for path in changed):
                    self.mark(root)
                elif changed:
                    self.mark(root, [path.relative_to(root.folder).as_posix() for path in changed])

    def _would_be_scanned(self, root: Root, path: Path) -> bool:
        """Whether a scan would read a path. True for folders and for deleted paths: they may have held files."""
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
            self.table.hidden.add(root.name)
        else:
            self.table.hidden.discard(root.name)
        self._skips[root.name] = [*skips, *self._still_refused(seen)]
        return seen

    def _still_refused(self, seen: Sequence[Seen]) -> list[Skip]:
        """Refused files that have not changed since; the others may be read again."""
        skips: list[Skip] = []
        for file, signature, reason in [(f, *self._refused[f.document]) for f in seen if f.document in self._refused]:
            if file.signature == signature:
                skips.append(Skip(file.document, reason))
            else:
                del self._refused[file.document]
        return skips

    def _changed(self, file: Seen) -> bool:
        known = self.table.documents.get(file.document)
        return file.document not in self._refused and (known is None or known.signature != file.signature)

    def _read(self, files: Iterable[Seen]) -> _Read:
        """The documents of the changed files; unreadable files are noted as skipped."""
        found = _Read()
        for file in files:
            try:
                limit, setting = self._options.limit_of(file.path)
                content = read(file.root, file.path, sys.maxsize if file.root.own else limit, setting)
                settled = content.settled
                known = self.table.documents.get(file.document)
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
        """Add new entries to the index, then change the table, then drop old entries: at any moment the index has all
        entries of the table, and a reader skips the others."""
        if self.index is None:
            await self.table.change(read, gone)
            return
        before = await self.table.keys([*(document.name for document in read), *gone])
        after = {entry.key: entry for document in read for item in document.items for entry in item.entries}
        self._to_drop.update(dict.fromkeys(key for key in before if key not in after))
        if fresh := [entry for key, entry in after.items() if before.get(key) != entry]:
            await self.index.put(fresh)
        await self.table.change(read, gone)
        if self._to_drop:
            to_drop = list(self._to_drop)
            alive = {entry.key for entry in await asyncio.to_thread(self.table.pick, to_drop)}
            await self.index.drop([key for key in to_drop if key not in alive])
            self._to_drop.clear()
