"""Two tenants on one server, each with its key: nothing of one is ever in a reply to the other, on any route."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi.routing import APIRoute
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from fusion.contract import Scope
from fusion.doors.http.app import create_app
from fusion.doors.http.mem0 import REFUSED
from fusion.doors.http.openapi import examples
from fusion.errors import NotFound
from fusion.gateway.gateway import Gateway
from fusion.home import tenant_folder
from fusion.journal import Journal
from fusion.settings import load
from fusion.trust import allow
from tests.doors.contract import Checked
from tests.doors.fakes import FakeFusion, app_over

WORDS = ("harbour", "bees", "tea", "bridge", "postgres")
BACKENDS = ("markdown", "cortex", "mem0", "triples", "memory")
TENANTS = ("acme", "globex")
JSON = {"content-type": "application/json"}


@dataclass
class Tenant:
    """One customer: its key, and what it was told of what it keeps in one example."""

    name: str
    http: httpx.AsyncClient
    example: str
    refs: list[str] = field(default_factory=list)
    event_ids: list[str] = field(default_factory=list)
    receipts: list[str] = field(default_factory=list)
    cursors: list[str] = field(default_factory=list)
    keys: dict[str, dict[str, Any]] = field(default_factory=dict)
    """by Idempotency-Key, the first request that had it"""

    @property
    def mark(self) -> str:
        """A word that is in every text and name of this tenant, and nowhere else."""
        return f"{self.name}mark"

    async def get(self, path: str, **parameters: str) -> httpx.Response:
        return await self.http.get(path, params=parameters)

    async def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        return await self.http.post(path, content=json.dumps(body), headers={**JSON, **headers})


@dataclass(frozen=True)
class Told:
    """One memory as hypothesis draws it; both tenants use the same users, sessions, documents and keys."""

    words: tuple[str, ...]
    user: str | None
    session: str | None
    position: int | None
    source: str | None
    audience: str
    key: str | None

    def body(self, tenant: Tenant) -> dict[str, Any]:
        """As that tenant says it. What an earlier example forgot would be blocked, so none says the same."""
        mark = tenant.mark
        about = " and the ".join(self.words)
        text = f"In {tenant.example} {mark} said that the {about} matter to {mark}; {mark} -> owns -> {mark}house"
        fields = {
            "text": text,
            "speaker": mark,
            "raw_kind": mark,
            "user_id": self.user,
            "session_id": self.session,
            "document": None if self.position is None else f"talk {tenant.example}",
            "position": self.position,
            "source": f"{mark}box" if self.source == "own" else self.source,
            "audience": self.audience,
            "project": mark,
        }
        return {name: value for name, value in fields.items() if value is not None}


tellings = st.builds(
    Told,
    words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True).map(tuple),
    user=st.sampled_from([None, "ana"]),
    session=st.sampled_from([None, "s1"]),
    position=st.none() | st.integers(0, 2),
    source=st.sampled_from([None, "mail", "own"]),
    audience=st.sampled_from(["private", "group"]),
    key=st.sampled_from([None, "k1", "k2"]),
)

# What one tenant asks of each route with what it found out of the other ------------------------------------------

Replies = AsyncIterator[httpx.Response]
Case = Callable[[Tenant, Tenant, str], Replies]
"""(who asks, whose handles it uses, a word)"""
CASES: dict[tuple[str, str], Case] = {}


def case(*routes: tuple[str, str]) -> Callable[[Case], Case]:
    def register(function: Case) -> Case:
        CASES.update(dict.fromkeys(routes, function))
        return function

    return register


@case(("POST", "/fuse"), ("POST", "/v1/fuse"))
async def asks(me: Tenant, other: Tenant, word: str) -> Replies:
    for path in ("/fuse", "/v1/fuse"):
        for scope in ({}, {"user_id": "ana"}, {"session_id": "s1"}, {"project": other.mark}, {"audience": "group"}):
            for query in (word, f"what did {other.mark} say?", *other.refs[:1], *other.event_ids[:1]):
                yield (reply := await me.post(path, {"query": query, "explain": True, **scope}))
                me.receipts.append(reply.json()["receipt_id"])


@case(("POST", "/v1/pack"))
async def packs(me: Tenant, other: Tenant, word: str) -> Replies:
    """A pack repeats the question, which therefore has none of the other's marks."""
    for scope in ({}, {"user_id": "ana"}, {"audience": "group"}):
        yield (reply := await me.post("/v1/pack", {"query": word, "trace": True, **scope}))
        me.receipts.append(reply.json()["receipt"]["receipt_id"])


@case(
    *((method, "/v1/items/{namespace}/{key:path}") for method in ("PUT", "GET", "DELETE")),
    ("POST", "/v1/items/search"),
    ("POST", "/v1/items/namespaces"),
)
async def keeps_items(me: Tenant, other: Tenant, word: str) -> Replies:
    """Both put an item at one address; each reads, lists and forgets its own."""
    path, scope = "/v1/items/notes.shared/plan", {"user_id": "ana"}
    text = f"In {me.example} {me.mark} plans the {word}"
    for _ in range(2):
        yield await me.http.put(path, json={"value": {"text": text}, **scope})
    yield (found := await me.get(path, **scope))
    assert found.json()["value"] == {"text": text}
    yield await me.post("/v1/items/search", {"query": word, **scope})
    yield await me.post("/v1/items/search", {"namespace": ["notes"], "filter": {"text": text}, **scope})
    yield await me.post("/v1/items/namespaces", scope)
    if me.name == TENANTS[1]:  # the other's stays
        yield await me.http.delete(path, params=scope)


@case(("POST", "/v1/index"), ("POST", "/v1/timeline"), ("POST", "/v1/records"))
async def recalls_step_by_step(me: Tenant, other: Tenant, word: str) -> Replies:
    """The other's refs name nothing here, and stand around nothing."""
    for scope in ({}, {"user_id": "ana"}, {"audience": "group"}):
        yield (reply := await me.post("/v1/index", {"query": word, **scope}))
        me.receipts.append(reply.json()["receipt_id"])
        for route in ("/v1/timeline", "/v1/records"):
            yield await me.post(route, {"refs": [*me.refs, "m1"][:50], **scope})
    refs = other.refs[:50]  # their ids would be repeated as missing
    for route in ("/v1/timeline", "/v1/records"):
        yield (reply := await me.post(route, {"refs": refs or ["m7zzzzzz"]}))
        shown = {one["ref"] for one in reply.json().get("records", reply.json().get("entries"))}
        assert shown <= set(me.refs)


@case(("GET", "/v1/why/{ref:path}"))
async def explains(me: Tenant, other: Tenant, word: str) -> Replies:
    """Of the other's memories nothing is known here."""
    for ref in me.refs[-3:]:
        yield await me.get(f"/v1/why/{ref}")
        yield await me.get(f"/v1/why/{ref}", user_id="ana")
    for ref in (*other.event_ids[-3:], "m7zzzzzz"):
        yield not_found(await me.get(f"/v1/why/{ref}"), ref)


@case(("POST", "/v1/compare"))
async def compares(me: Tenant, other: Tenant, word: str) -> Replies:
    for scope in ({}, {"user_id": "ana"}, {"project": other.mark}):
        for query in (word, f"what did {other.mark} say?"):
            arms = {"a": "patient", "b": "seed003@-memory"}
            yield (reply := await me.post("/v1/compare", {"query": query, **arms, **scope}))
            me.receipts += [reply.json()[side]["receipt_id"] for side in ("a", "b")]


@case(("POST", "/v1/comparisons"), ("GET", "/v1/comparisons"))
async def keeps_comparisons(me: Tenant, other: Tenant, word: str) -> Replies:
    """Each lists its own comparisons alone, whose arms have its name."""
    body = examples()["keep_comparison"]["request"]
    yield (reply := await me.post("/v1/comparisons", {**body, "a": {**body["a"], "arm": f"{me.mark} {me.example}"}}))
    assert reply.status_code == 200
    yield (listed := await me.get("/v1/comparisons", limit="100"))
    assert {one["a"]["arm"].partition(" ")[0] for one in listed.json()["comparisons"]} == {me.mark}


@case(("POST", "/v1/feedback"), ("GET", "/v1/feedback"))
async def votes(me: Tenant, other: Tenant, word: str) -> Replies:
    """On the other's receipt nobody votes, nor in one's own on what is the other's."""
    for receipt_id in (*other.receipts[-5:], "r" + 24 * "0"):
        vote = {"receipt_id": receipt_id, "useful": me.refs[:1], "useless": other.refs[:1]}
        yield not_found(await me.post("/v1/feedback", vote), receipt_id)
    (own,) = me.receipts[-1:]
    for ref in other.refs:
        yield (reply := await me.post("/v1/feedback", {"receipt_id": own, "useful": [ref]}))
        assert reply.status_code == 422
    why = (await me.get(f"/v1/receipts/{own}")).json()
    voted = [row["ref"] for row in why["candidates"]]
    yield not_found(await me.post("/v1/feedback", {"receipt_id": own, "useful": voted, "user_id": me.mark}), own)
    yield await me.post("/v1/feedback", {"receipt_id": own, "useful": voted})
    yield (reply := await me.get("/v1/feedback", limit="1000"))
    labels = [(label["receipt_id"], label["ref"]) for label in reply.json()["labels"]]
    assert [ref for receipt_id, ref in labels if receipt_id == own] == voted
    assert not {receipt_id for receipt_id, _ in labels}.intersection(other.receipts)


@case(("POST", "/v1/search"))
async def searches(me: Tenant, other: Tenant, word: str) -> Replies:
    for backend in BACKENDS:
        for query in (word, other.mark):
            yield await me.post("/v1/search", {"backend": backend, "query": query, "limit": 100})
            yield await me.post("/v1/search", {"backend": backend, "query": query, "user_id": "ana"})


@case(("POST", "/v1/memories"))
async def takes_its_place(me: Tenant, other: Tenant, word: str) -> Replies:
    """The other's keys and places are free; the other's memories cannot be superseded."""
    for key in other.keys.keys() - me.keys.keys():
        there = Told((word,), "ana", "s1", 1, "mail", "private", None)
        yield (reply := await me.post("/v1/memories", there.body(me), **{"idempotency-key": key}))
        assert reply.status_code in (200, 201)
        assert "idempotent-replayed" not in reply.headers
    anew = Told((word,), "ana", None, None, None, "private", None).body(me)
    for ref in (*other.refs[-2:], *other.event_ids[-2:]):
        yield not_found(await me.post("/v1/memories", {**anew, "supersedes": ref}), ref)


@case(("GET", "/v1/memories"))
async def lists(me: Tenant, other: Tenant, word: str) -> Replies:
    for scope in ({}, {"user_id": "ana"}, {"document": f"talk {me.example}"}, {"source": "mail"}):
        for cursor in (None, *other.cursors[-2:], "c7zzzzzz"):
            page = {**scope, "limit": "2"} | ({} if cursor is None else {"cursor": cursor})
            yield (reply := await me.get("/v1/memories", **page))
            if reply.json()["next_cursor"]:
                me.cursors.append(reply.json()["next_cursor"])
    for more in ({"q": word}, {"state": "all", "order": "newest"}, {"kind": "note", "order": "importance"}):
        yield await me.get("/v1/memories", **more)


@case(("PATCH", "/v1/memories/{ref:path}"))
async def updates(me: Tenant, other: Tenant, word: str) -> Replies:
    for ref in (*other.refs[-2:], *other.event_ids[-2:], "m7zzzzzz"):
        body = {"text": f"Now {word} matters to {me.mark}", "user_id": "ana"}
        yield not_found(await me.http.patch(f"/v1/memories/{ref}", content=json.dumps(body), headers=JSON), ref)


@case(("GET", "/v1/memories/{ref:path}"), ("DELETE", "/v1/memories/{ref:path}"))
async def by_ref(me: Tenant, other: Tenant, word: str) -> Replies:
    for method in ("GET", "DELETE"):
        for ref in (*other.refs, *other.event_ids, "m7zzzzzz"):
            yield not_found(await me.http.request(method, f"/v1/memories/{ref}"), ref)
            yield not_found(await me.http.request(method, f"/v1/memories/{ref}", params={"user_id": "ana"}), ref)


@case(("POST", "/v1/forget"), ("POST", "/v1/retire"), ("GET", "/v1/forgotten"), ("GET", "/v1/sources"))
async def forgets(me: Tenant, other: Tenant, word: str) -> Replies:
    """What is meant by a ref of the other's is nothing; what is meant by a name that both use is one's own alone."""
    for ref in (*other.refs, "m7zzzzzz"):
        yield (reply := await me.post("/v1/forget", {"refs": [ref]}))
        assert (reply.json()["found"], reply.json()["receipts"], reply.json()["missing"]) == ([], [], [ref])
    named = ({"source": "mail"}, {"source": f"{other.mark}box"}, {"document": f"talk {me.example}"})
    for criteria in ({"query": word}, *named):
        for dry_run in (True, False):
            yield await me.post("/v1/forget", {**criteria, "dry_run": dry_run})
            yield await me.post("/v1/forget", {**criteria, "user_id": "ana", "dry_run": dry_run})
    yield await me.post("/v1/retire", {"files": [{"source": "mail", "keep": []}]})
    for scope in ({}, {"user_id": "ana"}):
        yield await me.get("/v1/sources", **scope)
        yield (reply := await me.get("/v1/forgotten", limit="100", **scope))
        assert not {row["ref"] for row in reply.json()["forgotten"]}.intersection(other.refs)


@case(("GET", "/v1/trust/{ref:path}"), ("GET", "/v1/plans"))
async def looks_at_standing(me: Tenant, other: Tenant, word: str) -> Replies:
    """Neither the trust of another tenant's memories nor their plans are shown."""
    for ref in other.refs:
        yield not_found(await me.get(f"/v1/trust/{ref}"), ref)
    yield await me.get("/v1/plans", everything="true")


@case(("POST", "/v1/states"))
async def decides_on_several(me: Tenant, other: Tenant, word: str) -> Replies:
    """The other's memories are missing here, and none of them changes."""
    refs = [*other.refs, *other.event_ids, "m7zzzzzz"][-100:]
    for dry_run in (True, False):
        reply = (await me.post("/v1/states", {"refs": refs, "confidence": 0.5, "dry_run": dry_run})).json()
        assert (reply["missing"], reply["changes"], reply["decision"]) == ([*dict.fromkeys(refs)], [], None)
    if me.refs:
        yield await me.post("/v1/states", {"refs": me.refs[:3], "tags": [me.mark], "dry_run": True})


@case(("POST", "/v1/state"), ("GET", "/v1/decisions"), ("POST", "/v1/decisions/undo"))
async def decides(me: Tenant, other: Tenant, word: str) -> Replies:
    """A memory of the other's has no state here, and a decision of the other's is none."""
    for ref in (*other.refs, *other.event_ids, "m7zzzzzz"):
        yield not_found(await me.post("/v1/state", {"ref": ref, "confidence": 0.5}), ref)
        yield not_found(await me.get("/v1/decisions", ref=ref), ref)
    for scope in ({}, {"user_id": "ana"}):
        yield await me.get("/v1/decisions", **scope)
    yield await me.post("/v1/decisions/undo", {"decision": "d1"})
    yield await me.post("/v1/decisions/undo", {"run": f"run {other.mark}"})


@case(("GET", "/v1/audit"))
async def audits(me: Tenant, other: Tenant, word: str) -> Replies:
    """Each sees its own accesses alone, with any filter; users of one name are users of two tenants."""
    for ref in (*other.refs, *other.event_ids, "m7zzzzzz"):
        await me.get(f"/v1/memories/{ref}")
        yield await me.get("/v1/audit", user_id="ana", ref=ref)
    for more in ({}, {"action": "read"}, {"since": "2020-01-01"}):
        yield (reply := await me.get("/v1/audit", limit="100", user_id="ana", **more))
        assert reply.status_code == 200
    yield (reply := await me.get("/v1/audit"))
    assert reply.status_code == (422 if "all_users" in reply.text else 200)


@case(("POST", "/v1/undo"), ("GET", "/v1/batches"))
async def takes_back(me: Tenant, other: Tenant, word: str) -> Replies:
    """An ingest of the other's is none."""
    for batch in (f"batch {other.mark}", f"batch of {me.example}"):
        for dry_run in (True, False):
            yield await me.post("/v1/undo", {"batch": batch, "dry_run": dry_run})
    for scope in ({}, {"user_id": "ana"}):
        yield await me.get("/v1/batches", **scope)


@case(("POST", "/v1/backends/{backend}/{verb}"))
async def tells_backends(me: Tenant, other: Tenant, word: str) -> Replies:
    """A verb sees its caller's tenant; one that works on the whole store is for the operator."""
    yield await me.post("/v1/backends/verbed/look", {"query": f"{word} {other.mark}", "user_id": "ana"})
    yield await me.post("/v1/backends/verbed/look", {"query": f"{word} {other.mark}"})
    yield (reply := await me.post("/v1/backends/verbed/sweep", {}))
    assert reply.status_code == 422
    cortex, theirs = "/compat/cortex/v1", other.event_ids[:2]
    for path, body in (("recall", {"message": f"{word} {other.mark}"}), ("search", {"message": other.mark})):
        yield await me.post(f"{cortex}/{path}", body)
    for verb in ("list", "entities", "stats"):
        yield await me.post(f"/v1/backends/cortex/{verb}", {})
    yield await me.post("/v1/backends/cortex/export", {}, accept="application/x-ndjson")
    for event_id in theirs:
        yield not_found(await me.get(f"{cortex}/memories/{event_id}"), event_id)
        yield not_found(await me.http.request("DELETE", f"{cortex}/memories/{event_id}"), event_id)
        yield not_found(await me.post("/v1/backends/cortex/history", {"id": event_id}), event_id)
    for ref in (*other.refs[:2], *theirs):
        yield not_found(await me.post("/v1/backends/verbed/drop", {"ref": ref}), ref)


@case(("POST", "/v1/ask"), ("POST", "/v1/replay"), ("GET", "/v1/recipes"))
async def watches(me: Tenant, other: Tenant, word: str) -> Replies:
    """What one tenant recorded the other cannot replay."""
    for scope in ({}, {"user_id": "ana"}, {"project": other.mark}):
        yield (reply := await me.post("/v1/ask", {"query": word, "record": True, **scope}))
        if (recorded := json.loads(reply.text.splitlines()[-1]).get("recording")) is not None:
            me.receipts.append(recorded)
            changes = {"pack": {"max_results": 50}, "rerank": {"floor": 0}}
            yield await me.post("/v1/replay", {"recording": recorded, "changes": changes})
    for receipt_id in other.receipts[-3:]:
        assert (await me.post("/v1/replay", {"recording": receipt_id})).status_code == 404
    yield await me.get("/v1/recipes")


@case(("GET", "/v1/activity"), ("GET", "/v1/backends/history"))
async def looks_back(me: Tenant, other: Tenant, word: str) -> Replies:
    for more in ({}, {"user_id": "ana"}):
        yield await me.get("/v1/activity", days="3", **more)
        yield await me.get("/v1/backends/history", **more)


@case(("GET", "/v1/receipts"))
async def lists_receipts(me: Tenant, other: Tenant, word: str) -> Replies:
    """One's own questions name the other, and are left out of what is compared; the other's receipts are not there."""
    for more in ({}, {"user_id": "ana"}, {"session_id": "s1"}, {"all_users": "true"}, {"limit": "3"}):
        reply = await me.get("/v1/receipts", **more)
        if reply.status_code == 200:
            rows = reply.json()["receipts"]
            assert not {row["receipt_id"] for row in rows}.intersection(other.receipts)
            assert not [row["query"] for row in rows if me.mark in (row["query"] or "")]  # only the other asks so
            reply = httpx.Response(200, json=[{**row, "query": None} for row in rows], request=reply.request)
        yield reply
    for receipt_id in (*other.receipts[-5:], "r" + 24 * "0"):
        yield not_found(await me.get("/v1/receipts", after=receipt_id), receipt_id)


@case(("GET", "/v1/receipts/{receipt_id}"))
async def receipts(me: Tenant, other: Tenant, word: str) -> Replies:
    for receipt_id in (*other.receipts[-5:], "r" + 24 * "0"):
        yield not_found(await me.get(f"/v1/receipts/{receipt_id}"), receipt_id)


@case(("GET", "/v1/documents"))
async def documents(me: Tenant, other: Tenant, word: str) -> Replies:
    for path in (f"talk {me.example}", "talk.md", f"notes/{other.mark}.md", "../journal.sqlite"):
        yield await me.http.get("/v1/documents", params={"path": path})


@case(("POST", "/v1/tools/memory_search"), ("POST", "/v1/tools/memory_get"), ("POST", "/v1/tools/memory_append"))
async def uses_tools(me: Tenant, other: Tenant, word: str) -> Replies:
    """By path or ref of the other's there is nothing to read, and it looks like a path that never was."""
    for query in (word, f"what did {other.mark} say?"):
        yield await me.post("/v1/tools/memory_search", {"query": query})
    for path in (*other.refs[:2], f"talk {me.example}", f"notes/{me.mark}.md", "m7zzzzzz"):
        yield (reply := await me.post("/v1/tools/memory_get", {"path": path}))
        if path != f"talk {me.example}":
            assert reply.json() == {"text": "", "path": path}
    yield await me.post("/v1/tools/memory_append", {"text": f"{me.mark} of {me.example} likes {word}"})


@case(("POST", "/ingest"), ("GET", "/v1/session"))
async def sends_a_history(me: Tenant, other: Tenant, word: str) -> Replies:
    """Both have a session of this name, and each has its own turns in it."""
    said = [{"role": "user", "content": f"{me.mark} of {me.example} says that {word} matters"}]
    yield await me.post("/ingest", {"messages": said, "session_id": "s1", "debounce": False})
    yield await me.get("/v1/session", session_id="s1")


@case(("POST", "/hybrid-search"), ("POST", "/recall"))
async def asks_memory_cortex(me: Tenant, other: Tenant, word: str) -> Replies:
    for path in ("/hybrid-search", "/recall"):
        yield await me.post(path, {"query": f"what did {other.mark} say about the {word}?"})


@case(("POST", "/v1/tools/daily_logs"))
async def reads_daily_logs(me: Tenant, other: Tenant, word: str) -> Replies:
    yield await me.post("/v1/tools/daily_logs", {"all_users": False, "user_id": me.example})


@case(("POST", "/v1/flush/plan"))
async def plans_a_flush(me: Tenant, other: Tenant, word: str) -> Replies:
    yield await me.post("/v1/flush/plan", {"context_window": 200_000, "message": word})


@case(
    ("GET", "/v1/jobs"),
    ("GET", "/v1/jobs/log"),
    *(("POST", f"/v1/jobs/{{name}}/{action}") for action in ("run", "pause", "resume")),
)
async def asks_for_jobs(me: Tenant, other: Tenant, word: str) -> Replies:
    """Jobs work on all tenants, so they are for the operator."""
    replies = [await me.get(path) for path in ("/v1/jobs", "/v1/jobs/log")]
    replies += [await me.post(f"/v1/jobs/checks/{action}", {}) for action in ("run", "pause", "resume")]
    for reply in replies:
        assert reply.status_code == 422
        yield reply


@case(("GET", "/metrics"))
async def asks_for_metrics(me: Tenant, other: Tenant, word: str) -> Replies:
    """They count all tenants, so they are for the operator."""
    yield (reply := await me.get("/metrics"))
    assert reply.status_code == 422


@case(("GET", "/v1/export"), ("POST", "/v1/import"))
async def moves_memories(me: Tenant, other: Tenant, word: str) -> Replies:
    """An export has nothing of the other, and an import writes nothing there."""
    yield (mine := await me.get("/v1/export"))
    yield await me.http.post("/v1/import", content=mine.content, headers=JSON)
    assert (await me.get("/v1/export", tenant=other.name)).status_code == 422
    theirs = mine.content.replace(f'"{me.name}"'.encode(), f'"{other.name}"'.encode())
    for query in ("", f"?tenant={other.name}"):
        reply = await me.http.post(f"/v1/import{query}", content=theirs, headers=JSON)
        assert reply.status_code == 422


@case(("POST", "/v1/lifecycle"))
async def tends(me: Tenant, other: Tenant, word: str) -> Replies:
    """A run counts one's own memories alone."""
    for body in ({"dry_run": True}, {"user_id": "ana"}, {}):
        yield await me.post("/v1/lifecycle", body)


@case(("POST", "/v1/grade"))
async def grades(me: Tenant, other: Tenant, word: str) -> Replies:
    """A run grades one's own memories alone."""
    for body in ({"dry_run": True}, {"user_id": "ana"}, {}):
        yield await me.post("/v1/grade", body)


@case(("POST", "/v1/settle"))
async def settles(me: Tenant, other: Tenant, word: str) -> Replies:
    yield await me.post("/v1/settle", {"timeout_s": 60})


@case(
    *(("POST", f"/v1/episodes/{action}") for action in ("append", "query", "search", "embed", "redact")),
    ("GET", "/v1/episodes/working-set"),
    ("GET", "/v1/episodes/{ref:episode}"),
    ("PATCH", "/v1/episodes/{ref:episode}"),
)
async def keeps_observations(me: Tenant, other: Tenant, word: str) -> Replies:
    """Both have a session of this name, and each has its own observations in it; numbers of the other's are nothing."""
    seen = {
        "type": "tool.result",
        "tool": "bash",
        "summary": f"{me.mark} of {me.example} ran {word}",
        "session_id": "s1",
    }
    yield await me.post("/v1/episodes/append", seen)
    yield await me.post("/v1/episodes/query", {"session_id": "s1", "include_payload": True})
    yield await me.post("/v1/episodes/search", {"session_id": "s1", "query": f"{word} {other.mark}"})
    yield await me.post("/v1/episodes/embed", {"session_id": "s1"})
    yield await me.post("/v1/episodes/redact", {"session_id": "s1", "dry_run": True})
    yield await me.get("/v1/episodes/working-set", session_id="s1")
    yield await me.get("/v1/episodes/ep:1", session_id="s1")
    grade = json.dumps({"importance": 0.9})
    yield (reply := await me.http.patch("/v1/episodes/ep:999999", content=grade, headers=JSON))
    assert reply.status_code == 404


@case(
    *(("POST", f"/v1/facts{action}") for action in ("", "/retract", "/pack", "/rebuild")),
    *(("GET", f"/v1/facts/{action}") for action in ("current", "timeline", "lint")),
)
async def asserts_facts(me: Tenant, other: Tenant, word: str) -> Replies:
    """Facts about a subject of one name are each tenant's own; nothing of the other's can be their source."""
    fact = {"subject": word, "predicate": "status", "object": f"{me.mark} {me.example}"}
    for ref in (*other.refs[:1], "m7zzzzzz"):
        yield (reply := await me.post("/v1/facts", {**fact, "sources": [f"obs:{ref}"]}))
        assert reply.status_code == 404
    for ref in [ref for ref in me.refs if (await me.get(f"/v1/memories/{ref}")).status_code == 200][-1:]:
        yield await me.post("/v1/facts", {**fact, "sources": [f"obs:{ref}"]})
    yield await me.post("/v1/facts/retract", {"fact": "fact:0123456789abcdef"})
    for action in ("current", "timeline"):
        yield await me.get(f"/v1/facts/{action}", subject=word)
    yield await me.get("/v1/facts/lint")
    yield await me.post("/v1/facts/pack", {"subject": word})
    yield await me.post("/v1/facts/rebuild", {})


@case(
    *(("POST", f"/v1/graph/{action}") for action in ("neighbors", "impact", "path", "match", "overview")),
    ("GET", "/v1/graph/pages"),
    *(("GET", path) for path in ("/v1/cards", "/v1/cards/lint")),
    ("POST", "/v1/cards/refresh"),
)
async def walks_the_graph(me: Tenant, other: Tenant, word: str) -> Replies:
    """The other's entities are no entities here."""
    for action in ("neighbors", "impact"):
        yield await me.post(f"/v1/graph/{action}", {"entity": me.mark})
    yield await me.post("/v1/graph/path", {"entity": me.mark, "to": f"{me.mark}house"})
    yield await me.post("/v1/graph/match", {"idea": f"a house for {word}"})
    for more in ({}, {"around": [me.mark], "depth": 2}):
        yield await me.post("/v1/graph/overview", {"limit": 10_000, **more})
    yield await me.get("/v1/graph/pages")
    yield await me.post("/v1/cards/refresh", {"subject": word})
    yield await me.get("/v1/cards", subject=word)
    yield await me.get("/v1/cards/lint")


@case(("POST", "/v1/prefix"))
async def reads_its_prefix(me: Tenant, other: Tenant, word: str) -> Replies:
    """Both have a session of this name."""
    yield await me.post("/v1/prefix", {"session_id": "s1"})


@case(
    ("POST", "/v1/store/propose"),
    ("POST", "/v1/store/extract"),
    ("GET", "/v1/proposals"),
    ("GET", "/v1/proposals/{proposal}"),
    *(("POST", f"/v1/proposals/{{proposal}}/{action}") for action in ("approve", "reject")),
    ("GET", "/v1/triage"),
    ("POST", "/v1/triage"),
)
async def proposes(me: Tenant, other: Tenant, word: str) -> Replies:
    """What one proposes is in no list of the other, and nobody decides on it there."""
    yield await me.post("/v1/store/propose", {"text": f"{me.mark} of {me.example} proposes {word}"})
    yield await me.post("/v1/store/extract", {"text": f"{me.mark} likes {word}."})
    for ref in (*other.refs[:1], "m7zzzzzz"):
        yield (reply := await me.post("/v1/store/extract", {"refs": [ref]}))
        assert reply.status_code == 404
    yield await me.get("/v1/proposals", state="any")
    yield await me.get("/v1/proposals/p999999")
    for action, body in (("approve", {}), ("reject", {"why": word})):
        yield (reply := await me.post(f"/v1/proposals/p999999/{action}", body))
        assert reply.status_code == 404
    yield await me.get("/v1/triage")
    yield await me.post("/v1/triage", {"item": "p999999", "choice": "reject"})


OPENCLAW_MEM = "/openclaw-mem"


@case(
    *(("GET", f"{OPENCLAW_MEM}{path}") for path in ("/health", "/v1/status")),
    *(
        ("POST", f"{OPENCLAW_MEM}/v1/{path}")
        for path in ("search", "pack", "episodes/query", "episodes/append", "store", "store/propose")
    ),
    ("POST", f"{OPENCLAW_MEM}/v1/archive/export-canonical"),
    ("POST", "/mcp/openclaw-mem"),
)
async def is_a_client_of_openclaw_mem(me: Tenant, other: Tenant, word: str) -> Replies:
    for path in ("/health", "/v1/status"):
        yield await me.get(f"{OPENCLAW_MEM}{path}")
    text = f"{me.mark} of {me.example} keeps {word}"
    episode = {"scope": me.example, "session_id": "s1", "agent_id": "bot", "type": "ops.alert", "summary": text}
    bodies = {
        "search": {"query": word},
        "pack": {"query": word},
        "episodes/append": episode,
        "episodes/query": {"scope": me.example, "session_id": "s1"},
        "store": {"text": text},
        "store/propose": {"text": text, "scope": me.example, "agent_id": "bot"},
        "archive/export-canonical": {},
    }
    for path, body in bodies.items():
        yield await me.post(f"{OPENCLAW_MEM}/v1/{path}", body)
    yield await tool(me, "mem_search", at="/mcp/openclaw-mem", query=word)
    for ref in (*other.refs[:2], "m7zzzzzz"):
        yield await tool(me, "mem_get", at="/mcp/openclaw-mem", recordRef=f"obs:{ref}")


MEM0 = "/mem0"
OF_MEMORY = ("/memories/{id}", "/v1/memories/{id}/")


@case(
    *((method, f"{MEM0}{path}") for method in ("GET", "PUT", "DELETE") for path in OF_MEMORY),
    *(("GET", f"{MEM0}{path}") for path in ("/memories/{id}/history", "/v1/memories/{id}/history/")),
    *((method, f"{MEM0}{path}") for method in ("GET", "DELETE") for path in ("/memories", "/v1/memories/")),
    *(("POST", f"{MEM0}{path}") for path in ("/memories", "/v1/memories/", "/v3/memories/add/")),
    *(("POST", f"{MEM0}{path}") for path in ("/search", *(f"/v{number}/memories/search/" for number in (1, 2, 3)))),
    *(("POST", f"{MEM0}{path}") for path in ("/v2/memories/", "/v3/memories/", "/reset", "/configure")),
    ("GET", f"{MEM0}/v1/ping/"),
)
async def is_a_client_of_mem0(me: Tenant, other: Tenant, word: str) -> Replies:
    """A memory of the other tenant can neither be read, changed nor deleted by its id."""
    yield await me.get(f"{MEM0}/v1/ping/")
    text = f"{me.mark} of {me.example} asks mem0 about {word}"
    for path in ("/memories", "/v1/memories/", "/v3/memories/add/"):
        yield await me.post(f"{MEM0}{path}", {"messages": f"{text} by {path}", "user_id": "ana", "infer": False})
    for path in ("/search", *(f"/v{number}/memories/search/" for number in (1, 2, 3))):
        yield await me.post(f"{MEM0}{path}", {"query": word, "filters": {"user_id": "ana"}})
    for path in ("/memories", "/v1/memories/"):
        yield await me.get(f"{MEM0}{path}", user_id="ana")
        yield await me.http.delete(f"{MEM0}{path}", params={"user_id": f"nobody of {me.mark}"})
    for path in ("/v2/memories/", "/v3/memories/", "/reset", "/configure"):
        yield await me.post(f"{MEM0}{path}", {"filters": {"user_id": "ana"}})
    for template in OF_MEMORY:
        for ref in (*other.refs[:1], "m7zzzzzz"):
            path = f"{MEM0}{template.format(id=ref)}"
            end = "/" if path.endswith("/") else ""
            replies = (
                await me.get(path),
                await me.get(f"{path.rstrip('/')}/history{end}"),
                await me.http.put(path, json={"text": text}),
                await me.http.delete(path),
            )
            for reply in replies:
                assert reply.status_code == 404 or ref in me.refs
                yield reply


@case(
    *((method, f"{MEM0}/v1/batch/") for method in ("PUT", "DELETE")),
    ("POST", f"{MEM0}/v1/feedback/"),
    ("GET", f"{MEM0}/v1/entities/"),
    ("DELETE", f"{MEM0}/v2/entities/{{kind}}/{{id}}/"),
    *((method, f"{MEM0}{path}") for method, path in REFUSED),
)
async def is_a_client_of_mem0s_platform(me: Tenant, other: Tenant, word: str) -> Replies:
    """The entities are those of the tenant, and a batch with a memory of the other tenant changes nothing."""
    yield await me.get(f"{MEM0}/v1/entities/")
    yield await me.http.delete(f"{MEM0}/v2/entities/user/nobody of {me.mark}/")
    for ref in (*other.refs[:1], "m7zzzzzz"):
        batch = {"memories": [{"memory_id": ref, "text": f"{me.mark} of {me.example} about {word}"}]}
        verdict = {"memory_id": ref, "feedback": "POSITIVE"}
        replies = (
            await me.http.put(f"{MEM0}/v1/batch/", json=batch),
            await me.http.request("DELETE", f"{MEM0}/v1/batch/", json=batch),
            await me.post(f"{MEM0}/v1/feedback/", verdict),
        )
        for reply in replies:
            assert reply.status_code >= 400 or ref in me.refs
            yield reply
    for method, path in REFUSED:
        reply = await me.http.request(method, f"{MEM0}{path.format(org='o', id=word)}", json={})
        assert reply.status_code == 403
        yield reply


QMD = "/qmd"


@case(
    ("GET", f"{QMD}/health"),
    *(("POST", f"{QMD}{path}") for path in ("/query", "/search", "/mcp")),
    ("POST", "/mcp/qmd"),
)
async def is_a_client_of_qmd(me: Tenant, other: Tenant, word: str) -> Replies:
    yield await me.get(f"{QMD}/health")
    searches = [{"type": "lex", "query": word}]
    for path in ("/query", "/search"):
        yield await me.post(f"{QMD}{path}?user_id=ana", {"searches": searches})
    for at in ("/mcp/qmd", f"{QMD}/mcp"):
        yield await tool(me, "query", at=f"{at}?user_id=ana", query=word)
        for ref in (*other.refs[:2], "m7zzzzzz"):
            yield await tool(me, "get", at=at, file=f"memory/{ref}")
        yield await tool(me, "multi_get", at=at, pattern="talk*")
        yield await tool(me, "status", at=at)


LOOKS = ("/v1/backends", "/v1/status", "/healthz", "/readyz", "/openapi.json", "/docs")


@case(*(("GET", path) for path in LOOKS))
async def looks_round(me: Tenant, other: Tenant, word: str) -> Replies:
    for path in LOOKS:
        yield await me.get(path)


INSPECTOR = "/v1/inspector"


@case(
    *(("GET", path) for path in ("/", "/inspector", "/inspector/{file:path}")),
    *(("POST", f"{INSPECTOR}/{name}") for name in ("links", "sessions", "renewals")),
    ("DELETE", f"{INSPECTOR}/sessions"),
)
async def opens_the_inspector(me: Tenant, other: Tenant, word: str) -> Replies:
    """A session stands for the key that made its link, and for no other tenant's."""
    for path in ("/", "/inspector", "/inspector/", "/inspector/app.js"):
        yield await me.get(path)
    link = (await me.post(f"{INSPECTOR}/links", {})).json()["path"]
    session = (await me.post(f"{INSPECTOR}/sessions", {"code": link.partition("=")[2]})).json()
    asked = {"renewal_id": session["renewal_id"], "nonce": word}
    challenge = (await me.post(f"{INSPECTOR}/renewals", asked)).json()["challenge"]
    yield await me.post(f"{INSPECTOR}/sessions", {"challenge": challenge, "proof": word})
    signed_in = {"authorization": f"Bearer {session['token']}"}
    yield await me.http.get("/v1/memories", headers=signed_in)
    for ref in (*other.refs[:2], "m7zzzzzz"):
        yield not_found(await me.http.get(f"/v1/memories/{ref}", headers=signed_in), ref)
    yield await me.http.delete(f"{INSPECTOR}/sessions", headers=signed_in)
    assert (await me.http.get("/v1/memories", headers=signed_in)).status_code == 401


MEMORY_FILE = f"{INSPECTOR}/memory-file"
DECISIONS = ("promote", "undo-promotion", "restore")


@case(("GET", MEMORY_FILE), *(("POST", f"{MEMORY_FILE}/{name}") for name in DECISIONS))
async def decides_on_memory_md(me: Tenant, other: Tenant, word: str) -> Replies:
    """MEMORY.md is the owner's at a page; every key gets a 403."""
    yield await me.get(MEMORY_FILE)
    for name in DECISIONS:
        refused = await me.post(f"{MEMORY_FILE}/{name}", {"sha256": "0" * 64})
        assert refused.status_code == 403
        yield refused


@case(("POST", "/mcp"))
async def calls_tools(me: Tenant, other: Tenant, word: str) -> Replies:
    for query in (word, f"what did {other.mark} say?"):
        yield await tool(me, "memory_fuse", query=query)
        yield await tool(me, "memory_search", query=query)
        yield await tool(me, "memory_forget", query=query)
    yield await tool(me, "memory_get", path=f"notes/{me.mark}.md")
    for ref in (*other.refs[:2], "m7zzzzzz"):
        for name in ("memory_get", "memory_forget"):
            yield (reply := await tool(me, name, ref=ref))
            result = reply.json()["result"]
            assert (result["isError"], result["content"][0]["text"]) == (True, f"there is no memory '{ref}' here")


@case(("POST", "/mcp/cortex"))
async def calls_cortex_tools(me: Tenant, other: Tenant, word: str) -> Replies:
    for query in (word, f"what did {other.mark} say?"):
        yield await tool(me, "recall", at="/mcp/cortex", message=query)
        yield await tool(me, "search", at="/mcp/cortex", message=query)
    yield await tool(me, "stats", at="/mcp/cortex")
    for ref in (*other.refs[:2], "m7zzzzzz"):
        yield (reply := await tool(me, "forget", at="/mcp/cortex", id=ref))
        result = reply.json()["result"]
        assert (result["isError"], result["content"][0]["text"]) == (True, f"there is no memory '{ref}' here")


async def tool(me: Tenant, name: str, *, at: str = "/mcp", **arguments: str) -> httpx.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
    return await me.post(at, body, accept="application/json, text/event-stream")


def not_found(reply: httpx.Response, handle: str) -> httpx.Response:
    """The reply, which must be that of a memory or receipt which never was, but for the handle that was asked for."""
    assert reply.status_code == 404, reply.text
    problem = reply.json()
    assert set(problem) == {"type", "title", "status", "detail"}
    assert problem["detail"] in (
        f"there is no memory '{handle}' here",
        f"there is no memory '{handle}' here, and none was forgotten",
        f"there is no receipt {handle}; receipts are kept for 7 days",
    )
    return reply


# The property ----------------------------------------------------------------------------------------------------


@pytest.mark.feature(
    "… each new route must declare what another tenant could ask of it", of="each tenant has its own journal"
)
def test_tenant_cases_cover_every_route() -> None:
    """A new route must say what another tenant might ask of it."""
    routes = {
        (method, route.path)
        for route in app_over(FakeFusion())._app.routes  # type: ignore[attr-defined]
        if isinstance(route, Route | APIRoute)
        for method in (route.methods or ()) - {"HEAD"}
    }
    assert routes == set(CASES)


@asynccontextmanager
async def two_tenants(home: Path) -> AsyncIterator[tuple[Gateway, Mapping[str, httpx.AsyncClient]]]:
    """One server over the four embedded backends and the reference one, and by tenant a client with its key."""
    keys = [{"name": n, "sha256": sha256(f"key of {n}".encode()).hexdigest(), "tenant": n} for n in TENANTS]
    backends: dict[str, dict[str, Any]] = {
        "memory": {"adapter": "adapters.inmemory:InMemory"},
        "verbed": {"adapter": "tests.doors.verbed:Verbed"},
        "markdown": {"remember_turns": True},
    }
    backends = {name: {**backends.get(name, {}), "deadline_ms": 60_000} for name in (*BACKENDS, "verbed")}
    (home / "recipes").mkdir(parents=True)  # no answer depends on how busy the machine is
    (home / "recipes" / "patient.toml").write_text('name = "patient"\n[gather]\ntimeout_ms = 60_000\n')
    chosen = load(home=home, recipe="patient", embedder={"adapter": ""}, server={"keys": keys}, backends=backends)
    allow(home)
    # Each tenant's refs begin at m1. Those of one are moved far away, so that no ref is a memory of both.
    journal = tenant_folder(home, TENANTS[1]) / "journal.sqlite"
    await (await Journal.open(journal)).close()
    with closing(sqlite3.connect(journal)) as db, db:
        db.execute("insert into sqlite_sequence(name, seq) values('event', ?)", (1 << 20,))
    async with Gateway.open(chosen) as gateway:
        transport = Checked(create_app(gateway, chosen))
        clients = {
            name: httpx.AsyncClient(
                transport=transport, base_url="http://localhost", headers={"authorization": f"Bearer key of {name}"}
            )
            for name in TENANTS
        }
        async with clients["acme"], clients["globex"]:
            yield gateway, clients


async def keeps(tenant: Tenant, told: Told) -> None:
    body = told.body(tenant)
    headers = {}
    if told.key is not None:
        headers["idempotency-key"] = key = f"{told.key} of {tenant.example}"
        first = tenant.keys.setdefault(key, body)
    reply = await tenant.post("/v1/memories", body, **headers)
    if headers and first != body:
        assert reply.status_code == 422
        assert reply.json()["type"].endswith("KeyReused")
        return
    assert reply.status_code in (200, 201), reply.text
    (kept,) = reply.json()["memories"]
    tenant.refs.append(kept["ref"])
    tenant.event_ids.append(kept["event_id"])


async def assert_separate(gateway: Gateway, one: Tenant, two: Tenant, word: str) -> None:
    """Ask every route as each tenant for what is the other's: no reply has any of it, and the other keeps it."""
    for tenant in (one, two):
        await gateway.settle(tenant.name)
    for function in dict.fromkeys(CASES.values()):
        for me, other in ((one, two), (two, one)):
            before = await kept_by(gateway, other)
            async for reply in function(me, other, word):
                assert reply.status_code < 500, reply.text
                if reply.status_code != 404:  # which repeats what was asked for, and has been looked at
                    shown = reply.text + repr(reply.headers)
                    assert other.mark not in shown, (reply.url, shown)
                    assert [i for i in other.event_ids if i in shown] == [], (reply.url, shown)
            assert await kept_by(gateway, other) == before


async def kept_by(gateway: Gateway, tenant: Tenant) -> list[str]:
    """Those of its memories that it can still read. Over HTTP it would ask more often than all routes together."""
    kept = []
    for event_id in tenant.event_ids:
        with suppress(NotFound):
            await gateway.memory(event_id, Scope(tenant=tenant.name))
            kept.append(event_id)
    return kept


class OpenHome:
    """A home with its server's clients by tenant. No dataclass: hypothesis would print all that is in it."""

    def __init__(self, runner: asyncio.Runner, gateway: Gateway, clients: Mapping[str, httpx.AsyncClient]) -> None:
        self.runner, self.gateway, self.clients = runner, gateway, clients


@pytest.fixture(scope="module")
def home() -> Iterator[OpenHome]:
    """One open home for all that hypothesis thinks of: what earlier examples left there must not leak either."""
    with TemporaryDirectory() as folder, asyncio.Runner() as runner:
        opened = two_tenants(Path(folder) / "home")
        gateway, clients = runner.run(opened.__aenter__())
        yield OpenHome(runner, gateway, clients)
        runner.run(opened.__aexit__(None, None, None))


# An example asks two hundred questions: to shrink one that fails would take minutes, and says little more.
@pytest.mark.row(
    "A120",
    "A156",
    "two tenants over every route: nothing of one is in a reply to the other, by any handle",
)
@pytest.mark.timeout(600)  # a dozen seconds of CPU, which a busy machine gives in minutes
@settings(max_examples=4, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(
    acme=st.lists(tellings, min_size=1, max_size=4),
    globex=st.lists(tellings, min_size=1, max_size=4),
    word=st.sampled_from(WORDS),
)
def test_replies_contain_nothing_of_another_tenant(
    home: OpenHome,
    acme: list[Told],
    globex: list[Told],
    word: str,
) -> None:
    """Whatever both were told, with the same users, sessions, documents, sources and keys: who asks any route for what
    is the other's gets what it would get if the other had never been; and the other still has it."""
    runner, gateway, clients = home.runner, home.gateway, home.clients
    example = uuid4().hex[:8]
    one, two = (Tenant(name, clients[name], example) for name in TENANTS)

    async def told_and_asked() -> None:
        for tenant, tellings in ((one, acme), (two, globex)):
            for told in tellings:
                await keeps(tenant, told)
        await assert_separate(gateway, one, two, word)

    runner.run(told_and_asked())
