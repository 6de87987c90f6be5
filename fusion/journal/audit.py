"""The audit log of deletions: ref, time, criteria and outcome by backend, never a text.

It is append-only: triggers of the database refuse to change or delete an entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from fusion.contract import Scope
from fusion.journal import outbox
from fusion.store.database import Connection
from fusion.store.rows import microseconds, storable, time_of

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
    """One audited deletion. ``by`` names its criteria, never their values; ``backends`` has the current outcomes."""

    ref: str
    at: datetime
    by: str
    backends: Mapping[str, str]


def put(db: Connection, scope: Scope, ref: str, seq: int, by: str, now: datetime) -> None:
    """Add one deletion."""
    db.execute(
        "insert into audit(at, tenant, user_id, ref, seq, by) values(?, ?, ?, ?, ?, ?)",
        (microseconds(now), scope.tenant, scope.user_id, ref, seq, by),
    )


def of(db: Connection, scope: Scope, ref: str) -> Audited | None:
    """The latest deletion of a scope's memory that had this ref; None if there was none."""
    of_user = "" if scope.user_id is None else "and coalesce(user_id, '') = ?"
    values = [scope.tenant, storable(ref), *([] if scope.user_id is None else [storable(scope.user_id)])]
    row = db.execute(
        f"select * from audit where tenant = ? and ref = ? {of_user} order by id desc limit 1", values
    ).fetchone()
    if row is None:
        return None
    return Audited(row["ref"], time_of(row["at"]), row["by"], outbox.outcomes(db, [row["seq"]]).get(row["seq"], {}))


def page(db: Connection, scope: Scope, limit: int, before: int | None = None) -> list[tuple[int, Audited]]:
    """What was forgotten of a scope's user, or of the whole tenant, newest first, each with its entry's number."""
    of_user = "" if scope.user_id is None else "and coalesce(user_id, '') = ?"
    values = [scope.tenant, *([] if scope.user_id is None else [scope.user_id])]
    rows = db.execute(
        f"select * from audit where tenant = ? {of_user} and id < ? order by id desc limit ?",
        (*values, before if before is not None else 1 << 62, limit),
    ).fetchall()
    outcomes = outbox.outcomes(db, [row["seq"] for row in rows])
    return [
        (row["id"], Audited(row["ref"], time_of(row["at"]), row["by"], outcomes.get(row["seq"], {}))) for row in rows
    ]
