"""Routes that answer with context packs."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, reply, router, while_connected


@router.post("/v1/pack", response_model=wire.PackReply)
async def pack(request: Request, context: Context, body: schemas.PackBody) -> Response:
    """Ask all memories; get a context pack: bounded, cited lines for the prompt, and the same as JSON"""
    context.permit(body)
    made = await while_connected(request, context.gateway.pack(body.request(context.tenant)))
    return reply(made, server_timing=f"pack;dur={made.receipt.took_ms:.2f}")
