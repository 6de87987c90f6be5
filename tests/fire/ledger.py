"""What a tenant asks of the ledger: recall in steps, packs, observations, facts, graph, proposals and triage.

It also asks as the clients of openclaw-mem, mem0 and QMD do.

Each function asks routes in a fixed order, and waits for the background where a later reply shows its work.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusion.doors.http.mem0 import REFUSED
from tests.fire.noted import Noted, posted

NOWHERE = "mzz"
"""a ref that no memory has"""


async def ask_ledger(me: Noted, word: str, refs: Sequence[str]) -> None:
    """Ask every route of the ledger about a word and about the tenant's own memories."""
    await recall(me, word, refs)
    await look_at_standing(me, refs)
    await keep_observations(me, word)
    await assert_facts(me, word, refs)
    await walk_the_graph(me, word)
    await keep_items(me, word)
    await propose(me, word, refs)
    await use_openclaw_mem(me, word, refs)
    await use_mem0(me, word, refs)
    await use_qmd(me, word, refs)


async def recall(me: Noted, word: str, refs: Sequence[str]) -> None:
    """An index, what stands around its hits, their records, and packs."""
    await me.post("/v1/index", {"query": word})
    await me.settle()
    for path in ("/v1/timeline", "/v1/records"):
        await me.post(path, {"refs": [*refs[:3], NOWHERE]})
    for more in ({}, {"user_id": "ana"}, {"graph": "on", "lanes": ["hot", "warm", "cold"]}):
        asked = {"query": f"what about the {word}?", "graph_soft_ms": 60_000, "graph_hard_ms": 60_000, "trace": True}
        await me.post("/v1/pack", {**asked, **more})
        await me.settle()
    await me.post("/v1/prefix", {"session_id": "s1"})


async def look_at_standing(me: Noted, refs: Sequence[str]) -> None:
    """Why the tenant has a memory, what its trust comes from, what is due, and a run that grades all of them."""
    for ref in (*refs[:3], NOWHERE):
        await me.get(f"/v1/why/{ref}")
        await me.get(f"/v1/trust/{ref}")
    await me.get("/v1/plans", everything="true")
    for body in ({"dry_run": True}, {}):
        await me.post("/v1/grade", body)
        await me.settle()


async def keep_observations(me: Noted, word: str) -> None:
    seen = {"type": "tool.result", "tool": "bash", "summary": f"The {word} was listed", "payload": {"of": word}}
    at = {"ts": "2025-05-20T08:00:00Z", "session_id": "s1"}
    await me.post("/v1/episodes/append", {**seen, **at})
    await me.post("/v1/episodes/append", [{**seen, **at, "event_id": f"{word}-{n}"} for n in range(3)])
    await me.settle()
    for more in ({"user_id": "ana"}, {"session_id": "s1", "include_payload": True}):
        await me.post("/v1/episodes/query", more)
    await me.post("/v1/episodes/embed", {"session_id": "s1"})
    for mode in ("lexical", "hybrid"):
        await me.post("/v1/episodes/search", {"session_id": "s1", "query": word, "mode": mode, "trace": True})
    await me.get("/v1/episodes/working-set", session_id="s1")
    await me.patch("/v1/episodes/ep:1", {"importance": 0.9})
    await me.get("/v1/episodes/ep:1")
    await me.get("/v1/episodes/ep:999999")
    for dry_run in (True, False):
        await me.post("/v1/episodes/redact", {"session_id": "s1", "dry_run": dry_run})
    await me.settle()
    await me.post("/v1/episodes/search", {"session_id": "s1", "query": word})


async def assert_facts(me: Noted, word: str, refs: Sequence[str]) -> None:
    """A fact by each of the first memories, one that never was, and one that is taken back."""
    fact = {"subject": word, "predicate": "status", "valid_from": "2025-05-01T00:00:00Z"}
    known = []
    for ref in (*refs[:2], NOWHERE):
        kept = await me.post("/v1/facts", {**fact, "object": f"says {ref}", "sources": [f"obs:{ref}"]})
        known += [kept["fact"]["id"]] if "fact" in kept else []
    for number, fact_id in enumerate((*known[:1], "fact:0123456789abcdef")):
        ended = {"fact": fact_id, "how": "retracted", "at": "2025-05-09T00:00:00Z"}
        me.note(f"POST /v1/facts/retract [{number}]", await posted(me.http, "/v1/facts/retract", ended))
    await me.settle()
    for path in ("current", "timeline"):
        await me.get(f"/v1/facts/{path}", subject=word)
    await me.get("/v1/facts/lint")
    await me.post("/v1/facts/pack", {"subject": word, "include_stale": True})
    await me.post("/v1/facts/rebuild", {})


async def walk_the_graph(me: Noted, word: str) -> None:
    for entity in (word, word.title()):
        for path in ("neighbors", "impact"):
            await me.post(f"/v1/graph/{path}", {"entity": entity, "depth": 2})
    await me.post("/v1/graph/path", {"entity": word.title(), "to": "Lisbon"})
    for more in ({}, {"around": [word.title()], "depth": 2}):
        await me.post("/v1/graph/overview", more)
    await me.post("/v1/graph/match", {"idea": f"a new {word} in Lisbon"})
    await me.get("/v1/graph/pages")
    for more in ({}, {"user_id": "ana"}):  # a card is of one user's facts
        await me.post("/v1/cards/refresh", {"subject": word, **more})
        await me.settle()
        await me.get("/v1/cards", subject=word, **more)
    await me.get("/v1/cards/lint")


async def keep_items(me: Noted, word: str) -> None:
    """Put an item twice, and find it by its address, by its words and by its namespace."""
    path = f"/v1/items/notes.shared/{word}"
    for number in range(2):
        await me.put(path, {"value": {"text": f"Plan {number} for the {word}"}})
    await me.settle()
    for one in (path, "/v1/items/notes.shared/nothing"):
        await me.get(one)
    await me.post("/v1/items/search", {"query": word})
    await me.post("/v1/items/search", {"namespace": ["notes"]})
    await me.post("/v1/items/namespaces", {})


async def propose(me: Noted, word: str, refs: Sequence[str]) -> None:
    """Propose memories, approve one and reject one; extract candidates; decide on what needs a person."""
    ids = []
    for number in range(3):
        kept = await me.post("/v1/store/propose", {"text": f"Proposal {number} of the team is about the {word}."})
        ids.append(kept["proposal"]["id"] if "proposal" in kept else "p1")
    await me.post("/v1/store/extract", {"text": f"We decided to sell the {word}.", "propose": True})
    await me.post("/v1/store/extract", {"refs": [*refs[:1]] or [NOWHERE]})
    await me.post("/v1/proposals/p999999/approve", {})
    for proposal in ids:
        await me.get(f"/v1/proposals/{proposal}")
    await me.post(f"/v1/proposals/{ids[0]}/approve", {})
    await me.post(f"/v1/proposals/{ids[1]}/reject", {"why": "no"})
    await me.settle()
    await me.get("/v1/proposals", state="any")
    await me.get("/v1/triage")
    await me.post("/v1/triage", {"item": ids[2], "choice": "reject"})
    await me.get("/v1/triage")


async def use_openclaw_mem(me: Noted, word: str, refs: Sequence[str]) -> None:
    """The HTTP routes and the MCP tools of openclaw-mem."""
    for path in ("health", "v1/status"):
        await me.get(f"/openclaw-mem/{path}")
    text = f"openclaw-mem keeps the {word} of the team"
    at = {"scope": "team", "session_id": "s2"}
    bodies = {
        "store": {"text": text},
        "store/propose": {"text": text, "scope": "team", "agent_id": "bot"},
        "episodes/append": {**at, "agent_id": "bot", "type": "ops.alert", "summary": text},
        "episodes/query": at,
        "search": {"query": word},
        "pack": {"query": word},
        "archive/export-canonical": {},
    }
    for path, body in bodies.items():
        await me.post(f"/openclaw-mem/v1/{path}", body)
        await me.settle()
    await me.tool("/mcp/openclaw-mem", "mem_search", query=word)
    for ref in (*refs[:2], NOWHERE):
        await me.tool("/mcp/openclaw-mem", "mem_get", recordRef=f"obs:{ref}")
    await me.settle()


async def use_mem0(me: Noted, word: str, refs: Sequence[str]) -> None:
    """The routes of mem0's server and of its package's client. What they delete is nobody's."""
    await me.get("/mem0/v1/ping/")
    for number, path in enumerate(("/memories", "/v1/memories/", "/v3/memories/add/")):
        text = f"mem0 keeps the {word} of the team, {number}"
        await me.post(f"/mem0{path}", {"messages": text, "user_id": "team", "infer": False})
        await me.settle()
    whose = {"filters": {"user_id": "team"}}
    for path in ("/search", *(f"/v{number}/memories/search/" for number in (1, 2, 3))):
        await me.post(f"/mem0{path}", {"query": word, **whose})
    for path in ("/v2/memories/", "/v3/memories/", "/reset", "/configure"):
        await me.post(f"/mem0{path}", whose)
    for path in ("/memories", "/v1/memories/"):
        await me.get(f"/mem0{path}", user_id="team")
    for ref in (*refs[:1], NOWHERE):
        for path in (f"/memories/{ref}", f"/v1/memories/{ref}/"):
            await me.get(f"/mem0{path}")
            await me.put(f"/mem0{path}", {"text": f"the {word} by {path}"})
        for path in (f"/memories/{ref}/history", f"/v1/memories/{ref}/history/"):
            await me.get(f"/mem0{path}")
        await me.put("/mem0/v1/batch/", {"memories": [{"memory_id": ref, "text": f"the {word} in a batch"}]})
        await me.post("/mem0/v1/feedback/", {"memory_id": ref, "feedback": "POSITIVE"})
    await me.get("/mem0/v1/entities/")
    for method, path in REFUSED:
        await me.status(method, f"/mem0{path.format(org='o', id=word)}", {})
    await me.settle()


async def use_qmd(me: Noted, word: str, refs: Sequence[str]) -> None:
    """The HTTP routes and the MCP tools of QMD."""
    await me.get("/qmd/health")
    for path in ("/query", "/search"):
        await me.post(f"/qmd{path}", {"searches": [{"type": "lex", "query": word}, {"type": "vec", "query": word}]})
    for at in ("/mcp/qmd", "/qmd/mcp"):
        await me.tool(at, "query", query=word)
        for ref in (*refs[:2], NOWHERE):
            await me.tool(at, "get", file=f"memory/{ref}")
        await me.tool(at, "multi_get", pattern="*.md")
        await me.tool(at, "status")
