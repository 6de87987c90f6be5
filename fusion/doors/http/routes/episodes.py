"""Routes of the episodes: append, list and search the observations of an agent's sessions."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Body, Request
from fastapi.responses import Response
from starlette.convertors import StringConvertor, register_url_convertor

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routes.memories import REPLAYED, IdempotencyKey
from fusion.doors.http.routing import Context, InQuery, Reference, checked_ref, problems, reply, router, while_connected
from fusion.ingest.observe import ReplayedObservations
from fusion.lib.ids import EPISODE


class EpisodeRef(StringConvertor):
    """A ref of an episode in a path, so that no other route below /v1/episodes is taken for one."""

    regex = f"{EPISODE}[^/]+"


register_url_convertor("episode", EpisodeRef())


@router.post(
    "/v1/episodes/append",
    response_model=wire.EpisodesKept,
    response_description="All were stored before",
    responses={
        200: {"headers": REPLAYED},
        201: {"description": "Stored", "model": wire.EpisodesKept, "headers": REPLAYED},
        **problems(507),
    },
)
async def append_episodes(
    context: Context, body: Annotated[schemas.EpisodesBody, Body()], idempotency_key: IdempotencyKey = None
) -> Response:
    """Keep one observation or up to a hundred; acknowledged is kept

    An observation is evidence: no backend gets it, and no answer of /v1/fuse has it. What a tool returned is untrusted,
    and nobody can say otherwise. Secrets are masked, and text marked as private is left out.
    """
    items = [one.observation() for one in (body if isinstance(body, list) else [body])]
    kept = await context.gateway.append_episodes(items, idempotency_key=idempotency_key, tenant=context.tenant)
    fresh = any(one.status == "stored" for one in kept)
    headers = {"idempotent_replayed": "true"} if isinstance(kept, ReplayedObservations) else {}
    return reply({"episodes": kept}, HTTPStatus.CREATED if fresh else HTTPStatus.OK, **headers)


@router.post("/v1/episodes/query", response_model=wire.EpisodePage)
async def query_episodes(context: Context, body: schemas.EpisodeQueryBody) -> Response:
    """List episodes in the order of their times, page by page"""
    context.permit(body)
    return reply(await context.gateway.query_episodes(body.request(context.tenant)))


@router.get("/v1/episodes/working-set", response_model=wire.WorkingSet)
async def working_set(context: Context, query: Annotated[schemas.WorkingSetQuery, InQuery]) -> Response:
    """Show the latest episodes of one session, oldest first

    They are what a pack with the lane `hot` takes its lines from. Their payloads are read one by one.
    """
    return reply({"episodes": await context.gateway.working_set(query.scope(context.tenant), query.limit)})


@router.get("/v1/episodes/{ref:episode}", response_model=wire.Episode, responses=problems(404))
async def episode(context: Context, ref: Reference, query: Annotated[schemas.Scoped, InQuery]) -> Response:
    """Read one episode, with its payload"""
    return reply(await context.gateway.episode(checked_ref(ref), query.scope(context.tenant)))


@router.patch("/v1/episodes/{ref:episode}", response_model=wire.Episode, responses=problems(404, 507))
async def grade_episode(context: Context, ref: Reference, body: schemas.EpisodeGradeBody) -> Response:
    """Set the importance of one episode by hand

    No harvest changes it from then on. The importance in the reply says who decided, when and why, and what it
    replaces.
    """
    graded = context.gateway.grade_episode(
        checked_ref(ref), body.scope(context.tenant), body.importance, context.decider, body.why
    )
    return reply(await graded)


@router.post("/v1/episodes/search", response_model=wire.EpisodeSearchReply)
async def search_episodes(request: Request, context: Context, body: schemas.EpisodeSearchBody) -> Response:
    """Search episodes by words, by meaning, or both, best first"""
    context.permit(body)
    return reply(await while_connected(request, context.gateway.search_episodes(body.request(context.tenant))))


@router.post("/v1/episodes/embed", response_model=wire.EpisodesEmbedded, responses=problems(507))
async def embed_episodes(request: Request, context: Context, body: schemas.EpisodeEmbedBody) -> Response:
    """Make the vectors of episodes that have none, for searches by meaning

    A vector belongs to one model: those of another one are made again, and are never compared with these.
    """
    context.permit(body)
    work = context.gateway.embed_episodes(
        body.scope(context.tenant), body.limit, lanes=body.lanes, all_users=body.all_users
    )
    return reply(await while_connected(request, work))


@router.post("/v1/episodes/redact", response_model=wire.EpisodesRedacted, responses=problems(404, 507))
async def redact_episodes(context: Context, body: schemas.EpisodeRedactBody) -> Response:
    """Replace all that was said in episodes; each stays in its place

    It cannot be undone: the text is overwritten in the log as well, and no harvest brings it back.
    """
    scope = body.scope(context.tenant)
    count = await context.gateway.redact_episodes(scope, body.refs, dry_run=body.dry_run)
    return reply({"redacted": count, "dry_run": body.dry_run})
