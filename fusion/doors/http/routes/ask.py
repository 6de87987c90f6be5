"""Routes that ask: a fused question, a comparison of two arms, one backend's raw hits, a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Request
from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, InQuery, problems, reply, router, while_connected
from fusion.doors.http.streaming import NDJSON, Part, Parts, offer, streamed_parts
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


_ANSWERED = (
    '{"backend":"markdown","status":"ok","count":4,"took_ms":3.1}\n'
    '{"answer":{…},"candidates":[…],"recording":"r4f0…"}\n'
)


@router.post(
    "/v1/ask",
    response_class=Response,
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}, "example": _ANSWERED}}}},
)
async def ask(context: Context, body: schemas.AskBody) -> Response:
    """Ask all memories, and watch each backend answer, as lines of JSON

    A line for each backend once it has answered, then one with the answer of POST /v1/fuse (`answer`), every candidate
    with its reason and the first 300 characters of its text (`candidates`), and the id for POST /v1/replay
    (`recording`), null without `record`.
    """
    context.permit(body)
    question = body.request(context.tenant)

    async def run(parts: Parts) -> Part:
        return {**await context.gateway.ask(question, lambda answer: offer(parts, answer_line(answer)))}

    return await streamed_parts(run)


def answer_line(answer: Answer) -> Part:
    """The line of one backend's answer."""
    shown = {"status": answer.status, "count": len(answer.hits), "took_ms": round(answer.took_ms, 2)}
    return {"backend": answer.backend, **shown}


@router.post("/v1/replay", response_model=wire.Asked, responses=problems(404))
async def replay(request: Request, context: Context, body: schemas.ReplayBody) -> Response:
    """Answer a recorded question by other numbers, without asking any store

    For questions with `record`, the last eight of ten minutes. No receipt is kept, and nothing is marked as used. What
    was forgotten since has no part in it: all recordings are dropped then.
    """
    return reply(await while_connected(request, context.gateway.replay(body.request(context.tenant), context.tenant)))


@router.get("/v1/recipes", response_model=wire.Recipes)
async def recipes(context: Context) -> Response:
    """List the recipes with their values, and the range, choices and default of each value"""
    return reply(await context.gateway.recipes_of_home(context.tenant))


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
    page = context.gateway.document(
        query.path, scope, start=query.start, lines=query.lines, summaries=query.summaries, versions=query.versions
    )
    return reply(await page)


def no_answer(answer: Answer, retry_after_s: float) -> NobodyAnswered:
    """The error for a backend that failed."""
    why = f": {answer.detail}" if answer.detail else ""
    return NobodyAnswered(
        f"{answer.backend} did not answer ({answer.status}){why}",
        {"backends": [search_reply(answer, ())["backend"]]},
        retry_after_s,
    )
