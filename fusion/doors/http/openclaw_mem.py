"""openclaw-mem's gateway (seed 004): its nine routes over the fused memory, at `PREFIX` and on a port of their own.

A client that was written for it works unchanged: it finds the same paths, fields, roles and errors. Each route does
what a command of openclaw-mem does, and returns what that prints as the ``result`` of a receipt.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from fastapi import Request
from fastapi.responses import Response
from starlette.applications import Starlette
from starlette.types import ASGIApp

from fusion.doors import schemas, validation
from fusion.doors.compat.openclaw_mem import bodies, errors
from fusion.doors.compat.openclaw_mem.bodies import Body
from fusion.doors.compat.openclaw_mem.canonical import folder_below
from fusion.doors.compat.openclaw_mem.episodes import GLOBAL, NewEpisode
from fusion.doors.compat.openclaw_mem.ledger import Ledger, Proposed, Stored
from fusion.doors.compat.openclaw_mem.roles import POLICIES, Capability
from fusion.doors.http.middleware import OPENCLAW_MEM as PREFIX
from fusion.doors.http.routing import context_of, while_connected
from fusion.doors.in_process import client_for
from fusion.errors import BadInput
from fusion.recall.context_pack import BUDGET_TOKENS
from fusion.settings import Settings

SERVICE = "openclaw-mem-gateway"
"""how the gateway calls itself: its clients check that"""
LANES = ("store", "episodes", "pack", "search", "docs_memory", "workspace_markdown")
DENY_TAGS = ("[SECRET]", "[PRIVATE]", "[NOEXPORT]", "[NOMEM]")
NOTHING_FOUND = "Nothing that this key may see fits the query."
DIRECT_STORE_OFF = "set direct_store = true in [openclaw_mem], or propose it: POST /v1/store/propose"
MAX_KEY_CHARS = 200
MIN_BUDGET_TOKENS = 64
"""tokens of the smallest pack: its frame takes half of that"""
EXPORTS = "exports"
"""the folder in a home for exports"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to one of the routes: its body, and the memory that it asks. ``address`` is where it reached us."""

    body: Body
    ledger: Ledger
    settings: Settings
    address: str
    idempotency_key: str | None


async def search(asked: Asked) -> dict[str, Any]:
    """The best memories of all backends, as rows."""
    query = bodies.text(asked.body, "query", 2000)
    found = await asked.ledger.search(query, bodies.integer(asked.body, "limit", 10, 100))
    return {**receipt(found.rows), **diagnostic(asked, "/v1/search", query, len(found.rows), degraded=found.degraded)}


async def store(asked: Asked) -> dict[str, Any]:
    """Keep a memory at once, if the settings allow that."""
    memory = Stored(
        bodies.text(asked.body, "text", bodies.MAX_TEXT_CHARS),
        bodies.category(asked.body, "fact"),
        bodies.number(asked.body, "importance", 0.6),
        bodies.optional_text(asked.body, "text_en", bodies.MAX_TEXT_CHARS),
        bodies.optional_text(asked.body, "lang", 20),
    )
    return {"mode": "direct_store", **receipt(await asked.ledger.store(memory))}


async def pack(asked: Asked) -> dict[str, Any]:
    """A context pack for a question, within a budget of tokens."""
    query = bodies.text(asked.body, "query", 4000)
    limit = bodies.integer(asked.body, "limit", 12, 50)
    budget = bodies.integer(asked.body, "budget_tokens", BUDGET_TOKENS, 20_000, MIN_BUDGET_TOKENS)
    english = bodies.optional_text(asked.body, "query_en", 4000)
    project = bodies.optional_text(asked.body, "graph_scope", 200)
    more = {} if project is None else {"project": project}
    asks = query if english is None else f"{query} {english}"
    made = await asked.ledger.pack(asks, limit, budget, **more)
    degraded = made["receipt"]["degraded"]
    return {**receipt(made), **diagnostic(asked, "/v1/pack", query, len(made["items"]), degraded=degraded)}


async def query_episodes(asked: Asked) -> dict[str, Any]:
    """The events of a scope, oldest first."""
    scope = bodies.optional_text(asked.body, "scope", 200)
    if scope is None and asked.body.get("global") is not True:
        raise BadInput("missing required field: scope")
    found = await asked.ledger.query_episodes(
        scope or GLOBAL,
        session_id=bodies.optional_text(asked.body, "session_id", 500),
        types=bodies.texts(asked.body, "types"),
        limit=bodies.integer(asked.body, "limit", 50, 500),
        include_payload=asked.body.get("include_payload") is True,
    )
    return receipt(found)


async def append_episode(asked: Asked) -> dict[str, Any]:
    """Keep an event of a session as evidence."""
    episode = NewEpisode(
        bodies.text(asked.body, "scope", 200),
        bodies.text(asked.body, "session_id", 256),
        bodies.text(asked.body, "agent_id", 200),
        bodies.text(asked.body, "type", 80).lower(),
        bodies.text(asked.body, "summary", 2000),
        asked.body.get("payload"),
        asked.body.get("refs"),
    )
    return receipt(await asked.ledger.append_episode(episode, asked.idempotency_key))


async def propose(asked: Asked) -> dict[str, Any]:
    """Propose a memory, which somebody approves."""
    provenance = asked.body.get("provenance")
    proposal = Proposed(
        bodies.text(asked.body, "scope", 200),
        bodies.text(asked.body, "agent_id", 200),
        bodies.text(asked.body, "text", bodies.MAX_TEXT_CHARS),
        bodies.category(asked.body, "other"),
        bodies.number(asked.body, "importance", 0.5),
        provenance if isinstance(provenance, Mapping) else {},
    )
    return {"mode": "proposal", **receipt(await asked.ledger.propose(proposal, asked.idempotency_key))}


async def export_canonical(asked: Asked) -> dict[str, Any]:
    """Write the current records below the export folder; by default only say what would be written."""
    dry_run = asked.body.get("dry_run", True) is not False
    named = bodies.optional_text(asked.body, "to", 2000)
    chosen = asked.settings.openclaw_mem.export_folder
    root = Path(chosen).expanduser() if chosen else asked.settings.home / EXPORTS
    folder = folder_below(root, named)
    result = await (asked.ledger.plan_export() if dry_run else asked.ledger.export(folder))
    return {"dry_run": dry_run, **receipt(result)}


Serve = Callable[[Asked], Coroutine[Any, Any, Mapping[str, Any]]]
ROUTES: Mapping[str, tuple[Capability, Serve]] = {
    "/v1/search": ("memory.search", search),
    "/v1/pack": ("memory.pack", pack),
    "/v1/episodes/query": ("episodes.query", query_episodes),
    "/v1/episodes/append": ("episodes.append", append_episode),
    "/v1/store/propose": ("store.propose", propose),
    "/v1/store": ("store.direct", store),
    "/v1/archive/export-canonical": ("archive.export", export_canonical),
}
"""the capability that each route needs, and what it does"""


def receipt(result: object) -> dict[str, Any]:
    """The members of a reply with what a command prints."""
    return {"ok": True, "receipt": {"ok": True, "exit_code": 0, "result": result}}


def diagnostic(asked: Asked, endpoint: str, query: str, count: int, *, degraded: bool) -> dict[str, Any]:
    """The member of a reply that says how a question was answered, for a client that finds nothing."""
    found = {
        "schema": "openclaw-mem.gateway.query-diagnostic.v1",
        "endpoint": endpoint,
        "query": query,
        "normalized_query": " ".join(query.split()),
        "result_count": count,
        "empty": count == 0,
        "query_variants": [],
        "searched_routes": ["fuse"],
        "fallback_attempts": [],
        "surface_identity": surface(asked.settings, asked.address),
        "hint": None if count else NOTHING_FOUND,
        "corpus_status": corpus_status(degraded=degraded),
    }
    return {"diagnostic": found}


def surface(settings: Settings, address: str) -> dict[str, Any]:
    """What this gateway is, without the paths of its machine."""
    return {
        "schema": "openclaw-mem.gateway.surface-identity.v1",
        "service": SERVICE,
        "db_configured": True,
        "db_fingerprint": hashlib.sha256(str(settings.home).encode()).hexdigest()[:16],
        "workspace_configured": bool(settings.workspace.root_folder),
        "direct_store_enabled": settings.openclaw_mem.direct_store,
        "source_lanes": list(LANES),
        "auto_index_workspace_memory": True,
        "gateway_url_hint": address,
    }


def corpus_status(*, degraded: bool) -> dict[str, Any]:
    """Whether a question that finds nothing has asked everything: not while a backend does not answer."""
    return {
        "schema": "openclaw-mem.gateway.corpus-status.v1",
        "parity_state": "partial" if degraded else "healthy",
        "workspace_memory_index_enabled": True,
        "workspace_memory_sources_configured": 0,
        "workspace_memory_files_configured": 0,
        "source_path_fingerprints": [],
        "indexed_files": None,
        "missing_paths": None,
        "skipped_private_chunks": None,
        "skipped_secret_like_chunks": None,
        "redaction_policy": {"deny_tags": list(DENY_TAGS), "secret_like_chunks": "masked"},
    }


def add_routes(app: Starlette) -> None:
    """Add the routes to an application, whose own routes answer them."""
    app.add_route(f"{PREFIX}/health", _health, methods=["GET"])
    app.add_route(f"{PREFIX}/v1/status", _status, methods=["GET"])
    for path, (capability, serve) in ROUTES.items():
        app.add_route(f"{PREFIX}{path}", _endpoint(app, path, capability, serve), methods=["POST"])


async def _health(request: Request) -> Response:
    return _reply({"ok": True, "service": SERVICE})


async def _status(request: Request) -> Response:
    context = await context_of(request)
    policy = POLICIES[context.role]
    states = await context.gateway.backends(context.tenant)
    degraded = any(one["status"] not in ("ready", "disabled") for one in states)
    return _reply(
        {
            "ok": True,
            "service": SERVICE,
            "auth": "enabled" if context.gate.rules.keys else "disabled-dev",
            "role": policy.role,
            "capabilities": sorted(policy.capabilities),
            "db_configured": True,
            "workspace_configured": bool(context.settings.workspace.root_folder),
            "direct_store_enabled": context.settings.openclaw_mem.direct_store,
            "surface_identity": surface(context.settings, _address(request)),
            "corpus_status": corpus_status(degraded=degraded),
        }
    )


def _endpoint(
    app: ASGIApp, path: str, capability: Capability, serve: Serve
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        context = await context_of(request)
        policy = POLICIES[context.role]
        if capability not in policy.capabilities:
            return _reply({"ok": False, "error": errors.NO_CAPABILITY, "required": capability}, 403)
        if capability == "store.direct" and not context.settings.openclaw_mem.direct_store:
            return _reply({"ok": False, "error": "direct_store_disabled", "hint": DIRECT_STORE_OFF}, 403)
        body = await _body_of(request)
        given = schemas.in_query(schemas.Asking, request.query_params.multi_items())
        context.permit(given)
        scope = given.model_dump(exclude_unset=True, exclude={"all_users"})
        async with client_for(request.scope, app) as client:
            asked = Asked(
                body,
                Ledger(client, scope, given.all_users),
                context.settings,
                _address(request),
                _idempotency_key(request, path),
            )
            return _reply(await while_connected(request, serve(asked)))

    return endpoint


def _address(request: Request) -> str:
    return f"http://{request.headers.get('host', '')}"


async def _body_of(request: Request) -> Body:
    """The object that a request sends; an empty body is an empty object. Raises BadInput."""
    sent = await request.body()
    content = validation.content_of(sent) if sent.strip() else {}
    if not isinstance(content, dict):
        raise BadInput("JSON body must be an object")
    return content


def _idempotency_key(request: Request, path: str) -> str | None:
    """The key of a write, which holds for one route: another route may get the same. Raises BadInput."""
    key = request.headers.get("idempotency-key", "").strip()
    if len(key) > MAX_KEY_CHARS:
        raise BadInput("Idempotency-Key too large")
    return f"openclaw-mem:{hashlib.sha256(f'{path} {key}'.encode()).hexdigest()}" if key else None


def _reply(content: Mapping[str, Any], status: int = 200) -> Response:
    sent = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    return Response(sent, status, media_type="application/json; charset=utf-8")
