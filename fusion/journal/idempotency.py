"""Idempotency keys: a repeated request gets the first one's reply and stores nothing."""

from __future__ import annotations

import json

from fusion.errors import KeyReused
from fusion.store.database import Connection

KEPT_S = 7 * 86_400.0
"""default time that a key is kept: a week, longer than any client retries"""

Guard = tuple[str, str, str]
"""tenant, key, hash of the request"""


def expire(db: Connection, before: float) -> None:
    """Delete keys stored before a time, in seconds since 1970."""
    db.execute("delete from idempotency where at <= ?", (before,))


def keep(db: Connection, guard: Guard, reply: object, now: int) -> None:
    """Store the reply to a request."""
    db.execute("insert into idempotency values(?, ?, ?, ?, ?)", (*guard, json.dumps(reply), now))


def replayed(db: Connection, guard: Guard) -> str | None:
    """The stored reply to the same request; None for a new key. Raises KeyReused for another request."""
    tenant, key, body = guard
    row = db.execute("select body, reply from idempotency where tenant = ? and key = ?", (tenant, key)).fetchone()
    if row is None:
        return None
    if row["body"] != body:
        raise reused(key)
    return str(row["reply"])


def reused(key: str) -> KeyReused:
    """The error for a key that was used for another request."""
    return KeyReused(f"Idempotency-Key {key!r} was used for another request; choose a new one for this")
