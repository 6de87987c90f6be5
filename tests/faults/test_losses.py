"""A journal or store that loses rows while the server runs, or between two runs, is named within one comparison."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from fusion.gateway.gateway import Gateway
from fusion.gateway.repair import repair
from fusion.ingest.intake import NewMemory
from fusion.journal.store_watermarks import read_count
from fusion.settings import Settings
from tests.faults.home import door, settings_of
from tests.faults.test_stores import NADIA, QUESTION, body

STORES = {
    "cortex": ("adapters.cortex:Cortex", "graph.sqlite", "memory"),
    "triples": ("adapters.triples:Triples", "graph.sqlite", "memory"),
    "mem0": ("adapters.mem0:Mem0", "points.sqlite", "point"),
    "vectors": ("adapters.vector_sqlite:VectorSqlite", "vectors.sqlite", "memory"),
}
"""by backend: its adapter, its file, and the table with its memories"""


def settings(home: Path, *names: str, compare_s: float = 0.01) -> Settings:
    found = settings_of(home, **{name: STORES[name][0] for name in names})
    return found.model_copy(update={"checks": found.checks.model_copy(update={"compare_s": compare_s})})


async def remember(fusion: Gateway, first: int, count: int) -> list[str]:
    texts = [NewMemory(f"Harbour {n} is in Lyon", scope=NADIA, kind="note") for n in range(first, first + count)]
    kept = await fusion.remember(texts)
    await fusion.settle()
    return [one.ref for one in kept]


def delete_rows(file: Path, table: str, count: int) -> None:
    """As another program does it that knows nothing of the gateway."""
    with closing(sqlite3.connect(file, timeout=30)) as db, db:
        db.execute(f"delete from {table} where rowid in (select rowid from {table} limit {count})")


def file_of(home: Path, name: str) -> tuple[Path, str]:
    _, file, table = STORES[name]
    (path,) = (home / "backends" / name).rglob(file)
    return path, table


async def noted(client: httpx.AsyncClient, words: str) -> Mapping[str, Any]:
    """What `/readyz` says as soon as one of its notes has these words."""
    async with asyncio.timeout(60):
        while True:
            ready: dict[str, Any] = (await client.get("/readyz")).json()
            if any(words in note for note in ready["notes"]):
                return ready
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("name", STORES)
@pytest.mark.feature("a store that loses memories while the server runs is named, with what fills it anew")
async def test_a_store_that_loses_rows_is_named_while_the_server_runs(home: Path, name: str) -> None:
    """By `/readyz`, status and every answer, with what to do; also though memories were added since."""
    async with door(settings(home, name, compare_s=3600)) as (fusion, client):
        await remember(fusion, 0, 20)
        assert await fusion.health.compare() == {}
        delete_rows(*file_of(home, name), 7)
        await remember(fusion, 20, 2)
        found = await fusion.health.compare()
        assert set(found) == {name}
        ready = (await client.get("/readyz")).json()
        status = (await client.get("/v1/status")).json()
        fused = (await client.post("/fuse", json=QUESTION)).json()
    assert any(f"{name}: at least 5 of its memories are gone" in note for note in ready["notes"])
    assert f"move {home / 'backends' / name} away" in ready["notes"][-1]
    assert status["notes"][-1] == ready["notes"][-1]
    assert status["backends"][0]["degraded"]
    assert fused["degraded"]


async def test_the_comparison_runs_by_itself(home: Path) -> None:
    """Within its interval, without a question."""
    async with door(settings(home, "cortex")) as (fusion, client):
        await remember(fusion, 0, 20)
        await noted_count(home, "cortex", 20)
        delete_rows(*file_of(home, "cortex"), 3)
        await noted(client, "cortex: at least 3 of its memories are gone")


async def noted_count(home: Path, name: str, events: int) -> None:
    """Returns when a comparison has counted so many."""
    async with asyncio.timeout(60):
        while True:
            count = read_count(home / "backends" / name)
            if count is not None and count.events == events:
                return
            await asyncio.sleep(0.02)


@pytest.mark.feature("a loss of a store stays named over a restart, until the store was filled anew")
async def test_a_loss_between_two_runs_is_named_until_the_store_is_filled_anew(home: Path) -> None:
    """It stays named over a restart; once its folder is moved away the store gets everything again."""
    chosen = settings(home, "cortex")
    async with Gateway.open(chosen) as fusion:
        await remember(fusion, 0, 20)
        await fusion.health.compare()
    delete_rows(*file_of(home, "cortex"), 4)
    for _ in range(2):
        async with door(chosen) as (_, client):
            await noted(client, "cortex: at least 4 of its memories are gone")
    (home / "backends" / "cortex").rename(home.parent / "cortex.lost")
    async with door(chosen) as (fusion, client):
        await fusion.settle()
        assert await fusion.health.compare() == {}
        assert [state.items for state in await fusion.backends()] == [20]
        assert not any("are gone" in note for note in (await client.get("/readyz")).json()["notes"])


@pytest.mark.feature("a memory that the gateway itself removes counts as no loss")
async def test_deletions_of_the_gateway_are_no_loss(home: Path) -> None:
    """Forgetting, superseding and undoing an ingest, with comparisons in between and a restart."""
    chosen = settings(home, *STORES, compare_s=3600)
    async with Gateway.open(chosen) as fusion:
        refs = await remember(fusion, 0, 20)
        await fusion.health.compare()
        for ref in refs[:5]:
            await fusion.forget(ref, NADIA)
        assert await fusion.health.compare() == {}
        await fusion.remember([NewMemory("Harbour 9 is in Brest", scope=NADIA, supersedes=refs[9])])
        await fusion.remember([NewMemory(f"Crane {n} is red", scope=NADIA) for n in range(9)], batch="run-1")
        await fusion.settle()
        assert await fusion.health.compare() == {}
        await fusion.undo(NADIA, "run-1")
        await fusion.settle()
        assert await fusion.health.compare() == {}
    async with Gateway.open(chosen) as fusion:
        await fusion.settle()
        assert await fusion.health.compare() == {}


@pytest.mark.feature("a journal that loses events while the server runs is only read from then on")
async def test_a_journal_that_loses_rows_is_only_read_and_repaired(home: Path) -> None:
    """Named though memories were added since; nothing more is written, and the stores give everything back."""
    chosen = settings(home, "cortex", compare_s=3600)
    async with door(chosen) as (fusion, client):
        await remember(fusion, 0, 20)
        delete_rows(home / "journal.sqlite", "event", 6)
        await remember(fusion, 20, 2)
        assert set(await fusion.health.compare()) == {"journal"}
        ready = (await client.get("/readyz")).json()
        refused = await client.post("/v1/memories", json=body("The lighthouse is in Brest"))
        fused = (await client.post("/fuse", json=QUESTION)).json()
    assert "another program deleted 6 events from it" in ready["notes"][-1]
    assert refused.status_code == 500
    assert "fusion repair" in refused.json()["detail"]
    assert fused["degraded"]
    async with door(chosen) as (_, client):  # the next start knows it, too
        assert "another program deleted memories from it" in (await client.get("/readyz")).json()["notes"][-1]
    (done,) = await repair(chosen, dry_run=False)
    assert done.recovered == 6
    async with door(chosen) as (fusion, client):
        assert len((await fusion.memories(NADIA, 100))["memories"]) == 22
        assert (await client.post("/v1/memories", json=body("The lighthouse is in Brest"))).status_code == 201
