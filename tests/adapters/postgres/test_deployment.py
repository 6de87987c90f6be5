"""A gateway with PostgreSQL as its only store: remember, ask, forget, and fill an emptied database again."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
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


def settings_of(home: Path, database: Database) -> Settings:
    password = str(urlsplit(database.url).password)
    (file := home.parent / "password").write_text(password)
    table = {
        "adapter": "adapters.postgres:Postgres",
        "url": database.url.replace(f":{password}@", "@"),
        "password_file": str(file),
        "connect_ms": PATIENT_MS,
        "deadline_ms": PATIENT_MS,
    }
    return load(home=home, embedder={"adapter": ""}, backends_only=True, backends={"postgres": table})


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
