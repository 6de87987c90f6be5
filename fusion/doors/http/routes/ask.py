"""Routes that ask: a fused question, a comparison of two arms, one backend's raw hits, a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Request
from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, InQuery, problems, reply, router, while_connected
from fusion.errors import NobodyAnswered
from fusion.gateway.views import search_reply

if TYPE_CHECKING:
    from fusion.recall.gather import Answer


@router.post("/fuse", response_model=wire.FuseReply)
@router.post("/v1/fuse", name="fuse_v1", response_model=wire.FuseReply)
async def fuse(request: Request, context: Context, body: schemas.FuseBody) -> Response:
    """Ask all memories; get one block that fits the prompt"""
    context.permit(body)
    fused = await while_connected(request, context.gateway.fuse(body.request(context.tenant)))
    return reply(fused, server_timing=f"fuse;dur={fused.took_ms:.2f}")


@router.post("/v1/compare", response_model=wire.CompareReply)
async def compare(request: Request, context: Context, body: schemas.CompareBody) -> Response:
    """Ask once, answer by two arms, and show what differs and why"""
    context.permit(body)
    question = body.request(context.tenant)
    return reply(await while_connected(request, context.gateway.compare(question, body.a, body.b)))


@router.post("/v1/search", response_model=wire.SearchReply)
async def search(request: Request, context: Context, body: schemas.SearchBody) -> Response:
    """Ask one backend; get its raw hits"""
    context.permit(body)
    search_backend = context.gateway.search(
        body.backend,
        body.query,
        body.scope(context.tenant),
        limit=body.limit,
        all_users=body.all_users,
        where=schemas.where_of(body.where),
    )
    answer = await while_connected(request, search_backend)
    if answer.status not in ("ok", "empty", "skipped"):
        raise no_answer(answer, await context.gateway.worth_asking_s([answer.backend], context.tenant))
    return reply(search_reply(answer, await context.gateway.refs(answer, context.tenant)))


@router.get("/v1/documents", response_model=wire.Document, responses=problems(404))
async def document(context: Context, query: Annotated[schemas.DocumentQuery, InQuery]) -> Response:
    """Read a page of a document that a hit names"""
    scope = query.scope(context.tenant)
    page = context.gateway.document(query.path, scope, start=query.start, lines=query.lines, summaries=query.summaries)
    return reply(await page)


def no_answer(answer: Answer, retry_after_s: float) -> NobodyAnswered:
    """The error for a backend that failed."""
    why = f": {answer.detail}" if answer.detail else ""
    return NobodyAnswered(
        f"{answer.backend} did not answer ({answer.status}){why}",
        {"backends": [search_reply(answer, ())["backend"]]},
        retry_after_s,
    )
