"""The state of several memories at once: one decision, shown first, undone as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.errors import BadInput
from fusion.gateway.decisions import StateRequest, StatesRequest
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from tests.gateway.helpers import NADIA, OMAR, remember, small

TEXTS = ("The boat is blue", "The harbour has a café", "Tea is served at five")


def states(*refs: str, scope: Scope = NADIA, dry_run: bool = False, **change: object) -> StatesRequest:
    return StatesRequest(refs, StateRequest(refs[0], scope, **change), dry_run)  # type: ignore[arg-type]


async def statuses(gateway: Gateway) -> dict[str, str]:
    return {one["ref"]: one["status"] for one in (await gateway.memories(NADIA, 100))["memories"]}


@pytest.mark.feature("`POST /v1/states` changes several memories as one decision, after a preview that changes nothing")
async def test_several_states_are_one_decision_after_a_preview(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        one, two, three = await remember(gateway, *TEXTS)
        await gateway.set_state(StateRequest(three, NADIA, importance=0.9))
        before = await gateway.decisions(NADIA)
        shown = await gateway.set_states(states(one, two, "mzz", one, dry_run=True, archived=True))
        assert (shown["dry_run"], shown["decision"], shown["missing"]) == (True, None, ["mzz"])
        assert {change["ref"] for change in shown["changes"]} == {one, two}
        assert await gateway.decisions(NADIA) == before
        assert set((await statuses(gateway)).values()) == {"current"}
        made = await gateway.set_states(states(one, two, "mzz", archived=True, why="out of date"), who="key ops")
        assert [change["ref"] for change in made["changes"]] == [change["ref"] for change in shown["changes"]]
        assert made["decision"] is not None
        assert (made["decision"]["who"], made["decision"]["why"]) == ("key ops", "out of date")
        assert await statuses(gateway) == {one: "archived", two: "archived", three: "current"}
        again = await gateway.set_states(states(three, importance=0.9))
        assert (again["decision"], again["unchanged"]) == (None, [three])
        await gateway.undo_decision(made["decision"]["id"], NADIA)
        assert set((await statuses(gateway)).values()) == {"current"}


async def test_several_states_raise_no_trust_for_other_keys(home: Path) -> None:
    """Neither does a preview say that it would."""
    async with Gateway.open(small(home)) as gateway:
        refs = await remember(gateway, *TEXTS)
        for dry_run in (True, False):
            with pytest.raises(BadInput, match="only the owner can raise"):
                await gateway.set_states(states(*refs, trust="trusted", dry_run=dry_run), may_raise_trust=False)
        assert (await gateway.decisions(NADIA))["decisions"] == []


async def test_several_states_are_of_one_owner(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        refs = await remember(gateway, *TEXTS)
        (other,) = await gateway.remember([NewMemory("Omar has a boat", OMAR)])
        found = await gateway.set_states(states(*refs, other.ref, confidence=0.5))
        assert found["missing"] == [other.ref]
        with pytest.raises(BadInput, match="several users"):
            await gateway.set_states(states(*refs, other.ref, scope=Scope(audience="private"), confidence=0.4))
        with pytest.raises(BadInput, match="its backend alone"):
            await gateway.set_states(states("x0123456789", archived=True))
        with pytest.raises(BadInput, match="say what to change"):
            await gateway.set_states(states(*refs))
