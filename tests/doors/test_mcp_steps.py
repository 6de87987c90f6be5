"""The MCP tools that go on from a hit: search, timeline, get, and why a memory was shown; scope and quarantine hold."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.types import TextContent

from fusion.client import AsyncClient
from fusion.contract import Scope
from fusion.doors.http.app import create_app
from fusion.doors.mcp.server import RESULT_KEY, tools_server
from fusion.doors.mcp.tools import Caller
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.gateway.temporal_facts import FactRequest
from tests.doors.contract import Checked
from tests.gateway.helpers import remember
from tests.patience import load

NADIA, OMAR = Scope(user_id="nadia", audience="private"), Scope(user_id="omar", audience="private")
BACKENDS = {"notes": {"adapter": "adapters.markdown:Markdown", "deadline_ms": 60_000}}
TEXTS = ("The quay has four berths.", "Berth 5 is reserved for the ferry.", "The harbour master is Ines.")


@asynccontextmanager
async def agent(home: Path, **fixed: str) -> AsyncIterator[tuple[Gateway, Client]]:
    """A home, and the tools of an agent whose settings fix a part of its scope."""
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=BACKENDS)
    async with Gateway.open(settings) as opened:
        gateway = AsyncClient.over(Checked(create_app(opened, settings), raise_app_exceptions=False))

        async def caller_of(context: Any) -> Caller:
            return Caller(gateway, fixed)

        async with gateway, Client(tools_server(caller_of)) as client:
            yield opened, client


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """The result of a call for programs: some tools give models text alone."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content or (result.meta or {})[RESULT_KEY]
    return found


async def text_of(client: Client, tool: str, **arguments: Any) -> str:
    [content] = (await client.call_tool(tool, arguments)).content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.feature("MCP: an agent goes from search to timeline to get, and asks why a memory was shown")
async def test_search_timeline_get_and_why(home: Path) -> None:
    async with agent(home, user_id="nadia") as (gateway, client):
        refs = await remember(gateway, *TEXTS, scope=NADIA)
        [hit, *_] = (await called(client, "memory_search", query="Who is berth 5 reserved for?"))["results"]
        assert hit["ref"] == refs[1]
        around = await called(client, "memory_timeline", refs=[hit["ref"]], before=1, after=1)
        assert [(one["ref"], one["anchor"]) for one in around["entries"]] == [
            (refs[0], False),
            (refs[1], True),
            (refs[2], False),
        ]
        assert all(one["tokens"] > 0 for one in around["entries"])
        assert TEXTS[2] in await text_of(client, "memory_get", ref=around["entries"][2]["ref"])
        packed = await called(client, "memory_fuse", query="Who is berth 5 reserved for?")
        why = await called(client, "memory_why", ref=hit["ref"])
        assert (why["status"], why["included"]) == ("current", 2), "the search and the block"
        assert why["inclusions"][0]["receipt_id"] == packed["receipt_id"]
        assert "Berth 5" not in await text_of(client, "memory_why", ref=hit["ref"])
        small = await called(client, "memory_timeline", refs=[refs[1]], budget_tokens=1)
        assert [one["ref"] for one in small["entries"]] == [refs[1]]
        assert "raise budget_tokens" in await text_of(client, "memory_timeline", refs=[refs[1]], budget_tokens=1)


@pytest.mark.feature("MCP: timeline, why and facts show nothing of other users, and nothing that is quarantined")
async def test_scope_and_quarantine_hold(home: Path) -> None:
    async with agent(home, user_id="nadia") as (gateway, client):
        [mine, bad] = await remember(gateway, TEXTS[0], TEXTS[1], scope=NADIA)
        [theirs] = await remember(gateway, TEXTS[2], scope=OMAR)
        await gateway.assert_fact(FactRequest("berth 5", "status", "reserved", (theirs,), OMAR))
        await gateway.set_state(StateRequest(bad, NADIA, trust="quarantined", why="planted"))
        around = await called(client, "memory_timeline", refs=[mine, theirs, bad])
        assert [one["ref"] for one in around["entries"]] == [mine]
        assert set(around["missing"]) == {theirs, bad}
        assert (await client.call_tool("memory_why", {"ref": theirs})).is_error
        why = await called(client, "memory_why", ref=bad)
        assert why["status"] == "quarantined"
        assert why.keys().isdisjoint({"source", "document", "speaker"})
        assert (await called(client, "memory_facts", subject="berth 5"))["facts"] == []
        assert (await client.call_tool("memory_facts", {"subject": "berth 5", "user_id": "omar"})).is_error


@pytest.mark.feature("MCP: an agent reads the facts about a subject, as of a time, and with what ended")
async def test_facts(home: Path) -> None:
    async with agent(home, user_id="nadia") as (gateway, client):
        [source] = await remember(gateway, "The API gateway went live in March.", scope=NADIA)
        said = {"subject": "api-gateway", "predicate": "status", "sources": (source,), "scope": NADIA}
        for value, month in (("live", 3), ("retired", 6)):
            since = datetime(2026, month, 1, tzinfo=UTC)
            await gateway.assert_fact(FactRequest(object=value, valid_from=since, **said))  # type: ignore[arg-type]
        [now] = (await called(client, "memory_facts", subject="api-gateway"))["facts"]
        assert (now["text"], now["sources"], now["reasons"]) == ("api-gateway status retired", [f"obs:{source}"], [])
        [then] = (await called(client, "memory_facts", subject="api-gateway", at="2026-04-01"))["facts"]
        assert then["text"] == "api-gateway status live"
        whole = (await called(client, "memory_facts", subject="api-gateway", history=True))["facts"]
        assert [one["status"] for one in whole] == ["superseded", "active"]
        shown = await text_of(client, "memory_facts", subject="api-gateway")
        assert f"[obs:{source}] api-gateway status retired (active from 2026-06-01" in shown
        assert "No fact about" in await text_of(client, "memory_facts", subject="soap")


async def test_the_schemas_are_small(home: Path) -> None:
    """An agent reads them in every conversation."""
    async with agent(home) as (_, client):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    for name in ("memory_timeline", "memory_why", "memory_facts"):
        assert len(tools[name].model_dump_json()) < 4_000
