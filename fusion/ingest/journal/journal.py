"""The event log: durable, first, once; and what of it was delivered where, under which native id.

SQLite in WAL mode with ``synchronous=FULL``: what `append` returned is on the disk. One row an event, never changed but
for being superseded or forgotten. Beside the events stand the deliveries (what each backend still has to be told),
the tombstones (what must not come back), the document frequencies of each owner's words, the Idempotency-Keys, and
what people said of answers (`labels.py`), and what a model is to learn of conversations (`lessons.py`).
What the read path asks on every request (`records`, `neighbours`) is answered from memory once it was read.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from fusion.contract import Event, Extraction, Hit, Place, Scope
from fusion.errors import BadInput, KeyReused, NotFound
from fusion.ingest.journal import foreign, labels, lessons, outbox, retire, tombstones
from fusion.ingest.journal.foreign import Shown, is_foreign
from fusion.ingest.journal.labels import LabelPage, Vote
from fusion.ingest.journal.lessons import Lesson
from fusion.ingest.journal.outbox import Deliveries, Outbox
from fusion.ingest.journal.retire import CURRENT, SourceCount, Whole
from fusion.ingest.journal.rows import RETIRED, WORDS, Record, count, keys_of, owner_of, record_of, row_of, whose
from fusion.ingest.journal.tombstones import (
    Barred,
    Burial,
    bury,
    bury_foreign,
    lift,
    with_what_follows,
)
from fusion.lib.bm25 import Frequencies
from fusion.lib.chunk import chunks
from fusion.lib.ids import parse_short_ref, short_ref
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
_STATED = "alter table event add column stated text not null default '[]'"
STEPS = (_SCHEMA, _LISTING, tombstones.SCHEMA + retire.SCHEMA + foreign.SCHEMA, labels.SCHEMA, lessons.SCHEMA, _STATED)
"""what leads from each version of the file to the next"""

CACHED_RECORDS = 20_000
CACHED_DOCUMENTS = 2_000
MAX_SEQ = (1 << 63) - 1
KEYS_KEPT_S = 7 * 86_400.0
"""an Idempotency-Key is remembered for a week unless it is set otherwise: nobody retries longer"""


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of one event that was handed in. ``event`` is the one that is kept, maybe an earlier one.

    ``retired`` does not hold any more since: it was made of what this one superseded.
    """

    ref: str
    event: Event
    state: State
    retired: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """Some memories of a list, newest first. ``next`` is where the next page begins, None after the last one."""

    records: tuple[Record, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class Counts:
    """What a tenant's journal holds: ``current`` memories, earlier versions of them, and what was forgotten."""

    current: int = 0
    superseded: int = 0
    forgotten: int = 0


@dataclass(frozen=True, slots=True)
class Criteria:
    """Which memories are meant; what is None does not narrow. Times count from ``after`` until before ``before``.

    By when it happened, or else was recorded; with ``recorded``, by when it was recorded.
    """

    source: str | None = None
    document: str | None = None
    after: datetime | None = None
    before: datetime | None = None
    recorded: bool = False

    def names(self) -> list[str]:
        """What is narrowed by, for the audit."""
        time = ["time"] if self.after is not None or self.before is not None else []
        return [name for name in ("source", "document") if getattr(self, name) is not None] + time


@dataclass(frozen=True, slots=True)
class Audited:
    """One forgetting as the audit has it. ``by`` names the criteria, never their values; ``backends`` is of now."""

    ref: str
    at: datetime
    by: str
    backends: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Order:
    """A document's events in reading order, and where each stands."""

    ids: tuple[str, ...]
    at: Mapping[str, int]


class Journal:
    """The journal of one home; its ``outbox`` has what the backends are still to be told."""

    schema: ClassVar[Sequence[str]] = STEPS

    def __init__(self, database: Database, keys_kept_s: float = KEYS_KEPT_S) -> None:
        self._database = database
        self._keys_kept_s = keys_kept_s
        self.outbox = Outbox(database)
        self._distils = False
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._orders: OrderedDict[tuple[object, ...], _Order] = OrderedDict()
        self._changes = 0
        """counts what was written: what a reader saw before a change must not be cached after it"""
        self._barred = Barred()
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
        self._barred = await self._database.read(Barred.of)
        self._counted = bool(await self._database.read(lambda db: db.execute("select 1 from owner limit 1").fetchone()))

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
        a new event that supersedes the one there, also when it stood there before. ``idempotency`` is (tenant, key,
        hash of the request): the second request of a key gets the first one's ``reply`` as JSON text, or KeyReused when
        it asks for something else.
        Raises StoreFull and StoreBusy with nothing written.
        """

        def work(db: Connection) -> Sequence[Stored] | str:
            now = int(datetime.now(UTC).timestamp())
            if idempotency is not None:
                db.execute("delete from idempotency where at <= ?", (now - self._keys_kept_s,))
                if (again := _replayed(db, idempotency)) is not None:
                    return again
            # Of several texts for one place the last is meant: those before it are only what it was sent with.
            last = {keys_of(event)[0]: event.event_id for event in events}
            stored = [self._append_one(db, event, last[keys_of(event)[0]] == event.event_id) for event in events]
            if idempotency is not None and reply is not None:
                db.execute(
                    "insert into idempotency values(?, ?, ?, ?, ?)", (*idempotency, json.dumps(reply(stored)), now)
                )
            return stored

        outcome = await self._database.write(work)
        if not isinstance(outcome, str):
            self._note(outcome)
            if any(keys_of(stored.event)[1] is None for stored in outcome) and (
                self._barred.keys or self._barred.lines
            ):
                self._barred = await self._database.read(Barred.of)  # an explicit wish may have lifted something
        return outcome

    def _note(self, outcome: Sequence[Stored]) -> None:
        """What is remembered of the journal in memory is brought into line with what was written."""
        self._changes += 1
        self._counted = self._counted or bool(outcome)
        for stored in outcome:
            self._outdate(stored.event)
            self._records.pop(stored.event.event_id, None)
            if stored.event.supersedes is not None:
                self._records.pop(stored.event.supersedes, None)
                self._orders.clear()  # what it replaces may stand in another document
            self._lay_off(stored.retired)

    def _lay_off(self, retired: Iterable[Event]) -> None:
        for event in retired:
            self._records.pop(event.event_id, None)
            self._outdate(event)

    def _append_one(self, db: Connection, event: Event, last: bool) -> Stored:
        """``last``: no other event of this call has its place."""
        place_key, natural, words = keys_of(event)
        automatic = natural is not None
        if automatic:
            row = db.execute("select * from event where natural = ?", (natural,)).fetchone()
            if row is not None and not row["forgotten"]:
                if row["superseded_by"] == RETIRED:
                    retire.revive(db, row, self.outbox.stores)
                    return Stored(short_ref(row["seq"]), event_of(row), "stored")
                if row["superseded_by"] is None or not last or _current(db, place_key) is None:
                    return Stored(short_ref(row["seq"]), event_of(row), "duplicate")
            marks = [natural, *([words] if words.startswith(WORDS) else ())]
            found = db.execute(
                f"select event_id from tombstone where key in ({', '.join('?' * len(marks))})", marks
            ).fetchone()
            if found is not None or self._says_gone(event):
                return Stored("", event, "blocked")
            # What is said anew, or was forgotten and is wanted again, is another event: the key is the newest's.
            db.execute("update event set natural = null where natural = ?", (natural,))
        else:
            lift(db, words)
        event, state = self._superseding(db, event, place_key)
        columns = ", ".join((*EVENT_NAMES, "natural", "place_key", "stated"))
        seq = db.execute(
            f"insert into event({columns}) values({', '.join('?' * (len(EVENT_NAMES) + 3))})",
            (*event_row(event), natural, place_key, storable(json.dumps(event.stated, ensure_ascii=False))),
        ).lastrowid
        assert seq is not None  # noqa: S101 — an insert that did not raise has a row
        retired = () if event.supersedes is None else self._replace(db, event.supersedes, event.event_id)
        outbox.enter(db, seq, self.outbox.stores)
        db.executemany("insert or ignore into derived values(?, ?)", [(s, event.event_id) for s in event.derived_from])
        count(db, event, +1)
        if self._distils and event.kind == "turn" and event.trust != "quarantined":
            lessons.add(db, seq)
        return Stored(short_ref(seq), event, state, tuple(retired))

    def _replace(self, db: Connection, old_id: str, new_id: str) -> Sequence[Event]:
        """Marks what is superseded, and retires what was made of it, which is returned.

        A memory that was made of several turns goes with the first that is edited; the others are listed again, so
        that a model learns what they say beside the new text.
        """
        old = db.execute("select * from event where event_id = ?", (old_id,)).fetchone()
        if old["superseded_by"] is None:
            count(db, event_of(old), -1)
        db.execute("update event set superseded_by = ? where seq = ?", (new_id, old["seq"]))
        lessons.take_off(db, old["seq"])
        made = retire.made_of(db, old_id)
        retire.retire(db, made)
        events = [event_of(row) for row in made]
        if self._distils:
            lessons.anew(db, [source for event in events for source in event.derived_from])
        return events

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
        there = _current(db, place_key)
        return (event, "stored") if there is None else (replace(event, supersedes=there), "superseded")

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
        """By event id, up to ``span`` events before it and after it in its document, or else session, in order.

        Without a piece of a file that shares a line with a forgotten one: no answer shows it either.
        """
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
        shown = {i: record for i, record in every.items() if not self._says_gone(record.event)}
        return {event_id: [shown[i] for i in ids if i in shown] for event_id, ids in beside.items()}

    async def _order(self, key: tuple[object, ...]) -> _Order:
        """A document's events in reading order, without what was forgotten or superseded."""
        order = self._orders.get(key)
        if order is None:
            changes = self._changes
            by = (
                "document = ? and place_unit = ? and agent_id is ? and run_id is ?"
                if key[0] == "document"
                else "document is null and session_id = ? and agent_id is ? and run_id is ?"
            )
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

    def hides(self, backend: str, hit: Hit) -> bool:
        """Whether a hit says what was forgotten, though the journal does not know it by an id.

        A piece of a user's own file, which is never edited, by its lines, wherever they stand by now; another
        backend's own item by itself, or by its words within its owner.
        """
        return self._barred.hides(backend, hit)

    def _says_gone(self, event: Event) -> bool:
        """Whether an event is a piece of a file that has a line of a forgotten one; the same rule as `hides`."""
        return event.place is not None and self._barred.says_gone(event.text, event.place, event.scope)

    async def matching(
        self, scope: Scope, criteria: Criteria, limit: int, *, beyond: int = 0, among: Sequence[str] | None = None
    ) -> Sequence[Record]:
        """What is kept of a scope and meets all criteria, oldest first, from the one after the number ``beyond``.

        With ``among``, only of these refs.
        """
        terms, values = whose(scope)
        if among is not None:
            terms += " and seq in (select value from json_each(?))"
            values.append(json.dumps([parse_short_ref(ref) for ref in among]))
        time = "recorded_at" if criteria.recorded else "coalesce(at, recorded_at)"
        for term, value in (
            ("source = ?", criteria.source),
            ("document = ?", criteria.document),
            (f"{time} >= ?", None if criteria.after is None else microseconds(criteria.after)),
            (f"{time} < ?", None if criteria.before is None else microseconds(criteria.before)),
        ):
            if value is not None:
                terms += f" and {term}"
                values.append(storable(value) if isinstance(value, str) else value)
        rows = await self._database.read(
            lambda db: db.execute(
                f"select * from event where {terms} and forgotten = 0 and seq > ? order by seq limit ?",
                (*values, beyond, limit),
            ).fetchall()
        )
        return [record_of(row) for row in rows]

    # Other people's memories

    async def note_shown(self, items: Sequence[Shown], now: datetime) -> None:
        """Remembers what stands behind refs that cite no event of ours."""
        await self._database.write(lambda db: foreign.note(db, items, now))

    async def shown(self, ref: str, scope: Scope) -> Shown:
        """What stands behind such a ref. Raises NotFound, also where it was shown to others only."""
        return await self._database.read(lambda db: foreign.resolve(db, ref, scope))

    def forgotten_lines(self, scope: Scope, document: str, lines: Sequence[str]) -> frozenset[int]:
        """Which lines of a user's own file, by number from 1, say what was forgotten; the same rule as `hides`."""
        if not self._barred.lines:
            return frozenset()
        # Line by line, and in the pieces that a file is taken in by: short lines are known by their piece alone.
        pieces = [(n, n, line) for n, line in enumerate(lines, start=1)]
        pieces += [(piece.start, piece.end, piece.text) for piece in chunks("\n".join(lines))]
        said = ((Place(document, start, end, "line"), text) for start, end, text in pieces)
        gone = [place for place, text in said if self._barred.says_gone(text, place, scope)]
        return frozenset(n for place in gone for n in range(place.start, place.end + 1))

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

        records = map(record_of, await self._database.read(work))
        return [record for record in records if not self._says_gone(record.event)]

    # What a model is to learn

    def distil(self) -> None:
        """From now on every turn that is kept is listed for a model; those from before are not."""
        self._distils = True

    async def lessons(self, limit: int) -> Sequence[Lesson]:
        """The turns that have been on the list for longest, whether it is time for them or not."""
        return await self._database.read(lambda db: lessons.oldest(db, limit))

    async def distilled(self, seqs: Sequence[int], found: Sequence[tuple[Event, Extraction]]) -> Sequence[Stored]:
        """Keeps what was distilled from these turns and takes them off the list, in one transaction: once a turn.

        Nothing is kept of turns that are not on the list any more, and no memory of which a source was forgotten or
        edited meanwhile; beside an edited one, its other turns are listed again. What was made of these turns alone
        before, when one beside them said something else, gives way.
        """

        def work(db: Connection) -> tuple[list[Stored], list[Event]]:
            taken = lessons.take(db, seqs)
            stored = []
            for event, extraction in found if taken else ():
                if _all_are(db, event.derived_from, CURRENT):
                    one = self._append_one(db, event, last=True)
                    if one.state == "stored":
                        lessons.keep(db, one.event.event_id, extraction)
                    stored.append(one)
                elif _all_are(db, event.derived_from, "forgotten = 0"):
                    lessons.anew(db, event.derived_from)
            earlier = retire.replaced(db, taken, [one.event for one in stored])
            retire.retire(db, earlier)
            return stored, [event_of(row) for row in earlier]

        outcome, earlier = await self._database.write(work)
        self._note(outcome)
        self._lay_off(earlier)
        return outcome

    async def not_distilled(self, seqs: Sequence[int], next_at: datetime) -> None:
        """An answer about these turns made no sense; the next try is not before ``next_at``."""
        await self._database.write(lambda db: lessons.again(db, seqs, next_at))

    async def never_distilled(self, seqs: Sequence[int], reason: str) -> None:
        """These turns are given up: what the rules learnt of them stands."""
        await self._database.write(lambda db: lessons.give_up(db, seqs, reason))

    async def learnt(self, event_ids: Sequence[str]) -> Mapping[str, Extraction]:
        """What a model learnt of those of these events that it made."""
        return await self._database.read(lambda db: lessons.kept(db, event_ids))

    async def backlog(self) -> Mapping[str, int]:
        """By backend, how many deliveries are open."""
        return await self.outbox.backlog()

    async def deliveries(self) -> Mapping[str, Deliveries]:
        """By backend, how far it is."""
        return await self._database.read(outbox.deliveries)

    async def counts(self, tenant: str) -> Counts:
        """How much a tenant has."""
        return await self._database.read(lambda db: counts(db, tenant))

    # Feedback

    async def label(self, scope: Scope, receipt_id: str, votes: Sequence[Vote]) -> None:
        """Keeps the votes on an answer in place of earlier ones; durable when it returns. Raises BadInput."""
        now = datetime.now(UTC)
        await self._database.write(lambda db: labels.put(db, scope, receipt_id, votes, now))

    async def labels(self, tenant: str, limit: int, *, after: int = 0) -> LabelPage:
        """Up to ``limit`` of a tenant's labels, oldest first, from behind ``after``."""
        return await self._database.read(lambda db: labels.page(db, tenant, limit, after))

    # Forgetting

    async def bury(self, ref: str, scope: Scope, by: str = "ref") -> Sequence[Burial]:
        """Forgets a memory here: its text is gone, its tombstone stands. Raises NotFound.

        With it go the earlier versions that it superseded, and what was derived from nothing else: they say the same.
        It comes first in what is returned. ``by`` names the criteria that it met, for the audit.
        """
        (burials,) = (await self.bury_all([ref], scope, by)).values()
        if not burials:
            raise NotFound(f"there is no memory {ref!r} here")
        return burials

    async def bury_all(self, refs: Sequence[str], scope: Scope, by: str = "ref") -> Mapping[str, Sequence[Burial]]:
        """As `bury`, all in one transaction. By ref; nothing for what is not there, or went with an earlier one."""
        now = datetime.now(UTC)

        def work(db: Connection) -> dict[str, Sequence[Burial]]:
            return {ref: _bury_one(db, ref, scope, by, now) for ref in dict.fromkeys(refs)}

        buried = await self._database.write(work)
        self._changes += 1
        for ref, burials in buried.items():
            for burial in burials:
                event = burial.record.event
                self._records.pop(event.event_id, None)
                self._outdate(event)
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
            for ref in refs:
                with contextlib.suppress(NotFound):
                    rows = with_what_follows(db, row_of(db, ref, scope))
                    found.update({row["event_id"]: event_of(row) for row in rows})
            return list(found.values())

        return await self._database.read(work)

    async def audit(self, scope: Scope, limit: int, before: int | None = None) -> Sequence[tuple[int, Audited]]:
        """What was forgotten of a scope's user, or of the whole tenant, newest first; with each entry's number."""
        mine = "" if scope.user_id is None else "and user_id = ?"
        values = [scope.tenant, *([] if scope.user_id is None else [scope.user_id])]

        def work(db: Connection) -> list[tuple[int, Audited]]:
            rows = db.execute(
                f"select * from audit where tenant = ? {mine} and id < ? order by id desc limit ?",
                (*values, before if before is not None else 1 << 62, limit),
            ).fetchall()
            states = db.execute(
                "select seq, backend, state from delivery where seq in (select value from json_each(?)) "
                "and state <> 'declined' order by backend",
                (json.dumps([row["seq"] for row in rows]),),
            ).fetchall()
            told: dict[int, dict[str, str]] = {}
            for seq, backend, state in states:
                told.setdefault(seq, {})[backend] = "pending" if state == "forget" else state
            return [
                (row["id"], Audited(row["ref"], time_of(row["at"]), row["by"], told.get(row["seq"], {})))
                for row in rows
            ]

        return await self._database.read(work)

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
            self._changes += 1
            self._lay_off(map(event_of, rows))
        return Counter(row["source"] for row in rows)

    async def sources(self, scope: Scope, prefix: str, after: str, limit: int) -> Sequence[SourceCount]:
        """The sources of a scope's current memories that begin with ``prefix``, by name, after the one named."""
        return await self._database.read(lambda db: retire.sources(db, scope, prefix, after, limit))

    def _outdate(self, event: Event) -> None:
        key = _shelf(event)
        if key is not None:
            self._orders.pop(key, None)


def counts(db: Connection, tenant: str) -> Counts:
    """As `Journal.counts`, of any connection that can read a journal."""
    row = db.execute(
        "select coalesce(sum(not forgotten and superseded_by is null), 0), "
        "coalesce(sum(not forgotten and superseded_by is not null), 0), coalesce(sum(forgotten), 0) "
        "from event where tenant = ?",
        (tenant,),
    ).fetchone()
    return Counts(*row)


def _all_are(db: Connection, event_ids: Sequence[str], condition: str) -> bool:
    """Whether a condition holds of every one of these events."""
    ids = json.dumps(event_ids)
    met = f"select count(*) from event where event_id in (select value from json_each(?)) and {condition}"
    return bool(db.execute(met, (ids,)).fetchone()[0] == len(set(event_ids)))


def _current(db: Connection, place_key: str | None) -> str | None:
    """The id of the event that stands at a place now."""
    row = db.execute(
        "select event_id from event where place_key = ? and superseded_by is null and forgotten = 0 "
        "order by seq desc limit 1",
        (place_key,),
    ).fetchone()
    return None if row is None else str(row["event_id"])


def _bury_one(db: Connection, ref: str, scope: Scope, by: str, now: datetime) -> Sequence[Burial]:
    try:
        if is_foreign(ref):
            there = foreign.resolve(db, ref, scope)
            foreign.drop(db, scope.tenant, there.ref)
            return [bury_foreign(db, there.ref, there.backend, there.hit, by, now)]
        return [bury(db, row, by, now) for row in with_what_follows(db, row_of(db, ref, scope))]
    except NotFound:
        return []


def _shelf(event: Event) -> tuple[object, ...] | None:
    """What an event stands in order in: its document, or else its session."""
    if event.place is not None:
        document = (event.place.document, event.place.unit)
        return ("document", event.scope.tenant, event.scope.user_id, *document, *_teller(event))
    if event.scope.session_id is not None:
        return ("session", event.scope.tenant, event.scope.user_id, event.scope.session_id, *_teller(event))
    return None


def _teller(event: Event) -> tuple[str | None, str | None]:
    """Who told it: two agents' accounts of one conversation are two orders of turns."""
    return event.scope.agent_id, event.scope.run_id


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
