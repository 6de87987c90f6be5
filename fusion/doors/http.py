"""The HTTP door: parse, call, print. What decides stands behind it, in `Fusion`; what refuses before it, in `gate`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, cast

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

import fusion as package
from fusion import problem
from fusion.access import CHALLENGE, PROOF, READER_HEADER, is_reader
from fusion.contract import Hit, Scope
from fusion.contract import Route as DropIn
from fusion.doors import bodies, openapi, tools
from fusion.doors.encode import encode
from fusion.doors.gate import PUBLIC, Gate, Problem, Rules
from fusion.doors.streaming import NDJSON, no_lines, no_progress, streamed
from fusion.errors import BadInput, FusionError, NobodyAnswered, NotFound
from fusion.ingest import flush
from fusion.ingest.claims import unread
from fusion.ingest.intake import Replayed
from fusion.lib.budget import clip
from fusion.recall.document import MAX_CHARS

if TYPE_CHECKING:
    from fusion.recall.gather import Answer
    from fusion.settings import Settings
    from fusion.wiring import Fusion

T = TypeVar("T")

FUSE = TypeAdapter(bodies.FuseBody)
COMPARE = TypeAdapter(bodies.CompareBody)
FEEDBACK = TypeAdapter(bodies.FeedbackBody)
SEARCH = TypeAdapter(bodies.SearchBody)
FORGET = TypeAdapter(bodies.ForgetBody)
UNDO = TypeAdapter(bodies.UndoBody)
RETIRE = TypeAdapter(bodies.RetireBody)
FLUSH = TypeAdapter(bodies.FlushBody)
SEARCH_TOOL = TypeAdapter(bodies.SearchToolBody)
GET_TOOL = TypeAdapter(bodies.GetToolBody)
APPEND_TOOL = TypeAdapter(bodies.AppendToolBody)
SETTLE = TypeAdapter(bodies.SettleBody)


WATCH_AFTER_S = 0.02


class ClientGone(Exception):
    """Nobody reads the reply any more."""


def create_app(fusion: Fusion, settings: Settings, *, local_token: str | None = None) -> Gate:
    """The ASGI application over an open `Fusion`; ``local_token`` is the home's, which every request needs."""
    app = FastAPI(
        title="memory-fusion",
        version=package.__version__,
        summary="Ask all of an agent's memories at once.",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={
            FusionError: on_error,
            HTTPException: on_error,
            ClientGone: on_error,
            Exception: on_error,
        },
    )
    probes = {compat_path(name, one) for name, many in fusion.routes().items() for one in many if one.probe}
    rules = Rules.of(settings, local_token=local_token)
    gate = Gate(app, rules, probes=PUBLIC | probes, require=fusion.require_home)

    async def fuse(request: Request) -> Response:
        body = bodies.parse(FUSE, await request.body())
        fused = await while_connected(request, fusion.fuse(body.request(request.scope["tenant"])))
        return reply(fused, server_timing=f"fuse;dur={fused.took_ms:.2f}")

    async def compare(request: Request) -> Response:
        body = bodies.parse(COMPARE, await request.body())
        asked = body.request(request.scope["tenant"])
        return reply(await while_connected(request, fusion.compare(asked, body.a, body.b)))

    async def give_feedback(request: Request) -> Response:
        body = bodies.parse(FEEDBACK, await request.body())
        scope = body.scope(request.scope["tenant"])
        return reply(await fusion.feedback(known(body.receipt_id), scope, useful=body.useful, useless=body.useless))

    async def labels(request: Request) -> Response:
        asked = bodies.in_query(bodies.Labelled, request.query_params.multi_items())
        return reply(await fusion.labels(request.scope["tenant"], asked.limit, cursor=asked.cursor))

    async def feedback(request: Request) -> Response:
        return await (labels if request.method == "GET" else give_feedback)(request)

    async def search(request: Request) -> Response:
        body = bodies.parse(SEARCH, await request.body())
        asked = fusion.search(
            body.backend, bodies.ask(body.query), body.scope(request.scope["tenant"]), limit=body.limit
        )
        answer = await while_connected(request, asked)
        if answer.status not in ("ok", "empty", "skipped"):
            raise nobody(answer, await fusion.worth_asking_s([answer.backend], request.scope["tenant"]))
        return reply(found(answer, await fusion.refs(answer, request.scope["tenant"])))

    async def remember(request: Request) -> Response:
        items = bodies.memories(await request.body())
        key = bodies.idempotency_key(request.headers.get("idempotency-key"))
        tenant = request.scope["tenant"]
        batch = bodies.batch(request.headers.get("ingest-batch"))
        reader = request.headers.get(READER_HEADER)
        if tenant != "default" or not await asyncio.to_thread(is_reader, settings.home, reader):
            items = [unread(item) for item in items]
        kept = await fusion.remember(items, idempotency_key=key, tenant=tenant, batch=batch)
        fresh = any(item.status in ("stored", "superseded") for item in kept)
        headers = {"idempotent_replayed": "true"} if isinstance(kept, Replayed) else {}
        return reply({"memories": kept}, HTTPStatus.CREATED if fresh else HTTPStatus.OK, **headers)

    async def listed(request: Request) -> Response:
        asked = bodies.in_query(bodies.Listed, request.query_params.multi_items())
        scope = asked.scope(request.scope["tenant"])
        return reply(
            await fusion.memories(scope, asked.limit, cursor=asked.cursor, document=asked.document, source=asked.source)
        )

    async def memories(request: Request) -> Response:
        return await (listed if request.method == "GET" else remember)(request)

    async def memory(request: Request, ref: str) -> Response:
        act = fusion.forget if request.method == "DELETE" else fusion.memory
        return reply(await act(known(ref), scope_of(request)))

    async def forget(request: Request) -> Response:
        body = bodies.parse(FORGET, await request.body())
        return reply(await fusion.forget_many(body.request(request.scope["tenant"])))

    async def undo(request: Request) -> Response:
        body = bodies.parse(UNDO, await request.body())
        scope = body.scope(request.scope["tenant"])
        return reply(await fusion.undo(scope, body.batch, limit=body.limit, dry_run=body.dry_run))

    async def batches(request: Request) -> Response:
        asked = bodies.in_query(bodies.BatchesQuery, request.query_params.multi_items())
        return reply({"batches": await fusion.batches(asked.scope(request.scope["tenant"]), asked.limit)})

    async def forgotten(request: Request) -> Response:
        asked = bodies.in_query(bodies.ForgottenQuery, request.query_params.multi_items())
        return reply(await fusion.forgotten(asked.scope(request.scope["tenant"]), asked.limit, cursor=asked.cursor))

    async def sources(request: Request) -> Response:
        asked = bodies.in_query(bodies.SourcesQuery, request.query_params.multi_items())
        scope = asked.scope(request.scope["tenant"])
        return reply({"sources": await fusion.origins(scope, asked.prefix or "", asked.after or "", asked.limit)})

    async def retire(request: Request) -> Response:
        body = bodies.parse(RETIRE, await request.body())
        scope = body.scope(request.scope["tenant"])
        sources = await fusion.retire(scope, body.whole(), dry_run=body.dry_run)
        return reply({"retired": sum(sources.values()), "sources": sources, "dry_run": body.dry_run})

    async def document(request: Request) -> Response:
        asked = bodies.in_query(bodies.DocumentQuery, request.query_params.multi_items())
        scope = asked.scope(request.scope["tenant"])
        return reply(await fusion.document(asked.path, scope, start=asked.start, lines=asked.lines))

    async def memory_search(request: Request) -> Response:
        body = bodies.parse(SEARCH_TOOL, await request.body())
        try:
            fused = await while_connected(request, fusion.fuse(body.request(request.scope["tenant"])))
        except NobodyAnswered as error:
            return reply(tools.unavailable(error))
        found = tools.searched(
            fused,
            limit=body.max_results,
            min_score=body.min_score,
            citations=body.citations or settings.tools.citations,
            audience=body.audience,
            embedder=fusion.embedding_model,
        )
        return reply(found)

    async def memory_get(request: Request) -> Response:
        body = bodies.parse(GET_TOOL, await request.body())
        scope = body.scope(request.scope["tenant"])
        try:
            return reply(tools.read(await fusion.document(body.path, scope, start=body.start, lines=body.lines)))
        except NotFound:
            pass  # it may be a memory that stands in no document, and is named by its ref
        try:
            memory = await fusion.memory(known(body.path), scope)
        except NotFound:
            return reply(tools.nothing(body.path))
        return reply({"text": clip(memory["text"], MAX_CHARS), "path": body.path})

    async def memory_append(request: Request) -> Response:
        body = bodies.parse(APPEND_TOOL, await request.body())
        return reply(await fusion.append(body.text, body.scope(request.scope["tenant"])))

    async def flush_plan(request: Request) -> Response:
        body = bodies.parse(FLUSH, await request.body())
        chosen = settings.flush
        rules = flush.Rules(**chosen.model_dump(include={field.name for field in fields(flush.Rules)}))
        zone = chosen.zone if body.zone is None else body.zone
        words = {"prompt": chosen.prompt, "system_prompt": chosen.system_prompt}
        return reply(flush.plan(body.context(), body.rules(rules), datetime.now(UTC), zone, **words))

    async def verb(request: Request) -> Response:
        backend, name = request.path_params["backend"], request.path_params["verb"]
        told, sent = bodies.verb(fusion.verb(backend, name), await request.body())
        scope = sent.scope(request.scope["tenant"])
        work = partial(fusion.do, backend, told, scope)
        if NDJSON in request.headers.get("accept", ""):
            return await streamed(work)
        return reply(await while_connected(request, work(no_lines, no_progress)))

    async def backends(request: Request) -> Response:
        return reply({"backends": await fusion.backends(request.scope["tenant"])})

    async def status(request: Request) -> Response:
        tenant = request.scope["tenant"]
        return reply({**(await fusion.status(tenant)), "requests": gate.load(tenant)})

    async def receipt(request: Request, receipt_id: str) -> Response:
        asked = bodies.in_query(bodies.ReceiptQuery, request.query_params.multi_items())
        return reply(await fusion.receipt(known(receipt_id), request.scope["tenant"], user_id=asked.user_id))

    async def settle(request: Request) -> Response:
        body = bodies.parse(SETTLE, await request.body())
        settled = False
        with contextlib.suppress(TimeoutError):
            async with gate.patience(body.timeout_s):
                await while_connected(request, fusion.settle(request.scope["tenant"]))
                settled = True
        return reply({"settled": settled, "backends": await fusion.backends(request.scope["tenant"])})

    async def healthz(request: Request) -> Response:
        address = request.scope.get("server") or ("", 0)
        proof = gate.rules.proof_of(request.headers.get(CHALLENGE, "").encode("latin-1"), address)
        response = reply({"status": "ok", "version": package.__version__, "pid": os.getpid()})
        if proof is not None:
            response.headers[PROOF] = proof
        return response

    async def readyz(request: Request) -> Response:
        state = {"ready": True, **(await fusion.ready(request.scope["tenant"]))}
        if not request.scope["admitted"]:  # a probe needs no names of backends, and no paths
            state = {"ready": state["ready"]}
        if gate.draining:
            state |= {"ready": False, "reason": "the server is stopping"}
        if state["ready"]:
            return reply(state)
        return reply(state, HTTPStatus.SERVICE_UNAVAILABLE, retry_after="1")

    routes: tuple[tuple[Any, ...], ...] = (
        ("/fuse", fuse, "POST"),
        ("/v1/fuse", fuse, "POST"),
        ("/v1/compare", compare, "POST"),
        ("/v1/feedback", feedback, "GET", "POST"),
        ("/v1/search", search, "POST"),
        ("/v1/memories", memories, "GET", "POST"),
        ("/v1/memories/{ref:path}", memory, "GET", "DELETE"),
        ("/v1/forget", forget, "POST"),
        ("/v1/undo", undo, "POST"),
        ("/v1/batches", batches, "GET"),
        ("/v1/forgotten", forgotten, "GET"),
        ("/v1/sources", sources, "GET"),
        ("/v1/retire", retire, "POST"),
        ("/v1/documents", document, "GET"),
        ("/v1/flush/plan", flush_plan, "POST"),
        ("/v1/tools/memory_search", memory_search, "POST"),
        ("/v1/tools/memory_get", memory_get, "POST"),
        ("/v1/tools/memory_append", memory_append, "POST"),
        ("/v1/backends", backends, "GET"),
        ("/v1/backends/{backend}/{verb}", verb, "POST"),
        ("/v1/status", status, "GET"),
        ("/v1/receipts/{receipt_id}", receipt, "GET"),
        ("/v1/settle", settle, "POST"),
        ("/healthz", healthz, "GET"),
        ("/readyz", readyz, "GET"),
    )
    for path, endpoint, *methods in routes:
        if methods == ["POST"]:  # it reads its own body, so FastAPI's machinery for parameters would run for nothing
            app.add_route(path, endpoint, methods=methods, include_in_schema=False)
        else:
            app.add_api_route(path, endpoint, methods=methods, response_model=None, include_in_schema=False)
    for backend, drop_ins in fusion.routes().items():
        for drop_in in drop_ins:
            app.add_route(compat_path(backend, drop_in), dropped_in(fusion, backend, drop_in), methods=[drop_in.method])
    app.router.routes.append(Route("/mcp", Mcp(app), methods=["POST"]))
    app.openapi = lambda: openapi.document(needs_key=bool(gate.rules.keys))  # type: ignore[method-assign]
    return gate


def compat_path(backend: str, route: DropIn) -> str:
    return f"/compat/{backend}{route.path}"


def dropped_in(fusion: Fusion, backend: str, route: DropIn) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint of a route of another system's, which knows no users: it is asked for everybody's of a tenant."""

    async def endpoint(request: Request) -> Response:
        sent = bodies.content_of(body) if (body := await request.body()) else {}
        if not isinstance(sent, dict):
            raise BadInput("The body is not a JSON object.")
        given = {**request.query_params, **sent, **request.path_params}
        scope = Scope(request.scope["tenant"], audience="private")
        asked = fusion.serve(backend, route, scope, given, no_lines, no_progress)
        return reply(await while_connected(request, asked))

    return endpoint


class Mcp:
    """`/mcp`. The SDK behind it is imported when somebody first asks, in a thread: most gateways never need it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._door: ASGIApp | None = None

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if self._door is None:
            module = await asyncio.to_thread(importlib.import_module, "fusion.doors.mcp")
            self._door = cast("ASGIApp", module.http_door(self._app))
        await self._door(scope, receive, send)


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


def scope_of(request: Request) -> Scope:
    """The scope in a request's query string."""
    return bodies.in_query(bodies.Scoped, request.query_params.multi_items()).scope(request.scope["tenant"])


def known(ref: str) -> str:
    """A ref that could be one. Every other gets the same answer as one that does not exist."""
    if not ref or len(ref) > bodies.MAX_REF_CHARS or not ref.isprintable():
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
            {
                "ref": ref,
                **{name: getattr(hit, name) for name in _HIT},
            }
            for ref, hit in zip(refs, answer.hits, strict=False)
        ],
    }


_HIT = tuple(field.name for field in fields(Hit))


async def on_error(request: Request, error: Exception) -> Response:
    """Every error as problem details."""
    if isinstance(error, FusionError):
        return Problem.of(error)
    if isinstance(error, HTTPException):
        detail = _HTTP_DETAIL.get(error.status_code, error.detail)
        return Problem(problem.http_problem(error.status_code, detail), error.headers)
    if isinstance(error, ClientGone):
        return Response(status_code=499)  # nginx's number for it; nobody reads this, but a log may
    # Only our own mistakes come here. The log has the traceback; the caller gets what finds it there.
    detail = f"The gateway made a mistake. Its log says more, under request {request.scope.get('request_id')}."
    return Problem(problem.http_problem(500, detail))


_HTTP_DETAIL = {
    404: "There is no such route; /openapi.json lists them.",
    405: "This route has another method; the Allow header names it.",
}
