"""The gateway's own port for mem0's clients, in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from fusion.contract import Role
from fusion.doors.http.app import create_app
from fusion.doors.http.middleware import MEM0
from fusion.doors.http.serve import PortPrefix
from fusion.gateway.gateway import Gateway
from fusion.settings import Settings
from tests.doors.compat.openclaw_mem.client import key_of

PORT = 8888


class Port:
    """The port, over one home with a key of each role. Each request has the writer's key, unless it names another."""

    def __init__(self, gateway: Gateway, http: httpx.AsyncClient) -> None:
        self.gateway = gateway
        self.http = http

    async def send(self, method: str, path: str, body: object = None, *, role: Role = "writer", **query: Any) -> Any:
        """The reply to a request with the key that mem0's client sends."""
        headers = {"Authorization": f"Token {key_of(role)}"}
        return await self.http.request(method, path, json=body, params=query or None, headers=headers)

    async def result(self, method: str, path: str, body: object = None, **query: Any) -> Any:
        """The content of a reply that must be good."""
        reply = await self.send(method, path, body, **query)
        assert reply.status_code == 200, reply.text
        return reply.json()

    async def added(self, text: str, **more: Any) -> str:
        """The id of a memory that was added as it is; every backend has it."""
        body = {"messages": [{"role": "user", "content": text}], "infer": False, "user_id": "ada", **more}
        (one,) = (await self.result("POST", "/memories", body))["results"]
        await self.gateway.settle()
        found: str = one["id"]
        return found


@asynccontextmanager
async def open_port(settings: Settings) -> AsyncIterator[Port]:
    """The port of a home."""
    async with Gateway.open(settings) as gateway:
        app = PortPrefix(create_app(gateway, settings), {PORT: MEM0})
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}") as http:
            yield Port(gateway, http)
