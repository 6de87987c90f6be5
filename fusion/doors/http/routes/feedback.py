"""Routes about answers: feedback, labels and receipts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, InQuery, Reference, checked_ref, problems, reply, router


@router.get("/v1/feedback", response_model=wire.Labels)
async def labels(context: Context, query: Annotated[schemas.LabelsQuery, InQuery]) -> Response:
    """List the memories with feedback, oldest first, each with the signals that ranked it"""
    return reply(await context.gateway.labels(context.tenant, query.limit, cursor=query.cursor))


@router.post("/v1/feedback", response_model=wire.Feedback, responses=problems(404, 507))
async def feedback(context: Context, body: schemas.FeedbackBody) -> Response:
    """Say which memories of an answer were useful, and which were not"""
    scope = body.scope(context.tenant)
    return reply(
        await context.gateway.feedback(
            checked_ref(body.receipt_id), scope, useful=body.useful, useless=body.useless, merge=body.merge
        )
    )


@router.get("/v1/comparisons", response_model=wire.Comparisons)
async def comparisons(context: Context, query: Annotated[schemas.ComparisonsQuery, InQuery]) -> Response:
    """List the comparisons of two arms over many questions, newest first

    The last 200 are kept. They have figures alone: no question, and no text of a memory.
    """
    return reply(await context.gateway.comparisons(context.tenant, query.limit, cursor=query.cursor))


@router.post("/v1/comparisons", response_model=wire.Comparison, responses=problems(507))
async def keep_comparison(context: Context, body: schemas.ComparisonBody) -> Response:
    """Store the figures of a comparison over many questions, as `fusion compare --queries` does"""
    kept = await context.gateway.keep_comparison(body.figures(), context.decider.name, tenant=context.tenant)
    return reply(kept)


@router.get("/v1/receipts", response_model=wire.Receipts, responses=problems(404))
async def receipts(context: Context, query: Annotated[schemas.ReceiptsQuery, InQuery]) -> Response:
    """List what was answered, newest first, page by page, or what was answered since

    To follow it, send `latest` of the last reply as `after`. Each row has the answer's sizes, times, backends and the
    refs in its block. A question's text is never stored: `query` has it for the last 500 questions since the server
    started, unless `[receipts] remember_questions` is off.
    """
    context.permit(query)
    return reply(await context.gateway.receipts_page(query.request(context.tenant)))


@router.get("/v1/receipts/{receipt_id}", response_model=dict[str, Any], responses=problems(404))
async def receipt(context: Context, receipt_id: Reference, query: Annotated[schemas.ReceiptQuery, InQuery]) -> Response:
    """Show why each candidate of an answer is in the block or not"""
    return reply(await context.gateway.receipt(checked_ref(receipt_id), context.tenant, user_id=query.user_id))


@router.get("/v1/activity", response_model=wire.Activity)
async def activity(context: Context, query: Annotated[schemas.ActivityQuery, InQuery]) -> Response:
    """Count by day what was remembered, forgotten, decided and asked"""
    return reply(await context.gateway.activity(query.scope(context.tenant), query.days))


@router.get("/v1/backends/history", response_model=wire.BackendHistory)
async def backend_history(context: Context, query: Annotated[schemas.BackendHistoryQuery, InQuery]) -> Response:
    """Show how fast each backend was lately, and what it brought into the blocks"""
    context.permit(query)
    scope = query.scope(context.tenant)
    return reply(await context.gateway.backend_history(scope, query.answers, all_users=query.all_users))
