"""A gateway with PostgreSQL as its only store: remember, ask, forget, and fill an emptied database again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

if find_spec("psycopg") is None:
    pytest.skip("needs psycopg: pip install '/path/to/checkout[postgres]'", allow_module_level=True)

import psycopg

from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.settings import Settings
from tests.patience import PATIENT_MS, load
from tests.postgres.servers import Database

ADA = Scope(user_id="ada")


def settings_of(home: Path, database: Database, /, **more: object) -> Settings:
    password = str(urlsplit(database.url).password)
    (file := home.parent / "password").write_text(password)
    table = {
        "adapter": "adapters.postgres:Postgres",
        "url": database.url.replace(f":{password}@", "@"),
        "password_file": str(file),
        "connect_ms": PATIENT_MS,
        "deadline_ms": PATIENT_MS,
    }
    return load(home=home, embedder={"adapter": ""}, backends_only=True, backends={"postgres": table}, **more)


def shared(home: Path, database: Database) -> Settings:
    """The journal is in the same database; counts are compared when the test asks for it."""
    return settings_of(home, database, database={"url": database.url}, checks={"compare_s": 0})


async def remember(gateway: Gateway, *texts: str) -> None:
    await gateway.remember([NewMemory(text, ADA) for text in texts])
    await gateway.settle()


async def until_it_has(gateway: Gateway, items: int) -> None:
    """Return once the store has so many and waits for no more: a delivery that failed is tried again after a pause."""
    async with asyncio.timeout(60):
        while True:
            state = await state_of(gateway)
            if (state["items"], state["backlog"]) == (items, 0):
                return
            await asyncio.sleep(0.02)


async def state_of(gateway: Gateway) -> Mapping[str, Any]:
    [state] = await gateway.backends()
    return state


@pytest.mark.feature("PostgreSQL as the only store: remember, ask, forget; an emptied database is filled at a start")
async def test_a_gateway_with_postgres_alone(home: Path, postgres_database: Database) -> None:
    settings = settings_of(home, postgres_database)
    async with Gateway.open(settings) as gateway:
        bees, harbour = await gateway.remember(
            [NewMemory("Marta keeps bees.", ADA), NewMemory("The harbour opens at six.", ADA)]
        )
        await gateway.settle()
        assert "Marta keeps bees." in (await gateway.fuse("Who keeps bees?", scope=ADA)).block
        assert "bees" not in (await gateway.fuse("Who keeps bees?", scope=Scope(user_id="ben"))).block
        await gateway.forget(bees.ref, ADA)
        await gateway.settle()
        assert "bees" not in (await gateway.fuse("Who keeps bees?", scope=ADA)).block
        [state] = await gateway.backends()
        assert (state["status"], state["items"]) == ("ready", 1)
    with psycopg.connect(postgres_database.url) as other:
        other.execute("DROP SCHEMA memory_fusion CASCADE")
    async with Gateway.open(settings) as gateway:
        await gateway.settle()
        assert "The harbour opens at six." in (await gateway.fuse("When does the harbour open?", scope=ADA)).block
        assert [state["items"] for state in await gateway.backends()] == [1]
        assert harbour.ref != bees.ref


LOST = "postgres: at least 3 of its memories are gone that nobody removed; it holds 1. The journal has them, and they "


@pytest.mark.parametrize("home_is_new", [False, True])
@pytest.mark.feature("PostgreSQL: memories that the database lost are delivered again, also after others were stored")
async def test_lost_memories_are_delivered_again(
    tmp_path: Path, postgres_database: Database, home_is_new: bool
) -> None:
    """By a gateway that has compared counts before, or by one with a new home. Nothing is done a second time."""
    async with Gateway.open(shared(tmp_path / "a", postgres_database)) as one:
        await remember(one, "Marta keeps bees.", "The harbour opens at six.", "The mast is of spruce.")
        async with Gateway.open(shared(tmp_path / "b", postgres_database)) as other:
            if not home_is_new:
                assert await other.health.compare() == {}
            with psycopg.connect(postgres_database.url) as restoring:
                restoring.execute("DROP SCHEMA memory_fusion CASCADE")
            assert (await state_of(one))["items"] == 0
            await one.remember([NewMemory("The keel is of oak.", ADA)])
            await until_it_has(one, 1)
            assert await other.health.compare()
            found = await other.health.compare()
            assert found["postgres"].startswith(LOST)
            assert (await state_of(other))["degraded"]
            await other.settle()
            assert "bees" in (await other.fuse("Who keeps bees?", scope=ADA)).block
            for gateway in (other, one):
                assert await gateway.health.compare() == {}
                state = await state_of(gateway)
                assert (state["items"], state["backlog"], state["degraded"]) == (4, 0, False)


@pytest.mark.feature(
    "PostgreSQL: a table of memories that is gone is made and filled again, by a start or while running"
)
async def test_a_missing_table_is_filled_again(tmp_path: Path, postgres_database: Database) -> None:
    """`version` is still there, and says that all was made."""

    def drop() -> None:
        with psycopg.connect(postgres_database.url) as other:
            other.execute("DROP TABLE memory_fusion.memory CASCADE")

    settings = shared(tmp_path / "a", postgres_database)
    async with Gateway.open(settings) as gateway:
        await remember(gateway, "Marta keeps bees.", "The harbour opens at six.", "The mast is of spruce.")
        drop()
        assert (await state_of(gateway))["degraded"]
        await gateway.remember([NewMemory("The keel is of oak.", ADA)])
        await until_it_has(gateway, 1)
        for _ in range(2):
            assert set(await gateway.health.compare()) == {"postgres"}
        await until_it_has(gateway, 4)
    drop()
    async with Gateway.open(settings) as gateway:
        await until_it_has(gateway, 4)
        assert "bees" in (await gateway.fuse("Who keeps bees?", scope=ADA)).block
