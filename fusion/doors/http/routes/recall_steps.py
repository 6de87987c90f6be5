"""Routes of progressive recall, and of what a memory was used for."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request
from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, InQuery, Reference, checked_ref, problems, reply, router, while_connected
from fusion.doors.quarantine import explained_to


@router.post("/v1/index", response_model=wire.IndexReply)
async def index(request: Request, context: Context, body: schemas.IndexBody) -> Response:
    """Ask all memories; get a list of hits, one line each, and what the next step would cost

    A list is no use of its memories: nothing counts as included.
    """
    context.permit(body)
    return reply(await while_connected(request, context.gateway.index(body.request(context.tenant))))


@router.post("/v1/timeline", response_model=wire.TimelineReply)
async def timeline(context: Context, body: schemas.TimelineBody) -> Response:
    """Show what stands around memories: in their document or session, else in time"""
    return reply(await context.gateway.timeline(body.request(context.tenant)))


@router.post("/v1/records", response_model=wire.RecordsReply)
async def records(context: Context, body: schemas.RecordsBody) -> Response:
    """Read memories in full, within a budget of tokens"""
    return reply(await context.gateway.records(body.request(context.tenant)))


@router.get("/v1/why/{ref:path}", response_model=wire.Why, responses=problems(404))
async def why(context: Context, ref: Reference, query: Annotated[schemas.WhyQuery, InQuery]) -> Response:
    """Explain one memory: its origin, every change of its state, its copies, and the blocks and packs with it

    Also of a memory that was forgotten, as long as the audit has it: then without its text and its uses.
    """
    found = await context.gateway.why(checked_ref(ref), query.scope(context.tenant), query.limit)
    return reply(explained_to(found, context.role))
