"""openclaw-mem's graph tools over the entities of memories and facts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from fusion.contract import Scope
from tests.doors.compat.openclaw_mem.client import keyed, open_port
from tests.doors.compat.openclaw_mem.test_mcp import Host, parsed
from tests.gateway.helpers import remember

TEXTS = (
    "Project Hjul -> uses -> Postgres 16",
    "Project Loket -> uses -> Postgres 16",
    "Postgres 16 -> depends on -> OpenSSL",
)


@pytest.fixture
async def host(home: Path) -> AsyncIterator[Host]:
    settings = keyed(home, backends={"triples": {"adapter": "adapters.triples:Triples"}})
    async with open_port(settings) as port:
        await remember(port.gateway, *TEXTS, scope=Scope(audience="private"))
        yield Host(port, "reader")


@pytest.mark.feature("openclaw-mem's graph tools show what is beside an entity, with the records that assert it")
async def test_neighbors_are_by_direction(host: Host) -> None:
    both = await host.result("graph_neighbors", nodeId="postgres 16")
    assert (both["ok"], both["query"], both["node_id"], both["count"]) == (True, "neighbors", "postgres 16", 3)
    assert {edge["src"] for edge in both["upstream"]["edges"]} == {"Project Hjul", "Project Loket"}
    [edge] = both["downstream"]["edges"]
    assert (edge["src"], edge["type"], edge["dst"], edge["provenance"]) == (
        "Postgres 16",
        "depends on",
        "OpenSSL",
        "obs:m3",
    )
    only = await host.result("graph_neighbors", nodeId="postgres 16", direction="downstream", dbPath="x.sqlite")
    assert (only["query"], only["edges"]) == ("downstream", both["downstream"]["edges"])


async def test_a_subgraph_is_bounded(host: Host) -> None:
    found = await host.result("graph_path", nodeId="Project Hjul", hops=6)
    assert (found["query"], found["center_node_id"], found["stopped_reason"]) == ("subgraph", "Project Hjul", None)
    names = {node["id"] for node in found["nodes"]}
    assert {"Project Hjul", "Postgres 16", "OpenSSL"} <= names
    assert found["edge_count"] == len(found["edges"])
    small = await host.result("graph_path", nodeId="Project Hjul", hops=6, maxNodes=2, maxEdges=1)
    assert (small["node_count"], small["edge_count"], small["stopped_reason"]) == (2, 1, "max_nodes")
    alone = await host.result("graph_path", nodeId="Project Hjul", hops=0)
    assert (alone["node_count"], alone["edges"]) == (1, [])


async def test_impact_is_what_depends_on_it(host: Host) -> None:
    found = await host.result("graph_impact", graphPath="graph.json", path="OpenSSL")
    assert (found["query"], found["path"]) == ("impact", "OpenSSL")
    assert "Postgres 16" in {node["id"] for node in found["nodes"]}
    nothing = await host.result("graph_impact", graphPath="x", path="src/nowhere.py")
    assert (nothing["node_count"], nothing["edges"]) == (0, [])


async def test_an_unknown_direction_is_an_error(host: Host) -> None:
    found = await host.call("graph_neighbors", nodeId="OpenSSL", direction="sideways")
    assert found.is_error
    assert parsed(found)["error"]["message"].startswith("direction must be one of")
