"""Routes of the graphs of a home."""

from __future__ import annotations

from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, reply, router


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


@router.post("/v1/graph/match", response_model=wire.GraphMatches)
async def graph_match(context: Context, body: schemas.GraphMatchBody) -> Response:
    """Recommend the projects that an idea fits, each with the path that leads to it"""
    context.permit(body)
    return reply(await context.gateway.graph_match(body.request(context.tenant)))
