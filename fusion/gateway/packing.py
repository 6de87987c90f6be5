"""The calls on an open home that make context packs (openclaw-mem.context-pack.v1)."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fusion.errors import BadInput
from fusion.gateway.answering import Answering, Packing
from fusion.gateway.cards import CardCalls
from fusion.gateway.dissent import find_dissent
from fusion.gateway.graph_lane import (
    HARD_MS,
    NO_GRAPH,
    SOFT_MS,
    GraphLane,
    GraphMode,
    GraphQuestion,
    graph_lane,
    without_repetition,
)
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.layering import LayerCalls
from fusion.gateway.pack_lanes import episodes, working_set
from fusion.gateway.recall_request import RecallRequest
from fusion.lib.budget import estimate_tokens
from fusion.recall.context_pack import (
    BUDGET_TOKENS,
    FRAME_TOKENS,
    MAX_ITEMS,
    SCHEMA,
    Bundle,
    PackItem,
    PackMeta,
    PackNotes,
    bundle,
)
from fusion.recall.dispute import Dispute
from fusion.recall.dissent import with_dissent, with_successions, without_rivals_apart
from fusion.recall.engine import Fused, FuseRequest, Outcome
from fusion.recall.fresh_tail import BUDGET_TOKENS as TAIL_TOKENS
from fusion.recall.fresh_tail import MAX_ITEMS as TAIL_ITEMS
from fusion.recall.fresh_tail import Tail, protected, turns_of
from fusion.recall.pack import Block, Ranking
from fusion.recall.pack_evidence import COLD_ITEMS, COLD_SHARE, LaneName, Searched
from fusion.recall.pack_layers import MAX_L2_ITEMS, Layer, in_layers, long_events
from fusion.recall.pack_trace import Lane, Retriever, noted, trace_of, with_note

LAYERED = 100
"""best entries of a ranking of whose long memories the layers are read"""


@dataclass(frozen=True, slots=True)
class PackRequest(RecallRequest):
    """A request for a context pack. What is None comes from the recipe; ``budget_tokens`` includes the frame.

    ``layer`` asks for one layer of all long memories, ``max_l2`` bounds those that are shown in detail. ``tail_text``
    has the last turns of the conversation, one a line.
    """

    budget_tokens: int = BUDGET_TOKENS
    max_items: int = MAX_ITEMS
    max_l2: int = MAX_L2_ITEMS
    layer: Layer | None = None
    tail_text: str = ""
    tail_max_items: int = TAIL_ITEMS
    tail_budget_tokens: int | None = None
    graph: GraphMode = "off"
    """whether facts and paths of the graph come first: on if the question names an entity, auto as `graph_lane` says"""
    graph_soft_ms: int = SOFT_MS
    graph_hard_ms: int = HARD_MS
    trace: bool = False
    lanes: tuple[LaneName, ...] = ()
    """the lanes that are searched besides warm, which always is; cold is, too, where no memory answers"""
    include_archived: bool = False


@dataclass(frozen=True, slots=True)
class PackReceipt:
    """How a pack came about: its receipt, its size, which backends answered, and what its memories dispute."""

    receipt_id: str
    tokens: int
    took_ms: float
    abstained: str | None
    degraded: bool
    backends: tuple[Mapping[str, Any], ...]
    coverage: Mapping[str, Any]
    disputed: tuple[Dispute, ...]
    tail_left_out: int
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ContextPack:
    """A context pack; ``bundle_text`` goes into the prompt as it is. ``trace`` is there if it was asked for."""

    schema: str
    meta: PackMeta
    bundle_text: str
    items: tuple[PackItem, ...]
    notes: PackNotes
    receipt: PackReceipt
    trace: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ContextPacking(Answering, CardCalls, LayerCalls):
    """The calls of an open home that make context packs, for one tenant."""

    _nonce_key: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    """makes the last line of a bundle, which nobody else can guess and which is the same for the same bundle"""

    @in_tenant
    async def pack(self, request: PackRequest) -> ContextPack:
        """Ask every backend and make one context pack.

        The memories in it count as included, and the receipt has what a trace needs. Raises as `fuse`, and BadInput for
        limits that leave no room for a memory.
        """
        tail = _tail(request)
        graph = asyncio.ensure_future(graph_lane(self, _graph_question(request)))
        try:
            fused, outcome = await self._answered(_question(request), self._packing(request, tail, graph))
        finally:
            graph.cancel()
        made = outcome.block
        assert isinstance(made, Bundle)  # noqa: S101 - `_packing` makes it
        return ContextPack(
            SCHEMA,
            PackMeta(
                outcome.receipt.summary["at"],
                request.query,
                request.scope.project,
                request.budget_tokens,
                request.max_items,
            ),
            made.text,
            made.items,
            PackNotes(),
            _receipt(fused, made, tail),
            trace_of(outcome.receipt.body, request.query) if request.trace else None,
        )

    def _packing(self, request: PackRequest, tail: Tail, graph: asyncio.Future[GraphLane]) -> Packing:
        hot, cold = Searched(False, "the lane hot is not asked for"), Searched(False, "memories answer the question")
        stages: dict[str, float] = {}

        async def packer(ranking: Ranking) -> Block:
            nonlocal hot, cold
            started = time.perf_counter()
            by_rules, model_ms = self.settings.packs.dissent_by_rules, self.settings.model.dissent_ms
            embedder = self.live.embedder if by_rules else None
            lane = await graph
            ranking = without_repetition(without_rivals_apart(ranking), lane)
            ranking = with_dissent(ranking, await find_dissent(ranking, embedder, self.model, model_ms))
            ranking = with_successions(ranking)
            stages["dissent"] = _ms_since(started)
            layers = await self.layers_of_events(long_events(ranking, LAYERED), ranking.records)
            layered = in_layers(ranking, layers, layer=request.layer, max_l2=request.max_l2)
            stages["layers"] = round(_ms_since(started) - stages["dissent"], 2)
            items = lane.items
            before = len(tail.entries) + len(items)
            if "hot" in request.lanes:
                hot = await self._hot(request, tail)
            if "cold" in request.lanes:
                cold = await self._cold(request, before, hot, asked=True)
            made = bundle(ranking, layered, tail, self._nonce_key, items, (*hot.found, *cold.found))
            if not made.memories and not items and "cold" not in request.lanes:
                cold = await self._cold(request, before, hot, asked=False)
                made = bundle(ranking, layered, tail, self._nonce_key, items, (*hot.found, *cold.found))
            stages["bundle"] = round(_ms_since(started) - stages["layers"] - stages["dissent"], 2)
            return made

        def note(outcome: Outcome) -> Outcome:
            made = outcome.block
            assert isinstance(made, Bundle)  # noqa: S101 - made above
            budgets = {
                "budgetTokens": request.budget_tokens,
                "maxItems": request.max_items,
                "maxL2Items": request.max_l2,
                "niceCap": request.max_items,
            }
            waited = max((row["took_ms"] for row in outcome.fused.backends), default=0.0)
            stages["backends"] = round(waited, 2)
            lanes = self._lanes(request, outcome, tail, hot, cold)
            found = noted(made, budgets, lanes, request.scope.project, tail.left_out, stages)
            lane = graph.result() if graph.done() and not graph.cancelled() else NO_GRAPH
            if request.graph != "off":
                searched = Lane("graph", "temporal facts and graphs", lane.searched)
                found = replace(found, lanes=(*found.lanes, searched), graph=lane.trace)
            return replace(outcome, receipt=with_note(outcome.receipt, made, found))

        return Packing(packer, note)

    async def _hot(self, request: PackRequest, tail: Tail) -> Searched:
        """What the asking session did lately, in the room that its tail leaves."""
        session = request.scope.session_id or (request.asker.session_id if request.asker else None)
        used = sum(estimate_tokens(entry.line) for entry in tail.entries)
        room = request.tail_budget_tokens or min(TAIL_TOKENS, _room(request) // 2)
        items = min(request.tail_max_items, request.max_items - 1) - len(tail.entries)
        return await working_set(self, request.scope, session, max(0, items), room - used)

    async def _cold(self, request: PackRequest, before: int, hot: Searched, *, asked: bool) -> Searched:
        """The episodes that fit the question and are not in the ``hot`` lane, in a part of the room that it and the
        items ``before`` leave."""
        items = min(COLD_ITEMS, (request.max_items - before - len(hot.found)) // 2)
        if items < 1:
            return Searched(False, "the pack has no item left for an episode")
        shown = frozenset(one.ref for one in hot.found)
        tokens = _room(request) // COLD_SHARE
        return await episodes(self, request.scope, request.query, items, tokens, asked=asked, shown=shown)

    def _lanes(self, request: PackRequest, outcome: Outcome, tail: Tail, hot: Searched, cold: Searched) -> list[Lane]:
        """The lanes of a pack, how each was searched, and why."""
        recipe = self._recipe(_question(request))
        depth = recipe.gather.depth_for(len(self.live.asked(request.backends)))
        retrievers = [
            Retriever(str(row["name"]), depth, recipe.fuse.k)
            for row in outcome.fused.backends
            if row["status"] in ("ok", "empty")
        ]
        tailed = "the request has a tail" if tail.entries else "the request has no tail"
        archived = "the request includes them" if request.include_archived else "the request does not include them"
        by_words = (Retriever("fts", COLD_ITEMS),)
        return [
            Lane("hot", "fresh tail", bool(tail.entries), (), tailed),
            Lane("hot", "working set", hot.searched, (), hot.why),
            Lane("warm", "memories and notes of all backends", bool(retrievers), tuple(retrievers), "always searched"),
            Lane("cold", "episodes", cold.searched, by_words if cold.searched else (), cold.why),
            Lane("cold", "archived memories", request.include_archived, (), archived),
        ]


def _ms_since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 2)


def _room(request: PackRequest) -> int:
    """The tokens of a pack without its first and last line."""
    return request.budget_tokens - FRAME_TOKENS


def _tail(request: PackRequest) -> Tail:
    """The tail of a pack, which leaves room for one memory at least. Raises BadInput where there is none."""
    room = _room(request)
    if room < 1:
        raise BadInput(
            f"budget_tokens: {request.budget_tokens} has no room for a memory: the first and last line of a pack take "
            f"{FRAME_TOKENS} tokens; raise it"
        )
    turns = turns_of(request.tail_text) if request.tail_max_items else []
    if turns and request.max_items < 2:
        raise BadInput("max_items: a pack with a tail needs 2 items at least, one of them for a memory; raise it")
    most = min(request.tail_max_items, request.max_items - 1)
    return protected(turns, room, max_items=most, budget_tokens=request.tail_budget_tokens)


def _question(request: PackRequest) -> FuseRequest:
    """The question of a request for a pack."""
    return request.question(
        budget_tokens=request.budget_tokens,
        max_results=request.max_items,
        format="context-pack",
        archived=request.include_archived,
    )


def _graph_question(request: PackRequest) -> GraphQuestion:
    """What the graph is asked for a pack."""
    return GraphQuestion(
        request.query,
        request.scope,
        request.graph,
        at=request.as_of,
        budget_tokens=request.budget_tokens,
        max_items=request.max_items,
        soft_ms=request.graph_soft_ms,
        hard_ms=request.graph_hard_ms,
        all_users=request.all_users,
        narrowed=bool(request.where) or request.backends is not None or request.known_at is not None,
    )


def _receipt(fused: Fused, made: Bundle, tail: Tail) -> PackReceipt:
    return PackReceipt(
        fused.receipt_id,
        estimate_tokens(made.text),
        fused.took_ms,
        fused.abstained,
        fused.degraded,
        fused.backends,
        fused.coverage,
        fused.disputed,
        tail.left_out,
        fused.notes,
    )
