"""The requests that several gateways count in one PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

from fusion.journal import Journal
from tests.postgres.servers import Database

store = pytest.importorskip("fusion.store.postgres")
SharedRates = pytest.importorskip("fusion.store.shared_rates").SharedRates

EARLIER = "update request_count set minute = minute - 1"


async def test_gateways_of_a_database_add_to_one_count(postgres_database: Database) -> None:
    """Three gateways exchange at once: none is lost, and each learns of all. What is older than two minutes leaves."""
    servers = [store.Server(postgres_database.url) for _ in range(3)]
    for server in servers:
        await asyncio.to_thread(server.open)
    journal = await Journal.open_shared(servers[0], "default")
    rates = [SharedRates(server, "default") for server in servers]
    await asyncio.gather(*(one.exchange({"acme": 5, "globex": 1}) for one in rates for _ in range(4)))
    known = await rates[0].exchange({})
    # The minute of the database's clock may have ended meanwhile.
    assert {name: known.this.get(name, 0) + known.before.get(name, 0) for name in ("acme", "globex")} == {
        "acme": 60,
        "globex": 12,
    }
    assert 0 <= known.passed_s < 60
    for _ in range(3):
        await journal.write(lambda db: db.execute(EARLIER).rowcount)
    later = await rates[2].exchange({"globex": 2})
    assert (later.this, later.before) == ({"globex": 2}, {})
    rows = await journal.read(lambda db: db.execute("select tenant, requests from request_count").fetchall())
    assert [(row["tenant"], row["requests"]) for row in rows] == [("globex", 2)]
    await journal.close()
    for server in servers:
        await asyncio.to_thread(server.close)
