"""Spreading activation over a graph from the entities of a query. Pure: the caller queries the database for each hop.

Activation starts at the entities that the question names and spreads along relationships: half of it is left with each
hop (seed 000's graph proximity), and of a node with many relationships each gets less of it. A relationship between two
things that the question names gets it from both. Its text counts too: words of the query that are in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from adapters.bolt.driver import Row
from adapters.graph.traversal import HOP_DECAY, rarity
from adapters.neo4j.rows import Edge, Node, Rows, sentence
from fusion.contract import Hit, Query
from fusion.lib.words import stems

FRONTIER = 16
"""maximum nodes of the first hop from which the second starts, best first"""

WORDS = 2.0
"""weight of the share of the question's words that a hit has, relative to 1 for a hit without any"""

READ = 1000
"""characters of a text that are searched for words of the question"""


@dataclass(slots=True)
class ReachedNode:
    """A node that the walk reached; ``path`` leads there from a node of the query."""

    node: Node
    activation: float
    path: tuple[str, ...]


@dataclass(slots=True)
class _Said:
    """Something that may become a hit: a node's text, or a relationship between two nodes."""

    what: Node | tuple[Node, Edge, Node]
    words: float
    path: tuple[str, ...]
    activation: float = 0.0


@dataclass(slots=True)
class _Step:
    """A step from ``here`` along a relationship to ``node``; ``forward``: from its start to its end."""

    here: ReachedNode
    edge: Edge
    node: Node
    forward: bool

    @property
    def path(self) -> tuple[str, ...]:
        """To the node. A relationship against its direction is marked as SPARQL marks an inverse path."""
        if not self.here.path:
            return (self.node.name,)
        return (*self.here.path, self.edge.predicate if self.forward else f"^{self.edge.predicate}", self.node.name)

    @property
    def triplet(self) -> tuple[Node, Edge, Node]:
        ends = (self.here.node, self.node) if self.forward else (self.node, self.here.node)
        return ends[0], self.edge, ends[1]

    @property
    def chain(self) -> tuple[str, ...]:
        """The path that justifies the relationship; a single one reads as it was asserted, from either end."""
        if len(self.here.path) > 1:
            return self.path
        subject, edge, object_ = self.triplet
        return tuple(filter(None, (subject.name, edge.predicate, object_.name)))

    @property
    def says(self) -> bool:
        """Whether the relationship says something: between two entities, or in its own words. That a passage mentions
        an entity is said by the passage."""
        here, node = self.here.node, self.node
        return bool(self.edge.text or (here.is_entity and node.is_entity and here.name and node.name))


class Walk:
    """One walk. ``dropped`` rows made no sense; ``hubs`` are nodes with more than ``degree`` relationships."""

    def __init__(self, query: Query, rows: Rows, degree: int, starts: Iterable[tuple[Node, float]]) -> None:
        self.dropped = 0
        self.hubs: set[str | int] = set()
        self._rows, self._degree = rows, degree
        self._query = query
        self._asked = frozenset(stems(query.text))
        self._said: dict[str, _Said] = {}
        self._seen: set[str | int] = set()
        self.frontier = [ReachedNode(node, weight, (node.name,) if node.name else ()) for node, weight in starts]
        self._seen.update(one.node.ident for one in self.frontier)

    def hop(self, rows: Sequence[Row], depth: int) -> None:
        """One hop from the frontier. Hubs may start a walk but are never passed through.

        ``rows`` are those of `Cypher.related`; ``origin`` is an index into the frontier.
        """
        arms: defaultdict[int, list[Row]] = defaultdict(list)
        for row in rows:
            arms[row["origin"]].append(row)
        passed = set(self._said)
        onwards: dict[str | int, tuple[float, ReachedNode]] = {}
        for place, here in enumerate(self.frontier):
            arm = arms[place]
            if len(arm) > self._degree:
                self.hubs.add(here.node.ident)
                if depth > 1:
                    continue
                del arm[self._degree :]
            activation = here.activation * rarity(len(arm))
            if depth == 1 and here.node.text:
                self._say(here.node, here.path, activation)
            for step in self._steps(here, arm):
                worth = self._take(step, activation, passed)
                node = step.node
                if node.ident in self._seen or not (node.is_entity and node.name):
                    continue
                if node.ident not in onwards or worth > onwards[node.ident][0]:
                    onwards[node.ident] = worth, ReachedNode(node, activation * HOP_DECAY, step.path)
        best = sorted(onwards.values(), key=lambda one: (-one[0], one[1].node.native_id))
        self.frontier = [reached for _, reached in best[:FRONTIER]]
        self._seen.update(one.node.ident for one in self.frontier)

    def ranked(self, limit: int) -> list[Hit]:
        """The hits of the walk, best first."""
        scores = {id_: said.activation * (1 + WORDS * said.words) for id_, said in self._said.items()}
        best = sorted(scores, key=lambda id_: (-scores[id_], id_))[:limit]
        return [self._hit(self._said[id_], round(scores[id_], 6)) for id_ in best]

    def _hit(self, said: _Said, score: float) -> Hit:
        if isinstance(said.what, Node):
            return self._rows.passage(said.what, said.path, score)
        return self._rows.triplet(*said.what, said.path, score)

    def _steps(self, here: ReachedNode, arm: Iterable[Row]) -> Iterator[_Step]:
        """The rows that are relationships, hold at the time that is asked about, and lead elsewhere."""
        for row in arm:
            try:
                edge, node = self._rows.edge(row["edge"]), self._rows.node(row["node"])
            except (TypeError, ValueError):
                self.dropped += 1
                continue
            holds = self._query.out_of_time(edge) is None and self._query.out_of_time(node) is None
            if holds and node.ident != here.node.ident:
                yield _Step(here, edge, node, bool(row["forward"]))

    def _take(self, step: _Step, activation: float, passed: Collection[str]) -> float:
        """Record the hits of a step; returns the weight of continuing from its node."""
        edge, node = step.edge, step.node
        if node.text:
            self._say(node, step.path if node.is_entity and node.name else step.here.path, activation)
        if not step.says:
            return activation
        said = self._said.get(edge.native_id)
        if said is None:
            triplet = step.triplet
            said = self._said[edge.native_id] = _Said(triplet, self._words(sentence(*triplet)), step.chain)
        if edge.native_id not in passed:  # the way back along what was passed before adds nothing
            said.activation += activation
        return activation * (1 + WORDS * said.words)

    def _say(self, node: Node, path: tuple[str, ...], activation: float) -> None:
        said = self._said.get(node.native_id)
        if said is None:
            said = self._said[node.native_id] = _Said(node, self._words(node.text), path)
        said.activation += activation

    def _words(self, text: str) -> float:
        """The share of the question's words that are in ``text``."""
        return len(self._asked.intersection(stems(text[:READ]))) / len(self._asked) if self._asked else 0.0
