"""Markdown as a memory system: folders of the user's, and one of the gateway's own."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import unquote

from adapters.index import Entry, Found, Index
from adapters.markdown import log
from adapters.markdown.files import Root, Seen, Signature, Skip, Unreadable, read, roots, scan
from adapters.markdown.items import document_of, note_item, scope_of, text_of
from adapters.markdown.notes import Notes, file_of, parse, write
from adapters.markdown.options import Options
from adapters.markdown.shelf import Document, Item, Shelf
from fusion.contract import (
    DIMENSIONS,
    KINDS,
    Captured,
    Description,
    Event,
    Features,
    Forgotten,
    Hit,
    Kind,
    Opening,
    Place,
    Query,
    Reading,
    Scope,
)
from fusion.errors import BadInput, FusionError, SettingsError

BATCH = 200
"""files read between two commits of the index"""

NOTES_SHOWN = 20
"""remarks on single files in a description; the rest is counted"""

READ_S = 1.0
"""what a reader of a document has, as the deadline of a search; half of it may go by in looking at the files"""

T = TypeVar("T")


class Markdown:
    """Finds chunks of the user's files and the notes that the gateway was told to remember.

    The files are the truth. A table of chunks in memory and an index in ``folder/index`` follow them: at
    opening, and at a search where the last look is older than ``scan_interval_s``. A search sees each file
    as it was before or after a change, never between. The user's files are never written to.
    """

    def __init__(self, opening: Opening, clock: Callable[[], float]) -> None:
        self._options = Options.of(opening.options)
        self._folder = opening.folder
        self._roots = roots(opening.folder / "notes", self._options.paths)
        for root in self._roots[1:]:
            if root.folder.is_relative_to(os.path.realpath(opening.folder)):
                raise SettingsError(f"[backends.markdown] paths lie in our own folder: {root.folder}")
        self._log = _log_of(self._options.log_folder, self._roots[1:])
        self._notes = Notes(self._roots[0].folder)
        self._embedder = opening.embedder
        self._clock = clock
        kinds: tuple[Kind, ...] = KINDS if self._options.remember_turns else tuple(k for k in KINDS if k != "turn")
        self.features = Features(frozenset(DIMENSIONS), tenants=True, as_of=True, kinds=frozenset(kinds))
        self._shelf = Shelf()
        self._skips: dict[str, list[Skip]] = {}
        self._refused: dict[str, tuple[Signature, str]] = {}  # files that will not be read until they change
        self._doomed: dict[str, None] = {}  # keys that the index still holds though their items are gone
        self._unsure = False  # a write was begun and not brought to its end: what is on disk must be looked at
        self._trouble = ""
        self._writing = asyncio.Lock()
        self._syncing: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._next_scan = clock() + self._options.scan_interval_s
        self._closed = False
        self._index: Index

    @classmethod
    async def open(cls, opening: Opening, *, clock: Callable[[], float] = time.monotonic) -> Self:
        """Read all files and bring the index into step: lexically before this returns, vectors behind."""
        store = cls(opening, clock)
        await asyncio.to_thread(store._notes.prepare)
        for root in store._roots:
            seen = await asyncio.to_thread(store._look, root)
            for page in await asyncio.to_thread(store._read_all, seen):
                store._shelf.put(page)
        store._index = await Index.open(opening.folder / "index", opening.embedder, store._shelf.entries())
        return store

    # Reading

    async def search(self, query: Query) -> Sequence[Hit]:
        if not query.text.strip() or query.limit < 1:
            return []
        await self._freshen(query.deadline_s)
        hits: list[Hit] = []
        for _ in range(3):  # a file replaced between the index's answer and ours would be in neither state: ask again
            generation = self._shelf.generation
            hits = await self._ask(query)
            if generation == self._shelf.generation:
                break
        return hits

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        documents = [self._shelf.holding(hit.native_id) for hit in hits]
        return [d.beside(hit.native_id, span) if d else [] for d, hit in zip(documents, hits, strict=True)]

    async def read(self, name: str) -> Reading | None:
        """A file as it is on disk now, if a scan would read it.

        The name is looked up among those of the last scan and never made into a path by itself; then the file is opened
        below its root without following a link, so that one which was put there since leads nowhere.
        """
        await self._freshen(READ_S)
        root = next((root for root in self._roots if name.startswith(f"{root.name}/")), None)
        if root is None or name not in self._shelf.documents:
            return None
        path = name.removeprefix(f"{root.name}/")
        try:
            content = await asyncio.to_thread(read, root, path, self._options.max_bytes)
        except Unreadable:
            return None
        text = text_of(root, content.data)
        return Reading(name, text, scope_of(root, path, self._options)) if text.strip() else None

    async def refresh(self) -> None:
        """Look at all files now, and follow what changed."""
        await self._finished(self._refresh())

    async def describe(self) -> Description:
        remarks = [str(skip) for skips in self._skips.values() for skip in skips]
        remarks += [f"{d.name}: {remark}" for d in self._shelf.documents.values() for remark in d.remarks]
        notes = remarks[:NOTES_SHOWN]
        if len(remarks) > NOTES_SHOWN:
            notes.append(f"…and {len(remarks) - NOTES_SHOWN} more files")
        if self._trouble:
            notes.insert(0, f"the files could not be looked through: {self._trouble}")
        if self._embedder is None:
            notes.insert(0, "found by words only: no embedding model is set up ([embedder])")
        notes += self._index.faults
        degraded = bool(self._trouble or self._index.faults)
        return Description(len(self._shelf), self._index.vectors, self._index.pending, tuple(notes), degraded)

    async def check(self) -> str | None:
        """The index, which is written again from the files where it is damaged; the files are their owner's."""
        return await self._finished(self._check())

    async def _check(self) -> str | None:
        async with self._writing:
            fault = None if self._closed else await self._index.damage()
            if fault is not None:
                await self._index.rebuild(list(self._shelf.entries()), fault)
        return fault

    async def _ask(self, query: Query) -> list[Hit]:
        width = query.limit
        while True:
            found = await self._index.search(query.text, query.scope, width)
            hits = self._hits(found, query)
            if len(hits) >= query.limit or len(found) < width:
                return hits[: query.limit]
            width *= 4  # some were parts of one entry, or of another time: ask for more

    def _hits(self, found: Iterable[Found], query: Query) -> list[Hit]:
        hits: dict[str, Hit] = {}
        for one in found:
            item = self._shelf.found(one.key)
            if item is None or not _visible(item.hit, query):
                continue
            identity = item.hit.event_id or item.hit.native_id
            if identity not in hits:
                hits[identity] = replace(item.hit, score=one.score)
        return list(hits.values())

    # Writing

    def accepts(self, event: Event) -> bool:
        return event.kind in self.features.kinds

    async def remember(self, batch: Sequence[Captured]) -> Sequence[tuple[str, ...]]:
        """Write notes down; what is already in a user's own file is not copied.

        Raises ``StoreFull``; then nothing that is half an entry is left behind.
        """
        return await self._finished(self._remember([captured.event for captured in batch]))

    async def append(self, text: str, scope: Scope, day: date) -> Place | None:
        """Appends to the user's log of that day, where one is set and whoever is in ``scope`` would find it there."""
        if self._log is None or not scope.admits(self._options.bind):
            return None
        root, folder = self._log
        path = f"{folder}{day.isoformat()}.md"
        start, end = await self._finished(asyncio.to_thread(log.append, root.folder, path, text))
        self._next_scan = self._clock()  # who asks next finds it
        return Place(root.document(path), start, end, "line")

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        return await self._finished(self._forget(event_id, native_ids))

    async def settle(self) -> None:
        await self.refresh()
        await self._index.settle()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        async with self._writing:
            await self._index.close()

    async def _remember(self, batch: Sequence[Event]) -> list[tuple[str, ...]]:
        async with self._writing:
            if any(_source_path(event) for event in batch):
                await self._sync(self._roots)
            elif self._unsure:
                await self._sync(self._roots[:1])
            native: dict[str, tuple[str, ...]] = {}
            files: dict[str, list[Event]] = {}
            for event in batch:
                if event.event_id in native:
                    continue
                native[event.event_id] = self._known(event)
                if not native[event.event_id]:
                    files.setdefault(file_of(event), []).append(event)
            for event, item in await self._append(files):
                native[event.event_id] = (item.hit.native_id,)
            return [native[event.event_id] for event in batch]

    def _known(self, event: Event) -> tuple[str, ...]:
        """The ids under which an event is here already: remembered before, or in the user's file it came from."""
        if items := self._shelf.of_event(event.event_id):
            return tuple(item.hit.native_id for item in items)
        path, place = _source_path(event), event.place
        if path is None or place is None:
            return ()
        # Whoever asks in the event's scope must be able to find it in the file; else it needs an entry of its own.
        asking = replace(event.scope, audience="private")
        for root in self._roots[1:]:
            if not path.is_relative_to(root.folder):
                continue
            document = self._shelf.documents.get(root.document(path.relative_to(root.folder).as_posix()))
            hits = [item.hit for item in document.items] if document else []
            return tuple(
                hit.native_id
                for hit in hits
                if hit.place and hit.place.start <= place.end and place.start <= hit.place.end
                if asking.admits(hit.scope)
            )
        return ()

    async def _append(self, files: dict[str, list[Event]]) -> list[tuple[Event, Item]]:
        """Bring events to disk, then into the index, then into the table: one write a file, one for the index."""
        added: list[tuple[Event, Item]] = []
        grown: list[tuple[str, list[Item], Signature | None]] = []
        self._unsure = bool(files)
        for path, events in files.items():
            name = self._roots[0].document(path)
            text = "".join(write(event) for event in events)
            # What is found is what the file says, so that a later reading finds the same.
            items = [note_item(name, note.event, self._options) for note in parse(text).notes]
            if [item.hit.event_id for item in items] != [event.event_id for event in events]:
                raise BadInput("a note cannot be written down: its times need a zone, its kind must be a known one")
            done = await asyncio.to_thread(self._notes.append, path, text)
            known = self._shelf.documents.get(name)
            untouched = done.before == (known.signature if known else None)
            grown.append((name, items, done.after if untouched else None))
            added += zip(events, items, strict=True)
        if added:
            await self._index.put([entry for _, item in added for entry in item.entries])
        for name, items, signature in grown:
            self._shelf.extend(name, items, signature)
        self._unsure = False
        return added

    async def _forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        own = self._roots[0]
        async with self._writing:
            await self._sync([own])
            items = self._shelf.of_event(event_id)
            for name in {item.hit.native_id.rpartition("#")[0] for item in items}:
                await asyncio.to_thread(self._notes.remove, name.removeprefix(f"{own.name}/"), event_id)
            if items:
                await self._sync([own])
                if self._embedder is not None:
                    await self._embedder.forget([entry.text for item in items for entry in item.entries])
                return "deleted"
            users = {root.name for root in self._roots[1:]}
            if any(native.split("/")[0] in users or self._shelf.holding(native) for native in native_ids):
                return "hidden"
            return "absent"

    # Following the files

    async def _freshen(self, deadline_s: float) -> None:
        """Follow the files if the last look is too old; where that takes long, the search goes on with what it has."""
        if self._syncing is None or self._syncing.done():
            if self._clock() < self._next_scan or self._closed:
                return
            self._next_scan = self._clock() + self._options.scan_interval_s
            self._syncing = self._start(self._follow())
        await asyncio.wait({self._syncing}, timeout=deadline_s / 2)

    async def _follow(self) -> None:
        """A look whose failure costs no search: what was known goes on, and the description says what is wrong."""
        try:
            await self._refresh()
            self._trouble = ""
        except (OSError, FusionError) as error:
            self._trouble = str(error)

    async def _refresh(self) -> None:
        async with self._writing:
            if not self._closed:
                await self._sync(self._roots)

    async def _sync(self, some: Sequence[Root]) -> None:
        """Bring table and index into step with the files of some roots. Called by whoever holds ``_writing``."""
        for root in some:
            seen = await asyncio.to_thread(self._look, root)
            present = {file.document for file in seen}
            gone = [n for n in self._shelf.documents if n.split("/")[0] == root.name and n not in present]
            changed = [file for file in seen if self._changed(file)]
            for first in range(0, max(len(changed), 1), BATCH):
                if self._closed:
                    return
                part = changed[first : first + BATCH]
                read = await asyncio.to_thread(self._read_all, part)
                refused = [f.document for f in part if f.document in self._refused]
                await self._commit(read, [*gone, *refused])
                gone = []
        self._unsure = False

    async def _commit(self, read: Sequence[Document], gone: Iterable[str]) -> None:
        """New entries into the index, then the table's step, then old entries out: whoever reads the index at any
        moment finds the table's present state in it, and passes over the rest."""
        fresh: list[Entry] = []
        for document in read:
            old = self._shelf.documents.get(document.name)
            before = {entry.key: entry for item in old.items for entry in item.entries} if old else {}
            after = {entry.key: entry for item in document.items for entry in item.entries}
            fresh += [entry for key, entry in after.items() if before.get(key) != entry]
            self._doomed.update(dict.fromkeys(key for key in before if key not in after))
        for name in gone:
            if old := self._shelf.documents.get(name):
                self._doomed.update(dict.fromkeys(entry.key for item in old.items for entry in item.entries))
        if fresh:
            await self._index.put(fresh)
        for document in read:
            self._shelf.put(document)
        for name in gone:
            self._shelf.drop(name)
        stale = [key for key in self._doomed if self._shelf.found(key) is None]
        if stale:
            await self._index.drop(stale)
        self._doomed.clear()

    def _look(self, root: Root) -> list[Seen]:
        # In its own folder only the gateway decides what counts.
        seen, skips = scan(root, (".*",) if root.own else self._options.ignore, self._folder)
        self._skips[root.name] = skips
        refused = [(f, *self._refused[f.document]) for f in seen if f.document in self._refused]
        for file, signature, reason in refused:
            if file.signature == signature:
                skips.append(Skip(file.document, reason))
            else:
                del self._refused[file.document]
        return seen

    def _changed(self, file: Seen) -> bool:
        known = self._shelf.documents.get(file.document)
        return file.document not in self._refused and (known is None or known.signature != file.signature)

    def _read_all(self, files: Iterable[Seen]) -> list[Document]:
        """The documents of files that could be read and are not what they were; the others are noted as skipped."""
        found: list[Document] = []
        for file in files:
            try:
                content = read(file.root, file.path, self._options.max_bytes if not file.root.own else sys.maxsize)
                known = self._shelf.documents.get(file.document)
                if known is not None and known.digest == content.digest:
                    known.signature = content.settled
                else:
                    found.append(document_of(file, content, self._options))
            except Unreadable as error:
                self._skips[file.root.name].append(Skip(file.document, str(error)))
                if not error.passing:
                    self._refused[file.document] = (file.signature, str(error))
        return found

    # Tasks

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _finished(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs to its end even if the caller goes away: files, index and table are never left out of step."""
        return await asyncio.shield(self._start(work))


def _log_of(folder: Path | None, roots: Sequence[Root]) -> tuple[Root, str] | None:
    """The root that a folder of logs is in, and its way from there, with ``/`` behind each step."""
    if folder is None:
        return None
    real = Path(os.path.realpath(folder))
    for root in roots:
        if not root.only and real.is_relative_to(root.folder):
            if not real.is_dir():
                raise SettingsError(f"[backends.markdown] log_folder: there is no folder {folder}; make it")
            return root, "".join(f"{step}/" for step in real.relative_to(root.folder).parts)
    raise SettingsError("[backends.markdown] log_folder must be in one of paths: what is appended there is to be found")


def _visible(hit: Hit, query: Query) -> bool:
    """Whether a hit is within the query's scope and time. What is not known of a hit does not hide it."""
    if not query.scope.admits(hit.scope):
        return False
    if query.known_at and hit.recorded_at and hit.recorded_at > query.known_at:
        return False
    if query.as_of:
        since = [time for time in (hit.at.utc if hit.at else None, hit.valid_from) if time]
        return all(time <= query.as_of for time in since) and (hit.valid_to is None or hit.valid_to > query.as_of)
    return True


def _source_path(event: Event) -> Path | None:
    """The file whose lines an event is, if it was imported from one."""
    if event.place is None or event.place.unit != "line" or not (event.source or "").startswith("file:"):
        return None
    source = (event.source or "").removeprefix("file:")
    path = Path(unquote(source.removeprefix("//")) if source.startswith("//") else source)
    return Path(os.path.realpath(path)) if path.is_absolute() else None
