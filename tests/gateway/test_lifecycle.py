"""The lifecycle in a whole gateway: what it ends is gone from the answers of all backends, and comes back by undo."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from adapters.cortex import Cortex
from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.journal import use
from fusion.upkeep.lifecycle import LifecycleRequest, Report
from tests.gateway.helpers import NADIA, OMAR, embedded, remember, small

SOON = 1e-9
"""hours after which everything is over"""


async def stated(gateway: Gateway, text: str, *, scope: Scope = NADIA, **fields: str) -> str:
    """The event id of a memory with what its caller states of it; settled."""
    memory = NewMemory(text, kind="fact", scope=scope, stated=tuple(fields.items()))
    (kept,) = await gateway.remember([memory], tenant=scope.tenant)
    await gateway.settle(scope.tenant)
    return kept.event_id


async def answered(gateway: Gateway, question: str, scope: Scope = NADIA) -> set[str]:
    """The texts that a question gets, by `fuse` and by a search of each backend."""
    fused = await gateway.fuse(question, scope=scope)
    found = {member.text for excerpt in fused.memories for member in excerpt.members}
    for backend in gateway.guarded:
        found |= {hit.text for hit in (await gateway.search(backend, question, scope)).hits}
    return found


@pytest.mark.row(
    "A045", "what the lifecycle ends is gone from /fuse and from every backend's search; its undo restores it"
)
async def test_what_ended_is_answered_by_no_backend(home: Path) -> None:
    async with Gateway.open(embedded(home)) as gateway:
        await stated(gateway, "The ferry to Bergen leaves at nine", lifetime="ttl")
        await stated(gateway, "The ferry to Oslo leaves at ten", lifetime="session")
        await stated(gateway, "The ferry to Stavanger leaves at noon")
        assert len(await answered(gateway, "when does the ferry leave?")) == 3
        cortex = cast(Cortex, gateway.guarded["cortex"].backend)
        report = await gateway.run_lifecycle(LifecycleRequest(NADIA, ttl_hours=SOON, idle_hours=SOON))
        assert (report.expired, report.decayed, report.scanned) == (1, 1, 3)
        stored = await cortex.graph.page()
        assert sum(memory.state.ended_at is not None for memory in stored) == 2, "the cortex was sent the states"
        assert await answered(gateway, "when does the ferry leave?") == {"The ferry to Stavanger leaves at noon"}
        fused = await gateway.fuse("when does the ferry leave?", scope=NADIA)
        refused = [row.get("refused", {}) for row in fused.backends]
        assert {"expired", "decayed"} <= {reason for one in refused for reason in one}
        for decision in (await gateway.decisions(NADIA))["decisions"]:
            assert decision["run"] == report.run
            await gateway.undo_decision(decision["id"], NADIA)
        assert len(await answered(gateway, "when does the ferry leave?")) == 3
        again = await gateway.run_lifecycle(LifecycleRequest(NADIA, ttl_hours=SOON, idle_hours=SOON))
        assert again == Report(scanned=3)


@pytest.mark.row(
    "A046", "… the loser of a conflict is gone from /fuse and from every backend's search", of="what the lifecycle ends"
)
async def test_loser_of_a_conflict_is_answered_by_no_backend(home: Path) -> None:
    async with Gateway.open(embedded(home)) as gateway:
        old = await stated(gateway, "Mara keeps her boat in the harbour of Bergen", confidence="0.9")
        new = await stated(gateway, "Mara keeps her boat in the harbour of Tromsø", confidence="0.6")
        sides = {
            a: {"conflict_group": "g", "conflict_status": "active", "contradicts": b}
            for a, b in ((old, new), (new, old))
        }
        await gateway.journal.decide(sides, "test", "they contradict each other")  # type: ignore[arg-type]
        assert len(await answered(gateway, "where is the boat of Mara?")) == 2
        assert (await gateway.run_lifecycle(LifecycleRequest(NADIA))).conflicts_resolved == 1
        assert await answered(gateway, "where is the boat of Mara?") == {"Mara keeps her boat in the harbour of Bergen"}


@pytest.mark.row("A129", "a memory in a block is counted as used, durably and in batches; a search alone is no use")
async def test_inclusion_in_a_block_is_counted_and_survives_a_restart(home: Path) -> None:
    settings = small(home)
    async with Gateway.open(settings) as gateway:
        used = await stated(gateway, "The ferry to Bergen leaves at nine", lifetime="session")
        unused = await stated(gateway, "Marta keeps bees", lifetime="session")
        for _ in range(3):
            await gateway.fuse("when does the ferry to Bergen leave?", scope=NADIA)
        await gateway.search("one", "who keeps bees?", NADIA)
    async with Gateway.open(settings) as gateway:
        counted = await gateway.journal.read(use.of, [used, unused])
        assert {item: one.included for item, one in counted.items()} == {used: 3}
        assert counted[used].last_included_at > datetime.now(UTC) - timedelta(hours=1)
        await gateway.forget(used, NADIA)
        assert await gateway.journal.read(use.of, [used]) == {}


async def test_a_recording_counts_no_use(home: Path) -> None:
    """A measurement must not change what it measures."""
    from fusion.recall.engine import FuseRequest

    async with Gateway.open(small(home)) as gateway:
        used = await stated(gateway, "The ferry to Bergen leaves at nine")
        await gateway.record(FuseRequest("when does the ferry to Bergen leave?", NADIA))
        await gateway.use.flush()
        assert await gateway.journal.read(use.of, [used]) == {}


@pytest.mark.row(
    "A045",
    "… with delete_expired, every backend deletes what expired, and it may be remembered again",
    of="what the lifecycle ends",
)
async def test_expired_memories_are_deleted_in_every_backend(home: Path) -> None:
    text = "The ferry to Bergen leaves at nine"
    async with Gateway.open(embedded(home)) as gateway:
        expired = await stated(gateway, text, lifetime="ttl")
        report = await gateway.run_lifecycle(LifecycleRequest(NADIA, ttl_hours=SOON, delete_expired=True))
        assert (report.expired, report.deleted) == (1, 1)
        await gateway.settle()
        assert (await gateway.journal.records([expired]))[expired].forgotten
        (entry, *_) = (await gateway.forgotten(NADIA))["forgotten"]
        assert entry.by == "expired"
        assert set(entry.backends.values()) <= {"deleted", "absent", "hidden"}
        assert await answered(gateway, "when does the ferry leave?") == set()
        (kept,) = await gateway.remember([NewMemory(text, scope=NADIA)])
        assert kept.status == "stored"
        await gateway.settle()
        assert await answered(gateway, "when does the ferry leave?") == {text}


async def test_a_run_stays_in_its_scope_and_tenant(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        acme = replace(NADIA, tenant="acme")
        for scope in (NADIA, OMAR, acme):
            await stated(gateway, "The ferry to Bergen leaves at nine", scope=scope, lifetime="ttl")
        assert (await gateway.run_lifecycle(LifecycleRequest(NADIA, ttl_hours=SOON))).scanned == 1
        assert await answered(gateway, "when does the ferry leave?") == set()
        for scope in (OMAR, acme):
            assert (await gateway.fuse("when does the ferry leave?", scope=scope)).memories
        assert (await gateway.run_lifecycle(LifecycleRequest(acme, ttl_hours=SOON))).expired == 1


@pytest.mark.feature("a memory that ended and is remembered again in the same words is current again")
async def test_a_memory_remembered_after_it_ended_is_answered_again(home: Path) -> None:
    """Nothing that was acknowledged is hidden."""
    async with Gateway.open(small(home)) as gateway:
        (ref,) = await remember(gateway, "The ferry to Bergen leaves at nine")
        (event_id,) = [(await gateway.journal.find(ref, NADIA)).event.event_id]
        await gateway.journal.decide({event_id: {"ended_at": datetime.now(UTC), "ended": "archived"}}, "owner", "old")
        assert await answered(gateway, "when does the ferry leave?") == set()
        await remember(gateway, "The ferry to Bergen leaves at nine")
        assert await answered(gateway, "when does the ferry leave?") == {"The ferry to Bergen leaves at nine"}
