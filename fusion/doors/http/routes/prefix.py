"""The route of stable prefixes."""

from __future__ import annotations

from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, reply, router


@router.post("/v1/prefix", response_model=wire.Prefix)
async def prefix(context: Context, body: schemas.PrefixBody) -> Response:
    """Read the stable prefix of an agent's sessions: observations, and below them the last turns word for word

    The first request for a scope begins its window with the latest turns. Compressing happens in the background, so the
    observations of a full raw buffer are in the next reply.
    """
    context.permit(body)
    return reply(await context.gateway.prefix(body.scope(context.tenant), all_users=body.all_users))
