"""The event log: durable, first, once; and what of it was delivered where, under which native id.

SQLite in WAL mode with ``synchronous=FULL``: what `append` returned is on the disk. One row an event, never changed but
for being superseded or forgotten. Beside the events stand the deliveries (what each backend still has to be told),
the tombstones (what must not come back), the document frequencies of each owner's words, and the Idempotency-Keys.
What the read path asks on every request (`records`, `neighbours`) is answered from memory once it was read.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

from fusion.contract import Event, Forgotten, Hit, Place, Scope
from fusion.errors import BadInput, KeyReused, NotFound
from fusion.ingest.rows import Record, count, keys_of, owner_of, record_of, row_of
from fusion.ingest.tombstones import Burial, bury, file_lines, with_what_follows
from fusion.lib.bm25 import Frequencies
from fusion.lib.ids import short_ref
from fusion.lib.sqlite import (
    EVENT_COLUMNS,
    EVENT_NAMES,
    Connection,
    Database,
    event_of,
    event_row,
    microseconds,
    storable,
    time_of,
)

State = Literal["stored", "duplicate", "superseded", "blocked"]
GivenUp = Literal["declined", "failed"]

_SCHEMA = f"""
create table event(
    seq integer primary key autoincrement, {EVENT_COLUMNS},
    natural text unique, place_key text, forgotten integer not null default 0, superseded_by text
);
create index event_place on event(place_key, seq) where place_key is not null;
create index event_document on event(tenant, user_id, document, place_unit, place_start) where document is not null;
create index event_session on event(tenant, user_id, session_id, seq) where document is null and session_id is not null;
create table delivery(
    seq integer not null references event(seq), backend text not null, state text not null default 'pending',
    native_ids text not null default '[]', attempts integer not null default 0, next_at integer not null default 0,
    reason text,
    primary key(backend, seq)
) without rowid;
create index delivery_open on delivery(backend, state, seq) where state in ('pending', 'forget');
create table tombstone(key text primary key, event_id text not null) without rowid;
create table hidden(
    tenant text not null, document text not null, line text not null, primary key(tenant, document, line)
) without rowid;
create table term(owner text not null, term text not null, n integer not null, primary key(owner, term)) without rowid;
create table owner(owner text primary key, tenant text not null, documents integer not null, length integer not null)
    without rowid;
create table idempotency(
    tenant text not null, key text not null, body text not null, reply text not null, at integer not null,
    primary key(tenant, key)
) without rowid;
create index idempotency_age on idempotency(at);
create table derived(source text not null, event_id text not null, primary key(source, event_id)) without rowid;
"""
_LISTING = """
create index event_tenant on event(tenant, seq);
create index event_user on event(tenant, user_id, seq);
"""
"""the newest memories of a tenant or a user, page by page, without a look at everybody else's"""

CACHED_RECORDS = 20_000
CACHED_DOCUMENTS = 2_000
MAX_SEQ = (1 << 63) - 1
KEYS_KEPT_S = 7 * 86_400.0
"""an Idempotency-Key is remembered for a week unless it is set otherwise: nobody retries longer"""


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of one event that was handed in. ``event`` is the one that is kept, maybe an earlier one."""

    ref: str
    event: Event
    state: State


@dataclass(frozen=True, slots=True)
class Page:
    """Some memories of a list, newest first. ``next`` is where the next page begins, None after the last one."""

    records: tuple[Record, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class Due:
    """One delivery that a backend has not acknowledged."""

    seq: int
    event: Event
    attempts: int
    native_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deliveries:
    """How far one backend is: ``waiting`` to be told, ``refused`` of those at least once, ``failed`` for good."""

    waiting: int = 0
    refused: int = 0
    failed: int = 0
    reason: str = ""
    """why, of one that was refused or failed"""

    def trouble(self) -> dict[str, Any]:
        return {"refused": self.refused, "failed": self.failed, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Counts:
    """What a tenant's journal holds: ``current`` memories, earlier versions of them, and what was forgotten."""

    current: int = 0
    superseded: int = 0
    forgotten: int = 0


@dataclass(frozen=True, slots=True)
class _Order:
    """A document's events in reading order, and where each stands."""

    ids: tuple[str, ...]
    at: Mapping[str, int]


class Journal:
    """The journal of one home. ``stores`` are the backends that every new event is to be delivered to."""

    schema: ClassVar[Sequence[str]] = (_SCHEMA, _LISTING)

    def __init__(self, database: Database, keys_kept_s: float = KEYS_KEPT_S) -> None:
        self._database = database
        self._keys_kept_s = keys_kept_s
        self._stores: tuple[str, ...] = ()
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._orders: OrderedDict[tuple[object, ...], _Order] = OrderedDict()
        self._changes = 0
        """counts what was written: what a reader saw before a change must not be cached after it"""
        self._hidden: dict[tuple[str, str], set[str]] = {}
        """by tenant and document, hashes of the lines of files that were forgotten: never the lines themselves"""
        self._counted = False
        """whether any memory ever came in: a gateway over other people's stores alone need not look"""

    @classmethod
    async def open(cls, file: Path, *, keys_kept_s: float = KEYS_KEPT_S) -> Self:
        """Raises StoreDamaged when the file is corrupt or newer than this program.

        ``keys_kept_s`` is for how long a second request of an Idempotency-Key is known for one.

        A damaged journal is never replaced by an empty one: it is the truth, and what became of it is its owner's to
        decide.
        """
        journal = cls(await Database.open(file, cls.schema, mend=cls.mend(file)), keys_kept_s)
        await journal.load()
        return journal

    @staticmethod
    def mend(file: Path) -> str:
        """What its owner can do when it is damaged."""
        aside = file.with_name(f"{file.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S}")
        return (
            f"It holds every memory, so it is not replaced. Stop the gateway and restore it from a backup; or set it "
            f"aside (mv {file} {aside}) and begin with an empty one"
        )

    async def load(self) -> None:
        """Reads what is asked of memory later."""
        rows = await self._database.read(lambda db: db.execute("select tenant, document, line from hidden").fetchall())
        self._counted = bool(await self._database.read(lambda db: db.execute("select 1 from owner limit 1").fetchone()))
        for tenant, document, line in rows:
            self._hidden.setdefault((tenant, document), set()).add(line)

    async def check(self) -> None:
        """Looks through the file. Raises StoreDamaged when it is not what was written."""
        await self._database.check()

    async def close(self) -> None:
        await self._database.close()

    # Writing

    async def append(
        self,
        events: Sequence[Event],
        *,
        idempotency: tuple[str, str, str] | None = None,
        reply: Callable[[Sequence[Stored]], object] | None = None,
    ) -> Sequence[Stored] | str:
        """Keeps events, all or none, in one transaction; durable when it returns.

        The same natural key is the same event, and comes back as a duplicate. Another text at a place that is taken is
        a new event that supersedes the one there. ``idempotency`` is (tenant, key, hash of the request): the second
        request of a key gets the first one's ``reply`` as JSON text, or KeyReused when it asks for something else.
        Raises StoreFull and StoreBusy with nothing written.
        """

        def work(db: Connection) -> Sequence[Stored] | str:
            now = int(datetime.now(UTC).timestamp())
            if idempotency is not None:
                db.execute("delete from idempotency where at <= ?", (now - self._keys_kept_s,))
                if (again := _replayed(db, idempotency)) is not None:
                    return again
            stored = [self._append_one(db, event) for event in events]
            if idempotency is not None and reply is not None:
                db.execute(
                    "insert into idempotency values(?, ?, ?, ?, ?)", (*idempotency, json.dumps(reply(stored)), now)
                )
            return stored

        outcome = await self._database.write(work)
        self._changes += 1
        if not isinstance(outcome, str):
            self._counted = self._counted or bool(outcome)
            for stored in outcome:
                self._outdate(stored.event)
                if stored.event.supersedes is not None:
                    self._records.pop(stored.event.supersedes, None)
                    self._orders.clear()  # what it replaces may stand in another document
        return outcome

    def _append_one(self, db: Connection, event: Event) -> Stored:
        place_key, natural, words = keys_of(event)
        automatic = natural is not None
        if automatic:
            row = db.execute("select * from event where natural = ?", (natural,)).fetchone()
            if row is not None and not row["forgotten"]:
                return Stored(short_ref(row["seq"]), event_of(row), "duplicate")
            marks = [mark for mark in (natural, words) if mark]
            found = db.execute(
                f"select event_id from tombstone where key in ({', '.join('?' * len(marks))})", marks
            ).fetchone()
            if found is not None:
                return Stored("", event, "blocked")
        elif words is not None:
            db.execute("delete from tombstone where key = ?", (words,))
        event, state = self._superseding(db, event, place_key)
        columns = ", ".join((*EVENT_NAMES, "natural", "place_key"))
        seq = db.execute(
            f"insert into event({columns}) values({', '.join('?' * (len(EVENT_NAMES) + 2))})",
            (*event_row(event), natural, place_key),
        ).lastrowid
        assert seq is not None  # noqa: S101 — an insert that did not raise has a row
        if event.supersedes is not None:
            old = db.execute("select * from event where event_id = ?", (event.supersedes,)).fetchone()
            if old["superseded_by"] is None:
                count(db, event_of(old), -1)
            db.execute("update event set superseded_by = ? where seq = ?", (event.event_id, old["seq"]))
        db.executemany("insert into delivery(seq, backend) values(?, ?)", [(seq, name) for name in self._stores])
        db.executemany("insert or ignore into derived values(?, ?)", [(s, event.event_id) for s in event.derived_from])
        count(db, event, +1)
        return Stored(short_ref(seq), event, state)

    def _superseding(self, db: Connection, event: Event, place_key: str | None) -> tuple[Event, State]:
        """The event, superseding what stands at its place, or what its caller named by ref or id."""
        if event.supersedes is not None:
            # One's own private memory can be superseded by one for all; another owner's cannot be superseded at all.
            row = row_of(db, event.supersedes, replace(event.scope, audience="private"))
            if row["user_id"] != event.scope.user_id:
                raise NotFound(f"there is no memory {event.supersedes!r} of this user")
            return replace(event, supersedes=row["event_id"]), "superseded"
        # Lines of a file move when something is written above them, so only turns hold their place.
        if place_key is None or (event.place is not None and event.place.unit == "line"):
            return event, "stored"
        row = db.execute(
            "select event_id from event where place_key = ? and superseded_by is null and forgotten = 0 "
            "order by seq desc limit 1",
            (place_key,),
        ).fetchone()
        return (event, "stored") if row is None else (replace(event, supersedes=row["event_id"]), "superseded")

    # Reading

    async def records(self, event_ids: Sequence[str]) -> Mapping[str, Record]:
        """What is known of each event; one that never came through here is not in it, a forgotten one is."""
        found = {i: record for i in event_ids if (record := self._records.get(i)) is not None}
        missing = [i for i in event_ids if i not in found]
        if missing:
            changes = self._changes
            rows = await self._database.read(
                lambda db: db.execute(
                    "select * from event where event_id in (select value from json_each(?))", (json.dumps(missing),)
                ).fetchall()
            )
            for row in rows:
                record = record_of(row)
                found[record.event.event_id] = record
                if changes == self._changes:
                    self._records[record.event.event_id] = record
            while len(self._records) > CACHED_RECORDS:
                self._records.popitem(last=False)
        return found

    async def neighbours(self, event_ids: Sequence[str], span: int) -> Mapping[str, Sequence[Record]]:
        """By event id, up to ``span`` events before it and after it in its document, or else session, in order."""
        at_hand = await self.records(event_ids)
        orders = {}
        for record in at_hand.values():
            key = _shelf(record.event)
            if key is not None and key not in orders:
                orders[key] = await self._order(key)
        beside: dict[str, list[str]] = {}
        for event_id, record in at_hand.items():
            key = _shelf(record.event)
            if key is None or (at := orders[key].at.get(event_id)) is None:
                continue
            ids = orders[key].ids
            beside[event_id] = [*ids[max(0, at - span) : at], *ids[at + 1 : at + 1 + span]]
        every = await self.records(list(dict.fromkeys(i for ids in beside.values() for i in ids)))
        return {event_id: [every[i] for i in ids if i in every] for event_id, ids in beside.items()}

    async def _order(self, key: tuple[object, ...]) -> _Order:
        """A document's events in reading order, without what was forgotten or superseded."""
        order = self._orders.get(key)
        if order is None:
            changes = self._changes
            by = "document = ? and place_unit = ?" if key[0] == "document" else "document is null and session_id = ?"
            rows = await self._database.read(
                lambda db: db.execute(
                    f"select event_id from event where tenant = ? and user_id is ? and {by} "
                    "and forgotten = 0 and superseded_by is null order by place_start, seq",
                    key[1:],
                ).fetchall()
            )
            ids = tuple(row["event_id"] for row in rows)
            order = _Order(ids, {event_id: at for at, event_id in enumerate(ids)})
            if changes == self._changes:
                self._orders[key] = order
            while len(self._orders) > CACHED_DOCUMENTS:
                self._orders.popitem(last=False)
        return order

    async def frequencies(self, scope: Scope, asked: Sequence[str]) -> Frequencies:
        """How common each term is among the memories of the scope's user, or of the whole tenant."""
        if not self._counted:
            return Frequencies()
        owners = "owner = ?" if scope.user_id is not None else "owner in (select owner from owner where tenant = ?)"
        whose = owner_of(scope) if scope.user_id is not None else scope.tenant

        def work(db: Connection) -> Frequencies:
            documents, length = db.execute(
                f"select coalesce(sum(documents), 0), coalesce(sum(length), 0) from owner where {owners}", (whose,)
            ).fetchone()
            counts = db.execute(
                f"select term, sum(n) as n from term where {owners} and term in (select value from json_each(?)) "
                "group by term",
                (whose, json.dumps(list(asked))),
            ).fetchall()
            return Frequencies(documents, length / documents if documents else 1.0, {r["term"]: r["n"] for r in counts})

        return await self._database.read(work)

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
        audience = None if scope.audience == "private" else "group"
        wanted = (*scope.named().items(), ("audience", audience), ("document", document), ("source", source))
        given = [("tenant", scope.tenant), *((name, storable(value)) for name, value in wanted if value is not None)]
        sql = (
            f"select * from event where {' and '.join(f'{name} = ?' for name, _ in given)} and seq < ? "
            "and forgotten = 0 and superseded_by is null order by seq desc limit ?"
        )
        values = (*(value for _, value in given), MAX_SEQ if before is None else before, limit + 1)
        rows = await self._database.read(lambda db: db.execute(sql, values).fetchall())
        shown = [record for record in map(record_of, rows[:limit]) if scope.admits(record.event.scope)]
        return Page(tuple(shown), rows[limit - 1]["seq"] if len(rows) > limit else None)

    async def find(self, ref: str, scope: Scope) -> Record:
        """The event of a short ref or event id. Raises NotFound, also for another's and for a forgotten one."""

        def work(db: Connection) -> Record:
            return record_of(row_of(db, ref, scope))

        return await self._database.read(work)

    def hides(self, hit: Hit) -> bool:
        """Whether a hit from a user's own file has a line that was forgotten; the file itself is never edited.

        By its words, wherever it stands by now. A line of fewer than `LINE_WORDS` words hides nothing.
        """
        if hit.place is None or not self._hidden:
            return False
        gone = self._hidden.get((hit.scope.tenant, hit.place.document))
        return gone is not None and not gone.isdisjoint(file_lines(hit.text, hit.place))

    def forgotten_lines(self, tenant: str, document: str, lines: Sequence[str]) -> frozenset[int]:
        """Which lines of a user's own file, by number from 1, say what was forgotten; the same rule as `hides`."""
        gone = self._hidden.get((tenant, document))
        if not gone:
            return frozenset()
        said = ((n, file_lines(line, Place(document, n, n, "line"))) for n, line in enumerate(lines, start=1))
        return frozenset(n for n, hashes in said if not gone.isdisjoint(hashes))

    async def document(self, name: str, scope: Scope, start: int, limit: int) -> Sequence[Record]:
        """The memories that stand in a document at or after ``start``, in its order, at most ``limit``.

        Where it ends before ``start`` its last one, and nothing where there is no such document. Raises BadInput when
        several users have one of that name and ``scope`` does not say whose.
        """
        named = scope.named()
        conditions = ["tenant = ?", "document = ?", "forgotten = 0", "superseded_by is null", "trust <> 'quarantined'"]
        conditions += [f"{dimension} = ?" for dimension in named]
        if scope.audience == "group":
            conditions.append("audience = 'group'")
        which, values = " and ".join(conditions), (scope.tenant, name, *named.values())

        def work(db: Connection) -> list[Any]:
            owners = db.execute(
                f"select distinct user_id, place_unit from event where {which} limit 2", values
            ).fetchall()
            if len(owners) > 1:
                raise BadInput(f"several documents are called {name!r}: name the user_id whose you mean")
            rows = db.execute(
                f"select * from event where {which} and place_end >= ? order by place_start, seq limit ?",
                (*values, start, limit),
            ).fetchall()
            last = f"select * from event where {which} order by place_start desc, seq desc limit 1"
            return rows or db.execute(last, values).fetchall()

        rows = await self._database.read(work)
        return [record_of(row) for row in rows]

    # Deliveries

    async def enlist(self, stores: Sequence[str]) -> None:
        """From now on events are delivered to ``stores``; what they have not been told yet is due.

        So is what was given up before: the program may have learnt better since.
        """
        self._stores = tuple(stores)
        names = [(name,) for name in stores]

        def work(db: Connection) -> None:
            db.executemany(
                # A store that was there before has a row for every event up to its last.
                "insert into delivery(seq, backend) select seq, ?1 from event where forgotten = 0 "
                "and seq > (select coalesce(max(seq), 0) from delivery where backend = ?1)",
                names,
            )
            db.executemany(
                "update delivery set state = 'pending', attempts = 0, next_at = 0 "
                "where backend = ? and state = 'failed'",
                names,
            )

        await self._database.write(work)

    async def refill(self, stores: Sequence[str]) -> None:
        """Has everything that is kept delivered to ``stores`` again: they hold nothing any more.

        What they are still to forget stays due, for it may be kept elsewhere than in the folder that is gone.
        """
        names = [(name,) for name in stores]
        await self._database.write(
            lambda db: db.executemany(
                "update delivery set state = 'pending', native_ids = '[]', attempts = 0, next_at = 0, reason = null "
                "where backend = ? and seq in (select seq from event where forgotten = 0)",
                names,
            )
        )

    async def due(self, backend: str, now: datetime, limit: int) -> Sequence[Due]:
        """What ``backend`` is to be told by ``now``, oldest first."""
        return await self._open(backend, "pending", now, limit)

    async def pending(self, backend: str, seqs: Sequence[int]) -> set[int]:
        """Those of ``seqs`` that ``backend`` is still to be told: neither told nor forgotten since."""
        rows = await self._database.read(
            lambda db: db.execute(
                "select seq from delivery where backend = ? and state = 'pending' "
                "and seq in (select value from json_each(?))",
                (backend, json.dumps(list(seqs))),
            ).fetchall()
        )
        return {row["seq"] for row in rows}

    async def due_to_forget(self, backend: str, now: datetime, limit: int) -> Sequence[Due]:
        """What ``backend`` is to forget by ``now``."""
        return await self._open(backend, "forget", now, limit)

    async def next_due(self, backend: str) -> datetime | None:
        """When the next delivery to ``backend`` is to be tried; None when none is open."""
        row = await self._database.read(
            lambda db: db.execute(
                "select min(next_at) as at from delivery where backend = ? and state in ('pending', 'forget')",
                (backend,),
            ).fetchone()
        )
        return None if row["at"] is None else time_of(row["at"])

    async def _open(self, backend: str, state: str, now: datetime, limit: int) -> Sequence[Due]:
        rows = await self._database.read(
            lambda db: db.execute(
                "select e.*, d.attempts, d.native_ids from delivery d join event e using(seq) "
                "where d.backend = ? and d.state = ? and d.next_at <= ? order by d.seq limit ?",
                (backend, state, microseconds(now), limit),
            ).fetchall()
        )
        return [Due(r["seq"], event_of(r), r["attempts"], tuple(json.loads(r["native_ids"]))) for r in rows]

    async def delivered(self, backend: str, told: Iterable[tuple[int, Sequence[str]]]) -> None:
        """``backend`` keeps these, as (seq, native ids). What was forgotten meanwhile is due to be forgotten there."""
        rows = [(json.dumps(list(ids)), backend, seq) for seq, ids in told]
        await self._database.write(
            lambda db: db.executemany(
                "update delivery set native_ids = ?, reason = null, next_at = 0, state = case "
                "(select forgotten from event e where e.seq = delivery.seq) when 1 then 'forget' else 'done' end "
                "where backend = ? and seq = ?",
                rows,
            )
        )

    async def give_up(self, backend: str, seqs: Sequence[int], state: GivenUp, reason: str | None = None) -> None:
        """These are not told: the backend declined them, or failed at each try. What is to be forgotten stays so."""
        rows = [(state, reason, backend, seq) for seq in seqs]
        await self._database.write(
            lambda db: db.executemany(
                "update delivery set state = ?, reason = ? where backend = ? and seq = ? and state = 'pending'", rows
            )
        )

    async def undone(self, backend: str, seq: int, outcome: Forgotten) -> None:
        """``backend`` was asked to forget this, and that is what it did."""
        await self._database.write(
            lambda db: db.execute(
                "update delivery set state = ?, native_ids = '[]', reason = null where backend = ? and seq = ?",
                (outcome, backend, seq),
            )
        )

    async def outcome(self, backend: str, seq: int) -> Forgotten | None:
        """What ``backend`` did when it was asked to forget this; None while it has to be asked."""
        row = await self._database.read(
            lambda db: db.execute("select state from delivery where backend = ? and seq = ?", (backend, seq)).fetchone()
        )
        return row["state"] if row["state"] in get_args(Forgotten) else None

    async def attempted(self, backend: str, seq: int, reason: str, next_at: datetime) -> None:
        """One more try of this failed; the next is not before ``next_at``."""
        await self._database.write(
            lambda db: db.execute(
                "update delivery set attempts = attempts + 1, reason = ?, next_at = ? where backend = ? and seq = ?",
                (reason, microseconds(next_at), backend, seq),
            )
        )

    async def backlog(self) -> Mapping[str, int]:
        """By backend, how many deliveries are open."""
        rows = await self._database.read(
            lambda db: db.execute(
                "select backend, count(*) as n from delivery where state in ('pending', 'forget') group by backend"
            ).fetchall()
        )
        return {row["backend"]: row["n"] for row in rows}

    async def deliveries(self) -> Mapping[str, Deliveries]:
        """By backend, how far it is."""
        return await self._database.read(deliveries)

    async def counts(self, tenant: str) -> Counts:
        """How much a tenant has."""
        return await self._database.read(lambda db: counts(db, tenant))

    # Forgetting

    async def bury(self, ref: str, scope: Scope) -> Sequence[Burial]:
        """Forgets an event here: its text is gone, its tombstone stands. Raises NotFound.

        With it go the earlier versions that it superseded, and what was derived from nothing else: they say the same.
        It comes first in what is returned.
        """

        def work(db: Connection) -> Sequence[Burial]:
            return [bury(db, row) for row in with_what_follows(db, row_of(db, ref, scope))]

        burials = await self._database.write(work)
        self._changes += 1
        for burial in burials:
            event = burial.record.event
            self._records.pop(event.event_id, None)
            self._outdate(event)
            if event.place is not None and (lines := file_lines(event.text, event.place)):
                self._hidden.setdefault((event.scope.tenant, event.place.document), set()).update(lines)
        # The text must not be left in the write-ahead log either.
        await self._database.checkpoint()
        return burials

    def _outdate(self, event: Event) -> None:
        key = _shelf(event)
        if key is not None:
            self._orders.pop(key, None)


def deliveries(db: Connection) -> dict[str, Deliveries]:
    """As `Journal.deliveries`, of any connection that can read a journal."""
    rows = db.execute(
        "select backend, sum(state != 'failed'), sum(state != 'failed' and attempts > 0), sum(state = 'failed'), "
        "coalesce(max(reason), '') from delivery where state in ('pending', 'forget', 'failed') group by backend"
    ).fetchall()
    return {backend: Deliveries(*numbers) for backend, *numbers in rows}


def counts(db: Connection, tenant: str) -> Counts:
    """As `Journal.counts`, of any connection that can read a journal."""
    row = db.execute(
        "select coalesce(sum(not forgotten and superseded_by is null), 0), "
        "coalesce(sum(not forgotten and superseded_by is not null), 0), coalesce(sum(forgotten), 0) "
        "from event where tenant = ?",
        (tenant,),
    ).fetchone()
    return Counts(*row)


def _shelf(event: Event) -> tuple[object, ...] | None:
    """What an event stands in order in: its document, or else its session."""
    if event.place is not None:
        return ("document", event.scope.tenant, event.scope.user_id, event.place.document, event.place.unit)
    if event.scope.session_id is not None:
        return ("session", event.scope.tenant, event.scope.user_id, event.scope.session_id)
    return None


def _replayed(db: Connection, idempotency: tuple[str, str, str]) -> str | None:
    """The reply that this key got before, if its request was the same one. Raises KeyReused."""
    tenant, key, body = idempotency
    row = db.execute("select body, reply from idempotency where tenant = ? and key = ?", (tenant, key)).fetchone()
    if row is None:
        return None
    if row["body"] != body:
        raise reused(key)
    return str(row["reply"])


def reused(key: str) -> KeyReused:
    return KeyReused(f"Idempotency-Key {key!r} was used for another request; choose a new one for this")
