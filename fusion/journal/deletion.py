"""Deletion: empties a memory's text, stores its tombstones, and makes its deletion due in every backend that has it.

The owner's duplicates of it, the earlier versions that it superseded, and what was derived from it alone are deleted
with it, since they say the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fusion.contract import Event, Hit, Scope
from fusion.errors import NotFound
from fusion.journal import (
    audit,
    cards,
    distil_queue,
    external_refs,
    fact_rows,
    feedback,
    inclusions,
    item_rows,
    layers,
    outbox,
    prefix,
    proposals,
    state,
    statements,
    use,
)
from fusion.journal.external_refs import is_external
from fusion.journal.rows import (
    BORN_FORGOTTEN,
    Record,
    count,
    insert_event,
    keys_of,
    record_of,
    row_of,
    visible_to,
    words_key,
)
from fusion.journal.same_words import SameWords
from fusion.journal.tombstones import item_keys, keys_under, store_tombstones
from fusion.lib.ids import uuid7
from fusion.store.database import VALUES, Connection, Row, listed
from fusion.store.rows import event_of


@dataclass(frozen=True, slots=True)
class Deletion:
    """One forgotten event: ``record`` as it was, and by backend the delivery (seq, native ids) to undo."""

    record: Record
    due: Mapping[str, tuple[int, tuple[str, ...]]]


def forget_all(
    db: Connection, refs: Sequence[str], scope: Scope, by: str, now: datetime, *, alone: bool = False
) -> dict[str, Sequence[Deletion]]:
    """Forget what refs name, and what goes with it; by ref, the deletions. ``alone`` leaves other memories in the same
    words."""
    same_words = SameWords(db, alone=alone)
    return {ref: _forget(db, ref, scope, by, now, same_words) for ref in dict.fromkeys(refs)}


def events_to_delete(db: Connection, refs: Sequence[str], scope: Scope, *, alone: bool = False) -> list[Event]:
    """The journal's own events that `forget_all` would forget."""
    found: dict[str, Event] = {}
    same_words = SameWords(db, alone=alone)
    for ref in refs:
        with suppress(NotFound):
            found.update({row["event_id"]: event_of(row) for row in _rows_to_delete(db, ref, scope, same_words)})
    return list(found.values())


def duplicates_of(db: Connection, refs: Sequence[str], scope: Scope) -> list[tuple[str, Record]]:
    """Current memories in the words of what refs name and not named themselves: each once, with that ref."""
    rows = {}
    same_words = SameWords(db)
    for ref in refs:
        with suppress(NotFound):
            rows[ref] = _rows_in_same_words(db, ref, scope, same_words)
    listed = {same[0]["seq"] for ref, same in rows.items() if not is_external(ref)}
    found = []
    for ref, row in ((ref, row) for ref, same in rows.items() for row in same):
        if row["seq"] not in listed and row["superseded_by"] is None:
            listed.add(row["seq"])
            found.append((ref, record_of(row)))
    return found


def released_by(db: Connection, event_ids: Sequence[str], scope: Scope) -> dict[str, list[str]]:
    """By id, the refs of the memories merged into these that are answered again once all of these are forgotten."""
    terms, values = visible_to(scope)
    found: dict[str, list[str]] = {}
    for row in db.execute(
        # Apart, because SQLite would rather look through all memories of the tenant.
        f"with merged as materialized (select * from event where merged_into in {VALUES}) "
        f"select * from merged where event_id not in {VALUES} "
        f"and forgotten = 0 and superseded_by is null and {terms} order by seq",
        (*listed(event_ids), *listed(event_ids), *values),
    ):
        record = record_of(row)
        if record.state.ended_at is None and record.trust != "quarantined":
            found.setdefault(row["merged_into"], []).append(record.ref)
    return found


def _forget(
    db: Connection, ref: str, scope: Scope, by: str, now: datetime, same_words: SameWords
) -> Sequence[Deletion]:
    """Forget what one ref names, which comes first, and what goes with it; nothing where there is no such memory."""
    try:
        if proposals.parse_name(ref) is not None:
            return [Deletion(Record(ref, proposals.forget(db, ref, scope, by, now)), {})]
        rows = _rows_to_delete(db, ref, scope, same_words)
        for row in rows:
            same_words.drop(row["seq"])
        if not is_external(ref):
            return [forget_row(db, row, by, now) for row in rows]
        there = external_refs.resolve(db, ref, scope)
        external_refs.drop(db, scope.tenant, there.ref)
        use.drop(db, there.ref)
        inclusions.drop(db, there.ref)
        named = _forget_external(db, there.ref, there.backend, there.hit, by, now)
        return [named, *(forget_row(db, row, by, now) for row in rows)]
    except NotFound:
        return []


def _rows_to_delete(db: Connection, ref: str, scope: Scope, same_words: SameWords) -> list[Row]:
    """The event rows that go with what a ref names, its own first. Raises NotFound."""
    return with_dependents(db, _rows_in_same_words(db, ref, scope, same_words))


def _rows_in_same_words(db: Connection, ref: str, scope: Scope, same_words: SameWords) -> list[Row]:
    """The owner's event rows in the words of what a ref names, its own first. Raises NotFound."""
    if is_external(ref):
        return same_words.of(external_refs.resolve(db, ref, scope).hit, scope)
    row = row_of(db, ref, scope)
    return [row, *(one for one in same_words.of(Hit.of(event_of(row)), scope) if one["seq"] != row["seq"])]


def with_dependents(db: Connection, named: Iterable[Row]) -> list[Row]:
    """The event rows, then their earlier versions and what was derived from them alone."""
    rows = list(named)
    gone = {row["event_id"] for row in rows}
    for one in rows:
        kept = "e.forgotten = 0 and e.tenant = ?"
        version = f"select e.* from event e where e.event_id = ? and {kept}"
        versions = db.execute(version, (one["supersedes"], one["tenant"])).fetchall()
        # A join: with "event_id in (…)" SQLite looks through all memories of the tenant.
        derived = db.execute(
            f"select e.* from derived d join event e on e.event_id = d.event_id where d.source = ? and {kept}",
            (one["event_id"], one["tenant"]),
        ).fetchall()
        unsupported = [d for d in derived if gone.issuperset(_not_forgotten(db, event_of(d).derived_from))]
        for found in (*versions, *unsupported):
            if found["event_id"] not in gone:
                gone.add(found["event_id"])
                rows.append(found)
    return rows


def _not_forgotten(db: Connection, event_ids: Sequence[str]) -> list[str]:
    """Those of these events that are not forgotten."""
    wanted = json.dumps(event_ids)
    rows = db.execute(f"select event_id from event where forgotten = 0 and event_id in {VALUES}", (wanted,))
    return [row["event_id"] for row in rows]


def forget_row(db: Connection, row: Any, by: str, now: datetime, *, tombstones: bool = True) -> Deletion:
    """Forget one event in the journal; without ``tombstones`` the same words may be remembered again."""
    record = record_of(row)
    _, natural, words = keys_of(record.event)
    if row["superseded_by"] is None:
        count(db, record.event, -1)
    # A piece of a file that was stored without forgotten statements has the natural key of the whole piece.
    if tombstones:
        keys = {key for one in (natural, row["natural"]) if one for key in keys_under(one, words, row["file"])}
        store_tombstones(db, record.event.event_id, words, sorted(keys), Hit.of(record.event))
    distil_queue.drop(db, record.event.event_id, row["seq"])
    statements.drop(db, row["seq"])
    fact_rows.drop(db, row["seq"])
    item_rows.drop(db, row["seq"])
    prefix.drop(db, row["seq"], now)
    proposals.drop_with(db, record.event)
    cards.drop(db, record.event.event_id)
    layers.drop(db, record.event.event_id)
    state.release(db, [record.event.event_id], f"{record.ref} was forgotten", now)
    state.drop(db, record.event.event_id)
    use.drop(db, record.event.event_id)
    inclusions.drop(db, record.event.event_id)
    db.execute(
        "update event set text = '', speaker = null, stated = '[]', file = null, words_hash = 0, forgotten = 1 "
        "where seq = ?",
        (row["seq"],),
    )
    outbox.withdraw(db, [row["seq"]])
    due = {backend: (row["seq"], ids) for backend, ids in outbox.backends_to_forget(db, row["seq"]).items()}
    feedback.drop(db, record.event.scope.tenant, record.ref)
    audit.put(db, record.event.scope, record.ref, row["seq"], by, now)
    return Deletion(record, due)


def _forget_external(db: Connection, ref: str, backend: str, hit: Hit, by: str, now: datetime) -> Deletion:
    """Forget an external item: enter an event that is forgotten from the start, with its deletion due.

    So the deletion is retried, verified and audited like any other.
    """
    scope = hit.scope
    taken = db.execute("select 1 from event where event_id = ?", (hit.event_id,)).fetchone()
    born = Event(hit.event_id if hit.event_id and not taken else str(uuid7()), "", now, scope, kind=hit.kind)
    seq = insert_event(db, born, natural=json.dumps([BORN_FORGOTTEN, born.event_id]), forgotten=1)
    outbox.enter_to_forget(db, seq, backend, hit.native_id)
    store_tombstones(db, born.event_id, words_key(hit.text, hit.speaker, scope), item_keys(backend, hit), hit)
    feedback.drop(db, scope.tenant, ref)
    audit.put(db, scope, ref, seq, by, now)
    shown = Event(born.event_id, hit.text, now, scope, kind=hit.kind, speaker=hit.speaker, at=hit.at, place=hit.place)
    return Deletion(Record(ref, shown), {backend: (seq, (hit.native_id,))})
