"""kill -9 in the middle of an approval: the proposal is open and nothing is stored, or both are done; never twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.ingest.proposals import Proposed
from fusion.journal.proposals import Decider
from tests.faults.test_kill import NADIA, memory, nursery
from tests.gateway.helpers import embedded

DEATHS = (2, 4, 6, 8, 11, 15)
"""before which statement of the journal each victim dies"""

pytestmark = pytest.mark.timeout(600)  # each victim is a process that opens a home


@pytest.mark.row("A152", "kill -9 in the middle of an approval: one memory or none, as the proposal says")
async def test_kill_in_the_middle_of_an_approval(home: Path) -> None:
    async with Gateway.open(embedded(home)) as gateway:
        given = [Proposed(NewMemory(memory(n), NADIA)) for n in range(len(DEATHS))]
        queued = (await gateway.propose(given, Decider("agent", "proposer")))["proposals"]
    names = [one["id"] for one in queued]
    said: set[str] = set()
    with nursery("adapters.mem0") as nurse:
        for name, statement in zip(names, DEATHS, strict=True):
            said |= {str(rest[0]) for word, *rest in nurse.kill("approve", home, name, statement) if word == "approved"}
    async with Gateway.open(embedded(home)) as gateway:
        await gateway.settle()
        states = {one["id"]: one["state"] for one in (await gateway.proposals(NADIA, None))["proposals"]}
        approved = {name for name, state in states.items() if state == "approved"}
        assert said <= approved
        for name in set(names) - approved:  # what was cut short can be approved now
            await gateway.approve(name, NADIA, Decider("owner"))
        await gateway.settle()
        page = await gateway.memories(NADIA, 100)
        assert Counter(one["text"] for one in page["memories"]) == Counter(memory(n) for n in range(len(DEATHS)))
