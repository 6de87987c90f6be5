"""Every route of the gateway: what it takes, what it answers, and which call of `Gateway` does it.

Requests are models of `bodies`, checked by FastAPI. Replies are declared in `fusion.wire` for the document and are
encoded here as they are: to validate them again would cost each question more than its ranking. A test validates every
reply against its declaration.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope

import fusion as package
from fusion import problem, wire
from fusion.contract import Hit
from fusion.doors.compat import openclaw
from fusion.doors.http import schemas
from fusion.doors.http.encode import encode
from fusion.doors.http.streaming import NDJSON, no_lines, no_progress, streamed
from fusion.errors import NobodyAnswered, NotFound
from fusion.gateway import memory_flush
from fusion.ingest.claims import unread
from fusion.ingest.intake import Replayed
from fusion.lib.budget import clip
from fusion.recall.document import MAX_CHARS
from fusion.trust.token import CHALLENGE, PROOF, READER_HEADER, is_reader

if TYPE_CHECKING:
    from fusion.doors.http.middleware import Gate
    from fusion.gateway.gateway import Gateway
    from fusion.recall.gather import Answer
    from fusion.settings import Settings

T = TypeVar("T")

WATCH_AFTER_S = 0.02


class ClientGone(Exception):
    """Nobody reads the reply any more."""


class StrictRoute(APIRoute):
    """A route that reads JSON by our rules: no NaN, no field twice in one object, no parameter twice."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def read_strictly(request: Request) -> Response:
            if request.scope["query_string"]:
                schemas.once(request.query_params.multi_items())
            if self.body_field is not None:
                request = StrictRequest(request.scope, request.receive, await request.body())
            return await handle(request)

        return read_strictly


class StrictRequest(Request):
    """A request whose JSON has been read already. Raises BadInput for a body that is not JSON."""

    def __init__(self, scope: Scope, receive: Receive, body: bytes) -> None:
        super().__init__(scope, receive)
        self._sent = body
        self._content = schemas.content_of(body)

    async def body(self) -> bytes:
        return self._sent

    async def json(self) -> object:
        return self._content


@dataclass(frozen=True, slots=True)
class Served:
    """What a request is answered from, and the tenant that asks."""

    fusion: Gateway
    settings: Settings
    gate: Gate
    tenant: str = "default"


async def served(request: Request) -> Served:
    here: Served = request.app.state.served
    return Served(here.fusion, here.settings, here.gate, request.scope["tenant"])


Here = Annotated[Served, Depends(served)]
Reference = Annotated[
    str, Path(json_schema_extra={"minLength": 1, "maxLength": schemas.MAX_REF_CHARS}, examples=["m1z"])
]
Name = Annotated[str, Path(json_schema_extra={"minLength": 1, "maxLength": 64})]
InQuery = Query()


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Error replies of a route for its document; each is problem details."""
    return {status: problem_reply(status) for status in statuses}


def problem_reply(status: int) -> dict[str, Any]:
    shown = problem.http_problem(status, "What is wrong, and how to fix it.")
    content = {problem.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": shown}}
    return {"description": problem.phrase(status), "content": content}


_COMMON = (400, 401, 403, 408, 413, 421, 422, 500, 503)
"""what any route may answer: the gate's refusals, wrong input, a mistake of ours, overload"""

router = APIRouter(
    route_class=StrictRoute, responses=problems(*_COMMON), generate_unique_id_function=lambda route: route.name
)


@router.post("/fuse", response_model=wire.Fused)
@router.post("/v1/fuse", name="fuse_v1", response_model=wire.Fused)
async def fuse(request: Request, here: Here, body: schemas.FuseBody) -> Response:
    """Ask all memories; get one block that fits the prompt"""
    fused = await while_connected(request, here.fusion.fuse(body.request(here.tenant)))
    return reply(fused, server_timing=f"fuse;dur={fused.took_ms:.2f}")


@router.post("/v1/compare", response_model=wire.Compared)
async def compare(request: Request, here: Here, body: schemas.CompareBody) -> Response:
    """Ask once, answer by two arms, and say what differs and why"""
    asked = body.request(here.tenant)
    return reply(await while_connected(request, here.fusion.compare(asked, body.a, body.b)))


@router.get("/v1/feedback", response_model=wire.Labels)
async def labels(here: Here, asked: Annotated[schemas.Labelled, InQuery]) -> Response:
    """What was voted on, oldest first, each with the signals it was ranked by"""
    return reply(await here.fusion.labels(here.tenant, asked.limit, cursor=asked.cursor))


@router.post("/v1/feedback", response_model=wire.Feedback, responses=problems(404, 507))
async def feedback(here: Here, body: schemas.FeedbackBody) -> Response:
    """Say which memories of an answer were of use, and which were not"""
    scope = body.scope(here.tenant)
    return reply(await here.fusion.feedback(known(body.receipt_id), scope, useful=body.useful, useless=body.useless))


@router.post("/v1/search", response_model=wire.Found)
async def search(request: Request, here: Here, body: schemas.SearchBody) -> Response:
    """Ask one backend; get its raw hits"""
    asked = here.fusion.search(body.backend, body.query, body.scope(here.tenant), limit=body.limit)
    answer = await while_connected(request, asked)
    if answer.status not in ("ok", "empty", "skipped"):
        raise nobody(answer, await here.fusion.worth_asking_s([answer.backend], here.tenant))
    return reply(found(answer, await here.fusion.refs(answer, here.tenant)))


@router.get("/v1/memories", response_model=wire.Memories)
async def memories(here: Here, asked: Annotated[schemas.Listed, InQuery]) -> Response:
    """List what is remembered, newest first, page by page"""
    scope = asked.scope(here.tenant)
    found = here.fusion.memories(scope, asked.limit, cursor=asked.cursor, document=asked.document, source=asked.source)
    return reply(await found)


_REPLAYED = {
    "Idempotent-Replayed": {
        "description": "true: an earlier request's reply, given again",
        "schema": {"const": "true"},
    }
}


@router.post(
    "/v1/memories",
    response_model=wire.Remembered,
    response_description="All were there already",
    responses={
        200: {"headers": _REPLAYED},
        201: {"description": "Stored", "model": wire.Remembered, "headers": _REPLAYED},
        **problems(
            404, 409, 507
        ),  # 404: what a memory supersedes is not there; 409: the key's first request still runs
    },
)
async def remember(
    here: Here,
    body: Annotated[schemas.Memories, Body()],
    idempotency_key: Annotated[
        schemas.IdempotencyKey | None,
        Header(
            alias="Idempotency-Key",
            description="The same key with the same body gets the first reply again, with Idempotent-Replayed: true, "
            "and stores nothing; with another body 422; while the first request runs 409.",
        ),
    ] = None,
    ingest_batch: Annotated[
        schemas.Batch | None,
        Header(
            alias="Ingest-Batch",
            description="An id of yours for the run that these memories come with: POST /v1/undo takes back what it "
            "added.",
        ),
    ] = None,
    reader: Annotated[str | None, Header(alias=READER_HEADER, include_in_schema=False)] = None,
) -> Response:
    """Remember one memory or up to a hundred; acknowledged is kept

    The reply comes once the memories are on disk. They reach the backends in the background, usually within 100 ms: a
    question asked right after this may not find them yet. POST /v1/settle waits until they are delivered.
    """
    items = [one.memory() for one in (body if isinstance(body, list) else [body])]
    if here.tenant != "default" or not await asyncio.to_thread(is_reader, here.settings.home, reader):
        items = [unread(item) for item in items]
    kept = await here.fusion.remember(items, idempotency_key=idempotency_key, tenant=here.tenant, batch=ingest_batch)
    fresh = any(item.status in ("stored", "superseded") for item in kept)
    headers = {"idempotent_replayed": "true"} if isinstance(kept, Replayed) else {}
    return reply({"memories": kept}, HTTPStatus.CREATED if fresh else HTTPStatus.OK, **headers)


@router.get("/v1/memories/{ref:path}", response_model=wire.Remembrance, responses=problems(404))
async def memory(here: Here, ref: Reference, asked: Annotated[schemas.Scoped, InQuery]) -> Response:
    """Read one memory"""
    return reply(await here.fusion.memory(known(ref), asked.scope(here.tenant)))


@router.delete("/v1/memories/{ref:path}", response_model=wire.Forgotten, responses=problems(404, 507))
async def forget(here: Here, ref: Reference, asked: Annotated[schemas.Scoped, InQuery]) -> Response:
    """Forget one memory, in every backend"""
    return reply(await here.fusion.forget(known(ref), asked.scope(here.tenant)))


@router.post("/v1/forget", response_model=wire.Forgetting, responses=problems(507))
async def forget_many(here: Here, body: schemas.ForgetBody) -> Response:
    """Forget by refs, query, source, document or time; or show what that would be"""
    return reply(await here.fusion.forget_many(body.request(here.tenant)))


@router.post("/v1/undo", response_model=wire.Undone, responses=problems(404, 507))
async def undo(here: Here, body: schemas.UndoBody) -> Response:
    """Take back what one ingest added; its files can be read in again"""
    scope = body.scope(here.tenant)
    return reply(await here.fusion.undo(scope, body.batch, limit=body.limit, dry_run=body.dry_run))


@router.get("/v1/batches", response_model=wire.Batches)
async def batches(here: Here, asked: Annotated[schemas.BatchesQuery, InQuery]) -> Response:
    """The ingests that can be undone, the latest first"""
    return reply({"batches": await here.fusion.batches(asked.scope(here.tenant), asked.limit)})


@router.get("/v1/forgotten", response_model=wire.ForgottenPage)
async def forgotten(here: Here, asked: Annotated[schemas.ForgottenQuery, InQuery]) -> Response:
    """What was forgotten when, and what became of it where; newest first"""
    return reply(await here.fusion.forgotten(asked.scope(here.tenant), asked.limit, cursor=asked.cursor))


@router.get("/v1/sources", response_model=wire.Sources)
async def sources(here: Here, asked: Annotated[schemas.SourcesQuery, InQuery]) -> Response:
    """Where memories came from, by name"""
    scope = asked.scope(here.tenant)
    return reply({"sources": await here.fusion.origins(scope, asked.prefix or "", asked.after or "", asked.limit)})


@router.post("/v1/retire", response_model=wire.Retired, responses=problems(507))
async def retire(here: Here, body: schemas.RetireBody) -> Response:
    """Say what files have now; what else came from them is not current any more"""
    sources = await here.fusion.retire(body.scope(here.tenant), body.whole(), dry_run=body.dry_run)
    return reply({"retired": sum(sources.values()), "sources": sources, "dry_run": body.dry_run})


@router.get("/v1/documents", response_model=wire.Document, responses=problems(404))
async def document(here: Here, asked: Annotated[schemas.DocumentQuery, InQuery]) -> Response:
    """Read a page of a document that a hit named"""
    scope = asked.scope(here.tenant)
    return reply(await here.fusion.document(asked.path, scope, start=asked.start, lines=asked.lines))


@router.post("/v1/tools/memory_search", response_model=wire.ToolFound)
async def memory_search(request: Request, here: Here, body: schemas.SearchToolBody) -> Response:
    """An agent's tool: single memories with path, lines and citation; never an error for want of memory"""
    try:
        fused = await while_connected(request, here.fusion.fuse(body.request(here.tenant)))
    except NobodyAnswered as error:
        return reply(openclaw.unavailable_result(error))
    found = openclaw.search_result(
        fused,
        limit=body.max_results,
        min_score=body.min_score,
        citations=body.citations or here.settings.tools.citations,
        audience=body.audience,
        embedder=here.fusion.embedding_model,
    )
    return reply(found)


@router.post("/v1/tools/memory_get", response_model=wire.ToolRead)
async def memory_get(here: Here, body: schemas.GetToolBody) -> Response:
    """An agent's tool: lines of a document, or a memory; an empty text for what is not there"""
    scope = body.scope(here.tenant)
    try:
        page = await here.fusion.document(body.path, scope, start=body.start, lines=body.lines)
        return reply(openclaw.page_result(page))
    except NotFound:
        pass  # a memory without a document is read by its ref
    try:
        memory = await here.fusion.memory(known(body.path), scope)
    except NotFound:
        return reply(openclaw.empty_result(body.path))
    return reply({"text": clip(memory["text"], MAX_CHARS), "path": body.path})


@router.post("/v1/tools/memory_append", response_model=wire.Appended, responses=problems(507))
async def memory_append(here: Here, body: schemas.AppendToolBody) -> Response:
    """An agent's tool: append to today's log, and to nothing else"""
    return reply(await here.fusion.append(body.text, body.scope(here.tenant)))


@router.post("/v1/flush/plan", response_model=wire.FlushPlan)
async def flush_plan(here: Here, body: schemas.FlushBody) -> Response:
    """Whether an agent should save now what it knows, before its context is compacted, and with which words"""
    chosen = here.settings.flush
    rules = memory_flush.Rules(**chosen.model_dump(include={field.name for field in fields(memory_flush.Rules)}))
    zone = chosen.zone if body.zone is None else body.zone
    words = {"prompt": chosen.prompt, "system_prompt": chosen.system_prompt}
    return reply(memory_flush.plan(body.context(), body.rules(rules), datetime.now(UTC), zone, **words))


@router.get("/v1/backends", response_model=wire.Backends)
async def backends(here: Here) -> Response:
    """Every backend, how it is, and what it holds"""
    return reply({"backends": await here.fusion.backends(here.tenant)})


_LINES = '{"progress":{"done":500,"total":50000}}\n{"result":{"expired":3}}\n'
_VERB = {"type": "object", "description": "a scope (user_id, …), and the verb's own arguments"}


@router.post(
    "/v1/backends/{backend}/{verb}",
    response_model=dict[str, Any],
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}, "example": _LINES}}}, **problems(404, 507)},
    openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": _VERB}}}},
)
async def do(request: Request, here: Here, backend: Name, verb: Name) -> Response:
    """Tell one backend to do what it can do beyond remembering and searching

    Each adapter has its own verbs: `fusion <backend> <verb> --help` says what one takes.
    """
    work, sent = schemas.verb(here.fusion.verb(backend, verb), await request.body())
    run = partial(here.fusion.do, backend, work, sent.scope(here.tenant))
    if NDJSON in request.headers.get("accept", ""):
        return await streamed(run)
    return reply(await while_connected(request, run(no_lines, no_progress)))


@router.get("/v1/status", response_model=wire.Status)
async def status(here: Here) -> Response:
    """The home at a glance: stores, breakers, backlog, sizes"""
    return reply({**(await here.fusion.status(here.tenant)), "requests": here.gate.load(here.tenant)})


@router.get("/v1/receipts/{receipt_id}", response_model=dict[str, Any], responses=problems(404))
async def receipt(here: Here, receipt_id: Reference, asked: Annotated[schemas.ReceiptQuery, InQuery]) -> Response:
    """Why each candidate of an answer was in the block or out of it"""
    return reply(await here.fusion.receipt(known(receipt_id), here.tenant, user_id=asked.user_id))


@router.post("/v1/settle", response_model=wire.Settled)
async def settle(request: Request, here: Here, body: schemas.SettleBody) -> Response:
    """Wait until everything remembered is delivered and its vectors are there"""
    settled = False
    with contextlib.suppress(TimeoutError):
        async with here.gate.patience(body.timeout_s):
            await while_connected(request, here.fusion.settle(here.tenant))
            settled = True
    return reply({"settled": settled, "backends": await here.fusion.backends(here.tenant)})


@router.get("/healthz", response_model=wire.Health, openapi_extra={"security": []})
async def healthz(request: Request, here: Here) -> Response:
    """That the server runs"""
    address = request.scope.get("server") or ("", 0)
    proof = here.gate.rules.proof_of(request.headers.get(CHALLENGE, "").encode("latin-1"), address)
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
async def readyz(request: Request, here: Here) -> Response:
    """Whether it can answer; 503 while it starts or stops"""
    state = {"ready": True, **(await here.fusion.ready(here.tenant))}
    if not request.scope["admitted"]:  # a probe needs no names of backends, and no paths
        state = {"ready": state["ready"]}
    if here.gate.draining:
        state |= {"ready": False, "reason": "the server is stopping"}
    if state["ready"]:
        return reply(state)
    return reply(state, HTTPStatus.SERVICE_UNAVAILABLE, retry_after="1")


def reply(content: object, status: int = 200, **headers: str) -> Response:
    """JSON of dataclasses and dictionaries, with ``headers`` whose names have underscores for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(encode(content), status, named, "application/json")


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Does ``work`` for as long as there is someone to read its result; raises ClientGone otherwise.

    Call it when the body has been read: what comes after it can only be the news that the client hung up.
    """
    here = cast("asyncio.Task[Any]", asyncio.current_task())
    gone = False
    watching: asyncio.Task[None] | None = None

    async def watch() -> None:
        nonlocal gone
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone = True
        here.cancel()

    def begin() -> None:
        nonlocal watching
        watching = asyncio.ensure_future(watch())

    # Most are answered before anybody could hang up: only those that take long are watched. The work stays in this
    # task, and only the watching has its own: a second one is a turn of the loop a request.
    soon = asyncio.get_running_loop().call_later(WATCH_AFTER_S, begin)
    try:
        return await work
    except asyncio.CancelledError:
        if gone:
            raise ClientGone from None
        raise  # by somebody else: the server is stopping, or the time is up
    finally:
        soon.cancel()
        if watching is not None:
            watching.cancel()
        if gone:
            here.uncancel()


def known(ref: str) -> str:
    """A ref that could be one. Every other gets the same answer as one that does not exist."""
    if not ref or len(ref) > schemas.MAX_REF_CHARS or not ref.isprintable():
        raise NotFound("There is no such memory or receipt here.")
    return ref


def nobody(answer: Answer, retry_after_s: float) -> NobodyAnswered:
    """The one backend that was asked failed."""
    why = f": {answer.detail}" if answer.detail else ""
    return NobodyAnswered(
        f"{answer.backend} did not answer ({answer.status}){why}",
        {"backends": [found(answer, ())["backend"]]},
        retry_after_s,
    )


def found(answer: Answer, refs: Sequence[str]) -> dict[str, Any]:
    """One backend's answer with its raw hits, each under its ref, in the form that `adapters.remote` reads."""
    return {
        "backend": {
            "name": answer.backend,
            "status": answer.status,
            "took_ms": round(answer.took_ms, 2),
            "count": len(answer.hits),
            "error_code": answer.error_code,
            **({"detail": answer.detail} if answer.detail else {}),
        },
        "hits": [
            {"ref": ref, **{name: getattr(hit, name) for name in _HIT_FIELDS}, "linked": hit.graph_score}
            for ref, hit in zip(refs, answer.hits, strict=False)
        ],
    }


_HIT_FIELDS = tuple(field.name for field in fields(Hit) if field.name != "graph_score")
