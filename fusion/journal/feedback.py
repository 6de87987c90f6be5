"""Feedback: votes on the memories of an answer, each stored with the memory's signals at that time.

A receipt is deleted after some days, so a vote copies from it the signals that a learner needs, and no text. Labels are
in the journal so that a memory and its labels are deleted in one transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fusion.calibration import scored_as
from fusion.contract import Scope
from fusion.errors import BadInput
from fusion.store.database import Connection, Row
from fusion.store.rows import microseconds, time_of

SCHEMA = """
create table label(
    id integer primary key autoincrement, tenant text not null, receipt_id text not null, ref text not null,
    useful integer not null, at integer not null, scope text not null, body text not null,
    unique(tenant, receipt_id, ref)
);
create index label_ref on label(tenant, ref);
create index label_tenant on label(tenant, id);
create index audit_ref on audit(tenant, ref);
"""

_COPIED = ("decision", "local", "judge", "rrf", "signals")


@dataclass(frozen=True, slots=True)
class Vote:
    """A vote on one memory of an answer given at ``shown``; ``body`` is copied from the answer's receipt."""

    ref: str
    useful: bool
    shown: datetime
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class VotePage:
    """Some labels, oldest first. ``next`` is where the next page begins, None after the last one."""

    labels: tuple[Mapping[str, Any], ...]
    next: int | None


def labelled(receipt: Mapping[str, Any], useful: Sequence[str], useless: Sequence[str]) -> tuple[Vote, ...]:
    """The votes on the candidates of a receipt. Raises BadInput, which names the wrong ref."""
    rows = {row["ref"]: (position, row) for position, row in enumerate(receipt["candidates"], start=1)}
    for side, refs in (("useful", useful), ("useless", useless)):
        for n, ref in enumerate(refs):
            if ref not in rows:
                raise BadInput(f"{side}[{n}]: {ref[:64]!r} is not in receipt {receipt['receipt_id']}")
    if both := set(useful) & set(useless):
        raise BadInput(f"{min(both)} is in useful and in useless; a memory was one or the other")
    voted = dict.fromkeys(useful, True) | dict.fromkeys(useless, False)
    shown = datetime.fromisoformat(receipt["at"])
    return tuple(Vote(ref, vote, shown, _body(receipt, *rows[ref])) for ref, vote in voted.items())


def _body(receipt: Mapping[str, Any], position: int, row: Mapping[str, Any]) -> dict[str, Any]:
    found_by = {backend: rank for backend, _, _, rank, *_ in reversed(row["source_hits"])}
    copied = {name: row[name] for name in _COPIED}
    scored = scored_as(receipt, row)
    return {"recipe": receipt["recipe"], "position": position, **copied, **scored, "found_by": found_by}


def put(
    db: Connection, scope: Scope, receipt_id: str, votes: Sequence[Vote], now: datetime, *, merge: bool = False
) -> Mapping[str, bool]:
    """Replace the votes on an answer, or with ``merge`` those on the same memories alone; returns the votes by ref.

    Raises BadInput for a memory that was forgotten since it was shown.
    """
    for vote in votes:
        gone = db.execute(
            "select 1 from audit where tenant = ? and ref = ? and at >= ?",
            (scope.tenant, vote.ref, microseconds(vote.shown)),
        ).fetchone()
        if gone is not None:
            raise BadInput(f"{vote.ref} was forgotten since; it takes no feedback")
    answer = (scope.tenant, receipt_id)
    if merge:
        one = "delete from label where tenant = ? and receipt_id = ? and ref = ?"
        db.executemany(one, [(*answer, vote.ref) for vote in votes])
    else:
        db.execute("delete from label where tenant = ? and receipt_id = ?", answer)
    at, asked_by = microseconds(now), json.dumps(scope.named())
    db.executemany(
        "insert into label(tenant, receipt_id, ref, useful, at, scope, body) values(?, ?, ?, ?, ?, ?, ?)",
        [(*answer, v.ref, v.useful, at, asked_by, json.dumps(v.body)) for v in votes],
    )
    rows = db.execute("select ref, useful from label where tenant = ? and receipt_id = ? order by id", answer)
    return {row["ref"]: bool(row["useful"]) for row in rows}


def page(db: Connection, tenant: str, limit: int, after: int = 0) -> VotePage:
    """Up to ``limit`` labels of a tenant with a number greater than ``after``."""
    rows = db.execute(
        "select * from label where tenant = ? and id > ? order by id limit ?", (tenant, after, limit + 1)
    ).fetchall()
    labels = tuple(map(_label, rows[:limit]))
    return VotePage(labels, rows[limit - 1]["id"] if len(rows) > limit else None)


def latest(db: Connection, tenant: str, limit: int) -> list[Mapping[str, Any]]:
    """The latest labels of a tenant, the newest first."""
    rows = db.execute("select * from label where tenant = ? order by id desc limit ?", (tenant, limit))
    return [_label(row) for row in rows]


def _label(row: Row) -> Mapping[str, Any]:
    return {
        "receipt_id": row["receipt_id"],
        "ref": row["ref"],
        "useful": bool(row["useful"]),
        "at": time_of(row["at"]),
        "scope": json.loads(row["scope"]),
        **json.loads(row["body"]),
    }


def drop(db: Connection, tenant: str, ref: str) -> None:
    """Delete every label of a memory that is being forgotten."""
    db.execute("delete from label where tenant = ? and ref = ?", (tenant, ref))
