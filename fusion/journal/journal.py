"""The journal's front: one SQLite file, what is written to it and read of it, and what of it is kept in memory.

WAL mode with ``synchronous=FULL``: what `append` returned is on the disk. One row an event, never changed but for being
superseded, retired or forgotten. Each table has a module beside this one; here stand the transactions, and what is
brought into line in memory after each: what the read path asks on every request (`records`, `neighbours`), and the
tombstones that every answer is held against.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Self

from fusion.contract import Event, Extraction, Hit, Scope
from fusion.errors import FusionError, NotFound, StoreDamaged
from fusion.journal import (
    audit,
    batches,
    distil_queue,
    external_refs,
    feedback,
    idempotency,
    listing,
    outbox,
    retire,
    split_tenants,
    watermark,
)
from fusion.journal.append import Stored, append
from fusion.journal.audit import Audited
from fusion.journal.batches import Batch, Undone
from fusion.journal.cache import JournalCache
from fusion.journal.deletion import Deletion, doomed, forget, in_the_same_words
from fusion.journal.distil_queue import DistilJob
from fusion.journal.duplicates import Duplicates
from fusion.journal.external_refs import ExternalItem, is_foreign
from fusion.journal.feedback import Vote, VotePage
from fusion.journal.listing import Counts, Criteria, Page
from fusion.journal.outbox import Deliveries, Outbox
from fusion.journal.retire import CURRENT, SourceCount, Whole
from fusion.journal.rows import Record, all_are, forgotten, keys_of, record_of, row_of
from fusion.journal.schema import STEPS
from fusion.journal.tombstones import Tombstones, Withheld, held_back
from fusion.journal.watermark import Watermark
from fusion.lib.bm25 import Frequencies
from fusion.store.reachable import Reachable
from fusion.store.rows import event_of
from fusion.store.sqlite import WAL_BYTES, Connection, Database, Guard


class Journal:
    """The journal of one home; its ``outbox`` has what the backends are still to be told."""

    schema: ClassVar[Sequence[str]] = STEPS

    def __init__(self, database: Database, keys_kept_s: float = idempotency.KEPT_S) -> None:
        self._database = database
        self._keys_kept_s = keys_kept_s
        self.outbox = Outbox(database)
        self._distils = False
        self._known = JournalCache(database)
        self._barred = Tombstones()
        self._barring = asyncio.Lock()  # what is read anew must not replace what was added meanwhile
        self._unused = 0
        """`mark.unused` when it was opened"""
        self._counted = False
        """whether any memory ever came in: a gateway over other people's stores alone need not look"""

    @classmethod
    async def open(cls, file: Path, *, keys_kept_s: float = idempotency.KEPT_S, wal_bytes: int = WAL_BYTES) -> Self:
        """Raises StoreDamaged when the file is corrupt or newer than this program.

        ``keys_kept_s`` is for how long a second request of an Idempotency-Key is known for one.

        A damaged journal is never replaced by an empty one: it is the truth, and what became of it is its owner's to
        decide. Once the file, its log or its folder is not at its path any more, everything raises HomeGone.
        """
        guard = Guard(Reachable(file), watermark.COUNT, watermark.STATE)
        database = await Database.open(
            file, cls.schema, fix=cls.fix(file), guard=guard, wal_bytes=wal_bytes, events="event"
        )
        journal = cls(database, keys_kept_s)
        await journal.load()
        journal._unused = await database.read(watermark.unused)
        return journal

    @staticmethod
    def fix(file: Path) -> str:
        """What its owner can do when it is damaged."""
        return (
            f"It holds every memory, so it is not replaced. Stop the gateway and restore it from a backup; or make it "
            f"anew from what can be read of it and from the stores: fusion repair --home {file.parent}"
        )

    async def load(self) -> None:
        """Reads what is asked of memory later."""
        self._barred = await self._database.read(Tombstones.of)
        self._counted = bool(await self._database.read(lambda db: db.execute("select 1 from owner limit 1").fetchone()))

    async def check(self) -> None:
        """Looks through the file. Raises StoreDamaged when it is not what was written, and HomeGone."""
        if self._database.refusal:
            raise self._database.refused(self._database.refusal)
        await self._database.compare_with_files()
        await self._database.check()

    @property
    def file(self) -> Path:
        return self._database.path

    def refuse(self, why: str, error: type[FusionError] = StoreDamaged) -> None:
        """From now on every write raises this error with this reason; reading goes on."""
        self._database.refusal, self._database.refused = why, error

    def require_reachable(self) -> None:
        """Raises HomeGone when the journal is not at its path any more; some microseconds."""
        self._database.require_reachable()

    async def compare_with_files(self) -> None:
        """Raises HomeGone when another process wrote to the files, and they do not hold what was acknowledged."""
        await self._database.compare_with_files()

    async def mark(self) -> Watermark:
        """The journal's id and how much it holds, now."""
        return await self._database.read(watermark.read)

    async def deleted(self) -> int:
        """How many events another program has deleted from the file since it was opened; this one deletes none."""
        return await self._database.read(watermark.unused) - self._unused

    async def close(self) -> None:
        await self._database.close()

    # Writing

    async def append(
        self,
        events: Sequence[Event],
        *,
        guard: idempotency.Guard | None = None,
        reply: Callable[[Sequence[Stored]], object] | None = None,
        batch: str | None = None,
        urgent: bool = False,
        apart: bool = False,
    ) -> Sequence[Stored] | str:
        """Keeps events, all or none, in one transaction; durable when it returns.

        The same natural key is the same event, and comes back as a duplicate. Another text at a place that is taken is
        a new event that supersedes the one there, also when it stood there before. The second request of a
        ``guard``'s key gets the first one's ``reply`` as JSON text, or KeyReused when it asks for something else.
        ``batch`` is the id of the run that they came with; ``urgent`` ones are delivered before all others.
        ``apart``: the same words remembered on purpose before are another memory.
        Raises StoreFull and StoreBusy with nothing written.
        """

        def work(db: Connection) -> Sequence[Stored] | str:
            now = int(datetime.now(UTC).timestamp())
            if guard is not None:
                idempotency.expire(db, now - self._keys_kept_s)
                if (again := idempotency.replayed(db, guard)) is not None:
                    return again
            # Of several texts for one place the last is meant: those before it are only what it was sent with.
            last = {keys_of(event)[0]: event.event_id for event in events}
            stored = [
                self._append(db, event, last[keys_of(event)[0]] == event.event_id, urgent=urgent, apart=apart)
                for event in events
            ]
            if batch is not None:
                batches.enter(
                    db, batch, [one.event.event_id for one in stored if one.state in ("stored", "superseded")]
                )
            if guard is not None and reply is not None:
                idempotency.keep(db, guard, reply(stored), now)
            return stored

        outcome = await self._database.write(work)
        if not isinstance(outcome, str):
            self._note(outcome)
            if any(keys_of(stored.event)[1] is None for stored in outcome) and (
                self._barred.keys or self._barred.lines
            ):
                async with self._barring:
                    self._barred = await self._database.read(
                        Tombstones.of
                    )  # an explicit wish may have lifted something
        return outcome

    def _note(self, outcome: Sequence[Stored]) -> None:
        """What is remembered of the journal in memory is brought into line with what was written."""
        self._known.changed()
        self._counted = self._counted or bool(outcome)
        for stored in outcome:
            self._known.drop(stored.event)
            if stored.event.supersedes is not None:
                self._known.drop_superseded(stored.event.supersedes)
            self._lay_off(stored.retired)

    def _lay_off(self, retired: Iterable[Event]) -> None:
        for event in retired:
            self._known.drop(event)

    def _append(
        self, db: Connection, event: Event, last: bool = True, *, urgent: bool = False, apart: bool = False
    ) -> Stored:
        return append(
            db,
            event,
            last=last,
            stores=self.outbox.stores,
            barred=self._barred,
            distils=self._distils,
            urgent=urgent,
            apart=apart,
        )

    # Reading

    async def records(self, event_ids: Sequence[str]) -> Mapping[str, Record]:
        """What is known of each event; one that never came through here is not in it, a forgotten one is.

        Without what was forgotten in its file; where nothing else is left it counts as forgotten.
        """
        found = await self._known.records(event_ids)
        if not self._barred.lines:
            return found
        return {i: self._barred.rest_of(one) or _as_forgotten(one) for i, one in found.items()}

    async def forgotten(self, event_ids: Collection[str]) -> frozenset[str]:
        """Those of these events that were forgotten. Kept in memory of none, for a whole store may be asked about."""
        return await self._database.read(lambda db: forgotten(db, event_ids))

    async def neighbours(self, event_ids: Sequence[str], span: int) -> Mapping[str, Sequence[Record]]:
        """By event id, up to ``span`` events before it and after it in its document, or else session, in order.

        Without what was forgotten in their files: no answer shows it either.
        """
        beside = await self._known.neighbours(event_ids, span)
        if not self._barred.lines:
            return beside
        return {i: self._left(records) for i, records in beside.items()}

    def _left(self, records: Iterable[Record]) -> list[Record]:
        """Records without what was forgotten in their files, and without those of which nothing is left."""
        return [left for record in records if (left := self._barred.rest_of(record)) is not None]

    async def frequencies(self, scope: Scope, asked: Sequence[str]) -> Frequencies:
        """How common each term is among the memories of the scope's user, or of the whole tenant."""
        if not self._counted:
            return Frequencies()
        return await self._known.frequencies(scope, asked)

    async def page(
        self,
        scope: Scope,
        limit: int,
        *,
        before: int | None = None,
        document: str | None = None,
        source: str | None = None,
    ) -> Page:
        """Up to ``limit`` memories that ``scope`` may see, newest first: what is kept now, in its latest version.

        ``before`` is where the page before this one ended. Whatever is added meanwhile stands before the first page,
        so no later page repeats or misses a memory.
        """
        page = await self._database.read(
            lambda db: listing.page(db, scope, limit, before=before, document=document, source=source)
        )
        return replace(page, records=tuple(self._left(page.records)))

    async def find(self, ref: str, scope: Scope) -> Record:
        """The event of a short ref or event id. Raises NotFound, also for another's and for a forgotten one."""

        def work(db: Connection) -> Record:
            return record_of(row_of(db, ref, scope))

        found = self._barred.rest_of(await self._database.read(work))
        if found is None:
            raise NotFound(f"there is no memory {ref!r} here: all that it says was forgotten in its file")
        return found

    async def found(self, refs: Sequence[str], scope: Scope) -> Mapping[str, Record]:
        """As `find`, of many: by ref, those that are there."""

        def work(db: Connection) -> dict[str, Record]:
            found = {}
            for ref in refs:
                with contextlib.suppress(NotFound):
                    found[ref] = record_of(row_of(db, ref, scope))
            return found

        return await self._database.read(work)

    async def said(self, ref: str, scope: Scope) -> int:
        """How often a memory was remembered on purpose. Raises NotFound, as `find`."""
        return int(await self._database.read(lambda db: row_of(db, ref, scope)["said"]))

    async def matching(
        self, scope: Scope, criteria: Criteria, limit: int, *, beyond: int = 0, among: Sequence[str] | None = None
    ) -> Sequence[Record]:
        """What is kept of a scope and meets all criteria, oldest first, from the one after the number ``beyond``.

        With ``among``, only of these refs.
        """
        return await self._database.read(
            lambda db: listing.matching(db, scope, criteria, limit, beyond=beyond, among=among)
        )

    async def document(self, name: str, scope: Scope, start: int, limit: int) -> Sequence[Record]:
        """The memories that stand in a document at or after ``start``, in its order, at most ``limit``.

        Where it ends before ``start`` its last one, and nothing where there is no such document. Raises BadInput when
        several users have one of that name and ``scope`` does not say whose.
        """
        records = await self._database.read(lambda db: listing.document(db, name, scope, start, limit))
        return self._left(records)

    def hides(self, backend: str, hit: Hit) -> bool:
        """Whether all that a hit says was forgotten, though the journal does not know it by an id.

        A piece of a user's own file, which is never edited, by its statements, wherever they stand by now; another
        backend's own item by itself, or by its words within its owner.
        """
        return self._barred.hides(backend, hit)

    def without_forgotten(self, backend: str, hits: Sequence[Hit]) -> Sequence[Hit]:
        """What of a backend's hits may be shown: pieces of files without their forgotten statements; see `hides`."""
        if not self._barred:
            return hits
        return [left for hit in hits if (left := self._barred.visible(backend, hit)) is not None]

    def lines_left(self, scope: Scope, document: str, lines: Sequence[str]) -> Mapping[int, str]:
        """Of each line of a user's own file that says what was forgotten, by number from 1, what may be shown."""
        return self._barred.lines_left(document, lines, scope)

    async def held_back(self, tenant: str) -> Sequence[Withheld]:
        """What was forgotten in documents and is kept out of them, by document."""
        return await self._database.read(lambda db: held_back(db, tenant))

    # Other people's memories

    async def note_shown(self, items: Sequence[ExternalItem], now: datetime) -> None:
        """Remembers what stands behind refs that cite no event of ours."""
        await self._database.write(lambda db: external_refs.note(db, items, now))

    async def shown(self, ref: str, scope: Scope) -> ExternalItem:
        """What stands behind such a ref. Raises NotFound, also where it was shown to others only."""
        return await self._database.read(lambda db: external_refs.resolve(db, ref, scope))

    # How far it is

    async def backlog(self) -> Mapping[str, int]:
        """By backend, how many deliveries are open."""
        return await self.outbox.backlog()

    async def deliveries(self) -> Mapping[str, Deliveries]:
        """By backend, how far it is."""
        return await self._database.read(outbox.deliveries)

    async def counts(self, tenant: str) -> Counts:
        """How much a tenant has."""
        return await self._database.read(lambda db: listing.counts(db, tenant))

    # What a model is to learn

    def distil(self) -> None:
        """From now on every turn that is kept is listed for a model; those from before are not."""
        self._distils = True

    async def lessons(self, limit: int) -> Sequence[DistilJob]:
        """The turns that have been on the list for longest, whether it is time for them or not."""
        return await self._database.read(lambda db: distil_queue.oldest(db, limit))

    async def distilled(self, seqs: Sequence[int], found: Sequence[tuple[Event, Extraction]]) -> Sequence[Stored]:
        """Keeps what was distilled from these turns and takes them off the list, in one transaction: once a turn.

        Nothing is kept of turns that are not on the list any more, and no memory of which a source was forgotten or
        edited meanwhile; beside an edited one, its other turns are listed again. What was made of these turns alone
        before, when one beside them said something else, gives way.
        """

        def work(db: Connection) -> tuple[list[Stored], list[Event]]:
            taken = distil_queue.take(db, seqs)
            stored = []
            for event, extraction in found if taken else ():
                if all_are(db, event.derived_from, CURRENT):
                    one = self._append(db, event)
                    if one.state == "stored":
                        distil_queue.keep(db, one.event.event_id, extraction)
                    stored.append(one)
                elif all_are(db, event.derived_from, "forgotten = 0"):
                    distil_queue.anew(db, event.derived_from)
            earlier = retire.replaced(db, taken, [one.event for one in stored])
            retire.retire(db, earlier)
            return stored, [event_of(row) for row in earlier]

        outcome, earlier = await self._database.write(work)
        self._note(outcome)
        self._lay_off(earlier)
        return outcome

    async def not_distilled(self, seqs: Sequence[int], next_at: datetime) -> None:
        """An answer about these turns made no sense; the next try is not before ``next_at``."""
        await self._database.write(lambda db: distil_queue.again(db, seqs, next_at))

    async def never_distilled(self, seqs: Sequence[int], reason: str) -> None:
        """These turns are given up: what the rules learnt of them stands."""
        await self._database.write(lambda db: distil_queue.give_up(db, seqs, reason))

    async def learnt(self, event_ids: Sequence[str]) -> Mapping[str, Extraction]:
        """What a model learnt of those of these events that it made."""
        return await self._database.read(lambda db: distil_queue.kept(db, event_ids))

    # Feedback

    async def label(self, scope: Scope, receipt_id: str, votes: Sequence[Vote]) -> None:
        """Keeps the votes on an answer in place of earlier ones; durable when it returns. Raises BadInput."""
        now = datetime.now(UTC)
        await self._database.write(lambda db: feedback.put(db, scope, receipt_id, votes, now))

    async def labels(self, tenant: str, limit: int, *, after: int = 0) -> VotePage:
        """Up to ``limit`` of a tenant's labels, oldest first, from behind ``after``."""
        return await self._database.read(lambda db: feedback.page(db, tenant, limit, after))

    # Forgetting

    async def bury(self, ref: str, scope: Scope, by: str = "ref") -> Sequence[Deletion]:
        """Forgets a memory here: its text is gone, its tombstone stands. Raises NotFound.

        With it go what its owner keeps in the same words, the earlier versions that it superseded, and what was derived
        from nothing else: they say the same. It comes first in what is returned. ``by`` names the criteria that it met,
        for the audit.
        """
        (burials,) = (await self.bury_all([ref], scope, by)).values()
        if not burials:
            raise NotFound(f"there is no memory {ref!r} here")
        return burials

    async def bury_all(self, refs: Sequence[str], scope: Scope, by: str = "ref") -> Mapping[str, Sequence[Deletion]]:
        """As `bury`, all in one transaction. By ref; nothing for what is not there, or went with an earlier one."""
        now = datetime.now(UTC)

        def work(db: Connection) -> dict[str, Sequence[Deletion]]:
            copies = Duplicates(db)
            return {ref: forget(db, ref, scope, by, now, copies) for ref in dict.fromkeys(refs)}

        async with self._barring:
            buried = await self._database.write(work)
            self._known.changed()
            for ref, burials in buried.items():
                for burial in burials:
                    event = burial.record.event
                    self._known.drop(event)
                    item, backend = Hit.of(event), None
                    if is_foreign(ref):
                        ((backend, (_, (native_id,))),) = burial.due.items()
                        item = replace(item, native_id=native_id)
                    self._barred.add(item, backend)
        # The text must not be left in the write-ahead log either.
        await self._database.checkpoint()
        return buried

    async def doomed(self, refs: Sequence[str], scope: Scope) -> Sequence[Event]:
        """What `bury_all` would forget of our own, with its text; changes nothing."""

        def work(db: Connection) -> list[Event]:
            found: dict[str, Event] = {}
            copies = Duplicates(db)
            for ref in refs:
                with contextlib.suppress(NotFound):
                    found.update({row["event_id"]: event_of(row) for row in doomed(db, ref, scope, copies)})
            return list(found.values())

        return await self._database.read(work)

    async def copies(self, refs: Sequence[str], scope: Scope) -> Sequence[tuple[str, Record]]:
        """What goes with what refs name for the same words, is current and not named itself: each once, with the ref
        that it goes with."""

        def work(db: Connection) -> list[tuple[str, Record]]:
            meant = {}
            copies = Duplicates(db)
            for ref in refs:
                with contextlib.suppress(NotFound):
                    meant[ref] = in_the_same_words(db, ref, scope, copies)
            told = {rows[0]["seq"] for ref, rows in meant.items() if not is_foreign(ref)}
            found = []
            for ref, row in ((ref, row) for ref, rows in meant.items() for row in rows):
                if row["seq"] not in told and row["superseded_by"] is None:
                    told.add(row["seq"])
                    found.append((ref, record_of(row)))
            return found

        return await self._database.read(work)

    async def audit(self, scope: Scope, limit: int, before: int | None = None) -> Sequence[tuple[int, Audited]]:
        """What was forgotten of a scope's user, or of the whole tenant, newest first; with each entry's number."""
        return await self._database.read(lambda db: audit.page(db, scope, limit, before))

    # Tenants

    async def other_tenants(self, own: str) -> Sequence[str]:
        """The tenants but ``own`` that this journal has anything of: it is from before each had its own."""
        return await self._database.read(lambda db: split_tenants.others(db, own))

    async def move_tenant(self, tenant: str, target: Path) -> bool:
        """Moves a tenant's memories to a journal of its own, as far as that was not done; whether it is done now."""
        if not target.exists():
            await asyncio.to_thread(split_tenants.copy, self._database.path, tenant, target)
        kept = await asyncio.to_thread(split_tenants.events_in, target)
        moved = await self._database.write(lambda db: split_tenants.release(db, tenant, kept))
        await self._database.checkpoint()
        await self.load()
        self._unused = await self._database.read(watermark.unused)
        return moved

    # Batches

    async def batches(self, scope: Scope, limit: int) -> Sequence[Batch]:
        """The runs of an ingest of which a scope has memories, the latest first."""
        return await self._database.read(lambda db: batches.batches(db, scope, limit))

    async def of_batch(self, scope: Scope, batch: str, limit: int) -> tuple[Sequence[Record], int]:
        """The first memories of a run that `undo` would take back, and how many there are."""
        return await self._database.read(lambda db: batches.of_batch(db, scope, batch, limit))

    async def undo(self, scope: Scope, batch: str, limit: int) -> Undone:
        """Takes back up to ``limit`` memories that a run added; no tombstone stands in the way of another run."""
        now = datetime.now(UTC)
        undone = await self._database.write(lambda db: batches.undo(db, scope, batch, limit, now))
        self._known.changed()
        for record in undone.records:
            self._known.drop(record.event)
            if record.event.supersedes is not None:
                self._known.drop_superseded(record.event.supersedes)
        await self._database.checkpoint()  # as with what is forgotten: the texts are not left in the log either
        return undone

    # What a file does not have any more

    async def retire(self, scope: Scope, files: Sequence[Whole], *, dry_run: bool = False) -> Mapping[str, int]:
        """Retires what exactly this owner has of files, but for what they have now; by source, how many that are.

        The same text in the file later is current again.
        """

        def look(db: Connection) -> list[Any]:
            return [row for file in files for row in retire.gone(db, scope, file)]

        def work(db: Connection) -> list[Any]:
            rows = look(db)
            retire.retire(db, rows)
            return rows

        if dry_run:
            rows = await self._database.read(look)
        else:
            rows = await self._database.write(work)
            self._known.changed()
            self._lay_off(map(event_of, rows))
        return Counter(row["source"] for row in rows)

    async def sources(self, scope: Scope, prefix: str, after: str, limit: int) -> Sequence[SourceCount]:
        """The sources of a scope's current memories that begin with ``prefix``, by name, after the one named."""
        return await self._database.read(lambda db: retire.sources(db, scope, prefix, after, limit))


def _as_forgotten(record: Record) -> Record:
    """A record of which all that it says was forgotten where it stands."""
    return replace(record, forgotten=True, event=replace(record.event, text="", speaker=None))
