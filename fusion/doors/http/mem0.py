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
from fusion.doors.http.routing import reply, while_connected
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
NO_CONFIGURE = "This server is configured by fusion.toml in its home, not by a client"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to one of the routes: its body, its query, the id in its path, and the memory that it asks."""

    body: Body
    query: Mapping[str, str]
    id_: str
    memories: Memories


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
    """A page of memories, newest first: of owners in the query, or in the body."""
    given = {**asked.query, **asked.body}
    page = requests.integer(given, "page", 1, MAX_PAGE)
    size = requests.integer(given, "page_size", requests.integer(given, "top_k", PAGE, PAGE), PAGE)
    found = await asked.memories.all(requests.filter_of(given), page=page, size=size)
    next_page = page + 1 if page * size < found["count"] else None
    return {**found, "next": _page(next_page, size), "previous": _page(page - 1 or None, size)}


async def get(asked: Asked) -> dict[str, Any]:
    """One memory."""
    return await asked.memories.get(asked.id_)


async def update(asked: Asked) -> dict[str, Any]:
    """Replace the text of a memory, or say when it ends."""
    if refused := sorted({"metadata", "timestamp"} & {name for name, value in asked.body.items() if value is not None}):
        raise BadInput(f"{', '.join(refused)} cannot be changed here; delete the memory and add it again")
    text = requests.optional_text(asked.body, "text") or requests.optional_text(asked.body, "data")
    ends = requests.optional_text(asked.body, "expiration_date")
    if text is None and ends is None:
        raise BadInput("Say what to change: text, or expiration_date")
    changes = {"text": text, "valid_to": ends}
    return await asked.memories.update(asked.id_, **{name: one for name, one in changes.items() if one is not None})


async def delete(asked: Asked) -> dict[str, Any]:
    """Forget one memory."""
    return await asked.memories.delete(asked.id_)


async def delete_all(asked: Asked) -> dict[str, Any]:
    """Forget all memories of a user, an agent or a run."""
    return await asked.memories.delete_all(requests.filter_of(asked.query))


async def history(asked: Asked) -> list[dict[str, Any]]:
    """The changes of one memory."""
    return await asked.memories.history(asked.id_)


async def reset(asked: Asked) -> None:
    """Refuse to delete everything."""
    raise HTTPException(403, NO_RESET)


async def configure(asked: Asked) -> None:
    """Refuse to be configured."""
    raise HTTPException(403, NO_CONFIGURE)


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
    ("POST", "/reset"): reset,
    ("POST", "/configure"): configure,
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
}
"""what each route does, by method and path"""


def add_routes(app: Starlette) -> None:
    """Add the routes to an application, whose own routes answer them."""
    for (method, path), serve in ROUTES.items():
        app.add_route(f"{PREFIX}{path}", _endpoint(app, serve), methods=[method])


def _endpoint(app: ASGIApp, serve: Serve) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        body = await _body_of(request)
        async with client_for(request.scope, app) as client:
            asked = Asked(body, dict(request.query_params), request.path_params.get("id", ""), Memories(client))
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
