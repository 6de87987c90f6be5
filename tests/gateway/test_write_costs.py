"""What PostgreSQL reads for a memory that is written does not grow with the memories that are there."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from benchmarks.synthetic_text import sentence
from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.settings import Settings
from tests.adapters.postgres.test_postgres import options_of
from tests.patience import load
from tests.postgres.servers import Database

ADA = Scope(user_id="ada", audience="group")
FEW, TIMES = 30, 10
BATCH, BATCHES = 2, 16
CANDIDATES = 20
"""memories with which a new one is compared at most: a small home has fewer"""
READ = (
    "select schemaname || '.' || relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) "
    "from pg_stat_user_tables"
)
"""rows that statements have read, by table"""
ENTRIES = "select coalesce(sum(idx_tup_read), 0)::bigint from pg_stat_user_indexes where relname = 'delivery'"
"""entries of the indexes of deliveries that statements have read"""
OTHERS = (
    "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend' "
    "and pid <> pg_backend_pid()"
)


async def counts(database: Database) -> dict[str, int]:
    """The rows read so far."""
    return dict(await counted(database, READ))


async def counted(database: Database, query: str) -> list[tuple[Any, ...]]:
    """What a query finds once every connection has ended: it adds its counts to the statistics then."""
    async with await psycopg.AsyncConnection.connect(database.admin_url, autocommit=True) as admin:
        while await (await admin.execute(OTHERS)).fetchone() != (0,):
            gc.collect()  # a connection whose opening was cancelled ends with its object
            await asyncio.sleep(0.05)
        return await (await admin.execute(query)).fetchall()


async def read_by(settings: Settings, database: Database, texts: list[str], batch: int) -> Mapping[str, int]:
    """The rows that a gateway reads from its start to its end, in which it stores and delivers these memories."""
    before = await counts(database)
    async with Gateway.open(settings) as gateway:
        for start in range(0, len(texts), batch):
            await gateway.remember([NewMemory(text, ADA) for text in texts[start : start + batch]])
        await gateway.settle()
    after = await counts(database)
    return {name: n - before.get(name, 0) for name, n in after.items()}


def settings_of(folder: Path, database: Database) -> Settings:
    """Those of a home whose journal and store are in PostgreSQL."""
    store = {"adapter": "adapters.postgres:Postgres", **options_of(database, folder)}
    return load(
        home=folder / "home",
        backends_only=True,
        embedder={"adapter": "tests.gateway.test_shared_servers:Fake"},
        database={"url": database.url},
        backends={"postgres": store},
    )


@pytest.mark.timeout(600)  # 15 seconds of CPU, which a busy machine gives in minutes
@pytest.mark.feature("PostgreSQL: what is read for a memory that is written does not grow with the home")
async def test_rows_read_for_a_new_memory_do_not_grow_with_the_home(
    tmp_path: Path, postgres_database: Database
) -> None:
    """Counted by PostgreSQL, with the journal and the store in it: a start and 16 requests, less a start and one."""
    settings = settings_of(tmp_path, postgres_database)
    # In a small table, reading all of it is cheapest, and says nothing about a large one.
    with psycopg.connect(postgres_database.admin_url, autocommit=True) as admin:
        admin.execute(f"alter role {postgres_database.role} set enable_seqscan to off")
    draw = Random(20261)
    texts = [f"{n} {sentence(draw, draw.randrange(40, 240))}" for n in range(2 * FEW * TIMES)]

    async def read(memories: int, batch: int = BATCH) -> Mapping[str, int]:
        return await read_by(settings, postgres_database, [texts.pop() for _ in range(memories)], batch)

    found = []
    for more in (FEW, FEW * (TIMES - 1)):
        await read(more, more)
        one, several = await read(BATCH), await read(BATCH * BATCHES)
        found.append({name: n - one.get(name, 0) for name, n in several.items()})
    few, many = found
    bounded = CANDIDATES * BATCH * (BATCHES - 1)
    assert not {name: (few.get(name, 0), n) for name, n in many.items() if n > 2 * few.get(name, 0) + bounded}


@pytest.mark.feature("PostgreSQL: a start reads each delivery a few times, also where the server has no statistics yet")
async def test_a_start_reads_each_delivery_a_few_times(tmp_path: Path, postgres_database: Database) -> None:
    """Without statistics, a plan that reads all deliveries for each memory looks cheap: 90,000 entries of 300."""
    memories = FEW * TIMES
    settings = settings_of(tmp_path, postgres_database)
    draw = Random(20262)
    texts = [f"{n} {sentence(draw, draw.randrange(40, 240))}" for n in range(memories)]
    await read_by(settings, postgres_database, texts, memories)
    ((before,),) = await counted(postgres_database, ENTRIES)
    await read_by(settings, postgres_database, [], 1)
    ((after,),) = await counted(postgres_database, ENTRIES)
    assert after - before < 20 * memories
