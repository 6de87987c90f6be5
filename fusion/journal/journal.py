"""The journal of one home: the SQLite file that holds the truth about every memory, and the caches over it.

An event goes through the journal like this. `append` writes its row, its terms and one delivery per backend in one
transaction (`fusion.journal.append`) and returns when that is on the disk. `Journal.outbox` then hands them to
`fusion.ingest.deliver`. A row never changes after that, except that it is superseded by a newer event, retired with its
file, or forgotten: `forget` empties its text, stores tombstones and turns its deliveries into deletions.

Each table has a module in this package with functions of a connection, which `Journal.read` and `Journal.write` run:
``await journal.read(listing.counts, tenant)``. What the caches depend on has methods: the records and neighbours that
every question needs, and the tombstones that every answer is checked against.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar

from fusion import wire
from fusion.contract import Event, Extraction, Hit, Scope, StateChange, TimeRange, Where
from fusion.errors import BadInput, FusionError, NotFound, StoreBusy, StoreDamaged
from fusion.journal import (
    batches,
    browsing,
    deletion,
    distil_queue,
    external_refs,
    feed,
    histories,
    idempotency,
    jobs,
    lifecycle,
    listing,
    outbox,
    owners,
    proposals,
    retire,
    same_words,
    split_tenants,
    state,
    statements,
    versions,
    watermark,
)
from fusion.journal.append import AppendRules, Stored, append_all
from fusion.journal.batches import Undone
from fusion.journal.browsing import Browse, Browsed
from fusion.journal.cache import JournalCache
from fusion.journal.deletion import Deletion
from fusion.journal.external_refs import is_external
from fusion.journal.leases import Leases
from fusion.journal.listing import Page
from fusion.journal.merge import Merge, MergeRules
from fusion.journal.outbox import Deliveries, Outbox
from fusion.journal.proposals import Decider, NewProposal
from fusion.journal.retire import CURRENT, CompleteFile
from fusion.journal.rows import Record, all_match, is_explicit, record_of, row_of
from fusion.journal.schema import OLDEST, STEPS
from fusion.journal.state import Change, Decision, Planned
from fusion.journal.statements import Settled
from fusion.journal.tombstones import Tombstones
from fusion.journal.visibility import Visibility
from fusion.journal.watermark import Watermark
from fusion.lib.bm25 import Frequencies
from fusion.lib.clock import Clock, utc_now
from fusion.lib.text_cache import empty_text_caches
from fusion.store import sqlite
from fusion.store.database import Connection, Database, Fence, LastChange
from fusion.store.reachable import Reachable
from fusion.store.rows import EVENT_COLUMNS, event_of
from fusion.store.sqlite import WAL_BYTES, Guard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fusion.store.postgres import Server

log = logging.getLogger(__name__)

REFRESH_S = 5.0
"""seconds that a call waits to learn what other gateways of a shared journal changed"""

P = ParamSpec("P")
T = TypeVar("T")
Around = Callable[[Connection], Callable[[Sequence[Stored]], None]]
"""work in the transaction of an append: before the events are stored, and on what was stored"""


class _Previewed(Exception):
    """Undoes the transaction of decisions that are only shown."""

    def __init__(self, decisions: list[Decision]) -> None:
        super().__init__()
        self.decisions = decisions


class Journal:
    """The journal of one home. ``outbox`` holds what the backends still have to be sent.

    The file is in WAL mode with ``synchronous=FULL``. Methods that write raise StoreFull and StoreBusy with nothing
    written, and all methods raise HomeGone once the file, its log or its folder is no longer at its path.
    """

    schema: ClassVar[Sequence[str]] = STEPS

    def __init__(self, database: Database, keys_kept_s: float = idempotency.KEPT_S, clock: Clock = utc_now) -> None:
        self.clock = clock
        self._database = database
        self._keys_kept_s = keys_kept_s
        self.outbox = Outbox(database)
        self.leases = Leases(database)
        self._distils_turns = False
        self._cache = JournalCache(database)
        self._visibility = Visibility(database)
        self._last_decision = 0
        """the number of the last decision that the caches know"""
        self._last_change = LastChange()
        """the commit up to which the caches know what other gateways changed"""
        self._refreshing = asyncio.Lock()
        self._unused_at_open = 0
        """event numbers that had no row when the file was opened"""
        self._events_at_open = 0
        self._owners: dict[str, owners.Owners] = {}
        """by tenant, as long as no write changes them"""
        self._owners_changed = 0
        self._has_events = False
        """false in a gateway over external stores alone, which then skips the term counts"""

    @classmethod
    async def open(
        cls,
        file: Path,
        *,
        keys_kept_s: float = idempotency.KEPT_S,
        wal_bytes: int = WAL_BYTES,
        clock: Clock = utc_now,
    ) -> Self:
        """Open or create a journal. Raises StoreDamaged when the file is corrupt or newer than this program.

        ``keys_kept_s`` is how long the reply to an Idempotency-Key is kept. A damaged journal is never replaced by an
        empty one: only its owner can decide what to do with it.
        """
        guard = Guard(Reachable(file), watermark.COUNT, watermark.STATE)
        database = await sqlite.Database.open(
            file, cls.schema, fix=cls.fix_for(file), guard=guard, wal_bytes=wal_bytes, events="event"
        )
        journal = cls(database, keys_kept_s, clock)
        await journal.load()
        await journal._hash_old_words()
        journal._unused_at_open = await journal.read(watermark.unused)
        return journal

    @classmethod
    async def open_shared(
        cls, server: Server, tenant: str, *, keys_kept_s: float = idempotency.KEPT_S, clock: Clock = utc_now
    ) -> Self:
        """Open or create a tenant's journal in PostgreSQL, which any number of gateways share."""
        from fusion.store import postgres

        count = f"{watermark.COUNT}; {feed.COUNT}"
        database = await postgres.Database.open(
            server, tenant, cls.schema, oldest=OLDEST, count=count, columns=EVENT_COLUMNS
        )
        journal = cls(database, keys_kept_s, clock)
        try:
            await journal.load()
            await journal._hash_old_words()
            journal._events_at_open = (await journal.watermark()).events
            journal._unused_at_open = await journal.read(watermark.unused)
        except BaseException:
            await journal.close()
            raise
        return journal

    @staticmethod
    def fix_for(file: Path) -> str:
        """What the owner of a damaged journal can do."""
        return (
            f"It holds every memory, so it is not replaced. Stop the gateway and restore it from a backup; or rebuild "
            f"it from what can be read of it and from the stores: fusion repair --home {file.parent}"
        )

    async def _hash_old_words(self) -> None:
        """Add what programs of the version before leave out."""
        if await self._database.read(same_words.has_unhashed):
            while await self._database.write(same_words.hash_some):
                pass

    async def load(self) -> None:
        """Load what is kept in memory: what may be shown, and how far decisions and changes are known."""
        last_change = await self._database.last_change()
        await self._visibility.load()
        self._last_decision, _ = await self.read(state.changed_since, self._last_decision)
        self._has_events = bool(await self._database.rows("select 1 from owner limit 1"))
        self._last_change = last_change  # last: an append must not take the tombstones of before for current

    def fenced(self, table: str, name: str, token: int) -> AbstractContextManager[Fence]:
        """Within the block, refuse writes once a lease of a shared journal has ended: they raise LeaseLost."""
        return self._database.fenced(table, name, token)

    async def news(self) -> None:
        """Wait until another gateway has announced a change; without end where none shares the journal."""
        await self._database.news.wait()
        self._database.news.clear()

    async def refresh(self, most_s: float = REFRESH_S) -> None:
        """Bring in what other gateways changed: afterwards no cache is behind a write that was acknowledged before.

        Raises StoreBusy if the database does not say within ``most_s`` seconds what changed.
        """
        if not self.shared:
            return
        async with self.time_limit(most_s):
            last_change = await self._database.last_change()
        if last_change == self._last_change:
            return
        async with self._refreshing, self._visibility.changing:
            if feed.begins_anew(self._last_change, last_change):
                # Or this one waited while another call learned of later changes.
                last_change = await self._database.last_change()
            if feed.begins_anew(self._last_change, last_change):
                log.warning(
                    "%s was restored, or its replica was promoted, so it may lack what was written last: everything is "
                    "read again",
                    self.place,
                )
                self._last_decision = 0
                self.outbox.look_at_all_events()
                await self._load_again()
                return
            changes = await self.read(feed.since, self._last_change.number)
            if changes.complete:
                await self._apply(changes)
            else:
                await self._load_again()
            self._last_change = last_change._replace(number=changes.last)

    async def _load_again(self) -> None:
        self._cache.clear()
        self._forget_owners()
        empty_text_caches()
        await self.load()

    @contextlib.asynccontextmanager
    async def time_limit(self, most_s: float | None) -> AsyncIterator[None]:
        """End the block with StoreBusy after ``most_s`` seconds, if its database is another process. None: no limit."""
        if most_s is None or not self.shared:
            yield
            return
        limit = asyncio.timeout(most_s)
        try:
            async with limit:
                yield
        except TimeoutError:
            if not limit.expired():
                raise
            raise StoreBusy(f"{self.place} has not answered within {most_s:g} s; try again in a moment") from None

    async def _apply(self, changes: feed.Changes) -> None:
        """Drop from the caches, or add to them, what changed."""
        if changes.events:
            self._cache.invalidate()
        for row in changes.events:
            self._cache.drop(event_of(row))
            for other in (row["supersedes"], row["superseded_by"]):
                if other is not None:
                    self._cache.drop_superseded(other)
        if changes.events:
            self._forget_owners()
            self._has_events = True
        await self._visibility.apply(changes)
        if changes.keys or changes.lines:  # what another gateway forgot must not stay in this process either
            empty_text_caches()

    async def check(self) -> None:
        """Read the whole file. Raises StoreDamaged when it is not what was written, and HomeGone."""
        if self._database.refusal:
            raise self._database.refused(self._database.refusal)
        await self._database.compare_with_files()
        await self._database.check()

    @property
    def shared(self) -> bool:
        """Whether other gateways write to it, too."""
        return self._database.shared

    @property
    def place(self) -> str:
        """Where the journal is, for messages."""
        return self._database.place

    @property
    def file(self) -> Path:
        """The file of the journal. Raises BadInput for one that is in a server's database."""
        if not isinstance(self._database, sqlite.Database):
            raise BadInput(f"the journal is in {self.place} and not in a file: use that database's own tools")
        return self._database.path

    def refuse_writes(self, why: str, error: type[FusionError] = StoreDamaged) -> None:
        """From now on every write raises ``error`` with this reason; reads continue."""
        self._database.refusal, self._database.refused = why, error

    def require_reachable(self) -> None:
        """Raises HomeGone when the journal is no longer at its path; takes some microseconds."""
        self._database.require_reachable()

    async def compare_with_files(self) -> None:
        """Raises HomeGone when another process wrote to the files and they lack what was acknowledged."""
        await self._database.compare_with_files()

    async def watermark(self) -> Watermark:
        """The journal's id and how much it holds now."""
        return await self.read(watermark.read)

    async def mark(self) -> Watermark:
        """The watermark to leave next to a store; the events are not counted.

        Of a shared journal it has those of the open, since other gateways may leave numbers unused.
        """
        mark = await self.read(watermark.read_uncounted, self._unused_at_open)
        return replace(mark, events=self._events_at_open) if self.shared else mark

    async def deleted_externally(self) -> int:
        """How many events another program has deleted from the file since it was opened; the journal deletes none.

        Always 0 for a shared journal, whose other gateways use numbers as well.
        """
        if self.shared:
            return 0
        return await self.read(watermark.unused) - self._unused_at_open

    async def close(self) -> None:
        await self._database.close()

    async def read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a table's function over one snapshot."""
        return await self._database.read(lambda db: query(db, *args, **kwargs))

    async def write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a table's function in one transaction; durable when it returns."""
        return await self._database.write(lambda db: work(db, *args, **kwargs))

    async def erase(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `write`, for what deletes texts: they are not left in the write-ahead log either."""
        done = await self.write(work, *args, **kwargs)
        await self._database.checkpoint()
        return done

    async def snapshot(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `read`, in a thread of its own: a long query does not take one from the questions."""
        return await asyncio.to_thread(self._database.look, lambda db: query(db, *args, **kwargs))

    # Writing events

    async def append(
        self,
        events: Sequence[Event],
        *,
        guard: idempotency.Guard | None = None,
        reply: Callable[[Sequence[Stored]], object] | None = None,
        batch: str | None = None,
        urgent: bool = False,
        apart: bool = False,
        updates: bool = False,
        around: Around | None = None,
    ) -> Sequence[Stored] | str:
        """Store all events or none, in one transaction; durable when it returns.

        An event whose natural key is known comes back as a duplicate. Another text at a taken place is a new event that
        supersedes the current one, also when that text was there before. A repeated request of a ``guard``'s key
        returns the first one's ``reply`` as JSON, or raises KeyReused when it asks for something else. ``batch`` is the
        id of the ingest run; ``urgent`` events are delivered before all others; with ``apart``, words that were
        remembered explicitly before become another memory. With ``updates``, each event replaces a current memory, or
        raises AlreadyReplaced, and is a run of its own (`fusion.journal.versions.batch_of`).
        """

        def work(db: Connection) -> Sequence[Stored] | str:
            now = int(self.clock().timestamp())
            if guard is not None:
                idempotency.expire(db, now - self._keys_kept_s)
                if (known := idempotency.replayed(db, guard)) is not None:
                    return known
            conclude = None if around is None else around(db)
            stored = self._append(db, events, urgent=urgent, apart=apart, updates=updates)
            if conclude is not None:
                conclude(stored)
            new = [one for one in stored if one.state in ("stored", "superseded")]
            if batch is not None:
                batches.enter(db, batch, [one.event.event_id for one in new])
            elif updates:
                for one in new:
                    batches.enter(db, versions.batch_of(one.ref), [one.event.event_id])
            if guard is not None and reply is not None:
                idempotency.keep(db, guard, reply(stored), now)
            return stored

        outcome = await self._database.write(work)
        if not isinstance(outcome, str):
            self._update_caches(outcome)
            if any(stored.retired or stored.event.supersedes for stored in outcome):
                await self._show_decisions()
                await self._visibility.reload_quarantined()
            for stored in outcome:
                if stored.event.trust == "quarantined":
                    self._visibility.quarantine(stored.event)
            forgotten = self._visibility.forgotten
            if any(forgotten.may_lift(event) for event in events if updates or is_explicit(event)):
                async with self._visibility.changing:
                    await self._visibility.reload_forgotten()
        return outcome

    def _append(
        self,
        db: Connection,
        events: Sequence[Event],
        *,
        urgent: bool = False,
        apart: bool = False,
        updates: bool = False,
    ) -> list[Stored]:
        rules = AppendRules(self.outbox.stores, self._tombstones(db), self._distils_turns, urgent, apart, updates)
        return append_all(db, events, rules)

    def _tombstones(self, db: Connection) -> Tombstones:
        """What is forgotten as of this transaction, also by other gateways."""
        if self.shared and feed.forgot_since(db, self._last_change):
            return Tombstones.of(db)
        return self._visibility.forgotten

    def _update_caches(self, outcome: Sequence[Stored]) -> None:
        """Drop from the caches what a write changed."""
        self._cache.invalidate()
        self._has_events = self._has_events or bool(outcome)
        if not all(self._knows_owner(stored) for stored in outcome):
            self._forget_owners()
        for stored in outcome:
            self._cache.drop(stored.event)
            if stored.event.supersedes is not None:
                self._cache.drop_superseded(stored.event.supersedes)
            self._drop_cached(stored.retired)

    def _knows_owner(self, stored: Stored) -> bool:
        """Whether an outcome leaves the owners as they are; what it replaces may have been an agent's last memory."""
        known = self._owners.get(stored.event.scope.tenant)
        return known is not None and known.include(stored.event) and stored.event.supersedes is None

    def _drop_cached(self, events: Iterable[Event]) -> None:
        for event in events:
            self._cache.drop(event)

    @property
    def changes(self) -> int:
        """The number of writes since it was opened that may change an answer."""
        return self._cache.changes

    async def propose(
        self,
        given: Sequence[NewProposal],
        by: Decider,
        limits: proposals.Limits,
        guard: idempotency.Guard | None = None,
    ) -> list[tuple[int, bool]]:
        """Enter proposals, as `proposals.propose`; durable when it returns."""

        def work(db: Connection) -> list[tuple[int, bool]]:
            now = self.clock()
            idempotency.expire(db, now.timestamp() - self._keys_kept_s)
            return proposals.propose(db, given, by, limits, now, guard)

        return await self.write(work)

    # Reading events

    async def records(self, event_ids: Sequence[str]) -> Mapping[str, Record]:
        """By event id, the records of known events, forgotten ones included.

        The text leaves out statements that were forgotten in its file; with nothing left the record is forgotten.
        """
        found = await self._cache.records(event_ids)
        if not self._visibility.forgotten.lines:
            return found
        return {i: self._visibility.record(one) or _as_forgotten(one) for i, one in found.items()}

    async def neighbours(self, event_ids: Sequence[str], span: int) -> Mapping[str, Sequence[Record]]:
        """By event id, up to ``span`` events before it and after it in its document or session, in reading order.

        Forgotten statements of their files are left out.
        """
        found = await self._cache.neighbours(event_ids, span)
        if not self._visibility.forgotten.lines:
            return found
        return {i: self._visibility.records(records) for i, records in found.items()}

    async def happened(
        self,
        scope: Scope,
        times: Sequence[TimeRange],
        limit: int,
        *,
        zone: str | None = None,
        history: bool,
        every: bool,
    ) -> Sequence[Record]:
        """At most ``limit`` memories of what happened in one of these times (`listing.happened`)."""
        if not self._has_events:
            return ()
        return self._visibility.records(
            await self.read(listing.happened, scope, times, limit, zone=zone, history=history, every=every)
        )

    async def fitting(self, scope: Scope, where: Where, limit: int, *, history: bool) -> Sequence[Record]:
        """At most ``limit`` memories that fit a filter (`listing.fitting`)."""
        if not self._has_events:
            return ()
        return self._visibility.records(await self.read(listing.fitting, scope, where, limit, history=history))

    async def frequencies(self, scope: Scope, asked: Sequence[str]) -> Frequencies:
        """The document frequency of each term among the memories of the scope's user, or of the whole tenant."""
        if not self._has_events:
            return Frequencies()
        return await self._cache.frequencies(scope, asked)

    async def page(
        self,
        scope: Scope,
        limit: int,
        *,
        before: int | None = None,
        document: str | None = None,
        source: str | None = None,
    ) -> Page:
        """Up to ``limit`` current memories that ``scope`` may see, newest first.

        ``before`` is where the previous page ended. Memories added meanwhile come before the first page, so no later
        page repeats or misses one.
        """
        page = await self.read(listing.page, scope, limit, before=before, document=document, source=source)
        return replace(page, records=tuple(self._visibility.records(page.records)))

    async def browse(self, asked: Browse) -> Browsed:
        """A page of the memories that fit (`browsing.browse`), without statements that were forgotten in their files.

        What is left of a memory must still have the words that were searched.
        """
        page = await self.read(browsing.browse, asked, self.clock())
        left = {one.ref: one for one in self._visibility.records(page.records)}
        cut = {one.ref for one in page.records if one.ref in left and left[one.ref].event.text != one.event.text}
        words = [word.casefold() for word in asked.words]
        gone = {ref for ref in cut if not all(word in left[ref].event.text.casefold() for word in words)}
        return replace(page, records=tuple(one for ref, one in left.items() if ref not in gone))

    async def find(self, ref: str, scope: Scope) -> Record:
        """The event of a short ref or event id. Raises NotFound, also for another owner's and for a forgotten one."""
        record = self._visibility.record(record_of(await self.read(row_of, ref, scope)))
        if record is None:
            raise NotFound(f"there is no memory {ref!r} here: all that it says was forgotten in its file")
        return record

    async def find_all(self, refs: Sequence[str], scope: Scope) -> Mapping[str, Record]:
        """By ref, the events of those refs that name one."""

        def work(db: Connection) -> dict[str, Record]:
            found = {}
            for ref in refs:
                with contextlib.suppress(NotFound):
                    found[ref] = record_of(row_of(db, ref, scope))
            return found

        return await self._database.read(work)

    async def document(self, name: str, scope: Scope, start: int, limit: int) -> Sequence[Record]:
        """At most ``limit`` memories of a document from position ``start`` on, in its order.

        The last one where the document ends before ``start``; nothing where there is none. Raises BadInput when several
        users have a document of that name and ``scope`` does not name one.
        """
        found = await self.read(listing.document, name, scope, start, limit)
        return self._visibility.records(record for record in found if record.trust != "quarantined")

    # Visibility of what backends return

    def without_forgotten(self, backend: str, hits: Sequence[Hit]) -> Sequence[Hit]:
        """The hits that may be shown, pieces of files without their forgotten statements (`Visibility.hits`)."""
        return self._visibility.hits(backend, hits)

    def visible_lines(self, scope: Scope, document: str, lines: Sequence[str]) -> Mapping[int, str]:
        """By number from 1, each line of a user's own file that has forgotten statements, without them."""
        return self._visibility.lines(scope, document, lines)

    # Counts

    async def owners(self, tenant: str) -> owners.Owners:
        """The users and agents that have memories in a tenant; from memory unless a write has changed them."""
        known = self._owners.get(tenant)
        if known is None:
            changes = self._owners_changed
            known = await self.read(owners.read, tenant)
            if changes == self._owners_changed:
                self._owners[tenant] = known
        return known

    def _forget_owners(self) -> None:
        self._owners.clear()
        self._owners_changed += 1

    async def backlog(self) -> Mapping[str, int]:
        """By backend, how many deliveries are open."""
        return await self.outbox.backlog()

    async def deliveries(self) -> Mapping[str, Deliveries]:
        """By backend, the state of its deliveries."""
        return await self.read(outbox.deliveries)

    async def counts(self, tenant: str) -> wire.Counts:
        """How many memories a tenant has."""
        return await self.read(listing.counts, tenant)

    async def counts_of_scope(self, scope: Scope) -> wire.Counts:
        """How many memories a scope may see, in all and by backend."""
        return await self.read(listing.counts_of_scope, scope)

    # Distillation

    def enable_distillation(self) -> None:
        """From now on queue every new turn for the language model; earlier turns are not queued."""
        self._distils_turns = True

    async def upkeep(self) -> tuple[int, list[wire.FailedJob]]:
        """How many statements wait to be compared, and the jobs whose latest run failed."""
        return await self.read(lambda db: (statements.waiting(db), jobs.failed(db)))

    async def keep_distilled(self, seqs: Sequence[int], found: Sequence[tuple[Event, Extraction]]) -> Sequence[Stored]:
        """Store what was distilled from these turns and remove them from the queue, in one transaction.

        Nothing is stored for turns that have left the queue, and no memory that has a source which was forgotten or
        edited meanwhile; the other sources of an edited one are queued again. Memories made earlier from these turns
        alone, which share a turn with a new one, are retired.
        """

        def work(db: Connection) -> tuple[list[Stored], list[Event]]:
            taken = distil_queue.take(db, seqs)
            stored = []
            for event, extraction in found if taken else ():
                if all_match(db, event.derived_from, CURRENT):
                    (one,) = self._append(db, [event])
                    if one.state == "stored":
                        distil_queue.save_extraction(db, one.event.event_id, extraction)
                        state.set_confidence(db, one.event, extraction.confidence)
                    stored.append(one)
                elif all_match(db, event.derived_from, "forgotten = 0"):
                    distil_queue.requeue(db, event.derived_from)
            earlier = retire.replaced(db, taken, [one.event for one in stored])
            retire.retire(db, earlier)
            return stored, [event_of(row) for row in earlier]

        outcome, earlier = await self._database.write(work)
        self._forget_owners()
        self._update_caches(outcome)
        self._drop_cached(earlier)
        await self._show_decisions()
        return outcome

    # States

    async def decide(
        self,
        changes: Mapping[str, Change],
        who: str,
        why: str,
        *,
        run: str | None = None,
        now: datetime | None = None,
        may_raise_trust: bool = True,
        dry_run: bool = False,
    ) -> Decision | None:
        """Change the states of memories of one owner, as `state.decide`; durable and visible when it returns.

        Without ``may_raise_trust`` it raises BadInput for a change that raises a memory's trust, and decides nothing.
        With ``dry_run`` the decision is taken back before it is stored.
        """
        at = now or self.clock()

        def work(db: Connection) -> list[Decision]:
            return _made(state.decide(db, changes, who, why, at, run=run))

        made = await self._decide(work, may_raise_trust, dry_run=dry_run)
        return made[0] if made else None

    async def decide_all(
        self, planned: Sequence[Planned], who: str, *, run: str | None = None, now: datetime | None = None
    ) -> list[Decision]:
        """Make several decisions in one transaction, as `state.decide_all`."""
        if not planned:
            return []
        decisions = await self.write(state.decide_all, planned, who, now or self.clock(), run=run)
        await self._show_decisions()
        return decisions

    async def delete_expired(self, event_ids: Sequence[str]) -> int:
        """Delete those of these memories that expired, as `lifecycle.delete_expired`; returns their number."""
        records = await self.write(lifecycle.delete_expired, event_ids, self.clock())
        self._cache.invalidate()
        self._drop_cached(record.event for record in records)
        await self._show_decisions()
        await self._database.checkpoint()  # as in `forget`
        return len(records)

    async def settle_statements(self, settled: Sequence[Settled], who: str) -> Sequence[int]:
        """Decide on new statements, as `statements.settle`; visible when it returns."""
        if not settled:
            return []
        done = await self.write(statements.settle, settled, who, self.clock())
        if any(one.changes for one in settled):
            await self._show_decisions()
        return done

    async def decide_external(
        self, ref: str, scope: Scope, change: StateChange, who: str, why: str, *, may_raise_trust: bool = True
    ) -> Decision | None:
        """Change the state of an external item that was shown to a question of ``scope``, as `decide`; raises NotFound
        as well."""

        def work(db: Connection) -> list[Decision]:
            item = external_refs.resolve(db, ref, scope)
            owner = scope.tenant, item.scope.user_id
            return _made(state.decide_external(db, *owner, item.ref, change, who, why, self.clock()))

        made = await self._decide(work, may_raise_trust)
        return made[0] if made else None

    async def undo_decision(self, name: str, scope: Scope, who: str, *, may_raise_trust: bool = True) -> Decision:
        """Take a decision back, as `state.undo`; what gives a memory more trust again as `decide`."""

        def work(db: Connection) -> list[Decision]:
            undo = proposals.undo if proposals.is_about_proposal(db, name) else state.undo
            return [undo(db, name, scope, who, self.clock())]

        made = await self._decide(work, may_raise_trust)
        return made[0]

    async def undo_run(self, run: str, scope: Scope, who: str, *, may_raise_trust: bool = True) -> list[Decision]:
        """Take back what a run of a job decided, as `state.undo_run`; what gives more trust again as `decide`."""
        return await self._decide(lambda db: state.undo_run(db, run, scope, who, self.clock()), may_raise_trust)

    async def _decide(
        self, work: Callable[[Connection], list[Decision]], may_raise_trust: bool, *, dry_run: bool = False
    ) -> list[Decision]:
        """Make decisions in one transaction; visible when it returns. With ``dry_run`` the transaction is undone."""

        def limited(db: Connection) -> list[Decision]:
            made = work(db)
            if not may_raise_trust:
                state.refuse_more_trust(db, made)
            if dry_run:
                raise _Previewed(made)
            return made

        try:
            made = await self.write(limited)
        except _Previewed as previewed:
            return previewed.decisions
        await self._show_decisions()
        return made

    async def _show_decisions(self) -> None:
        """Drop from the caches what was decided since this was called last."""
        self._last_decision, items = await self.read(state.changed_since, self._last_decision)
        if items:
            self._cache.invalidate()
            self._cache.drop_records(items)
            await self._visibility.decided(items)

    # Forgetting

    async def forget(
        self, refs: Sequence[str], scope: Scope, by: str = "ref", *, alone: bool = False
    ) -> Mapping[str, Sequence[Deletion]]:
        """Forget memories by ref, in one transaction: their texts are gone and their tombstones stored.

        With each go its duplicates, the earlier versions that it superseded, and what was derived from it alone.
        Returns by ref what was forgotten, the named memory first; nothing for a ref that names no memory, or one that
        an earlier ref took with it. ``by`` names the criteria for the audit. With ``alone`` its duplicates stay.
        """
        async with self._visibility.changing:
            forgotten = await self.write(deletion.forget_all, refs, scope, by, self.clock(), alone=alone)
            self._cache.invalidate()
            self._forget_owners()
            for ref, deletions in forgotten.items():
                for one in deletions:
                    self._cache.drop(one.record.event)
                    item, backend = Hit.of(one.record.event), None
                    if is_external(ref):
                        ((backend, (_, (native_id,))),) = one.due.items()
                        item = replace(item, native_id=native_id)
                    self._visibility.forgotten.add(item, backend)
        await self._show_decisions()
        await self._visibility.reload_quarantined()
        await self._database.checkpoint()  # the text must not be left in the write-ahead log either
        return forgotten

    # Tenants

    async def move_tenant(self, tenant: str, target: Path) -> bool:
        """Move a tenant's memories to a journal of its own, or continue that; whether it is complete."""
        if not target.exists():
            await asyncio.to_thread(split_tenants.copy, self.file, tenant, target)
        kept = await asyncio.to_thread(split_tenants.events_in, target)
        moved = await self.write(split_tenants.release, tenant, kept)
        await self._database.checkpoint()
        await self.load()
        self._forget_owners()
        self._unused_at_open = await self.read(watermark.unused)
        return moved

    # Imports

    def begin_merge(self, *, owns: bool, older: bool) -> Merge:
        """A merge of an export into this journal, whose steps `merge` runs."""
        return Merge(MergeRules(self.outbox.stores, owns, older, self._distils_turns), self.clock())

    async def merge(
        self, merge: Merge, step: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[T, list[Deletion]]:
        """Run one step of a merge in a transaction; also returns the memories that it forgot here."""

        def work(db: Connection) -> T:
            merge.tombstones = self._tombstones(db)  # something may have been forgotten since the step before
            done = step(db, *args, **kwargs)
            # Before the commit: numbers without a row would be taken for events that another program deleted.
            self._unused_at_open, merge.gap = self._unused_at_open + merge.gap, 0
            return done

        async with self._visibility.changing:
            done = await self.write(work)
            deletions, merge.deletions = merge.deletions, []
            changed, merge.changed = merge.changed, False
            self._cache.clear()
            self._forget_owners()
            self._has_events = True
            if deletions or changed:
                await self._visibility.reload_forgotten()
            await self._visibility.reload_quarantined(always=True)
        await self._show_decisions()
        if deletions:
            await self._database.checkpoint()  # as in `forget`
        return done, deletions

    # Ingest runs

    async def undo(self, scope: Scope, batch: str, limit: int) -> Undone:
        """Take back up to ``limit`` memories that a run added, without tombstones, so the run can be repeated."""
        undone = await self.write(batches.undo, scope, batch, limit, self.clock())
        self._cache.invalidate()
        self._forget_owners()
        for record in undone.records:
            self._cache.drop(record.event)
            if record.event.supersedes is not None:
                self._cache.drop_superseded(record.event.supersedes)
        await self._show_decisions()
        await self._database.checkpoint()  # as in `forget`
        return undone

    # Files

    async def retire(self, scope: Scope, files: Sequence[CompleteFile], *, dry_run: bool = False) -> Mapping[str, int]:
        """Retire the memories of exactly this owner that their files no longer contain; counts by source.

        When the same text is in the file again, its memory is current again.
        """
        if dry_run:
            gone = await self.read(retire.missing_from, scope, files)
        else:
            gone = await self.write(_retire_missing, scope, files)
            await self._drop_retired(gone)
        return Counter(row["source"] for row in gone)

    async def retire_turns(self, scope: Scope, source: str, document: str, places: Collection[int]) -> int:
        """Retire the turns at these places of a conversation, and what was distilled from them; their number."""
        gone = await self.write(histories.retire_turns, scope, source, document, places)
        await self._drop_retired(gone)
        return len(gone)

    async def _drop_retired(self, gone: Sequence[Any]) -> None:
        """Drop from the caches what was retired."""
        self._cache.invalidate()
        self._forget_owners()
        self._drop_cached(map(event_of, gone))
        await self._show_decisions()


def _retire_missing(db: Connection, scope: Scope, files: Sequence[CompleteFile]) -> list[Any]:
    gone = retire.missing_from(db, scope, files)
    retire.retire(db, gone)
    return gone


def _as_forgotten(record: Record) -> Record:
    """The record with its text emptied and marked as forgotten."""
    return replace(record, forgotten=True, event=replace(record.event, text="", speaker=None))


def _made(decision: Decision | None) -> list[Decision]:
    return [] if decision is None else [decision]
