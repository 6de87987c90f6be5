"""The numbers of the settings reach the part of the home that they limit."""

from __future__ import annotations

from pathlib import Path

from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory, Replayed
from tests.gateway.helpers import small
from tests.patience import load


async def test_max_concurrent_limits_the_searches_of_one_backend(home: Path) -> None:
    """While as many searches as allowed are under way, another is refused, and another backend is still asked."""
    one = {"adapter": "adapters.inmemory:InMemory"}
    backends = {"one": {**one, "max_concurrent": 2}, "two": one}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=backends)
    async with Gateway.open(settings) as gateway:
        gateway.guarded["one"].bulkhead.under_way = gateway.guarded["two"].bulkhead.under_way = 1
        assert (await gateway.search("one", "harbour", Scope())).status == "empty"
        gateway.guarded["one"].bulkhead.under_way = gateway.guarded["two"].bulkhead.under_way = 2
        refused = await gateway.search("one", "harbour", Scope())
        assert (refused.status, refused.detail) == ("overloaded", "2 searches of it are under way")
        assert (await gateway.search("two", "harbour", Scope())).status == "empty"
        gateway.guarded["one"].bulkhead.under_way = gateway.guarded["two"].bulkhead.under_way = 0


async def test_idempotency_keep_days_limits_how_long_a_key_is_remembered(home: Path) -> None:
    """With 0 days, a repeated request of a key is a new request; by default it gets the first reply."""
    for days, replayed in (({}, True), ({"idempotency_keep_days": 0}, False)):
        settings = small(home).model_copy(update={"journal": small(home).journal.model_copy(update=days)})
        async with Gateway.open(settings) as gateway:
            note, key = NewMemory("the harbour opens at six"), f"key {replayed}"
            await gateway.remember([note], idempotency_key=key)
            assert isinstance(await gateway.remember([note], idempotency_key=key), Replayed) is replayed


async def test_wal_mb_limits_the_journals_write_ahead_log(home: Path) -> None:
    """It is the size to which SQLite truncates the log of the connection that writes."""
    settings = small(home)
    settings = settings.model_copy(update={"journal": settings.journal.model_copy(update={"wal_mb": 0.25})})
    async with Gateway.open(settings) as gateway:
        limit = await gateway.journal.write(lambda db: db.execute("pragma journal_size_limit").fetchone()[0])
        assert limit == 250_000


async def test_max_open_tenants_limits_how_many_idle_tenants_stay_open(home: Path) -> None:
    """`test_tenants` shows what the tenants of a home do with the number."""
    settings = small(home)
    settings = settings.model_copy(update={"server": settings.server.model_copy(update={"max_open_tenants": 1})})
    async with Gateway.open(settings) as gateway:
        assert gateway.tenants is not None
        assert gateway.tenants.most_open == 1
