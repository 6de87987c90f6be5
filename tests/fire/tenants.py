"""Two homes in which one tenant does the same; in one of them another tenant works, too. Every reply is compared.

`tests/fire/test_tenants.py` draws what the tenants do, and `python -m benchmarks fire tenants` counts over seeds. The
four embedded backends, journal, receipts and the HTTP application are the real ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import chain
from math import isclose
from pathlib import Path
from random import Random
from typing import Any

import httpx

from fusion.doors.http.app import create_app
from fusion.doors.http.openapi import examples
from fusion.gateway.gateway import Gateway
from fusion.settings import load
from fusion.trust import allow
from tests.fire.ledger import ask_ledger
from tests.fire.noted import Json, Noted, posted, settled

STORES = ("markdown", "cortex", "mem0", "triples")
TOPICS = ("harbour", "bees", "bridge", "postgres", "lantern", "Marta", "Lisbon")
PLANTED = tuple(
    "quillon brindle fescue ostler tamarin verdigris cassock dulcimer ferrule gossamer "
    "halyard isinglass jonquil kestrel lodestar marzipan nankeen obelisk parapet quagmire "
    "rosewood sassafras tourmaline umber vellum wainscot yarrow zeppelin almanac bassoon "
    "cardamom dovetail epaulet filigree galleon hornbeam ironwood juniper kumquat lacquer".split()
)
"""forty words that only the other tenant uses, until this one asks for them"""

PLACE = "talk"


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that a tenant does.

    ``remember``, ``flood`` (sixty memories of a word), ``forget``, ``ask``, ``observe`` (append an episode), ``assert``
    (a fact by one of its memories) or ``propose``.
    """

    kind: str
    word: str
    number: int = 0


@dataclass
class Tenant:
    """A tenant of an open home: its key, and what it did."""

    name: str
    http: httpx.AsyncClient
    refs: list[str] = field(default_factory=list)
    done: int = 0

    async def act(self, act: Act) -> None:
        """Does one thing, and waits until every backend has it: what is late by chance must not look like a leak."""
        self.done += 1
        match act.kind:
            case "remember":
                body = self._memory(act)
                keys = {"idempotency-key": f"key {self.done}"} if act.number % 2 else {}
                reply = await self.post("/v1/memories", body, **keys)
            case "flood":
                items = [{**self._memory(act), "text": f"{self.name} counts {act.word} number {n}"} for n in range(60)]
                reply = await self.post("/v1/memories", items)
            case "forget" if self.refs:
                reply = await self.http.delete(f"/v1/memories/{self.refs[act.number % len(self.refs)]}")
                reply = httpx.Response(200) if reply.status_code == 404 else reply
            case "observe":
                about = f"{self.name} listed the {act.word}"
                seen = {"type": "tool.result", "tool": "bash", "summary": about, "ts": self._at().isoformat()}
                reply = await self.post("/v1/episodes/append", {**seen, "session_id": "s1", "event_id": str(self.done)})
            case "assert" if self.refs:
                source = f"obs:{self.refs[act.number % len(self.refs)]}"
                fact = {"subject": act.word, "predicate": "status", "object": f"{self.name} {self.done}"}
                reply = await self.post(
                    "/v1/facts", {**fact, "sources": [source], "valid_from": self._at().isoformat()}
                )
                reply = httpx.Response(200) if reply.status_code == 404 else reply
            case "propose":
                reply = await self.post("/v1/store/propose", {"text": f"{self.name} proposes the {act.word}."})
            case _:
                reply = await self.post("/v1/fuse", {"query": act.word})
        assert reply.status_code < 300, reply.text
        if reply.content and "memories" in (found := reply.json()) and act.kind != "ask":
            self.refs += [row["ref"] for row in found["memories"] if "ref" in row]
        await self.settle()

    async def settle(self) -> None:
        await settled(self.http)

    def _at(self) -> datetime:
        """The time of what it does now: a day later each time."""
        return datetime(2025, 5, 1, tzinfo=UTC) + timedelta(days=self.done)

    def _memory(self, act: Act) -> dict[str, Json]:
        """A memory about a word; the number decides in which of the ways that there are."""
        about = f"{TOPICS[act.number % len(TOPICS)]} and the {act.word}"
        body: dict[str, Json] = {
            "text": f"Note {self.done} of the team says: the {about} matter. {act.word.title()} -> needs -> {about}.",
            "at": self._at().isoformat(),
            "kind": ("note", "turn", "decision", "fact")[act.number % 4],
        }
        if act.number % 3 == 0:
            body |= {"user_id": "ana", "session_id": "s1", "speaker": "Ana"}
        if act.number % 5 == 0:
            body |= {"document": PLACE, "position": self.done}
        if act.number % 7 == 0:
            body |= {"source": "mail"}
        return body

    async def post(self, path: str, body: Json, **headers: str) -> httpx.Response:
        return await posted(self.http, path, body, **headers)

    # Everything that it can ask

    async def replies(self, words: Sequence[str]) -> dict[str, Json]:
        """By request, the reply of every route, as `plain` makes it; the same requests in the same order."""
        me = Noted(self.http)
        receipts = []
        for word in words:
            for path in ("/fuse", "/v1/fuse"):
                reply = await me.post(path, {"query": f"what about the {word}?", "explain": True})
                receipts.append(reply.get("receipt_id"))
                await self.settle()  # what was used is noted after the reply
            await me.post("/v1/fuse", {"query": word, "user_id": "ana", "explain": True})
            await self.settle()
            await me.get("/v1/session", session_id="nobody's")
            await me.post("/hybrid-search", {"query": word})
            await me.post("/recall", {"query": word})
            await self.settle()
            for store in STORES:
                await me.post("/v1/search", {"backend": store, "query": word, "limit": 100})
            await me.post("/v1/tools/memory_search", {"query": word})
            await self.settle()
            await me.post("/v1/forget", {"query": word, "dry_run": True})
        word = words[0]
        await me.post("/v1/compare", {"query": word, "a": "patient", "b": "seed003@-cortex"})
        await self.settle()
        for number, receipt in enumerate(receipts[:4]):
            me.note(f"GET /v1/receipts/{number}", await self.http.get(f"/v1/receipts/{receipt}"))
        await me.get("/v1/receipts", limit="100")
        asked = await self.post("/v1/ask", {"query": word, "record": True})
        answer = json.loads(asked.text.splitlines()[-1])  # the lines before it are in the order of the clock
        me.found["POST /v1/ask"] = [asked.status_code, answer]
        await self.settle()
        replay = {"recording": answer["recording"], "changes": {"pack": {"max_results": 2}}}
        me.note("POST /v1/replay", await self.post("/v1/replay", replay))
        await me.get("/v1/recipes")
        await me.get("/v1/activity", days="2")
        await me.status("GET", "/v1/backends/history")
        votes = {"receipt_id": receipts[0], "useful": [], "useless": []}
        me.note("POST /v1/feedback", await self.post("/v1/feedback", votes))
        await me.get("/v1/feedback")
        comparison = examples()["keep_comparison"]["request"]
        me.note("POST /v1/comparisons", await self.post("/v1/comparisons", comparison))
        await me.get("/v1/comparisons")
        more: dict[str, str] = {}
        while cursor := (await me.get("/v1/memories", limit="3", **more))["next_cursor"]:
            more = {"cursor": cursor}
        for more in (
            *({"user_id": "ana"}, {"document": PLACE}, {"source": "mail"}),
            *({"q": word, "order": "newest"}, {"state": "all", "order": "importance"}, {"kind": "note", "tag": word}),
        ):
            await me.get("/v1/memories", **more)
        for ref in (*dict.fromkeys(self.refs), "m5", "mzz", "x0123456789"):
            await me.get(f"/v1/memories/{ref}")
        await me.patch("/v1/memories/mzz", {"text": word})
        await me.post("/v1/forget", {"document": PLACE, "dry_run": True})
        await me.post("/v1/forget", {"source": "mail", "dry_run": True})
        await me.post("/v1/retire", {"files": [{"source": "mail", "keep": []}], "dry_run": True})
        await me.get("/v1/forgotten", limit="2")
        for more in ({}, {"ref": "m5"}, {"action": "forget"}, {"since": "2026-01-01"}):
            await me.get("/v1/audit", user_id="ana", limit="2", **more)
        await me.get("/v1/sources")
        await me.get("/v1/batches")
        await me.post("/v1/undo", {"dry_run": True})
        for ref in (*self.refs[:1], "mzz"):
            await me.post("/v1/state", {"ref": ref, "confidence": 0.7})
            await me.get("/v1/decisions", ref=ref)
        await me.post("/v1/states", {"refs": [*self.refs[:3], "mzz"], "importance": 0.6, "dry_run": True})
        await me.get("/v1/decisions")
        await me.post("/v1/decisions/undo", {"decision": "d1"})
        await me.post("/v1/decisions/undo", {"run": "r1"})
        await me.post("/v1/import", {})
        # Of these only the status is compared: jobs are of the whole home, and its owner sees when they ran; an export
        # has the tenant's own ids and a checksum over them; a run of the lifecycle has an id.
        for path in ("/v1/jobs", "/v1/jobs/log", "/v1/export", "/metrics"):
            await me.status("GET", path)
        for path in ("/v1/jobs/checks/run", "/v1/jobs/checks/pause", "/v1/jobs/checks/resume", "/v1/lifecycle"):
            await me.status("POST", path, {})
        await me.get("/v1/documents", path=PLACE)
        await me.post("/v1/tools/memory_get", {"path": PLACE})
        await me.post("/v1/tools/daily_logs", {"user_id": word})
        await me.post("/v1/flush/plan", {"context_window": 200_000, "message": word})
        await me.post(
            "/ingest", {"messages": [{"role": "user", "content": word}], "session_id": "s", "channel": "cron"}
        )
        for verb in ("list", "entities", "stats"):
            await me.post(f"/v1/backends/cortex/{verb}", {})
        me.note(
            "POST /v1/backends/cortex/export",
            await self.post("/v1/backends/cortex/export", {}, accept="application/x-ndjson"),
        )
        for path in ("recall", "search"):
            await me.post(f"/compat/cortex/v1/{path}", {"message": word})
        for name in ("memory_fuse", "memory_search"):
            await me.tool("/mcp", name, query=word)
        await me.tool("/mcp/cortex", "recall", message=word)
        await self.settle()
        await ask_ledger(me, word, self.refs)
        await me.post("/v1/settle", {"timeout_s": 60})
        for path in ("/v1/backends", "/v1/status", "/healthz", "/readyz", "/openapi.json", "/docs"):
            await me.get(path)
        for path in ("/", "/inspector", "/inspector/app.js"):
            await me.status("GET", path)
        for name in ("links", "sessions", "renewals"):
            await me.status("POST", f"/v1/inspector/{name}", {})
        await me.status("GET", "/v1/inspector/memory-file")
        for name in ("promote", "undo-promotion", "restore"):
            await me.status("POST", f"/v1/inspector/memory-file/{name}", {"sha256": "0" * 64})
        # What it writes now has the next numbers.
        await me.post("/v1/memories", {"text": f"The last note is of the {word}.", "at": "2025-06-01T00:00:00Z"})
        await me.post("/v1/tools/memory_append", {"text": f"The last line is of the {word}."})
        return {name: plain(reply) for name, reply in me.found.items()}


# What is left out of the comparison, and nothing else: durations, the clock, random ids, sizes of files.
CLOCKED = frozenset(
    "took_ms waited_ms latest uptime uptime_s wait_s bytes coverage/vectors_pending statements/waiting "
    "timing/durationMs timing/stages receipt/latencyMs event/ts_ms items/ts_ms surface_identity/db_fingerprint".split()
)
"""durations; the clock as a number, or as a place in the list of receipts; how many statements the background has not
compared yet; bytes on the disk, which depend on when SQLite and tantivy write back; the number of missing vectors in an
answer, which is of up to a second ago: that of now is in `/v1/backends`, and compared; and a hash of a home's path"""
_RANDOM = re.compile(
    r"(?<=nonce=\")[0-9a-f]{12}|(?<=nonce=\\\")[0-9a-f]{12}|(?<=End of memories )[0-9a-f]{12}"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|\br[0-9a-f]{24}\b|\bx[0-9a-hjkmnp-tv-z]{10}\b"
    r"|\bfact:[0-9a-f]{16}\b|\b[0-9a-f]{32}\b"
)
"""event ids, ids of receipts, hashes of native ids, nonces of fences; hashes of event ids: ids of facts, and digests
of cards"""
_NOW = re.compile(
    r"\b20(?:2[6-9]|[3-9]\d)-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|\+00:00)?"
    r"|\b20(?:2[6-9]|[3-9]\d)\d{4}T\d{12}Z|(?<=\"latencyMs\":)\d+"
)
"""the clock: what the tenants say of times is of 2025; and durations in texts"""


CLOSE = 1e-5
"""by what share of it a number may differ: the cortex's recency moves with every microsecond since a memory was used"""


def plain(value: Json) -> Json:
    """A reply without durations, without the time of day, and with random ids numbered by their first place in it."""
    names: dict[str, str] = {}

    def text(said: str) -> str:
        said = _NOW.sub("<now>", said)
        return _RANDOM.sub(lambda m: names.setdefault(m[0], f"<id {len(names)}>"), said)

    def walk(one: Json, of: str = "") -> Json:
        if isinstance(one, Mapping):
            kept = {n: inner for n, inner in one.items() if CLOCKED.isdisjoint((n, f"{of}/{n}"))}
            return {text(str(name)): walk(inner, str(name)) for name, inner in kept.items()}
        if isinstance(one, list):
            return [walk(inner, of) for inner in one]
        return text(one) if isinstance(one, str) else one

    return walk(value)


def differing(one: Json, two: Json, path: str = "") -> Iterator[str]:
    """The fields in which two replies differ."""
    if isinstance(one, dict) and isinstance(two, dict):
        for name in dict.fromkeys(chain(one, two)):
            if name in one and name in two:
                yield from differing(one[name], two[name], f"{path}/{name}")
            else:
                yield f"{path}/{name}"
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for number, (a, b) in enumerate(zip(one, two, strict=True)):
            yield from differing(a, b, f"{path}/{number}")
    elif isinstance(one, float) and isinstance(two, float) and isclose(one, two, rel_tol=CLOSE):
        return
    elif one != two:
        yield f"{path}: {str(one)[:200]} != {str(two)[:200]}"


@asynccontextmanager
async def open_home(home: Path, tenants: Sequence[str], **more: Any) -> AsyncIterator[list[Tenant]]:
    """A server over the embedded backends with a key for each tenant; no answer depends on how fast the machine is."""
    keys = [{"name": n, "sha256": sha256(n.encode()).hexdigest(), "tenant": n} for n in tenants]
    backends: dict[str, dict[str, Any]] = {name: {"deadline_ms": 60_000} for name in STORES}
    backends["markdown"]["remember_turns"] = True
    home.mkdir(mode=0o700)
    (home / "recipes").mkdir(mode=0o700)
    (file := home / "recipes" / "patient.toml").touch(mode=0o600)
    file.write_text("[gather]\ntimeout_ms = 60_000\n")
    allow(home)
    settings = load(home=home, recipe="patient", server={"keys": keys}, backends=backends, **more)
    async with Gateway.open(settings) as gateway, AsyncExitStack() as stack:
        transport = httpx.ASGITransport(create_app(gateway, settings))
        found = []
        for name in tenants:
            headers = {"authorization": f"Bearer {name}"}
            client = httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers, timeout=120)
            found.append(Tenant(name, await stack.enter_async_context(client)))
        yield found


async def compared(
    folder: Path, who: tuple[str, str], mine: Sequence[Act], theirs: Sequence[Act], words: Sequence[str], **more: Any
) -> tuple[list[str], int]:
    """The fields that differ of the replies to the first tenant when the second does ``theirs``; and how many replies
    were compared."""
    reply_sets = []
    for crowded in (False, True):
        async with open_home(folder / ("crowded" if crowded else "alone"), who, **more) as (me, other):
            queue = list(theirs) if crowded else []
            share = max(1, len(queue) // (len(mine) + 1))
            for act in mine:
                for their in queue[:share]:
                    await other.act(their)
                del queue[:share]
                await me.act(act)
            for their in queue:
                await other.act(their)
            reply_sets.append(await me.replies(words))
    alone, crowd = reply_sets
    return list(differing(alone, crowd)), len(alone)


def drawn(draw: Random, acts: int) -> list[Act]:
    """What a tenant does, at random."""
    kinds = ("remember", "remember", "remember", "forget", "ask", "observe", "assert", "propose")
    return [Act(draw.choice(kinds), draw.choice(TOPICS), draw.randrange(100)) for _ in range(acts)]


async def oracle(folder: Path, who: tuple[str, str], words: Sequence[str] = PLANTED, **more: Any) -> list[str]:
    """The words of which anything in any reply shows that another tenant uses them.

    The attacker writes a memory of each word in the same sentence and asks for it by every route that ranks. It is also
    given all replies of a home in which nobody else works: no attacker has more to tell by.
    """
    reply_sets = []
    for crowded in (False, True):
        async with open_home(folder / f"oracle-{crowded}", who, **more) as (me, other):
            if crowded:
                for n in range(0, len(words), 8):
                    said = [{"text": f"{word} {word} is the secret of project {word}"} for word in words[n : n + 8]]
                    assert (await other.post("/v1/memories", said)).status_code < 300
                await other.settle()
            probes = [{"text": f"The probe says {word} today.", "at": "2025-05-05T00:00:00Z"} for word in words]
            assert (await me.post("/v1/memories", probes)).status_code < 300
            await me.settle()
            found = {}
            for word in words:
                asked = []
                for form in (word, f"{word}s"):
                    asked.append(await me.post("/v1/fuse", {"query": form, "explain": True}))
                    await me.settle()
                asked += [await me.post("/v1/search", {"backend": s, "query": word[:-1], "limit": 100}) for s in STORES]
                found[word] = [plain(reply.json()) for reply in asked]
            reply_sets.append(found)
    return [word for word in words if any(differing(reply_sets[0][word], reply_sets[1][word]))]
