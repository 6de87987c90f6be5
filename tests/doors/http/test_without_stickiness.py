"""Three gateways on one PostgreSQL behind a balancer that sends each request to the next one."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from fusion.doors.http.serve import listen, url_of
from tests.faults.home import door
from tests.gateway.shelves import SharedShelf
from tests.patience import load
from tests.postgres.servers import Database

NADIA = {"user_id": "nadia"}
IN_SESSION = {**NADIA, "asker": {"session_id": "s1"}, "recipe": "hook", "timeout_ms": 60_000}
HERON = "The heron is on the roof of the workshop"
ASKED = "where is the heron?"
HOP_BY_HOP = {"host", "connection", "content-length", "transfer-encoding"}


class RoundRobin:
    """A balancer as an ASGI application: it knows no session, and counts what it sent where."""

    def __init__(self, gateways: list[httpx.AsyncClient]) -> None:
        self._gateways = gateways
        self.sent: Counter[int] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        number = self.sent.total() % len(self._gateways)
        self.sent[number] += 1
        headers = [(name, value) for name, value in request.headers.items() if name not in HOP_BY_HOP]
        path = f"{request.url.path}?{request.url.query}"
        content = await request.body()
        async with self._gateways[number].stream(request.method, path, headers=headers, content=content) as reply:
            kept = {name: value for name, value in reply.headers.items() if name not in HOP_BY_HOP}
            await StreamingResponse(reply.aiter_raw(), reply.status_code, kept)(scope, receive, send)


class Server(uvicorn.Server):
    """uvicorn without its signal handlers, which are the tests' own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@pytest.fixture(autouse=True)
def _shelves() -> Iterator[None]:
    yield
    SharedShelf.servers.clear()


@asynccontextmanager
async def balanced(folder: Path, database: Database) -> AsyncIterator[tuple[RoundRobin, httpx.AsyncClient]]:
    """The balancer, and a client of it."""
    shelf = {"adapter": "tests.gateway.shelves:SharedShelf", "address": "one"}
    more: dict[str, Any] = {"database": {"url": database.url}, "backends": {"shelf": shelf}}
    async with AsyncExitStack() as stack:
        gateways = []
        for name in "abc":
            settings = load(home=folder / name, backends_only=True, embedder={"adapter": ""}, **more)
            _, client = await stack.enter_async_context(door(settings))
            gateways.append(client)
        balancer = RoundRobin(gateways)
        listening = listen("127.0.0.1", 0)
        server = Server(uvicorn.Config(balancer, lifespan="off", log_level="error"))
        running = asyncio.create_task(server.serve(sockets=[listening]))
        async with httpx.AsyncClient(base_url=url_of(listening), timeout=60) as client:
            yield balancer, client
        server.should_exit = True
        await running


async def sent(client: httpx.AsyncClient, path: str, body: dict[str, Any], key: str = "") -> dict[str, Any]:
    reply = await client.post(path, json=body, headers={"Idempotency-Key": key} if key else {})
    assert reply.is_success, reply.text
    answered: dict[str, Any] = reply.json()
    return answered


@pytest.mark.feature("a session goes on at any gateway: it is not shown again what another one showed it")
async def test_a_session_goes_on_at_any_gateway(tmp_path: Path, postgres_database: Database) -> None:
    """It is shown a memory once, until its context begins anew, whichever gateway answers."""
    async with balanced(tmp_path, postgres_database) as (balancer, client):
        await sent(client, "/v1/memories", {"text": HERON, **NADIA})
        await sent(client, "/v1/settle", {})
        blocks = [(await sent(client, "/v1/fuse", {"query": ASKED, **IN_SESSION}))["block"] for _ in range(4)]
        assert [HERON in block for block in blocks] == [True, False, False, False]
        anew = {**IN_SESSION, "asker": {"session_id": "s1", "new_context": True}}
        assert HERON in (await sent(client, "/v1/fuse", {"query": ASKED, **anew}))["block"]
        assert HERON not in (await sent(client, "/v1/fuse", {"query": ASKED, **IN_SESSION}))["block"]
        assert min(balancer.sent.values()) >= 2


async def test_what_one_gateway_answered_another_one_goes_on_with(tmp_path: Path, postgres_database: Database) -> None:
    """A repeated Idempotency-Key, a receipt, the next page, a decision and its undo."""
    async with balanced(tmp_path, postgres_database) as (balancer, client):
        stored = [await sent(client, "/v1/memories", {"text": HERON, **NADIA}, "k") for _ in range(4)]
        assert all(one == stored[0] for one in stored)
        [listed] = (await client.get("/v1/memories", params=NADIA)).json()["memories"]
        for number in range(4):
            await sent(client, "/v1/memories", {"text": f"The crane of day {number} is in the yard", **NADIA})
        await sent(client, "/v1/settle", {})
        receipt = (await sent(client, "/v1/fuse", {"query": ASKED, **NADIA}))["receipt_id"]
        texts, cursor = [], ""
        while cursor is not None:
            asked = {**NADIA, "limit": "2", **({"cursor": cursor} if cursor else {})}
            page = (await client.get("/v1/memories", params=asked)).json()
            texts += [memory["text"] for memory in page["memories"]]
            cursor = page["next_cursor"]
        assert len(texts) == len(set(texts)) == 5
        while not (found := await client.get(f"/v1/receipts/{receipt}")).is_success:
            assert found.status_code == 404  # it is written in the background
        decided = await sent(client, "/v1/state", {"ref": listed["ref"], "archived": True, **NADIA})
        assert (await sent(client, "/v1/decisions/undo", {"decision": decided["decision"]["id"], **NADIA}))[
            "undone"
        ] == 1
        assert min(balancer.sent.values()) >= 4


@pytest.mark.feature("an MCP session over HTTP goes on at any gateway")
async def test_an_mcp_client_is_served_by_any_gateway(tmp_path: Path, postgres_database: Database) -> None:
    """The official client: each request of its session goes to another gateway."""
    async with balanced(tmp_path, postgres_database) as (balancer, client):
        mcp = httpx2.AsyncClient(timeout=60)
        async with mcp, Client(streamable_http_client(f"{client.base_url}/mcp", http_client=mcp)) as agent:
            names = {tool.name for tool in (await agent.list_tools()).tools}
            assert {"memory_store", "memory_fuse"} <= names
            for number in range(3):
                text = f"{HERON}, on day {number}"
                kept = await agent.call_tool("memory_store", {"text": text, **NADIA})
                assert not kept.is_error, kept
                await sent(client, "/v1/settle", {})
                found = await agent.call_tool("memory_fuse", {"query": f"where is the heron on day {number}?", **NADIA})
                assert text in str(found.content)
        assert min(balancer.sent.values()) >= 2
