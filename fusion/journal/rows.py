"""The rows of the journal: an event as the journal knows it, what identifies it, and what is counted of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from fusion.contract import Event, Hit, Scope
from fusion.errors import NotFound
from fusion.lib.bm25 import Frequencies, terms
from fusion.lib.ids import parse_short_ref, short_ref
from fusion.lib.words import content_hash, normalise, spoken
from fusion.store.rows import event_of, storable, time_of
from fusion.store.sqlite import Connection, Row

SHORT_TEXT_WORDS = 5
"""a tombstone on the words alone holds from this many: a forgotten "yes" must not silence every yes"""
WORDS = "words\0"
"""what the key of a text begins with that is long enough to be known by its words alone"""
RETIRED = "retired"
"""stands where another event's id would, of an event that its file does not have any more"""
BORN_FORGOTTEN = "born forgotten"
"""what the natural key of an event begins with that stands for another's item"""
LIVE = f"forgotten = 0 and superseded_by is not '{RETIRED}'"
"""what a backend is to have: earlier versions too, but nothing that was forgotten or retired"""


@dataclass(frozen=True)
class Record:
    """What the journal knows of an event. ``event.text`` is empty once it was forgotten.

    ``superseded_by`` is the id of the event that took its place, or `RETIRED`: its file has it no more.
    """

    ref: str
    event: Event
    forgotten: bool = False
    superseded_by: str | None = None
    said_at: datetime | None = None
    """when it was remembered for the last time, if more than once"""

    @cached_property
    def hit(self) -> Hit:
        """The event as what a search finds; made once, for a turn stands beside others in many answers."""
        hit = Hit.of(self.event)
        hit.stated_by = self.event.stated_by
        return hit

    @property
    def live(self) -> bool:
        """Whether a store is to have it: earlier versions are kept, what was forgotten or retired is not."""
        return not self.forgotten and self.superseded_by != RETIRED


def record_of(row: Any) -> Record:
    said_at = None if row["said_at"] is None else time_of(row["said_at"])
    return Record(short_ref(row["seq"]), event_of(row), bool(row["forgotten"]), row["superseded_by"], said_at)


def delivered_event(row: Row) -> Event:
    """An event as a backend is told of it; what its caller stated is nobody else's business."""
    return replace(event_of(row), stated=tuple((name, value) for name, value in json.loads(row["stated"])))


def all_match(db: Connection, event_ids: Sequence[str], condition: str) -> bool:
    """Whether a condition holds of every one of these events."""
    met = f"select count(*) from event where event_id in (select value from json_each(?)) and {condition}"
    return bool(db.execute(met, (json.dumps(event_ids),)).fetchone()[0] == len(set(event_ids)))


def forgotten(db: Connection, event_ids: Collection[str]) -> frozenset[str]:
    """Those of these events that were forgotten."""
    gone = "select event_id from event where forgotten = 1 and event_id in (select value from json_each(?))"
    return frozenset(row["event_id"] for row in db.execute(gone, (json.dumps(list(event_ids)),)))


def row_of(db: Connection, ref: str, scope: Scope) -> Any:
    seq = parse_short_ref(ref)
    column, value = ("seq", seq) if seq is not None else ("event_id", storable(ref))
    row = db.execute(f"select * from event where {column} = ?", (value,)).fetchone()
    if row is None or row["forgotten"] or not scope.admits(event_of(row).scope):
        raise NotFound(f"there is no memory {ref!r} here")
    return row


def words_key(text: str, speaker: str | None, scope: Scope) -> str:
    """Names what was said by its words and its owner; a short text under another name, for it bars nobody."""
    words = normalise(spoken(text, speaker)).split()
    name = WORDS if len(words) >= SHORT_TEXT_WORDS else "few\0"
    return name + owner_of(scope) + "\0" + content_hash(" ".join(words))


def keys_of(event: Event) -> tuple[str | None, str | None, str]:
    """(place key, natural key, key of the words in their scope); None where the event has no such thing."""
    owner = owner_of(event.scope)
    said = words_key(event.text, event.speaker, event.scope)
    if event.source is None and event.place is None:
        return None, None, said
    document = event.place.document if event.place else None
    lines = event.place is not None and event.place.unit == "line"
    start = event.place.start if event.place and not lines else None
    scope = event.scope
    place = json.dumps([owner, scope.agent_id, scope.run_id, scope.session_id, event.source, document, start])
    # Without a place, the time tells two turns that say the same apart.
    said_at = event.at.utc.isoformat() if event.at and event.place is None else ""
    version = event.revision or content_hash(f"{said_at}\0{event.text}")
    return place if start is not None else None, json.dumps([place, version]), said


def owner_of(scope: Scope) -> str:
    return f"{scope.tenant}\0{scope.user_id or ''}"


def count(db: Connection, event: Event, sign: int) -> None:
    """Adds an event's words to the document frequencies of its owner, or takes them away."""
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
    """How common each term is among the memories of the scope's user, or of the whole tenant."""
    owners = "owner = ?" if scope.user_id is not None else "owner in (select owner from owner where tenant = ?)"
    whose = owner_of(scope) if scope.user_id is not None else scope.tenant
    documents, length = db.execute(
        f"select coalesce(sum(documents), 0), coalesce(sum(length), 0) from owner where {owners}", (whose,)
    ).fetchone()
    counts = db.execute(
        f"select term, sum(n) as n from term where {owners} and term in (select value from json_each(?)) group by term",
        (whose, json.dumps(list(asked))),
    ).fetchall()
    return Frequencies(documents, length / documents if documents else 1.0, {r["term"]: r["n"] for r in counts})


def visible_to(scope: Scope) -> tuple[str, list[object]]:
    """The condition on an ``event`` under which a query of ``scope`` may see it, and its parameters."""
    named = scope.named()
    terms_of = ["tenant = ?", *(f"{dimension} = ?" for dimension in named)]
    if scope.audience == "group":
        terms_of.append("audience = 'group'")
    return " and ".join(terms_of), [scope.tenant, *map(storable, named.values())]
