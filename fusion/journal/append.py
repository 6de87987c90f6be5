"""Appending events: each is stored once, supersedes what is at its place, and is refused if it was forgotten."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fusion.contract import CLAIMED_PREFIX, Event
from fusion.errors import NotFound
from fusion.journal import conversations, distil_queue, outbox, retire, state, statements, versions
from fusion.journal.rows import RETIRED, Keys, count, count_added, insert_event, keys_of, row_of, written_state
from fusion.journal.same_words import count_repeat, find_repeat
from fusion.journal.tombstones import Tombstones, is_blocked, lift
from fusion.lib.ids import short_ref
from fusion.store.database import Connection
from fusion.store.rows import event_of, storable

Outcome = Literal["stored", "duplicate", "superseded", "blocked"]


@dataclass(frozen=True, slots=True)
class Stored:
    """The outcome for one appended event. ``event`` is the stored one, which may be an earlier duplicate.

    ``retired`` are memories that were distilled from the event that this one superseded. ``withheld`` is the number of
    its lines that were left out because they were forgotten in its file before.
    """

    ref: str
    event: Event
    state: Outcome
    retired: tuple[Event, ...] = ()
    withheld: int = 0
    said: int = 1
    """how often it was remembered explicitly, this time included"""
    supersedes: str | None = None
    """the ref of the event that it replaces"""


@dataclass(frozen=True, slots=True)
class AppendRules:
    """How events are stored: with deliveries to ``stores``, as far as ``tombstones`` allow.

    With ``distils``, turns are queued for the language model. ``urgent`` events are delivered first. With ``apart``,
    words that were remembered explicitly before become another memory. With ``updates``, each event replaces the one
    that it names only if that one is current, and an earlier deletion of its words does not keep it out.
    """

    stores: Sequence[str]
    tombstones: Tombstones
    distils: bool = False
    urgent: bool = False
    apart: bool = False
    updates: bool = False


def append_all(db: Connection, events: Sequence[Event], rules: AppendRules) -> list[Stored]:
    """Store events; the outcomes in their order."""
    for event in events:
        conversations.adopt(db, event)
    keyed = [(event, keys_of(event)) for event in events]
    finals: dict[str | None, dict[str | None, Event]] = {}
    for event, (place_key, *_) in keyed:
        at_place = finals.setdefault(place_key, {})
        at_place.pop(event.file, None)
        at_place[event.file] = event
    added: list[Event] = []
    stored = [_append(db, event, keys, finals[keys[0]], rules, added) for event, keys in keyed]
    count_added(db, added)
    return stored


def _append(
    db: Connection,
    event: Event,
    keys: Keys,
    finals: Mapping[str | None, Event],
    rules: AppendRules,
    added: list[Event],
) -> Stored:
    """Store one event; ``finals`` are the last events of the call for its place, by file and in their order.

    Nothing is written for a duplicate, or for an event that a tombstone blocks. One that is stored joins ``added``,
    which are counted together, before anything is subtracted.
    """
    place_key, natural, words = keys
    withheld = 0
    if rules.updates:
        lift(db, words)
    if natural is not None:
        event, given = conversations.claim_if_uninvited(db, event, keys), event
        blocked = is_blocked(db, given, keys)
        if event is not given:
            place_key, natural, words = keys = keys_of(event)
            blocked = blocked or is_blocked(db, event, keys)
        event, withheld = _without_forgotten(event, rules.tombstones)
        row = db.execute("select * from event where natural = ?", (natural,)).fetchone()
        if row is not None and not row["forgotten"]:
            # The stored text of a piece of a file depends on which of its statements were forgotten at that time.
            other = _is_piece(event) and row["text"] != event.text
            if row["superseded_by"] == RETIRED:
                if not other:
                    retire.revive(db, row, rules.stores)
                    if rules.distils and event.kind == "turn" and event.trust != "quarantined":
                        distil_queue.add(db, row["seq"])
                    return Stored(short_ref(row["seq"]), event_of(row), "stored")
            elif row["superseded_by"] is None and other and len(event.text) > len(row["text"]):
                _count(db, added)
                retire.retire(db, [row])
            elif (
                row["superseded_by"] is None
                or not _is_last(db, event, finals)
                or (there := _current(db, place_key, event)) is None
                or there.revision.startswith(versions.UPDATED)
            ):
                return Stored(short_ref(row["seq"]), event_of(row), "duplicate")
        if blocked or not event.text:
            return Stored("", event, "blocked")
        # A return to an earlier text, or one that was forgotten and is allowed again, is a new event with the key.
        db.execute("update event set natural = null where natural = ?", (natural,))
    else:
        lift(db, words)
        if not rules.apart and (row := find_repeat(db, event)) is not None:
            said = count_repeat(db, row, event.recorded_at)
            return Stored(short_ref(row["seq"]), event_of(row), "duplicate", said=said)
    event, outcome = _superseding(db, event, place_key, rules.updates)
    stated = storable(json.dumps(event.stated, ensure_ascii=False))
    seq = insert_event(
        db,
        event,
        natural=natural,
        place_key=place_key,
        stated=stated,
        file=event.file,
        state=written_state(state.initial(event), event.scope.project),
    )
    retired: Sequence[Event] = ()
    if event.supersedes is not None:
        _count(db, added)
        retired = supersede(db, event.supersedes, event.event_id, rules.distils)
    outbox.enter(db, seq, rules.stores, urgent=rules.urgent)
    derived = [(source, event.event_id) for source in event.derived_from]
    db.executemany("insert into derived values(?, ?) on conflict do nothing", derived)
    added.append(event)
    if rules.distils and event.kind == "turn" and event.trust != "quarantined":
        distil_queue.add(db, seq)
    if statements.may_state(event):
        # An update is compared with nothing: its caller says what it replaces.
        statements.add(db, seq, decides=event.supersedes is None or event.kind == "turn")
    if event.supersedes is not None:
        state.carry_conflict_over(db, event.supersedes, event.event_id, event.recorded_at)
        if rules.updates:
            state.carry_settings_over(db, event.supersedes, event.event_id, event.recorded_at)
    replaced = None if event.supersedes is None else _ref_of(db, event.supersedes)
    return Stored(short_ref(seq), event, outcome, tuple(retired), withheld, supersedes=replaced)


def _count(db: Connection, added: list[Event]) -> None:
    count_added(db, added)
    added.clear()


def _is_last(db: Connection, event: Event, finals: Mapping[str | None, Event]) -> bool:
    """Whether no later event in this call takes the same place: only the last one may restore an earlier text.

    Claims, and lines of another file that may not join the conversation, do not count.
    """
    claimed = (event.source or "").startswith(CLAIMED_PREFIX)
    for other in reversed(list(finals.values())):
        if other.file == event.file:
            return other.event_id == event.event_id
        if not claimed and conversations.may_join(db, other):
            return False
    return True


def _ref_of(db: Connection, event_id: str) -> str:
    return short_ref(db.execute("select seq from event where event_id = ?", (event_id,)).fetchone()["seq"])


def _is_piece(event: Event) -> bool:
    return event.place is not None and event.place.unit == "line"


def _without_forgotten(event: Event, tombstones: Tombstones) -> tuple[Event, int]:
    """A piece of a file without its forgotten statements, and the number of lines left out; its text may be empty."""
    if event.place is None:
        return event, 0
    text, place = tombstones.remainder(event.text, event.place, event.scope)
    if text == event.text:
        return event, 0
    return replace(event, text=text, place=place), max(1, _said_lines(event.text) - _said_lines(text))


def _said_lines(text: str) -> int:
    return sum(1 for line in text.split("\n") if line.strip())


def supersede(db: Connection, old_id: str, new_id: str, distils: bool) -> Sequence[Event]:
    """Mark an event as superseded; retire and return the memories that were distilled from it.

    A memory of several turns is retired with the first that is edited. The other turns are queued again, so that the
    model reads them together with the new text.
    """
    old = db.execute("select * from event where event_id = ?", (old_id,)).fetchone()
    if old["superseded_by"] is None:
        count(db, event_of(old), -1)
    db.execute("update event set superseded_by = ? where seq = ?", (new_id, old["seq"]))
    distil_queue.remove(db, old["seq"])
    made = retire.made_of(db, old_id)
    retire.retire(db, made)
    events = [event_of(row) for row in made]
    if distils:
        distil_queue.requeue(db, [source for event in events for source in event.derived_from])
    return events


def _superseding(
    db: Connection, event: Event, place_key: str | None, current_only: bool = False
) -> tuple[Event, Outcome]:
    """The event with ``supersedes`` set to the current event at its place, or to the one that its caller named.

    With ``current_only``, raises AlreadyReplaced if that one is not current.
    """
    if event.supersedes is not None:
        # A group memory may supersede a private one of the same owner, and nothing of another owner.
        row = row_of(db, event.supersedes, replace(event.scope, audience="private"))
        if row["user_id"] != event.scope.user_id:
            raise NotFound(f"there is no memory {event.supersedes!r} of this user")
        if current_only:
            versions.require_current(db, row)
        return replace(event, supersedes=row["event_id"]), "superseded"
    # Lines of a file move when something is inserted above them, so only turns keep their place.
    if place_key is None or (event.place is not None and event.place.unit == "line"):
        return event, "stored"
    there = _current(db, place_key, event)
    return (event, "stored") if there is None else (replace(event, supersedes=there.event_id), "superseded")


def _current(db: Connection, place_key: str | None, event: Event) -> Event | None:
    """The current event at a place, if it was stated by the same party as ``event``: no other may edit it."""
    rows = db.execute(
        "select * from event where place_key = ? and superseded_by is null and forgotten = 0 order by seq desc",
        (place_key,),
    )
    there = (known for known in map(event_of, rows) if known.stated_by == event.stated_by)
    return next(there, None)
