"""Servers are known by what they say, whatever listens on their port."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from fusion.discover.servers import Server, servers
from tests.discover.fakes import MEMGRAPH, OPENAPI, Bolt, Http, listening, silent

QMD = {
    "GET /health": (200, {"status": "ok", "uptime": 12}),
    "POST /query": (400, {"error": "Missing required field: searches (array)"}),
}


async def test_each_server_is_recognised_by_its_replies() -> None:
    """Six kinds at once, each with the version that it tells."""
    replies = {
        "neo4j": {"GET /": (200, {"bolt_routing": "neo4j://x:7687", "neo4j_version": "5.26.0"})},
        "qdrant": {"GET /": (200, {"title": "qdrant - vector search engine", "version": "1.17.0"})},
        "cognee": {
            "GET /health": (200, {"status": "ready", "health": "healthy", "version": "1.5.0"}),
            "GET /openapi.json": (200, OPENAPI),
        },
        "qmd": QMD,
        "mem0": {"GET /openapi.json": (200, {"openapi": "3.1.0", "info": {"title": "Mem0 REST APIs"}})},
    }
    async with AsyncExitStack() as stack:
        ports = {kind: [await stack.enter_async_context(listening(Http(said)))] for kind, said in replies.items()}
        ports["bolt"] = [await stack.enter_async_context(listening(Bolt(MEMGRAPH)))]
        found = await servers(ports, timeout_s=20)
    base = "http://127.0.0.1:"
    assert set(found) == {
        Server("memgraph", f"bolt://127.0.0.1:{ports['bolt'][0]}"),
        Server("neo4j", f"{base}{ports['neo4j'][0]}", "5.26.0"),
        Server("qdrant", f"{base}{ports['qdrant'][0]}", "1.17.0"),
        Server("cognee", f"{base}{ports['cognee'][0]}", "1.5.0"),
        Server("qmd", f"{base}{ports['qmd'][0]}"),
        Server("mem0", f"{base}{ports['mem0'][0]}"),
    }


@pytest.mark.parametrize(
    ("agent", "version", "kind", "told"),
    [
        (MEMGRAPH, (5, 2), "memgraph", ""),
        ("Memgraph", (4, 3), "memgraph", ""),
        ("Neo4j/5.26.0", (5, 4), "neo4j", "5.26.0"),
        ("ArcadeDB/26.10", (4, 4), "bolt", ""),
        (None, (4, 4), "bolt", ""),
    ],
)
async def test_bolt_servers_are_recognised_by_their_hello(
    agent: str | None, version: tuple[int, int], kind: str, told: str
) -> None:
    """Memgraph names the Neo4j that it is compatible with and is not taken for it; who keeps silent is just Bolt."""
    fake = Bolt(agent, version)
    async with listening(fake) as port:
        (found,) = await servers({"bolt": [port]}, timeout_s=20)
    assert (found.kind, found.version) == (kind, told)
    # Until 5.0 HELLO carries the credentials, of which there are none; from 5.3 on it must name the driver.
    assert (b"scheme" in fake.hello) == (version < (5, 1))
    assert (b"bolt_agent" in fake.hello) == (version >= (5, 3))


async def test_neo4j_is_one_server_on_two_ports() -> None:
    """It answers over Bolt and over HTTP: the former is what an adapter would use."""
    http = Http({"GET /": (200, {"neo4j_version": "5.26.0"})})
    async with listening(http) as web, listening(Bolt("Neo4j/5.26.0", (5, 4))) as bolt:
        found = await servers({"bolt": [bolt], "neo4j": [web]}, timeout_s=20)
    assert found == (Server("neo4j", f"bolt://127.0.0.1:{bolt}", "5.26.0"),)


@pytest.mark.feature("a server is recognised by its reply: an open port proves nothing")
@pytest.mark.parametrize("kind", ["bolt", "neo4j", "qdrant", "cognee", "qmd", "mem0"])
async def test_an_open_port_proves_nothing(kind: str) -> None:
    """A web page, a JSON list, somebody else's API, one that hangs up and one that says nothing are none of them."""

    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    other = {"openapi": "3.1.0", "info": {"title": "My shop"}}
    async with AsyncExitStack() as stack:
        strangers = [
            Http({f"GET {path}": (200, b"<html>qdrant neo4j_version mem0 cognee</html>") for path in ("/", "/health")}),
            Http({f"GET {path}": (200, ["neo4j_version"]) for path in ("/", "/health", "/openapi.json")}),
            Http({"GET /health": (200, {"status": "ok", "uptime": 1}), "GET /openapi.json": (200, other)}),
            Http({"GET /": (200, {"title": "My shop"}), "GET /health": (302, b"")}),
            Bolt(None, (0, 0)) if kind == "bolt" else Http({}),
            rude,
        ]
        ports = [await stack.enter_async_context(listening(one)) for one in strangers]
        assert await servers({kind: ports}, timeout_s=20) == ()


async def test_a_silent_server_delays_no_other() -> None:
    """A silent one costs its own timeout and no more, while another is found; a closed port is no server."""
    async with listening(silent) as mute, listening(Http(QMD)) as port:
        found = await servers({"qdrant": [mute], "bolt": [mute], "qmd": [port]}, timeout_s=6)
    assert [server.kind for server in found] == ["qmd"]
    assert await servers({"qmd": [port]}, timeout_s=20) == ()


async def test_an_endless_reply_is_cut() -> None:
    """A server that never stops sending is left when its time is up."""

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n{")
        try:
            while True:
                writer.write(b" " * 65_536)
                await writer.drain()
        except ConnectionError:
            writer.close()

    async with listening(endless) as port:
        assert await servers({"qdrant": [port], "mem0": [port]}, timeout_s=0.3) == ()


async def test_an_older_cognee_says_nothing_on_health() -> None:
    """Its API has /api/v1/cognify, and that is its own."""
    api = {"openapi": "3.1.0", "info": {"title": "FastAPI"}, "paths": {"/api/v1/cognify": {}}}
    async with listening(Http({"GET /health": (200, b""), "GET /openapi.json": (200, api)})) as port:
        assert [server.kind for server in await servers({"cognee": [port]}, timeout_s=20)] == ["cognee"]
