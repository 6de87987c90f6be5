"""Burying: a memory's text leaves its row, its tombstones go up, every backend that was told of it is to forget it.

With it go what its owner keeps in the same words, the earlier versions that it superseded, and what was derived from
nothing else: they say the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fusion.contract import Event, Hit, Scope
from fusion.errors import NotFound
from fusion.journal import audit, distil_queue, external_refs, feedback, outbox
from fusion.journal.duplicates import Duplicates
from fusion.journal.external_refs import is_foreign
from fusion.journal.rows import BORN_FORGOTTEN, Record, count, keys_of, record_of, row_of, words_key
from fusion.journal.tombstones import itself, put_up
from fusion.lib.ids import uuid7
from fusion.store.rows import EVENT_NAMES, event_of, event_row
from fusion.store.sqlite import Connection, Row


@dataclass(frozen=True, slots=True)
class Deletion:
    """One event that was forgotten: ``record`` as it was, and by backend the delivery (seq, native ids) to undo."""

    record: Record
    due: Mapping[str, tuple[int, tuple[str, ...]]]


def forget(db: Connection, ref: str, scope: Scope, by: str, now: datetime, copies: Duplicates) -> Sequence[Deletion]:
    """Forgets what a ref names here, and what goes with it; nothing where there is no such memory.

    What is named comes first, then our own that go with it.
    """
    try:
        rows = doomed(db, ref, scope, copies)
        for row in rows:
            copies.drop(row["seq"])
        if not is_foreign(ref):
            return [_bury(db, row, by, now) for row in rows]
        there = external_refs.resolve(db, ref, scope)
        external_refs.drop(db, scope.tenant, there.ref)
        named = _bury_foreign(db, there.ref, there.backend, there.hit, by, now)
        return [named, *(_bury(db, row, by, now) for row in rows)]
    except NotFound:
        return []


def doomed(db: Connection, ref: str, scope: Scope, copies: Duplicates) -> list[Row]:
    """The rows of our own that go when what a ref names is forgotten, what it names first. Raises NotFound."""
    return _with_what_follows(db, in_the_same_words(db, ref, scope, copies))


def in_the_same_words(db: Connection, ref: str, scope: Scope, copies: Duplicates) -> list[Row]:
    """The rows of our own that its owner has in the words of what a ref names, what it names first. Raises NotFound."""
    if is_foreign(ref):
        return copies.of(external_refs.resolve(db, ref, scope).hit, scope)
    row = row_of(db, ref, scope)
    return [row, *(one for one in copies.of(Hit.of(event_of(row)), scope) if one["seq"] != row["seq"])]


def _with_what_follows(db: Connection, named: Iterable[Row]) -> list[Row]:
    """The rows of events, then of all that goes when they are forgotten and is not gone yet."""
    rows = list(named)
    gone = {row["event_id"] for row in rows}
    for one in rows:
        rows_of = "select e.* from event e where e.forgotten = 0 and e.tenant = ? and "
        versions = db.execute(rows_of + "e.event_id = ?", (one["tenant"], one["supersedes"])).fetchall()
        derived = db.execute(
            rows_of + "e.event_id in (select event_id from derived where source = ?)", (one["tenant"], one["event_id"])
        ).fetchall()
        unsupported = [d for d in derived if gone.issuperset(_living(db, event_of(d).derived_from))]
        for found in (*versions, *unsupported):
            if found["event_id"] not in gone:
                gone.add(found["event_id"])
                rows.append(found)
    return rows


def _living(db: Connection, event_ids: Sequence[str]) -> list[str]:
    """Which of these events are kept."""
    wanted = json.dumps(event_ids)
    rows = db.execute(
        "select event_id from event where forgotten = 0 and event_id in (select value from json_each(?))", (wanted,)
    )
    return [row["event_id"] for row in rows]


def _bury(db: Connection, row: Any, by: str, now: datetime) -> Deletion:
    """Forgets one event here; ``by`` says in the audit what it was named by."""
    record = record_of(row)
    _, natural, words = keys_of(record.event)
    if row["superseded_by"] is None:
        count(db, record.event, -1)
    # A piece that was kept without what had been forgotten before has the key of the whole piece.
    keys = {key for key in (natural, row["natural"]) if key}
    put_up(db, record.event.event_id, words, sorted(keys), Hit.of(record.event))
    distil_queue.drop(db, record.event.event_id, row["seq"])
    db.execute("update event set text = '', speaker = null, stated = '[]', forgotten = 1 where seq = ?", (row["seq"],))
    outbox.withdraw(db, [row["seq"]])
    told = {backend: (row["seq"], ids) for backend, ids in outbox.to_forget(db, row["seq"]).items()}
    feedback.drop(db, record.event.scope.tenant, record.ref)
    audit.put(db, record.event.scope, record.ref, row["seq"], by, now)
    return Deletion(record, told)


def _bury_foreign(db: Connection, ref: str, backend: str, hit: Hit, by: str, now: datetime) -> Deletion:
    """Forgets an item that never came through here: an event that is born forgotten, with its deletion due.

    So it is retried, verified, kept out of answers and audited like any other.
    """
    scope = hit.scope
    taken = db.execute("select 1 from event where event_id = ?", (hit.event_id,)).fetchone()
    born = Event(hit.event_id if hit.event_id and not taken else str(uuid7()), "", now, scope, kind=hit.kind)
    seq = db.execute(
        f"insert into event({', '.join(EVENT_NAMES)}, natural, forgotten) "
        f"values({', '.join('?' * len(EVENT_NAMES))}, ?, 1)",
        (*event_row(born), json.dumps([BORN_FORGOTTEN, born.event_id])),
    ).lastrowid
    assert seq is not None  # noqa: S101 — an insert that did not raise has a row
    outbox.enter_to_forget(db, seq, backend, hit.native_id)
    put_up(db, born.event_id, words_key(hit.text, hit.speaker, scope), itself(backend, hit), hit)
    feedback.drop(db, scope.tenant, ref)
    audit.put(db, scope, ref, seq, by, now)
    told = Event(born.event_id, hit.text, now, scope, kind=hit.kind, speaker=hit.speaker, at=hit.at, place=hit.place)
    return Deletion(Record(ref, told), {backend: (seq, (hit.native_id,))})
