"""Routes of temporal facts."""

from __future__ import annotations

from typing import Annotated

from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, InQuery, problems, reply, router


@router.post("/v1/facts", response_model=wire.FactWritten, responses=problems(404, 507))
async def assert_fact(context: Context, body: schemas.FactBody) -> Response:
    """Assert a fact about a subject, with the memories that say so

    The assertion is itself a memory. A fact with a predicate that has one object at a time (status, configured_as,
    source_of_truth, retired_by) supersedes the earlier one. To take an assertion back, forget its memory.
    """
    written = await context.gateway.assert_fact(body.request(context.tenant), is_owner=context.is_owner)
    return reply(written)


@router.post("/v1/facts/retract", response_model=wire.FactWritten, responses=problems(404, 507))
async def retract_fact(context: Context, body: schemas.FactEndBody) -> Response:
    """Say that a fact does not hold any more, or never held"""
    written = await context.gateway.retract_fact(body.request(context.tenant), is_owner=context.is_owner)
    return reply(written)


@router.get("/v1/facts/current", response_model=wire.CurrentFacts)
async def current_facts(context: Context, query: Annotated[schemas.FactsQuery, InQuery]) -> Response:
    """Read the facts about a subject that hold now, or held at a time, and why others do not"""
    found = context.gateway.current_facts(
        query.scope(context.tenant),
        query.subject,
        predicate=query.predicate,
        at=query.at,
        include_stale=query.include_stale,
    )
    return reply(await found)


@router.get("/v1/facts/timeline", response_model=wire.FactTimeline, responses=problems(404))
async def fact_timeline(context: Context, query: Annotated[schemas.FactTimelineQuery, InQuery]) -> Response:
    """Read all facts about a subject, those that ended too, oldest first; or how one fact came about"""
    scope = query.scope(context.tenant)
    found = context.gateway.fact_timeline(scope, query.subject, fact=query.fact, predicate=query.predicate)
    return reply(await found)


@router.get("/v1/facts/lint", response_model=wire.FactLint)
async def lint_facts(context: Context, query: Annotated[schemas.FactLintQuery, InQuery]) -> Response:
    """Check all facts: sources that are gone, contradictions, unknown entities, cycles"""
    return reply(await context.gateway.lint_facts(query.scope(context.tenant)))


@router.post("/v1/facts/pack", response_model=wire.FactPackReply)
async def fact_pack(context: Context, body: schemas.FactPackBody) -> Response:
    """Pack the current facts about a subject as a context pack, with the reason for each that is left out"""
    return reply(await context.gateway.fact_pack(body.request(context.tenant)))


@router.post("/v1/facts/rebuild", response_model=wire.FactsRebuilt, responses=problems(507))
async def rebuild_facts(context: Context, body: schemas.FactRebuildBody) -> Response:
    """Delete the table of facts and derive it again from the memories"""
    return reply(await context.gateway.rebuild_facts(context.tenant))
