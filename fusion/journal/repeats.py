"""The same words remembered twice on purpose: one memory that was said twice.

Equal are texts but for case and blanks, of one scope, speaker, kind and origin, with equal times and tags. Turns of a
conversation are events each, and what a file or a place names has a key of its own: neither is looked at here.
"""

from __future__ import annotations

from datetime import datetime

from fusion.contract import Event, Hit
from fusion.journal.duplicates import explicit
from fusion.store.rows import event_of, microseconds
from fusion.store.sqlite import Connection, Row

SCHEMA = "alter table event add column said integer not null default 1;"
LAST = "alter table event add column said_at integer;"
"""when it was remembered last, in microseconds; null if that was once. Of two memories that disagree it decides which
is newer: what was said, denied and said again holds."""


def find_repeat(db: Connection, event: Event) -> Row | None:
    """The row of the memory that an explicit wish to remember says again, if there is one."""
    if event.kind == "turn" or event.derived_from or event.supersedes is not None:
        return None
    for row in explicit(db, Hit.of(event)):
        if _same(event_of(row), event, row["stated"]):
            return row
    return None


def count_repeat(db: Connection, row: Row, at: datetime) -> int:
    """Counts that it was said once more, ``at`` this time; how often in all."""
    db.execute(
        "update event set said = said + 1, said_at = max(coalesce(said_at, 0), ?) where seq = ?",
        (microseconds(at), row["seq"]),
    )
    return int(row["said"]) + 1


def _same(there: Event, event: Event, stated: str) -> bool:
    """Whether two explicit memories of the same words are one."""
    if event.stated or stated != "[]":
        return False
    names = (
        "scope",
        "kind",
        "raw_kind",
        "speaker",
        "at",
        "place",
        "source",
        "trust",
        "origin",
        "valid_from",
        "valid_to",
    )
    return all(getattr(there, name) == getattr(event, name) for name in names) and not there.derived_from
