"""Routes for operating a server: backends and their verbs, status, settling, probes."""

from __future__ import annotations

import asyncio
import contextlib
import os
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Request
from fastapi.responses import Response

import fusion as package
from fusion import wire
from fusion.doors import schemas
from fusion.doors.http.metrics import MEDIA_TYPE, Exposed, exposition, load_library
from fusion.doors.http.routing import Context, InQuery, Name, problems, reply, router, while_connected
from fusion.doors.http.streaming import NDJSON, Line, no_lines, streamed
from fusion.doors.roles import OPERATOR, allows
from fusion.trust.token import CHALLENGE, PROOF
from fusion.upkeep.job import Progress, no_progress
from fusion.upkeep.lifecycle import LifecycleRequest


@router.get("/v1/backends", response_model=wire.Backends)
async def backends(context: Context) -> Response:
    """List the backends, with their state and what they hold"""
    return reply({"backends": await context.gateway.backends(context.tenant)})


_LINES = '{"progress":{"done":500,"total":50000}}\n{"result":{"expired":3}}\n'
_METRICS = 'fusion_questions_total{outcome="answered"} 12.0\n'
_VERB = {"type": "object", "description": "a scope (user_id, …), and the verb's own arguments"}


@router.post(
    "/v1/backends/{backend}/{verb}",
    response_model=dict[str, Any],
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}, "example": _LINES}}}, **problems(404, 507)},
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _VERB}}}},
)
async def do(request: Request, context: Context, backend: Name, verb: Name) -> Response:
    """Run a verb of one backend

    Each adapter has its own verbs: `fusion <backend> <verb> --help` shows the arguments of one.
    """
    work, sent = schemas.verb(context.gateway.verb(backend, verb), await request.body())
    all_users = isinstance(sent, schemas.Asking) and sent.all_users
    if isinstance(sent, schemas.Asking):
        context.permit(sent)
    run = partial(context.gateway.do, backend, work, sent.scope(context.tenant), all_users=all_users)
    if NDJSON in request.headers.get("accept", ""):
        return await streamed(run)
    return reply(await while_connected(request, run(no_lines, no_progress)))


@router.post(
    "/v1/lifecycle",
    response_model=wire.LifecycleReport,
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}, "example": _LINES}}}, **problems(507)},
)
async def lifecycle(request: Request, context: Context, body: schemas.LifecycleBody) -> Response:
    """Expire, decay, retire and merge memories, and resolve conflicts

    What it decides holds for the hits of every backend, is in the log of decisions, and can be undone.
    """
    rules = (body.dry_run, body.ttl_hours, body.idle_hours, body.delete_expired, body.archive_unused)
    asked = LifecycleRequest(body.scope(context.tenant), *rules)

    async def run(line: Line, progress: Progress) -> object:
        return await context.gateway.run_lifecycle(asked, progress)

    if NDJSON in request.headers.get("accept", ""):
        return await streamed(run)
    return reply(await while_connected(request, run(no_lines, no_progress)))


@router.post("/v1/grade", response_model=wire.GradeReport, responses=problems(507))
async def grade(request: Request, context: Context, body: schemas.GradeBody) -> Response:
    """Give memories without an importance one by rules

    What has an importance is left as it is. Each run is in the log of decisions, and can be undone as a whole.
    """
    return reply(await while_connected(request, context.gateway.grade(body.request(context.tenant))))


@router.get("/v1/status", response_model=wire.Status)
async def status(context: Context, query: Annotated[schemas.Scoped, InQuery]) -> Response:
    """The state of the home: backends, breakers, backlog, sizes

    With a scope, memories counts those of that scope alone. The use of models is that of the tenant; an operator of
    the tenant default sees that of all tenants.
    """
    scope = query.scope(context.tenant)
    operates = allows(context.role, OPERATOR)
    found = await context.gateway.status(context.tenant, scope if scope.named() else None, operates=operates)
    caller = {
        "name": context.caller,
        "role": context.role,
        "tenant": context.tenant,
        "decides_on_proposals": allows(context.role, context.settings.proposals.decided_by),
    }
    return reply({**found, "requests": context.gate.load(context.tenant), "caller": caller})


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}, "example": _METRICS}}}},
)
async def metrics(context: Context) -> Response:
    """The metrics of the home, for Prometheus

    They are of all tenants, so they need a key of the tenant default with the role operator.
    """
    jobs = await context.gateway.jobs(context.tenant).views()
    gate = context.gate
    prices = context.settings.telemetry.prices
    exposed = Exposed(gate.counts, gate.in_flight - 1, gate.queued, await context.gateway.readings(), jobs, prices)
    await asyncio.to_thread(load_library)
    return Response(exposition(exposed), media_type=MEDIA_TYPE)


@router.post("/v1/settle", response_model=wire.Settled)
async def settle(request: Request, context: Context, body: schemas.SettleBody) -> Response:
    """Wait until everything remembered is delivered and has its vectors"""
    settled = False
    with contextlib.suppress(TimeoutError):
        async with context.gate.wait_limit(body.timeout_s):
            await while_connected(request, context.gateway.settle(context.tenant))
            settled = True
    return reply({"settled": settled, "backends": await context.gateway.backends(context.tenant)})


@router.get("/healthz", response_model=wire.Health, openapi_extra={"security": []})
async def healthz(request: Request, context: Context) -> Response:
    """Liveness of the server"""
    address = request.scope.get("server") or ("", 0)
    proof = context.gate.rules.proof_of(request.headers.get(CHALLENGE, "").encode("latin-1"), address)
    response = reply({"status": "ok", "version": package.__version__, "pid": os.getpid()})
    if proof is not None:
        response.headers[PROOF] = proof
    return response


@router.get(
    "/readyz",
    response_model=wire.Ready,
    responses={503: {"description": "Not ready: it starts or stops", "model": wire.Ready}},
    openapi_extra={"security": []},
)
async def readyz(request: Request, context: Context) -> Response:
    """Readiness of the server; 503 while it starts or stops"""
    state = {"ready": True, **(await context.gateway.ready(context.tenant))}
    if not request.scope["admitted"]:  # without a key no names of backends and no paths
        state = {"ready": state["ready"]}
    if context.gate.draining:
        state |= {"ready": False, "reason": "the server is stopping"}
    if state["ready"]:
        return reply(state)
    return reply(state, HTTPStatus.SERVICE_UNAVAILABLE, retry_after="1")
