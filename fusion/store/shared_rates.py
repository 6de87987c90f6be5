"""The requests of all gateways of a database, by tenant and minute of the database's clock."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from fusion.lib.request_rate import Counted
from fusion.store.database import Connection
from fusion.store.postgres import Server

_COUNT = """
insert into request_count(tenant, minute, requests) values(?, ?, ?)
on conflict(tenant, minute) do update set requests = request_count.requests + excluded.requests
"""


class SharedRates:
    """Counts for `fusion.lib.request_rate`. ``tenant`` is the one whose schema has the rows."""

    def __init__(self, server: Server, tenant: str) -> None:
        self._server, self._tenant = server, tenant

    async def exchange(self, requests: Mapping[str, int]) -> Counted:
        """As `fusion.lib.request_rate.Exchange`. Raises the database's errors."""

        def work(db: Connection) -> Counted:
            minute, passed_us = divmod(int(db.execute("select clock_us()").fetchone()[0]), 60_000_000)
            for tenant, n in sorted(requests.items()):  # in one order, so that two gateways never wait for each other
                db.execute(_COUNT, (tenant, minute, n))
            db.execute("delete from request_count where minute < ?", (minute - 1,))
            this: dict[str, float] = {}
            before: dict[str, float] = {}
            for tenant, at, n in db.execute("select tenant, minute, requests from request_count"):
                (before if at < minute else this)[str(tenant)] = float(n)
            return Counted(passed_us / 1e6, this, before)

        return await asyncio.to_thread(self._server.run, self._tenant, work)
