"""Ingest runs: each memory that a run added has the run's id, so that the run can be undone.

Memories that were known before the run, or that replaced one of its memories since, do not have the id. An undo leaves
no tombstones, so the same files can be ingested again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fusion.contract import Scope
from fusion.journal import (
    audit,
    cards,
    distil_queue,
    fact_rows,
    feedback,
    inclusions,
    item_rows,
    layers,
    outbox,
    prefix,
    proposals,
    retire,
    state,
    statements,
    use,
)
from fusion.journal.rows import RETIRED, Record, count, record_of, visible_to
from fusion.lib.ids import short_ref
from fusion.store.database import Connection, Row
from fusion.store.rows import event_of, storable, time_of

SCHEMA = """
alter table event add column batch text;
create index event_batch on event(batch, seq) where batch is not null;
"""

_THERE = f"forgotten = 0 and (superseded_by is null or superseded_by is '{RETIRED}')"
"""the condition on an event that an undo takes back: not an earlier version of a newer memory"""


@dataclass(frozen=True, slots=True)
class Batch:
    """One run: when it began, how many of its memories are left, and their first and last source by name."""

    id: str
    at: datetime
    memories: int
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class Undone:
    """Memories that an undo took back; ``left`` is how many of the run remain, ``restored`` what is current again."""

    records: tuple[Record, ...]
    left: int
    restored: tuple[str, ...] = ()


def enter(db: Connection, batch: str, event_ids: Sequence[str]) -> None:
    """Record that a run added these events."""
    db.executemany("update event set batch = ? where event_id = ?", [(storable(batch), one) for one in event_ids])


def batches(db: Connection, scope: Scope, limit: int) -> list[Batch]:
    """The runs of which a scope has memories, latest first."""
    terms, values = visible_to(scope)
    rows = db.execute(
        f"select batch, min(recorded_at) as at, count(*) as n, min(source) as first, max(source) as last from event "
        f"where batch is not null and {terms} and {_THERE} group by batch order by max(seq) desc limit ?",
        (*values, limit),
    )
    return [Batch(r["batch"], time_of(r["at"]), r["n"], r["first"] or "", r["last"] or "") for r in rows]


def of_batch(db: Connection, scope: Scope, batch: str, limit: int) -> tuple[list[Record], int]:
    """The first memories of a run that an undo would take back, and how many there are."""
    rows, total = _rows(db, scope, batch, limit)
    return [record_of(row) for row in rows], total


def undo(db: Connection, scope: Scope, batch: str, limit: int, now: datetime) -> Undone:
    """Take back up to ``limit`` memories of a run: empty their texts and make their deletion due in every backend.

    Deliveries that have not begun are dropped.
    """
    rows, total = _rows(db, scope, batch, limit)
    records, restored = [], []
    for row in rows:
        record = record_of(row)
        records.append(record)
        made = [one for one in retire.made_of(db, record.event.event_id) if one["batch"] != row["batch"]]
        retire.retire(db, made)  # memories that a model distilled from it, alone or with others
        if row["superseded_by"] is None and record.event.supersedes is not None:
            restored += _restore(db, record.event.supersedes, record.event.event_id)
        take_back(db, row, record, now, by="undo", why=f"the ingest of {record.ref} was undone")
    outbox.withdraw(db, [row["seq"] for row in rows], drop_unsent=True)
    return Undone(tuple(records), total - len(records), tuple(restored))


def _rows(db: Connection, scope: Scope, batch: str, limit: int) -> tuple[list[Row], int]:
    terms, values = visible_to(scope)
    which = f"from event where batch = ? and {terms} and {_THERE}"
    wanted: list[Any] = [storable(batch), *values]
    (total,) = db.execute(f"select count(*) {which}", wanted).fetchone()
    return db.execute(f"select * {which} order by seq limit ?", [*wanted, limit]).fetchall(), total


def take_back(db: Connection, row: Row, record: Record, now: datetime, *, by: str, why: str) -> None:
    """Empty one event without a tombstone; ``by`` and ``why`` are for the audit and the log of states."""
    event = record.event
    if row["superseded_by"] is None:
        count(db, event, -1)
    distil_queue.drop(db, event.event_id, row["seq"])
    statements.drop(db, row["seq"])
    fact_rows.drop(db, row["seq"])
    item_rows.drop(db, row["seq"])
    prefix.drop(db, row["seq"], now)
    proposals.drop_with(db, event)
    cards.drop(db, event.event_id)
    layers.drop(db, event.event_id)
    state.release(db, [event.event_id], why, now)
    state.drop(db, event.event_id)
    use.drop(db, event.event_id)
    inclusions.drop(db, event.event_id)
    db.execute(
        "update event set text = '', speaker = null, stated = '[]', file = null, words_hash = 0, forgotten = 1, "
        "natural = null, batch = null where seq = ?",
        (row["seq"],),
    )
    feedback.drop(db, event.scope.tenant, record.ref)
    audit.put(db, event.scope, record.ref, row["seq"], by, now)


def _restore(db: Connection, event_id: str, by: str) -> list[str]:
    """Make the event current again that the run superseded; its ref."""
    old = db.execute(
        "select * from event where event_id = ? and superseded_by = ? and forgotten = 0", (event_id, by)
    ).fetchone()
    if old is None:
        return []
    db.execute("update event set superseded_by = null where seq = ?", (old["seq"],))
    count(db, event_of(old), +1)
    return [short_ref(old["seq"])]
