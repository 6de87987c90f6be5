"""The whole graph of a home: its most connected entities, the edges between them, in time and in scope."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.errors import BadInput, NobodyNamed
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.gateway.graph_overview import OverviewRequest
from fusion.gateway.temporal_facts import FactRequest
from fusion.ingest.intake import NewMemory
from tests.gateway.helpers import NADIA, OMAR, remember
from tests.gateway.test_graph import TEXTS, with_graph


@pytest.mark.feature("`POST /v1/graph/overview` draws the most connected entities and the edges between them")
@pytest.mark.parametrize("backend", ["triples", "cortex"])
async def test_overview_has_the_most_connected_entities_first(home: Path, backend: str) -> None:
    async with Gateway.open(with_graph(home, backend)) as gateway:
        refs = await remember(gateway, *TEXTS)
        again = await remember(gateway, "Project Hjul -> uses -> Postgres 16\nWe said it again.")
        found = await gateway.graph_overview(OverviewRequest(NADIA))
        few = await gateway.graph_overview(OverviewRequest(NADIA, limit=2))
    assert found["nodes"][0] == {"name": "Postgres 16", "type": found["nodes"][0]["type"], "degree": 3}
    assert {node["name"] for node in found["nodes"]} == {"Postgres 16", "Project Hjul", "Project Loket", "OpenSSL"}
    edges = {(edge["source"], edge["relation"], edge["target"]): edge["refs"] for edge in found["edges"]}
    assert edges.keys() == {
        ("Project Hjul", "uses", "Postgres 16"),
        ("Project Loket", "uses", "Postgres 16"),
        ("Postgres 16", "depends on", "OpenSSL"),
    }
    assert set(edges["Project Hjul", "uses", "Postgres 16"]) == {f"obs:{refs[0]}", f"obs:{again[0]}"}
    assert (len(few["nodes"]), few["left_out"], len(few["edges"])) == (2, 2, 1)
    assert few["nodes"][0]["degree"] == 3


async def test_overview_around_an_entity_goes_as_far_as_it_is_told(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        await remember(gateway, *TEXTS, "Ada -> likes -> tea")
        near = await gateway.graph_overview(OverviewRequest(NADIA, around=("openssl",)))
        far = await gateway.graph_overview(OverviewRequest(NADIA, around=("openssl",), depth=2))
        with pytest.raises(BadInput, match="depth"):
            await gateway.graph_overview(OverviewRequest(NADIA, depth=9))
    assert {node["name"] for node in near["nodes"]} == {"OpenSSL", "Postgres 16"}
    assert {node["name"] for node in far["nodes"]} == {"OpenSSL", "Postgres 16", "Project Hjul", "Project Loket"}


async def test_overview_has_facts_as_they_were_at_a_time(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        (ref,) = await remember(gateway, "The harbour was painted.")
        for colour, month in (("blue", 1), ("red", 5)):
            began = datetime(2025, month, 1, tzinfo=UTC)
            await gateway.assert_fact(
                FactRequest("harbour", "status", colour, (f"obs:{ref}",), NADIA, valid_from=began)
            )
        then = await gateway.graph_overview(OverviewRequest(NADIA, at=datetime(2025, 2, 1, tzinfo=UTC)))
        before = await gateway.graph_overview(OverviewRequest(NADIA, at=datetime(2024, 2, 1, tzinfo=UTC)))
    targets = {edge["target"]: edge["valid_from"] for edge in then["edges"] if edge["relation"] == "status"}
    assert targets == {"blue": "2025-01-01T00:00:00+00:00"}
    assert before["edges"] == []


@pytest.mark.feature("… nothing of another user, and nothing quarantined", of="`POST /v1/graph/overview` draws")
async def test_overview_is_of_its_owner_and_of_what_may_be_seen(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        refs = await remember(gateway, *TEXTS)
        await gateway.remember([NewMemory("Omar -> owns -> a boat", OMAR)])
        await gateway.settle()
        assert "Omar" not in str(await gateway.graph_overview(OverviewRequest(NADIA)))
        assert {node["name"] for node in (await gateway.graph_overview(OverviewRequest(OMAR)))["nodes"]} == {
            "Omar",
            "a boat",
        }
        with pytest.raises(NobodyNamed):
            await gateway.graph_overview(OverviewRequest(Scope()))
        assert (await gateway.graph_overview(OverviewRequest(Scope("acme"))))["nodes"] == []
        await gateway.set_state(StateRequest(refs[0], NADIA, trust="quarantined"))
        await gateway.forget(refs[1], NADIA)
        left = await gateway.graph_overview(OverviewRequest(NADIA))
        assert {node["name"] for node in left["nodes"]} == {"Postgres 16", "OpenSSL"}
