"""Personalised PageRank over the graph of passages and entities, truncated after the first steps.

The walk begins at the query's entities and the most similar passages, and alternates between passages and the entities
that they mention (T. Haveliwala, "Topic-sensitive PageRank", WWW 2002). Later steps say little about the query and are
not computed. Passages and entities form one graph, entered at both, as in HippoRAG: B. Gutiérrez et al., NeurIPS 2024,
and "From RAG to Memory", ICML 2025. Rare entities are preferred: L. Adamic and E. Adar, 2003.

A step reads a bounded number of rows; of a hub only its newest mentions.

An example: the query names Ana; passages 1 and 2 mention her; passages 1 and 3 mention Initech.
Step 1: Ana has the probability 0.5 (`ENTITY_SHARE`), so passages 1 and 2 get 0.25 each. Half (`HOP_DECAY`) goes on.
Step 2: passage 1 gives its 0.125 to Initech, which gives it to passage 3, since nothing goes back to passage 1.
The result: passages 1 and 2 with 0.25, found through Ana; passage 3 with 0.125, found through Ana and Initech.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from json import dumps
from typing import NamedTuple

from adapters.graph.relations import ALSO_CALLED, strength
from adapters.graph.traversal import (
    HOP_DECAY,
    HUB_SCAN_FACTOR,
    MENTIONED_WITH,
    Condition,
    LinkedMemory,
    ReachedEntity,
    rarity,
)
from adapters.triples.options import Options
from fusion.store.database import VALUES
from fusion.store.sqlite import Connection, tuples

ENTITY_SHARE = 0.5
"""share of the start probability on the query's entities; the rest is on the most similar passages"""

MAX_SEEDS = 5
"""passages that the walk begins at, each half as likely as the one before; HippoRAG 2 keeps 5"""

MAX_FRONTIER = 16
"""maximum passages that a later step starts from, the likeliest first"""

MAX_ENTITIES = 16
"""maximum entities that a step passes through, the most promising first"""

MAX_MENTIONS = 128
"""maximum mentions of these that a step passes along; with twice as many of both, as many questions are answered"""

TITLE_WEIGHT = 4.0
"""weight of a passage that has the entity as its title, relative to any other mention"""

RELATION_BONUS = 1.0
"""added weight of a name if an edge joins it to the entity through which the passage was found"""

FROM_QUERY = 0
"""takes the place of a passage id for a walk that came from the query: SQLite's ids begin at 1"""

UNSCANNED = -1
"""takes the place of a hub's memories that are not scanned: their probability is lost, as a hub is weak evidence"""

Mass = dict[int, float]
"""the walk's probability here, by origin"""


class Mention(NamedTuple):
    """A mention of an entity in a memory; ``mentions`` is the entity's total."""

    memory: int
    entity: int
    name: str
    mentions: int


class Edge(NamedTuple):
    """A relation that a memory asserts."""

    memory: int
    subject: int
    predicate: str
    object: int


MemoryWeights = dict[int, float]
"""the memories that mention an entity, with their weights"""


class Walk:
    """The state of a walk: its probabilities, and the paths that led there."""

    def __init__(self, named: Mapping[int, tuple[str, float]], seeds: Sequence[int]) -> None:
        """``named`` are the question's entities, by id their name and how much it counts; ``seeds`` the memories most
        like the question, best first."""
        total = sum(weight for _, weight in named.values())
        self.reached = {
            e: ReachedEntity(e, name, 0, ENTITY_SHARE * weight / total) for e, (name, weight) in named.items()
        }
        self._named = frozenset(named)
        weights = [1 / place for place in range(1, MAX_SEEDS + 1)]
        self.frontier = {m: (1 - ENTITY_SHARE) * part / sum(weights) for m, part in zip(seeds, weights, strict=False)}
        self._mass: dict[int, float] = {}
        self._found: dict[int, tuple[int, int]] = {}  # by memory, at which step and through which entity
        self._step = 0

    @property
    def ends(self) -> set[int]:
        """The entities that the walk came through or began at; the edges to them are read."""
        return {self._found[memory][1] for memory in self.frontier if memory in self._found} | self._named

    def to_entities(self, mentions: Sequence[Mention], edges: Sequence[Edge], cap: int) -> dict[int, Mass]:
        """The entities that a step passes through, with what comes to each from where, most promising first.

        From a passage to a name in it, weighted by rarity; neither to a hub, nor to what the question itself
        names, nor to a name that occurs nowhere else.
        """
        masses: dict[int, Mass] = {} if self._step else {e: {FROM_QUERY: r.activation} for e, r in self.reached.items()}
        edge_between = {(e.memory, *ends): e for e in edges for ends in ((e.subject, e.object), (e.object, e.subject))}
        through = {memory: self._found[memory][1] for memory in self.frontier if memory in self._found}
        weights: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        mention_of: dict[int, Mention] = {}
        for mention in mentions:
            memory, entity, _, count = mention
            mention_of[entity] = mention
            if 1 < count <= cap and entity not in self._named:
                edge = edge_between.get((memory, through.get(memory, 0), entity))
                stated = RELATION_BONUS * strength(edge.predicate) if edge else 0.0
                weights[memory].append((entity, rarity(count) * (1 + stated)))
        for memory, names in weights.items():
            here, total = self.frontier[memory], sum(weight for _, weight in names)
            for entity, weight in names:
                masses.setdefault(entity, {})[memory] = here * weight / total

        priority = {entity: 1 + sum(mass.values()) for entity, mass in masses.items()}  # named ones first
        for entity in masses.keys() & mention_of.keys():
            priority[entity] = sum(masses[entity].values()) / mention_of[entity].mentions

        chosen, budget = {}, MAX_MENTIONS
        for entity in sorted(masses, key=lambda e: (-priority[e], e))[:MAX_ENTITIES]:
            budget -= min(cap, mention_of[entity].mentions) if entity in mention_of else 0
            if budget < 0:
                break
            chosen[entity] = masses[entity]
            if entity not in self.reached:
                self.reached[entity] = self._with_predecessor(
                    mention_of[entity], masses[entity], mentions, edge_between
                )
        return chosen

    def alias(self, masses: dict[int, Mass], names: Iterable[tuple[int, int, str]]) -> None:
        """Pass an entity's probability to its other names as well: (entity, other, name of the other)."""
        for entity, other, name in names:
            if other not in masses:
                masses[other] = masses[entity]
                before = self.reached[entity]
                self.reached.setdefault(
                    other, ReachedEntity(other, name, before.depth, before.activation, entity, ALSO_CALLED)
                )

    def to_memories(self, masses: Mapping[int, Mass], memory_weights: Mapping[int, MemoryWeights]) -> None:
        """Pass the probabilities to the memories that mention these entities; none goes back to its origin."""
        self._step += 1
        arrived: defaultdict[int, float] = defaultdict(float)
        best: dict[int, tuple[float, int]] = {}
        for entity, mass in masses.items():
            for memory, amount in propagate(mass, memory_weights.get(entity, {})).items():
                arrived[memory] += amount
                if amount > best.get(memory, (0.0, 0))[0]:
                    best[memory] = (amount, entity)
        arrived.pop(UNSCANNED, None)
        for memory, amount in arrived.items():
            self._mass[memory] = self._mass.get(memory, 0.0) + amount
            self._found.setdefault(memory, (self._step, best[memory][1]))
        best_next = sorted(arrived, key=lambda memory: (-arrived[memory], memory))[:MAX_FRONTIER]
        self.frontier = {memory: HOP_DECAY * arrived[memory] for memory in best_next}

    def found(self) -> list[LinkedMemory]:
        """Every memory that the walk reached, likeliest first, then newest."""
        # Rounded, so that floating-point errors do not order equals.
        found = [LinkedMemory(m, step, round(self._mass[m], 9), entity) for m, (step, entity) in self._found.items()]
        return sorted(found, key=lambda f: (-f.strength, -f.memory))

    def _through(self, memory: int) -> int | None:
        return self._found[memory][1] if memory in self._found else None

    def _with_predecessor(
        self,
        mention: Mention,
        mass: Mass,
        mentions: Sequence[Mention],
        edge_between: Mapping[tuple[int, int, int], Edge],
    ) -> ReachedEntity:
        """An entity with its predecessor, taken from the passage that contributes most.

        The predecessor is the entity that led to that passage, or an entity of the question in it.
        """
        memory = max(mass, key=lambda m: (mass[m], -m))
        before = self._through(memory)
        if before is None:
            asked = [m.entity for m in mentions if m.memory == memory and m.entity in self._named]
            before = next(
                (e for e in asked if (memory, e, mention.entity) in edge_between), asked[0] if asked else None
            )
        edge = edge_between.get((memory, before, mention.entity)) if before is not None else None
        return ReachedEntity(
            mention.entity,
            mention.name,
            self._step + 1,
            sum(mass.values()),
            before,
            edge.predicate if edge else MENTIONED_WITH,
            inverse=edge is not None and edge.object == before,
        )


def propagate(mass: Mass, memory_weights: MemoryWeights) -> dict[int, float]:
    """The probabilities of an entity's memories: each gets its share from every other memory."""
    total = sum(memory_weights.values())
    gained: dict[int, float] = defaultdict(float)
    for source, amount in mass.items():
        others = total - memory_weights.get(source, 0.0)
        if others > 0:
            each = amount / others
            for memory, weight in memory_weights.items():
                if memory != source:
                    gained[memory] += each * weight
    return gained


# From SQLite ---------------------------------------------------------------------------------------------------------


def spread(
    db: Connection, view: Condition, named: Mapping[int, tuple[str, float]], seeds: Sequence[int], options: Options
) -> tuple[list[LinkedMemory], dict[int, ReachedEntity]]:
    """The memories that a question leads to, likeliest first, and the entities it came through, each with the one
    before. ``LinkedMemory.strength`` is a chance, 0 to 1. ``seeds`` are visible memories."""
    walk = Walk(named, seeds)
    for _ in range(options.hops):
        mentions = mentions_of(db, walk.frontier, named, options.fan_out)
        masses = walk.to_entities(mentions, edges_of(db, walk.frontier, walk.ends), options.fan_out)
        walk.alias(masses, aliases_of(db, view, masses))
        walk.to_memories(masses, memory_weights_of(db, view, masses, options.fan_out))
    return walk.found(), walk.reached


def mentions_of(db: Connection, memories: Iterable[int], named: Iterable[int], cap: int) -> list[Mention]:
    """What these memories mention that can be walked to, and of what the question names all that they mention."""
    rows = tuples(
        db,
        "select n.memory, n.entity, e.name, e.mentions from mention n join entity e on e.id = n.entity "
        f"where n.memory in {VALUES} and (e.mentions between 2 and ? or e.id in {VALUES}) order by n.memory, n.entity",
        (dumps(list(memories)), cap, dumps(list(named))),
    )
    return list(map(Mention._make, rows))


def edges_of(db: Connection, memories: Iterable[int], ends: Iterable[int]) -> list[Edge]:
    """The edges that these memories assert about these entities."""
    at = dumps(list(ends))
    rows = tuples(
        db,
        "select memory, subject, predicate, object from relation "
        f"where memory in {VALUES} and (subject in {VALUES} or object in {VALUES}) order by id desc",
        (dumps(list(memories)), at, at),
    )
    return list(map(Edge._make, rows))


def aliases_of(db: Connection, view: Condition, entities: Iterable[int]) -> list[tuple[int, int, str]]:
    """Other names of these entities that a visible memory gives, at most as many as a step passes through."""
    seen, values = view
    ends = (("subject", "object"), ("object", "subject"))
    rows = tuples(
        db,
        " union ".join(
            f"select r.{one}, e.id, e.name from relation r indexed by alias_{one} join memory m on m.id = r.memory "
            f"join entity e on e.id = r.{other} "
            f"where r.predicate = '{ALSO_CALLED}' and r.{one} in (select value from json_each(:these)) and {seen}"
            for one, other in ends
        )
        + " limit :most",
        {**values, "these": dumps(list(entities)), "most": MAX_ENTITIES},
    )
    return rows.fetchall()


def memory_weights_of(db: Connection, view: Condition, entities: Collection[int], cap: int) -> dict[int, MemoryWeights]:
    """The visible memories that mention each entity; of a hub the newest ``cap``, among as many as may be looked at."""
    seen, values = view
    rows = tuples(
        db,
        "select n.entity, n.memory, n.about from entity e join mention n on n.entity = e.id "
        "join memory m on m.id = n.memory "
        f"where e.id in (select value from json_each(:these)) and e.mentions <= :cap and {seen}",
        {**values, "these": dumps(list(entities)), "cap": cap},
    )
    memory_weights: defaultdict[int, MemoryWeights] = defaultdict(dict)
    for entity, memory, is_about in rows:
        memory_weights[entity][memory] = TITLE_WEIGHT if is_about else 1.0
    if others := [entity for entity in entities if entity not in memory_weights]:
        memory_weights |= _of_hubs(db, view, others, cap)
    return memory_weights


def _of_hubs(db: Connection, view: Condition, entities: Iterable[int], cap: int) -> dict[int, MemoryWeights]:
    seen, values = view
    rows = tuples(
        db,
        f"""select e.id, n.memory, n.about, e.mentions from entity e join mention n on n.entity = e.id
                and n.memory in (
                    select m.id from (
                        select memory from mention where entity = e.id order by memory desc limit :scanned
                    ) newest join memory m on m.id = newest.memory where {seen} limit :cap)
            where e.id in (select value from json_each(:these)) and e.mentions > :cap""",
        {**values, "these": dumps(list(entities)), "cap": cap, "scanned": cap * HUB_SCAN_FACTOR},
    )
    memory_weights: dict[int, MemoryWeights] = {}
    for entity, memory, is_about, mentions in rows:
        if entity not in memory_weights:
            memory_weights[entity] = {UNSCANNED: float(mentions - cap)}
        memory_weights[entity][memory] = TITLE_WEIGHT if is_about else 1.0
    return memory_weights
