"""QMD's routes and MCP tools over the fused memory: the shapes of QMD 2.8.3, and our own adapter as a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.types import CallToolResult, EmbeddedResource, TextContent, TextResourceContents

from adapters.qmd import Qmd
from fusion.client import AsyncClient
from fusion.contract import Role
from fusion.doors.compat.qmd.addresses import docid_of
from fusion.doors.http.app import create_app
from fusion.doors.http.middleware import QMD
from fusion.doors.http.serve import PortPrefix, own_ports
from fusion.doors.mcp.server import server_of
from fusion.doors.mcp.tools import Caller
from fusion.gateway.gateway import Gateway
from tests.backend_contract import make_query
from tests.doors.compat.openclaw_mem.client import key_of, keyed
from tests.doors.fakes import serving
from tests.patience import opening_at

PORT = 8181
LINES = ["Harbour log", "The harbour has a lighthouse.", "The ferry leaves at nine."]
QUESTION = {
    "searches": [{"type": "lex", "query": "lighthouse"}, {"type": "vec", "query": "Does the harbour have a light?"}]
}


@pytest.fixture
async def gateway(home: Path) -> AsyncIterator[Gateway]:
    async with Gateway.open(keyed(home)) as opened:
        yield opened


@pytest.fixture
async def http(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    """A client at the port, with a reader's key; the document log.md and a memory of nobody's document are kept."""
    app = PortPrefix(create_app(gateway, gateway.settings), {PORT: QMD})
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {key_of('reader')}"}
    async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}", headers=headers) as client:
        async with owner(gateway) as memory:
            drafts: list[dict[str, Any]] = [
                {"text": text, "document": "notes/log 1.md", "position": number, "unit": "line"}
                for number, text in enumerate(LINES, 1)
            ]
            await memory.remember([*drafts, {"text": "Ada keeps three bees at the harbour lighthouse."}])
        await gateway.settle()
        yield client


@asynccontextmanager
async def owner(gateway: Gateway, role: Role = "operator") -> AsyncIterator[AsyncClient]:
    """A client of the gateway's own routes with a key of a role."""
    transport = httpx.ASGITransport(create_app(gateway, gateway.settings), raise_app_exceptions=False)
    async with AsyncClient.over(transport, api_key=key_of(role)) as client:
        yield client


@pytest.mark.parametrize("path", ["/query", "/search"])
async def test_results_have_the_fields_of_qmd(http: httpx.AsyncClient, path: str) -> None:
    reply = await http.post(path, json=QUESTION)
    assert reply.status_code == 200, reply.text
    results = reply.json()["results"]
    by_file = {one["file"]: one for one in results}
    assert len(by_file) == len(results)
    found = by_file["qmd://memory/notes/log%201.md"]
    assert set(found) == {"docid", "file", "title", "score", "context", "line", "snippet"}
    assert (found["title"], found["context"]) == ("log 1.md", None)
    assert f"{found['line']}: {LINES[found['line'] - 1]}" in found["snippet"]
    assert all(0 <= one["score"] <= 1 for one in results)
    assert all(one["docid"].startswith("#") and int(one["docid"][1:], 16) for one in results)
    assert [one["score"] for one in results] == sorted((one["score"] for one in results), reverse=True)


async def test_limits_negations_and_collections_hold(http: httpx.AsyncClient) -> None:
    async def files(**more: Any) -> list[str]:
        body = {"searches": [{"type": "lex", "query": "lighthouse -bees"}], **more}
        return [one["snippet"] for one in (await http.post("/query", json=body)).json()["results"]]

    assert await files()
    assert not [snippet for snippet in await files() if "bees" in snippet]
    assert await files(collections=["memory"]) == await files()
    assert await files(collections=["elsewhere"]) == []
    assert await files(minScore=1.0) == [] or len(await files(minScore=1.0)) <= len(await files())
    both = {"searches": [{"type": "vec", "query": "the lighthouse"}], "limit": 1}
    assert len((await http.post("/query", json=both)).json()["results"]) == 1


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "Missing required field: searches (array)"),
        ({"query": "lighthouse"}, "Missing required field: searches (array)"),
        ([1], "Missing required field: searches (array)"),
        ({"searches": ["lighthouse"]}, "searches: each is"),
        ({"searches": [{"type": "graph", "query": "x"}]}, "searches: each is"),
        ({"searches": [{"type": "lex", "query": "x"}] * 101}, "100 are the most"),
    ],
)
async def test_a_wrong_request_is_400_in_qmd_s_shape(http: httpx.AsyncClient, body: Any, says: str) -> None:
    reply = await http.post("/query", json=body)
    assert (reply.status_code, list(reply.json())) == (400, ["error"])
    assert says in reply.json()["error"]


async def test_a_question_without_words_finds_nothing(http: httpx.AsyncClient) -> None:
    for searches in ([], [{"type": "lex", "query": "  "}], [{"type": "lex", "query": '-"a b"'}]):
        assert (await http.post("/query", json={"searches": searches})).json() == {"results": []}


async def test_health_needs_no_key_and_a_question_does(http: httpx.AsyncClient) -> None:
    health = await http.get("/health", headers={"Authorization": ""})
    assert (health.status_code, health.json()["status"]) == (200, "ok")
    assert health.json()["uptime"] >= 0
    refused = await http.post("/query", json=QUESTION, headers={"Authorization": ""})
    assert (refused.status_code, list(refused.json())) == (401, ["error"])


def test_it_has_a_port_of_its_own_if_asked(home: Path) -> None:
    assert [*own_ports(keyed(home, qmd={"port": PORT}))] == [("qmd.port", PORT, "/qmd")]


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FUSION_API_KEY", key_of("reader"))
    return "FUSION_API_KEY"


@pytest.mark.feature("our adapter of QMD asks our own drop-in for QMD, and reads its results")
async def test_our_adapter_is_a_client_of_our_drop_in(gateway: Gateway, http: httpx.AsyncClient, key: str) -> None:
    app = create_app(gateway, gateway.settings)
    async with serving(None, gateway.settings, app=app) as url:  # type: ignore[arg-type]
        adapter = await Qmd.open(opening_at(f"{url}/qmd", api_key_env=key))
        try:
            assert (await adapter.describe()).degraded is False
            hits = await adapter.search(make_query("Does the harbour have a lighthouse?"))
        finally:
            await adapter.close()
    by_id = {hit.native_id: hit for hit in hits}
    hit = by_id["qmd://memory/notes/log%201.md"]
    assert hit.place is not None
    assert LINES[hit.place.start - 1] in hit.text
    assert any("three bees" in hit.text for hit in hits)


# MCP -------------------------------------------------------------------------------------------------------------


async def call(gateway: Gateway, name: str, **arguments: Any) -> CallToolResult:
    """The result of a tool for a host with a reader's key."""
    async with owner(gateway, "reader") as memory:

        async def caller_of(context: Any) -> Caller:
            return Caller(memory, {})

        async with Client(server_of("qmd", caller_of)) as session:
            return await session.call_tool(name, arguments)


def texts(result: CallToolResult) -> list[str]:
    """The texts of a result, also those of its resources."""
    found = []
    for one in result.content:
        if isinstance(one, TextContent):
            found.append(one.text)
        elif isinstance(one, EmbeddedResource) and isinstance(one.resource, TextResourceContents):
            found.append(one.resource.text)
    return found


@pytest.mark.feature("hosts of QMD's MCP tools query, get, multi_get and status reach the fused memory")
async def test_what_query_finds_is_read_by_its_file_and_by_its_docid(gateway: Gateway, http: httpx.AsyncClient) -> None:
    result = await call(gateway, "query", query="Does the harbour have a lighthouse?")
    assert result.structured_content is not None
    results = result.structured_content["results"]
    document = next(one for one in results if one["file"].startswith("qmd://memory/notes/"))
    memory = next(one for one in results if one is not document)
    whole = "\n".join(f"{number}: {line}" for number, line in enumerate(LINES, 1))
    for name in (document["file"], document["docid"], document["file"].removeprefix("qmd://"), "notes/log 1.md"):
        assert texts(await call(gateway, "get", file=name)) == [whole], name
    assert texts(await call(gateway, "get", file=f"{document['docid']}:2:1", lineNumbers=False))[0].startswith(LINES[1])
    assert texts(await call(gateway, "get", file=document["file"], fromLine=3)) == [f"3: {LINES[2]}"]
    assert "three bees" in texts(await call(gateway, "get", file=memory["docid"]))[0]
    many = texts(await call(gateway, "multi_get", pattern=f"{document['docid']},{memory['docid']},#ffffff"))
    assert many[0].startswith("Errors:\nDocument not found: #ffffff")
    assert many[1] == whole
    assert texts(await call(gateway, "multi_get", pattern="notes/*.md")) == [whole]
    assert "SKIPPED" in texts(await call(gateway, "multi_get", pattern="notes/*.md", maxBytes=10))[0]
    status = (await call(gateway, "status")).structured_content
    assert status is not None
    assert (status["totalDocuments"], status["collections"][0]["name"]) == (4, "memory")


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("query", {}, "either 'query'"),
        ("query", {"query": "x", "searches": [{"type": "lex", "query": "x"}]}, "and not both"),
        ("query", {"searches": [{"type": "lex", "query": "x"}] * 11}, "10 are the most"),
        ("get", {}, "file is required"),
        ("get", {"file": "nowhere.md"}, "Document not found"),
        ("get", {"file": "#fffffffffffffff"}, "no record with so large a number"),
        ("get", {"file": "notes/log 1.md", "fromLine": 0}, "fromLine must be a number"),
        ("multi_get", {"pattern": "nothing*.md"}, "No files matched"),
        ("forget", {}, "There is no tool"),
    ],
)
async def test_a_wrong_call_is_a_tool_error(
    gateway: Gateway, http: httpx.AsyncClient, name: str, arguments: Any, says: str
) -> None:
    result = await call(gateway, name, **arguments)
    assert result.is_error
    assert says in texts(result)[0]


async def test_what_is_quarantined_is_neither_found_nor_read(gateway: Gateway, http: httpx.AsyncClient) -> None:
    async with owner(gateway) as memory:
        draft = {"text": "The lighthouse key is under the mat.", "document": "notes/log 1.md", "position": 4}
        (kept,) = (await memory.remember(draft))["memories"]
        await memory.set_state(kept["ref"], trust="quarantined", why="a stranger's")
    await gateway.settle()
    assert "mat" not in (await http.post("/query", json=QUESTION)).text
    for name in (docid_of(kept["ref"]), f"memory/{kept['ref']}"):
        found = await call(gateway, "get", file=name)
        assert found.is_error
        assert "Document not found" in texts(found)[0]
    assert "mat" not in texts(await call(gateway, "get", file="notes/log 1.md"))[0]
