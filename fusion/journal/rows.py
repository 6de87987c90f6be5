"""Event rows: the record of an event, its keys, and the document frequencies of its terms."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any

from pydantic import TypeAdapter

from fusion.contract import NEW, Event, Hit, Scope, State, Trust
from fusion.errors import BadInput, NotFound
from fusion.journal import episodes, fact_rows, item_rows, owners
from fusion.lib.bm25 import Frequencies, terms
from fusion.lib.ids import parse_short_ref, short_ref
from fusion.lib.listing import no_memory
from fusion.lib.words import content_hash, normalise, spoken
from fusion.store.database import VALUES, Connection, Row
from fusion.store.rows import EVENT_NAMES, event_in, event_of, event_row, scope_terms, storable, time_of

MAX_SEQ = (1 << 63) - 1
MAX_KEY_CHARS = 1000
"""characters of a place key or a natural key before its digest; an entry of PostgreSQL's indexes has 2,700 bytes"""
MAX_NAMES_BYTES = 2000
"""of the names that say where a memory belongs, which are in one entry of an index"""
MAX_TERM_CHARS = 200
"""of a word whose memories are counted; a longer one is not in another memory, most likely"""
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


_MORE = ("stated", "seq", "state", "said_at", "forgotten", "superseded_by")
_PROJECT = EVENT_NAMES.index("project")
RECORD_COLUMNS = ", ".join((*EVENT_NAMES, *_MORE))
"""the columns of an event's row that `record_in` reads, in their order"""


def record_of(row: Any) -> Record:
    """The record of a row."""
    event = event_of(row) if row["stated"] == "[]" else delivered_event(row)
    return _record(event, row["seq"], state_of(row), row["said_at"], row["forgotten"], row["superseded_by"])


def record_in(columns: Sequence[Any]) -> Record:
    """The record of ``RECORD_COLUMNS``; for many rows. A row of SQLite compares the name of a column with all names."""
    stated, seq, written, *more = columns[len(EVENT_NAMES) :]
    event = event_in(columns)
    if stated != "[]":
        event = replace(event, stated=_pairs(stated))
    return _record(event, seq, default_state(columns[_PROJECT]) if written is None else read_state(written), *more)


def _record(
    event: Event, seq: int, state: State, repeated: int | None, forgotten: int, superseded_by: str | None
) -> Record:
    times = [] if repeated is None else [time_of(repeated)]
    if state.reinforced_at is not None and event.kind != "turn":  # a turn was said once, at its place
        times.append(state.reinforced_at)
    return Record(short_ref(seq), event, bool(forgotten), superseded_by, max(times, default=None), state)


def _pairs(stated: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in json.loads(stated))


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
    return replace(event_of(row), stated=_pairs(row["stated"]))


def insert_event(db: Connection, event: Event, **columns: object) -> int:
    """Insert an event with the ``columns`` that only the journal has; returns its number."""
    _require_short(event)
    columns["words_hash"] = 0 if columns.get("forgotten") else words_hash(event.text, event.speaker)
    names = (*EVENT_NAMES, *columns)
    values = (*event_row(event), *columns.values())
    inserted = db.execute(
        f"insert into event({', '.join(names)}) values({', '.join('?' * len(names))}) returning seq", values
    )
    seq = int(inserted.fetchone()["seq"])
    episodes.add(db, seq, event)
    fact_rows.add(db, seq, event)
    item_rows.add(db, seq, event)
    return seq


def _require_short(event: Event) -> None:
    scope, document = event.scope, event.place.document if event.place else None
    given = (scope.user_id, scope.agent_id, scope.run_id, scope.session_id, document)
    size = sum(len((name or "").encode("utf-8", "surrogatepass")) for name in given)
    if size > MAX_NAMES_BYTES:
        raise BadInput(
            f"user_id, agent_id, run_id, session_id and document have {size} bytes together, and {MAX_NAMES_BYTES} are "
            "the most: use shorter names"
        )


def all_match(db: Connection, event_ids: Sequence[str], condition: str) -> bool:
    """Whether a condition holds of every one of these events."""
    met = f"select count(*) from event where event_id in {VALUES} and {condition}"
    return bool(db.execute(met, (json.dumps(event_ids),)).fetchone()[0] == len(set(event_ids)))


def forgotten(db: Connection, event_ids: Collection[str]) -> frozenset[str]:
    """Those of these events that were forgotten."""
    gone = f"select event_id from event where forgotten = 1 and event_id in {VALUES}"
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


def words_hash(text: str, speaker: str | None) -> int:
    """The column ``words_hash`` of a memory: 60 bits by which those in the same words are found, and never 0."""
    words = normalise(storable(spoken(text, speaker))).split()
    return int(content_hash(" ".join(words))[:15], 16) or 1


Keys = tuple[str | None, str | None, str]
"""what `keys_of` gives"""


def keys_of(event: Event) -> Keys:
    """The place key, natural key and words key of an event; without source and place the first two are None."""
    owner = owner_of(event.scope)
    said = words_key(event.text, event.speaker, event.scope)
    if is_explicit(event):
        return None, None, said
    document = event.place.document if event.place else None
    lines = event.place is not None and event.place.unit == "line"
    start = event.place.start if event.place and not lines else None
    scope = event.scope
    place = json.dumps([owner, scope.agent_id, scope.run_id, scope.session_id, event.source, document, start])
    # Without a place, two turns with the same text differ by their time.
    said_at = event.at.utc.isoformat() if event.at and event.place is None else ""
    version = event.revision or content_hash(f"{said_at}\0{event.text}")
    return _bounded(place) if start is not None else None, _bounded(json.dumps([place, version])), said


def is_explicit(event: Event) -> bool:
    """Whether an event has neither a source nor a place, and so no natural key: it was remembered explicitly."""
    return event.source is None and event.place is None


def _bounded(key: str) -> str:
    """A key that an index of PostgreSQL takes: a long one has a digest in place of its end."""
    return key if len(key) <= MAX_KEY_CHARS else f"{key[:MAX_KEY_CHARS]} {sha256(key.encode()).hexdigest()}"


def owner_of(scope: Scope) -> str:
    """The key of a scope's owner: tenant and user."""
    return f"{scope.tenant}\0{scope.user_id or ''}"


def count(db: Connection, event: Event, sign: int) -> None:
    """Add a current event to the counts of its owner: its terms and itself; or subtract it with ``sign`` -1."""
    owners.count(db, event, sign)
    owner, said = owner_of(event.scope), terms(spoken(event.text, event.speaker))
    found = [term for term in said if len(term) <= MAX_TERM_CHARS]
    db.execute(
        "insert into owner values(?, ?, ?, ?) on conflict(owner) do update "
        "set documents = owner.documents + excluded.documents, length = owner.length + excluded.length",
        (owner, event.scope.tenant, sign, sign * len(said)),
    )
    db.executemany(
        "insert into term values(?, ?, ?) on conflict(owner, term) do update set n = term.n + excluded.n",
        [(owner, term, sign) for term in Counter(found)],
    )
    if sign < 0:
        # Earlier versions counted longer words, too.
        db.executemany("delete from term where owner = ? and term = ?", [(owner, term) for term in {*said} - {*found}])
        gone = [(owner, term) for term in set(found)]
        db.executemany("delete from term where owner = ? and term = ? and n <= 0", gone)


def count_added(db: Connection, events: Sequence[Event]) -> None:
    """`count` each of these events, which are new: each owner and each of their terms is written once."""
    owners.count_added(db, events)
    documents: Counter[tuple[str, str]] = Counter()
    lengths: Counter[tuple[str, str]] = Counter()
    found: Counter[tuple[str, str]] = Counter()
    for event in events:
        owner, said = owner_of(event.scope), terms(spoken(event.text, event.speaker))
        documents[owner, event.scope.tenant] += 1
        lengths[owner, event.scope.tenant] += len(said)
        found.update((owner, term) for term in {*said} if len(term) <= MAX_TERM_CHARS)
    db.executemany(
        "insert into owner values(?, ?, ?, ?) on conflict(owner) do update "
        "set documents = owner.documents + excluded.documents, length = owner.length + excluded.length",
        [(*whose, n, lengths[whose]) for whose, n in documents.items()],
    )
    db.executemany(
        "insert into term values(?, ?, ?) on conflict(owner, term) do update set n = term.n + excluded.n",
        [(*of, n) for of, n in sorted(found.items())],
    )


def frequencies(db: Connection, scope: Scope, asked: Sequence[str]) -> Frequencies:
    """The document frequency of each term among the memories of the scope's user, or of the whole tenant."""
    whose = "owner = ?" if scope.user_id is not None else "owner in (select owner from owner where tenant = ?)"
    owner = owner_of(scope) if scope.user_id is not None else scope.tenant
    documents, length = db.execute(
        f"select coalesce(sum(documents), 0), coalesce(sum(length), 0) from owner where {whose}", (owner,)
    ).fetchone()
    counts = db.execute(
        f"select term, sum(n) as n from term where {whose} and term in {VALUES} group by term",
        (owner, json.dumps(list(asked))),
    ).fetchall()
    return Frequencies(documents, length / documents if documents else 1.0, {r["term"]: r["n"] for r in counts})


def visible_to(scope: Scope) -> tuple[str, list[object]]:
    """The condition on an ``event`` under which a query of ``scope`` may see it, and its parameters."""
    terms_of, values = scope_terms(scope)
    if scope.audience == "group":
        terms_of.append("audience = 'group'")
    return " and ".join(terms_of), values
