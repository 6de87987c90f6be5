"""The audit: what was forgotten, when, named by which criteria, and what became of it where. Never what it said.

Append-only: the database itself refuses to change an entry or to take one away.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from fusion.contract import Scope
from fusion.store.rows import microseconds, time_of
from fusion.store.sqlite import Connection

SCHEMA = """
create table audit(
    id integer primary key autoincrement, at integer not null, tenant text not null, user_id text,
    ref text not null, seq integer not null, by text not null
);
create index audit_owner on audit(tenant, user_id, id);
create trigger audit_is_not_changed before update on audit begin select raise(abort, 'the audit is append-only'); end;
create trigger audit_is_not_cut before delete on audit begin select raise(abort, 'the audit is append-only'); end;
"""


@dataclass(frozen=True, slots=True)
class Audited:
    """One forgetting as the audit has it. ``by`` names the criteria, never their values; ``backends`` is of now."""

    ref: str
    at: datetime
    by: str
    backends: Mapping[str, str]


def put(db: Connection, scope: Scope, ref: str, seq: int, by: str, now: datetime) -> None:
    """Enters one forgetting."""
    db.execute(
        "insert into audit(at, tenant, user_id, ref, seq, by) values(?, ?, ?, ?, ?, ?)",
        (microseconds(now), scope.tenant, scope.user_id, ref, seq, by),
    )


def page(db: Connection, scope: Scope, limit: int, before: int | None = None) -> list[tuple[int, Audited]]:
    """What was forgotten of a scope's user, or of the whole tenant, newest first; with each entry's number."""
    mine = "" if scope.user_id is None else "and user_id = ?"
    values = [scope.tenant, *([] if scope.user_id is None else [scope.user_id])]
    rows = db.execute(
        f"select * from audit where tenant = ? {mine} and id < ? order by id desc limit ?",
        (*values, before if before is not None else 1 << 62, limit),
    ).fetchall()
    states = db.execute(
        "select seq, backend, state from delivery where seq in (select value from json_each(?)) "
        "and state <> 'declined' order by backend",
        (json.dumps([row["seq"] for row in rows]),),
    ).fetchall()
    told: dict[int, dict[str, str]] = {}
    for seq, backend, state in states:
        told.setdefault(seq, {})[backend] = "pending" if state == "forget" else state
    return [(row["id"], Audited(row["ref"], time_of(row["at"]), row["by"], told.get(row["seq"], {}))) for row in rows]
