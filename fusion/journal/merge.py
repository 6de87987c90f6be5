"""Merges the rows of an export into a journal, so that it does not matter which of two homes is merged into which.

A memory is new, or known by its event id or its natural key. Of two texts at one place the one recorded last is
current, of two under one natural key the one recorded first, and what either home superseded or retired is not current.
What was forgotten in either home stays forgotten, unless it was remembered explicitly after that.

Each step is one transaction, and a step that is repeated changes nothing: an import that was interrupted is run again.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from hashlib import blake2b
from typing import Any, Literal

import orjson
from pydantic import ValidationError

from fusion.contract import Event, State
from fusion.journal import conversations, distil_queue, merge_ledger, outbox, retire, state, statements
from fusion.journal.append import supersede
from fusion.journal.deletion import Deletion, forget_row, with_dependents
from fusion.journal.export_format import (
    AuditLine,
    ChangeLine,
    DecisionLine,
    DistilLine,
    EventLine,
    ExternalStateLine,
    ExtractionLine,
    HiddenLine,
    InclusionLine,
    LabelLine,
    ProposalLine,
    TombstoneLine,
    UseLine,
)
from fusion.journal.external_refs import is_external
from fusion.journal.rows import (
    BORN_FORGOTTEN,
    RETIRED,
    WORDS,
    count,
    insert_event,
    keys_of,
    read_state,
    record_of,
    state_of,
    written_state,
)
from fusion.journal.tombstones import Tombstones, keys_under, lift
from fusion.lib.ids import parse_short_ref, short_ref
from fusion.store.database import VALUES, Connection, Row, number_from
from fusion.store.rows import event_of, microseconds, storable, time_of

BY = "import"
"""what the audit names as the reason for memories that an import forgets"""

Outcome = Literal["new", "known", "blocked", "forgotten", "deleted", "conflict"]
"""blocked: forgotten in this home. forgotten: the export had it as deleted, and this home had its text. deleted: the
export has its id alone. conflict: another text has this event id here; the line is left out."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A memory of an export as this home may store it. ``sent_text`` is its text before it was checked."""

    line: EventLine
    event: Event
    sent_text: str
    batch: str | None
    state: State | None = None


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How a journal takes in an export.

    ``stores`` are the backends that new memories are delivered to. With ``owns`` the export is of this user, so sources
    and conversations stay as they are. An ``older`` export of this same journal does not end what is current here.
    """

    stores: Sequence[str]
    owns: bool
    older: bool = False
    distils: bool = False


@dataclass(slots=True)
class Merge:
    """One import into one journal. ``moved`` is called with the old and the new ref of each memory that got another."""

    rules: MergeRules
    now: datetime
    moved: Callable[[str, str], None] = lambda old, new: None
    tombstones: Tombstones = field(default_factory=Tombstones)
    deletions: list[Deletion] = field(default_factory=list)
    """what the last steps forgot in this home; the caller takes it"""
    gap: int = 0
    """event numbers that the last steps left without a row; the caller takes it"""
    changed: bool = False
    """whether the last steps changed tombstones; the caller takes it"""
    _side: sqlite3.Connection = field(default_factory=lambda: sqlite3.connect("", check_same_thread=False))
    """a temporary database on the disk: an export may have millions of rows"""

    def __post_init__(self) -> None:
        self._side.executescript(
            "create table alias(old text primary key, new text not null) without rowid;"
            "create table theirs(key text primary key) without rowid;"
            "create table blocked(event_id text primary key) without rowid;"
            "create table later(event_id text, newer text);"
            "create table decision(old integer primary key, new integer not null);"
            "create table proposal(old integer primary key, new integer not null);"
            "create table present(key blob primary key) without rowid;"
            "create table explicit(event_id text, words text, at integer);"
            "create index explicit_words on explicit(words);"
        )

    def close(self) -> None:
        self._side.close()

    # Tombstones

    def note(self, events: Iterable[Event]) -> None:
        """Note memories that the export has, before its tombstones and those of this home are applied to others."""
        for event in events:
            _, natural, words = keys_of(event)
            self._side.execute("insert or ignore into present values(?)", (_digest(event.event_id),))
            if natural is not None:
                self._side.execute("insert or ignore into present values(?)", (_digest(natural),))
            else:
                at = microseconds(event.recorded_at)
                self._side.execute("insert into explicit values(?, ?, ?)", (event.event_id, words, at))

    def _is_present(self, *keys: str | None) -> bool:
        """Whether the export has a memory with one of these ids and natural keys."""
        found = (self._side.execute("select 1 from present where key = ?", (_digest(key),)) for key in keys if key)
        return any(one.fetchone() is not None for one in found)

    def find_affected(self, db: Connection, lines: Sequence[TombstoneLine]) -> tuple[list[str], set[str]]:
        """The ids of memories here that the tombstones of an export forget, and the words that it must not block.

        Those were remembered explicitly after they were forgotten there.
        """
        every = {line.key: line for line in lines}
        new = {key: line for key, line in every.items() if not _has_tombstone(db, key)}
        found: dict[str, list[str]] = {}
        again: set[str] = set()
        for row in db.execute("select * from event where forgotten = 0") if new else ():
            event = event_of(row)
            _, natural, words = keys_of(event)
            if natural is None and (line := every.get(words)) and line.at is not None and event.recorded_at > line.at:
                again.add(words)
                continue
            keys = [key for key in _blocking_keys(row["natural"], natural, words, row["file"]) if key in new]
            if keys and not self._is_present(event.event_id, row["natural"]):
                found[event.event_id] = keys
        lifted = {key for key, line in new.items() if key in again or line.words in again}
        return [event_id for event_id, keys in found.items() if not lifted.issuperset(keys)], again

    def apply_tombstones(
        self,
        db: Connection,
        lines: Sequence[TombstoneLine],
        hidden: Sequence[HiddenLine],
        tenant: str,
        affected: tuple[Sequence[str], set[str]],
    ) -> None:
        """Store the tombstones of an export, forget what they block here, and lift those of this home that the export
        has remembered again; all at once."""
        event_ids, again = affected
        at = {line.key: line.at for line in lines}
        for event_id in event_ids:
            row = _row(db, event_id)
            if row is not None and not row["forgotten"]:
                _, natural, words = keys_of(event_of(row))
                keys = _blocking_keys(row["natural"], natural, words, row["file"])
                self._forget(db, row, next((at[key] for key in keys if at.get(key) is not None), None))
        self._side.executemany("insert or ignore into theirs values(?)", [(line.key,) for line in lines])
        db.executemany(
            "insert into tombstone(key, event_id, words) values(?, ?, ?) on conflict do nothing",
            [(x.key, x.event_id, x.words) for x in lines if x.key not in again and x.words not in again],
        )
        db.executemany(
            "insert into hidden(tenant, document, line, words) values(?, ?, ?, ?) on conflict do nothing",
            [(tenant, x.document, x.line, x.words) for x in hidden if x.words not in again],
        )
        self._lift_remembered(db)
        self.tombstones, self.changed = Tombstones.of(db), True

    def _lift_remembered(self, db: Connection) -> None:
        """Lift the tombstones of this home whose words the export has remembered explicitly after that."""
        for (words,) in db.execute("select distinct words from tombstone where words is not null").fetchall():
            again = self._side.execute("select event_id, at from explicit where words = ?", (words,)).fetchall()
            if not again or self._is_theirs(words) or not _has_tombstone(db, words):
                continue
            at = _forgotten_at(db, words)
            since = None if at is None else microseconds(at)
            if any(since is not None and time > since and _row(db, event_id) is None for event_id, time in again):
                lift(db, words)

    def events_to_forget(self, db: Connection, event_ids: Iterable[str]) -> list[Event]:
        """What this home forgets if it forgets these memories."""
        rows = [row for event_id in event_ids if (row := _row(db, event_id)) is not None and not row["forgotten"]]
        return [event_of(row) for row in with_dependents(db, rows)]

    def _forget(self, db: Connection, row: Row, at: datetime | None, *, tombstones: bool = True) -> None:
        """Forget a memory of this home, and what goes with it."""
        for number, one in enumerate(with_dependents(db, [row])):
            self.deletions.append(forget_row(db, one, BY, at or self.now, tombstones=tombstones or number > 0))

    # Memories

    def merge_events(self, db: Connection, arrivals: Sequence[Arrival]) -> list[Outcome]:
        """Merge some memories, in the order of the export."""
        return [self._merge(db, arrival) for arrival in arrivals]

    def _merge(self, db: Connection, arrival: Arrival) -> Outcome:
        line = arrival.line
        event = replace(
            arrival.event,
            supersedes=self._here(arrival.event.supersedes),
            derived_from=tuple(filter(None, map(self._here, arrival.event.derived_from))),
        )
        known = _row(db, event.event_id)
        if known is not None:
            return self._merge_known(db, known, arrival, event)
        if line.forgotten:
            self._insert_forgotten(db, arrival, event)
            return "deleted"
        event = self._without_hidden(event)
        if not event.text or self._is_blocked(db, event, line.natural) or self._is_of_blocked(db, event):
            self._side.execute("insert or ignore into blocked values(?)", (event.event_id,))
            self._insert_forgotten(db, arrival, event)
            return "blocked"
        if not self.rules.owns and keys_of(event)[1] is not None:
            event = conversations.claim_if_uninvited(db, event, keys_of(event))
        return self._merge_new(db, arrival, event, _natural_key(event, line.natural))

    def _merge_new(self, db: Connection, arrival: Arrival, event: Event, natural: str | None) -> Outcome:
        """Store a memory that has no row here, unless another row is the same by its natural key."""
        line, place_key = arrival.line, keys_of(event)[0]
        superseded_by = self._here(line.superseded_by)
        first: Row | None = None
        holder = None if natural is None else _holder(db, natural)
        if natural is not None and holder is not None:
            same = holder["text"] == storable(event.text) or (event.place is not None and event.place.unit == "line")
            ended = holder["superseded_by"] not in (None, RETIRED)
            if same and not (line.current and ended and place_key is not None):
                self._merge_same(db, holder, line)
                return "known"
            if same or _age(event) < _age(event_of(holder)):
                db.execute("update event set natural = null where seq = ?", (holder["seq"],))
                first = holder if not same and line.current and holder["superseded_by"] is None else None
            else:
                natural, superseded_by = None, superseded_by or holder["event_id"]
        if superseded_by is None and _has_ended_source(db, event):
            superseded_by = RETIRED
        others = [] if superseded_by is not None else [*_at_place(db, place_key, event), *([first] if first else [])]
        newest = max(others, key=lambda row: _age(event_of(row)), default=None)
        if first is None and newest is not None and _age(event_of(newest)) > _age(event):
            others, superseded_by = [], newest["event_id"]
        elif newest is not None and event.supersedes is None:
            event = replace(event, supersedes=newest["event_id"])
        event = _without_foreign_target(db, event)
        self._insert(db, arrival, event, natural=natural, place_key=place_key, superseded_by=superseded_by)
        for other in others:
            supersede(db, other["event_id"], event.event_id, self.rules.distils)
        if event.supersedes is not None:
            self._supersede_current(db, event.supersedes, event)
        return "new"

    def _insert(self, db: Connection, arrival: Arrival, event: Event, **columns: Any) -> None:
        line = arrival.line
        said_at = None if line.said_at is None else microseconds(line.said_at)
        stated = storable(json.dumps(event.stated, ensure_ascii=False))
        more = {"stated": stated, "file": event.file, "batch": arrival.batch, "said": line.said, "said_at": said_at}
        if arrival.state is not None:
            more |= state_columns(self._state_here(arrival.state), event.scope.project)
        elif not self.rules.owns:
            more |= state_columns(state.initial(event), event.scope.project)
        seq = self._insert_row(db, line, event, **more, **columns)
        superseded_by = columns["superseded_by"]
        if superseded_by != RETIRED:
            outbox.enter(db, seq, self.rules.stores)
        if superseded_by is None:
            count(db, event, +1)
        derived = [(source, event.event_id) for source in event.derived_from]
        db.executemany("insert into derived values(?, ?) on conflict do nothing", derived)

    def _insert_forgotten(self, db: Connection, arrival: Arrival, event: Event) -> None:
        """Store the id of a forgotten memory, so that no backend's copy of it is shown."""
        empty = replace(event, text="", speaker=None, stated=(), file=None)
        born = json.dumps([BORN_FORGOTTEN, event.event_id])
        natural = born if arrival.line.natural == born else None
        superseded_by = self._here(arrival.line.superseded_by)
        self._insert_row(db, arrival.line, empty, forgotten=1, natural=natural, superseded_by=superseded_by)

    def _insert_row(self, db: Connection, line: EventLine, event: Event, **columns: Any) -> int:
        """Insert an event under its own number if that is beyond all numbers here, else under the next one."""
        last = db.execute("select seq from sqlite_sequence where name = 'event'").fetchone()
        last = 0 if last is None else last["seq"]
        if line.seq > last:
            self.gap += line.seq - last - 1
            seq = insert_event(db, event, seq=line.seq, **columns)
            number_from(db, "event", seq)
        else:
            seq = insert_event(db, event, **columns)
        if not columns.get("forgotten") and statements.may_state(event):
            statements.add(db, seq, decides=False)  # the other home decided on it
        if line.seq <= last and not columns.get("forgotten"):
            self.moved(line.ref, short_ref(seq))
        return seq

    def _merge_known(self, db: Connection, row: Row, arrival: Arrival, event: Event) -> Outcome:
        """Merge a memory whose event id is known here."""
        line = arrival.line
        if row["forgotten"]:
            if not line.forgotten:
                self._side.execute("insert or ignore into blocked values(?)", (event.event_id,))
            return "known" if line.forgotten else "blocked"
        mine = event_of(row)
        if (mine.scope.tenant, mine.scope.user_id) != (event.scope.tenant, event.scope.user_id):
            return "conflict"
        if line.forgotten:
            # Its tombstones are in the export, unless the same words were remembered there again.
            self._forget(db, row, line.forgotten_at, tombstones=False)
            return "forgotten"
        texts = {row["text"], self._without_hidden(mine).text}
        if texts.isdisjoint({storable(arrival.sent_text), storable(event.text), self._without_hidden(event).text}):
            return "conflict"
        self._merge_same(db, row, line)
        if line.ref != short_ref(row["seq"]):
            self.moved(line.ref, short_ref(row["seq"]))
        return "known"

    def _merge_same(self, db: Connection, row: Row, line: EventLine) -> None:
        """Merge the state of a memory that this home has."""
        if row["event_id"] != line.event_id:
            self._side.execute("insert or ignore into alias values(?, ?)", (line.event_id, row["event_id"]))
            self.moved(line.ref, short_ref(row["seq"]))
        said_at = None if line.said_at is None else microseconds(line.said_at)
        if line.said > row["said"] or (said_at or 0) > (row["said_at"] or 0):
            db.execute(
                "update event set said = max(said, ?), said_at = max(coalesce(said_at, 0), ?) where seq = ?",
                (line.said, said_at or 0, row["seq"]),
            )
        if row["superseded_by"] is not None or line.superseded_by is None or self.rules.older:
            return
        if line.retired:
            retire.retire(db, [row])
        elif row["event_id"] == line.event_id:
            self._side.execute("insert into later values(?, ?)", (line.event_id, line.superseded_by))

    def _supersede_current(self, db: Connection, old_id: str, event: Event) -> None:
        """Supersede a memory by a later one of the same owner."""
        old = _row(db, old_id)
        if old is None or old["forgotten"] or old["superseded_by"] is not None:
            return
        if old["recorded_at"] <= microseconds(event.recorded_at):
            supersede(db, old_id, event.event_id, self.rules.distils)

    # Rules

    def _here(self, event_id: str | None) -> str | None:
        """The id here of a memory of the export."""
        found = self._side.execute("select new from alias where old = ?", (event_id,)).fetchone()
        return event_id if found is None else str(found[0])

    def _without_hidden(self, event: Event) -> Event:
        """A piece of a file without its forgotten statements."""
        if event.place is None:
            return event
        text, place = self.tombstones.remainder(event.text, event.place, event.scope)
        return event if text == event.text else replace(event, text=text, place=place)

    def _is_blocked(self, db: Connection, event: Event, given: str | None) -> bool:
        """Whether this home forgot a memory. A memory that the export has as well as its tombstone is not blocked."""
        _, natural, words = keys_of(event)
        if natural is not None:
            key = _natural_key(event, given)
            there = db.execute("select forgotten from event where natural = ?", (key,)).fetchone()
            if there is not None and not there["forgotten"]:
                return False  # it is a memory of this home, too
            keys = _blocking_keys(given, natural, words, event.file)
            return any(_has_tombstone(db, key) and not self._is_theirs(key) for key in keys)
        if not words.startswith(WORDS) or not _has_tombstone(db, words) or self._is_theirs(words):
            return False
        at = _forgotten_at(db, words)
        return at is None or event.recorded_at <= at

    def _is_theirs(self, key: str) -> bool:
        return self._side.execute("select 1 from theirs where key = ?", (key,)).fetchone() is not None

    def _is_of_blocked(self, db: Connection, event: Event) -> bool:
        """Whether a memory was derived only from such that this home forgot."""
        sources = event.derived_from
        gone = [s for s in sources if self._side.execute("select 1 from blocked where event_id = ?", (s,)).fetchone()]
        return bool(gone) and not any((row := _row(db, s)) is not None and not row["forgotten"] for s in sources)

    # States

    def _state_here(self, sent: State) -> State:
        """A state of the export with the ids of this home."""
        return replace(sent, merged_into=self._here(sent.merged_into), contradicts=self._here(sent.contradicts))

    def merge_external_states(self, db: Connection, lines: Iterable[ExternalStateLine], tenant: str) -> None:
        """Store the states of external items that have none here; only those of an own export."""
        for line in lines if self.rules.owns else ():
            db.execute(
                "insert into external_state values(?, ?, ?) on conflict do nothing",
                (tenant, line.ref, written_state(line.state, None)),
            )

    def merge_decisions(self, db: Connection, lines: Iterable[DecisionLine], tenant: str) -> None:
        """Add decisions that are not here; only those of an own export.

        Of several decisions on one field of a memory the last one holds, in both homes.
        """
        for line in lines if self.rules.owns else ():
            changes = {item: one for one in line.changes if (item := self._decided_item(db, one.item)) is not None}
            proposal = None if line.proposal is None else self._proposal_here(line.proposal.id)
            if not changes and proposal is None:
                continue
            at = microseconds(line.at)
            known = _known_decision(db, line, at, next(iter(changes), None), proposal)
            number = known["id"] if known is not None else self._add_decision(db, line, at, changes, tenant)
            if line.proposal is not None and proposal is not None:
                stored = self._live(db, line.proposal.event_id) if line.proposal.event_id else None
                event_id = None if stored is None else stored["event_id"]
                values = (number, proposal, line.proposal.before, line.proposal.after, event_id)
                db.execute("insert into proposal_decision values(?, ?, ?, ?, ?) on conflict do nothing", values)
            self._side.execute("insert or replace into decision values(?, ?)", (line.id, number))
            for column, other in (("undoes", line.undoes), ("undone_by", line.undone_by)):
                self._link(db, column, number, other)

    def _proposal_here(self, number: int) -> int | None:
        """The number here of a proposal of the export; None for one that is not here."""
        found = self._side.execute("select new from proposal where old = ?", (number,)).fetchone()
        return None if found is None else int(found[0])

    def _decided_item(self, db: Connection, item: str) -> str | None:
        """The id here of a memory that a decision changed, or an external item's ref; None for what is not here."""
        if is_external(item):
            return item
        row = self._live(db, item)
        return None if row is None else str(row["event_id"])

    def _add_decision(
        self, db: Connection, line: DecisionLine, at: int, changes: Mapping[str, ChangeLine], tenant: str
    ) -> int:
        entered = db.execute(
            "insert into decision(at, tenant, user_id, who, why, run) values(?, ?, ?, ?, ?, ?) returning id",
            (at, tenant, line.user_id, storable(line.who), storable(line.why), line.run),
        )
        number = int(entered.fetchone()["id"])
        for item, change in changes.items():
            before, after = self._change_here(change.before), self._change_here(change.after)
            values = (number, item, orjson.dumps(before).decode(), orjson.dumps(after).decode())
            db.execute("insert into state_change values(?, ?, ?, ?)", values)
            later = {
                name
                for row in db.execute(
                    "select c.after from state_change c join decision d on d.id = c.decision "
                    "where c.item = ? and (d.at, d.id) > (?, ?)",
                    (item, at, number),
                )
                for name in orjson.loads(row["after"])
            }
            row = _row(db, item)
            if row is None:
                continue
            decided = read_state(orjson.dumps(after).decode())
            new = replace(state_of(row), **{name: getattr(decided, name) for name in after.keys() - later})
            if new != state_of(row):
                columns = state_columns(new, row["project"])
                assigned = ", ".join(f"{name} = ?" for name in columns)
                db.execute(f"update event set {assigned} where seq = ?", (*columns.values(), row["seq"]))
                outbox.enter_state(db, [row["seq"]], number)
        return number

    def _change_here(self, change: Mapping[str, Any]) -> dict[str, Any]:
        ids = {name: self._here(change[name]) for name in ("merged_into", "contradicts") if change.get(name)}
        return {**change, **ids}

    def _link(self, db: Connection, column: str, number: int, other: int | None) -> None:
        """Link a decision with the one that it undoes, or that undid it; the later of the two does both."""
        found = self._side.execute("select new from decision where old = ?", (other,)).fetchone()
        if found is not None:
            reverse = "undone_by" if column == "undoes" else "undoes"
            db.execute(f"update decision set {column} = ? where id = ? and {column} is null", (found[0], number))
            if column == "undoes":
                db.execute(f"update decision set {reverse} = ? where id = ?", (number, found[0]))

    # The other tables

    def merge_proposals(self, db: Connection, given: Iterable[tuple[ProposalLine, str]], tenant: str) -> int:
        """Add proposals, each with the key of its words, that are not here; how many. Only those of an own export."""
        added = 0
        for line, words in given if self.rules.owns else ():
            live = partial(self._live, db)
            number, new = merge_ledger.proposal(db, line, words, tenant, live, self._is_theirs)
            added += new
            if number is not None:
                self._side.execute("insert or replace into proposal values(?, ?)", (line.id, number))
        return added

    def merge_use(self, db: Connection, lines: Sequence[UseLine]) -> None:
        """Take over counts of use; only those of an own export."""
        if self.rules.owns:
            merge_ledger.use(db, lines, partial(self._live, db))

    def merge_inclusions(self, db: Connection, lines: Sequence[InclusionLine]) -> None:
        """Add what blocks and packs had; only that of an own export."""
        if self.rules.owns:
            merge_ledger.inclusions(db, lines, partial(self._live, db))

    def merge_extractions(self, db: Connection, lines: Iterable[ExtractionLine]) -> None:
        """Store what a language model extracted, for memories that have no extraction here."""
        for line in lines:
            row = self._live(db, line.event_id)
            if row is None or distil_queue.extractions(db, [row["event_id"]]):
                continue
            try:
                extraction = distil_queue.parse_extraction(json.dumps(line.extraction))
            except ValidationError:
                continue
            distil_queue.save_extraction(db, row["event_id"], extraction)

    def merge_distil_jobs(self, db: Connection, lines: Iterable[DistilLine]) -> None:
        """Queue turns that the language model has not read, neither there nor here."""
        for line in lines:
            row = self._live(db, line.event_id) if self.rules.distils else None
            if (
                row is not None
                and not db.execute("select 1 from derived where source = ? limit 1", (row["event_id"],)).fetchone()
            ):
                distil_queue.requeue(db, [row["event_id"]])

    def merge_audit(self, db: Connection, lines: Iterable[AuditLine], tenant: str) -> None:
        """Add entries of the audit that are not here."""
        for line in lines:
            row = _row(db, line.event_id)
            if row is None or not row["forgotten"]:
                continue
            ref = short_ref(row["seq"]) if parse_short_ref(line.ref) is not None else line.ref
            entry = (microseconds(line.at), tenant, line.user_id, ref, row["seq"], line.by)
            db.execute(
                "insert into audit(at, tenant, user_id, ref, seq, by) select ?1, ?2, ?3, ?4, ?5, ?6 "
                "where not exists (select 1 from audit where tenant = ?2 and ref = ?4 and at = ?1)",
                entry,
            )

    def merge_labels(self, db: Connection, lines: Iterable[LabelLine], tenant: str) -> None:
        """Add votes that are not here, except on what is forgotten."""
        for line in lines:
            ref = line.ref
            if line.event_id is not None:
                row = self._live(db, line.event_id)
                if row is None:
                    continue
                ref = short_ref(row["seq"])
            elif parse_short_ref(ref) is not None:
                continue
            values = (tenant, line.receipt_id, ref, line.useful, microseconds(line.at))
            db.execute(
                "insert into label(tenant, receipt_id, ref, useful, at, scope, body) values(?,?,?,?,?,?,?) "
                "on conflict do nothing",
                (*values, json.dumps(line.scope), json.dumps(line.body)),
            )

    def finish(self, db: Connection) -> None:
        """End what depends on memories that came later in the export."""
        blocked = {event_id for (event_id,) in self._side.execute("select event_id from blocked")}
        for event_id, newer in self._side.execute("select event_id, newer from later").fetchall():
            old, new = _row(db, event_id), _row(db, self._here(newer) or "")
            if old is None or old["forgotten"] or old["superseded_by"] is not None:
                continue
            if newer in blocked:  # as if this home had forgotten the newer version with its earlier ones
                self._forget(db, old, None)
            elif new is not None and not new["forgotten"]:
                supersede(db, event_id, new["event_id"], self.rules.distils)
        versions = db.execute(
            f"select event_id from event where forgotten = 0 and superseded_by in {VALUES}",
            (json.dumps(sorted(blocked)),),
        ).fetchall()
        for version in versions:
            if (row := _row(db, version["event_id"])) is not None and not row["forgotten"]:
                self._forget(db, row, None)

    def _live(self, db: Connection, event_id: str) -> Row | None:
        """The row of a memory of the export that is not forgotten here."""
        row = _row(db, self._here(event_id) or "")
        return None if row is None or row["forgotten"] else row


def _known_decision(db: Connection, line: DecisionLine, at: int, item: str | None, proposal: int | None) -> Row | None:
    """The decision of a line, if it is here: by what it changed, else by its proposal."""
    table, column, value = (
        ("state_change", "item", item) if item is not None else ("proposal_decision", "proposal", proposal)
    )
    found: Row | None = db.execute(
        f"select d.id from decision d join {table} c on c.decision = d.id "
        f"where c.{column} = ? and d.at = ? and d.who = ?",
        (value, at, line.who),
    ).fetchone()
    return found


def state_columns(state: State, project: str | None) -> dict[str, Any]:
    """The columns of a row for a state."""
    merged_into, conflict_group = state.merged_into, state.conflict_group
    return {"state": written_state(state, project), "merged_into": merged_into, "conflict_group": conflict_group}


def has_tombstones(db: Connection) -> bool:
    """Whether anything was forgotten in a journal."""
    return db.execute("select 1 from tombstone limit 1").fetchone() is not None


def _row(db: Connection, event_id: str) -> Any:
    return db.execute("select * from event where event_id = ?", (event_id,)).fetchone()


def _holder(db: Connection, natural: str) -> Any:
    """The row with a natural key; a forgotten one gives it up."""
    row = db.execute("select * from event where natural = ?", (natural,)).fetchone()
    if row is not None and row["forgotten"]:
        db.execute("update event set natural = null where seq = ?", (row["seq"],))
        return None
    return row


def _age(event: Event) -> tuple[datetime, str]:
    """The order of memories by time; ids decide between equal times, so that it is the same in every home."""
    return event.recorded_at, event.event_id


def _at_place(db: Connection, place_key: str | None, event: Event) -> list[Any]:
    """The current rows at the place of a turn that the same party stated."""
    if place_key is None or (event.place is not None and event.place.unit == "line"):
        return []
    rows = db.execute(
        "select * from event where place_key = ? and superseded_by is null and forgotten = 0", (place_key,)
    ).fetchall()
    return [row for row in rows if event_of(row).stated_by == event.stated_by]


def _has_ended_source(db: Connection, event: Event) -> bool:
    """Whether a memory was derived from one that is not current here."""
    return any(
        (row := _row(db, source)) is not None and not row["forgotten"] and row["superseded_by"] is not None
        for source in event.derived_from
    )


def _without_foreign_target(db: Connection, event: Event) -> Event:
    """The memory without ``supersedes`` where that names another user's."""
    if event.supersedes is None or (row := _row(db, event.supersedes)) is None:
        return event
    target = record_of(row).event.scope
    same = (target.tenant, target.user_id) == (event.scope.tenant, event.scope.user_id)
    return event if same else replace(event, supersedes=None)


def _natural_key(event: Event, given: str | None) -> str | None:
    """The natural key of an imported memory: the ``given`` one of a piece of a file, if it is of the same place."""
    own = keys_of(event)[1]
    if own is None or given == "":
        return None
    if given is not None and event.place is not None and event.place.unit == "line":
        with suppress(ValueError, LookupError, TypeError):
            if json.loads(given)[0] == json.loads(own)[0]:
                return given
    return own


def _digest(key: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _blocking_keys(given: str | None, natural: str | None, words: str, file: str | None) -> list[str]:
    """The keys of tombstones that keep out a memory: by its natural key, and by its words."""
    keys = {key for one in (given, natural) if one for key in (one, *keys_under(one, words, file or ""))}
    return [*sorted(keys), *([words] if words.startswith(WORDS) else [])]


def _has_tombstone(db: Connection, key: str) -> bool:
    return db.execute("select 1 from tombstone where key = ?", (key,)).fetchone() is not None


def _forgotten_at(db: Connection, key: str) -> datetime | None:
    """When a tombstone was made, if the audit says."""
    event = db.execute(
        "select e.tenant, e.seq from tombstone t join event e on e.event_id = t.event_id where t.key = ?", (key,)
    ).fetchone()
    if event is None:
        return None
    entry = db.execute(
        "select min(at) as at from audit where tenant = ? and ref = ?", (event["tenant"], short_ref(event["seq"]))
    ).fetchone()
    return None if entry["at"] is None else time_of(entry["at"])
