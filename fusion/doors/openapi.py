"""The OpenAPI document: written from the models that check requests and the types that describe replies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import JsonSchemaMode

import fusion as package
from fusion import problem, wire
from fusion.doors import bodies
from fusion.doors.streaming import NDJSON

_REF = "#/components/schemas/{model}"
_AT = "2026-03-14T09:30:00Z"
_REFERENCE = "m1z"
_EVENT_ID = "0199f3c4-6d1e-7c3a-9f0b-2d6f4c8a1b5e"

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
    "place": {"document": "notes/database.md", "start": 12, "end": 14, "unit": "line"},
    "path": [],
}
_EXCERPT = {"ref": _REFERENCE, "document": "notes/database.md", "at": _AT, "score": 0.81, "members": [_MEMBER]}
_FUSED = {
    "block": f'<memories nonce="5f0c">\n[m1z] {_MEMBER["speaker"]}: {_MEMBER["text"]}\n</memories nonce="5f0c">',
    "memories": [_EXCERPT],
    "coverage": _COVERAGE,
    "degraded": False,
    "backends": [_ASKED],
    "rerank": {"status": "off"},
    "recipe": {"name": "default", "hash": "3f9a1c2e"},
    "receipt_id": _EVENT_ID,
    "took_ms": 41.7,
    "abstained": None,
    "query_truncated": False,
    "explain": None,
    "notes": [],
}
_SIDE = {
    "arm": "default",
    **{name: _FUSED[name] for name in ("block", "memories", "coverage", "degraded", "backends", "rerank", "recipe")},
    "characters": 131,
    "receipt_id": "r1d0d99e7e0afce3fb56e5248",
    "waited_ms": 12.4,
    "took_ms": 9.1,
    "abstained": None,
    "tuned_on": False,
}
_REASON = {
    "ref": _REFERENCE,
    "decision": "packed",
    "reason": "packed",
    "local": 0.81,
    "judge": None,
    "rrf": 0.0328,
    "beside": None,
    "signals": {"agreement": 1.0, "window3": 0.74},
    "found_by": {"markdown": 1, "cortex": 2},
}
_COMPARED = {
    "a": _SIDE,
    "b": _SIDE | {"arm": "seed003", "block": "", "characters": 0, "memories": [], "abstained": "nothing was found"},
    "only_a": [_REFERENCE],
    "only_b": [],
    "both": [],
    "why": [
        {
            "ref": _REFERENCE,
            "a": _REASON,
            "b": _REASON | {"decision": "excerpts_full", "reason": "the block has all its excerpts"},
        }
    ],
    "took_ms": 48.0,
    "query_truncated": False,
    "notes": [],
}
_FEEDBACK = {"receipt_id": "r1d0d99e7e0afce3fb56e5248", "useful": [_REFERENCE], "useless": ["m20"]}
_LABEL = {
    "receipt_id": "r1d0d99e7e0afce3fb56e5248",
    "ref": _REFERENCE,
    "useful": True,
    "at": _AT,
    "scope": {"user_id": "nadia"},
    "recipe": _FUSED["recipe"],
    "position": 1,
    "decision": "packed",
    "local": 0.81,
    "judge": None,
    "rrf": 0.0328,
    "signals": {"agreement": 1.0, "window3": 0.74},
    "found_by": {"markdown": 1, "cortex": 2},
}
_BATCH_ROW = {
    "id": "20260314-091500-3f2a",
    "at": "2026-03-14T09:15:00Z",
    "memories": 120,
    "first": "file:/home/nadia/notes/a.md",
    "last": "file:/home/nadia/notes/z.md",
}
_KEPT = {
    "ref": _REFERENCE,
    "event_id": _EVENT_ID,
    "status": "stored",
    "redacted": 0,
    "reason": "",
    "supersedes": None,
    "said": 1,
}
_HIT = {
    "ref": _EVENT_ID,
    "native_id": "notes/database.md:12",
    "text": _MEMBER["text"],
    "scope": {"tenant": "default", "user_id": "nadia", "audience": "group"},
    "event_id": _EVENT_ID,
    "score": 7.9,
    "kind": "decision",
    "raw_kind": None,
    "speaker": "Nadia",
    "at": {"utc": _AT, "precision": "day", "zone": None},
    "recorded_at": _AT,
    "valid_from": None,
    "valid_to": None,
    "place": {"document": "notes/database.md", "start": 12, "end": 14, "unit": "line"},
    "trust": "unknown",
    "origin": "owner",
    "derived_from": [],
    "path": [],
}
_MEMORY = {
    "ref": _REFERENCE,
    "event_id": _EVENT_ID,
    "text": _MEMBER["text"],
    "kind": "decision",
    "speaker": "Nadia",
    "at": _AT,
    "recorded_at": _AT,
    "document": "standup",
    "position": 3,
    "source": None,
    "trust": "unknown",
    "origin": "owner",
    "scope": {"user_id": "nadia"},
}
_DOCUMENT = {
    "path": "notes/database.md",
    "unit": "line",
    "from": 12,
    "lines": 1,
    "text": _MEMBER["text"],
    "truncated": True,
    "next_from": 13,
}
_STATE = {
    "name": "markdown",
    "adapter": "adapters.markdown:Markdown",
    "status": "ready",
    "detail": "",
    "items": 1042,
    "vectors": 1042,
    "vectors_pending": 0,
    "backlog": 0,
    "leaked": 0,
    "notes": [],
    "degraded": False,
}

_STATUS = {
    "version": "0.1.0",
    "uptime_s": 5130.2,
    "backends": [
        _STATE | {"refused": 0, "failed": 0, "reason": "", "breaker": "closed", "wait_s": 0.0},
    ],
    "memories": {"current": 1042, "superseded": 12, "forgotten": 3},
    "receipts": {"kept": 118, "keep_days": 7.0},
    "embedder": "all-MiniLM-L6-v2-int8@8199be6f",
    "judge": None,
    "bytes": {"embeddings": 18_432_000, "backends/cortex": 6_144_000, "journal": 4_096_000, "receipts": 1_024_000},
    "notes": [],
    "held_back": [{"document": "notes/garden.md", "refs": ["m1z"]}],
    "requests": {"in_flight": 2, "queued": 0},
}
_AUDITED = {"ref": _REFERENCE, "at": _AT, "by": "ref", "backends": {"markdown": "hidden", "cortex": "deleted"}}
_FORGETTING = {
    "dry_run": True,
    "found": [
        {
            "ref": _REFERENCE,
            "text": _MEMBER["text"],
            "backends": ["cortex", "markdown"],
            "at": _AT,
            "source": "file:/home/nadia/notes/old.md",
        }
    ],
    "receipts": [],
    "missing": [],
    "done": True,
    "pending": 0,
    "more": False,
    "next_cursor": None,
}
_TOOL_FOUND = {
    "results": [
        {
            "path": "notes/database.md",
            "startLine": 12,
            "endLine": 14,
            "score": 0.81,
            "vectorScore": 0.74,
            "textScore": 0.9,
            "snippet": _MEMBER["text"],
            "source": "memory",
            "citation": "notes/database.md#L12-L14",
            "ref": _REFERENCE,
            "kind": "decision",
            "trust": "unknown",
            "backends": ["markdown", "cortex"],
        }
    ],
    "provider": "local",
    "model": "all-MiniLM-L6-v2-int8",
    "fallback": None,
    "degraded": False,
    "notice": None,
}
_FLUSH = {
    "flush": True,
    "reason": "tokens",
    "threshold_tokens": 176_000,
    "expected_tokens": 177_000,
    "prompt": "Pre-compaction memory flush. …",
    "system_prompt": "Pre-compaction memory flush turn. …",
    "path": "memory/2026-03-14.md",
    "time": "2026-03-14T10:30:00+01:00",
    "zone": "Europe/Berlin",
    "rules": {
        "enabled": True,
        "reserve_floor_tokens": 20_000,
        "soft_threshold_tokens": 4_000,
        "force_transcript_bytes": 0,
    },
}
_HEALTH = {"status": "ok", "version": "0.1.0", "pid": 4711}
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key with the same body gets the first reply again, with Idempotent-Replayed: true, and "
    "stores nothing; with another body 422; while the first request is under way 409.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}

_BATCH = {
    "name": "Ingest-Batch",
    "in": "header",
    "description": "An id of yours for the run that these memories come with: POST /v1/undo takes back what it added.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[!-~]+$"},
}

_COMMON = (400, 401, 403, 408, 413, 421, 422, 500, 503)
"""what any route may answer: the gate's refusals, wrong input, a mistake of ours, overload"""


_KEY = "The token of the home, which `fusion token` prints, or an API key, which names a tenant."


@cache
def document(*, needs_key: bool = False) -> dict[str, Any]:
    """The whole document; with ``needs_key`` every route but the probes wants a Bearer key."""
    question = {"query": "what did we decide about the database?", "user_id": "nadia", "budget_chars": 6000}
    asked = "Ask all memories; get one block that fits the prompt"
    one = [_path("ref", _REFERENCE), *_query(bodies.Scoped)]
    paths = {
        "/fuse": {"post": _operation("fuse", asked, wire.Fused, _FUSED, body=(bodies.FuseBody, question))},
        "/v1/fuse": {"post": _operation("fuse_v1", asked, wire.Fused, _FUSED, body=(bodies.FuseBody, question))},
        "/v1/compare": {
            "post": _operation(
                "compare",
                "Ask once, answer by two arms, and say what differs and why",
                wire.Compared,
                _COMPARED,
                body=(bodies.CompareBody, question | {"a": "default", "b": "seed003@-mem0"}),
            )
        },
        "/v1/feedback": {
            "get": _operation(
                "labels",
                "What was voted on, oldest first, each with the signals it was ranked by",
                wire.Labels,
                {"labels": [_LABEL], "next_cursor": None},
                parameters=_query(bodies.Labelled),
            ),
            "post": _operation(
                "feedback",
                "Say which memories of an answer were of use, and which were not",
                wire.Feedback,
                _FEEDBACK,
                body=(bodies.FeedbackBody, _FEEDBACK | {"user_id": "nadia"}),
                extra=(404, 507),
            ),
        },
        "/v1/search": {
            "post": _operation(
                "search",
                "Ask one backend; get its raw hits",
                wire.Found,
                {"backend": _ASKED, "hits": [_HIT]},
                body=(bodies.SearchBody, {"backend": "markdown", "query": "database", "limit": 5}),
            )
        },
        "/v1/memories": {
            "get": _operation(
                "memories",
                "List what is remembered, newest first, page by page",
                wire.Memories,
                {"memories": [_MEMORY], "next_cursor": "c1z"},
                parameters=_query(bodies.Listed),
            ),
            "post": _remember(),
        },
        "/v1/memories/{ref}": {
            "get": _operation(
                "memory",
                "Read one memory",
                wire.Remembrance,
                {**_MEMORY, "backends": ["cortex", "markdown"], "supersedes": None, "current": True},
                parameters=one,
                extra=(404,),
            ),
            "delete": _operation(
                "forget",
                "Forget one memory, in every backend",
                wire.Forgotten,
                {"ref": _REFERENCE, "event_id": _EVENT_ID, "backends": {"markdown": "hidden", "cortex": "deleted"}},
                parameters=one,
                extra=(404, 507),
            ),
        },
        "/v1/forget": {
            "post": _operation(
                "forget_many",
                "Forget by refs, query, source, document or time; or show what that would be",
                wire.Forgetting,
                _FORGETTING,
                body=(bodies.ForgetBody, {"source": "file:/home/nadia/notes/old.md", "dry_run": True}),
                extra=(507,),
            )
        },
        "/v1/undo": {
            "post": _operation(
                "undo",
                "Take back what one ingest added; its files can be read in again",
                wire.Undone,
                {"batch": "20260314-091500-3f2a", "dry_run": True, "found": [], "undone": 0, "left": 120},
                body=(bodies.UndoBody, {"batch": "20260314-091500-3f2a", "dry_run": True}),
                extra=(404, 507),
            )
        },
        "/v1/batches": {
            "get": _operation(
                "batches",
                "The ingests that can be undone, the latest first",
                wire.Batches,
                {"batches": [_BATCH_ROW]},
                parameters=_query(bodies.BatchesQuery),
            )
        },
        "/v1/forgotten": {
            "get": _operation(
                "forgotten",
                "What was forgotten when, and what became of it where; newest first",
                wire.ForgottenPage,
                {"forgotten": [_AUDITED], "next_cursor": "c9"},
                parameters=_query(bodies.ForgottenQuery),
            )
        },
        "/v1/sources": {
            "get": _operation(
                "sources",
                "Where memories came from, by name",
                wire.Sources,
                {"sources": [{"source": "file:/home/nadia/notes/database.md", "memories": 12}]},
                parameters=_query(bodies.SourcesQuery),
            )
        },
        "/v1/retire": {
            "post": _operation(
                "retire",
                "Say what files have now; what else came from them is not current any more",
                wire.Retired,
                {"retired": 2, "sources": {"file:/home/nadia/notes/database.md": 2}, "dry_run": False},
                body=(
                    bodies.RetireBody,
                    {"files": [{"source": "file:/home/nadia/notes/database.md", "keep": ["9f2c", "77ab"]}]},
                ),
                extra=(507,),
            )
        },
        "/v1/documents": {
            "get": _operation(
                "document",
                "Read a page of a document that a hit named",
                wire.Document,
                _DOCUMENT,
                parameters=_query(bodies.DocumentQuery, path="notes/database.md"),
                extra=(404,),
            )
        },
        "/v1/tools/memory_search": {
            "post": _operation(
                "memory_search",
                "An agent's tool: single memories with path, lines and citation; never an error for want of memory",
                wire.ToolFound,
                _TOOL_FOUND,
                body=(bodies.SearchToolBody, {"query": "where do bookings live?", "maxResults": 3}),
            )
        },
        "/v1/tools/memory_get": {
            "post": _operation(
                "memory_get",
                "An agent's tool: lines of a document, or a memory; an empty text for what is not there",
                wire.ToolRead,
                {"text": _MEMBER["text"], "path": "notes/database.md", "from": 12, "lines": 3},
                body=(bodies.GetToolBody, {"path": "notes/database.md", "from": 12, "lines": 3}),
            )
        },
        "/v1/tools/memory_append": {
            "post": _operation(
                "memory_append",
                "An agent's tool: append to today's log, and to nothing else",
                wire.Appended,
                {"path": _REFERENCE, "ref": _REFERENCE, "status": "stored", "redacted": 0, "reason": ""},
                body=(bodies.AppendToolBody, {"text": "Moved the bookings to Postgres.", "user_id": "nadia"}),
                extra=(507,),
            )
        },
        "/v1/flush/plan": {
            "post": _operation(
                "flush_plan",
                "Whether an agent should save now what it knows, before its context is compacted, and with which words",
                wire.FlushPlan,
                _FLUSH,
                body=(bodies.FlushBody, {"context_window": 200_000, "total_tokens": 177_000, "zone": "Europe/Berlin"}),
            )
        },
        "/v1/backends": {
            "get": _operation(
                "backends", "Every backend, how it is, and what it holds", wire.Backends, {"backends": [_STATE]}
            )
        },
        "/v1/backends/{backend}/{verb}": {"post": _do()},
        "/v1/status": {
            "get": _operation("status", "The home at a glance: stores, breakers, backlog, sizes", wire.Status, _STATUS)
        },
        "/v1/receipts/{receipt_id}": {
            "get": _operation(
                "receipt",
                "Why each candidate of an answer was in the block or out of it",
                dict[str, Any],
                {"receipt_id": _EVENT_ID, "candidates": []},
                parameters=[_path("receipt_id", _EVENT_ID), *_query(bodies.ReceiptQuery)],
                extra=(404,),
            )
        },
        "/v1/settle": {
            "post": _operation(
                "settle",
                "Wait until everything remembered is delivered and its vectors are there",
                wire.Settled,
                {"settled": True, "backends": [_STATE]},
                body=(bodies.SettleBody, {"timeout_s": 10}),
            )
        },
        "/healthz": {"get": _operation("healthz", "That the server runs", wire.Health, _HEALTH) | {"security": []}},
        "/readyz": {
            "get": _operation(
                "readyz", "Whether it can answer; 503 while it starts or stops", dict[str, Any], {"ready": True}
            )
            | {"security": []}
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
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": _KEY}},
        },
        "security": [{"key": []}] if needs_key else [],
    }


def _operation(
    name: str,
    summary: str,
    answer: Any,
    answered: object,
    *,
    body: tuple[type, object] | None = None,
    parameters: Sequence[dict[str, Any]] = (),
    extra: Sequence[int] = (),
) -> dict[str, Any]:
    """One route: ``answer`` and ``body`` are types, each with an example; ``extra`` are statuses beyond the common."""
    operation: dict[str, Any] = {"operationId": name, "summary": summary}
    statuses = {*_COMMON, *extra}
    if parameters:
        operation["parameters"] = list(parameters)
    if body is not None:
        model, sent = body
        operation["requestBody"] = {"required": True, "content": _json(_named(model), sent)}
        statuses.add(415)
    operation["responses"] = {"200": {"description": "The answer", "content": _json(_named(answer), answered)}} | {
        str(status): _problem(status) for status in sorted(statuses)
    }
    return operation


def _do() -> dict[str, Any]:
    """What a verb takes is in `fusion <backend> <verb> --help`: each adapter has its own."""
    told = {"expired": 3, "decayed": 1, "consolidated": 12, "retired": 0, "conflicts_resolved": 2}
    operation = _operation(
        "do",
        "Tell one backend to do what it can do beyond remembering and searching",
        dict[str, Any],
        told,
        body=(bodies.Scoped, {"dry_run": True}),
        parameters=[_path("backend", "cortex"), _path("verb", "lifecycle")],
        extra=(404, 507),
    )
    body = operation["requestBody"]["content"]["application/json"]
    body["schema"] = {"type": "object", "description": "a scope (user_id, …), and the verb's own arguments"}
    lines = '{"progress":{"done":500,"total":50000}}\n{"result":{"expired":3}}\n'
    operation["responses"]["200"]["content"][NDJSON] = {"schema": {"type": "string"}, "example": lines}
    return operation


def _remember() -> dict[str, Any]:
    one = {"text": _MEMBER["text"], "speaker": "Nadia", "at": "2026-03-14", "document": "standup", "position": 3}
    operation = _operation(
        "remember",
        "Remember one memory or up to a hundred; acknowledged is kept",
        wire.Remembered,
        {"memories": [_KEPT]},
        body=(bodies.MemoryBody, one),
        parameters=[_IDEMPOTENCY_KEY, _BATCH],
        extra=(404, 409, 507),  # 404: what a memory supersedes is not there; 409: the key's first request still runs
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
    replayed = {"description": "true: an earlier request's reply, given again", "schema": {"const": "true"}}
    for status in ("200", "201"):
        operation["responses"][status]["headers"] = {"Idempotent-Replayed": replayed}
    return operation


def _problem(status: int) -> dict[str, Any]:
    shown = problem.http_problem(status, "What is wrong, and what mends it.")
    content = {problem.MEDIA_TYPE: {"schema": _named(wire.Problem), "example": shown}}
    return {"description": problem.phrase(status), "content": content}


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


def _query(model: type[BaseModel], **examples: str) -> list[dict[str, Any]]:
    """The fields of a model as query parameters."""
    schema = model.model_json_schema()
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "schema": next((s for s in one.get("anyOf", ()) if s.get("type") != "null"), one),
            **({"example": examples[name]} if name in examples else {}),
        }
        for name, one in schema["properties"].items()
    ]


def _schemas() -> dict[str, Any]:
    """Every model that the document refers to."""
    inputs = (
        bodies.FuseBody,
        bodies.CompareBody,
        bodies.FeedbackBody,
        bodies.SearchBody,
        bodies.MemoryBody,
        bodies.MomentBody,
        bodies.ForgetBody,
        bodies.RetireBody,
        bodies.FlushBody,
        bodies.SearchToolBody,
        bodies.GetToolBody,
        bodies.AppendToolBody,
        bodies.SettleBody,
    )
    outputs = (
        wire.Fused,
        wire.Compared,
        wire.Feedback,
        wire.Labels,
        wire.Found,
        wire.Remembered,
        wire.Remembrance,
        wire.Memories,
        wire.Document,
        wire.Forgotten,
        wire.Forgetting,
        wire.ForgottenPage,
        wire.Sources,
        wire.Retired,
        wire.Backends,
        wire.Status,
        wire.FlushPlan,
        wire.ToolFound,
        wire.ToolRead,
        wire.Appended,
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
