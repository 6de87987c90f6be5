"""Paths through a graph of entities, and what can be read from them: neighbours, ways, impact and projects that fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusion.lib.words import normalise, stems

HOP_DECAY = 0.5
"""factor on how strongly an entity is reached for each edge of the way to it"""
DEPENDING = frozenset({"USES", "BLOCKED_BY"})
"""relations whose subject is affected when the object changes"""
PROJECTS = frozenset({"project", "repo"})
KINDS: Mapping[str, str] = {
    "project": "Project",
    "repo": "Repo",
    "decision": "Decision",
    "tool": "Tool",
    "system": "Tool",
    "person": "Person",
}
"""the kinds of entities in openclaw-mem's graph, by the types of ours; all others are a Concept"""
ASKING = frozenset(
    stem
    for word in "uses depends requires needs blocks blocked relates related connected linked impact affects affected "
    "replaces owns decided chose between path neighbours why".split()
    for stem in stems(word)
)
"""the stems of words by which a question asks for relations"""


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge with the refs of the memories, or facts, that assert it. See `fusion.contract.GraphEdge`."""

    subject: str
    predicate: str
    object: str
    relation: str
    inverse: bool
    refs: tuple[str, ...]
    types: tuple[str, str] = ("concept", "concept")
    """those of the subject and of the object"""

    @property
    def dependent(self) -> str | None:
        """The end that is affected when the other one changes; None if neither is known to be."""
        if self.relation not in DEPENDING:
            return None
        return self.object if self.inverse else self.subject

    def other_end(self, name: str) -> tuple[str, str]:
        """The name and the type of the end that is not ``name``."""
        if normalise(self.subject) == normalise(name):
            return self.object, self.types[1]
        return self.subject, self.types[0]


@dataclass(frozen=True, slots=True)
class Reached:
    """An entity with the way that leads to it: the entity where it begins, and the edges in their order."""

    name: str
    type: str
    start: str
    way: tuple[Edge, ...] = ()

    @property
    def kind(self) -> str:
        """Its kind in openclaw-mem's graph."""
        return KINDS.get(self.type, "Concept")

    @property
    def strength(self) -> float:
        """How strongly it is reached, at most 1."""
        return float(HOP_DECAY ** len(self.way))

    @property
    def refs(self) -> tuple[str, ...]:
        """What asserts the edges of the way, each once."""
        return tuple(dict.fromkeys(ref for edge in self.way for ref in edge.refs))

    @property
    def path(self) -> str:
        """The way as a line: ``Hjul → uses → Postgres 16``, or ``Postgres 16 ← uses ← Hjul`` against an edge."""
        line, here = self.start, self.start
        for edge in self.way:
            there, _ = edge.other_end(here)
            forward = normalise(edge.subject) == normalise(here)
            said = edge.predicate.replace("_", " ")
            line += f" → {said} → {there}" if forward else f" ← {said} ← {there}"
            here = there
        return line


def step(frontier: Iterable[Reached], edges: Sequence[Edge], seen: set[str], limit: int) -> list[Reached]:
    """The entities one edge further than ``frontier`` that are not in ``seen`` yet, at most ``limit``; adds to it."""
    found: list[Reached] = []
    for at in frontier:
        here = normalise(at.name)
        for edge in edges:
            if here not in (normalise(edge.subject), normalise(edge.object)):
                continue
            name, type_ = edge.other_end(at.name)
            if len(found) < limit and (key := normalise(name)) and key not in seen:
                seen.add(key)
                found.append(Reached(name, type_, at.start, (*at.way, edge)))
    return found


def affected(edges: Iterable[Edge], names: Iterable[str]) -> list[Edge]:
    """Those of the edges by which something depends on one of these entities."""
    keys = {normalise(name) for name in names}
    return [one for one in edges if one.dependent is not None and normalise(one.other_end(one.dependent)[0]) in keys]


def asks_for_relations(question: str) -> bool:
    """Whether a question asks how things hang together: "what depends on Redis?"."""
    return not ASKING.isdisjoint(stems(question))


def merged(edges: Iterable[Edge]) -> list[Edge]:
    """The edges with those that say the same joined, sorted by their names."""
    found: dict[tuple[str, str, str], Edge] = {}
    for edge in edges:
        key = normalise(edge.subject), normalise(edge.predicate.replace("_", " ")), normalise(edge.object)
        known = found.get(key)
        refs = edge.refs if known is None else tuple(dict.fromkeys((*known.refs, *edge.refs)))
        one = edge if known is None else known
        found[key] = Edge(one.subject, one.predicate, one.object, one.relation, one.inverse, refs, one.types)
    return [edge for _, edge in sorted(found.items())]


def projects_of(reached: Iterable[Reached], limit: int) -> list[Reached]:
    """The projects and repositories among what was reached, most strongly first, then by name."""
    found = [one for one in reached if one.type in PROJECTS]
    return sorted(found, key=lambda one: (-one.strength, normalise(one.name)))[:limit]
