"""A backend that is down for a day while decisions are made: the answers have them at once, and it when it is back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import pytest

from adapters.cortex import Cortex
from fusion.contract import Extracted, Forgotten, Hit, Query, State
from fusion.errors import BackendUnreachable
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.ingest.update import Change
from fusion.settings import Settings
from fusion.upkeep.lifecycle import LifecycleRequest
from tests.gateway.helpers import NADIA, remember
from tests.gateway.test_clock import Clock
from tests.patience import load

ASKED = "when does the ferry leave?"
CITIES = ("Bergen", "Oslo", "Stavanger", "Kirkenes", "Bodø", "Tromsø")
NEW = "The ferry to Ålesund leaves at ten"


class Fickle(Cortex):
    """A cortex that does not answer while it is down."""

    down: ClassVar[bool] = False

    def _answer(self) -> None:
        if self.down:
            raise BackendUnreachable("it is down")

    async def search(self, query: Query) -> Sequence[Hit]:
        self._answer()
        return await super().search(query)

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        self._answer()
        return await super().remember(batch)

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        self._answer()
        return await super().forget(event_id, native_ids)

    async def set_states(self, states: Mapping[str, State]) -> None:
        self._answer()
        await super().set_states(states)


@pytest.fixture
def settings(home: Path) -> Iterator[Settings]:
    tables = {
        "cortex": {"adapter": "tests.gateway.test_down_for_a_day:Fickle"},
        "triples": {"adapter": "adapters.triples:Triples"},
        "markdown": {"adapter": "adapters.markdown:Markdown"},
    }
    yield load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)
    Fickle.down = False


async def cities(gateway: Gateway, *backends: str) -> set[str]:
    """The ferries in the answer of these backends, or of all."""
    fused = await gateway.fuse(ASKED, scope=NADIA, backends=backends or None)
    return {city for city in (*CITIES, "Ålesund") if city in fused.block}


@pytest.mark.feature(
    "a backend that is down for a day: what is decided meanwhile holds in every answer at once, the answers say "
    "what is missing, and the backend has all of it when it is back"
)
async def test_decisions_reach_a_backend_that_was_down_for_a_day(settings: Settings) -> None:
    clock = Clock()
    async with Gateway.open(settings, clock=clock) as gateway:
        refs = dict(
            zip(CITIES, await remember(gateway, *(f"The ferry to {c} leaves at nine" for c in CITIES)), strict=True)
        )
        await gateway.set_state(StateRequest(refs["Kirkenes"], NADIA, lifetime="ttl"))
        await gateway.settle()
        for name in settings.backends:
            assert await cities(gateway, name) == {*CITIES}
        Fickle.down = True
        await gateway.set_state(StateRequest(refs["Bergen"], NADIA, archived=True))
        clock.now += timedelta(hours=8)
        receipt = await gateway.forget(refs["Oslo"], NADIA)
        assert receipt.backends["cortex"] == "pending"
        await gateway.update(refs["Stavanger"], Change(NEW), NADIA)
        clock.now += timedelta(hours=16)
        assert (await gateway.run_lifecycle(LifecycleRequest(NADIA, ttl_hours=24))).expired == 1
        await gateway.set_state(StateRequest(refs["Bodø"], NADIA, trust="quarantined"))
        fused = await gateway.fuse(ASKED, scope=NADIA)
        assert fused.degraded
        assert await cities(gateway) == {"Tromsø", "Ålesund"}
    Fickle.down = False
    async with Gateway.open(settings, clock=clock) as gateway:
        await gateway.settle()
        assert not any((await gateway.deliverer.backlog()).values())
        for name in settings.backends:
            assert await cities(gateway, name) == {"Tromsø", "Ålesund"}
        (entry,) = (await gateway.forgotten(NADIA))["forgotten"]
        assert entry.backends["cortex"] == "deleted"
        cortex = gateway.guarded["cortex"].backend
        assert isinstance(cortex, Cortex)
        stored = {one.id: (one.state.ended_at, one.state.lifetime) for one in await cortex.graph.page()}
        records = await gateway.journal.records([*stored])
        assert stored == {i: (one.state.ended_at, one.state.lifetime) for i, one in records.items()}
