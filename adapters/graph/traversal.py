"""The graph walk: from the entities that a query names to the memories that they lead to.

A memory's distance is 1 + the number of edges between an entity of the query and one that the memory mentions. An edge
is a relation that a memory asserts, walked either way, or a common mention in one memory. Only memories that the query
may see carry edges, so no path passes through another user's, superseded or quarantined memories.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from json import dumps
from math import log2

from adapters.graph.names import named, spans
from adapters.graph.options import WalkOptions
from fusion.contract import Scope
from fusion.lib.rank_fusion import rank_fusion, ranked
from fusion.store.rows import storable
from fusion.store.sqlite import Connection, tuples

MAX_QUERY_ENTITIES = 10
"""entities of a query where the walk begins, the rarest first (seed 000)"""

HUB_SCAN_FACTOR = 16
"""factor on ``fan_out``: edges of a hub that are checked for visibility, newest first"""

MAX_VISITED = 512
"""memories that a walk visits at most, from the nearest and rarest entities first"""

MENTIONED_WITH = "mentioned with"
"""the name in a path of an edge between two entities of one memory"""


Condition = tuple[str, Mapping[str, object]]
"""a SQL condition on a row ``m`` of ``memory``, true if a query may see it, and its parameters"""


# Not frozen, as `fusion.contract.Hit` is not, and for the same reason: a walk makes hundreds.


@dataclass(slots=True, unsafe_hash=True)
class ReachedEntity:
    """An entity that the walk reached, ``depth`` edges from the query's; ``predecessor`` is the entity before it.

    ``inverse``: the edge was walked from its object to its subject. ``activation`` is how much of the query arrives
    here, at most 1.
    """

    entity: int
    name: str
    depth: int
    activation: float
    predecessor: int | None = None
    predicate: str = ""
    inverse: bool = False


@dataclass(slots=True, unsafe_hash=True)
class LinkedMemory:
    """A memory that the walk reached, ``hops`` away, through ``entity`` (the nearest, then the rarest)."""

    memory: int
    hops: int
    strength: float
    entity: int


HOP_DECAY = 0.5
"""factor on the activation for each hop; seed 000's graph proximity is 1 for one hop, .5 for two, .25 for three"""


@lru_cache(maxsize=4096)
def rarity(mentions: int) -> float:
    """The weight of a mention of an entity: 1 / log2(1 + mentions), 1 for its only mention.

    Adamic and Adar, "Friends and neighbors on the Web", 2003: what two things share counts more if few others share it.
    """
    return 1 / log2(1 + max(1, mentions))


def query_entities(db: Connection, text: str, scope: Scope) -> dict[int, str]:
    """The entities of the owners in ``scope`` that ``text`` names, with their keys, rarest first, at most ten.

    Several owners may have an entity with the same key.
    """
    wanted = list({name for _, _, name in spans(text)})
    if not wanted:
        return {}
    mine = "" if scope.user_id is None else "and owner = :owner"
    rows = db.execute(
        f"select key, id from entity where tenant = :tenant {mine} and key in (select value from json_each(:keys)) "
        "order by mentions, id",
        {
            "tenant": storable(scope.tenant),
            "owner": storable(scope.user_id or ""),
            "keys": dumps(wanted),
        },
    ).fetchall()
    matched = set(named(text, {row["key"] for row in rows}))
    return {row["id"]: row["key"] for row in [row for row in rows if row["key"] in matched][:MAX_QUERY_ENTITIES]}


def visible_memories(db: Connection, view: Condition, event_ids: Sequence[str]) -> list[int]:
    """The row ids of those events that are visible, in this order."""
    visible, values = view
    rows = tuples(
        db,
        f"select m.id from json_each(:ids) j join memory m on m.event_id = j.value where {visible} order by j.key",
        {**values, "ids": dumps(event_ids)},
    )
    return [memory for (memory,) in rows]


def visible_rows(db: Connection, view: Condition, memories: Sequence[int]) -> frozenset[int]:
    """Those of these row ids that are visible."""
    visible, values = view
    rows = tuples(
        db,
        f"select m.id from json_each(:ids) j join memory m on m.id = j.value where {visible}",
        {**values, "ids": dumps(memories)},
    )
    return frozenset(memory for (memory,) in rows)


def walk(db: Connection, view: Condition, seeds: Sequence[int], options: WalkOptions) -> dict[int, ReachedEntity]:
    """The entities within ``options.hops`` - 1 edges of ``seeds``, each by its shortest path, preferring relations to
    common mentions. A walk may start at a hub (more than ``fan_out`` mentions), but not pass it or end there."""
    if not seeds:
        return {}
    visible, values = view
    forward, backward = (_RELATIONS.format(end=end, visible=visible) for end in ("subject", "object"))
    limits = {
        **values,
        "seeds": dumps(list(seeds)),
        "depth": options.hops - 1,
        "fan_out": options.fan_out,
        "scanned": options.fan_out * HUB_SCAN_FACTOR,
        "together": MENTIONED_WITH,
        "visited": MAX_VISITED,
    }
    rows = tuples(db, _WALK.format(visible=visible, forward=forward, backward=backward), limits)
    return reached_entities(row[:7] for row in rows)


def reached_entities(
    best: Iterable[tuple[int, int, int | None, str | None, int, str, int]],
) -> dict[int, ReachedEntity]:
    """Entities by the best path to each, nearest first.

    A path is (entity, depth, predecessor, predicate, inverse, name, mentions).
    """
    reached: dict[int, ReachedEntity] = {}
    for entity, depth, predecessor, predicate, inverse, name, mentions in best:
        incoming = HOP_DECAY * reached[predecessor].activation if predecessor in reached else 1.0
        activation = incoming * rarity(mentions)
        reached[entity] = ReachedEntity(entity, name, depth, activation, predecessor, predicate or "", bool(inverse))
    return reached


# A recursive query may have several recursive arms: one a direction keeps each on an index (an OR, or an unrolled join,
# takes hundreds of times longer). `min()` picks the row of each entity's best way: the
# shortest, by a relation, from the rarest neighbour.
_RELATIONS = """(
    select e.id from (select id, memory from relation where {end} = w.entity order by id desc limit :scanned) e
    join memory m on m.id = e.memory where {visible} limit :fan_out
)"""
_WALK = """
with recursive walk(entity, depth, predecessor, predicate, inverse) as (
    select value, 0, null, null, 0 from json_each(:seeds)
    union
    select r.object, w.depth + 1, w.entity, r.predicate, 0
    from walk w join entity e on e.id = w.entity and (w.depth = 0 or e.mentions <= :fan_out)
    join relation r on r.id in {forward}
    where w.depth < :depth
    union
    select r.subject, w.depth + 1, w.entity, r.predicate, 1
    from walk w join entity e on e.id = w.entity and (w.depth = 0 or e.mentions <= :fan_out)
    join relation r on r.id in {backward}
    where w.depth < :depth
    union
    select b.entity, w.depth + 1, w.entity, :together, 0
    from walk w join entity e on e.id = w.entity and e.mentions <= :fan_out
    join mention a on a.entity = w.entity join memory m on m.id = a.memory
    join mention b on b.memory = a.memory and b.entity <> a.entity
    where w.depth < :depth and {visible}
)
select w.entity, w.depth, w.predecessor, w.predicate, w.inverse, e.name, e.mentions,
       min((w.depth * 2 + coalesce(w.predicate = :together, 0)) * 1000000000 + coalesce(f.mentions, 0)) as path_rank
from walk w join entity e on e.id = w.entity left join entity f on f.id = w.predecessor
where w.depth = 0 or e.mentions <= :fan_out
group by w.entity order by path_rank, e.mentions, e.id limit :visited
"""


def mention_pairs(
    db: Connection, view: Condition, reached: Mapping[int, ReachedEntity], similar: Sequence[int], options: WalkOptions
) -> set[tuple[int, int]]:
    """Pairs of a reached entity and a visible memory that mentions it. Of a hub only its newest memories are taken, and
    those in ``similar``, which text search found."""
    if not reached:
        return set()
    near, room = [], MAX_VISITED
    for entity in reached.values():
        if room <= 0:
            break
        near.append(entity.entity)
        room -= options.fan_out
    visible, values = view
    pairs = set(
        tuples(
            db,
            f"""select x.value, a.id from json_each(:near) x join memory a on a.id in (
                    select m.id from (
                        select memory from mention where entity = x.value order by memory desc limit :scanned
                    ) n join memory m on m.id = n.memory where {visible} limit :fan_out)""",
            {**values, "near": dumps(near), "fan_out": options.fan_out, "scanned": options.fan_out * HUB_SCAN_FACTOR},
        )
    )
    pairs.update(
        tuples(
            db,
            "select entity, memory from mention where memory in (select value from json_each(?)) "
            "and +entity in (select value from json_each(?))",  # +: looked up by memory, of which there are fewer rows
            (dumps(list(similar)), dumps(list(reached))),
        )
    )
    return pairs


def by_strength(
    pairs: Iterable[tuple[int, int]], reached: Mapping[int, ReachedEntity], similar: Sequence[int]
) -> list[LinkedMemory]:
    """The memories linked by these pairs of an entity and a memory, strongest first.

    A memory's strength is the sum of the activation of its entities. Equals are ordered as in ``similar``, best first,
    then newest first.
    """
    mentioned: defaultdict[int, list[int]] = defaultdict(list)
    for entity, memory in pairs:
        mentioned[entity].append(memory)
    strength: dict[int, float] = {}
    nearest: dict[int, int] = {}
    for (
        entity,
        entity_hit,
    ) in reached.items():  # nearest first, then rarest: in one order, as sums of floats depend on it
        for memory in mentioned.get(entity, ()):
            strength[memory] = strength.get(memory, 0.0) + entity_hit.activation
            nearest.setdefault(memory, entity)
    # Rounded, so that floating-point errors do not order equals.
    found = [LinkedMemory(m, reached[e].depth + 1, round(strength[m], 9), e) for m, e in nearest.items()]
    rank = {memory: place for place, memory in enumerate(similar)}
    return sorted(found, key=lambda f: (-f.strength, rank.get(f.memory, len(rank)), -f.memory))


def paths(
    db: Connection, found: Sequence[LinkedMemory], reached: Mapping[int, ReachedEntity]
) -> dict[int, tuple[str, ...]]:
    """For each memory the path that justifies it, from an entity of the query on: ("julien", "corrected_by", "bug
    gateway").

    It ends with the relation that the memory itself asserts about the entity it was found through. A single relation
    reads as it was asserted; in a longer path an inverse step is marked as in SPARQL: "^corrected_by".
    """
    asserted: defaultdict[int, list[Asserted]] = defaultdict(list)
    through = {f.memory: f.entity for f in found if f.entity >= 0}
    # Of an edge the name of one end is known: the entity that its memory was found through.
    rows = tuples(
        db,
        "select r.memory, r.subject, r.predicate, r.object, e.name from json_each(?) f "
        "join relation r on r.memory = cast(f.key as integer) and f.value in (r.subject, r.object) "
        "join entity e on e.id = case r.subject when f.value then r.object else r.subject end order by r.id",
        (dumps(through),),
    )
    for memory, subject, predicate, object_, other in rows:
        name = reached[through[memory]].name
        names = (name, other) if subject == through[memory] else (other, name)
        asserted[memory].append((subject, predicate, object_, *names))
    return chains(found, reached, asserted)


Asserted = tuple[int, str, int, str, str]
"""an edge of a memory: subject, predicate, object, and the names of both ends"""


def chains(
    found: Sequence[LinkedMemory], reached: Mapping[int, ReachedEntity], asserted: Mapping[int, Sequence[Asserted]]
) -> dict[int, tuple[str, ...]]:
    """`paths`, of what each memory asserts."""
    best = {entity: _path_to(entity, reached) for entity in {f.entity for f in found}}
    return {f.memory: _extend(f.entity, *best[f.entity], asserted.get(f.memory, ())) for f in found}


def _extend(entity: int, chain: tuple[str, ...], passed: Collection[int], edges: Iterable[Asserted]) -> tuple[str, ...]:
    """The chain to an entity, and on along the first edge that leads to what it has not passed."""
    for subject, predicate, object_, subject_name, object_name in edges:
        if subject == entity and object_ not in passed:
            return (*chain, predicate, object_name)
        if object_ == entity and subject not in passed:
            # A single relation reads as it was asserted, whichever end the query named.
            return (subject_name, predicate, *chain) if len(chain) == 1 else (*chain, f"^{predicate}", subject_name)
    return chain


def _path_to(entity: int, reached: Mapping[int, ReachedEntity]) -> tuple[tuple[str, ...], list[int]]:
    """The chain from an entity of the query to this one, and the entities that it passes."""
    chain: list[str] = []
    passed: list[int] = []
    at: ReachedEntity | None = reached[entity]
    while at is not None:
        passed.append(at.entity)
        chain.append(at.name)
        if at.predecessor is not None:
            chain.append(f"^{at.predicate}" if at.inverse else at.predicate)
        at = reached.get(at.predecessor) if at.predecessor is not None else None
    return tuple(chain[::-1]), passed


def ranks(found: Sequence[LinkedMemory]) -> dict[int, int]:
    """The rank of each memory, strongest first: how many are at least as strong.

    Equals share the last place of their group: of a hub's hundred memories none is first, all are hundredth.
    """
    shared: dict[float, int] = {f.strength: place for place, f in enumerate(found, start=1)}
    return {f.memory: shared[f.strength] for f in found}


def shares(found: Sequence[LinkedMemory]) -> dict[int, float]:
    """The strength of each memory relative to the strongest at its distance, 0 to 1; ``found`` strongest first."""
    top: dict[int, float] = {}
    for f in found:
        top.setdefault(f.hops, f.strength)
    return {f.memory: f.strength / top[f.hops] for f in found}


def merge(similar: Sequence[int], linked: Sequence[LinkedMemory], options: WalkOptions) -> list[tuple[int, float]]:
    """Memories with their scores, best first, by weighted reciprocal rank fusion of text search and graph:
    similar_weight / (K + rank) + graph_weight / (K + rank), ranks from 1. Ties keep the order of text search."""
    scores = rank_fusion((ranked(similar), ranks(linked).items()), (options.similar_weight, options.graph_weight))
    return sorted(scores.items(), key=lambda scored: -scored[1])
