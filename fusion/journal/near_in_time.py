"""The memories around one in time: by when they happened if that is known of it, else by when they were recorded."""

from __future__ import annotations

from fusion.contract import Scope
from fusion.journal.rows import Record, record_of, visible_to
from fusion.lib.ids import parse_short_ref
from fusion.store.database import Connection
from fusion.store.rows import microseconds


def near_in_time(db: Connection, record: Record, scope: Scope, before: int, after: int) -> list[Record]:
    """At most ``before`` current memories of a scope before one and ``after`` after it, in the order of time.

    The memory itself is not among them. Its state, which may hide a memory, is left to the caller.
    """
    terms, values = visible_to(scope)
    terms += " and forgotten = 0 and superseded_by is null and trust <> 'quarantined'"
    seq = parse_short_ref(record.ref)
    if record.event.at is None:
        place, here = "seq", [seq]
    else:
        place, here = "at, seq", [microseconds(record.event.at.utc), seq]
        terms += " and at is not null"

    def side(sign: str, order: str, limit: int) -> list[Record]:
        marks = ", ".join("?" * len(here))
        ordered = ", ".join(f"{column} {order}" for column in place.split(", "))
        rows = db.execute(
            f"select * from event where {terms} and ({place}) {sign} ({marks}) order by {ordered} limit ?",
            (*values, *here, limit),
        )
        return [record_of(row) for row in rows]

    return [*reversed(side("<", "desc", before)), *side(">", "asc", after)]
