"""Moves a tenant's memories out of a shared journal of an earlier version into a journal of its own.

Refs, tombstones, votes and the audit move unchanged. In the shared journal the rows stay as forgotten ones, without a
text, so that every backend deletes what it stored of them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from fusion.journal import outbox
from fusion.store.database import Connection
from fusion.store.private_files import sync
from fusion.store.sqlite import read_only

_OTHERS = "seq in (select seq from event where tenant <> :tenant)"
_OF_TENANT = ("owner", "owned", "idempotency", "shown", "label", "external_state", "asking_session")
"""tables of which a tenant's rows move"""
_OF_EVENTS = ("lesson", "episode", "statement_queue", "statement", "fact_assertion", "item")
"""tables whose rows go with their event"""
_BY_EVENT_ID = ("layer", "layer_refusal")
"""the same, for tables that have the event's id"""
_LEFT = "(select event_id from event)"
_COPY = (
    f"delete from delivery where {_OTHERS}",
    *(f"delete from {name} where {_OTHERS}" for name in _OF_EVENTS),
    "delete from event where tenant <> :tenant",
    f"delete from derived where event_id not in {_LEFT}",
    f"delete from learnt where event_id not in {_LEFT}",
    f"delete from tombstone where event_id not in {_LEFT}",
    *(f"delete from {name} where event_id not in {_LEFT}" for name in _BY_EVENT_ID),
    *(f"delete from {name} where item not in {_LEFT}" for name in ("use", "inclusion", "retrieval")),
    f"delete from use where item not in {_LEFT}",
    f"delete from inclusion where item not in {_LEFT}",
    "delete from card_source where card in (select id from card where tenant <> :tenant)",
    "delete from card where tenant <> :tenant",
    "delete from hidden where tenant <> :tenant",
    "delete from term where owner not in (select owner from owner where tenant = :tenant)",
    "delete from state_change where decision in (select id from decision where tenant <> :tenant)",
    *(f"delete from {name} where tenant <> :tenant" for name in (*_OF_TENANT, "audit", "decision")),
    "update mark set id = lower(hex(randomblob(8)))",
    # New numbers continue the tenant's own, so that they do not reveal how much others wrote.
    *(
        f"update sqlite_sequence set seq = coalesce((select max({column}) from {name}), 0) where name = '{name}'"
        for name, column in (("event", "seq"), ("audit", "id"), ("label", "id"), ("decision", "id"))
    ),
)
"""the statements that reduce a copy of a shared journal to one tenant"""
_THEIRS = "seq in (select seq from event where tenant = :tenant)"
_MOVED = (
    *(f"delete from {name} where {_THEIRS}" for name in _OF_EVENTS),
    *(
        f"delete from {name} where event_id in (select event_id from event where tenant = :tenant)"
        for name in ("derived", "learnt", "tombstone", *_BY_EVENT_ID)
    ),
    *(
        f"delete from {name} where item in (select event_id from event where tenant = :tenant)"
        for name in ("use", "inclusion", "retrieval")
    ),
    "delete from use where item in (select event_id from event where tenant = :tenant)",
    "delete from inclusion where item in (select event_id from event where tenant = :tenant)",
    "delete from card_source where card in (select id from card where tenant = :tenant)",
    "delete from card where tenant = :tenant",
    "delete from term where owner in (select owner from owner where tenant = :tenant)",
    *(f"delete from {name} where tenant = :tenant" for name in (*_OF_TENANT, "hidden")),
    "delete from state_change where decision in (select id from decision where tenant = :tenant)",
    "delete from decision where tenant = :tenant",
    (
        "update event set text = '', speaker = null, stated = '[]', state = null, merged_into = null, "
        "conflict_group = null, file = null, words_hash = 0, forgotten = 1 where tenant = :tenant"
    ),
)
"""the statements that empty a tenant in a shared journal, except for its deletions"""


def others(db: Connection, own: str) -> list[str]:
    """The tenants other than ``own`` that were not moved out of a journal yet."""
    found, last = [], ""
    while (row := db.execute("select min(tenant) as tenant from event where tenant > ?", (last,)).fetchone())[0]:
        last = row[0]
        if last != own and _is_here(db, last):
            found.append(last)
    return found


def _is_here(db: Connection, tenant: str) -> bool:
    """Whether a tenant still has a memory or a tombstone."""
    known = "select event_id from event where tenant = ?"
    return any(
        db.execute(sql, (tenant,)).fetchone() is not None
        for sql in (
            "select 1 from event where tenant = ? and forgotten = 0 limit 1",
            f"select 1 from tombstone where event_id in ({known}) limit 1",
        )
    )


def copy(shared: Path, tenant: str, target: Path) -> None:
    """Write a tenant's journal to ``target`` atomically; durable when it returns."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = target.with_name(f"{target.name}.new")
    made.unlink(missing_ok=True)
    made.touch(mode=0o600)
    with (
        closing(read_only(shared)) as source,
        closing(sqlite3.connect(made, isolation_level=None)) as db,
    ):
        source.backup(db)
        db.execute("pragma journal_mode = delete")
        db.execute("begin immediate")
        (cut,) = db.execute("select sql from sqlite_master where name = 'audit_is_not_cut'").fetchone()
        db.execute("drop trigger audit_is_not_cut")
        for statement in _COPY:
            db.execute(statement, {"tenant": tenant})
        db.execute(cut)
        db.execute("commit")
        db.execute("vacuum")  # others' texts must not be left in free pages
    sync(made)
    made.rename(target)
    sync(target.parent)


def release(db: Connection, tenant: str, kept: Sequence[str]) -> bool:
    """Empty a tenant in a shared journal and make its deletions due in every backend.

    Only if its own journal has all its events, whose ids are ``kept``; returns whether that was so.
    """
    rows = db.execute("select seq, event_id, forgotten from event where tenant = ?", (tenant,)).fetchall()
    if not {row["event_id"] for row in rows} <= set(kept):
        return False
    outbox.withdraw(db, [row["seq"] for row in rows if not row["forgotten"]])
    for statement in _MOVED:
        db.execute(statement, {"tenant": tenant})
    return True


def events_in(file: Path) -> list[str]:
    """The ids of all events in a closed journal."""
    with closing(read_only(file)) as db:
        (ids,) = db.execute("select json_group_array(event_id) from event").fetchone()
    found: list[str] = json.loads(ids)
    return found
