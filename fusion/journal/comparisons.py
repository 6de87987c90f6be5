"""The comparisons of two arms over many questions that were made of a tenant's memories: figures, and never a text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fusion.store.database import Connection
from fusion.store.rows import microseconds, storable, time_of

SCHEMA = """
create table comparison(
    id integer primary key autoincrement, at integer not null, tenant text not null, who text not null,
    body text not null
);
create index comparison_tenant on comparison(tenant, id);
"""
KEPT = 200
"""of a tenant; the oldest are deleted"""


@dataclass(frozen=True, slots=True)
class StoredComparison:
    """One comparison, when it ended, and who stored it. ``body`` has its arms and figures, as `wire.Comparison`."""

    id: int
    at: datetime
    who: str
    body: Mapping[str, Any]


def add(db: Connection, tenant: str, body: Mapping[str, Any], who: str, now: datetime) -> StoredComparison:
    """Store a comparison."""
    added = db.execute(
        "insert into comparison(at, tenant, who, body) values(?, ?, ?, ?) returning *",
        (microseconds(now), tenant, storable(who), json.dumps(body)),
    ).fetchone()
    db.execute(
        "delete from comparison where tenant = ? and id <= "
        "(select id from comparison where tenant = ? order by id desc limit 1 offset ?)",
        (tenant, tenant, KEPT),
    )
    return _stored(added)


def page(db: Connection, tenant: str, limit: int, before: int | None) -> list[StoredComparison]:
    """Up to ``limit`` comparisons of a tenant, the newest first."""
    rows = db.execute(
        "select * from comparison where tenant = ? and id < ? order by id desc limit ?",
        (tenant, before if before is not None else 1 << 62, limit),
    )
    return [_stored(row) for row in rows]


def _stored(row: Mapping[str, Any]) -> StoredComparison:
    return StoredComparison(row["id"], time_of(row["at"]), row["who"], json.loads(row["body"]))
