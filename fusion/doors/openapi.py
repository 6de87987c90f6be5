"""The OpenAPI document: written from the models that check requests and the types that describe replies."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

import fusion as package
from fusion import problem, wire
from fusion.doors import bodies

_REF = "#/components/schemas/{model}"
_AT = "2026-03-14T09:30:00Z"
_REFERENCE = "m1z"

_ASKED = {"name": "markdown", "status": "ok", "took_ms": 12.4, "count": 9, "error_code": None}
_COVERAGE = {"total": 4, "ok": 4, "failed": 0, "skipped": 0, "ratio": 1.0}
_MEMBER = {
    "ref": _REFERENCE,
    "text": "We move the bookings from SQLite to Postgres in April.",
    "speaker": "Nadia",
    "at": _AT,
    "kind": "decision",
    "trust": "unknown",
    "backends": ["markdown", "cortex"],
    "score": 0.81,
    "path": [],
}
_EXCERPT = {"ref": _REFERENCE, "document": "notes/database.md", "at": _AT, "score": 0.81, "members": [_MEMBER]}
_FUSED = {
    "block": f'<memory nonce="5f0c">\n[m1z] {_MEMBER["speaker"]}: {_MEMBER["text"]}\n</memory nonce="5f0c">',
    "memories": [_EXCERPT],
    "coverage": _COVERAGE,
    "degraded": False,
    "backends": [_ASKED],
    "rerank": {"status": "off"},
    "recipe": {"name": "default", "hash": "3f9a1c2e"},
    "receipt_id": "0199f3c4-6d1e-7c3a-9f0b-2d6f4c8a1b5e",
    "took_ms": 41.7,
    "abstained": None,
    "query_truncated": False,
    "explain": None,
}
_KEPT = {"ref": _REFERENCE, "event_id": "0199f3c4-6d1e-7c3a-9f0b-2d6f4c8a1b5e", "status": "stored"}
_HIT = {
    "ref": _REFERENCE,
    "native_id": "notes/database.md:12",
    "text": _MEMBER["text"],
    "score": 7.9,
    "kind": "note",
    "speaker": None,
    "at": None,
    "document": "notes/database.md",
    "path": [],
}

_COMMON = (400, 401, 403, 408, 413, 421, 422, 500, 503)
"""what any route may answer: the gate's refusals, wrong input, a mistake of ours, overload"""


@cache
def document(*, needs_key: bool = False) -> dict[str, Any]:
    """The whole document; with ``needs_key`` every route but the probes wants a Bearer key."""
    fuse = _operation(
        "Ask all memories; get one block that fits the prompt",
        bodies.FuseBody,
        {"query": "what did we decide about the database?", "user_id": "nadia", "budget_chars": 6000},
        wire.Fused,
        _FUSED,
    )
    paths = {
        "/fuse": {"post": fuse | {"operationId": "fuse"}},
        "/v1/fuse": {"post": fuse | {"operationId": "fuse_v1"}},
        "/v1/search": {
            "post": _operation(
                "Ask one backend; get its raw hits",
                bodies.SearchBody,
                {"backend": "markdown", "query": "database", "limit": 5},
                wire.Found,
                {"backend": _ASKED, "hits": [_HIT]},
                extra=(404,),
            )
            | {"operationId": "search"}
        },
        "/v1/memories": {"post": _remember() | {"operationId": "remember"}},
        "/v1/memories/{ref}": {
            "get": _operation(
                "Read one memory",
                None,
                None,
                wire.Remembrance,
                {"ref": _REFERENCE, "text": _MEMBER["text"]},
                parameters=[_path("ref", _REFERENCE), *_scope()],
                extra=(404,),
            )
            | {"operationId": "memory"},
            "delete": _operation(
                "Forget one memory, in every backend",
                None,
                None,
                dict[str, Any],
                {"ref": _REFERENCE, "backends": {"markdown": "hidden", "cortex": "deleted"}},
                parameters=[_path("ref", _REFERENCE), *_scope()],
                extra=(404, 507),
            )
            | {"operationId": "forget"},
        },
        "/v1/backends": {
            "get": _operation(
                "Every backend, how it is, and what it holds",
                None,
                None,
                wire.Backends,
                {"backends": [{"name": "markdown", "state": "ok", "items": 1042}]},
            )
            | {"operationId": "backends"}
        },
        "/v1/receipts/{receipt_id}": {
            "get": _operation(
                "Why each candidate of an answer was in the block or out of it",
                None,
                None,
                dict[str, Any],
                {"receipt_id": _FUSED["receipt_id"], "candidates": []},
                parameters=[_path("receipt_id", str(_FUSED["receipt_id"]))],
                extra=(404,),
            )
            | {"operationId": "receipt"}
        },
        "/v1/settle": {
            "post": _operation(
                "Wait until everything remembered is delivered and its vectors are there",
                bodies.SettleBody,
                {"timeout_s": 10},
                wire.Settled,
                {"settled": True, "backends": []},
            )
            | {"operationId": "settle"}
        },
        "/healthz": {
            "get": _operation(
                "That the server runs", None, None, wire.Health, {"status": "ok", "version": "0.1.0", "pid": 4711}
            )
            | {"operationId": "healthz", "security": []}
        },
        "/readyz": {
            "get": _operation(
                "Whether the server can answer; 503 while it starts or stops",
                None,
                None,
                dict[str, Any],
                {"ready": True},
            )
            | {"operationId": "readyz", "security": []}
        },
    }
    # A probe's refusal tells the same as its answer, so it is no problem document.
    paths["/readyz"]["get"]["responses"]["503"] = paths["/readyz"]["get"]["responses"]["200"]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "memory-fusion",
            "version": package.__version__,
            "summary": "Ask all of an agent's memories at once.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}] if needs_key else [],
    }


def _operation(
    summary: str,
    body: type | None,
    example: object,
    answer: Any,
    answered: object,
    *,
    parameters: list[dict[str, Any]] | None = None,
    extra: tuple[int, ...] = (),
) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": summary, "responses": _responses(answer, answered, body, extra)}
    if parameters:
        operation["parameters"] = parameters
    if body is not None:
        operation["requestBody"] = {"required": True, "content": _json(_named(body), example)}
    return operation


def _remember() -> dict[str, Any]:
    one = {"text": _MEMBER["text"], "speaker": "Nadia", "at": "2026-03-14", "document": "standup", "position": 3}
    operation = _operation(
        "Remember one memory or up to a hundred; acknowledged is kept",
        bodies.MemoryBody,
        one,
        wire.Remembered,
        {"memories": [_KEPT]},
        parameters=[
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "the same key with the same body is answered again, not stored again",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
            }
        ],
        extra=(507,),
    )
    single = _named(bodies.MemoryBody)
    many = {"type": "array", "items": single, "minItems": 1, "maxItems": bodies.MAX_BATCH}
    operation["requestBody"]["content"] = {
        "application/json": {
            "schema": {"oneOf": [single, many]},
            "examples": {"one": {"value": one}, "many": {"value": [one, one | {"position": 4}]}},
        }
    }
    operation["responses"]["201"] = operation["responses"]["200"] | {"description": "Stored"}
    operation["responses"]["200"] = operation["responses"]["200"] | {"description": "All were there already"}
    return operation


def _responses(answer: Any, answered: object, body: type | None, extra: tuple[int, ...]) -> dict[str, Any]:
    statuses = sorted({*_COMMON, *extra, *((415,) if body is not None else ())})
    replies: dict[str, Any] = {"200": {"description": "The answer", "content": _json(_named(answer), answered)}}
    for status in statuses:
        shown = problem.http_problem(status, "What is wrong, and what mends it.")
        content = {problem.MEDIA_TYPE: {"schema": _named(wire.Problem), "example": shown}}
        replies[str(status)] = {"description": problem.phrase(status), "content": content}
    return replies


def _json(schema: dict[str, Any], example: object) -> dict[str, Any]:
    return {"application/json": {"schema": schema, "example": example}}


def _named(model: Any) -> dict[str, Any]:
    return {"type": "object"} if model == dict[str, Any] else {"$ref": _REF.format(model=model.__name__)}


def _path(name: str, example: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": {"type": "string", "minLength": 1, "maxLength": bodies.MAX_REF_CHARS},
        "example": example,
    }


def _scope() -> list[dict[str, Any]]:
    """The scope as query parameters."""
    properties = bodies.Scoped.model_json_schema()["properties"]
    return [
        {
            "name": name,
            "in": "query",
            "schema": next((s for s in schema.get("anyOf", ()) if s.get("type") != "null"), schema),
        }
        for name, schema in properties.items()
    ]


def _schemas() -> dict[str, Any]:
    """Every model that the document refers to."""
    inputs = (bodies.FuseBody, bodies.SearchBody, bodies.MemoryBody, bodies.SettleBody)
    outputs = (
        wire.Fused,
        wire.Found,
        wire.Remembered,
        wire.Remembrance,
        wire.Backends,
        wire.Settled,
        wire.Health,
        wire.Problem,
    )
    schemas: dict[str, Any] = {}
    sides: tuple[tuple[tuple[Any, ...], JsonSchemaMode], ...] = ((inputs, "validation"), (outputs, "serialization"))
    for models, mode in sides:
        adapters = [(model, mode, TypeAdapter(model)) for model in models]
        _, defined = TypeAdapter.json_schemas(adapters, ref_template=_REF)
        schemas |= defined["$defs"]
    return schemas
