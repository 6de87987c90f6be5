"""Routes of the graphs of a home."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request
from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, InQuery, problems, reply, router, while_connected


@router.post("/v1/graph/neighbors", response_model=wire.GraphNeighbours)
async def graph_neighbors(context: Context, body: schemas.GraphBody) -> Response:
    """List the entities around one, nearest first, each with the path that justifies it"""
    context.permit(body)
    return reply(await context.gateway.graph_neighbors(body.request(context.tenant)))


@router.post("/v1/graph/impact", response_model=wire.GraphNeighbours)
async def graph_impact(context: Context, body: schemas.GraphBody) -> Response:
    """List what uses an entity or is blocked by it, directly or over others"""
    context.permit(body)
    return reply(await context.gateway.graph_impact(body.request(context.tenant)))


@router.post("/v1/graph/path", response_model=wire.GraphPath)
async def graph_path(context: Context, body: schemas.GraphPathBody) -> Response:
    """Find the shortest way from one entity to another"""
    context.permit(body)
    return reply(await context.gateway.graph_path(body.request(context.tenant)))


@router.post("/v1/graph/overview", response_model=wire.GraphOverview)
async def graph_overview(request: Request, context: Context, body: schemas.GraphOverviewBody) -> Response:
    """Draw the graph: its most connected entities, and the edges between them

    Of each backend with a graph the newest 20,000 edges are read, and the facts of 2,000 subjects.
    """
    context.permit(body)
    return reply(await while_connected(request, context.gateway.graph_overview(body.request(context.tenant))))


@router.post("/v1/graph/match", response_model=wire.GraphMatches)
async def graph_match(context: Context, body: schemas.GraphMatchBody) -> Response:
    """Recommend the projects that an idea fits, each with the path that leads to it"""
    context.permit(body)
    return reply(await context.gateway.graph_match(body.request(context.tenant)))


@router.get("/v1/graph/pages", response_model=wire.GraphPages)
async def graph_pages(context: Context, query: Annotated[schemas.GraphPagesQuery, InQuery]) -> Response:
    """Export the facts as pages of Markdown, one for each subject, with an index"""
    return reply(await context.gateway.export_graph(query.scope(context.tenant)))


@router.get("/v1/cards", response_model=wire.SynthesisCard, responses=problems(404))
async def card(context: Context, query: Annotated[schemas.CardQuery, InQuery]) -> Response:
    """Read the synthesis card of a subject, and whether it is fresh"""
    return reply(await context.gateway.card(query.scope(context.tenant), query.subject))


@router.post("/v1/cards/refresh", response_model=wire.SynthesisCard, responses=problems(404, 507))
async def refresh_card(context: Context, body: schemas.CardBody) -> Response:
    """Compile the synthesis card of a subject from what holds now"""
    return reply(await context.gateway.refresh_card(body.scope(context.tenant), body.subject))


@router.get("/v1/cards/lint", response_model=wire.CardLint)
async def lint_cards(context: Context, query: Annotated[schemas.CardLintQuery, InQuery]) -> Response:
    """List the synthesis cards that are stale, each with the reasons"""
    return reply(await context.gateway.lint_cards(query.scope(context.tenant)))
