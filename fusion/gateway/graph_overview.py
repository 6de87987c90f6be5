"""The whole graph of a home, or what is around some entities: nodes with their degree, and edges with their time.

It reads a bounded number of edges: the newest of each graph, and the facts of a bounded number of subjects. The most
connected entities are kept, and the edges between them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from fusion import wire
from fusion.contract import EdgeList, GraphEdge, Query, Scope
from fusion.gateway.graph import EDGES_AT_ONCE, GraphCalls, may_see
from fusion.gateway.in_tenant import in_tenant
from fusion.journal import temporal_facts
from fusion.lib.listing import record_ref
from fusion.lib.words import normalise

MAX_NODES = 10_000
MAX_EDGES = 20_000
"""edges that are read of each graph"""
MAX_SUBJECTS = 2_000
"""subjects whose facts are read"""
MAX_FRONTIER = 500
"""entities from which one step around an entity goes on"""
MAX_REFS = 5
"""refs of an edge that are shown"""


@dataclass(frozen=True, slots=True)
class OverviewRequest:
    """Which part of the graph to show, as it was ``at`` a time: what is around some entities, or all of it."""

    scope: Scope
    limit: int = 1000
    around: tuple[str, ...] = ()
    depth: int = 1
    at: datetime | None = None
    all_users: bool = False


@dataclass(slots=True)
class _Drawn:
    """An edge as it is shown; several memories may assert it."""

    source: str
    target: str
    relation: str
    types: tuple[str, str]
    valid_from: datetime | None
    valid_to: datetime | None
    refs: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, str]:
        return normalise(self.source), self.relation, normalise(self.target)

    @property
    def ends(self) -> tuple[str, str]:
        return normalise(self.source), normalise(self.target)


class GraphOverview(GraphCalls):
    """The call of an open home that draws its graph, for one tenant."""

    __slots__ = ()

    @in_tenant
    async def graph_overview(self, request: OverviewRequest) -> wire.GraphOverview:
        """The most connected entities and the edges between them. Raises NobodyNamed, and BadInput for the depth."""
        await self._may_walk(request.scope, request.all_users, request.depth)
        query = Query("", request.scope, self.live.now(), limit=MAX_EDGES, as_of=request.at)
        found = await (self._around(request, query) if request.around else self._all(request, query))
        return await asyncio.to_thread(_drawn, found, request.limit)

    async def _all(self, request: OverviewRequest, query: Query) -> list[_Drawn]:
        edges = await self._ask(lambda graph: graph.newest_edges(query, MAX_EDGES), EdgeList)
        subjects = await self.journal.read(temporal_facts.subjects, request.scope, MAX_SUBJECTS)
        return [*await self._facts_drawn(subjects, request), *await self._edges_drawn(edges, query)]

    async def _around(self, request: OverviewRequest, query: Query) -> list[_Drawn]:
        """The edges at some entities, then those at the entities there, up to the depth."""
        frontier, seen = list(request.around), {normalise(name) for name in request.around}
        found: list[_Drawn] = []
        for _ in range(request.depth):
            step = await self._step(frontier[:MAX_FRONTIER], request, query)
            found += step
            frontier = []
            for name in (name for edge in step for name in (edge.source, edge.target)):
                if normalise(name) not in seen:
                    seen.add(normalise(name))
                    frontier.append(name)
            if not frontier or len(found) >= MAX_EDGES:
                break
        return found

    async def _step(self, names: Sequence[str], request: OverviewRequest, query: Query) -> list[_Drawn]:
        """The edges at these entities."""
        edges = await self._ask(lambda graph: graph.edges_at(names, query, EDGES_AT_ONCE))
        subjects = [fact.subject for fact in await self.facts_about(names, request.scope)]
        return [*await self._facts_drawn(subjects, request), *await self._edges_drawn(edges, query)]

    async def _edges_drawn(self, edges: Sequence[GraphEdge], query: Query) -> list[_Drawn]:
        """The edges of graphs whose memories the query may see."""
        records = await self.journal.records(list(dict.fromkeys(edge.event_id for edge in edges)))
        seen = {event_id: record for event_id, record in records.items() if may_see(query, record)}
        return [
            _Drawn(
                *(edge.subject, edge.object, edge.predicate, (edge.subject_type, edge.object_type)),
                *(record.event.valid_from, record.event.valid_to),
                [record_ref(record.ref)],
            )
            for edge in edges
            if (record := seen.get(edge.event_id)) is not None
        ]

    async def _facts_drawn(self, subjects: Iterable[str], request: OverviewRequest) -> list[_Drawn]:
        """The facts about these subjects that hold at the time of the request."""
        at = request.at or self.live.now()
        wanted = list(dict.fromkeys(subjects))
        facts = await self._facts(request.scope, wanted) if wanted else []
        return [
            _Drawn(
                *(fact.assertion.subject, fact.assertion.object.text.removeprefix("entity:"), fact.assertion.predicate),
                *(("concept", "concept"), fact.valid_from, fact.valid_to),
                [fact.id],
            )
            for fact in facts
            if fact.authoritative and fact.holds_at(at)
        ]


def _drawn(found: Sequence[_Drawn], limit: int) -> wire.GraphOverview:
    """The most connected nodes of these edges, and the edges between them, each once."""
    merged: dict[tuple[str, str, str], _Drawn] = {}
    for edge in found:
        known = merged.setdefault(edge.key, edge)
        if known is not edge:
            known.refs += [ref for ref in edge.refs if ref not in known.refs][: MAX_REFS - len(known.refs)]
    degrees: Counter[str] = Counter(end for edge in merged.values() for end in set(edge.ends))
    names: dict[str, tuple[str, str]] = {}
    for edge in merged.values():
        for end, name, kind in zip(edge.ends, (edge.source, edge.target), edge.types, strict=True):
            if end not in names or names[end][1] == "concept":
                names[end] = (names.get(end, (name,))[0], kind)
    kept = sorted(degrees, key=lambda end: (-degrees[end], end))[:limit]
    shown = set(kept)
    edges = [edge for edge in merged.values() if shown.issuperset(edge.ends)]
    return {
        "nodes": [{"name": names[end][0], "type": names[end][1], "degree": degrees[end]} for end in kept],
        "edges": [_shown(edge, names) for edge in edges],
        "left_out": len(degrees) - len(kept),
    }


def _shown(edge: _Drawn, names: Mapping[str, tuple[str, str]]) -> wire.DrawnEdge:
    source, target = (names[end][0] for end in edge.ends)
    return {
        "source": source,
        "target": target,
        "relation": edge.relation,
        "valid_from": None if edge.valid_from is None else edge.valid_from.isoformat(),
        "valid_to": None if edge.valid_to is None else edge.valid_to.isoformat(),
        "refs": edge.refs[:MAX_REFS],
    }
