"""The calls on an open home about its graphs: neighbours of an entity, paths, impact, and projects that fit an idea.

The edges are those of the backends with a graph (`fusion.contract.Graphs`), filtered by the journal as hits are, and
the current temporal facts. The graph is optional: without such a backend only the facts have edges.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from fusion import wire
from fusion.contract import GraphEdge, Graphs, Query, Scope
from fusion.errors import BadInput
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.owners import require_owner
from fusion.gateway.temporal_facts import FactCalls
from fusion.journal.rows import Record
from fusion.lib.graph_paths import Edge, Reached, affected, merged, projects_of, step
from fusion.lib.listing import record_ref
from fusion.lib.temporal_facts import TemporalFact, entity_ref
from fusion.lib.words import normalise
from fusion.recall.filter import Admitted, admit_one

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_DEPTH = 3
MAX_REACHED = 64
"""entities that one step of a walk reaches at most"""
EDGES_AT_ONCE = 64
"""edges that are read of one entity"""
MATCH_DEPTH = 3
MAX_NAMES = 10
_RELATIONS = {"uses": "USES", "depends_on": "USES", "decision": "DECIDES"}
"""the kinds of edges that facts are, by predicate; the others relate"""


@dataclass(frozen=True, slots=True)
class GraphRequest:
    """From which entity to walk, how far, and how many to return."""

    entity: str
    scope: Scope
    depth: int = 1
    limit: int = 20
    all_users: bool = False


@dataclass(frozen=True, slots=True)
class PathRequest:
    """Between which entities to find the shortest way."""

    entity: str
    to: str
    scope: Scope
    all_users: bool = False


@dataclass(frozen=True, slots=True)
class MatchRequest:
    """For which idea to find projects that it fits."""

    idea: str
    scope: Scope
    limit: int = 5
    all_users: bool = False


class GraphCalls(FactCalls):
    """The calls of an open home about its graphs, for one tenant."""

    __slots__ = ()

    @in_tenant
    async def graph_neighbors(self, request: GraphRequest) -> wire.GraphNeighbours:
        """The entities around one, nearest first, each with the path that justifies it. Raises NobodyNamed."""
        await self._may_walk(request.scope, request.all_users, request.depth)
        found = await self._walk([request.entity], request.scope, request.depth)
        return {"entity": request.entity, "found": [_shown(one) for one in found[: request.limit]]}

    @in_tenant
    async def graph_impact(self, request: GraphRequest) -> wire.GraphNeighbours:
        """What uses, or is blocked by, an entity, directly or over others: what its change may affect."""
        await self._may_walk(request.scope, request.all_users, request.depth)
        found = await self._walk([request.entity], request.scope, request.depth, dependents=True)
        return {"entity": request.entity, "found": [_shown(one) for one in found[: request.limit]]}

    @in_tenant
    async def graph_path(self, request: PathRequest) -> wire.GraphPath:
        """The shortest way from one entity to another, of at most six edges; None if there is none that short."""
        await self._may_walk(request.scope, request.all_users, MAX_DEPTH)
        goal = normalise(request.to)
        found = await self._walk([request.entity], request.scope, 2 * MAX_DEPTH, goal=goal)
        way = next((one for one in found if normalise(one.name) == goal), None)
        return {"entity": request.entity, "to": request.to, "way": None if way is None else _shown(way)}

    @in_tenant
    async def graph_match(self, request: MatchRequest) -> wire.GraphMatches:
        """The projects that an idea fits, best first, each with the path that leads to it and what asserts it.

        The walk begins at the entities that the idea names. Raises NobodyNamed.
        """
        await self._may_walk(request.scope, request.all_users, MATCH_DEPTH)
        names = await self.named_in(request.idea, request.scope)
        found = await self._walk(names, request.scope, MATCH_DEPTH) if names else []
        starts = [Reached(name, "project", name) for name in names if normalise(name).startswith("project ")]
        projects = projects_of([*starts, *found], request.limit)
        return {"idea": request.idea, "entities": names, "projects": [_shown(one) for one in projects]}

    async def _may_walk(self, scope: Scope, all_users: bool, depth: int) -> None:
        if not 1 <= depth <= MAX_DEPTH:
            raise BadInput(f"depth: give 1 to {MAX_DEPTH}")
        await require_owner(self.journal, scope, all_users)

    async def _walk(
        self, names: Sequence[str], scope: Scope, depth: int, *, dependents: bool = False, goal: str = ""
    ) -> list[Reached]:
        """What can be reached from these entities, nearest first; it ends early once it reaches ``goal``."""
        frontier = [Reached(name, "concept", name) for name in names]
        seen = {normalise(name) for name in names}
        found: list[Reached] = []
        for _ in range(depth):
            here = [one.name for one in frontier]
            edges = await self.edges(here, scope)
            frontier = step(frontier, affected(edges, here) if dependents else edges, seen, MAX_REACHED)
            found += frontier
            if not frontier or goal in seen:
                break
        return found

    async def named_in(self, text: str, scope: Scope) -> list[str]:
        """The entities of all graphs that a text names, each once."""
        found: dict[str, str] = {}
        for name in await self._ask(lambda graph: graph.entities_in(text, scope)):
            found.setdefault(normalise(name), name)
        return list(found.values())[:MAX_NAMES]

    async def edges(self, names: Sequence[str], scope: Scope) -> list[Edge]:
        """The edges at these entities that a scope may see, with what asserts each."""
        query = Query("", scope, self.live.now(), limit=EDGES_AT_ONCE)
        read = await self._ask(lambda graph: graph.edges_at(names, query, EDGES_AT_ONCE))
        records = await self.journal.records(list(dict.fromkeys(edge.event_id for edge in read)))
        refs = {event_id: record_ref(one.ref) for event_id, one in records.items() if may_see(query, one)}
        edges = [_edge(one, refs[one.event_id]) for one in read if one.event_id in refs]
        return merged([*await self._fact_edges(names, scope), *edges])

    async def _ask(self, call: Callable[[Any], Awaitable[Sequence[T]]], port: type[Any] = Graphs) -> list[T]:
        """What the backends with a port answer within their deadlines; one that fails, or is late, answers nothing."""

        async def answer(graph: object, deadline_s: float) -> Sequence[T]:
            try:
                async with asyncio.timeout(deadline_s):
                    return await call(graph)
            except Exception as error:  # noqa: BLE001 — a fault of one graph must not affect the others
                log.warning("a graph did not answer: %s", type(error).__name__)
                return ()

        asked = [
            answer(one.backend, one.deadline_s)
            for one in self.guarded.values()
            if one.disabled is None and not one.broken and isinstance(one.backend, port)
        ]
        return [item for items in await asyncio.gather(*asked) for item in items]

    async def _fact_edges(self, names: Iterable[str], scope: Scope) -> list[Edge]:
        """The current facts about these entities as edges."""
        now = self.live.now()
        facts = await self.facts_about(names, scope)
        return [_fact_edge(one) for one in facts if one.authoritative and one.holds_at(now)]

    async def facts_about(self, names: Iterable[str], scope: Scope) -> list[TemporalFact]:
        """The facts about entities by their names, whatever became of them."""
        subjects = []
        for name in names:
            with suppress(BadInput):
                subjects.append(entity_ref(name))
        return await self._facts(scope, subjects) if subjects else []


def may_see(query: Query, record: Record) -> bool:
    """Whether a query may see a memory, by the rules for hits."""
    known = {record.event.event_id: record}
    return isinstance(admit_one("graph", record.hit, 1, query, known), Admitted)


def _edge(one: GraphEdge, ref: str) -> Edge:
    types = (one.subject_type, one.object_type)
    return Edge(one.subject, one.predicate, one.object, one.relation, one.inverse, (ref,), types)


def _fact_edge(fact: TemporalFact) -> Edge:
    what = fact.assertion
    object_ = what.object.text.removeprefix("entity:")
    relation = _RELATIONS.get(what.predicate, "RELATES_TO")
    return Edge(what.subject, what.predicate, object_, relation, False, (fact.id,))


def _shown(one: Reached) -> wire.GraphEntity:
    return {
        "name": one.name,
        "kind": one.kind,
        "hops": len(one.way),
        "score": round(one.strength, 4),
        "path": one.path,
        "edges": [
            {
                "subject": edge.subject,
                "predicate": edge.predicate,
                "object": edge.object,
                "relation": edge.relation,
                "refs": list(edge.refs),
            }
            for edge in one.way
        ],
        "refs": list(one.refs),
    }
