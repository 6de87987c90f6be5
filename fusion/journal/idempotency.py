"""Idempotency-Keys: the second request of a key gets the first one's reply, and stores nothing."""

from __future__ import annotations

import json

from fusion.errors import KeyReused
from fusion.store.sqlite import Connection

KEPT_S = 7 * 86_400.0
"""a key is remembered for a week unless it is set otherwise: nobody retries longer"""

Guard = tuple[str, str, str]
"""tenant, key, hash of the request"""


def expire(db: Connection, before: float) -> None:
    """Lets go of the keys of before a second since 1970."""
    db.execute("delete from idempotency where at <= ?", (before,))


def keep(db: Connection, guard: Guard, reply: object, now: int) -> None:
    """Keeps what a request is told."""
    db.execute("insert into idempotency values(?, ?, ?, ?, ?)", (*guard, json.dumps(reply), now))


def replayed(db: Connection, guard: Guard) -> str | None:
    """The reply that this key got before, if its request was the same one. Raises KeyReused."""
    tenant, key, body = guard
    row = db.execute("select body, reply from idempotency where tenant = ? and key = ?", (tenant, key)).fetchone()
    if row is None:
        return None
    if row["body"] != body:
        raise reused(key)
    return str(row["reply"])


def reused(key: str) -> KeyReused:
    return KeyReused(f"Idempotency-Key {key!r} was used for another request; choose a new one for this")
