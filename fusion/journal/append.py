"""One event into the journal: once, in the place of what it supersedes, and not at all where it was forgotten."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fusion.contract import Event
from fusion.errors import NotFound
from fusion.journal import distil_queue, outbox, repeats, retire, talks
from fusion.journal.rows import RETIRED, WORDS, count, keys_of, row_of
from fusion.journal.tombstones import Tombstones, lift
from fusion.lib.ids import short_ref
from fusion.store.rows import EVENT_NAMES, event_of, event_row, storable
from fusion.store.sqlite import Connection

State = Literal["stored", "duplicate", "superseded", "blocked"]


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of one event that was handed in. ``event`` is the one that is kept, maybe an earlier one.

    ``retired`` does not hold any more since: it was made of what this one superseded. ``withheld`` lines of it said
    what was forgotten in its file, and are not kept.
    """

    ref: str
    event: Event
    state: State
    retired: tuple[Event, ...] = ()
    withheld: int = 0
    said: int = 1
    """how often it was remembered on purpose, this time included"""
    supersedes: str | None = None
    """the ref of the one that it takes the place of"""


def append(
    db: Connection,
    event: Event,
    *,
    last: bool,
    stores: Sequence[str],
    barred: Tombstones,
    distils: bool,
    urgent: bool = False,
    apart: bool = False,
) -> Stored:
    """Keeps an event, with its deliveries to ``stores``; ``last``: no other event of its call has its place.

    Nothing is written of one that is there already, or that ``barred`` or a tombstone keeps out. With ``distils`` a
    turn is listed for the model; ``urgent`` ones are delivered first. ``apart``: words said before are another memory.
    """
    place_key, natural, words = keys_of(event)
    if natural is not None and db.execute("select 1 from event where natural = ?", (natural,)).fetchone() is None:
        event = talks.placed(db, event)
        place_key, natural, words = keys_of(event)
    withheld = 0
    if natural is not None:
        event, withheld = _without_forgotten(event, barred)
        row = db.execute("select * from event where natural = ?", (natural,)).fetchone()
        if row is not None and not row["forgotten"]:
            # What is kept of a piece of a file depends on what was forgotten there by then, and on what was lifted.
            other = _is_piece(event) and row["text"] != event.text
            if row["superseded_by"] == RETIRED:
                if not other:
                    retire.revive(db, row, stores)
                    return Stored(short_ref(row["seq"]), event_of(row), "stored")
            elif row["superseded_by"] is None and other and len(event.text) > len(row["text"]):
                retire.retire(db, [row])
            elif row["superseded_by"] is None or not last or _current(db, place_key, event) is None:
                return Stored(short_ref(row["seq"]), event_of(row), "duplicate")
        marks = [natural, *([words] if words.startswith(WORDS) else ())]
        found = db.execute(
            f"select event_id from tombstone where key in ({', '.join('?' * len(marks))})", marks
        ).fetchone()
        if found is not None or not event.text:
            return Stored("", event, "blocked")
        # What is said anew, or was forgotten and is wanted again, is another event: the key is the newest's.
        db.execute("update event set natural = null where natural = ?", (natural,))
    else:
        lift(db, words)
        if not apart and (row := repeats.said_before(db, event)) is not None:
            return Stored(
                short_ref(row["seq"]), event_of(row), "duplicate", said=repeats.note(db, row, event.recorded_at)
            )
    event, state = _superseding(db, event, place_key)
    columns = ", ".join((*EVENT_NAMES, "natural", "place_key", "stated"))
    seq = db.execute(
        f"insert into event({columns}) values({', '.join('?' * (len(EVENT_NAMES) + 3))})",
        (*event_row(event), natural, place_key, storable(json.dumps(event.stated, ensure_ascii=False))),
    ).lastrowid
    assert seq is not None  # noqa: S101 — an insert that did not raise has a row
    retired = () if event.supersedes is None else _replace(db, event.supersedes, event.event_id, distils)
    outbox.enter(db, seq, stores, urgent=urgent)
    db.executemany("insert or ignore into derived values(?, ?)", [(s, event.event_id) for s in event.derived_from])
    count(db, event, +1)
    if distils and event.kind == "turn" and event.trust != "quarantined":
        distil_queue.add(db, seq)
    replaced = None if event.supersedes is None else _ref_of(db, event.supersedes)
    return Stored(short_ref(seq), event, state, tuple(retired), withheld, supersedes=replaced)


def _ref_of(db: Connection, event_id: str) -> str:
    return short_ref(db.execute("select seq from event where event_id = ?", (event_id,)).fetchone()["seq"])


def _is_piece(event: Event) -> bool:
    return event.place is not None and event.place.unit == "line"


def _without_forgotten(event: Event, barred: Tombstones) -> tuple[Event, int]:
    """A piece of a file without what was forgotten there, and how many lines that were; empty if it says no more."""
    if event.place is None:
        return event, 0
    text, place = barred.rest(event.text, event.place, event.scope)
    if text == event.text:
        return event, 0
    return replace(event, text=text, place=place), max(1, _said_lines(event.text) - _said_lines(text))


def _said_lines(text: str) -> int:
    return sum(1 for line in text.split("\n") if line.strip())


def _replace(db: Connection, old_id: str, new_id: str, distils: bool) -> Sequence[Event]:
    """Marks what is superseded, and retires what was made of it, which is returned.

    A memory that was made of several turns goes with the first that is edited; the others are listed again, so that a
    model learns what they say beside the new text.
    """
    old = db.execute("select * from event where event_id = ?", (old_id,)).fetchone()
    if old["superseded_by"] is None:
        count(db, event_of(old), -1)
    db.execute("update event set superseded_by = ? where seq = ?", (new_id, old["seq"]))
    distil_queue.take_off(db, old["seq"])
    made = retire.made_of(db, old_id)
    retire.retire(db, made)
    events = [event_of(row) for row in made]
    if distils:
        distil_queue.anew(db, [source for event in events for source in event.derived_from])
    return events


def _superseding(db: Connection, event: Event, place_key: str | None) -> tuple[Event, State]:
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
    there = _current(db, place_key, event)
    return (event, "stored") if there is None else (replace(event, supersedes=there), "superseded")


def _current(db: Connection, place_key: str | None, event: Event) -> str | None:
    """The id of the event at a place now, among those stated by the one that states ``event``: nobody else edits it."""
    rows = db.execute(
        "select * from event where place_key = ? and superseded_by is null and forgotten = 0 order by seq desc",
        (place_key,),
    )
    there = (known.event_id for known in map(event_of, rows) if known.stated_by == event.stated_by)
    return next(there, None)
