"""A client of the gateway's own routes, for a request that the gate has let in already."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from fusion.client import AsyncClient

RIGHTS = ("tenant", "request_id", "may_ask_all", "role", "key_name")
"""the members of a request's scope that say what it may do"""


@asynccontextmanager
async def client_for(scope: Scope, app: ASGIApp) -> AsyncIterator[AsyncClient]:
    """A client of the routes of ``app`` with the rights of a request.

    It calls them without the gate: the request holds its place there and must not wait for a second one.
    """
    passed = {name: scope[name] for name in RIGHTS}

    async def inside(inner: Scope, receive: Receive, send: Send) -> None:
        await app({**inner, **passed}, receive, send)

    transport = httpx.ASGITransport(inside, raise_app_exceptions=False)
    async with AsyncClient.over(transport) as client:
        yield client
