"""The HTTP door: the application around the routes, and how errors become replies.

What decides stands behind it, in `Gateway`; what refuses before it, in `gate`.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

import fusion as package
from fusion import problem
from fusion.contract import Scope
from fusion.doors.http import schemas
from fusion.doors.http.middleware import PUBLIC, Gate, Problem, Rules
from fusion.doors.http.openapi import DOCS, document, shown
from fusion.doors.http.routes import ClientGone, Served, reply, router, while_connected
from fusion.doors.http.streaming import no_lines, no_progress
from fusion.errors import BadInput, FusionError
from fusion.extension import Route as DropIn

if TYPE_CHECKING:
    from fusion.gateway.gateway import Gateway
    from fusion.settings import Settings


def create_app(fusion: Gateway, settings: Settings, *, local_token: str | None = None) -> Gate:
    """The ASGI application over an open `Gateway`; ``local_token`` is the home's, which every request needs."""
    app = FastAPI(
        title="memory-fusion",
        version=package.__version__,
        summary="Ask all of an agent's memories at once.",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={
            FusionError: on_error,
            RequestValidationError: on_error,
            HTTPException: on_error,
            ClientGone: on_error,
            Exception: on_error,
        },
    )
    probes = {compat_path(name, one) for name, many in fusion.routes().items() for one in many if one.probe}
    rules = Rules.of(settings, local_token=local_token)
    gate = Gate(app, rules, probes=PUBLIC | probes, require=fusion.require_home)

    app.state.served = Served(fusion, settings, gate)
    app.router.routes.extend(router.routes)  # as they are: to include them would build each a second time
    for backend, drop_ins in fusion.routes().items():
        for drop_in in drop_ins:
            app.add_route(compat_path(backend, drop_in), dropped_in(fusion, backend, drop_in), methods=[drop_in.method])
    app.router.routes.append(Route("/mcp", Mcp(app), methods=["POST"]))
    app.openapi = lambda: document(needs_key=bool(rules.keys))  # type: ignore[method-assign]
    app.add_route(DOCS, shown, include_in_schema=False)
    return gate


def compat_path(backend: str, route: DropIn) -> str:
    return f"/compat/{backend}{route.path}"


def dropped_in(fusion: Gateway, backend: str, route: DropIn) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of a route of another system's, which knows no users: it is asked for everybody's of a tenant."""

    async def endpoint(request: Request) -> Response:
        sent = schemas.content_of(body) if (body := await request.body()) else {}
        if not isinstance(sent, dict):
            raise BadInput("The body is not a JSON object.")
        given = {**request.query_params, **sent, **request.path_params}
        scope = Scope(request.scope["tenant"], audience="private")
        asked = fusion.serve(backend, route, scope, given, no_lines, no_progress)
        return reply(await while_connected(request, asked))

    return endpoint


class Mcp:
    """`/mcp`. The SDK behind it is imported when somebody first asks, in a thread: most gateways never need it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._door: ASGIApp | None = None

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if self._door is None:
            module = await asyncio.to_thread(importlib.import_module, "fusion.doors.mcp.server")
            self._door = cast("ASGIApp", module.http_app(self._app))
        await self._door(scope, receive, send)


async def on_error(request: Request, error: Exception) -> Response:
    """Every error as problem details."""
    if isinstance(error, FusionError):
        return Problem.of(error)
    if isinstance(error, RequestValidationError):  # its places begin with where the value stood: body, query, header
        found = [{**one, "loc": one["loc"][1:]} for one in error.errors()]
        return Problem.of(BadInput(schemas.said(found)))
    if isinstance(error, HTTPException):
        detail = _HTTP_DETAIL.get(error.status_code, error.detail)
        headers = {"allow": allowed(request)} if error.status_code == 405 else error.headers
        return Problem(problem.http_problem(error.status_code, detail), headers)
    if isinstance(error, ClientGone):
        return Response(status_code=499)  # nginx's number for it; nobody reads this, but a log may
    # Only our own mistakes come here. The log has the traceback; the caller gets what finds it there.
    detail = f"The gateway made a mistake. Its log says more, under request {request.scope.get('request_id')}."
    return Problem(problem.http_problem(500, detail))


def allowed(request: Request) -> str:
    """The methods of all routes that have the path of a request; Starlette names those of the first."""
    routes = (route for route in request.app.routes if route.matches(request.scope)[0] is Match.PARTIAL)
    return ", ".join(sorted({method for route in routes for method in route.methods or ()}))


_HTTP_DETAIL = {
    404: "There is no such route; /openapi.json lists them.",
    405: "This route has another method; the Allow header names it.",
}
