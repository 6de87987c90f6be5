"""Routes that list, add, read and forget memories."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated

from fastapi import Body, Header
from fastapi.responses import Response

from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.routing import Context, InQuery, Reference, checked_ref, problems, reply, router
from fusion.doors.quarantine import previewed_to, reads_quarantined, shown_to
from fusion.errors import BadInput
from fusion.ingest.claims import as_stated_by_caller
from fusion.ingest.intake import Acknowledged, Replayed
from fusion.journal.versions import batch_of
from fusion.trust.token import READER, READER_HEADER, is_reader


@router.get("/v1/memories", response_model=wire.Memories)
async def memories(context: Context, query: Annotated[schemas.MemoriesQuery, InQuery]) -> Response:
    """List what is remembered, page by page, all of it or what fits a filter

    A quarantined memory has no text here but for a key with the role operator: `withheld` says so, and no words, tags
    and projects of it are searched.
    """
    reads = reads_quarantined(context.role)
    page = await context.gateway.memories(query.scope(context.tenant), **query.filters(), reads_quarantined=reads)
    return reply({**page, "memories": [shown_to(one, context.role) for one in page["memories"]]})


REPLAYED = {
    "Idempotent-Replayed": {
        "description": "true: this is the reply of an earlier request with the same key",
        "schema": {"const": "true"},
    }
}


IdempotencyKey = Annotated[
    schemas.IdempotencyKey | None,
    Header(
        alias="Idempotency-Key",
        description="The same key with the same body gets the first reply again, with Idempotent-Replayed: true, "
        "and stores nothing; with another body 422; while the first request runs 409.",
    ),
]


@router.post(
    "/v1/memories",
    response_model=wire.RememberReply,
    response_description="All were stored before",
    responses={
        200: {"headers": REPLAYED},
        201: {"description": "Stored", "model": wire.RememberReply, "headers": REPLAYED},
        # 404: what a memory supersedes is not there; 409: the key's first request still runs
        **problems(404, 409, 507),
    },
)
async def remember(
    context: Context,
    body: Annotated[schemas.MemoriesBody, Body()],
    idempotency_key: IdempotencyKey = None,
    ingest_batch: Annotated[
        schemas.Batch | None,
        Header(
            alias="Ingest-Batch",
            description="Your id for the ingest of these memories: POST /v1/undo takes back what it added.",
        ),
    ] = None,
    reader: Annotated[str | None, Header(alias=READER_HEADER, include_in_schema=False)] = None,
) -> Response:
    """Remember one memory or up to a hundred; acknowledged is kept

    The reply comes once the memories are on disk. They reach the backends in the background, usually within 100 ms: a
    question asked right after this may not find them yet. POST /v1/settle waits until they are delivered.
    """
    items = [one.memory() for one in (body if isinstance(body, list) else [body])]
    context.permit_trusted(items)
    if not await _from_reader(context, reader):
        items = [as_stated_by_caller(item) for item in items]
    elif any(item.trust == "trusted" for item in items):
        raise BadInput("trust: what a reader of files sends cannot be trusted by its own words; leave it out")
    kept = await context.gateway.remember(
        items, idempotency_key=idempotency_key, tenant=context.tenant, batch=ingest_batch
    )
    fresh = any(item.status in ("stored", "superseded") for item in kept)
    return reply({"memories": kept}, HTTPStatus.CREATED if fresh else HTTPStatus.OK, **_replay_header(kept))


def _replay_header(kept: Sequence[Acknowledged]) -> dict[str, str]:
    return {"idempotent_replayed": "true"} if isinstance(kept, Replayed) else {}


@router.get("/v1/memories/{ref:path}", response_model=wire.StoredMemory, responses=problems(404))
async def memory(context: Context, ref: Reference, query: Annotated[schemas.Scoped, InQuery]) -> Response:
    """Read one memory

    A quarantined one has no text here but for a key with the role operator: `withheld` says so.
    """
    found = await context.gateway.memory(checked_ref(ref), query.scope(context.tenant))
    return reply(shown_to(found, context.role))


@router.patch(
    "/v1/memories/{ref:path}",
    response_model=wire.UpdateReply,
    # 409: the memory was replaced since, or the key's first request still runs
    responses={200: {"headers": REPLAYED}, **problems(404, 409, 507)},
)
async def update(
    context: Context, ref: Reference, body: schemas.UpdateBody, idempotency_key: IdempotencyKey = None
) -> Response:
    """Update one memory: a new version takes its place

    The reply names both versions; POST /v1/undo with its batch makes the earlier one current again. A memory that was
    replaced since is refused with 409, and `current` names its newest version. Only the owner can update a trusted one.
    """
    scope = body.scope(context.tenant)
    kept = await context.gateway.update(
        checked_ref(ref), body.change(), scope, idempotency_key=idempotency_key, may_raise_trust=context.is_owner
    )
    batch = batch_of(kept[0].ref) if kept[0].status == "superseded" else None
    return reply({**asdict(kept[0]), "batch": batch}, HTTPStatus.OK, **_replay_header(kept))


@router.delete("/v1/memories/{ref:path}", response_model=wire.Forgotten, responses=problems(404, 507))
async def forget(context: Context, ref: Reference, query: Annotated[schemas.Scoped, InQuery]) -> Response:
    """Forget one memory, in every backend"""
    return reply(await context.gateway.forget(checked_ref(ref), query.scope(context.tenant)))


@router.post("/v1/forget", response_model=wire.ForgetReply, responses=problems(507))
async def forget_many(context: Context, body: schemas.ForgetBody) -> Response:
    """Forget by refs, query, source, document or time; or show what would be forgotten"""
    context.permit(body)
    found = await context.gateway.forget_many(body.request(context.tenant))
    return reply(previewed_to(found, context.role))


@router.post("/v1/undo", response_model=wire.Undone, responses=problems(404, 507))
async def undo(context: Context, body: schemas.UndoBody) -> Response:
    """Undo one ingest; its files can be ingested again"""
    scope = body.scope(context.tenant)
    found = await context.gateway.undo(scope, body.batch, limit=body.limit, dry_run=body.dry_run)
    return reply(previewed_to(found, context.role))


@router.post("/v1/state", response_model=wire.StateReply, responses=problems(404, 507))
async def set_state(context: Context, body: schemas.StateBody) -> Response:
    """Archive or restore one memory, or change its trust, lifetime, confidence, importance, project or tags

    It holds for the answers of every backend at once. Each change is a decision with an id, and can be undone. Only the
    owner may raise trust: with the home's token, or an API key with all_users = true.
    """
    change = body.request(context.tenant)
    who = context.decider.who
    return reply(await context.gateway.set_state(change, may_raise_trust=context.is_owner, who=who))


@router.post("/v1/states", response_model=wire.StatesReply, responses=problems(507))
async def set_states(context: Context, body: schemas.StatesBody) -> Response:
    """Change the state of up to a hundred memories as one decision, or show what would change

    It is undone as a whole. The memories belong to one user. The rules of POST /v1/state hold.
    """
    change, who = body.request(context.tenant), context.decider.who
    return reply(await context.gateway.set_states(change, may_raise_trust=context.is_owner, who=who))


@router.get("/v1/decisions", response_model=wire.Decisions, responses=problems(404))
async def decisions(context: Context, query: Annotated[schemas.DecisionsQuery, InQuery]) -> Response:
    """List the decisions on memories, newest first: who, when, why, before and after"""
    scope = query.scope(context.tenant)
    return reply(await context.gateway.decisions(scope, query.limit, ref=query.ref, cursor=query.cursor))


@router.post("/v1/decisions/undo", response_model=wire.DecisionUndone, responses=problems(404, 507))
async def undo_decision(context: Context, body: schemas.UndoDecisionBody) -> Response:
    """Undo one decision, or all decisions of a run: each field that they changed has its earlier value again

    A run is undone as a whole or not at all. Only the owner may undo what lowered trust.
    """
    scope, may, who = body.scope(context.tenant), context.is_owner, context.decider.who
    if body.run is not None:
        undone = context.gateway.undo_run(body.run, scope, may_raise_trust=may, dry_run=body.dry_run, who=who)
    else:
        undone = context.gateway.undo_decision(body.decision or "", scope, may_raise_trust=may, who=who)
    return reply(await undone)


@router.get("/v1/batches", response_model=wire.Batches)
async def batches(context: Context, query: Annotated[schemas.BatchesQuery, InQuery]) -> Response:
    """List the ingests that can be undone, latest first"""
    return reply({"batches": await context.gateway.batches(query.scope(context.tenant), query.limit)})


@router.get("/v1/forgotten", response_model=wire.ForgottenPage)
async def forgotten(context: Context, query: Annotated[schemas.ForgottenQuery, InQuery]) -> Response:
    """List what was forgotten, newest first: when, and what each backend did"""
    return reply(await context.gateway.forgotten(query.scope(context.tenant), query.limit, cursor=query.cursor))


@router.get("/v1/sources", response_model=wire.Sources)
async def sources(context: Context, query: Annotated[schemas.SourcesQuery, InQuery]) -> Response:
    """List the sources of memories, by name"""
    scope = query.scope(context.tenant)
    return reply({"sources": await context.gateway.origins(scope, query.prefix or "", query.after or "", query.limit)})


@router.post("/v1/retire", response_model=wire.Retired, responses=problems(507))
async def retire(
    context: Context,
    body: schemas.RetireBody,
    reader: Annotated[str | None, Header(alias=READER_HEADER, include_in_schema=False)] = None,
) -> Response:
    """Retire the memories that files no longer contain

    Only the gateway's own readers of files may do this: the request needs the key in home/reader.key. A dry run, which
    only counts, does not.
    """
    if not body.dry_run and not await _from_reader(context, reader):
        raise BadInput(
            f"only a reader of the user's files may retire what they no longer contain: send the key in home/{READER} "
            f"as the header {READER_HEADER}, or remove memories by POST /v1/forget"
        )
    sources = await context.gateway.retire(body.scope(context.tenant), body.whole(), dry_run=body.dry_run)
    return reply({"retired": sum(sources.values()), "sources": sources, "dry_run": body.dry_run})


async def _from_reader(context: Context, key: str | None) -> bool:
    """Whether a request comes from one of the gateway's own readers; they read for the home's owner only."""
    return context.tenant == "default" and await asyncio.to_thread(is_reader, context.settings.home, key)
