"""A backend of triples: returns passages that the graph links, each with the path that justifies it, and facts.

The index finds passages and edges by the query's words and vector; its names give entities. The walk begins at these
entities and the ends of matching edges. Passages found either way are merged; an edge that matches well is a hit of its
own, derived from every visible memory that asserts it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from json import dumps
from typing import ClassVar, NamedTuple, Self

from adapters.graph.names import key
from adapters.graph.relations import ALSO_CALLED, asked_relations, relation, types
from adapters.graph.store import COUNTED, IN_STEP, SCHEMA, GraphStore, held_in, neighbours
from adapters.graph.traversal import Condition, merge, paths, rarity, visible_memories, visible_rows
from adapters.index import Index
from adapters.index.merge import Scored, fused_keys
from adapters.options import EMBEDDED_FEATURES, read, verified
from adapters.triples.names import ENTITY_LOOSE, resolve, respelt
from adapters.triples.options import Options
from adapters.triples.pagerank import spread
from adapters.triples.parse import about, parse
from fusion.contract import EVERYTHING, Description, Entity, Event, Extracted, Fact, Forgotten, Hit, Opening, Query
from fusion.lib.rank_fusion import reciprocal
from fusion.lib.text_cache import text_cache
from fusion.lib.titles import BEGINNING
from fusion.lib.words import stems
from fusion.store.database import VALUES
from fusion.store.rows import EVENT_NAMES, Kept, hit_in, hit_of, kept_in, visible
from fusion.store.sqlite import Connection, Database, tuples

ANSWERS = 0.5
"""An edge matches well when at least this share of its terms is in the query. The rest is what was asked for: of
"julien likes pizza", "what does Julien like?" has two of three."""

MATCHED = 5
"""edges whose ends are walked from, best first. A query that is linked to whole triples finds more of the passages it
needs than one linked to names alone: Gutiérrez et al., "From RAG to Memory" (HippoRAG 2), 2025; it keeps at most 5."""

OVERFETCH = 2
"""factor of the limit in a request to the index, which also has superseded and expired entries and edges"""

MOST_READ = 4096
"""maximum memories in the cache: about 4 MB at ordinary length"""

_TRUST = ("trusted", "unknown", "untrusted")
"""best first: a fact is as good as the best memory that asserts it"""

SATURATED = 0.1
"""the walk's probability at a memory for which the graph score is one half: as much as reaches the only other memory
that shares a name with the best passage"""


_STEP_2 = f"""
create index entity_loose on entity({ENTITY_LOOSE});
create index alias_subject on relation(subject) where predicate = '{ALSO_CALLED}';
create index alias_object on relation(object) where predicate = '{ALSO_CALLED}';
"""

_STEP_3 = """
alter table mention add column about integer not null default 0;  -- whether the memory has the entity for its title
create table untitled (memory integer primary key);
insert into untitled select id from memory;
"""
"""``untitled``: memories stored by an older version, whose title mention is set at the next opening"""

_STEP_4 = "create index relation_memory on relation(memory, subject, object, predicate);"
"""what a memory asserts side by side: a walk reads it of a hundred memories, and nothing else of an edge"""

TITLED_AT_ONCE = 5_000
"""memories of an older file that are completed in one transaction"""


class Triples(GraphStore):
    """Facts have native ids ``fact:…`` and no event id; passages are events."""

    features = EMBEDDED_FEATURES
    schema = (SCHEMA, _STEP_2, _STEP_3, _STEP_4, IN_STEP, COUNTED)
    facts_are_searched: ClassVar[bool] = True

    def __init__(self, database: Database, index: Index, options: Options) -> None:
        super().__init__(database, index)
        self.options = options
        self._read: dict[int, Kept] = {}

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> None:
        """Check the options. Raises ``SettingsError``."""
        verified(Options, options)

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Raises ``SettingsError`` for a wrong option, ``StoreDamaged`` for a corrupt or newer file."""
        options = read(Options, opening)
        triples = cls(*await cls.open_files(opening), options)
        try:
            while await triples._database.write(_find_titles):
                pass
        except BaseException:
            await triples.close()
            raise
        return triples

    async def search(self, query: Query) -> Sequence[Hit]:
        if query.limit <= 0:
            return []
        many = query.limit * OVERFETCH

        def recall(by_words: Scored, by_vectors: Scored) -> list[Hit]:
            keys = fused_keys(by_words, by_vectors)[:many]
            return self._database.look(lambda db: self._recall(db, query, keys))

        # Read in the thread that has searched: to hand what it found to another one takes as long as a step of a walk.
        hits = await self._index.made_of(query.text, query.scope, many, recall, deadline_s=query.deadline_s)
        return [hit for hit in hits if query.scope.admits(hit.scope)]

    def accepts(self, event: Event) -> bool:
        return event.kind in self.features.kinds

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        extracted = [_with_its_own_triples(one) for one in batch]
        ids = [one.event.event_id for one in batch]

        def insert(db: Connection) -> list[str]:
            rows = self._insert(db, respelt(db, extracted))
            _mark(db, {rows[c.event.event_id]: _titles(c.event) for c in extracted if c.event.event_id in rows})
            return self._keys(db, ids)

        if batch:
            with self._changing():
                await self._publish(await self._database.write(insert))
        return [(event_id,) for event_id in ids]

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        gone = await self._delete([event_id])
        # A new dict, not a cleared one: a read under way may still fill the old one with deleted memories.
        self._read = {}
        return "deleted" if gone else "absent"

    async def events(self, after: str, limit: int) -> Sequence[tuple[Event, tuple[str, ...]]]:
        return await self._database.read(lambda db: held_in(db, after, limit))

    @property
    def has_files(self) -> bool:
        return False

    async def forget_all(self, items: Sequence[tuple[str, Sequence[str]]]) -> Sequence[Forgotten]:
        gone = await self._delete([event_id for event_id, _ in items])
        self._read = {}
        return ["deleted" if event_id in gone else "absent" for event_id, _ in items]

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        """The hits' neighbours in the same document and scope, ordered by place, without superseded versions."""

        def near(db: Connection) -> list[list[Hit]]:
            return [[hit_of(row) for row in neighbours(db, hit.native_id, hit.scope, span)] for hit in hits]

        return await self._database.read(near)

    async def describe(self) -> Description:
        items = await self.count()
        notes = [] if self.index.embedder is not None else ["no embedding model: searched by words and graph only"]
        if hubs := await self._database.read(self._hubs):
            most = self.options.fan_out
            notes.append(f"hubs (names of more than {most} mentions): {hubs}; of each the newest {most} are walked")
        faults = self._index.faults
        return Description(items, self._index.vectors, self._index.pending, (*notes, *faults), bool(faults))

    def _fields(self, db: Connection, memories: Collection[int]) -> dict[int, Kept]:
        """The hit fields of these memories. Cached, as a memory never changes."""
        if len(self._read) > MOST_READ:
            self._read = {}  # another one, for another thread may be reading from this one
        kept = self._read
        rows = tuples(
            db,
            _KEPT,
            (dumps([memory for memory in memories if memory not in kept]),),
        )
        kept |= {row[0]: kept_in(row[1:]) for row in rows}
        return kept

    def _hubs(self, db: Connection) -> int:
        row = db.execute("select count(*) from entity where mentions > ?", (self.options.fan_out,)).fetchone()
        return int(row[0])

    def _recall(self, db: Connection, query: Query, keys: Sequence[str]) -> list[Hit]:
        """The hits, best first; ``keys`` are the index's results, not yet filtered by time."""
        seen = visible(query)
        similar = visible_memories(db, seen, [found for found in keys if not found.startswith("fact:")])
        facts = self._facts(db, query, seen, [found for found in keys if found.startswith("fact:")])
        named = resolve(db, query.text, query.scope)
        for edge, *_ in facts[:MATCHED]:
            named.setdefault(edge.subject_id, (edge.subject, rarity(edge.subject_mentions)))
            named.setdefault(edge.object_id, (edge.object, rarity(edge.object_mentions)))
        if query.where:  # what fits may be linked by what does not
            linked, reached = spread(db, visible(replace(query, where=EVERYTHING)), named, similar, self.options)
            fitting = visible_rows(db, seen, [found.memory for found in linked])
            linked = [found for found in linked if found.memory in fitting]
        else:
            linked, reached = spread(db, seen, named, similar, self.options)
        strengths = {found.memory: found.strength for found in linked}
        passages = merge(similar, linked, self.options)[: query.limit]
        chosen = {memory for memory, _ in passages}
        why = paths(db, [found for found in linked if found.memory in chosen], reached)
        room, weight = query.limit * self.options.facts // 100, self.options.graph_weight
        ranked_facts = [(_best(asserted), asserted) for asserted in facts[:room]]
        read = self._fields(db, chosen.union(best.memory for best, _ in ranked_facts))
        hits = [hit_in(read[m], score, why.get(m, ()), saturating(strengths.get(m, 0.0))) for m, score in passages]
        hits += [
            _fact_hit(best, asserted, read[best.memory], reciprocal(rank, weight))
            for rank, (best, asserted) in enumerate(ranked_facts, start=1)
        ]
        return sorted(hits, key=lambda hit: -(hit.score or 0.0))[: query.limit]

    def _facts(self, db: Connection, query: Query, view: Condition, keys: Sequence[str]) -> list[list[Asserted]]:
        """The edges among these keys that match well, in this order, each as a list of its assertions."""
        words, wanted = set(stems(query.text)), asked_relations(query.text) - {"", "RELATES_TO"}
        matching: dict[str, tuple[str, str, str]] = {}
        for fact, *said in tuples(
            db,
            "select r.fact, s.key, r.predicate, o.key, min(r.id) from json_each(?) j "
            f"join relation r on r.fact = j.value {_ENDS} group by r.fact order by j.key",
            (dumps(keys),),
        ):
            terms = _terms(said[0], said[1], said[2])
            has = words | _terms(said[1]) if wanted and relation(said[1]).type in wanted else words
            if terms and len(terms & has) >= ANSWERS * len(terms):
                matching[fact] = (said[0], key(said[1]), said[2])
        if not matching:
            return []
        seen, values = view
        rows = tuples(
            db,
            "select r.fact, r.subject, r.object, s.name, r.predicate, o.name, s.mentions, o.mentions, "
            "m.id, m.event_id, m.trust, m.recorded_at from json_each(:facts) j join relation r on r.fact = j.value "
            f"join memory m on m.id = r.memory {_ENDS} where {seen} order by j.key, m.id",
            {**values, "facts": dumps(list(matching))},
        )
        triples: dict[tuple[str, str, str], list[Asserted]] = {}
        for edge in map(Asserted._make, rows):
            triples.setdefault(matching[edge.fact], []).append(edge)
        return list(triples.values())


class Asserted(NamedTuple):
    """An edge as one memory asserts it."""

    fact: str
    subject_id: int
    object_id: int
    subject: str
    predicate: str
    object: str
    subject_mentions: int
    object_mentions: int
    memory: int
    event_id: str
    trust: str
    recorded_at: int


_KEPT = f"select id, {', '.join(EVENT_NAMES)} from memory where id in {VALUES}"


@text_cache(16_384)
def _terms(*parts: str) -> frozenset[str]:
    return frozenset(stems(" ".join(parts).replace("_", " ")))


def saturating(chance: float) -> float:
    """How strongly the graph leads to a memory, 0 to 1, by the chance that a walk is at it: c / (c + SATURATED)."""
    return chance / (chance + SATURATED)


def _titles(event: Event) -> frozenset[str]:
    return about(event.text[:BEGINNING], event.place.document if event.place else None)


def _mark(db: Connection, titles: Mapping[int, Collection[str]]) -> None:
    """Mark the mentions of each memory that are its title; ``titles`` has the entity keys by memory."""
    pairs = [(memory, title) for memory, keys in titles.items() for title in keys]
    if pairs:
        db.execute(
            "update mention set about = 1 where (entity, memory) in (select n.entity, n.memory from json_each(?) j "
            "join mention n on n.memory = j.value ->> 0 join entity e on e.id = n.entity and e.key = j.value ->> 1)",
            (dumps(pairs),),
        )


def _find_titles(db: Connection) -> int:
    """Mark the titles of some memories that an older version stored. Returns how many."""
    rows = tuples(
        db,
        f"select m.id, substr(m.text, 1, {BEGINNING}), m.document "
        f"from untitled u cross join memory m on m.id = u.memory limit {TITLED_AT_ONCE}",
    ).fetchall()
    _mark(db, {memory: about(beginning, document) for memory, beginning, document in rows})
    db.executemany("delete from untitled where memory = ?", [row[:1] for row in rows])
    return len(rows)


def _with_its_own_triples(given: Extracted) -> Extracted:
    """An event with the extraction of the rules and the triples written in its text."""
    event, known = given.event, given.extraction
    parsed = parse(event.text, event.place.document if event.place else event.source)
    facts = tuple(dict.fromkeys((*known.facts, *parsed.facts)))
    typed = [Entity(end, kind) for fact in facts for end, kind in types(fact)]
    extracted = replace(
        known, facts=facts, entities=(*known.entities, *typed, *(Entity(name) for name in parsed.names))
    )
    return Extracted(event, extracted)


_ENDS = "join entity s on s.id = r.subject join entity o on o.id = r.object"


def _best(asserted: Sequence[Asserted]) -> Asserted:
    """The best assertion of a triple: the most trusted, then the newest."""
    return min(asserted, key=lambda edge: (_TRUST.index(edge.trust), -edge.recorded_at))


def _fact_hit(best: Asserted, asserted: Sequence[Asserted], read: Kept, score: float) -> Hit:
    """The hit of one triple, with the fields ``read`` of the memory that asserts it best."""
    triple = (best.subject, best.predicate, best.object)
    hit = hit_in(read, score, triple, None)  # nobody else has it yet, so it may still be changed
    hit.native_id, hit.event_id, hit.text = best.fact, None, " ".join(triple)
    hit.kind, hit.raw_kind, hit.speaker, hit.place = "fact", None, None, None
    hit.derived_from, hit.fact = tuple(dict.fromkeys(edge.event_id for edge in asserted)), Fact(*triple)
    return hit
