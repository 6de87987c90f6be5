"""Personalised PageRank over the graph of passages and entities, truncated after the first steps.

The walk begins at the query's entities and the most similar passages, and alternates between passages and the entities
that they mention (T. Haveliwala, "Topic-sensitive PageRank", WWW 2002). Later steps say little about the query and are
not computed. Passages and entities form one graph, entered at both, as in HippoRAG: B. Gutiérrez et al., NeurIPS 2024,
and "From RAG to Memory", ICML 2025. Rare entities are preferred: L. Adamic and E. Adar, 2003.

A step reads a bounded number of rows; of a hub only its newest mentions.

An example: the query names Ana; passages 1 and 2 mention her; passages 1 and 3 mention Initech.
Step 1: Ana has the probability 0.5 (`NAMED`), so passages 1 and 2 get 0.25 each. Half of that (`HOP_DECAY`) goes on.
Step 2: passage 1 gives its 0.125 to Initech, which gives it to passage 3, since nothing goes back to passage 1.
The result: passages 1 and 2 with 0.25, found through Ana; passage 3 with 0.125, found through Ana and Initech.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from json import dumps
from typing import NamedTuple

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
from adapters.triples.relations import ALSO_CALLED, strength
from fusion.store.sqlite import VALUES, Connection, tuples

NAMED = 0.5
"""share of the start probability on the query's entities; the rest is on the most similar passages"""

HEAD = 5
"""passages that the walk begins at, each half as likely as the one before; HippoRAG 2 keeps 5"""

ONWARD = 16
"""passages, the likeliest, that a later step starts from"""

ENTITIES = 16
"""entities that a step passes through, the most promising first"""

PAIRS = 128
"""mentions of these that a step passes along; with twice as many of both, as many questions are answered"""

ABOUT = 4.0
"""weight of a passage that has the entity as its title, relative to any other mention"""

STATED = 1.0
"""added weight of a name if an edge joins it to the entity through which the passage was found"""

START = 0
"""takes the place of a passage id for a walk that came from the query: SQLite's ids begin at 1"""

ELSEWHERE = -1
"""takes the place of a hub's memories that are not scanned: their probability is lost, as a hub is weak evidence"""

Amounts = dict[int, float]
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


Holders = dict[int, float]
"""the memories that mention an entity, with their weights"""


class Walk:
    """The state of a walk: its probabilities, and the paths that led there."""

    def __init__(self, named: Mapping[int, tuple[str, float]], heads: Sequence[int]) -> None:
        """``named`` are the question's entities, by id their name and how much it counts; ``heads`` the memories most
        like the question, best first."""
        whole = sum(weight for _, weight in named.values())
        self.reached = {e: ReachedEntity(e, name, 0, NAMED * weight / whole) for e, (name, weight) in named.items()}
        self._named = frozenset(named)
        falling = [1 / place for place in range(1, HEAD + 1)]
        self.at = {m: (1 - NAMED) * part / sum(falling) for m, part in zip(heads, falling, strict=False)}
        self._likely: dict[int, float] = {}
        self._found: dict[int, tuple[int, int]] = {}  # by memory, at which step and through which entity
        self._step = 0

    @property
    def ends(self) -> set[int]:
        """The entities that the walk came through or began at; the edges to them are read."""
        return {self._found[memory][1] for memory in self.at if memory in self._found} | self._named

    def leave(self, mentions: Sequence[Mention], edges: Sequence[Edge], cap: int) -> dict[int, Amounts]:
        """The entities that a step passes through, with what comes to each from where, most promising first.

        From a passage to a name in it, weighted by rarity; neither to a hub, nor to what the question itself
        names, nor to a name that occurs nowhere else.
        """
        leaving: dict[int, Amounts] = {} if self._step else {e: {START: r.activation} for e, r in self.reached.items()}
        edge_between = {(e.memory, *ends): e for e in edges for ends in ((e.subject, e.object), (e.object, e.subject))}
        through = {memory: self._found[memory][1] for memory in self.at if memory in self._found}
        weights: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        spoken_of: dict[int, Mention] = {}
        for mention in mentions:
            memory, entity, _, count = mention
            spoken_of[entity] = mention
            if 1 < count <= cap and entity not in self._named:
                edge = edge_between.get((memory, through.get(memory, 0), entity))
                stated = STATED * strength(edge.predicate) if edge else 0.0
                weights[memory].append((entity, rarity(count) * (1 + stated)))
        for memory, names in weights.items():
            here, whole = self.at[memory], sum(weight for _, weight in names)
            for entity, weight in names:
                leaving.setdefault(entity, {})[memory] = here * weight / whole

        promise = {entity: 1 + sum(amounts.values()) for entity, amounts in leaving.items()}  # named ones first
        for entity in leaving.keys() & spoken_of.keys():
            promise[entity] = sum(leaving[entity].values()) / spoken_of[entity].mentions

        chosen, room = {}, PAIRS
        for entity in sorted(leaving, key=lambda e: (-promise[e], e))[:ENTITIES]:
            room -= min(cap, spoken_of[entity].mentions) if entity in spoken_of else 0
            if room < 0:
                break
            chosen[entity] = leaving[entity]
            if entity not in self.reached:
                self.reached[entity] = self._came(spoken_of[entity], leaving[entity], mentions, edge_between)
        return chosen

    def alias(self, leaving: dict[int, Amounts], names: Iterable[tuple[int, int, str]]) -> None:
        """Pass an entity's probability to its other names as well: (entity, other, name of the other)."""
        for entity, other, name in names:
            if other not in leaving:
                leaving[other] = leaving[entity]
                before = self.reached[entity]
                self.reached.setdefault(
                    other, ReachedEntity(other, name, before.depth, before.activation, entity, ALSO_CALLED)
                )

    def arrive(self, leaving: Mapping[int, Amounts], holders: Mapping[int, Holders]) -> None:
        """Pass the probabilities to the memories that mention these entities; none goes back to its origin."""
        self._step += 1
        reached_entities: defaultdict[int, float] = defaultdict(float)
        best: dict[int, tuple[float, int]] = {}
        for entity, amounts in leaving.items():
            for memory, amount in passed(amounts, holders.get(entity, {})).items():
                reached_entities[memory] += amount
                if amount > best.get(memory, (0.0, 0))[0]:
                    best[memory] = (amount, entity)
        reached_entities.pop(ELSEWHERE, None)
        for memory, amount in reached_entities.items():
            self._likely[memory] = self._likely.get(memory, 0.0) + amount
            self._found.setdefault(memory, (self._step, best[memory][1]))
        onward = sorted(reached_entities, key=lambda memory: (-reached_entities[memory], memory))[:ONWARD]
        self.at = {memory: HOP_DECAY * reached_entities[memory] for memory in onward}

    def found(self) -> list[LinkedMemory]:
        """Every memory that the walk reached, likeliest first, then newest."""
        # Rounded, so that floating-point errors do not order equals.
        found = [LinkedMemory(m, step, round(self._likely[m], 9), entity) for m, (step, entity) in self._found.items()]
        return sorted(found, key=lambda f: (-f.strength, -f.memory))

    def _through(self, memory: int) -> int | None:
        return self._found[memory][1] if memory in self._found else None

    def _came(
        self,
        mention: Mention,
        amounts: Amounts,
        mentions: Sequence[Mention],
        edge_between: Mapping[tuple[int, int, int], Edge],
    ) -> ReachedEntity:
        """An entity with its predecessor, taken from the passage that contributes most.

        The predecessor is the entity that led to that passage, or an entity of the question in it.
        """
        memory = max(amounts, key=lambda m: (amounts[m], -m))
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
            sum(amounts.values()),
            before,
            edge.predicate if edge else MENTIONED_WITH,
            inverse=edge is not None and edge.object == before,
        )


def passed(amounts: Amounts, holders: Holders) -> dict[int, float]:
    """The probabilities of an entity's memories: each gets its share from every other memory."""
    whole = sum(holders.values())
    gained: dict[int, float] = defaultdict(float)
    for source, amount in amounts.items():
        others = whole - holders.get(source, 0.0)
        if others > 0:
            each = amount / others
            for memory, weight in holders.items():
                if memory != source:
                    gained[memory] += each * weight
    return gained


# From SQLite ---------------------------------------------------------------------------------------------------------


def spread(
    db: Connection, view: Condition, named: Mapping[int, tuple[str, float]], heads: Sequence[int], how: Options
) -> tuple[list[LinkedMemory], dict[int, ReachedEntity]]:
    """The memories that a question leads to, likeliest first, and the entities it came through, each with the one
    before. ``LinkedMemory.strength`` is a chance, 0 to 1. ``heads`` are visible memories."""
    walk = Walk(named, heads)
    for _ in range(how.hops):
        mentions = mentions_of(db, walk.at, named, how.fan_out)
        leaving = walk.leave(mentions, edges_of(db, walk.at, walk.ends), how.fan_out)
        walk.alias(leaving, aliases_of(db, view, leaving))
        walk.arrive(leaving, holders_of(db, view, leaving, how.fan_out))
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
        {**values, "these": dumps(list(entities)), "most": ENTITIES},
    )
    return rows.fetchall()


def holders_of(db: Connection, view: Condition, entities: Collection[int], cap: int) -> dict[int, Holders]:
    """The visible memories that mention each entity; of a hub the newest ``cap``, among as many as may be looked at."""
    seen, values = view
    rows = tuples(
        db,
        "select n.entity, n.memory, n.about from entity e join mention n on n.entity = e.id "
        "join memory m on m.id = n.memory "
        f"where e.id in (select value from json_each(:these)) and e.mentions <= :cap and {seen}",
        {**values, "these": dumps(list(entities)), "cap": cap},
    )
    holders: defaultdict[int, Holders] = defaultdict(dict)
    for entity, memory, is_about in rows:
        holders[entity][memory] = ABOUT if is_about else 1.0
    if others := [entity for entity in entities if entity not in holders]:
        holders |= _of_hubs(db, view, others, cap)
    return holders


def _of_hubs(db: Connection, view: Condition, entities: Iterable[int], cap: int) -> dict[int, Holders]:
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
    holders: dict[int, Holders] = {}
    for entity, memory, is_about, mentions in rows:
        if entity not in holders:
            holders[entity] = {ELSEWHERE: float(mentions - cap)}
        holders[entity][memory] = ABOUT if is_about else 1.0
    return holders
