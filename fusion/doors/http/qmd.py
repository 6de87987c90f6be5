"""QMD's HTTP routes over the fused memory, at `PREFIX` and on a port of their own; its MCP server is beside them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from starlette.applications import Starlette
from starlette.types import ASGIApp

from fusion.doors import schemas, validation
from fusion.doors.compat.qmd.library import Library
from fusion.doors.compat.qmd.questions import MISSING, question_of
from fusion.doors.http.middleware import QMD as PREFIX
from fusion.doors.http.routing import context_of, reply, while_connected
from fusion.doors.in_process import client_for
from fusion.errors import BadInput


def add_routes(app: Starlette) -> None:
    """Add the routes to an application, whose own routes answer them."""
    app.add_route(f"{PREFIX}/health", _health(time.monotonic()), methods=["GET"])
    for path in ("/query", "/search"):
        app.add_route(f"{PREFIX}{path}", _query(app), methods=["POST"])


def _health(started: float) -> Callable[[Request], Awaitable[Response]]:
    """The route that says that the server runs, and for how many seconds; it needs no key."""

    async def endpoint(request: Request) -> Response:
        return reply({"status": "ok", "uptime": int(time.monotonic() - started)})

    return endpoint


def _query(app: ASGIApp) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        question = question_of(await _body_of(request))
        given = schemas.in_query(schemas.Asking, request.query_params.multi_items())
        (await context_of(request)).permit(given)
        scope = given.model_dump(exclude_unset=True, exclude={"all_users"})
        async with client_for(request.scope, app) as client:
            library = Library(client, scope, given.all_users)
            return reply({"results": await while_connected(request, library.query(question))})

    return endpoint


async def _body_of(request: Request) -> dict[str, Any]:
    """The object that a request sends. QMD has a plain ``query`` in MCP alone. Raises BadInput."""
    sent = await request.body()
    content = validation.content_of(sent) if sent.strip() else {}
    if not isinstance(content, dict) or not isinstance(content.get("searches"), list):
        raise BadInput(MISSING)
    return {name: value for name, value in content.items() if name != "query"}
