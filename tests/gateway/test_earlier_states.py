"""A home whose cortex decided alone, as in earlier versions: the journal takes that over once, and it can be undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest

from adapters.cortex import Cortex
from adapters.cortex.port import Change
from adapters.inmemory import InMemory
from fusion.contract import State
from fusion.errors import BackendUnreachable
from fusion.gateway.earlier_states import take_over
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.journal import state
from fusion.settings import Settings
from fusion.store.sqlite import Connection
from tests.gateway.helpers import NADIA, small

AT = datetime(2026, 11, 1, tzinfo=UTC)
STORES = {"cortex": "adapters.cortex:Cortex", "memory": "adapters.inmemory:InMemory"}
CITIES = ("Bergen", "Oslo", "Stavanger", "Kirkenes", "Bodø", "Tromsø", "Hammerfest")


async def remembered(gateway: Gateway) -> dict[str, str]:
    """The event id of a memory for each city."""
    memories = [NewMemory(f"The ferry to {city} leaves at nine", kind="fact", scope=NADIA) for city in CITIES]
    kept = await gateway.remember(memories)
    await gateway.settle()
    return dict(zip(CITIES, [one.event_id for one in kept], strict=True))


def decided(ids: Mapping[str, str]) -> dict[str, Change]:
    """An earlier cortex's decisions: Bergen expired, Oslo is merged, Stavanger won, Bodø and Tromsø are in conflict."""
    return {
        ids["Bergen"]: {"lifetime": "ttl", "ended_at": AT},
        ids["Oslo"]: {"merged_into": ids["Stavanger"]},
        ids["Stavanger"]: {"confidence": 0.8, "reinforced_count": 2, "reinforced_at": AT, "conflict_group": "g"},
        ids["Kirkenes"]: {"conflict_group": "g", "conflict_status": "resolved", "ended_at": AT},
        ids["Bodø"]: {"conflict_group": "h", "conflict_status": "active", "contradicts": ids["Tromsø"]},
        ids["Tromsø"]: {"conflict_group": "h", "conflict_status": "active", "contradicts": ids["Bodø"]},
    }


def cortex_of(gateway: Gateway) -> Cortex:
    return cast(Cortex, gateway.guarded["cortex"].backend)


async def of_earlier_version(settings: Settings) -> dict[str, str]:
    """A home whose journal knows nothing of what its cortex decided; returns the event id of each city."""
    async with Gateway.open(settings) as gateway:
        ids = await remembered(gateway)
        await cortex_of(gateway).graph.alter(decided(ids))
        await forget_the_mark(gateway)
    return ids


async def forget_the_mark(gateway: Gateway) -> None:
    """Leave the journal as an earlier version had it: without a note that the states were taken over."""

    def work(db: Connection) -> None:
        db.execute("delete from states_taken_over")

    await gateway.journal.write(work)


async def answered(gateway: Gateway) -> set[str]:
    """The cities that each backend answers with, filtered as every answer is; they must agree."""
    await gateway.settle()
    found = [await gateway.search(name, "when does the ferry leave?", NADIA) for name in STORES]
    first, second = ({city for city in CITIES if any(city in hit.text for hit in one.hits)} for one in found)
    assert first == second
    return first


@pytest.mark.feature(
    "what an earlier cortex merged, ended or found contradictory holds for every backend, and can be undone"
)
async def test_states_of_an_earlier_cortex_are_taken_over_once(home: Path) -> None:
    settings = small(home, **STORES)
    ids = await of_earlier_version(settings)
    async with Gateway.open(settings) as gateway:
        assert await answered(gateway) == {"Stavanger", "Bodø", "Tromsø", "Hammerfest"}
        log = (await gateway.decisions(NADIA))["decisions"]
        assert {one["who"] for one in log} == {"cortex"}
        assert len({one["run"] for one in log}) == 1
        states = {city: (await gateway.memory(ids[city], NADIA))["state"] for city in CITIES}
        assert {city: one["ended"] for city, one in states.items() if "ended" in one} == {
            "Bergen": "expired",
            "Kirkenes": "lost",
        }
        assert (states["Stavanger"]["confidence"], states["Stavanger"]["reinforced_count"]) == (0.8, 2)
        assert states["Bodø"]["contradicts"] == ids["Tromsø"]
        assert states["Hammerfest"] == {}
    async with Gateway.open(settings) as gateway:
        assert (await gateway.decisions(NADIA))["decisions"] == log
        assert (await gateway.undo_run(log[0]["run"] or "", NADIA))["undone"] == len(log)
        assert await answered(gateway) == {*CITIES}
        await gateway.settle()
        await forget_the_mark(gateway)
    async with Gateway.open(settings) as gateway:
        assert await answered(gateway) == {*CITIES}, "what was undone is not taken over again"


async def test_what_the_journal_decided_wins(home: Path) -> None:
    settings = small(home, **STORES)
    async with Gateway.open(settings) as gateway:
        ids = await remembered(gateway)
        await gateway.journal.decide({ids["Bergen"]: {"lifetime": "permanent", "confidence": 0.9}}, "nadia", "it holds")
        await gateway.settle()
        await cortex_of(gateway).graph.alter(decided(ids))
        await forget_the_mark(gateway)
    async with Gateway.open(settings) as gateway:
        assert "Bergen" in await answered(gateway)
        assert (await gateway.memory(ids["Bergen"], NADIA))["state"] == {"confidence": 0.9}


async def test_a_state_that_depends_on_an_unknown_memory_is_left_out(home: Path) -> None:
    """The other memory was forgotten or is another user's: neither hides this one."""
    settings = small(home, **STORES)
    async with Gateway.open(settings) as gateway:
        ids = await remembered(gateway)
        one_sided: dict[str, Change] = {
            ids["Oslo"]: {"merged_into": "gone"},
            ids["Bodø"]: {"conflict_group": "h", "conflict_status": "active", "contradicts": "gone", "confidence": 0.9},
        }
        await cortex_of(gateway).graph.alter(one_sided)
        await forget_the_mark(gateway)
    async with Gateway.open(settings) as gateway:
        assert await answered(gateway) == {*CITIES}
        assert (await gateway.memory(ids["Bodø"], NADIA))["state"] == {"confidence": 0.9}
        assert (await gateway.memory(ids["Oslo"], NADIA))["state"] == {}


class Away(InMemory):
    """Cannot be reached, or has a fault, when it is asked for the first time."""

    def __init__(self, fault: Exception) -> None:
        super().__init__()
        self.fault = fault
        self.asked = 0

    async def states(self, after: str, limit: int) -> Sequence[tuple[str, State]]:
        self.asked += 1
        if self.asked == 1:
            raise self.fault
        return []


@pytest.mark.parametrize("fault", [BackendUnreachable("the database is away"), ValueError("not a state")])
async def test_a_backend_that_is_away_is_asked_at_the_next_start(home: Path, fault: Exception) -> None:
    async with Gateway.open(small(home)) as gateway:
        await remembered(gateway)
        away = Away(fault)
        for taken in (False, True, True):
            await take_over(gateway.journal, {"away": away})
            assert await gateway.journal.read(state.is_taken_over, "away") is taken
        assert away.asked == 2
