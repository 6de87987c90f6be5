"""The graph in a context pack: its mode, its gates, its lines and its trace."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fusion.contract import Query, Scope
from fusion.gateway.gateway import Gateway
from fusion.gateway.graph_lane import GraphQuestion, graph_lane, named_subjects
from fusion.gateway.packing import ContextPack, PackRequest
from fusion.gateway.temporal_facts import FactRequest
from fusion.ingest.intake import NewMemory
from fusion.lib.budget import estimate_tokens
from tests.gateway.helpers import NADIA, embedded, remember
from tests.gateway.test_graph import TEXTS, with_graph

ASKED = PackRequest(
    "what depends on Postgres 16?", NADIA, trace=True, graph="auto", graph_soft_ms=60_000, graph_hard_ms=60_000
)


def graph_of(pack: ContextPack) -> dict[str, object]:
    assert pack.trace is not None
    found: dict[str, object] = pack.trace["extensions"]["graph"]
    return found


@pytest.mark.row("A142", "the graph in a pack off, auto or on, with paths as justification and the gates in the trace")
async def test_paths_at_what_the_question_names_come_first(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        refs = await remember(gateway, *TEXTS)
        pack = await gateway.pack(ASKED)
        first = pack.bundle_text.splitlines()[1:4]
        assert f"- [obs:{refs[0]}] Project Hjul → uses → Postgres 16" in first
        assert graph_of(pack)["latency"]["decision"] == "allow"  # type: ignore[index]
        assert {"name": "graph", "searched": True} in [
            {name: lane[name] for name in ("name", "searched")}
            for lane in pack.trace["lanes"]  # type: ignore[index]
        ]
        off = await gateway.pack(replace(ASKED, graph="off"))
        assert "→" not in "\n".join(item.text for item in off.items if item.type == "graph_path")
        assert graph_of(off) == {}


@pytest.mark.feature("a pack with the graph says no fact twice, and marks what a tool asserted without a source")
async def test_facts_of_cards_and_doubtful_facts_are_told_once_and_marked(home: Path) -> None:
    """The memories that assert what the card says are left out; the one that asserts a stale fact says why it is."""
    gate = "api gateway"
    async with Gateway.open(embedded(home)) as gateway:
        live, owns = await remember(gateway, "The API gateway went live in March.", "The routing is in the gateway.")
        (check,) = await gateway.remember([NewMemory("health check: 503", scope=NADIA, origin="tool")])
        await gateway.assert_fact(FactRequest(gate, "status", "live", (live,), NADIA))
        await gateway.assert_fact(FactRequest(gate, "owns", "routing table", (owns,), NADIA))
        tool = FactRequest(gate, "uses", "broken cache", (check.ref,), NADIA, asserted_by="tool")
        doubtful = (await gateway.assert_fact(tool))["memory"]
        await gateway.settle()
        await gateway.refresh_card(NADIA, gate)
        question = replace(ASKED, query="what is the status of the api gateway, and what does it use?", graph="on")
        pack = await gateway.pack(question)
        receipt = await gateway.receipt(pack.receipt.receipt_id)
        off = await gateway.pack(replace(question, graph="off"))
    assert pack.items[0].type == "synthesis_card"
    assert pack.bundle_text.count("api gateway has the status live") == 1
    marked = next(item for item in pack.items if item.recordRef == doubtful)
    assert marked.text == "api gateway uses broken cache. (not certain: no source of it can be trusted)"
    assert off.bundle_text.count("api gateway has the status live") == 1
    assert "said_by_graph" in {row["decision"] for row in receipt["candidates"]}


async def test_auto_needs_a_relation_or_a_fact_and_on_only_a_name(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        (source, *_) = await remember(gateway, *TEXTS)
        plain = replace(ASKED, query="Postgres 16 version number?")
        assert graph_of(await gateway.pack(plain))["why"] == "it asks for no relation"
        assert graph_of(await gateway.pack(replace(plain, graph="on")))["searched"] is True
        assert graph_of(await gateway.pack(replace(ASKED, query="what is Mars?", graph="on")))["searched"] is False
        await gateway.assert_fact(FactRequest("Postgres 16", "status", "in production", (source,), NADIA))
        pack = await gateway.pack(plain)
        assert pack.items[0].type == "temporal_fact"
        assert "has the status in production" in pack.items[0].text


@pytest.mark.row("A142", "a soft latency gate leaves out paths, and a hard one the graph")
async def test_the_latency_gates_degrade_and_then_skip(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        (source, *_) = await remember(gateway, *TEXTS)
        await gateway.assert_fact(FactRequest("Postgres 16", "status", "in production", (source,), NADIA))
        soft = await gateway.pack(replace(ASKED, graph_soft_ms=0))
        assert {item.type for item in soft.items} & {"temporal_fact", "graph_path"} == {"temporal_fact"}
        assert graph_of(soft)["why"] == "over the soft limit"
        hard = await gateway.pack(replace(ASKED, graph_hard_ms=0))
        assert {item.type for item in hard.items} & {"temporal_fact", "graph_path"} == set()
        assert graph_of(hard)["why"] == "over the hard limit"
        assert hard.items, "the pack is answered all the same"


async def test_a_graph_that_hangs_or_fails_does_not_hold_up_the_pack(home: Path) -> None:
    class Hanging:
        async def entities_in(self, text: str, scope: Scope) -> list[str]:
            await asyncio.Event().wait()
            return []

        async def edges_at(self, names: list[str], query: Query, limit: int) -> list[object]:
            return []

    async with Gateway.open(with_graph(home)) as gateway:
        await remember(gateway, *TEXTS)
        calls = replace(gateway, guarded={"g": replace(gateway.guarded["triples"], backend=Hanging())})
        lane = await graph_lane(calls, GraphQuestion("what depends on Postgres 16?", NADIA, "on", hard_ms=20))
        assert (lane.items, lane.trace["why"]) == ((), "over the hard limit")


async def test_the_scope_gate_skips_what_is_asked_for_all_users(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        await remember(gateway, *TEXTS)
        found = graph_of(await gateway.pack(replace(ASKED, scope=Scope(audience="private"), all_users=True)))
        assert found["scope"] == {"decision": "skip"}


async def test_the_graph_has_a_bounded_share_of_the_pack(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        await remember(gateway, *(f"Project {name} -> uses -> Postgres 16" for name in "ABCDEFGHIJKLMNOP"))
        pack = await gateway.pack(replace(ASKED, budget_tokens=200, max_items=6))
        paths = [item for item in pack.items if item.type == "graph_path"]
        assert 0 < len(paths) <= 2
        assert estimate_tokens("\n".join(item.text for item in paths)) <= 50
        assert estimate_tokens(pack.bundle_text) <= 200
        assert len(pack.items) <= 6


async def test_a_pack_of_the_past_has_the_facts_of_then(home: Path) -> None:
    march, june = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)
    async with Gateway.open(with_graph(home)) as gateway:
        (source, *_) = await remember(gateway, *TEXTS)
        for value, since in (("beta", march), ("live", june)):
            await gateway.assert_fact(FactRequest("shop", "status", value, (source,), NADIA, valid_from=since))
        lane = await graph_lane(
            gateway, GraphQuestion("the shop?", NADIA, "auto", at=datetime(2026, 5, 1, tzinfo=UTC), hard_ms=9999)
        )
        assert ["beta" in item.text for item in lane.items] == [True]


def test_a_subject_is_named_by_whole_words() -> None:
    subjects = ["entity:api-gateway", "entity:api", "entity:gate"]
    assert named_subjects("Is the API gateway up?", subjects) == ["entity:api-gateway", "entity:api"]
