"""Retiring: memories that are no longer in their file, or were distilled from a turn that was edited.

Unlike forgetting, it leaves no tombstone: when the same text is in the file again, its memory is current again. The
journal keeps a retired memory like an earlier version; the backends delete it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fusion.contract import DIMENSIONS, Event, Scope
from fusion.journal import outbox, state
from fusion.journal.rows import RETIRED, count
from fusion.store.database import VALUES, Connection
from fusion.store.rows import event_of, scope_terms, storable

SCHEMA = """
create index event_source on event(tenant, source, seq) where source is not null;
"""

MAX_KEPT = 5000
"""maximum revisions of one file, and files, in one request"""

CURRENT = "forgotten = 0 and superseded_by is null"


@dataclass(frozen=True, slots=True)
class CompleteFile:
    """A file that was read completely: of its pieces exactly the revisions ``keep`` are current.

    ``part`` restricts that to revisions with this prefix, for a file with more pieces than one request takes.
    """

    source: str
    keep: tuple[str, ...] = ()
    part: str = ""


@dataclass(frozen=True, slots=True)
class SourceCount:
    """A source, and how many of its memories are current."""

    source: str
    memories: int


def missing_from(db: Connection, scope: Scope, files: Sequence[CompleteFile]) -> list[Any]:
    """The rows of current pieces that are no longer in their files, of exactly this owner."""
    return [row for file in files for row in _missing_from(db, scope, file)]


def _missing_from(db: Connection, scope: Scope, file: CompleteFile) -> list[Any]:
    same = " and ".join(f"{dimension} is ?" for dimension in DIMENSIONS)
    # Without the hint SQLite takes an index of the user and reads all memories of that user for each file.
    return db.execute(
        "select * from event indexed by event_source "
        f"where tenant = ? and source = ? and place_unit = 'line' and {CURRENT} and {same} "
        f"and substr(revision, 1, ?) = ? and revision not in {VALUES}",
        (
            scope.tenant,
            storable(file.source),
            *(None if (v := getattr(scope, dimension)) is None else storable(v) for dimension in DIMENSIONS),
            len(file.part),
            storable(file.part),
            json.dumps([storable(revision) for revision in file.keep]),
        ),
    ).fetchall()


def retire(db: Connection, rows: Sequence[Any]) -> None:
    """Mark events as not current, and make their deletion due in every backend."""
    for row in rows:
        count(db, event_of(row), -1)
        db.execute("update event set superseded_by = ? where seq = ?", (RETIRED, row["seq"]))
    outbox.withdraw(db, [row["seq"] for row in rows])
    gone = [row["event_id"] for row in rows]
    state.release(db, gone, "the memory that it depended on is no longer in its source", datetime.now(UTC))


def made_of(db: Connection, event_id: str) -> list[Any]:
    """The rows of current memories that were derived from an event, directly or not, alone or with others."""
    sources, rows = [event_id], dict[str, Any]()
    for source in sources:
        for row in _made_of(db, [source]):
            if row["event_id"] not in rows:
                rows[row["event_id"]] = row
                sources.append(row["event_id"])
    return list(rows.values())


def replaced(db: Connection, seqs: Collection[int], events: Sequence[Event]) -> list[Any]:
    """The rows of earlier memories that ``events`` replace: derived from these turns alone, with one in common.

    What somebody approved as a proposal stays.
    """
    turns = db.execute(f"select event_id from event where seq in {VALUES}", (json.dumps(list(seqs)),))
    again, kept = {row["event_id"] for row in turns}, {event.event_id for event in events}
    earlier = _made_of(db, [source for event in events for source in event.derived_from])
    kept |= {row["event_id"] for row in db.execute("select event_id from proposal where event_id is not null")}
    return [row for row in earlier if row["event_id"] not in kept and again.issuperset(event_of(row).derived_from)]


def _made_of(db: Connection, sources: Sequence[str]) -> list[Any]:
    return db.execute(
        f"select * from event where event_id in (select event_id from derived where source in {VALUES}) and {CURRENT} "
        "order by seq",
        (json.dumps(sources),),
    ).fetchall()


def revive(db: Connection, row: Any, stores: Sequence[str]) -> None:
    """Make a retired event current again, and its delivery due in every backend."""
    db.execute("update event set superseded_by = null where seq = ?", (row["seq"],))
    outbox.enter_again(db, row["seq"], stores)
    count(db, event_of(row), +1)


def sources(db: Connection, scope: Scope, prefix: str, after: str, limit: int) -> list[SourceCount]:
    """The sources of a scope's memories that begin with ``prefix``, sorted, from the one after ``after``."""
    terms, values = scope_terms(scope)
    # The upper bound ends the scan of the index; U+10FFFF is not a character.
    rows = db.execute(
        f"select source, count(*) as n from event where {' and '.join(terms)} and source > ? and source >= ? "
        "and source < ? and substr(source, 1, ?) = ? and forgotten = 0 and superseded_by is null "
        "group by source order by source limit ?",
        (
            *values,
            *map(storable, (after, prefix, f"{prefix}\U0010ffff")),
            len(prefix),
            storable(prefix),
            limit,
        ),
    )
    return [SourceCount(row["source"], row["n"]) for row in rows]
