"""The inspector's routes about MEMORY.md: look at it, promote it, restore it.

They are for a person at the page. What is promoted is protected and brought back from then on, so no API key may do it:
the request has to come from a session of the inspector that the home's own token has opened. A program that can read
that token could open one, as it could run `fusion shepherd`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.exceptions import HTTPException

from fusion.doors.http.routing import context_of, read_as, reply
from fusion.doors.schemas.base import Body
from fusion.doors.validation import content_of
from fusion.gateway.accesses import noted
from fusion.gateway.memory_file import MemoryFile
from fusion.gateway.parts import DEFAULT
from fusion.journal.state import BY_HAND

Decide = Callable[[MemoryFile, str], Awaitable[Mapping[str, Any]]]
PATH = "/v1/inspector/memory-file"
PERSONS = (
    "MEMORY.md is shown to the owner of the home alone, in the inspector that `fusion open` has opened. In a terminal: "
    "fusion shepherd diff"
)


class SeenBody(Body):
    """The SHA-256 of what the person has seen: a file that was changed since is left as it is."""

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def add_routes(app: FastAPI) -> None:
    app.add_route(PATH, look, methods=["GET"], include_in_schema=False)
    decisions: Mapping[str, tuple[str, Decide]] = {
        "promote": ("promote_memory_file", MemoryFile.promote),
        "undo-promotion": ("undo_promotion_of_memory_file", MemoryFile.undo_promotion),
        "restore": ("restore_memory_file", MemoryFile.restore),
    }
    for name, (call, decide) in decisions.items():
        app.add_route(f"{PATH}/{name}", _endpoint(call, decide), methods=["POST"], include_in_schema=False)


async def look(request: Request) -> Response:
    """The file against its baseline, and what a promotion and a restore would change."""
    async with _memory_file(request, "memory_file") as file:
        return reply(await file.look())


def _endpoint(call: str, decide: Decide) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        async with _memory_file(request, call) as file:
            seen = read_as(SeenBody, content_of(await request.body()))
            return reply(await decide(file, seen.sha256))

    return endpoint


@asynccontextmanager
async def _memory_file(request: Request, call: str) -> AsyncIterator[MemoryFile]:
    """MEMORY.md, for the owner at the page; the ``call`` is in the access log. Raises a 403 for everybody else."""
    scope = request.scope
    is_owner = scope["admitted"] and scope["may_ask_all"] and scope["key_name"] == BY_HAND
    if not (is_owner and scope["in_session"] and scope["tenant"] == DEFAULT):
        raise HTTPException(403, PERSONS)
    context = await context_of(request)
    with noted(context.gateway.access_log, call, {}):
        yield MemoryFile(context.settings, context.gateway.embedder)
