"""Tombstones: what was forgotten is gone from its row, and what must not come back is known by hashes alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusion.contract import Place
from fusion.ingest.rows import Record, count, keys_of, record_of
from fusion.lib.sqlite import Connection, event_of
from fusion.lib.words import content_hash, normalise

LINE_WORDS = 3
"""a line of a forgotten part of a file is known again from this many: shorter ones are headings and rules"""


@dataclass(frozen=True, slots=True)
class Burial:
    """One event that was forgotten: ``record`` as it was, and by backend the delivery (seq, native ids) to undo."""

    record: Record
    due: Mapping[str, tuple[int, tuple[str, ...]]]


def with_what_follows(db: Connection, row: Any) -> list[Any]:
    """The row of an event, then of all that goes when it is forgotten and is not gone yet."""
    rows, gone = [row], {row["event_id"]}
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


def bury(db: Connection, row: Any) -> Burial:
    record = record_of(row)
    _, natural, words = keys_of(record.event)
    for key in (natural, words):
        if key is not None:
            db.execute("insert or replace into tombstone values(?, ?)", (key, record.event.event_id))
    if row["superseded_by"] is None:
        count(db, record.event, -1)
    event = record.event
    if event.place is not None:
        lines = file_lines(event.text, event.place)
        db.executemany(
            "insert or ignore into hidden values(?, ?, ?)",
            [(event.scope.tenant, event.place.document, line) for line in lines],
        )
    db.execute("update event set text = '', speaker = null, forgotten = 1 where seq = ?", (row["seq"],))
    db.execute(
        "update delivery set state = 'forget', attempts = 0, next_at = 0 where seq = ? and state <> 'declined'",
        (row["seq"],),
    )
    due = db.execute("select backend, native_ids from delivery where seq = ? and state = 'forget'", (row["seq"],))
    return Burial(record, {r["backend"]: (row["seq"], tuple(json.loads(r["native_ids"]))) for r in due})


def file_lines(text: str, place: Place) -> set[str]:
    """Hashes of the lines of a piece of a file that are long enough to be told apart; none for a turn."""
    if place.unit != "line":
        return set()
    lines = (normalise(line).split() for line in text.splitlines())
    return {content_hash(" ".join(words)) for words in lines if len(words) >= LINE_WORDS}
