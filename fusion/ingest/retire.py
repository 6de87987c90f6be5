"""What a file does not have any more: its memories are retired, and come back by themselves with their text.

Unlike forgetting, retiring is nobody's wish: no tombstone stands in the way of the same text later, and the journal
keeps it as it keeps earlier versions. The backends delete it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fusion.contract import DIMENSIONS, Scope
from fusion.ingest.rows import RETIRED, count
from fusion.lib.sqlite import Connection, event_of, storable

SCHEMA = """
create index event_source on event(tenant, source, seq) where source is not null;
"""

MAX_KEPT = 5000
"""revisions of one file, and files, in one request"""

_CURRENT = "place_unit = 'line' and forgotten = 0 and superseded_by is null"


@dataclass(frozen=True, slots=True)
class Whole:
    """A file as it was read from its beginning to its end: the revisions of its pieces, and no other, are current.

    ``part`` narrows that to revisions that begin with it, for a file of more pieces than one request takes.
    """

    source: str
    keep: tuple[str, ...] = ()
    part: str = ""


@dataclass(frozen=True, slots=True)
class SourceCount:
    """One source that memories came from, and how many of them are current."""

    source: str
    memories: int


def gone(db: Connection, scope: Scope, file: Whole) -> list[Any]:
    """The rows of current pieces that a file does not have any more.

    Of exactly this owner: what another user took in from the same file is theirs.
    """
    same = " and ".join(f"{dimension} is ?" for dimension in DIMENSIONS)
    return db.execute(
        f"select * from event where tenant = ? and source = ? and {_CURRENT} and {same} "
        "and substr(revision, 1, ?) = ? and revision not in (select value from json_each(?))",
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
    """These are not current any more, and every backend is to delete them."""
    for row in rows:
        count(db, event_of(row), -1)
        db.execute("update event set superseded_by = ? where seq = ?", (RETIRED, row["seq"]))
        db.execute(
            "update delivery set state = 'forget', attempts = 0, next_at = 0 where seq = ? and state <> 'declined'",
            (row["seq"],),
        )


def revive(db: Connection, row: Any, stores: Sequence[str]) -> None:
    """What was retired is in its file again: it is current, and every backend is to be told."""
    db.execute("update event set superseded_by = null where seq = ?", (row["seq"],))
    db.executemany(
        "insert into delivery(seq, backend) values(?, ?) on conflict(backend, seq) do update "
        "set state = 'pending', native_ids = '[]', attempts = 0, next_at = 0, reason = null where state <> 'declined'",
        [(row["seq"], name) for name in stores],
    )
    count(db, event_of(row), +1)


def sources(db: Connection, scope: Scope, prefix: str, after: str, limit: int) -> list[SourceCount]:
    """The sources of a scope's own memories that begin with ``prefix``, by name, from the one after ``after``."""
    same = " and ".join(f"{dimension} = ?" for dimension in scope.named())
    rows = db.execute(
        "select source, count(*) as n from event where tenant = ? and source > ? and source >= ? "
        "and substr(source, 1, ?) = ? and forgotten = 0 and superseded_by is null "
        f"{'and ' + same if same else ''} group by source order by source limit ?",
        (
            scope.tenant,
            *map(storable, (after, prefix)),
            len(prefix),
            *map(storable, (prefix, *scope.named().values())),
            limit,
        ),
    )
    return [SourceCount(row["source"], row["n"]) for row in rows]
