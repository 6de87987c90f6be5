"""What is quarantined never leaves: no route shows its text to a key below the role operator."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.routing import Route

from fusion.contract import ROLES, Role
from fusion.doors.http.app import create_app
from fusion.doors.http.mem0 import REFUSED
from fusion.doors.http.openapi import examples
from fusion.doors.roles import OPERATOR, PROPOSER, READER, WRITER, allows, role_of
from fusion.gateway.gateway import Gateway
from tests.doors.contract import Checked
from tests.doors.fakes import FakeFusion, app_over
from tests.patience import load

MARK = "zanzibarine"
"""a word that only quarantined memories have; no request has it, since replies repeat what was asked"""
QUERY = {"query": "what about the harbour?"}
SESSION = {"session_id": "s1"}
NOTHING: dict[str, object] = {}
LOWER: tuple[Role, ...] = (READER, PROPOSER, WRITER)
BACKENDS = {
    "cortex": "adapters.cortex:Cortex",
    "mem0": "adapters.mem0:Mem0",
    "triples": "adapters.triples:Triples",
    "memory": "adapters.inmemory:InMemory",
}
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}

# How each route is asked for what is quarantined -----------------------------------------------------------------

Asked = tuple[str, str, object]
"""a method, a path and a body, in which ``{ref}``, ``{event_id}``, ``{near}`` and ``{receipt}`` are filled; the body of
a GET and of a DELETE is its parameters"""
CASES: dict[tuple[str, str], list[Asked]] = {}


def case(method: str, template: str, *bodies: object, at: str = "") -> None:
    """Add requests for a route, by default at its template."""
    CASES.setdefault((method, template), []).extend((method, at or template, body) for body in bodies or (NOTHING,))


def tool(name: str, **arguments: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


for one in ("/fuse", "/v1/fuse", "/v1/pack", "/v1/index", "/hybrid-search", "/recall", "/v1/tools/memory_search"):
    case("POST", one, QUERY, {**QUERY, **SESSION})
case("POST", "/v1/compare", {**QUERY, "a": "default", "b": "seed003"})
case("POST", "/v1/search", *({**QUERY, "backend": name, "limit": 100} for name in BACKENDS))
for one in ("/v1/timeline", "/v1/records"):
    case("POST", one, {"refs": ["{near}", "{ref}"]}, {"refs": ["obs:{ref}"]})
for one in ("why", "trust", "memories"):
    case("GET", f"/v1/{one}/{{ref:path}}", at=f"/v1/{one}/{{ref}}")
    case("GET", f"/v1/{one}/{{ref:path}}", at=f"/v1/{one}/{{event_id}}")
case("GET", "/v1/memories", NOTHING, {"document": "log.md"}, {"state": "quarantined"}, {"state": "all", "q": "harbour"})
case("POST", "/v1/ask", QUERY, {**QUERY, **SESSION})
case("POST", "/v1/replay", {"recording": "{receipt}", "changes": {"rerank": {"floor": 0}}})
case("GET", "/v1/recipes")
case("GET", "/v1/activity")
case("GET", "/v1/backends/history")
case("GET", "/v1/receipts", NOTHING, SESSION)
case("GET", "/v1/receipts/{receipt_id}", at="/v1/receipts/{receipt}")
case("GET", "/v1/documents", {"path": "log.md"}, {"path": "log.md", "summaries": "rules"})
case("GET", "/v1/session", SESSION)
for one in ("feedback", "comparisons", "decisions", "plans", "batches", "forgotten", "sources", "status", "backends"):
    case("GET", f"/v1/{one}")
for one in ("/v1/jobs", "/v1/jobs/log", "/healthz", "/readyz", "/openapi.json", "/docs", "/v1/cards/lint"):
    case("GET", one)
case("GET", "/v1/episodes/working-set", SESSION)
case("GET", "/v1/episodes/{ref:episode}", at="/v1/episodes/ep:1")
case("POST", "/v1/episodes/query", SESSION)
case("POST", "/v1/episodes/search", {**QUERY, **SESSION})
case("GET", "/v1/facts/current", {"subject": "harbour"})
case("GET", "/v1/facts/timeline", {"subject": "harbour"})
case("GET", "/v1/facts/lint")
case("POST", "/v1/facts/pack", {"subject": "harbour", "include_stale": True})
for one in ("neighbors", "impact"):
    case("POST", f"/v1/graph/{one}", {"entity": "harbour", "depth": 3})
case("POST", "/v1/graph/path", {"entity": "harbour", "to": "lighthouse"})
case("POST", "/v1/graph/match", {"idea": "paint the harbour"})
case("POST", "/v1/graph/overview", NOTHING, {"around": ["harbour"], "depth": 3})
case("GET", "/v1/graph/pages")
case("GET", "/v1/cards", {"subject": "harbour"})
case("POST", "/v1/prefix", SESSION)
case("POST", "/v1/settle", {"timeout_s": 60})
case("POST", "/v1/tools/memory_get", {"path": "{ref}"}, {"path": "log.md"})
case("POST", "/v1/tools/daily_logs")
case("POST", "/v1/flush/plan", {"context_window": 200_000})
for name, arguments in (
    ("memory_fuse", QUERY),
    ("memory_pack", QUERY),
    ("memory_search", QUERY),
    ("memory_forget", QUERY),
    ("memory_get", {"ref": "{ref}"}),
    ("memory_get", {"path": "log.md"}),
):
    case("POST", "/mcp", tool(name, **arguments))
for name in ("recall", "search"):
    case("POST", "/mcp/cortex", tool(name, message="harbour"))
case("POST", "/mcp/cortex", tool("stats"))
for name, arguments in (
    ("mem_search", QUERY),
    ("mem_pack", QUERY),
    ("mem_recall", {"limit": 50}),
    ("mem_timeline", {"recordRef": "obs:{near}"}),
    ("mem_get", {"recordRef": "obs:{ref}"}),
    ("mem_trust_inspect", {"recordRef": "obs:{ref}"}),
    ("graph_neighbors", {"node": "harbour"}),
):
    case("POST", "/mcp/openclaw-mem", tool(name, **arguments))
for one in ("/mcp/qmd", "/qmd/mcp"):
    case("POST", one, tool("query", query="harbour"), tool("get", file="log.md"), tool("get", file="memory/{ref}"))
    case("POST", one, tool("multi_get", pattern="*.md,memory/{ref}"), tool("multi_get", pattern="*"), tool("status"))
for one in ("/query", "/search"):
    case("POST", f"/qmd{one}", {"searches": [{"type": "lex", "query": "harbour"}], "limit": 50})
case("GET", "/qmd/health")
case("GET", "/openclaw-mem/health")
case("GET", "/openclaw-mem/v1/status")
case("POST", "/openclaw-mem/v1/search", QUERY)
case("POST", "/openclaw-mem/v1/pack", QUERY)
case("POST", "/openclaw-mem/v1/episodes/query", {"scope": "harbour", **SESSION})
case("GET", "/v1/items/{namespace}/{key:path}", at="/v1/items/docs/harbour")
case("POST", "/v1/items/search", {"namespace": ["docs"]}, {"namespace": ["docs"], **QUERY})
case("POST", "/v1/items/namespaces")
# proposers
case("POST", "/v1/store/propose", {"text": "The harbour needs paint."})
case("POST", "/v1/store/extract", {"refs": ["{ref}"]}, {"refs": ["{near}"]})
case("GET", "/v1/proposals", {"state": "any"})
case("GET", "/v1/proposals/{proposal}", at="/v1/proposals/p1")
case("POST", "/v1/episodes/append", {"type": "ops.alert", "summary": "the harbour is closed", **SESSION})
case("POST", "/openclaw-mem/v1/store/propose", {"scope": "x", "agent_id": "bot", "text": "The harbour is blue."})
case(
    "POST",
    "/openclaw-mem/v1/episodes/append",
    {"scope": "x", **SESSION, "agent_id": "bot", "type": "ops.alert", "summary": "the harbour is open"},
)
# writers
case("POST", "/v1/comparisons", examples()["keep_comparison"]["request"])
case("POST", "/v1/feedback", {"receipt_id": "{receipt}", "useful": ["{near}"]})
case("POST", "/v1/memories", {"text": "The harbour has a crane."})
case("POST", "/v1/forget", {**QUERY, "dry_run": True}, {"refs": ["{ref}"], "dry_run": True})
case("POST", "/v1/forget", {"document": "log.md", "dry_run": True})
case("POST", "/v1/undo", {"dry_run": True})
case("POST", "/v1/retire", {"files": [{"source": "file:/x.md", "keep": []}], "dry_run": True})
case("POST", "/v1/facts", {"subject": "harbour", "predicate": "status", "object": "blue", "sources": ["obs:{ref}"]})
case("POST", "/v1/facts/retract", {"fact": "fact:0123456789abcdef"})
case("POST", "/v1/cards/refresh", {"subject": "harbour"})
case("POST", "/v1/episodes/embed", SESSION)
case("POST", "/v1/episodes/redact", {**SESSION, "dry_run": True})
case("POST", "/ingest", {"messages": [{"role": "user", "content": "And the harbour?"}], "debounce": False, **SESSION})
case("POST", "/v1/tools/memory_append", {"text": "painted the harbour"})
case("POST", "/openclaw-mem/v1/store", {"text": "The harbour is deep."})
for one in ("/memories", "/v1/memories/"):
    case("GET", f"/mem0{one}")
    case("POST", f"/mem0{one}", {"messages": "The harbour is long.", "user_id": "ada"})
    case("DELETE", f"/mem0{one}", {"user_id": "nobody"})
for one in ("/search", "/v1/memories/search/", "/v2/memories/search/", "/v3/memories/search/"):
    case("POST", f"/mem0{one}", {"query": "harbour", "top_k": 50})
for one in ("/v2/memories/", "/v3/memories/", "/reset", "/configure"):
    case("POST", f"/mem0{one}")
case("GET", "/mem0/v1/ping/")
case("POST", "/mem0/v3/memories/add/", {"messages": "The harbour is wide.", "user_id": "ada"})
for one in ("/memories/{id}", "/v1/memories/{id}/"):
    at = f"/mem0{one}"
    case("GET", at, at=at.replace("{id}", "{ref}"))
    case("GET", at, at=at.replace("{id}", "{event_id}"))
    case("PUT", at, {"text": "The harbour has one more crane."}, at=at.replace("{id}", "{near}"))
for one in ("/memories/{id}/history", "/v1/memories/{id}/history/"):
    case("GET", f"/mem0{one}", at=f"/mem0{one.replace('{id}', '{ref}')}")
case("PUT", "/mem0/v1/batch/", {"memories": [{"memory_id": "{near}", "text": "The harbour has two more cranes."}]})
case("POST", "/mem0/v1/feedback/", {"memory_id": "{ref}", "feedback": "POSITIVE"})
case("GET", "/mem0/v1/entities/")
case("DELETE", "/mem0/v2/entities/{kind}/{id}/", at="/mem0/v2/entities/user/nobody/")
for method, one in ((m, p) for m, p in REFUSED if "export" not in p):
    case(method, f"/mem0{one}", at=f"/mem0{one.format(org='o', id='{ref}')}")
case("PUT", "/v1/items/{namespace}/{key:path}", {"value": {"colour": "blue"}}, at="/v1/items/docs/other")
case("DELETE", "/v1/items/{namespace}/{key:path}", at="/v1/items/docs/harbour")
case("PATCH", "/v1/memories/{ref:path}", {"kind": "note"}, at="/v1/memories/{near}")
for one in ("/memories/{id}", "/v1/memories/{id}/"):
    case("DELETE", f"/mem0{one}", at=f"/mem0{one.replace('{id}', '{ref}')}")
case("DELETE", "/mem0/v1/batch/", {"memories": "{ref}"})
case("DELETE", "/v1/memories/{ref:path}", at="/v1/memories/{ref}")

DROP_INS: tuple[Asked, ...] = (
    ("POST", "/compat/cortex/v1/recall", {"message": "harbour", "include_history": True}),
    ("POST", "/compat/cortex/v1/search", {"message": "harbour", "include_history": True}),
    ("GET", "/compat/cortex/v1/memories/{event_id}", NOTHING),
    ("GET", "/compat/cortex/v1/stats", NOTHING),
)

# The walk --------------------------------------------------------------------------------------------------------


@dataclass
class Key:
    """A key of one role, and the memories that it asks for."""

    http: httpx.AsyncClient
    role: Role
    handles: list[dict[str, str]] = field(default_factory=list)
    """of each quarantined memory what fills a request"""

    async def send(self, method: str, path: str, body: object) -> httpx.Response:
        headers = {**HEADERS, "authorization": f"Bearer {key_of(self.role)}"}
        if method in ("GET", "DELETE"):
            return await self.http.request(method, path, params=body, headers=headers)  # type: ignore[arg-type]
        return await self.http.request(method, path, content=json.dumps(body), headers=headers)

    async def ask(self, asked: Asked) -> AsyncIterator[httpx.Response]:
        """The replies to a request, filled for each quarantined memory."""
        for handles in self.handles:
            method, path, body = asked
            text = json.dumps(body)
            for name, value in handles.items():
                path, text = path.replace(f"{{{name}}}", value), text.replace(f"{{{name}}}", value)
            yield await self.send(method, path, json.loads(text))


def key_of(role: Role) -> str:
    return f"the key of a {role}"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    keys = [
        {"name": role, "sha256": sha256(key_of(role).encode()).hexdigest(), "role": role, "all_users": True}
        for role in ROLES
    ]
    settings = load(
        home=tmp_path / "home",
        backends_only=True,
        embedder={"adapter": ""},
        server={"keys": keys},
        backends={name: {"adapter": adapter} for name, adapter in BACKENDS.items()},
    )
    async with Gateway.open(settings) as fusion:
        transport = Checked(create_app(fusion, settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as http:
            yield http


async def quarantined(owner: Key) -> list[dict[str, str]]:
    """Store memories that are quarantined at once and others that are so later, after much was made of them."""
    drafts: list[dict[str, object]] = [
        {"text": f"The harbour opens at {MARK} nine", "trust": "quarantined"},
        {"text": f"The harbour -> uses -> {MARK} cranes", "kind": "fact", "metadata": {"who": MARK}},
        {"text": f"Harbour log: {MARK} ships", "document": "log.md", "position": 1, "entities": [MARK], **SESSION},
        {"text": f"I saw the {MARK} harbour", "kind": "turn", "speaker": f"Ana {MARK}", **SESSION},
    ]
    drafts += [{"text": "The harbour has a lighthouse", "document": "log.md", "position": 2, **SESSION}]
    kept = (await owner.send("POST", "/v1/memories", drafts)).json()["memories"]
    await owner.send("POST", "/v1/settle", {"timeout_s": 60})
    lines = (await owner.send("POST", "/v1/ask", {**QUERY, "record": True})).text.splitlines()
    receipt = json.loads(lines[-1])["recording"]
    fact = {"subject": "harbour", "predicate": "status", "object": f"{MARK} blue", "sources": [f"obs:{kept[1]['ref']}"]}
    asserted = (await owner.send("POST", "/v1/facts", fact)).json()
    await owner.send("POST", "/v1/cards/refresh", {"subject": "harbour"})
    await owner.send("POST", "/v1/prefix", SESSION)
    item = (await owner.send("PUT", "/v1/items/docs/harbour", {"value": {"colour": f"{MARK} blue"}})).json()
    near = kept.pop()["ref"]
    refs = [one["ref"] for one in kept] + [asserted["memory"].removeprefix("obs:"), item["ref"]]
    found = []
    for ref in refs:
        memory = (await owner.send("GET", f"/v1/memories/{ref}", NOTHING)).json()
        assert MARK in memory["text"]
        reply = await owner.send("POST", "/v1/state", {"ref": ref, "trust": "quarantined", "why": "a stranger's"})
        assert reply.status_code == 200, reply.text
        found.append({"ref": ref, "event_id": memory["event_id"], "near": near, "receipt": receipt})
    await owner.send("POST", "/v1/settle", {"timeout_s": 60})
    return found


FACADES = ("/openclaw-mem/", "/mem0/", "/qmd/")
"""the prefixes of other systems' routes, which call ours"""


def test_cases_cover_every_route_of_a_writer() -> None:
    """A new route must say how it could be asked for what is quarantined."""
    routes = {
        (method, route.path)
        for route in app_over(FakeFusion())._app.routes  # type: ignore[attr-defined]
        if isinstance(route, Route | APIRoute)
        for method in (route.methods or ()) - {"HEAD"}
    }
    ours = {(m, p) for m, p in routes if p.startswith(FACADES) and "export" not in p}
    facade = ours | {(m, p) for m, p in routes if p.startswith("/mcp")}
    template = {(m, p): p.replace(":path", "").replace(":episode", "") for m, p in routes}
    assert {one for one in routes if allows(WRITER, role_of(one[0], template[one])) or one in facade} == set(CASES)


async def test_no_route_shows_what_is_quarantined(client: httpx.AsyncClient) -> None:
    handles = await quarantined(Key(client, OPERATOR))
    shown = []
    for role in LOWER:
        key = Key(client, role, handles)
        for asked in (*DROP_INS, *(one for many in CASES.values() for one in many)):
            async for reply in key.ask(asked):
                assert reply.status_code < 500, (asked, reply.text)
                if MARK in reply.text:
                    shown.append(f"{role}: {asked}: …{reply.text[reply.text.index(MARK) - 200 :][:300]}")
    assert not shown, "\n".join(shown)


async def test_the_row_of_a_quarantined_memory_says_why_it_has_no_text(client: httpx.AsyncClient) -> None:
    """With its ref and its state; an operator reads the text, and is told who quarantined the memory."""
    handles = (await quarantined(Key(client, OPERATOR)))[2]
    path = f"/v1/memories/{handles['ref']}"
    for shown in (await rows(Key(client, READER), path)).values():
        assert (shown["ref"], shown["text"], shown["trust"]) == (handles["ref"], "", "quarantined")
        assert "operator" in shown["withheld"]
    for shown in (await rows(Key(client, OPERATOR), path)).values():
        assert MARK in shown["text"]
        assert "withheld" not in shown
    (log, *_) = (await Key(client, READER).send("GET", "/v1/decisions", NOTHING)).json()["decisions"]
    assert log["who"] == f"key {OPERATOR}"


async def rows(key: Key, path: str) -> dict[str, dict[str, Any]]:
    """A memory as it is read by its ref, and as it stands in a list."""
    one = (await key.send("GET", path, NOTHING)).json()
    page = (await key.send("GET", "/v1/memories", NOTHING)).json()["memories"]
    return {"read": one, "listed": next(row for row in page if row["ref"] == one["ref"])}
