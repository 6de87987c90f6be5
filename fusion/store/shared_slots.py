"""The slots that each tenant's questions hold in the gateways of a database."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping

from fusion.store.database import Connection
from fusion.store.postgres import Server

FRESH_US = 3_000_000
"""microseconds for which what a gateway said counts: one that has died holds none"""


class SharedSlots:
    """For `fusion.gateway.admission.Exchange`. ``tenant`` is the one whose schema has the rows."""

    def __init__(self, server: Server, tenant: str) -> None:
        self._server, self._tenant = server, tenant
        self._gateway = secrets.token_hex(8)

    async def exchange(self, held: Mapping[str, int]) -> Mapping[str, int]:
        """Replace what this gateway said, and return by tenant the slots of the others. Raises the database's
        errors."""

        def work(db: Connection) -> dict[str, int]:
            db.execute("delete from slot_held where gateway = ?", (self._gateway,))
            db.executemany(
                "insert into slot_held(gateway, tenant, held, at) values(?, ?, ?, clock_us())",
                [(self._gateway, tenant, count) for tenant, count in held.items()],
            )
            db.execute(
                "delete from slot_held where (gateway, tenant) in (select gateway, tenant from slot_held "
                f"where at < clock_us() - {FRESH_US} for update skip locked)"  # another one may be replacing its own
            )
            others = "select tenant, sum(held) as held from slot_held where gateway <> ? group by tenant"
            return {str(row["tenant"]): int(row["held"]) for row in db.execute(others, (self._gateway,))}

        return await asyncio.to_thread(self._server.run, self._tenant, work)
