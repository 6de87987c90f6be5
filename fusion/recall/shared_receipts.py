"""The receipts of a tenant in PostgreSQL, which the gateways that share its journal read and write."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fusion.recall.receipt_store import KEPT_SHARE, MAX_BYTES, Stored
from fusion.store.database import Connection

if TYPE_CHECKING:
    from fusion.store.postgres import Server

GATEWAYS = 1000
"""numbers of gateways, one of which is in each place, so that two that answer in one millisecond have two places"""
_COLUMNS = ", ".join(Stored._fields)
_INSERT = (
    f"insert into receipt({_COLUMNS}) values({', '.join('?' for _ in Stored._fields)}) "
    "on conflict(receipt_id) do update set row = excluded.row, body = excluded.body"
)
_BOUND = (
    "delete from receipt where seq in (select seq from "
    "(select seq, sum(length(body)) over (order by seq desc) as bytes from receipt) r where bytes > ?)"
)


class SharedReceipts:
    """The table ``receipt`` of a tenant's schema. Rows are only added and dropped, so no write waits for another."""

    day = "cast(floor(at / 86400) as bigint)"

    def __init__(self, server: Server, tenant: str, max_bytes: float = MAX_BYTES) -> None:
        self._server, self._tenant, self._max_bytes = server, tenant, max_bytes
        self._number = secrets.randbelow(GATEWAYS)

    def next_seq(self, last: int, now_s: float) -> int:
        now = max(last // GATEWAYS + 1, int(now_s * 1000))
        return now * GATEWAYS + self._number

    def write(self, rows: Sequence[Stored], before: float | None) -> None:
        texts = [(*one[:-2], None if one.row is None else one.row.decode(), one.body) for one in rows]

        def work(db: Connection) -> None:
            db.executemany(_INSERT, texts)
            if before is not None:
                self._drop(db, before)

        self._server.run(self._tenant, work)

    def _drop(self, db: Connection, before: float) -> int:
        dropped = db.execute("delete from receipt where at < ?", (before,)).rowcount
        (size,) = db.execute("select coalesce(sum(length(body)), 0) from receipt").fetchone()
        if size > self._max_bytes:
            db.execute(_BOUND, (int(KEPT_SHARE * self._max_bytes),))
        return dropped

    def rows(self, query: str, values: Sequence[object]) -> Sequence[Sequence[Any]]:
        return self._server.run(self._tenant, lambda db: db.execute(query, values).fetchall())

    def drop(self, before: float) -> int:
        return self._server.run(self._tenant, lambda db: self._drop(db, before))

    def close(self) -> None:
        """The connections are the server's."""
