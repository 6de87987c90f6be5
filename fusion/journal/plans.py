"""The memories that announce something: plans, and what has a due time."""

from __future__ import annotations

from datetime import datetime

from fusion.contract import Scope
from fusion.journal.lifecycle import CURRENT
from fusion.journal.rows import Record, record_of, visible_to
from fusion.store.sqlite import Connection

_DUE = """case when state like '%"due":%' then json_extract(state, '$.due.utc') end"""


def plans(db: Connection, scope: Scope, limit: int, *, by: datetime | None) -> list[Record]:
    """A scope's current plans by due time, those without one last; with ``by`` only those due by then.

    Ended, merged and quarantined memories are left out.
    """
    terms, values = visible_to(scope)
    rows = db.execute(
        f"select *, {_DUE} as due_at from event where {CURRENT} and {terms} and merged_into is null "
        "and (kind = 'plan' or due_at is not null) and coalesce(json_extract(state, '$.ended_at'), '') = '' "
        "and coalesce(json_extract(state, '$.trust'), trust) <> 'quarantined' "
        "and (? is null or due_at <= ?) order by due_at is null, due_at, seq limit ?",
        (*values, _written(by), _written(by), limit),
    )
    return [record_of(row) for row in rows]


def _written(at: datetime | None) -> str | None:
    """A time as the states write it."""
    return None if at is None else at.strftime("%Y-%m-%dT%H:%M:%SZ")
