"""Markdown files as a memory system: the user's folders, and the gateway's own folder of notes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import unquote

from adapters.index import Entry, Index
from adapters.index.merge import Scored, SearchResult
from adapters.markdown import log
from adapters.markdown.catalogue import Item, ItemTable, native_of
from adapters.markdown.decay import dated, day_of
from adapters.markdown.files import Root, Signature, Unreadable, read, roots
from adapters.markdown.git_history import NoHistory, versions_of
from adapters.markdown.items import note_item, reading, scope_of, text_of
from adapters.markdown.media import MIMES, MediaEmbedder, mime_of
from adapters.markdown.media import SUFFIX as MEDIA
from adapters.markdown.mentions import Note
from adapters.markdown.options import Options
from adapters.markdown.own_notes import Notes, file_of, parse, write
from adapters.markdown.ranking import Ranking, merged, ranked
from adapters.markdown.sync import Sync, Timing
from fusion.contract import (
    DIMENSIONS,
    KINDS,
    Description,
    DocumentVersion,
    Event,
    Extracted,
    Features,
    Forgotten,
    Hit,
    Kind,
    Opening,
    Place,
    Query,
    Scope,
    StoredDocument,
    Where,
)
from fusion.errors import BadInput, InvalidAnswer, SettingsError
from fusion.lib.moment import days_of
from fusion.store.workspace import Change, Workspace

logger = logging.getLogger(__name__)

NOTES_SHOWN = 20
"""maximum remarks on single files in a description; more are only counted"""

READ_S = 1.0
"""seconds for reading a document; half of it may be spent on the scan"""

T = TypeVar("T")


class Markdown:
    """Searches chunks of the user's files and the notes that the gateway has stored.

    The files are the truth; `Sync` keeps a table of chunks and an index in ``folder/index`` in step with them. A search
    sees each file before or after a change, never in between. The user's files are never written to.
    """

    def __init__(self, opening: Opening, options: Options, roots: Sequence[Root], sync: Sync) -> None:
        self._options = options
        self._roots = roots
        self._log = _log_of(options.log_folder, roots[1:])
        self._notes = Notes(roots[0].folder)
        self.workspace = _workspace_of(opening)
        self._sync = sync
        kinds: tuple[Kind, ...] = KINDS if options.remember_turns else tuple(k for k in KINDS if k != "turn")
        self.features = Features(frozenset(DIMENSIONS), tenants=True, as_of=True, no_user=True, kinds=frozenset(kinds))
        self._unsure = False  # a write was interrupted: the files on disk must be scanned
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._index: Index

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> None:
        """Check the options. Raises ``SettingsError``."""
        Options.of(options)

    @classmethod
    async def open(cls, opening: Opening, *, timing: Timing | None = None) -> Self:
        """Open the store and index changed files: by words before this returns, by vectors in the background.

        If the disk is full or a file cannot be read, the last state is served and ``describe`` reports it.
        """
        options = Options.of(opening.options, opening.notes)
        if options.bind.tenant != opening.tenant:  # the user's files are another tenant's; our own folder is this one's
            options = replace(options, paths=(), log_folder=None, bind=Scope(opening.tenant))
        found = roots(opening.folder / "notes", options.paths, tuple(MIMES) if options.media else ())
        for root in found[1:]:
            if root.folder.is_relative_to(os.path.realpath(opening.folder)):
                raise SettingsError(f"[backends.markdown] paths lie in our own folder: {root.folder}")
        table = await ItemTable.open(opening.folder / "index", reading(found, options))
        sync = Sync(found, options, opening.folder, table, timing or Timing())
        try:
            await asyncio.to_thread(Notes(found[0].folder).prepare, table.signatures(found[0].name))
            store = cls(opening, options, found, sync)
            if not table.stamp:  # nothing to be in step with: better the index takes all at once
                await sync.follow()
            store._index = sync.index = await Index.open(
                opening.folder / "index",
                opening.embedder,
                table,
                pick=table.pick,
                stamp=table.stamp,
                through=partial(MediaEmbedder, read=store._bytes) if options.media else None,
            )
            await sync.follow()
            sync.begin()
        except BaseException:
            if sync.index is not None:
                await sync.index.close()
            await table.close()
            raise
        return store

    @property
    def index(self) -> Index:
        """The index, which `adapters.reindex` moves to another embedding model."""
        return self._index

    def entries(self) -> Iterable[Entry]:
        """All entries that the index must have, read lazily."""
        return self._sync.table

    # The files, for an export

    @property
    def chunking(self) -> tuple[int, int]:
        """The tokens of a chunk, and how many of the one before it has."""
        return self._options.chunk_tokens, self._options.chunk_overlap

    async def documents(self) -> dict[str, str]:
        """The user's files: their names, each with its path. Paths in the first folder, the workspace, are relative."""
        await self._sync.freshen(READ_S)
        users = [root.name for root in self._roots[1:]]
        names = sorted(name for name in self._sync.table.documents if name.partition("/")[0] in users)
        return {name: name.removeprefix(f"{users[0]}/") for name in names if not mime_of(name)}

    async def items(self, document: str) -> Sequence[Item]:
        """The chunks of a file, in its order."""
        return await self._sync.table.items(document)

    def modified_ms(self, document: str) -> int:
        """When a file was written last, in milliseconds; 0 if it changed just now."""
        known = self._sync.table.documents.get(document)
        return known.signature[0] // 1_000_000 if known and known.signature else 0

    # Reading

    async def search(self, query: Query) -> Sequence[Hit]:
        return [item.hit for item in await self.find(query)]

    async def find(self, query: Query, ranking: Ranking | None = None) -> Sequence[Item]:
        """Like ``search``, but with headings; ``ranking`` overrides the settings'. Scores are from 0 to 1."""
        if not query.text.strip() or query.limit < 1:
            return []
        await self._sync.before_search(query.deadline_s)
        items: list[Item] = []
        for _ in range(3):  # a file replaced between the index's answer and ours would be in neither state: ask again
            generation = self._sync.table.generation
            items = await self._ask(query, ranking or self._options.ranking)
            if query.times or query.where:
                looked_up = (await self._looked_up(query, items))[: -(-query.limit // 2)]
                items = items[: query.limit - len(looked_up)] + looked_up
            if generation == self._sync.table.generation:
                break
        return items

    async def fitting(self, query: Query) -> Sequence[Hit]:
        if not _is_looked_up(query.where):
            return []
        await self._sync.freshen(query.deadline_s)
        items = await self._sync.table.fitting(query.where, query.limit)
        return [item.hit for item in items if query.admits(item.hit)]

    async def _looked_up(self, query: Query, found: Sequence[Item]) -> list[Item]:
        """What was not found by words: what is of the days that the query names, and what fits its filter by folder,
        tag or property."""
        days, where = [days_of(one, query.zone) for one in query.times], query.where
        items = await self._sync.table.of_days(days, query.limit) if days else []
        if _is_looked_up(where):
            items += await self._sync.table.fitting(where, query.limit)
        known = {item.hit.native_id for item in found}
        new = {item.hit.native_id: item for item in items if item.hit.native_id not in known}
        return [item for item in new.values() if query.admits(item.hit)]

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        return [await self._sync.table.neighbours(hit.native_id, span) for hit in hits]

    async def read(self, name: str) -> StoredDocument | None:
        """A file as it is on disk now, if a scan would read it.

        The name is looked up among those of the last scan and never used as a path; then the file is opened
        below its root without following links, so a link placed there since has no effect.
        """
        await self._sync.freshen(READ_S)
        if (located := self._located(name)) is None:
            return None
        root, path = located
        try:
            content = await asyncio.to_thread(read, root, path, self._options.max_bytes)
        except Unreadable:
            return None
        text = text_of(root, content.data)
        return StoredDocument(name, text, scope_of(root, path, self._options)) if text.strip() else None

    async def versions(self, name: str, limit: int) -> Sequence[DocumentVersion]:
        """The earlier versions of a user's file, if its folder is a git repository. Looked up as by ``read``."""
        await self._sync.freshen(READ_S)
        located = self._located(name)
        if located is None or located[0].own:
            return []
        root, path = located
        most = self._options.max_bytes
        try:
            content = await asyncio.to_thread(read, root, path, most)
            return await asyncio.to_thread(versions_of, root.folder, path, content.data, limit, most)
        except (Unreadable, NoHistory) as error:
            logger.info("%s has no earlier versions here: %s", name, error)
            return []

    def _located(self, name: str) -> tuple[Root, str] | None:
        """The root of a text file that the last scan found, and its path there."""
        root = next((root for root in self._roots if name.startswith(f"{root.name}/")), None)
        if root is None or name not in self._sync.table.documents or (self._options.media and mime_of(name)):
            return None
        return root, name.removeprefix(f"{root.name}/")

    def _bytes(self, name: str, digest: bytes) -> bytes:
        """The bytes of a picture or recording. Raises InvalidAnswer if it changed since the last scan."""
        root = next(root for root in self._roots if name.startswith(f"{root.name}/"))
        path = name.removeprefix(f"{root.name}/")
        try:
            content = read(root, path, *self._options.limit_of(path))
        except Unreadable as error:
            raise InvalidAnswer(f"{name}: {error}") from None
        if content.digest != digest:
            raise InvalidAnswer(f"{name}: it has changed since it was last looked at")
        return content.data

    def session_started(self) -> None:
        self._sync.session_started()

    async def refresh(self) -> None:
        """Scan all files now and index what changed."""
        await self._finished(self._sync.refresh())

    async def describe(self) -> Description:
        remarks = self._sync.remarks
        notes = [*self._sync.faults, *remarks[:NOTES_SHOWN]]
        if len(remarks) > NOTES_SHOWN:
            notes.append(f"…and {len(remarks) - NOTES_SHOWN} more files")
        if self._index.embedder is None:
            notes.insert(0, "found by words only: no embedding model is set up ([embedder])")
        notes += self._index.faults
        degraded = bool(self._sync.faults or self._index.faults)
        return Description(len(self._sync.table), self._index.vectors, self._index.pending, tuple(notes), degraded)

    async def check(self) -> str | None:
        """Check table and index, and rebuild them from the files if they are damaged."""
        return await self._finished(self._check())

    async def _check(self) -> str | None:
        async with self._sync.writing:
            if self._closed:
                return None
            damage = await self._sync.repair() or await self._index.damage()
            if damage is not None:
                await self._index.rebuild(self._sync.table, damage)
                await self._sync.table.settle({}, await self._sync.stamp())
            return damage

    async def _ask(self, query: Query, ranking: Ranking) -> list[Item]:
        """Rank one page of candidates after the other. A wider page only appends results."""
        items: dict[str, Item] = {}
        width = ranking.candidates(query.limit)

        def take(by_words: Scored, by_vectors: Scored) -> bool:
            """Whether there are no more candidates."""
            found = self._ranked(by_words, by_vectors, ranking, query)
            while some := list(islice(found, query.limit)):
                held = self._sync.table.held(one.key for one in some)
                for one in some:
                    item = held.get(one.key)
                    if item is not None and query.admits(item.hit):
                        name = item.hit.event_id or item.hit.native_id
                        if name not in items:
                            items[name] = Item(item.hit.scored(one.score), item.entries, item.headings)
                if len(items) >= query.limit:
                    return True
            return _is_looked_up(query.where) or max(len(by_words), len(by_vectors)) < width

        while not await self._index.made_of(query.text, query.scope, width, take, deadline_s=query.deadline_s):
            width *= 4  # some were parts of one entry, or of another time: ask for more
        return list(items.values())[: query.limit]

    def _ranked(self, by_words: Scored, by_vectors: Scored, ranking: Ranking, query: Query) -> Iterator[SearchResult]:
        """The candidates, ranked; their texts and times are read only if the ranking uses them."""
        found = merged(by_words, by_vectors, ranking, _is_media if self._options.media else None)
        own = f"{self._roots[0].name}/"
        head = list(islice(found, ranking.looks))
        keys = [one.key for one in head]
        if ranking.looks is not None and all(key.startswith(own) for key in keys):
            keys = []  # conversations: there is nothing that names another
        held = self._sync.table.held(keys)

        def noted(key: str) -> datetime | None:
            item = held.get(key)
            return self._noted(item.hit) if item else None

        def note(key: str) -> Note | None:
            item = None if key.startswith(own) else held.get(key)
            if item is None or item.hit.place is None or not query.admits(item.hit):
                return None
            return Note(item.hit.place.document, item.hit.text)

        def text(key: str) -> str:
            item = held.get(key)
            return item.hit.text if item else ""

        return ranked(chain(head, found), ranking, query.text, noted=noted, note=note, text=text, now=query.now)

    def _noted(self, hit: Hit) -> datetime | None:
        """The time from which a hit ages; None if it does not."""
        if hit.event_id is not None:
            return hit.at.utc if hit.at else hit.recorded_at
        name = hit.place.document if hit.place else ""
        known = self._sync.table.documents.get(name)
        signature = known.signature if known else None
        return dated(name, datetime.fromtimestamp(signature[0] / 1e9, UTC) if signature else None)

    # Writing

    def accepts(self, event: Event) -> bool:
        return event.kind in self.features.kinds

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        """Write notes; an event that is already in a user's file is not copied.

        Raises ``StoreFull``; then no partial entry remains.
        """
        return await self._finished(self._remember([extracted.event for extracted in batch]))

    async def append(self, text: str, scope: Scope, day: date) -> Place | None:
        """Append to the user's log of that day, if one is set and ``scope`` can read it."""
        if self._log is None or not scope.admits(self._options.bind):
            return None
        root, folder = self._log
        path = f"{folder}{day.isoformat()}.md"
        start, end = await self._finished(asyncio.to_thread(log.append, root.folder, path, text))
        self._sync.mark(root, [path])  # who asks next finds it
        return Place(root.document(path), start, end, "line")

    async def daily_logs(self, day: date) -> Sequence[str]:
        """The user's logs of that day: in ``log_folder``, and ``memory/YYYY-MM-DD.md`` of an OpenClaw workspace."""
        await self._sync.freshen(READ_S)
        name = f"{day.isoformat()}.md"
        own = f"{self._roots[0].name}/"
        in_log_folder = self._log[0].document(f"{self._log[1]}{name}") if self._log else ""
        return [
            document
            for document in self._sync.table.documents
            if document == in_log_folder
            or (document.endswith(f"/{name}") and day_of(document) == day and not document.startswith(own))
        ]

    async def own_events(self, scope: Scope) -> list[Event]:
        """The events in the gateway's own folder that belong to the owner of the files, in the order of their ids."""
        found = await asyncio.to_thread(self._notes.events)
        events = {event.event_id: event for some in found.values() for event in some}
        owner = self._options.bind.user_id
        return [
            event for _, event in sorted(events.items()) if event.scope.user_id == owner and scope.admits(event.scope)
        ]

    async def change_workspace(self, change: Callable[[], Change]) -> Change:
        """Change a file of the workspace, to the end; who asks next finds what it is then."""
        try:
            return await self._finished(asyncio.to_thread(change))
        finally:
            for root in self._roots[1:]:
                self._sync.mark(root)

    async def reindex(self) -> str:
        """Read the user's folders again in the background; the next search waits for what changed."""
        for root in self._roots[1:]:
            self._sync.mark(root)
        return "reads what changed"

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        (outcome,) = await self._finished(self._forget([(event_id, native_ids)]))
        return outcome

    async def events(self, after: str, limit: int) -> Sequence[tuple[Event, tuple[str, ...]]]:
        """The events in the gateway's own folder; the user's files have none."""
        found = await asyncio.to_thread(self._notes.events)
        beyond = sorted((event.event_id, path) for path, events in found.items() for event in events)
        by_id = {event.event_id: event for events in found.values() for event in events}
        own = self._roots[0]
        some = [(id_, path) for id_, path in beyond if id_ > after][:limit]
        return [(by_id[id_], (f"{own.document(path)}#{id_}",)) for id_, path in dict(some).items()]

    @property
    def has_files(self) -> bool:
        return len(self._roots) > 1

    async def forget_all(self, items: Sequence[tuple[str, Sequence[str]]]) -> Sequence[Forgotten]:
        return await self._finished(self._forget(items))

    async def settle(self) -> None:
        await self.refresh()
        await self._index.settle()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._sync.end()
        async with self._sync.writing:
            await self._index.close()
            await self._sync.table.close()

    async def _remember(self, batch: Sequence[Event]) -> list[tuple[str, ...]]:
        async with self._sync.writing:
            if any(_source_path(event) for event in batch):
                await self._sync.sync(self._roots)
                self._unsure = False
            elif self._unsure:
                await self._sync.sync(self._roots[:1])
                self._unsure = False
            native: dict[str, tuple[str, ...]] = {}
            files: dict[str, list[Event]] = {}
            for event in batch:
                if event.event_id in native:
                    continue
                native[event.event_id] = await self._known(event)
                if not native[event.event_id]:
                    files.setdefault(file_of(event), []).append(event)
            for event, item in await self._append(files):
                native[event.event_id] = (item.hit.native_id,)
            return [native[event.event_id] for event in batch]

    async def _known(self, event: Event) -> tuple[str, ...]:
        """The native ids of an event that is already stored, or that came from a user's file."""
        if items := await self._sync.table.of_event(event.event_id):
            return tuple(item.hit.native_id for item in items)
        path, place = _source_path(event), event.place
        if path is None or place is None:
            return ()
        # If the event's scope cannot read the file, the event needs an entry of its own.
        asking = replace(event.scope, audience="private")
        for root in self._roots[1:]:
            if not path.is_relative_to(root.folder):
                continue
            items = await self._sync.table.items(root.document(path.relative_to(root.folder).as_posix()))
            hits = [item.hit for item in items]
            return tuple(
                hit.native_id
                for hit in hits
                if hit.place and hit.place.start <= place.end and place.start <= hit.place.end
                if asking.admits(hit.scope)
            )
        return ()

    async def _append(self, files: dict[str, list[Event]]) -> list[tuple[Event, Item]]:
        """Write events to disk, then to the index, then to the table: one write for each file, one for the index."""
        added: list[tuple[Event, Item]] = []
        grown: list[tuple[str, list[Item], Signature | None]] = []
        self._unsure = bool(files)
        for path, events in files.items():
            name = self._roots[0].document(path)
            text = "".join(write(event) for event in events)
            # Items are made from the file's text, so that a later scan gives the same items.
            items = [note_item(name, note.event, self._options) for note in parse(text).notes]
            if [item.hit.event_id for item in items] != [event.event_id for event in events]:
                raise BadInput("a note cannot be written down: its times need a zone, its kind must be a known one")
            done = await asyncio.to_thread(self._notes.append, path, text)
            known = self._sync.table.documents.get(name)
            untouched = done.before == (known.signature if known else None)
            grown.append((name, items, done.after if untouched else None))
            added += zip(events, items, strict=True)
        if added:
            await self._index.put([entry for _, item in added for entry in item.entries])
            await self._sync.table.extend(grown, await self._sync.stamp())
        self._unsure = False
        return added

    async def _forget(self, items: Sequence[tuple[str, Sequence[str]]]) -> list[Forgotten]:
        """Remove entries from their files; each of these is written once, and scanned before and after.

        All files are scanned for an entry that no file has, and for one that is gone from its file: it may have moved.
        """
        own = self._roots[0]
        users = {root.name for root in self._roots[1:]}
        async with self._sync.writing:
            ids = [event_id for event_id, _ in items]
            entries, files = await self._entries_of(ids)
            if all(entries.values()):
                await self._sync.sync_known(own, files)
                entries, files = await self._entries_of(ids)
            if not all(entries.values()):
                await self._sync.sync([own])
                entries, files = await self._entries_of(ids)
            for name, event_ids in files.items():
                await asyncio.to_thread(self._notes.remove, name, event_ids)
            if files:
                await self._sync.sync_paths(own, files)
                await self._sync.table.checkpoint()
                if self._index.embedder is not None:
                    gone = (
                        text
                        for found in entries.values()
                        for item in found
                        for entry in item.entries
                        for text in entry.embedded
                    )
                    await self._index.embedder.forget(list(gone))
            outcomes: list[Forgotten] = []
            for event_id, native_ids in items:
                if entries[event_id]:
                    outcomes.append("deleted")
                elif any(
                    [native.split("/")[0] in users or await self._sync.table.has(native) for native in native_ids]
                ):
                    outcomes.append("hidden")
                else:
                    outcomes.append("absent")
            return outcomes

    async def _entries_of(self, event_ids: Sequence[str]) -> tuple[dict[str, list[Item]], dict[str, set[str]]]:
        """The entries of events, and the events by file of our own."""
        own = self._roots[0]
        entries = {event_id: await self._sync.table.of_event(event_id) for event_id in event_ids}
        files: dict[str, set[str]] = {}
        for event_id, found in entries.items():
            for item in found:
                name = item.hit.native_id.rpartition("#")[0].removeprefix(f"{own.name}/")
                files.setdefault(name, set()).add(event_id)
        return entries, files

    # Tasks

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _finished(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end even if the caller is cancelled, so that files, index and table stay in step."""
        return await asyncio.shield(self._start(work))


def _workspace_of(opening: Opening) -> Workspace | None:
    """The workspace that may be written to; None without one.

    Earlier versions kept the log of its changes in the folder of this backend; it moves to where all writers keep it.
    """
    if opening.workspace is None:
        return None
    earlier = opening.folder / "workspace"
    records = opening.workspace_records or earlier
    if records != earlier and earlier.is_dir() and not records.exists():
        earlier.rename(records)
    return Workspace(opening.workspace, records)


def _log_of(folder: Path | None, roots: Sequence[Root]) -> tuple[Root, str] | None:
    """The root that contains the folder of daily logs, and its relative path, ending with ``/``."""
    if folder is None:
        return None
    real = Path(os.path.realpath(folder))
    for root in roots:
        if not root.only and real.is_relative_to(root.folder):
            if not real.is_dir():
                raise SettingsError(f"[backends.markdown] log_folder: there is no folder {folder}; make it")
            return root, "".join(f"{step}/" for step in real.relative_to(root.folder).parts)
    raise SettingsError("[backends.markdown] log_folder must be in one of paths, so that its notes can be found")


def _is_looked_up(where: Where) -> bool:
    """Whether the table can look up what a filter admits."""
    return bool(where.folder or where.tag or where.property)


def _is_media(key: str) -> bool:
    """Whether a key of the index is a picture's or recording's."""
    return native_of(key).endswith(MEDIA)


def _source_path(event: Event) -> Path | None:
    """The file that an event was imported from, None if it was not."""
    if event.place is None or event.place.unit != "line" or not (event.source or "").startswith("file:"):
        return None
    source = (event.source or "").removeprefix("file:")
    path = Path(unquote(source.removeprefix("//")) if source.startswith("//") else source)
    return Path(os.path.realpath(path)) if path.is_absolute() else None
