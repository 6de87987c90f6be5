"""`fusion embed-serve`: one local model over HTTP, for any number of gateways and for other programs.

It keeps nothing: texts come in, vectors go out, and no text is logged. `/encode` is the protocol of our own gateways,
with a vector for each token; `/v1/embeddings` is OpenAI's, and `/embed` that of Hugging Face's Text Embeddings
Inference.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fusion import problem
from fusion.doors.http.middleware import LOOPBACK_NAMES, without_port
from fusion.errors import BadInput, FusionError, NotFound, Overloaded, TooLarge

if TYPE_CHECKING:
    from fusion.contract import Encoded, TextEncoder
    from fusion.local_models.registry import LocalModel

MAX_BODY_BYTES = 8 << 20
MAX_BODIES_BYTES = 64 << 20
"""bytes of the bodies of all requests under way; one that would pass it gets 503 and may come again"""
MAX_TEXTS = 256
PUBLIC = frozenset({"/healthz", "/health", "/readyz"})
"""paths that need no key"""
MAX_WAITING = 64
"""requests that wait for a thread; one more gets 503 and may come again"""
Texts = Annotated[list[str], Field(min_length=1, max_length=MAX_TEXTS)]


class ToEncode(BaseModel):
    """What our own gateways ask for: the vectors of ``texts`` and of each of their tokens."""

    model: str
    texts: Texts
    question: bool = False


class OpenAiBody(BaseModel):
    """A request in OpenAI's form; fields that it does not know are left alone, as other servers do."""

    model: str
    input: str | Texts
    encoding_format: Literal["float", "base64"] = "float"
    input_type: Literal["query", "passage"] = "passage"


class TeiBody(BaseModel):
    """A request in the form of Text Embeddings Inference."""

    inputs: str | Texts


class EncodingServer:
    """Runs a model on ``threads`` threads; ``encoder`` has its vectors."""

    def __init__(self, model: LocalModel, encoder: TextEncoder, threads: int) -> None:
        self.model = model
        self.draining = False
        self._encoder = encoder
        self._threads = ThreadPoolExecutor(threads, "encode")
        self._waiting = 0

    async def encode(self, texts: Sequence[str], *, question: bool = False) -> list[Encoded]:
        """The vectors of the texts. Raises Overloaded if too many requests wait."""
        if self._waiting >= MAX_WAITING:
            raise Overloaded(f"{MAX_WAITING} requests wait already: come again, or start another fusion embed-serve")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, lambda: self._encoder.encode(texts, question=question))
        finally:
            self._waiting -= 1

    def require(self, name: str, *known: str) -> None:
        """Raises NotFound for the name of another model."""
        if name not in (self.model.identity, *known):
            raise NotFound(f"this server has {self.model.identity} ({self.model.name}), and not {name[:100]!r}")

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)


def create_app(server: EncodingServer, hosts: frozenset[str], key: str = "") -> ASGIApp:
    """The routes. ``hosts`` are the names that a request may use for this server; with a ``key`` it must have that."""
    return Guard(_routes(server), hosts, key)


def _routes(server: EncodingServer) -> FastAPI:
    app = FastAPI(title="memory-fusion embed-serve", docs_url=None, redoc_url=None)

    @app.exception_handler(FusionError)
    async def failed(request: Request, error: FusionError) -> Response:
        return _problem(error)

    @app.exception_handler(RequestValidationError)
    async def wrong(request: Request, error: RequestValidationError) -> Response:
        where = sorted({".".join(map(str, one["loc"][1:])) or "body" for one in error.errors()})
        return _problem(BadInput(f"these fields are not what this route takes: {', '.join(where)[:300]}"))

    @app.get("/healthz")
    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz")
    async def ready() -> Response:
        return Response(status_code=503 if server.draining else 200)

    @app.get("/info")
    async def info() -> dict[str, Any]:
        return {
            "model_id": server.model.name,
            "model_sha": server.model.identity,
            "model_dtype": "int8",
            "max_client_batch_size": MAX_TEXTS,
        }

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [{"id": server.model.name, "object": "model", "owned_by": "memory-fusion"}]}

    @app.post("/encode")
    async def encode(body: ToEncode) -> Response:
        server.require(body.model)
        found = await server.encode(body.texts, question=body.question)
        dense = b"".join(one.dense.astype("<f4").tobytes() for one in found)
        return _json({"model": server.model.identity, "dense": _written(dense), "tokens": list(map(_tokens, found))})

    @app.post("/v1/embeddings")
    async def embeddings(body: OpenAiBody) -> Response:
        server.require(body.model, server.model.name)
        texts = [body.input] if isinstance(body.input, str) else body.input
        found = await server.encode(texts, question=body.input_type == "query")
        as_text = body.encoding_format == "base64"
        data = [
            {
                "object": "embedding",
                "index": n,
                "embedding": _written(one.dense.astype("<f4").tobytes()) if as_text else one.dense.tolist(),
            }
            for n, one in enumerate(found)
        ]
        count = sum(len(one.tokens.vectors) for one in found)
        usage = {"prompt_tokens": count, "total_tokens": count}
        return _json({"object": "list", "model": server.model.name, "data": data, "usage": usage})

    @app.post("/embed")
    async def embed(body: TeiBody) -> Response:
        texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
        return _json([one.dense.tolist() for one in await server.encode(texts)])

    return app


class _Body:
    """The body of one request: ``size`` bytes in all, of which it has those that were not taken."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.size += len(piece)

    def taken(self) -> bytes:
        whole = b"".join(self._pieces)
        self._pieces.clear()
        return whole


class Guard:
    """Refuses a request of a page of another site, one without the key, one that is too large, and one too many."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str], key: str) -> None:
        self._app, self._hosts, self._key = app, hosts, key
        self._held = 0
        """bytes of the bodies of all requests under way"""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if (refusal := self._refusal(Request(scope))) is not None:
            await refusal(scope, receive, send)
            return
        body = _Body()
        try:
            await self._read(receive, body)
            await self._pass_on(body.taken(), scope, send)
        except (TooLarge, Overloaded) as error:  # of the reading: the app answers its own
            await _problem(error)(scope, receive, send)
        finally:
            self._held -= body.size

    async def _read(self, receive: Receive, body: _Body) -> None:
        """Read the body of a request. Raises TooLarge and Overloaded as soon as it is too much."""
        more = True
        while more:
            message = await receive()
            if piece := message.get("body", b""):
                if body.size + len(piece) > MAX_BODY_BYTES:
                    raise TooLarge(f"a request may have {MAX_BODY_BYTES} bytes: send fewer texts at once")
                if self._held + len(piece) > MAX_BODIES_BYTES:
                    raise Overloaded(f"requests with {MAX_BODIES_BYTES} bytes are under way already: come again")
                body.add(piece)
                self._held += len(piece)
            more = message.get("more_body", False)

    async def _pass_on(self, body: bytes, scope: Scope, send: Send) -> None:
        message: Message = {"type": "http.request", "body": body, "more_body": False}

        async def replayed() -> Message:
            nonlocal message
            taken, message = message, {"type": "http.disconnect"}
            return taken

        await self._app(scope, replayed, send)

    def _refusal(self, request: Request) -> Response | None:
        if self._hosts and without_port(request.headers.get("host", "").lower()) not in self._hosts:
            return _json({"detail": "This server does not answer to that Host."}, 421)
        if "origin" in request.headers:
            return _json({"detail": "Pages of browsers may not call this server."}, 403)
        sent = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._key and request.url.path not in PUBLIC and not _same(sent, self._key):
            return _json({"detail": "This server wants its key, as a bearer token."}, 401)
        return None


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _problem(error: FusionError) -> Response:
    return _json({"detail": str(error)}, problem.status_of(error))


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


def _written(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _tokens(one: Encoded) -> dict[str, Any]:
    tokens = one.tokens
    return {
        "vectors": _written(tokens.vectors.tobytes()),
        "dimensions": int(tokens.vectors.shape[1]),
        "scale": tokens.scale,
        "tokens": list(tokens.tokens),
        "words": list(tokens.words),
    }


def default_threads() -> int:
    """One for each processor, at most four: more wait for each other's memory."""
    return min(4, os.cpu_count() or 1)


def hosts_of(host: str, loopback: bool) -> frozenset[str]:
    """The names of the server: those of loopback there; elsewhere any, since a key protects it."""
    return LOOPBACK_NAMES | {host.lower()} if loopback else frozenset()
