"""Routes of an agent's memory tools, in the shapes of OpenClaw's."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

from fastapi import Request
from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.compat import openclaw
from fusion.doors.http.routing import Context, checked_ref, problems, reply, router, while_connected
from fusion.doors.quarantine import is_quarantined
from fusion.errors import NobodyAnswered, NotFound
from fusion.gateway import memory_flush
from fusion.lib.budget import clip
from fusion.recall.document import MAX_CHARS


@router.post("/v1/tools/memory_search", response_model=wire.ToolSearchReply)
async def memory_search(request: Request, context: Context, body: schemas.SearchToolBody) -> Response:
    """An agent's tool: single memories with path, lines and citation; an empty list when no backend answers"""
    context.permit(body)
    try:
        fused = await while_connected(request, context.gateway.fuse(body.request(context.tenant)))
    except NobodyAnswered as error:
        return reply(openclaw.unavailable_result(error))
    result = openclaw.search_result(
        fused,
        limit=body.max_results,
        min_score=body.min_score,
        citations=body.citations or context.settings.tools.citations,
        audience=body.audience,
        embedder=context.gateway.embedding_model,
    )
    return reply(result)


@router.post("/v1/tools/memory_get", response_model=wire.ToolReadReply)
async def memory_get(context: Context, body: schemas.GetToolBody) -> Response:
    """An agent's tool: lines of a document, or a memory; an empty text for an unknown path"""
    scope = body.scope(context.tenant)
    try:
        page = await context.gateway.document(body.path, scope, start=body.start, lines=body.lines)
        return reply(openclaw.page_result(page))
    except NotFound:
        pass  # a memory without a document is read by its ref
    try:
        memory = await context.gateway.memory(checked_ref(body.path), scope)
    except NotFound:
        return reply(openclaw.empty_result(body.path))
    if is_quarantined(memory):  # a model gets nothing of it
        return reply(openclaw.empty_result(body.path))
    return reply({"text": clip(memory["text"], MAX_CHARS), "path": body.path})


@router.post("/v1/tools/memory_append", response_model=wire.Appended, responses=problems(507))
async def memory_append(context: Context, body: schemas.AppendToolBody) -> Response:
    """An agent's tool: append to today's log"""
    return reply(await context.gateway.append_to_log(body.text, body.scope(context.tenant)))


@router.post("/v1/tools/daily_logs", response_model=wire.DailyLogs)
async def daily_logs(context: Context, body: schemas.DailyLogsBody) -> Response:
    """Today's and yesterday's logs, for a host that does not load them at the start of a session"""
    context.permit(body)
    options = body.model_dump(include={"zone", "budget_chars", "all_users"})
    return reply(await context.gateway.daily_logs(body.scope(context.tenant), **options))


@router.post("/v1/flush/plan", response_model=wire.FlushPlan)
async def flush_plan(context: Context, body: schemas.FlushBody) -> Response:
    """Whether an agent should save what it knows before its context is compacted, and with which prompt"""
    chosen = context.settings.flush
    rules = memory_flush.Rules(**chosen.model_dump(include={field.name for field in fields(memory_flush.Rules)}))
    zone = chosen.zone if body.zone is None else body.zone
    words = {"prompt": chosen.prompt, "system_prompt": chosen.system_prompt}
    return reply(memory_flush.plan(body.context(), body.rules(rules), datetime.now(UTC), zone, **words))
