"""A clock that jumps: what was decided holds in the answer of every backend, and nothing else is decided."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from adapters.cortex.cli import Recall
from fusion.contract import StateChange
from fusion.doors.http.streaming import no_lines
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.journal import state
from fusion.upkeep.job import no_progress
from fusion.upkeep.lifecycle import LifecycleRequest
from tests.gateway.helpers import NADIA, embedded, remember

TEXT, ASKED = "The ferry to Bergen leaves at nine", "when does the ferry leave?"
HOUR = timedelta(hours=1)


@dataclass
class Clock:
    """A time of day that only the test moves."""

    now: datetime = datetime(2026, 3, 14, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


async def answered(gateway: Gateway) -> set[str]:
    """The backends whose answers have the memory, with /fuse and the recall of the cortex."""
    await gateway.settle()
    found = {name: await gateway.fuse(ASKED, scope=NADIA, backends=(name,)) for name in gateway.guarded}
    texts = {name: one.block for name, one in found.items()}
    texts["/fuse"] = (await gateway.fuse(ASKED, scope=NADIA)).block
    texts["recall"] = str(await gateway.do("cortex", Recall(ASKED), NADIA, no_lines, no_progress))
    return {name for name, text in texts.items() if TEXT in text}


EVERYWHERE = {"markdown", "mem0", "triples", "cortex", "/fuse", "recall"}


@pytest.mark.feature("what ended stays hidden in every backend when the clock goes back, and its undo shows it again")
@pytest.mark.parametrize("ended", ["archived", "lost", "expired"])
async def test_what_ended_stays_hidden_when_the_clock_goes_back(home: Path, ended: str) -> None:
    clock = Clock()
    async with Gateway.open(embedded(home), clock=clock) as gateway:
        (ref,) = await remember(gateway, TEXT)
        assert await answered(gateway) == EVERYWHERE
        if ended == "archived":
            await gateway.set_state(StateRequest(ref, NADIA, archived=True))
        else:
            change: StateChange = {"ended_at": clock.now, "ended": ended}  # type: ignore[typeddict-item]
            if ended == "lost":
                change |= {"conflict_group": "g", "conflict_status": "resolved"}
            event_id = (await gateway.journal.find(ref, NADIA)).event.event_id
            await gateway.journal.decide({event_id: change}, "test", "as the test has it")
            gateway.deliverer.wake()
        assert await answered(gateway) == set()
        clock.now -= 24 * HOUR
        assert await answered(gateway) == set()
        (decision,) = await gateway.journal.read(state.log, NADIA, 9)
        await gateway.undo_decision(decision.name, NADIA)
        assert await answered(gateway) == EVERYWHERE


@pytest.mark.feature("a clock that jumps a year ahead and back ends what was due by then once, and takes nothing back")
async def test_jump_ahead_and_back_decides_once(home: Path) -> None:
    clock = Clock()
    async with Gateway.open(embedded(home), clock=clock) as gateway:
        (ref,) = await remember(gateway, TEXT)
        await gateway.set_state(StateRequest(ref, NADIA, lifetime="ttl"))
        request = LifecycleRequest(NADIA)
        assert (await gateway.run_lifecycle(request)).expired == 0
        clock.now += 366 * 24 * HOUR
        assert (await gateway.run_lifecycle(request)).expired == 1
        for ahead in (-366 * 24 * HOUR, 366 * 24 * HOUR):
            clock.now += ahead
            assert (await gateway.run_lifecycle(request)).run == ""
            assert await answered(gateway) == set()
