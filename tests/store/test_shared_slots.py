"""The slots that tenants hold in several gateways of one PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

from fusion.journal import Journal
from tests.postgres.servers import Database

store = pytest.importorskip("fusion.store.postgres")
SharedSlots = pytest.importorskip("fusion.store.shared_slots").SharedSlots

LATER = "update slot_held set at = at - 4000000"


async def test_a_gateway_learns_what_the_others_hold(postgres_database: Database) -> None:
    """Three exchange at once. What one said before is replaced, and what a dead one said is forgotten after 3 s."""
    servers = [store.Server(postgres_database.url) for _ in range(3)]
    for server in servers:
        await asyncio.to_thread(server.open)
    journal = await Journal.open_shared(servers[0], "default")
    one, two, three = (SharedSlots(server, "default") for server in servers)
    for _ in range(4):
        await asyncio.gather(*(each.exchange({"acme": 2, "globex": 1}) for each in (one, two, three)))
    assert await one.exchange({"acme": 7}) == {"acme": 4, "globex": 2}
    assert await two.exchange({}) == {"acme": 9, "globex": 1}
    await journal.write(lambda db: db.execute(LATER).rowcount)
    assert await one.exchange({"acme": 1}) == {}
    assert await three.exchange({}) == {"acme": 1}
    assert [
        tuple(row) for row in await journal.read(lambda db: db.execute("select tenant, held from slot_held").fetchall())
    ] == [("acme", 1)]
    await journal.close()
    for server in servers:
        await asyncio.to_thread(server.close)
