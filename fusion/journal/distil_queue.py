"""The distillation queue: the turns that the language model still has to read, and its extractions.

A turn is queued when it is stored, and removed when it was distilled, was too short, or was forgotten; one that was
given up stays with its reason. The extraction of a distilled memory is stored, since a model does not answer the same
twice. Every other extraction is a pure function of its event and is not stored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson
from pydantic import TypeAdapter

from fusion.contract import Event, Extraction
from fusion.store.database import VALUES, Connection, replacing
from fusion.store.rows import event_of, microseconds, storable, time_of

SCHEMA = """
create table lesson(
    seq integer primary key references event(seq), attempts integer not null default 0,
    next_at integer not null default 0, given_up text
);
create index lesson_open on lesson(seq) where given_up is null;
create table learnt(event_id text primary key, extraction text not null) without rowid;
"""

_EXTRACTION: TypeAdapter[Extraction] = TypeAdapter(Extraction)
_THESE = f"seq in {VALUES}"


@dataclass(frozen=True, slots=True)
class DistilJob:
    """A queued turn, with its number of invalid answers; not due before ``next_at``."""

    seq: int
    event: Event
    attempts: int
    next_at: datetime


_SAVE = replacing("learnt", "event_id", "extraction")


def add(db: Connection, seq: int) -> None:
    """Queue a turn."""
    db.execute("insert into lesson(seq) values(?) on conflict do nothing", (seq,))


def requeue(db: Connection, event_ids: Sequence[str]) -> None:
    """Queue those of these events that are current turns: what was distilled from them was retired."""
    db.execute(
        "insert into lesson(seq) select seq from event where kind = 'turn' and trust <> 'quarantined' "
        f"and forgotten = 0 and superseded_by is null and event_id in {VALUES} on conflict do nothing",
        (json.dumps(list(event_ids)),),
    )


def remove(db: Connection, seq: int) -> None:
    """Remove a turn, also one that was given up."""
    db.execute("delete from lesson where seq = ?", (seq,))


def take(db: Connection, seqs: Sequence[int]) -> set[int]:
    """Remove turns that are not given up; returns those that were queued."""
    rows = db.execute(
        f"delete from lesson where given_up is null and {_THESE} returning seq", (json.dumps(list(seqs)),)
    ).fetchall()
    return {row["seq"] for row in rows}


def oldest(db: Connection, limit: int) -> list[DistilJob]:
    """The turns that were queued first and are not given up."""
    rows = db.execute(
        "select e.*, l.attempts, l.next_at from lesson l join event e using(seq) "
        "where l.given_up is null order by l.seq limit ?",
        (limit,),
    )
    return [DistilJob(r["seq"], event_of(r), r["attempts"], time_of(r["next_at"])) for r in rows]


def postpone(db: Connection, seqs: Sequence[int], next_at: datetime) -> None:
    """Count an invalid answer about turns; the next try is not before ``next_at``."""
    db.execute(
        f"update lesson set attempts = attempts + 1, next_at = ? where {_THESE}",
        (microseconds(next_at), json.dumps(list(seqs))),
    )


def give_up(db: Connection, seqs: Sequence[int], reason: str) -> None:
    """Mark turns as given up."""
    db.execute(f"update lesson set given_up = ? where {_THESE}", (storable(reason), json.dumps(list(seqs))))


def save_extraction(db: Connection, event_id: str, extraction: Extraction) -> None:
    """Store the extraction of a distilled memory."""
    written = storable(orjson.dumps(extraction).decode())
    db.execute(_SAVE, (event_id, written))


def parse_extraction(written: str) -> Extraction:
    """An extraction as `save_extraction` stores it. Raises pydantic's ValidationError."""
    return _EXTRACTION.validate_json(written)


def extractions(db: Connection, event_ids: Sequence[str]) -> dict[str, Extraction]:
    """By event id, the stored extractions of these events."""
    rows = db.execute(
        f"select event_id, extraction from learnt where event_id in {VALUES}",
        (json.dumps(list(event_ids)),),
    )
    return {row["event_id"]: parse_extraction(row["extraction"]) for row in rows}


def drop(db: Connection, event_id: str, seq: int) -> None:
    """Remove an event from the queue, and its extraction."""
    db.execute("delete from learnt where event_id = ?", (event_id,))
    remove(db, seq)
