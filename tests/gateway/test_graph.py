"""The graphs of a home: neighbours, paths, impact, and projects that fit an idea, each with what asserts it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from fusion.contract import Query, Scope
from fusion.errors import BadInput, NobodyNamed
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.gateway.graph import GraphRequest, MatchRequest, PathRequest
from fusion.gateway.temporal_facts import FactRequest
from fusion.settings import Settings
from tests.gateway.helpers import NADIA, OMAR, remember, small

TEXTS = (
    "Project Hjul -> uses -> Postgres 16",
    "Project Loket -> uses -> Postgres 16",
    "Postgres 16 -> depends on -> OpenSSL",
)


def with_graph(home: Path, backend: str = "triples") -> Settings:
    adapters = {"triples": "adapters.triples:Triples", "cortex": "adapters.cortex:Cortex"}
    return small(home, **{backend: adapters[backend]})


@pytest.mark.parametrize("backend", ["triples", "cortex"])
@pytest.mark.row("A141", "typed entities and edges; each result has the path that justifies it, with its refs")
async def test_neighbours_and_paths_cite_the_memories_that_assert_them(home: Path, backend: str) -> None:
    async with Gateway.open(with_graph(home, backend)) as gateway:
        refs = await remember(gateway, *TEXTS)
        found = (await gateway.graph_neighbors(GraphRequest("postgres 16", NADIA)))["found"]
        assert {one["name"] for one in found} == {"Project Hjul", "Project Loket", "OpenSSL"}
        hjul = next(one for one in found if one["name"] == "Project Hjul")
        assert (hjul["kind"], hjul["path"]) == ("Project", "postgres 16 ← uses ← Project Hjul")
        assert hjul["edges"][0]["relation"] == "USES"
        assert hjul["refs"] == [f"obs:{refs[0]}"]
        way = (await gateway.graph_path(PathRequest("Project Hjul", "OpenSSL", NADIA)))["way"]
        assert way is not None
        assert way["path"] == "Project Hjul → uses → Postgres 16 → depends on → OpenSSL"
        assert (await gateway.graph_path(PathRequest("Project Hjul", "Mars", NADIA)))["way"] is None


@pytest.mark.row("A141", "an idea is matched with projects, each with its path")
async def test_an_idea_is_matched_with_the_projects_that_it_touches(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        await remember(gateway, *TEXTS)
        match = await gateway.graph_match(MatchRequest("upgrade OpenSSL everywhere", NADIA))
        assert match["entities"] == ["OpenSSL"]
        assert [one["name"] for one in match["projects"]] == ["Project Hjul", "Project Loket"]
        assert match["projects"][0]["path"] == "OpenSSL ← depends on ← Postgres 16 ← uses ← Project Hjul"
        assert (await gateway.graph_match(MatchRequest("paint the fence", NADIA)))["projects"] == []


async def test_impact_follows_what_depends_on_an_entity_and_nothing_else(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        await remember(gateway, *TEXTS)
        hit = (await gateway.graph_impact(GraphRequest("OpenSSL", NADIA, depth=2)))["found"]
        assert [one["name"] for one in hit] == ["Postgres 16", "Project Hjul", "Project Loket"]
        assert (await gateway.graph_impact(GraphRequest("Project Hjul", NADIA, depth=3)))["found"] == []


async def test_no_walk_passes_through_what_the_asker_may_not_see(home: Path) -> None:
    async with Gateway.open(with_graph(home)) as gateway:
        refs = await remember(gateway, *TEXTS)
        await remember(gateway, "Project Hjul -> uses -> Redis", scope=OMAR)
        names = {one["name"] for one in (await gateway.graph_neighbors(GraphRequest("Project Hjul", NADIA)))["found"]}
        assert names == {"Postgres 16"}
        group = Scope(user_id="nadia")
        assert (await gateway.graph_neighbors(GraphRequest("Project Hjul", group)))["found"] == []
        with pytest.raises(NobodyNamed):
            await gateway.graph_match(MatchRequest("Redis", Scope(audience="private")))
        made = (await gateway.set_state(StateRequest(refs[0], NADIA, trust="quarantined")))["decision"]
        assert made is not None
        assert (await gateway.graph_neighbors(GraphRequest("Project Hjul", NADIA)))["found"] == []


async def test_a_graph_that_fails_or_hangs_leaves_the_others(home: Path) -> None:
    class Hanging:
        async def entities_in(self, text: str, scope: Scope) -> list[str]:
            raise OSError("gone")

        async def edges_at(self, names: list[str], query: Query, limit: int) -> list[object]:
            await asyncio.Event().wait()
            return []

    async with Gateway.open(with_graph(home)) as gateway:
        await remember(gateway, *TEXTS)
        there = gateway.guarded["triples"]
        bad = replace(there, backend=Hanging(), deadline_s=0.01)
        calls = replace(gateway, guarded={"bad": bad, "triples": there})
        assert (await calls.graph_match(MatchRequest("upgrade OpenSSL", NADIA)))["projects"]


async def test_current_facts_are_edges_even_without_a_graph(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        (source,) = await remember(gateway, "We looked at it.")
        written = await gateway.assert_fact(FactRequest("Hjul", "uses", "Postgres 16", (source,), NADIA))
        (one,) = (await gateway.graph_neighbors(GraphRequest("Hjul", NADIA)))["found"]
        assert (one["path"], one["refs"]) == ("Hjul → uses → Postgres 16", [written["fact"]["id"]])
        with pytest.raises(BadInput, match="depth"):
            await gateway.graph_neighbors(GraphRequest("Hjul", NADIA, depth=9))
