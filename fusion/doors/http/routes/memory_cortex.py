"""Routes of Memory Cortex (seed 002) over the fused memory, at the paths that its clients know."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Request
from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, InQuery, problems, reply, router, while_connected


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


@router.get("/v1/session", response_model=wire.SessionState)
async def session_state(context: Context, query: Annotated[schemas.SessionQuery, InQuery]) -> Response:
    """What is kept of a session: when it was taken in and asked, and what waits for its next question"""
    return reply(await context.gateway.session_state(query.scope(context.tenant), query.asker()))


@router.post("/hybrid-search", response_model=wire.CortexResults)
async def hybrid_search(request: Request, context: Context, body: schemas.CortexSearchBody) -> Response:
    """Search all memories by words and vectors: .4 of the one score and .6 of the other

    Without an embedding model, and while it fails, by words alone.
    """
    context.permit(body)
    search = context.gateway.hybrid_search(body.query, body.scope(context.tenant), body.limit, all_users=body.all_users)
    return reply(await while_connected(request, search))


@router.post("/recall", response_model=wire.CortexRecall)
async def recall(request: Request, context: Context, body: schemas.CortexQuestion) -> Response:
    """Answer a question from all memories in a few sentences, each with its refs

    The language model of the settings writes them; without one, and while it fails, they are quoted.
    """
    context.permit(body)
    made = context.gateway.synthesis(body.query, body.scope(context.tenant), all_users=body.all_users)
    return reply(await while_connected(request, made))
