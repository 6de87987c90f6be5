"""Routes of Memory Cortex (seed 002) over the fused memory, at the paths that its clients know."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import Request
from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, problems, reply, router


@router.post("/ingest", response_model=wire.HistoryKept, status_code=HTTPStatus.ACCEPTED, responses=problems(507))
async def ingest(request: Request, context: Context, body: schemas.HistoryBody) -> Response:
    """Keep the whole history of a session, after each of its turns; it is taken in later

    The reply comes once the history is on disk. 30 seconds after the last call of a session what is new or changed is
    taken in, and turns that were taken back are retired.
    """
    kept = await context.gateway.ingest_history(
        body.scope(context.tenant), await request.body(), channel=body.channel or "", debounce=body.debounce
    )
    return reply(kept, HTTPStatus.ACCEPTED)
