"""A PostgreSQL that was restored, or whose replica was promoted, next to homes that knew of more."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.errors import StoreDamaged
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.journal.store_watermarks import FILE
from fusion.recall.engine import FuseRequest
from tests.faults.test_database_server import SCHEMA, settings_for
from tests.gateway.shelves import SharedShelf
from tests.postgres.servers import Database

psycopg = pytest.importorskip("psycopg")

ANA = Scope(user_id="ana")


async def remember(gateway: Gateway, text: str) -> None:
    await gateway.remember([NewMemory(text, scope=ANA)])
    await gateway.settle()


async def block(gateway: Gateway, question: str) -> str:
    return (await gateway.fuse(FuseRequest(question, ANA, timeout_ms=20_000))).block


@pytest.fixture
async def filled(tmp_path: Path, postgres_database: Database) -> Path:
    """A home whose gateway has left its marks."""
    home = tmp_path / "home"
    async with Gateway.open(settings_for(home, postgres_database.url)) as gateway:
        await remember(gateway, "The heron is on the roof")
    assert (home / FILE).exists()
    yield home
    SharedShelf.servers.clear()


@pytest.mark.feature("PostgreSQL: a gateway goes on after a restore, or after a replica was promoted that lacked a bit")
async def test_an_earlier_state_of_the_database_is_accepted(
    filled: Path, postgres_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once: the home's mark is then of the database as it is."""
    with psycopg.connect(postgres_database.admin_url, autocommit=True) as db:
        db.execute(f"update {SCHEMA}.mark set commits = commits - 100")
    settings = settings_for(filled, postgres_database.url)
    with caplog.at_level(logging.WARNING, "fusion.gateway.open_journal"):
        async with Gateway.open(settings) as gateway:
            await remember(gateway, "The otter is in the pond")
            assert "otter" in await block(gateway, "where is the otter?")
        assert caplog.text.count("goes on as it is") == 1
        async with Gateway.open(settings) as gateway:
            assert "heron" in await block(gateway, "where is the heron?")
        assert caplog.text.count("goes on as it is") == 1


@pytest.mark.feature("PostgreSQL: a gateway writes nothing into another database than its home's, and says what to do")
async def test_another_database_is_read_until_the_home_is_made_its_own(
    filled: Path, postgres_database: Database
) -> None:
    with psycopg.connect(postgres_database.admin_url, autocommit=True) as db:
        db.execute(f"update {SCHEMA}.mark set id = 'another'")
    settings = settings_for(filled, postgres_database.url)
    async with Gateway.open(settings) as gateway:
        assert "heron" in await block(gateway, "where is the heron?")
        with pytest.raises(
            StoreDamaged, match=r"stop the server and delete .*journal\.json.*named in \[database\] url"
        ):
            await remember(gateway, "The otter is in the pond")
    for mark in (filled / FILE, *filled.glob(f"backends/*/{FILE}")):
        mark.unlink()
    async with Gateway.open(settings) as gateway:
        await remember(gateway, "The otter is in the pond")
        assert "otter" in await block(gateway, "where is the otter?")
