"""Routes of progressive recall: an index of hits, what stands around a memory, and full texts."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, reply, router, while_connected


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
