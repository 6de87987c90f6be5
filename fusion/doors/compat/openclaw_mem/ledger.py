"""What openclaw-mem's commands do, over the fused memory, and what they print with ``--json``."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from fusion import wire
from fusion.client import AsyncClient
from fusion.doors.compat.openclaw_mem import canonical, episodes, graph, packs, records
from fusion.doors.compat.openclaw_mem.episodes import NewEpisode
from fusion.doors.compat.openclaw_mem.ids import record_id, ref_of
from fusion.doors.quarantine import is_quarantined
from fusion.doors.schemas.proposals import Category
from fusion.errors import BadInput, NobodyAnswered, NotFound, RoleTooLow
from fusion.ingest.proposals import MAX_REASON_CHARS
from fusion.lib.budget import MAX_BUDGET_TOKENS, clip, estimate_tokens
from fusion.lib.envelope import is_private
from fusion.lib.importance import label_of
from fusion.lib.listing import record_ref
from fusion.version import VERSION

PAGE = 100
"""memories that an export reads at once"""
MAX_DEPTH = 3
"""edges from an entity at most, as the graph is walked"""
PAGES = 10
"""pages that are looked through for memories of a kind"""
GRAPH_NAMES = 3
"""entities of a query whose neighbours a search with the graph shows"""
MAX_RESULTS = 50
"""results of a search at most"""
KEPT = frozenset({"stored", "superseded", "duplicate"})


@dataclass(frozen=True, slots=True)
class Stored:
    """A memory to store, in the words of openclaw-mem."""

    text: str
    category: str = "fact"
    importance: float | None = None
    text_en: str | None = None
    lang: str | None = None
    tool_name: str = "memory_store"

    def draft(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        """The request of `remember`."""
        said = records.about(category=self.category, tool_name=self.tool_name, text_en=self.text_en, lang=self.lang)
        draft = {
            "audience": "group",
            **scope,
            "text": self.text,
            "kind": records.kind_named(self.category),
            "raw_kind": self.category,
            "origin": "agent",
            "metadata": said,
        }
        return draft if self.importance is None else {**draft, "importance": self.importance}

    def proposal(self, scope: Mapping[str, Any]) -> dict[str, Any]:
        """The request of `propose`."""
        kind = records.kind_named(self.category)
        return {"audience": "group", **scope, "text": self.text, "kind": kind, "importance": self.importance}


@dataclass(frozen=True, slots=True)
class Proposed:
    """A memory to propose, in the words of openclaw-mem: ``agent_id`` says who proposes it."""

    scope: str
    agent_id: str
    text: str
    category: Category = "other"
    importance: float = 0.5
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def draft(self, owner: Mapping[str, Any]) -> dict[str, Any]:
        """The request of `propose`. The agent is not its owner: openclaw-mem's memories belong to all agents.

        A provenance there may have any members; ours has a kind and a ref, and the others stand in the reason.
        """
        said = {name: value for name, value in self.provenance.items() if name not in ("kind", "ref")}
        draft = {
            **owner,
            "project": self.scope,
            "text": self.text,
            "category": self.category,
            "importance": self.importance,
            "reason": clip(f"proposed by {self.agent_id}" + (f": {_json(said)}" if said else ""), MAX_REASON_CHARS),
        }
        kind, ref = self.provenance.get("kind"), self.provenance.get("ref")
        return {**draft, "provenance": {"kind": kind, "ref": ref}} if kind and ref else draft

    def receipt(self, reply: wire.ProposeReply) -> dict[str, Any]:
        """The counts that openclaw-mem prints, and what became of the proposal."""
        made = reply["proposal"]
        number = made["id"].removeprefix("p")
        labels = dict.fromkeys(("must_remember", "nice_to_have", "ignore", "unknown"), 0)
        return {
            "inserted": int(made["status"] == "proposed"),
            "ids": [int(number)] if number.isdigit() else [],
            "total_seen": 1,
            "graded_filled": 0,
            "skipped_existing": 1,
            "skipped_disabled": 0,
            "scorer_errors": 0,
            "label_counts": {**labels, label_of(self.importance): 1},
            "writes_performed": reply["writes_performed"],
            "proposal": made,
        }


@dataclass(frozen=True, slots=True)
class Found:
    """The rows of a search; it is degraded if a backend did not answer."""

    rows: list[dict[str, Any]]
    degraded: bool


@dataclass(frozen=True, slots=True)
class Ledger:
    """The memory as openclaw-mem's clients see it, through a client of the gateway.

    ``scope`` has the fields that the door fixes, such as ``user_id``; ``all_users`` asks for everybody's memories.
    """

    client: AsyncClient
    scope: Mapping[str, Any]
    all_users: bool = False

    async def search(self, query: str, limit: int, **more: Any) -> Found:
        """The best memories of all backends, best first. ``more`` are parameters of `client.memory_search`."""
        found = await self.client.memory_search(
            query, max_results=min(limit, MAX_RESULTS), all_users=self.all_users or None, **self.scope, **more
        )
        if "error" in found:
            raise NobodyAnswered(found["error"], {})
        items = found["results"]
        memories = await asyncio.gather(*(self._known(item["ref"]) for item in items))
        lanes = records.lanes_of(items)
        rows = [records.search_row(item, memory, lanes) for item, memory in zip(items, memories, strict=True)]
        return Found(rows, found.get("degraded", False))

    async def hybrid(self, query: str, limit: int, **more: Any) -> dict[str, Any]:
        """The rows of a search with what the graph has beside the entities of the query: ``search --graph``."""
        found = await self.search(query, limit, **more)
        named = await self.client.graph_match(query, all_users=self.all_users, **self.scope)
        beside = [
            await self.client.graph_neighbors(one, limit=limit, all_users=self.all_users, **self.scope)
            for one in named["entities"][:GRAPH_NAMES]
        ]
        return graph.hybrid(query, limit, found.rows, [one for each in beside for one in each["found"]])

    async def recall(self, query: str, limit: int, *, mode: str = "auto", project: str | None = None) -> dict[str, Any]:
        """The rows of a search in the receipt of the command ``recall``. Every mode asks the whole fused memory."""
        found = await (self if project is None else replace(self, scope={**self.scope, "project": project})).search(
            query, limit
        )
        lanes = sorted({lane for row in found.rows for lane in row["lanes_used"]})
        return {
            "kind": "openclaw-mem.recall.v1",
            "query": query,
            "mode_requested": mode,
            "mode_effective": "hybrid",
            "lanes_used": lanes,
            "results": found.rows,
            "routing_reason": "fused",
            "retrieval": {
                "kind": "openclaw-mem.search.receipt.v1",
                "query_lang": None,
                "lane_hits": found.rows[0]["lane_hits"] if found.rows else records.lanes_of([]),
                "fallback_triggered": found.degraded,
                "cross_lang_recovered": 0,
                "result_count": len(found.rows),
                "scoring_profile": packs.FUSED,
            },
        }

    async def found_observations(self, query: str, limit: int) -> dict[str, Any]:
        """The best memories for a query, as the MCP tools return them."""
        found = await self.search(query, limit)
        kept = await asyncio.gather(*(self._known(ref_of(row["recordRef"])) for row in found.rows))
        items = [records.observation(memory, max_chars=records.SNIPPET_CHARS) for memory in kept if memory is not None]
        tokens = sum(estimate_tokens(item["summary"]) for item in items)
        return {"ok": True, "query": query, "count": len(items), "estimatedTokens": tokens, "items": items}

    async def latest(self, limit: int, kind: str | None = None) -> dict[str, Any]:
        """The latest memories, newest first, of one kind or of all."""
        items: list[dict[str, Any]] = []
        cursor = None
        for _ in range(1 if kind is None else PAGES):
            page = await self.client.memories(limit=limit if kind is None else PAGE, cursor=cursor, **self.scope)
            items += [
                records.observation(memory)
                for memory in page["memories"]
                if not is_quarantined(memory) and kind in (None, memory["kind"], records.kind_of(memory))
            ]
            cursor = page["next_cursor"]
            if cursor is None or len(items) >= limit:
                break
        return {"ok": True, "count": len(items[:limit]), "items": items[:limit]}

    async def counts(self) -> dict[str, Any]:
        """How many memories there are, as the MCP tool ``mem_status`` says."""
        found = await self.client.status(**self.scope)
        current = found["memories"]["current"]
        counts = {"observations": current, "embeddings": current if found["embedder"] else 0, "docs_chunks": 0}
        return {"ok": True, "schema": "openclaw-mem.mcp.status.v1", "counts": counts}

    async def status(self, found: wire.Status) -> dict[str, Any]:
        """What the command ``status`` prints, from a status of the gateway."""
        summary = await self._summary()
        count = found["memories"]["current"]
        db = {"path": canonical.SOURCE, "preexisting": True}
        return envelope(
            "status",
            "v1",
            db=db,
            count=count,
            min_ts=min(summary.times, default=None),
            max_ts=max(summary.times, default=None),
            embeddings=_vectors(found),
            embeddings_en=_no_vectors(),
            backend={
                "memory_slot": canonical.SOURCE,
                "entries": {one["name"]: {"enabled": one["status"] != "disabled"} for one in found["backends"]},
                "fallback": {"recommended_slot": "memory-core", "reason": "OpenClaw's own memory"},
            },
            runtime={"db": db},
        )

    async def profile(self, recent: int, tools: int, kinds: int) -> dict[str, Any]:
        """What the command ``profile`` prints: counts by kind, by what wrote a record and by importance."""
        by_kind: Counter[str] = Counter()
        by_tool: Counter[str] = Counter()
        summary = canonical.Summary()
        by_lang: Counter[str] = Counter()
        latest: list[dict[str, Any]] = []
        english = 0
        async for row in self._rows():
            summary.add(row)
            by_kind[row["kind"]] += 1
            by_lang[row["lang"] or "unknown"] += 1
            english += row["summary_en"] is not None
            by_tool[row["tool_name"] or ""] += 1
            if len(latest) < recent:
                latest.append({name: row[name] for name in ("id", "recordRef", "ts", "kind", "tool_name", "summary")})
        graded = await self.client.grade(dry_run=True, scorer="off", **self.scope)
        labels = graded["label_counts"]
        known = sum(count for label, count in labels.items() if label != "unknown")
        states = dict.fromkeys(("captured", "categorized", "consolidated", "soft-archived", "stale"), 0)
        return envelope(
            "profile",
            "v0",
            db=canonical.SOURCE,
            observations={
                "count": summary.count,
                "min_ts": min(summary.times, default=None),
                "max_ts": max(summary.times, default=None),
                "kinds": [{"kind": kind, "count": count} for kind, count in by_kind.most_common(kinds)],
                "tools": [{"tool_name": tool, "count": count} for tool, count in by_tool.most_common(tools)],
            },
            importance={"present": known, "missing": summary.count - known, "label_counts": labels, "avg_score": None},
            embeddings={"original": _vectors(await self.client.status(**self.scope)), "english": _no_vectors()},
            lang_distribution=dict(by_lang),
            summary_en_coverage={
                "present": english,
                "total": summary.count,
                "ratio": english / summary.count if summary.count else 0.0,
            },
            lifecycle_state_distribution={"active": summary.count, **states},
            recent=latest,
        )

    async def _summary(self) -> canonical.Summary:
        """The first and the last time of the memories."""
        summary = canonical.Summary()
        async for row in self._rows():
            summary.add(row)
        return summary

    async def neighbors(self, node: str, direction: str) -> dict[str, Any]:
        """The neighbours of an entity, with what connects them."""
        found = await self.client.graph_neighbors(
            node, limit=graph.MAX_ENTITIES, all_users=self.all_users, **self.scope
        )
        return graph.neighbors(node, direction, graph.edges_of(found["found"]))

    async def subgraph(self, node: str, hops: int, direction: str, max_nodes: int, max_edges: int) -> dict[str, Any]:
        """The entities around one, with what connects them; more than `MAX_DEPTH` edges away none is looked for."""
        found: list[wire.GraphEntity] = []
        if hops:
            reply = await self.client.graph_neighbors(
                node,
                depth=min(hops, MAX_DEPTH),
                limit=min(max_nodes, graph.MAX_ENTITIES),
                all_users=self.all_users,
                **self.scope,
            )
            found = reply["found"]
        return graph.subgraph(node, hops, direction, found, max_nodes, max_edges)

    async def impact(self, path: str) -> dict[str, Any]:
        """What uses something or is blocked by it."""
        found = await self.client.graph_impact(path, limit=graph.MAX_ENTITIES, all_users=self.all_users, **self.scope)
        return graph.impact(path, found["found"])

    async def inspect_trust(self, named: str | int) -> dict[str, Any]:
        """How far a memory is trusted, why, and whether packs may have it."""
        try:
            return {"ok": True, **await self.client.trust(ref_of(named), **self.scope)}
        except NotFound:
            return {"ok": False, "error": "not_found"}

    async def pack(self, query: str, limit: int, budget_tokens: int, **more: Any) -> dict[str, Any]:
        """A context pack: cited lines for a prompt, and the same as items. ``more`` are parameters of `client.pack`."""
        made = await self.client.pack(
            query,
            max_items=limit,
            budget_tokens=budget_tokens,
            all_users=self.all_users or None,
            **{**self.scope, **more},
        )
        return packs.printed(made)

    async def timeline(self, ids: Sequence[str | int], before: int, after: int) -> list[dict[str, Any]]:
        """The full rows of some records and of those around them, by id."""
        found = await self.client.timeline(
            [ref_of(one) for one in ids],
            before=before,
            after=after,
            budget_tokens=MAX_BUDGET_TOKENS,
            **self.scope,
        )
        return await self.get([entry["ref"] for entry in found["entries"]])

    async def append_episode(self, episode: NewEpisode, idempotency_key: str | None = None) -> dict[str, Any]:
        """Keep an event of a session as evidence."""
        draft = episode.draft(self.scope)
        [kept] = (await self.client.append_episodes(draft, idempotency_key=idempotency_key))["episodes"]
        return envelope("episodes.append", "v0", **episode.receipt(kept, datetime.now(UTC)))

    async def query_episodes(
        self,
        scope: str,
        *,
        session_id: str | None = None,
        types: Sequence[str] = (),
        limit: int = 50,
        include_payload: bool = False,
    ) -> dict[str, Any]:
        """The events of a scope, oldest first."""
        named = {**self.scope, "project": scope} | ({} if session_id is None else {"session_id": session_id})
        found = await self.client.query_episodes(types=list(types), limit=limit, include_payload=True, **named)
        items = episodes.page(found["episodes"], include_payload=include_payload)
        filters = episodes.filters(session_id, types, limit, include_payload=include_payload)
        return envelope("episodes.query", "v0", ok=True, scope=scope, filters=filters, count=len(items), items=items)

    async def propose(self, proposal: Proposed, idempotency_key: str | None = None) -> dict[str, Any]:
        """Propose a memory; nothing of it is remembered until somebody approves it."""
        reply = await self.client.propose(proposal.draft(self.scope), idempotency_key=idempotency_key)
        return proposal.receipt(reply)

    async def get(self, ids: Sequence[str | int]) -> list[dict[str, Any]]:
        """The full rows of some records, by id; there is none for an id that names nothing."""
        return sorted(map(records.full_row, await self._found(ids)), key=lambda row: (row["id"] or 0, row["recordRef"]))

    async def observation(self, named: str | int) -> dict[str, Any] | None:
        """A record as the MCP tools return it."""
        found = await self._found([named])
        return records.observation(found[0]) if found else None

    async def store(self, memory: Stored) -> dict[str, Any]:
        """Keep a memory. The receipt says why if nothing was kept."""
        if not memory.text.strip():
            raise BadInput("empty text: say what to remember")
        if is_private(memory.text):
            return {"ok": False, "skipped": True, "reason": "private_marker"}
        [kept] = (await self.client.remember(memory.draft(self.scope)))["memories"]
        if kept["status"] not in KEPT:
            return {"ok": False, "skipped": True, "reason": kept["reason"] or kept["status"]}
        return {
            "ok": True,
            "id": record_id(kept["ref"]),
            "recordRef": record_ref(kept["ref"]),
            "file": None,
            "markdownPath": None,
            "markdownWriteStatus": "skipped:no_file_write",
            "embedded": False,
            "embedding_model": None,
            "embedding_provider": None,
            "kind": memory.category,
            "status": kept["status"],
        }

    async def plan_export(self) -> dict[str, Any]:
        """The receipt of a canonical export that writes nothing."""
        now = datetime.now(UTC)
        counts = (await self.client.status(**self.scope))["memories"]
        newest = (await self.client.memories(limit=1, **self.scope))["memories"]
        summary = canonical.Summary()
        for memory in newest:
            summary.add(records.full_row(memory))
        summary.count = counts["current"]
        return canonical.planned(summary, canonical.name_of(now), now)

    async def export(self, folder: Path) -> dict[str, Any]:
        """Write a canonical export of the current memories into a new folder below ``folder``."""
        return await canonical.written(self._rows(), folder, datetime.now(UTC))

    async def newest(self, limit: int) -> list[dict[str, Any]]:
        """The full rows of the latest memories, newest first."""
        rows: list[dict[str, Any]] = []
        async for row in self._rows():
            rows.append(row)
            if len(rows) == limit:
                break
        return rows

    async def _rows(self) -> AsyncIterator[dict[str, Any]]:
        """The full rows of all current memories, newest first."""
        cursor = None
        while True:
            page = await self.client.memories(limit=PAGE, cursor=cursor, **self.scope)
            for memory in page["memories"]:
                if not is_quarantined(memory):
                    yield records.full_row(memory)
            cursor = page["next_cursor"]
            if cursor is None:
                return

    async def store_or_propose(self, memory: Stored) -> dict[str, Any]:
        """Keep a memory; with a key that may only propose, propose it, and say that it waits for approval."""
        try:
            kept = await self.store(memory)
        except RoleTooLow:
            reply = await self.client.propose(memory.proposal(self.scope))
            return {"ok": False, "skipped": True, "reason": "needs_approval", "proposal": reply["proposal"]["id"]}
        return {name: kept[name] for name in ("ok", "recordRef", "id", "skipped", "reason") if name in kept}

    async def _found(self, ids: Sequence[str | int]) -> list[wire.StoredMemory]:
        found = await asyncio.gather(*(self._memory(ref) for ref in dict.fromkeys(map(ref_of, ids))))
        return [memory for memory in found if memory is not None]

    async def _known(self, ref: str) -> wire.StoredMemory | None:
        """What is known of a result; None while its external system does not answer."""
        try:
            return await self._memory(ref)
        except NobodyAnswered:
            return None

    async def _memory(self, ref: str) -> wire.StoredMemory | None:
        """A memory, or None if there is none, or if it is quarantined."""
        try:
            found = await self.client.memory(ref, **self.scope)
        except NotFound:
            return None
        return None if is_quarantined(found) else found


def envelope(kind: str, version: str, **members: Any) -> dict[str, Any]:
    """A receipt of a command: what it is, when, of which program."""
    named = {"openclaw_mem": f"memory-fusion {VERSION}", "schema": version}
    return {"kind": f"openclaw-mem.{kind}.{version}", "ts": datetime.now(UTC).isoformat(), "version": named, **members}


def _vectors(found: wire.Status) -> dict[str, Any]:
    """The vectors of the memories, by model: with one, every memory has a vector."""
    model, count = found["embedder"], found["memories"]["current"]
    return {"count": count, "models": [{"model": model, "count": count}]} if model else _no_vectors()


def _no_vectors() -> dict[str, Any]:
    return {"count": 0, "models": []}


def _json(content: Mapping[str, Any]) -> str:
    return orjson.dumps(content).decode()
