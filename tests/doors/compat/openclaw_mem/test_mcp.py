"""openclaw-mem's MCP tools over the fused memory, driven by the official client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.types import CallToolResult, Tool

from fusion.client import AsyncClient
from fusion.contract import Role, Scope
from fusion.doors.http.app import create_app
from fusion.doors.mcp.server import server_of
from fusion.doors.mcp.tools import Caller
from fusion.gateway.decisions import StateRequest
from tests.doors.compat.openclaw_mem.client import Port, key_of, keyed, open_port

AURORA = "Project Aurora uses PostgreSQL 16 in production."
QUESTION = "Which database does project Aurora use?"
TOOLS = {
    "mem_search": ({"query", "limit"}, {"query"}),
    "mem_timeline": ({"limit", "kind"}, set()),
    "mem_get": ({"recordRef"}, {"recordRef"}),
    "mem_pack": ({"query", "limit", "budgetTokens"}, {"query"}),
    "mem_recall": (
        {"query", "mode", "limit", "scope", "model", "baseUrl", "vectorBackend"}
        | {"graphPath", "graphReadinessState", "graphStaleAfterDays"},
        {"query"},
    ),
    "mem_store": ({"text", "kind", "importance"}, {"text"}),
    "mem_status": (set(), set()),
    "mem_trust_inspect": ({"recordRef"}, {"recordRef"}),
    "graph_neighbors": ({"dbPath", "nodeId", "direction"}, {"nodeId"}),
    "graph_path": ({"dbPath", "nodeId", "hops", "direction", "maxNodes", "maxEdges"}, {"nodeId"}),
    "graph_impact": ({"graphPath", "path"}, {"graphPath", "path"}),
}
"""the arguments of each tool of openclaw-mem 2.0.0, and those that it requires"""


class Host:
    """A host of agents, with openclaw-mem's tools and a key of one role."""

    def __init__(self, port: Port, role: Role) -> None:
        self._port = port
        self._role = role

    async def call(self, name: str, **arguments: Any) -> CallToolResult:
        app = create_app(self._port.gateway, self._port.gateway.settings)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)

        async def caller_of(context: Any) -> Caller:
            return Caller(gateway, {})

        async with (
            AsyncClient.over(transport, api_key=key_of(self._role)) as gateway,
            Client(server_of("openclaw-mem", caller_of)) as client,
        ):
            return await client.call_tool(name, arguments)

    async def result(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The JSON of a result, which its receipt names."""
        found = await self.call(name, **arguments)
        assert not found.is_error, found.content
        content = parsed(found)
        assert content.pop("receipt", {}).get("tool") == name
        return content

    async def tools(self) -> list[Tool]:
        async def nobody(context: Any) -> Caller:
            raise AssertionError("nothing is called")

        async with Client(server_of("openclaw-mem", nobody)) as client:
            return list((await client.list_tools()).tools)


def parsed(found: CallToolResult) -> dict[str, Any]:
    """The JSON in a result's text, which is its structured content, too."""
    [text] = found.content
    content: dict[str, Any] = json.loads(text.text)  # type: ignore[union-attr]
    assert content == found.structured_content
    assert isinstance(content["receipt"]["latencyMs"], int)
    return content


@pytest.fixture
async def port(home: Path) -> AsyncIterator[Port]:
    async with open_port(keyed(home)) as opened:
        yield opened


@pytest.fixture
def host(port: Port) -> Host:
    return Host(port, "writer")


async def test_the_tools_have_their_names_and_arguments(host: Host) -> None:
    tools = {tool.name: tool for tool in await host.tools()}
    assert tools.keys() == TOOLS.keys()
    for name, (arguments, required) in TOOLS.items():
        schema = tools[name].input_schema
        assert (set(schema["properties"]), set(schema.get("required", ()))) == (arguments, required), name
        assert schema["additionalProperties"] is False
        assert tools[name].annotations is not None
        assert tools[name].annotations.read_only_hint is (name != "mem_store")
        assert tools[name].meta == {"approvalRequired": name == "mem_store"}


@pytest.mark.feature("openclaw-mem's MCP tools ask all memories, in its shapes: `fusion mcp --openclaw-mem`")
async def test_store_search_get_timeline_and_pack(port: Port, host: Host) -> None:
    """A day of an agent: what a tool returns names the record in the next one."""
    kept = await host.result("mem_store", text=AURORA, kind="fact", importance=0.9)
    assert kept == {"ok": True, "recordRef": "obs:m1", "id": 1}
    await port.gateway.settle()
    found = await host.result("mem_search", query=QUESTION)
    assert (found["ok"], found["count"], found["query"]) == (True, 1, QUESTION)
    [item] = found["items"]
    assert (item["recordRef"], item["id"], item["summary"]) == ("obs:m1", 1, AURORA)
    assert (item["kind"], item["tool_name"]) == ("fact", "mcp.mem_store")
    assert item["detail"]["importance"]["label"] == "must_remember"
    for named in ("obs:m1", "m1", "1", "obs:1"):
        assert (await host.result("mem_get", recordRef=named))["item"]["summary"] == AURORA
    assert [one["id"] for one in (await host.result("mem_timeline", limit=5))["items"]] == [1]
    assert (await host.result("mem_timeline", kind="decision"))["count"] == 0
    pack = await host.result("mem_pack", query=QUESTION, budgetTokens=300)
    assert AURORA in pack["bundle_text"]
    assert pack["citations"] == [{"recordRef": "obs:m1", "url": None}]
    recalled = await host.result("mem_recall", query=QUESTION, mode="lexical", scope="aurora")
    assert (recalled["kind"], recalled["mode_requested"]) == ("openclaw-mem.recall.v1", "lexical")
    assert [row["id"] for row in recalled["results"]] == [1]
    status = await host.result("mem_status")
    assert (status["schema"], status["counts"]["observations"]) == ("openclaw-mem.mcp.status.v1", 1)


@pytest.mark.row("A145", "mem_get shows nothing of a quarantined memory; its trust is shown")
async def test_a_quarantined_memory_is_not_shown(port: Port, host: Host) -> None:
    await host.result("mem_store", text=AURORA)
    await port.gateway.set_state(StateRequest("m1", Scope(), trust="quarantined"))
    assert await host.result("mem_get", recordRef="obs:m1") == {"ok": False, "item": None}
    assert (await host.result("mem_trust_inspect", recordRef="obs:m1"))["quarantined"] is True


async def test_trust_of_a_record(port: Port, host: Host) -> None:
    await host.result("mem_store", text=AURORA)
    trust = await host.result("mem_trust_inspect", recordRef="obs:m1")
    assert (trust["recordRef"], trust["trust"], trust["quarantined"]) == ("obs:m1", "unknown", False)
    assert trust["packEligibility"] == "eligible_subject_to_pack_policy"
    assert await host.result("mem_trust_inspect", recordRef="obs:99") == {"ok": False, "error": "not_found"}
    assert await host.result("mem_get", recordRef="obs:99") == {"ok": False, "item": None}


async def test_a_key_that_may_only_propose_proposes(port: Port) -> None:
    """The host may not have asked: then somebody is asked, and nothing is remembered before that."""
    waiting = await Host(port, "proposer").result("mem_store", text=AURORA)
    assert waiting == {"ok": False, "skipped": True, "reason": "needs_approval", "proposal": "p1"}
    assert (await port.gateway.status())["memories"]["current"] == 0
    [proposal] = (await port.gateway.proposals(Scope(audience="private")))["proposals"]
    assert (proposal["text"], proposal["kind"]) == (AURORA, "fact")


async def test_a_private_text_is_skipped(host: Host) -> None:
    skipped = await host.result("mem_store", text="<private>the code is 1234</private>")
    assert skipped == {"ok": False, "skipped": True, "reason": "private_marker"}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("nosuch", {}, "unknown tool: nosuch"),
        ("mem_search", {}, "query is required"),
        ("mem_search", {"query": " "}, "missing required field: query"),
        ("mem_search", {"query": "x", "sql": "drop table"}, "there is no argument 'sql'"),
        ("mem_recall", {"query": "x", "mode": "psychic"}, "mode must be one of"),
        ("mem_get", {"recordRef": "obs:"}, "recordRef"),
        ("mem_store", {"text": ""}, "missing required field: text"),
        ("mem_store", {"text": "x" * 8001}, "field too large: text"),
    ],
)
async def test_errors_have_their_shape(host: Host, name: str, arguments: dict[str, Any], message: str) -> None:
    found = await host.call(name, **arguments)
    content = parsed(found)
    assert found.is_error
    assert (content["ok"], content["receipt"]["tool"]) == (False, name)
    assert content["error"].keys() == {"type", "message"}
    assert content["error"]["message"].startswith(message)


async def test_a_reader_stores_nothing(port: Port) -> None:
    found = parsed(await Host(port, "reader").call("mem_store", text=AURORA))
    assert found["error"]["type"] == "RoleTooLow"
    assert (await port.gateway.status())["memories"]["current"] == 0
    assert (await port.gateway.proposals(Scope(audience="private")))["proposals"] == []
