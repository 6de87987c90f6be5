"""Repeats: an explicit memory in the words of an earlier one is counted there instead of stored again.

Texts are compared without case and whitespace; scope, speaker, kind, origin, times and tags must be equal. Turns and
derived memories are never repeats, and what a file or a place names has a natural key instead.
"""

from __future__ import annotations

from datetime import datetime

from fusion.contract import Event, Hit
from fusion.journal.duplicates import explicit
from fusion.store.rows import event_of, microseconds
from fusion.store.sqlite import Connection, Row

SCHEMA = "alter table event add column said integer not null default 1;"
LAST = "alter table event add column said_at integer;"
"""when it was last repeated, in microseconds; null without a repeat. Of two memories that contradict each other the one
that was stated last counts as newer."""


def find_repeat(db: Connection, event: Event) -> Row | None:
    """The row of the current memory that an explicit memory repeats, or None."""
    if event.kind == "turn" or event.derived_from or event.supersedes is not None:
        return None
    for row in explicit(db, Hit.of(event)):
        if _same(event_of(row), event, row["stated"]):
            return row
    return None


def count_repeat(db: Connection, row: Row, at: datetime) -> int:
    """Count a repeat ``at`` this time; returns how often the memory was stated in all."""
    db.execute(
        "update event set said = said + 1, said_at = max(coalesce(said_at, 0), ?) where seq = ?",
        (microseconds(at), row["seq"]),
    )
    return int(row["said"]) + 1


def _same(there: Event, event: Event, stated: str) -> bool:
    """Whether two explicit memories of the same words agree in all other fields."""
    if event.stated or stated != "[]":
        return False
    names = "scope kind raw_kind speaker at place source trust origin valid_from valid_to".split()
    return all(getattr(there, name) == getattr(event, name) for name in names) and not there.derived_from
