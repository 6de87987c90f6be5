"""A client as it was written for openclaw-mem's gateway: its paths, bodies and headers, recorded from version 2.0.0."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from fusion.contract import ROLES, Role
from fusion.doors.http.app import create_app
from fusion.doors.http.middleware import OPENCLAW_MEM
from fusion.doors.http.serve import PortPrefix
from fusion.gateway.gateway import Gateway
from fusion.settings import Settings
from tests.patience import load

PORT = 18765


def key_of(role: Role) -> str:
    return f"a key of at least 24 characters for a {role}"


class Client:
    """The client. ``token`` is all that its configuration says besides the address."""

    def __init__(self, http: httpx.AsyncClient, token: str) -> None:
        self._http = http
        self._token = token

    async def get(self, path: str) -> httpx.Response:
        return await self._http.get(path, headers={"Authorization": f"Bearer {self._token}"})

    async def post(self, path: str, body: object, *, key: str | None = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._token}"} | ({} if key is None else {"Idempotency-Key": key})
        return await self._http.post(path, json=body, headers=headers)

    async def result(self, path: str, body: object, *, key: str | None = None) -> Any:
        """What the command behind a route printed."""
        reply = await self.post(path, body, key=key)
        assert reply.status_code == 200, reply.text
        content = reply.json()
        assert content["ok"] is True
        assert content["receipt"]["ok"] is True
        assert content["receipt"]["exit_code"] == 0
        return content["receipt"]["result"]


class Port:
    """The gateway's own port for openclaw-mem's clients, over one home with a key of each role."""

    def __init__(self, gateway: Gateway, http: httpx.AsyncClient) -> None:
        self.gateway = gateway
        self.http = http

    def client(self, role: Role) -> Client:
        return Client(self.http, key_of(role))


@asynccontextmanager
async def open_port(settings: Settings) -> AsyncIterator[Port]:
    """The port of a home, in this process."""
    async with Gateway.open(settings) as gateway:
        app = PortPrefix(create_app(gateway, settings), {PORT: OPENCLAW_MEM})
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}") as http:
            yield Port(gateway, http)


def keyed(home: Path, *, asks_all: Role | None = None, **tables: Any) -> Settings:
    """Settings with a key of each role, backends in memory and no model; the key ``asks_all`` may ask for all users."""
    keys = [
        {"name": role, "sha256": sha256(key_of(role).encode()).hexdigest(), "role": role, "all_users": role == asks_all}
        for role in ROLES
    ]
    one = {"backends": {"one": {"adapter": "adapters.inmemory:InMemory"}}}
    return load(home=home, backends_only=True, embedder={"adapter": ""}, server={"keys": keys}, **{**one, **tables})
