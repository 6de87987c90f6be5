"""Answers with passages that the graph links, each with the chain that justifies it, and with facts.

A query's words and meaning are linked to passages and to edges (the shared index), its names to entities. From these
entities and the ends of the edges that match well the graph is walked up to two hops. Passages found either way are
merged by RRF; an edge that matches well is a hit of its own, derived from every visible memory that asserts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from json import dumps
from typing import ClassVar, Self

from adapters.graph import (
    DEEPER,
    GraphStore,
    K,
    Walking,
    beside,
    link,
    linked_memories,
    memory_rows,
    merge,
    paths,
    visible_memories,
    walk,
)
from adapters.graph.names import key
from adapters.index import Index
from adapters.triples.parse import parse
from fusion.contract import (
    DIMENSIONS,
    KINDS,
    Captured,
    Description,
    Entity,
    Event,
    Features,
    Forgotten,
    Hit,
    Opening,
    Query,
)
from fusion.lib.sqlite import Connection, Database, Row, hit_of, visible
from fusion.lib.words import stems

ANSWERS = 0.5
"""An edge matches well when at least this share of its terms is in the query. The rest is what was asked for: of
"julien likes pizza", "what does Julien like?" has two of three."""

MATCHED = 5
"""edges whose ends are walked from, best first. A query that is linked to whole triples finds more of the passages it
needs than one linked to names alone: Gutiérrez et al., "From RAG to Memory" (HippoRAG 2), 2025; it keeps at most 5."""

_TRUST = ("trusted", "unknown", "untrusted")
"""best first: a fact is as good as the best memory that asserts it"""


@dataclass(frozen=True, slots=True)
class Options(Walking):
    """``facts`` is how many of 100 hits may be facts: they are short and repeat what passages say in full."""

    facts: int = 20

    def __post_init__(self) -> None:
        Walking.__post_init__(self)
        self._within("facts", 0, 100)


class Triples(GraphStore):
    """Facts have native ids ``fact:…`` and no event id; passages are events."""

    features = Features(filters=frozenset(DIMENSIONS), tenants=True, as_of=True, kinds=frozenset(KINDS))
    facts_are_searched: ClassVar[bool] = True

    def __init__(self, database: Database, index: Index, options: Options) -> None:
        super().__init__(database, index)
        self.options = options

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Raises ``SettingsError`` for a wrong option, ``StoreDamaged`` for a corrupt or newer file."""
        options = Options.of(opening)
        return cls(*await cls.open_files(opening), options)

    async def search(self, query: Query) -> Sequence[Hit]:
        if query.limit <= 0:
            return []
        found = await self._index.search(query.text, query.scope, query.limit * DEEPER)
        keys = [entry.key for entry in found]
        hits = await self._database.read(lambda db: self._recall(db, query, keys))
        return [hit for hit in hits if query.scope.admits(hit.scope)]

    def accepts(self, event: Event) -> bool:
        return event.kind in self.features.kinds

    async def remember(self, batch: Sequence[Captured]) -> Sequence[tuple[str, ...]]:
        learnt = [_with_its_own_triples(captured) for captured in batch]
        ids = [captured.event.event_id for captured in batch]

        def insert(db: Connection) -> list[str]:
            self._insert(db, learnt)
            return self._keys(db, ids)

        if batch:
            await self._publish(await self._database.write(insert))
        return [(event_id,) for event_id in ids]

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        return "deleted" if await self._delete([event_id]) else "absent"

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        """Within the same document and the same scope, by place; superseded versions left out."""

        def near(db: Connection) -> list[list[Hit]]:
            return [[hit_of(row) for row in beside(db, hit.native_id, hit.scope, span)] for hit in hits]

        return await self._database.read(near)

    async def describe(self) -> Description:
        items = await self._database.read(lambda db: int(db.execute("select count(*) from memory").fetchone()[0]))
        notes = () if self.index.embedder is not None else ("no embedding model: searched by words and graph only",)
        faults = self._index.faults
        return Description(items, self._index.vectors, self._index.pending, (*notes, *faults), bool(faults))

    def _recall(self, db: Connection, query: Query, keys: Sequence[str]) -> list[Hit]:
        """The hits, best first; ``keys`` is what the index found, not yet filtered by time."""
        seen = visible(query)
        similar = visible_memories(db, seen, keys)
        facts = self._facts(db, query, keys)
        ends = [row[end] for row, *_ in facts[:MATCHED] for end in ("subject_id", "object_id")]
        named = link(db, query.text, query.scope)
        reached = walk(db, seen, list(dict.fromkeys((*named, *ends))), self.options)
        linked = linked_memories(db, seen, reached, similar, self.options)
        passages = merge(similar, linked, self.options)[: query.limit]
        chosen = {memory for memory, _ in passages}
        why = paths(db, [found for found in linked if found.memory in chosen], reached)
        rows = memory_rows(db, chosen)
        hits = [hit_of(rows[memory], score, why.get(memory, ())) for memory, score in passages]

        room = query.limit * self.options.facts // 100
        weight = self.options.graph_weight
        hits += [_fact_hit(asserted, weight / (K + rank)) for rank, asserted in enumerate(facts[:room], start=1)]
        return sorted(hits, key=lambda hit: -(hit.score or 0.0))[: query.limit]

    def _facts(self, db: Connection, query: Query, keys: Sequence[str]) -> list[list[Row]]:
        """The edges among ``keys`` that match well, in this order: of each triple the memories that assert it."""
        asked = set(stems(query.text))
        matching: dict[str, tuple[str, str, str]] = {}
        for fact, *said in db.execute(
            "select r.fact, s.key, r.predicate, o.key, min(r.id) from json_each(?) j "
            f"join relation r on r.fact = j.value {_ENDS} group by r.fact order by j.key",
            (dumps([k for k in keys if k.startswith("fact:")]),),
        ):
            triple = (said[0], key(said[1]), said[2])
            terms = set(stems(" ".join(triple)))
            if terms and len(terms & asked) >= ANSWERS * len(terms):
                matching[fact] = triple
        seen, values = visible(query)
        rows = db.execute(
            "select r.fact, r.subject as subject_id, r.object as object_id, s.name as subject, r.predicate, "
            "o.name as object, m.* from json_each(:facts) j join relation r on r.fact = j.value "
            f"join memory m on m.id = r.memory {_ENDS} where {seen} order by j.key, m.id",
            {**values, "facts": dumps(list(matching))},
        )
        triples: dict[tuple[str, str, str], list[Row]] = {}
        for row in rows:
            triples.setdefault(matching[row["fact"]], []).append(row)
        return list(triples.values())


def _with_its_own_triples(captured: Captured) -> Captured:
    """What capture found, and the triples that stand in the text itself."""
    event, known = captured.event, captured.extraction
    parsed = parse(event.text, event.place.document if event.place else event.source)
    learnt = replace(
        known,
        facts=tuple(dict.fromkeys((*known.facts, *parsed.facts))),
        entities=(*known.entities, *(Entity(name) for name in parsed.names)),
    )
    return Captured(event, learnt)


_ENDS = "join entity s on s.id = r.subject join entity o on o.id = r.object"


def _fact_hit(asserted: Sequence[Row], score: float) -> Hit:
    """One triple, told as the best of the memories that assert it tells it: the most trusted, then the newest."""
    best = min(asserted, key=lambda row: (_TRUST.index(row["trust"]), -row["recorded_at"]))
    triple = (best["subject"], best["predicate"], best["object"])
    return replace(
        hit_of(best, score, triple),
        native_id=best["fact"],
        event_id=None,
        text=" ".join(triple),
        kind="fact",
        raw_kind=None,
        speaker=None,
        place=None,
        derived_from=tuple(dict.fromkeys(row["event_id"] for row in asserted)),
    )
