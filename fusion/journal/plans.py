"""The memories that announce something: plans, and what has a due time."""

from __future__ import annotations

from datetime import datetime

from fusion.contract import Scope
from fusion.journal.lifecycle import CURRENT
from fusion.journal.rows import Record, record_of, visible_to
from fusion.store.database import Connection

_DUE = """(case when state like '%"due":%' then json_extract(state, '$.due.utc') end)"""


def plans(db: Connection, scope: Scope, limit: int, *, by: datetime | None) -> list[Record]:
    """A scope's current plans by due time, those without one last; with ``by`` only those due by then.

    Ended, merged and quarantined memories are left out.
    """
    terms, values = visible_to(scope)
    if by is not None:
        terms += f" and {_DUE} <= ?"
        values.append(by.strftime("%Y-%m-%dT%H:%M:%SZ"))  # as the states write it
    rows = db.execute(
        f"select * from event where {CURRENT} and {terms} and merged_into is null "
        f"and (kind = 'plan' or {_DUE} is not null) and coalesce(json_extract(state, '$.ended_at'), '') = '' "
        "and coalesce(json_extract(state, '$.trust'), trust) <> 'quarantined' "
        f"order by {_DUE} is null, {_DUE}, seq limit ?",
        (*values, limit),
    )
    return [record_of(row) for row in rows]
