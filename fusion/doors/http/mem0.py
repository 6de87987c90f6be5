"""mem0's routes over the fused memory, at `PREFIX` and on a port of their own.

There are those of its own server, and those that `MemoryClient` of its package calls. A client that was written for
them finds the same paths and fields; what a key may do is decided by the routes of ours that they call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from fusion.doors import validation
from fusion.doors.compat.mem0 import requests
from fusion.doors.compat.mem0.memories import MAX_RESULTS, PAGE, Memories
from fusion.doors.compat.mem0.requests import Body
from fusion.doors.http.middleware import MEM0 as PREFIX
from fusion.doors.http.routing import RequestContext, context_of, reply, while_connected
from fusion.doors.in_process import client_for
from fusion.errors import BadInput

TOP_K = 20
"""results of a search that does not say how many"""
MAX_PAGE = 1_000_000
ORGANISATION, PROJECT = "memory-fusion", "home"
NO_RESET = (
    "A home is not reset by one request. Delete what one user, agent or run has: DELETE /memories?user_id=…; to remove "
    "everything, stop the server and delete the home's folder"
)
NO_EXPORT = "Memories are not rewritten by a schema here. `fusion export` writes everything that a user has"
NO_SUMMARY = "There are no summaries of exports here. POST /v1/fuse packs what answers a question"
NO_PROFILE = "There are no profiles of users here. POST /v1/fuse says what is known of one"
NO_WEBHOOK = "The server calls no address that a client names. GET /v1/memories has what is new"
NO_CONFIGURE = "This server is configured by fusion.toml in its home, not by a client"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to one of the routes: its body, its query, the id in its path, its rights, and the memory."""

    body: Body
    query: Mapping[str, str]
    id_: str
    context: RequestContext
    memories: Memories
    kind: str = ""
    """the type of an entity in the path"""


async def ping(asked: Asked) -> dict[str, Any]:
    """Say that the key is good. The client does not start without an organisation and a project, so it gets names."""
    return {"status": "ok", "org_id": ORGANISATION, "project_id": PROJECT, "user_email": None}


async def add(asked: Asked) -> dict[str, Any]:
    """Remember messages."""
    return await asked.memories.add(requests.drafts_of(asked.body))


async def search(asked: Asked) -> dict[str, Any]:
    """The best memories for a query."""
    limit = requests.integer(asked.body, "limit", TOP_K, MAX_RESULTS)
    return await asked.memories.search(
        requests.text(asked.body, "query"),
        requests.filter_of(asked.body),
        limit=requests.integer(asked.body, "top_k", limit, MAX_RESULTS),
        threshold=requests.share(asked.body, "threshold"),
    )


async def list_all(asked: Asked) -> dict[str, Any]:
    """A page of memories, newest first: of owners in the query, or in the body. Without them it is of all users."""
    given = {**asked.query, **asked.body}
    page = requests.integer(given, "page", 1, MAX_PAGE)
    size = requests.integer(given, "page_size", requests.integer(given, "top_k", PAGE, PAGE), PAGE)
    which = requests.filter_of(given)
    if which.any_owner or not which.owners:
        asked.context.permit_all()
    found = await asked.memories.all(which, page=page, size=size)
    next_page = page + 1 if page * size < found["count"] else None
    return {**found, "next": _page(next_page, size), "previous": _page(page - 1 or None, size)}


async def get(asked: Asked) -> dict[str, Any]:
    """One memory."""
    return await asked.memories.get(asked.id_)


async def update(asked: Asked) -> dict[str, Any]:
    """Replace the text of a memory, or say when it ends."""
    return await asked.memories.update(asked.id_, **requests.changes_of(asked.body))


async def update_batch(asked: Asked) -> dict[str, Any]:
    """Replace the texts of several memories, or none of them."""
    entries = requests.batch_of(asked.body)
    return await asked.memories.update_each([(entry["memory_id"], requests.changes_of(entry)) for entry in entries])


async def delete_batch(asked: Asked) -> dict[str, Any]:
    """Forget several memories, or none of them."""
    return await asked.memories.delete_each([entry["memory_id"] for entry in requests.batch_of(asked.body)])


async def feedback(asked: Asked) -> dict[str, Any]:
    """Keep whether a memory was useful."""
    return await asked.memories.feedback(requests.text(asked.body, "memory_id"), requests.verdict_of(asked.body))


async def entities(asked: Asked) -> dict[str, Any]:
    """The users, agents and runs that have memories. It names all users."""
    asked.context.permit_all()
    return await asked.memories.entities()


async def delete_entity(asked: Asked) -> dict[str, Any]:
    """Forget all memories of one user, agent or run."""
    return await asked.memories.delete_entity(asked.kind, asked.id_)


async def delete(asked: Asked) -> dict[str, Any]:
    """Forget one memory."""
    return await asked.memories.delete(asked.id_)


async def delete_all(asked: Asked) -> dict[str, Any]:
    """Forget all memories of a user, an agent or a run."""
    return await asked.memories.delete_all(requests.filter_of(asked.query))


async def history(asked: Asked) -> list[dict[str, Any]]:
    """The changes of one memory."""
    return await asked.memories.history(asked.id_)


Serve = Callable[[Asked], Coroutine[Any, Any, object]]
ROUTES: Mapping[tuple[str, str], Serve] = {
    # of mem0's own server
    ("POST", "/memories"): add,
    ("GET", "/memories"): list_all,
    ("DELETE", "/memories"): delete_all,
    ("GET", "/memories/{id}"): get,
    ("PUT", "/memories/{id}"): update,
    ("DELETE", "/memories/{id}"): delete,
    ("GET", "/memories/{id}/history"): history,
    ("POST", "/search"): search,
    # of the package's client; its older versions call those with v1 and v2
    ("GET", "/v1/ping/"): ping,
    ("POST", "/v1/memories/"): add,
    ("POST", "/v3/memories/add/"): add,
    ("GET", "/v1/memories/"): list_all,
    ("POST", "/v2/memories/"): list_all,
    ("POST", "/v3/memories/"): list_all,
    ("POST", "/v1/memories/search/"): search,
    ("POST", "/v2/memories/search/"): search,
    ("POST", "/v3/memories/search/"): search,
    ("DELETE", "/v1/memories/"): delete_all,
    ("GET", "/v1/memories/{id}/"): get,
    ("PUT", "/v1/memories/{id}/"): update,
    ("DELETE", "/v1/memories/{id}/"): delete,
    ("GET", "/v1/memories/{id}/history/"): history,
    ("PUT", "/v1/batch/"): update_batch,
    ("DELETE", "/v1/batch/"): delete_batch,
    ("POST", "/v1/feedback/"): feedback,
    ("GET", "/v1/entities/"): entities,
    ("DELETE", "/v2/entities/{kind}/{id}/"): delete_entity,
}
"""what each route does, by method and path"""
REFUSED: Mapping[tuple[str, str], str] = {
    ("POST", "/reset"): NO_RESET,
    ("POST", "/configure"): NO_CONFIGURE,
    ("GET", "/api/v1/orgs/organizations/{org}/projects/{id}/"): NO_CONFIGURE,
    ("PATCH", "/api/v1/orgs/organizations/{org}/projects/{id}/"): NO_CONFIGURE,
    ("POST", "/v1/exports/"): NO_EXPORT,
    ("POST", "/v1/exports/get/"): NO_EXPORT,
    ("POST", "/v1/summary/"): NO_SUMMARY,
    ("GET", "/v2/entities/user/{id}/profile/"): NO_PROFILE,
    ("POST", "/v2/profiles/jobs/"): NO_PROFILE,
    ("GET", "/v2/profiles/jobs/{id}/"): NO_PROFILE,
    ("GET", "/v2/profiles/settings/"): NO_PROFILE,
    ("POST", "/v2/profiles/settings/"): NO_PROFILE,
    ("GET", "/api/v1/webhooks/projects/{id}/"): NO_WEBHOOK,
    ("POST", "/api/v1/webhooks/projects/{id}/"): NO_WEBHOOK,
    ("PUT", "/api/v1/webhooks/{id}/"): NO_WEBHOOK,
    ("DELETE", "/api/v1/webhooks/{id}/"): NO_WEBHOOK,
}
"""why the other calls of its clients are refused, by method and path"""


def add_routes(app: Starlette) -> None:
    """Add the routes to an application, whose own routes answer them."""
    refused = {route: _refuse(reason) for route, reason in REFUSED.items()}
    for (method, path), serve in {**ROUTES, **refused}.items():
        app.add_route(f"{PREFIX}{path}", _endpoint(app, serve), methods=[method])


def _refuse(reason: str) -> Serve:
    """Refuse a call, with the reason and another way."""

    async def refuse(asked: Asked) -> None:
        raise HTTPException(403, reason)

    return refuse


def _endpoint(app: ASGIApp, serve: Serve) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        body = await _body_of(request)
        async with client_for(request.scope, app) as client:
            path = request.path_params
            query = dict(request.query_params)
            context = await context_of(request)
            asked = Asked(body, query, path.get("id", ""), context, Memories(client), path.get("kind", ""))
            return reply(await while_connected(request, serve(asked)))

    return endpoint


async def _body_of(request: Request) -> Body:
    """The object that a request sends; an empty body is an empty object. Raises BadInput."""
    sent = await request.body()
    content = validation.content_of(sent) if sent.strip() else {}
    if not isinstance(content, dict):
        raise BadInput("The body must be a JSON object")
    return content


def _page(number: int | None, size: int) -> str | None:
    """The address of a page, for a client that follows it."""
    return None if number is None else f"/v3/memories/?page={number}&page_size={size}"
