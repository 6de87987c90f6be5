"""Event rows: the record of an event, its keys, and the document frequencies of its terms."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

from pydantic import TypeAdapter

from fusion.contract import NEW, Event, Hit, Scope, State, Trust
from fusion.errors import NotFound
from fusion.journal import episodes, fact_rows, item_rows, owners
from fusion.lib.bm25 import Frequencies, terms
from fusion.lib.ids import parse_short_ref, short_ref
from fusion.lib.listing import no_memory
from fusion.lib.words import content_hash, normalise, spoken
from fusion.store.rows import EVENT_NAMES, event_of, event_row, scope_terms, storable, time_of
from fusion.store.sqlite import Connection, Row

SHORT_TEXT_WORDS = 5
"""words from which a text is blocked by its words alone: a forgotten "yes" must not block every "yes" """
WORDS = "words\0"
"""the prefix of the words key of a text that has at least that many words"""
RETIRED = "retired"
"""the value of ``superseded_by`` for an event that is no longer in its file"""
BORN_FORGOTTEN = "born forgotten"
"""the prefix of the natural key of an event that was made to forget an external item"""
LIVE = f"forgotten = 0 and superseded_by is not '{RETIRED}'"
"""the condition on an event that backends hold: earlier versions too, but nothing forgotten or retired"""


@dataclass(frozen=True)
class Record:
    """An event with its ref and state. ``event.text`` is empty once it was forgotten.

    ``superseded_by`` is the id of the event that replaced it, or `RETIRED`.
    """

    ref: str
    event: Event
    forgotten: bool = False
    superseded_by: str | None = None
    said_at: datetime | None = None
    """when it was last repeated, if ever"""
    state: State = NEW

    @cached_property
    def hit(self) -> Hit:
        """The event as a hit, with the trust and project of its state; cached, since a neighbour is in many answers."""
        hit = Hit.of(self.event)
        hit.stated_by = self.event.stated_by
        hit.trust = self.trust
        if self.state.project is not None:
            hit.scope = replace(hit.scope, project=self.state.project)
        return hit

    @property
    def trust(self) -> Trust:
        """The trust that its state gives it, else that of the event."""
        return self.state.trust or self.event.trust

    @property
    def live(self) -> bool:
        """Whether backends hold it, as `LIVE`."""
        return not self.forgotten and self.superseded_by != RETIRED


def record_of(row: Any) -> Record:
    """The record of a row."""
    event = event_of(row) if row["stated"] == "[]" else delivered_event(row)
    state = state_of(row)
    times = [] if row["said_at"] is None else [time_of(row["said_at"])]
    if state.reinforced_at is not None and event.kind != "turn":  # a turn was said once, at its place
        times.append(state.reinforced_at)
    said_at = max(times, default=None)
    return Record(short_ref(row["seq"]), event, bool(row["forgotten"]), row["superseded_by"], said_at, state)


_STATE: TypeAdapter[State] = TypeAdapter(State)


@lru_cache(64)
def default_state(project: str | None) -> State:
    """The state of a memory for which nothing was stated or decided."""
    return NEW if project is None else State("project")


def state_of(row: Row | Mapping[str, Any]) -> State:
    """The state of a memory's row."""
    written = row["state"]
    return default_state(row["project"]) if written is None else read_state(written)


@lru_cache(4096)
def read_state(written: str) -> State:
    """A state from its JSON; absent fields have their defaults."""
    return _STATE.validate_json(written)


def written_state(state: State, project: str | None) -> str | None:
    """The column of a state; None for that of a new memory."""
    return None if state == default_state(project) else _STATE.dump_json(state, exclude_defaults=True).decode()


def delivered_event(row: Row) -> Event:
    """The event of a row with ``stated``."""
    return replace(event_of(row), stated=tuple((name, value) for name, value in json.loads(row["stated"])))


def insert_event(db: Connection, event: Event, **columns: object) -> int:
    """Insert an event with the ``columns`` that only the journal has; returns its number."""
    names = (*EVENT_NAMES, *columns)
    values = (*event_row(event), *columns.values())
    inserted = db.execute(f"insert into event({', '.join(names)}) values({', '.join('?' * len(names))})", values)
    assert inserted.lastrowid is not None  # noqa: S101 — an insert that did not raise has a row
    episodes.add(db, inserted.lastrowid, event)
    fact_rows.add(db, inserted.lastrowid, event)
    item_rows.add(db, inserted.lastrowid, event)
    return inserted.lastrowid


def all_match(db: Connection, event_ids: Sequence[str], condition: str) -> bool:
    """Whether a condition holds of every one of these events."""
    met = f"select count(*) from event where event_id in (select value from json_each(?)) and {condition}"
    return bool(db.execute(met, (json.dumps(event_ids),)).fetchone()[0] == len(set(event_ids)))


def forgotten(db: Connection, event_ids: Collection[str]) -> frozenset[str]:
    """Those of these events that were forgotten."""
    gone = "select event_id from event where forgotten = 1 and event_id in (select value from json_each(?))"
    return frozenset(row["event_id"] for row in db.execute(gone, (json.dumps(list(event_ids)),)))


def row_of(db: Connection, ref: str, scope: Scope) -> Any:
    """The row of a short ref or event id. Raises NotFound, also for one that is forgotten or outside ``scope``."""
    seq = parse_short_ref(ref)
    column, value = ("seq", seq) if seq is not None else ("event_id", storable(ref))
    row = db.execute(f"select * from event where {column} = ?", (value,)).fetchone()
    if row is None or row["forgotten"] or not scope.admits(event_of(row).scope):
        raise NotFound(no_memory(ref))
    return row


def times_remembered(db: Connection, ref: str, scope: Scope) -> int:
    """How often a memory was remembered explicitly. Raises NotFound, as `row_of`."""
    return int(row_of(db, ref, scope)["said"])


def words_key(text: str, speaker: str | None, scope: Scope) -> str:
    """The key of a text by its words and owner; a short text has another prefix and blocks nothing."""
    words = normalise(spoken(text, speaker)).split()
    name = WORDS if len(words) >= SHORT_TEXT_WORDS else "few\0"
    return name + owner_of(scope) + "\0" + content_hash(" ".join(words))


def keys_of(event: Event) -> tuple[str | None, str | None, str]:
    """The place key, natural key and words key of an event; without source and place the first two are None."""
    owner = owner_of(event.scope)
    said = words_key(event.text, event.speaker, event.scope)
    if event.source is None and event.place is None:
        return None, None, said
    document = event.place.document if event.place else None
    lines = event.place is not None and event.place.unit == "line"
    start = event.place.start if event.place and not lines else None
    scope = event.scope
    place = json.dumps([owner, scope.agent_id, scope.run_id, scope.session_id, event.source, document, start])
    # Without a place, two turns with the same text differ by their time.
    said_at = event.at.utc.isoformat() if event.at and event.place is None else ""
    version = event.revision or content_hash(f"{said_at}\0{event.text}")
    return place if start is not None else None, json.dumps([place, version]), said


def owner_of(scope: Scope) -> str:
    """The key of a scope's owner: tenant and user."""
    return f"{scope.tenant}\0{scope.user_id or ''}"


def count(db: Connection, event: Event, sign: int) -> None:
    """Add a current event to the counts of its owner: its terms and itself; or subtract it with ``sign`` -1."""
    owners.count(db, event, sign)
    owner, found = owner_of(event.scope), terms(spoken(event.text, event.speaker))
    db.execute(
        "insert into owner values(?, ?, ?, ?) on conflict(owner) do update "
        "set documents = documents + excluded.documents, length = length + excluded.length",
        (owner, event.scope.tenant, sign, sign * len(found)),
    )
    db.executemany(
        "insert into term values(?, ?, ?) on conflict(owner, term) do update set n = n + excluded.n",
        [(owner, term, sign) for term in Counter(found)],
    )
    if sign < 0:
        gone = [(owner, term) for term in set(found)]
        db.executemany("delete from term where owner = ? and term = ? and n <= 0", gone)


def frequencies(db: Connection, scope: Scope, asked: Sequence[str]) -> Frequencies:
    """The document frequency of each term among the memories of the scope's user, or of the whole tenant."""
    whose = "owner = ?" if scope.user_id is not None else "owner in (select owner from owner where tenant = ?)"
    owner = owner_of(scope) if scope.user_id is not None else scope.tenant
    documents, length = db.execute(
        f"select coalesce(sum(documents), 0), coalesce(sum(length), 0) from owner where {whose}", (owner,)
    ).fetchone()
    counts = db.execute(
        f"select term, sum(n) as n from term where {whose} and term in (select value from json_each(?)) group by term",
        (owner, json.dumps(list(asked))),
    ).fetchall()
    return Frequencies(documents, length / documents if documents else 1.0, {r["term"]: r["n"] for r in counts})


def visible_to(scope: Scope) -> tuple[str, list[object]]:
    """The condition on an ``event`` under which a query of ``scope`` may see it, and its parameters."""
    terms_of, values = scope_terms(scope)
    if scope.audience == "group":
        terms_of.append("audience = 'group'")
    return " and ".join(terms_of), values
