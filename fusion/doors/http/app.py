"""The HTTP application: the routes, the drop-in routes of other systems, `/mcp`, and error replies.

`middleware.Gate` refuses requests before they reach it; `Gateway` does the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

import fusion as package
from fusion import problem
from fusion.doors import schemas, validation
from fusion.doors.http import inspector, mem0, openclaw_mem, qmd
from fusion.doors.http.middleware import PUBLIC, QMD, Gate, ProblemResponse, Rules
from fusion.doors.http.openapi import DOCS, OPENAPI, docs_page, document_route
from fusion.doors.http.routes import router
from fusion.doors.http.routing import ClientGone, RequestContext, context_of, reply, while_connected
from fusion.doors.http.streaming import no_lines
from fusion.doors.inspector.sessions import SIGNED_OUT
from fusion.doors.quarantine import reads_quarantined
from fusion.doors.roles import require_role, role_of_drop_in
from fusion.errors import BadInput, FusionError
from fusion.extension import Route as DropIn
from fusion.upkeep.job import no_progress

if TYPE_CHECKING:
    from fusion.doors.mcp import ToolSet
    from fusion.gateway.gateway import Gateway
    from fusion.settings import Settings


def create_app(gateway: Gateway, settings: Settings, *, local_token: str | None = None) -> Gate:
    """The ASGI application over an open `Gateway`. Every request needs ``local_token``, the home's, or an API key."""
    app = FastAPI(
        title="memory-fusion",
        version=package.__version__,
        summary="Ask all of an agent's memories at once.",
        openapi_url=None,  # FastAPI's route builds the document on the event loop
        docs_url=None,  # FastAPI's page loads scripts from a CDN
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
    probes = {compat_path(name, one) for name, many in gateway.routes().items() for one in many if one.probe}
    rules = Rules.of(settings, local_token=local_token)
    gate = Gate(
        app,
        rules,
        probes=PUBLIC | probes,
        require=gateway.require_home,
        signed_out=settings.home / SIGNED_OUT,
        rates=gateway.rates,
    )

    app.state.context = RequestContext(gateway, settings, gate)
    app.router.routes.extend(router.routes)  # not include_router, which builds every route again
    for backend, drop_ins in gateway.routes().items():
        for drop_in in drop_ins:
            app.add_route(
                compat_path(backend, drop_in), drop_in_endpoint(gateway, backend, drop_in), methods=[drop_in.method]
            )
    inspector.add_routes(app)
    openclaw_mem.add_routes(app)
    mem0.add_routes(app)
    qmd.add_routes(app)
    app.router.routes.append(Route("/mcp", Mcp(app), methods=["POST"]))
    app.router.routes.append(Route("/mcp/cortex", Mcp(app, "cortex"), methods=["POST"]))
    app.router.routes.append(Route("/mcp/openclaw-mem", Mcp(app, "openclaw-mem"), methods=["POST"]))
    for path in ("/mcp/qmd", f"{QMD}/mcp"):
        app.router.routes.append(Route(path, Mcp(app, "qmd"), methods=["POST"]))
    app.add_route(OPENAPI, document_route(needs_key=bool(rules.keys)), include_in_schema=False)
    app.add_route(DOCS, docs_page, include_in_schema=False)
    return gate


OWNER = ("user_id", "agent_id", "all_users")
"""the parameters that say whose memories a drop-in route asks for"""


def compat_path(backend: str, route: DropIn) -> str:
    """The path of a drop-in route of a backend."""
    return f"/compat/{backend}{route.path}"


def drop_in_endpoint(gateway: Gateway, backend: str, route: DropIn) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of a drop-in route. The other system has no users, so its scope is the whole tenant.

    The address of a route that asks may name one: ``?user_id=ada``.
    """

    async def endpoint(request: Request) -> Response:
        needed = role_of_drop_in(route.method, asks=route.asks)
        require_role(request.scope["role"], needed, f"{route.method} {compat_path(backend, route)}")
        sent = validation.content_of(body) if (body := await request.body()) else {}
        if not isinstance(sent, dict):
            raise BadInput("The body is not a JSON object.")
        named = dict(request.query_params)
        given = {name: named.pop(name) for name in OWNER if route.asks and name in named}
        asking = schemas.in_query(schemas.Asking, list(given.items()))
        context = await context_of(request)
        context.permit(asking)
        arguments = {**named, **sent, **request.path_params}
        scope, all_users = asking.scope(request.scope["tenant"]), asking.all_users
        reads = reads_quarantined(context.role)
        work = gateway.serve(
            backend, route, scope, arguments, no_lines, no_progress, all_users=all_users, reads_quarantined=reads
        )
        return reply(await while_connected(request, work))

    return endpoint


class Mcp:
    """The route `/mcp`, or that of another system's tools.

    It imports the MCP SDK on the first request, in a thread: most gateways never need it.
    """

    def __init__(self, app: ASGIApp, tools: ToolSet = "fusion") -> None:
        self._app = app
        self._tools: ToolSet = tools
        self._mcp: ASGIApp | None = None

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if self._mcp is None:
            self._mcp = await asyncio.to_thread(_mcp_app, self._app, self._tools)
        await self._mcp(scope, receive, send)


def _mcp_app(app: ASGIApp, tools: ToolSet) -> ASGIApp:
    from fusion.doors.mcp.server import http_app

    return http_app(app, tools)


async def on_error(request: Request, error: Exception) -> Response:
    """The reply to an error: problem details."""
    if isinstance(error, FusionError):
        return ProblemResponse.of(error)
    if isinstance(error, RequestValidationError):  # each location begins with body, query or header
        errors = [{**one, "loc": one["loc"][1:]} for one in error.errors()]
        return ProblemResponse.of(BadInput(validation.summary(errors)))
    if isinstance(error, HTTPException):
        detail = _HTTP_DETAIL.get(error.status_code, error.detail)
        headers = {"allow": allowed(request)} if error.status_code == 405 else error.headers
        return ProblemResponse(problem.http_problem(error.status_code, detail), headers)
    if isinstance(error, ClientGone):
        return Response(status_code=499)  # nginx's status for a closed connection, for logs
    # Only internal errors come here. The log has the traceback under the id that the caller gets.
    detail = f"The gateway made a mistake. Its log says more, under request {request.scope.get('request_id')}."
    return ProblemResponse(problem.http_problem(500, detail))


def allowed(request: Request) -> str:
    """The methods of all routes with the path of a request. Starlette names those of the first route only."""
    routes = (route for route in request.app.routes if route.matches(request.scope)[0] is Match.PARTIAL)
    return ", ".join(sorted({method for route in routes for method in route.methods or ()}))


_HTTP_DETAIL = {
    404: "There is no such route; /openapi.json lists them.",
    405: "This route has another method; the Allow header names it.",
}
