"""Which memories need a person: open conflicts, quarantined memories, and untrusted ones that are used much."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from fusion.contract import Scope
from fusion.journal.rows import Record, record_of, visible_to
from fusion.journal.state import A_PERSON_DECIDED
from fusion.store.database import Connection

MUCH_USED = 3
"""blocks in which an untrusted memory was before it needs a person"""
_READ = 10
"""rows that are read for each item that is returned, since the state of a row is known only when it is read"""
_CURRENT = "e.forgotten = 0 and e.superseded_by is null and e.merged_into is null"
_NOT_BY_HAND = (
    "not exists (select 1 from state_change c join decision d on d.id = c.decision where c.item = e.event_id "
    f"and {A_PERSON_DECIDED} and d.undone_by is null and json_extract(c.after, '$.trust') = 'quarantined')"
)
"""the condition on a memory that no person quarantined"""


@dataclass(frozen=True, slots=True)
class Conflict:
    """An open conflict: its group, and the memories that contradict each other, the newest first."""

    group: str
    sides: tuple[Record, ...]


def open_conflicts(db: Connection, scope: Scope, limit: int) -> list[Conflict]:
    """The open conflicts of a scope that have two or more current sides, the newest first."""
    terms, values = visible_to(scope)
    rows = db.execute(
        f"select e.* from event e where {terms} and {_CURRENT} and e.conflict_group is not null "
        "order by e.seq desc limit ?",
        (*values, limit * _READ),
    )
    groups: defaultdict[tuple[str | None, str], list[Record]] = defaultdict(list)
    for row in rows:
        record = record_of(row)
        if record.state.conflict_status == "active" and record.state.ended_at is None:
            groups[row["user_id"], row["conflict_group"]].append(record)
    found = [Conflict(group, tuple(sides)) for (_, group), sides in groups.items() if len(sides) > 1]
    return found[:limit]


def quarantined(db: Connection, scope: Scope, limit: int) -> list[Record]:
    """The quarantined memories of a scope that no person quarantined, the newest first."""
    terms, values = visible_to(scope)
    rows = db.execute(
        f"select e.* from event e where {terms} and {_CURRENT} and (e.trust = 'quarantined' or "
        f"e.state like '%quarantined%') and {_NOT_BY_HAND} order by e.seq desc limit ?",
        (*values, limit * _READ),
    )
    found = [record for row in rows if (record := record_of(row)).trust == "quarantined" and not record.state.ended_at]
    return found[:limit]


def untrusted_but_used(db: Connection, scope: Scope, limit: int) -> list[tuple[Record, int]]:
    """The untrusted memories of a scope that were in many blocks, with that number, the most used first."""
    terms, values = visible_to(scope)
    rows = db.execute(
        f"select e.*, u.included from event e join use u on u.item = e.event_id where {terms} and {_CURRENT} "
        "and u.included >= ? and (e.trust = 'untrusted' or e.state like '%untrusted%') "
        "order by u.included desc, e.seq limit ?",
        (*values, MUCH_USED, limit * _READ),
    )
    found = [
        (record, int(row["included"]))
        for row in rows
        if (record := record_of(row)).trust == "untrusted" and record.state.ended_at is None
    ]
    return found[:limit]


def sides_of(db: Connection, scope: Scope, group: str) -> Sequence[Record]:
    """The open sides of a conflict in a scope."""
    return next((one.sides for one in open_conflicts(db, scope, 1000) if one.group == group), ())
