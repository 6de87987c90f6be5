"""openclaw-cortex's MCP tools over all memories, driven by the official client."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client

from fusion.client import AsyncClient
from fusion.contract import Asker, Scope
from fusion.doors.mcp.server import tools_server
from fusion.doors.mcp.tools import Caller
from fusion.errors import NobodyAnswered
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.ingest.update import Change
from tests.doors.contract import Checked
from tests.doors.fakes import FakeFusion, app_over, serving
from tests.doors.test_mcp import done, refused, said
from tests.gateway.helpers import remember, small


class Stating(FakeFusion):
    """Records the changes of memories' states."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[StateRequest] = []

    async def set_state(self, request: StateRequest, *, may_raise_trust: bool = True, who: str = "") -> dict[str, Any]:
        self.states.append(request)
        return await super().set_state(replace(request, ref="m1z"), who=who)


class Tools:
    """The tools over a fake gateway: each call with a client of its own."""

    def __init__(self, fusion: FakeFusion, **fixed: str) -> None:
        self.fusion = fusion
        self._fixed = fixed

    async def call(self, name: str, **arguments: Any) -> Any:
        gateway = AsyncClient.over(Checked(app_over(self.fusion), raise_app_exceptions=False))

        async def caller_of(context: Any) -> Caller:
            return Caller(gateway, self._fixed)

        async with gateway, Client(tools_server(caller_of, cortex=True)) as client:
            return await client.call_tool(name, arguments)


@pytest.fixture
def tools() -> Tools:
    return Tools(FakeFusion())


@pytest.mark.row("A051", "openclaw-cortex's five MCP tools ask all memories, in its shapes: `fusion mcp --cortex`")
class TestShapes:
    async def test_remember(self) -> None:
        """{id, stored}; type is the kind, project the scope's, scope how long it lasts."""
        fusion = Stating()
        tools = Tools(fusion)
        sent = {"content": "Never push on Friday.", "type": "rule", "project": "hjul"}
        result = await tools.call("remember", **sent, scope="permanent", confidence=0.9)
        assert done(result) == {"id": "m0", "stored": True}
        [(memory, _, _)] = fusion.kept
        assert (memory.text, memory.kind, memory.scope.project) == (sent["content"], "rule", "hjul")
        assert (memory.scope.audience, memory.origin) == ("group", "agent")
        [change] = fusion.states
        assert (change.ref, change.lifetime, change.confidence) == ("m0", "permanent", 0.9)

    async def test_recall(self, tools: Tools) -> None:
        """{context, memory_count}, of at most 2,000 tokens unless the caller says otherwise, in its format."""
        result = await tools.call("recall", message="where do bookings live?", project="hjul")
        assert done(result) == {"context": f"<memory>[m1z] {tools.fusion.text}</memory>", "memory_count": 1}
        await tools.call("recall", message="where?", budget=500)
        first, second = tools.fusion.requests
        assert (first.budget_tokens, first.format, first.scope.project) == (2000, "cortex", "hjul")
        assert first.asker == Asker(channel="mcp")
        assert second.budget_tokens == 500

    async def test_search(self, tools: Tools) -> None:
        """{results: [{memory, score}]}, and the memory in its fields."""
        [row] = done(await tools.call("search", message="Postgres", limit=3))["results"]
        memory = row["memory"]
        assert (memory["id"], memory["content"], memory["type"]) == ("m1z", tools.fusion.text, "decision")
        assert row["score"] == 0.8

    async def test_forget(self, tools: Tools) -> None:
        """{deleted}; an id that names nothing is an error."""
        assert done(await tools.call("forget", id="m1z")) == {"deleted": True}
        assert refused(await tools.call("forget", id="m404")) == "There is no such memory here."

    async def test_stats(self, tools: Tools) -> None:
        """The number of memories, in all and by backend."""
        counted = done(await tools.call("stats"))
        assert set(counted) == {"total_memories", "superseded", "by_backend"}
        assert counted["total_memories"] == (await tools.fusion.status("default"))["memories"]["current"]

    async def test_the_text_of_a_result_is_the_same_as_json(self, tools: Tools) -> None:
        """Its clients parse it."""
        result = await tools.call("recall", message="where do bookings live?")
        assert json.loads(said(result)) == done(result)


async def test_a_fixed_scope_applies_to_every_tool() -> None:
    """The model cannot name another user, because the tools have no such argument."""
    tools = Tools(FakeFusion(), user_id="ada")
    await tools.call("recall", message="where do bookings live?")
    await tools.call("remember", content="Never push on Friday.")
    assert tools.fusion.requests[0].scope.user_id == tools.fusion.kept[0][0].scope.user_id == "ada"
    assert refused(await tools.call("recall", message="where?", user_id="berit")).startswith("user_id: there is no")


@pytest.mark.feature("the cortex's MCP tool `stats` counts the memories of the server's fixed user, and no others'")
async def test_stats_counts_the_fixed_user_alone(home: Path) -> None:
    """In all and by backend: a count of another's memories would say that there are some."""
    async with Gateway.open(small(home)) as gateway:
        (first,) = await remember(gateway, "Ada keeps bees", scope=Scope(user_id="ada"))
        await remember(gateway, "Berit has a boat", "Berit lives in Oslo", scope=Scope(user_id="berit"))
        await gateway.update(first, Change("Ada keeps goats"), Scope(user_id="ada"))
        await gateway.settle()
        fake = cast(FakeFusion, gateway)
        counted = done(await Tools(fake, user_id="ada").call("stats"))
        assert counted == {"total_memories": 1, "superseded": 1, "by_backend": {"one": 1, "two": 1}}
        nobody = done(await Tools(fake, user_id="nobody").call("stats"))
        assert nobody == {"total_memories": 0, "superseded": 0, "by_backend": {}}
        everybody = done(await Tools(fake).call("stats"))
        assert everybody["total_memories"] == 3


async def test_recall_without_an_answer_is_empty_with_a_notice() -> None:
    """As the gateway's own tools, recall and search fail open; remember does not."""
    tools = Tools(FakeFusion(error=NobodyAnswered("No memory answered.", {})))
    recalled = done(await tools.call("recall", message="where?"))
    assert (recalled["context"], recalled["memory_count"]) == ("", 0)
    assert "Memory is unavailable" in recalled["notice"]
    found = done(await tools.call("search", message="where?"))
    assert found["results"] == []


async def test_they_are_served_at_their_own_address() -> None:
    """`/mcp/cortex` of the server has the five, `/mcp` the gateway's own."""
    fusion = FakeFusion()
    async with serving(fusion) as url, Client(f"{url}/mcp/cortex") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names == ["remember", "recall", "forget", "search", "stats"]
        assert done(await client.call_tool("recall", {"message": "where?"}))["memory_count"] == 1
        assert "memory_fuse" in {tool.name for tool in (await _own(url))}


async def _own(url: str) -> Any:
    async with Client(f"{url}/mcp") as client:
        return (await client.list_tools()).tools
