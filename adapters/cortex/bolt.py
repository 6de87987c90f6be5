"""The cortex in a graph database: `adapters.cortex.port.Graph` on Memgraph or Neo4j.

The database has everything: memories, entities, vectors and its own indexes of words and of vectors, so that several
gateways may share it. Nothing is kept here but which memories still wait for a vector.

It is asked for the first time when the first question comes: a server that is down now may be up by then. Schema and
indexes are made at that point, by one task that outlives the question, for building an index may take longer than a
question has. So may planning a query: a cold Neo4j takes 300 ms for each of the ten that a recall asks, and forgets its
plan when the question is cut off. Therefore what was cut off is asked once more behind, so that the next one finds the
plans made.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from adapters.bolt import Bolt, Row, Run, searchable
from adapters.cortex import cypher
from adapters.cortex.concepts import PHRASE, concepts
from adapters.cortex.conflict import restored
from adapters.cortex.filling import DEFINE_S, READ_S, WRITE_S, Vectors
from adapters.cortex.port import Change, Effect, Found, Holding, Known, Link, Memory, View
from adapters.cortex.rows import REINFORCED_BY
from adapters.graph import Asserted, Walking, arrived, chains, is_edge, mentioned, ranks, shares, strongest
from adapters.graph.names import key, named, spans
from adapters.graph.traversal import LINKED, SCANNED, TOGETHER, VISITED, Linked, Reached
from fusion.contract import Embedder, Entity, Hit, Scope
from fusion.errors import FusionError
from fusion.store.rows import microseconds, storable

if TYPE_CHECKING:
    from fusion.contract import Floats

log = logging.getLogger(__name__)

T = TypeVar("T")

DEEPER = (4, 16, 16)
"""times as many are asked of an index each time that too few of what it found is seen: it knows no scopes"""


class BoltGraph:
    """``walking`` is how far links go; without an ``embedder`` there are no vectors."""

    def __init__(self, bolt: Bolt, walking: Walking, embedder: Embedder | None) -> None:
        self._bolt, self._walking = bolt, walking
        self.index = Vectors(bolt, embedder)
        self._defining: asyncio.Task[None] | None = None
        self._planning: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def embedder(self) -> Embedder | None:
        return self.index.embedder

    @property
    def generation(self) -> None:
        """Others may write to the same database."""
        return None

    # Writing

    async def add(self, memories: Sequence[Memory], effects: Mapping[str, Effect] | None = None) -> None:
        first = {memory.id: memory for memory in reversed(memories)}

        async def insert(run: Run) -> list[str]:
            known = {row["id"] for row in await run(cypher.KNOWN, {"ids": list(first)})}
            new = [
                memory for memory in dict.fromkeys(memories) if memory.id not in known and first[memory.id] is memory
            ]
            await run(cypher.CREATE, {"rows": [cypher.node_of(memory) for memory in new]})
            for statement, rows in _graph_of(new):
                if rows:
                    await run(statement, {"rows": rows})
            for effect in (effects[memory.id] for memory in new if effects and memory.id in effects):
                await run(cypher.ALTER, {"rows": _changed(effect.changes)})
                if effect.reinforces is not None and effect.at is not None:
                    await run(cypher.REINFORCE, _reinforcing(effect.reinforces, effect.at))
            return [memory.id for memory in new]

        if memories:
            self.index.fill(await self._write(insert))

    async def alter(self, changes: Mapping[str, Change]) -> None:
        if rows := _changed(changes):
            await self._write(lambda run: run(cypher.ALTER, {"rows": rows}))

    async def reinforce(self, id: str, at: datetime) -> None:
        await self._write(lambda run: run(cypher.REINFORCE, _reinforcing(id, at)))

    async def use(self, ids: Sequence[str], at: datetime) -> None:
        if ids:
            await self._write(lambda run: run(cypher.USE, {"ids": list(ids), "at": microseconds(at)}))

    async def delete(self, ids: Sequence[str]) -> frozenset[str]:
        async def delete(run: Run) -> frozenset[str]:
            chosen = {"ids": list(ids)}
            removed = [cypher.memory_of(row) for row in await run(cypher.GET, chosen)]
            gone = frozenset(memory.id for memory in removed)
            await run(cypher.RECONCILE, chosen)
            if groups := {m.state.conflict_group for m in removed if m.state.conflict_group is not None}:
                left = [cypher.memory_of(row) for row in await run(cypher.DISPUTED, {"groups": list(groups)})]
                changes = restored(removed, left)
                fields = [{"id": id_, "fields": cypher.changed(change)} for id_, change in changes.items()]
                await run(cypher.ALTER, {"rows": fields})
            await run(cypher.RELEASE, chosen)
            await run(cypher.UNRELATE, chosen)
            touched = [row["id"] for row in await run(cypher.UNMENTION, chosen)]
            await run(cypher.DELETE, chosen)
            await run(cypher.ORPHANS, {"ids": touched})
            return gone

        gone = await self._write(delete) if ids else frozenset()
        for id_ in gone:
            self.index.pending.pop(id_, None)
        return gone

    # Reading

    async def get(self, ids: Sequence[str]) -> Mapping[str, Memory]:
        rows = await self._rows(cypher.GET, {"ids": list(ids)}) if ids else []
        return {row["event_id"]: cypher.memory_of(row) for row in rows}

    async def seen(self, view: View, ids: Sequence[str]) -> Mapping[str, Memory]:
        condition, values = cypher.seen(view)
        statement = f"MATCH (m:Memory) WHERE m.event_id IN $ids WITH m {condition} RETURN {cypher.WHOLE}"
        rows = await self._rows(statement, {**values, "ids": list(ids)}) if ids else []
        return {row["event_id"]: cypher.memory_of(row) for row in rows}

    async def versions(self, id: str) -> Sequence[Memory]:
        async def look(run: Run) -> list[Row]:
            chain: set[str] = set()
            ends = {row["id"] for row in await run(cypher.KNOWN, {"ids": [id]})}
            while ends:
                chain |= ends
                around = [await run(statement, {"ids": sorted(ends)}) for statement in (cypher.NEWER, cypher.OLDER)]
                ends = {row["id"] for rows in around for row in rows} - chain
            return await run(cypher.GET, {"ids": sorted(chain)})

        return sorted((cypher.memory_of(row) for row in await self._read(look)), key=_when)

    async def page(self, after: str = "", limit: int = 500, scope: Scope | None = None) -> Sequence[Memory]:
        condition, values = ("true", {}) if scope is None else cypher.admitted(scope)
        statement = (
            f"MATCH (m:Memory) WHERE m.event_id > $after AND {condition} "
            f"RETURN {cypher.WHOLE} ORDER BY event_id LIMIT $limit"
        )
        rows = await self._rows(statement, {**values, "after": after, "limit": limit})
        return [cypher.memory_of(row) for row in rows]

    async def named(self, part: str, scope: Scope, limit: int) -> Sequence[Memory]:
        condition, values = cypher.admitted(scope)
        statement = (
            f"MATCH (m:Memory) WHERE (m.event_id STARTS WITH $part OR m.event_id ENDS WITH $part) AND {condition} "
            f"RETURN {cypher.WHOLE} ORDER BY event_id LIMIT $limit"
        )
        rows = await self._rows(statement, {**values, "part": storable(part), "limit": limit})
        return [cypher.memory_of(row) for row in rows]

    async def find(self, text: str, vector: Floats | None, view: View, limit: int) -> Found:
        dialect, words, index = self._bolt.dialect, searchable(text), self.index.of

        async def look(run: Run) -> Found:
            by_words: list[tuple[str, float]] = []
            by_vectors: list[tuple[str, float]] = []
            if words:
                head = f"{dialect.matching(cypher.WORDS)} RETURN node.event_id AS id, score"
                by_words = await _seen(run, head, {"words": words}, view, limit)
            if vector is not None and index is not None and len(vector) == index.dimensions:
                head = f"{dialect.nearest(index)} RETURN node.event_id AS id, similarity AS score"
                by_vectors = await _seen(run, head, {"vector": vector.tolist()}, view, limit)
            return Found(by_words, by_vectors)

        return await self._read(look)

    async def cosines(self, vector: Floats, ids: Sequence[str]) -> Mapping[str, float]:
        index = self.index.of
        if index is None or not ids or len(vector) != index.dimensions:
            return {}
        statement = (
            f"MATCH (m:Memory) WHERE m.event_id IN $ids AND m.{index.property} IS NOT NULL "
            f"RETURN m.event_id AS id, {self._bolt.dialect.cosine('m', index)} AS cosine"
        )
        rows = await self._rows(statement, {"ids": list(ids), "vector": vector.tolist()})
        return {row["id"]: row["cosine"] for row in rows}

    async def lacking(
        self, ids: Sequence[str], vector: Floats | None, bare: Sequence[str]
    ) -> tuple[Mapping[str, Memory], Mapping[str, float]]:
        if vector is None:
            return await self.get(ids), {}
        return await asyncio.gather(self.get(ids), self.cosines(vector, bare))

    async def link(self, text: str, view: View, similar: Sequence[str], limit: int) -> Sequence[Link]:
        return await self._read(lambda run: _Walk(run, view, self._walking).links(text, similar, limit))

    async def beside(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Memory]]:
        async def look(run: Run) -> list[list[Memory]]:
            here = {row["event_id"]: row for row in await run(cypher.GET, {"ids": [hit.native_id for hit in hits]})}
            return [await _beside(run, here.get(hit.native_id), hit.scope, span) for hit in hits]

        return await self._read(look) if span > 0 else [[] for _ in hits]

    async def entities(self, scope: Scope, limit: int = 100) -> Sequence[Known]:
        statement, values = cypher.entities(scope)
        rows = await self._rows(statement, {**values, "limit": limit})
        return [Known(row["name"], row["type"], row["mentions"]) for row in rows]

    async def holding(self) -> Holding:
        rows = await self._rows(cypher.COUNT, {})
        kinds: defaultdict[str, int] = defaultdict(int)
        lifetimes: defaultdict[str, int] = defaultdict(int)
        for row in rows:
            kinds[row["kind"]] += row["n"]
            lifetimes[row["lifetime"]] += row["n"]
        items = sum(kinds.values())
        pending = len(self.index.pending)
        vectors = items - pending if self.index.of else 0
        faults = () if self.index.fault is None else (self.index.fault,)
        return Holding(items, vectors, pending, faults, dict(kinds), dict(sorted(lifetimes.items())))

    async def count(self) -> int | None:
        """``None``: other programs write into the database, too."""
        return None

    async def check(self) -> str | None:
        """The database looks after its own files; what is checked is that it answers."""
        await self._rows("RETURN 1 AS one", {})
        return None

    async def settle(self) -> None:
        await self._ready()
        await self.index.settle()

    async def close(self) -> None:
        self._closed = True
        for task in (self._planning, self._defining):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, FusionError):
                    await task
        await self.index.close()
        await self._bolt.close()

    # The database

    async def _write(self, work: Callable[[Run], Awaitable[T]]) -> T:
        await self._ready()
        return await self._bolt.writing(work, WRITE_S)

    async def _read(self, work: Callable[[Run], Awaitable[T]]) -> T:
        await self._ready()
        try:
            return await self._bolt.reading(work, READ_S)
        except asyncio.CancelledError:
            # One at a time: a database that hangs must not be asked by everybody who has left.
            if not self._closed and (self._planning is None or self._planning.done()):
                self._planning = asyncio.create_task(self._plan(work), name="plan")
            raise

    async def _plan(self, work: Callable[[Run], Awaitable[object]]) -> None:
        """Asks what was cut off, for the database's sake; whoever asks next is told what fails."""
        with contextlib.suppress(FusionError):
            await self._bolt.reading(work, READ_S)

    async def _rows(self, statement: str, values: Mapping[str, object]) -> list[Row]:
        return await self._read(lambda run: run(statement, values))

    async def _ready(self) -> None:
        """Returns when schema and indexes are there. A failure costs this question; the next one tries again."""
        task = self._defining
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._defining = asyncio.create_task(self._define())
        await asyncio.shield(task)

    async def _define(self) -> None:
        await self._bolt.define(cypher.schema(self.index.of), DEFINE_S)
        await self.index.find_bare()


def _changed(changes: Mapping[str, Change]) -> list[dict[str, object]]:
    return [{"id": id_, "fields": cypher.changed(change)} for id_, change in changes.items()]


def _reinforcing(id_: str, at: datetime) -> dict[str, object]:
    return {"id": id_, "by": REINFORCED_BY, "at": microseconds(at)}


def _named_by(memory: Memory) -> dict[str, Entity]:
    """What a memory mentions, by key, its concepts last: what somebody named is that, whatever else it is."""
    names = mentioned(memory.event, memory.extraction)
    for phrase in concepts(memory.event.text):
        names.setdefault(phrase, Entity(phrase, PHRASE))
    return names


def _graph_of(memories: Sequence[Memory]) -> list[tuple[str, list[dict[str, object]]]]:
    """Statements with their rows: the entities that memories mention, the mentions, and what the memories assert.

    Entities come in one order, whoever writes: two writers that want the same ones wait for one another, and do not
    each hold what the other wants.
    """
    entities: dict[str, dict[str, object]] = {}
    mentions: list[dict[str, object]] = []
    relations: list[dict[str, object]] = []
    for memory in memories:
        scope = memory.event.scope
        for name, entity in _named_by(memory).items():
            id_ = cypher.entity_id(scope, name)
            row = entities.setdefault(
                id_,
                {
                    "id": id_,
                    "tenant": storable(scope.tenant),
                    "owner": cypher.owner(scope),
                    "key": name,
                    "name": storable(entity.name.strip()),
                    "type": storable(entity.type),
                },
            )
            if row["type"] == PHRASE:
                row |= {"name": storable(entity.name.strip()), "type": storable(entity.type)}
            elif row["type"] == "concept" and entity.type != PHRASE:
                row["type"] = storable(entity.type)
            mentions.append({"memory": memory.id, "entity": id_})
        asserted = {
            (key(fact.subject), key(fact.predicate), key(fact.object)): fact
            for fact in reversed(memory.extraction.facts)
            if is_edge(fact)
        }
        relations += [
            {
                "memory": memory.id,
                "subject": cypher.entity_id(scope, subject),
                "predicate": storable(fact.predicate.strip()),
                "object": cypher.entity_id(scope, object_),
                "place": place,
            }
            for place, ((subject, _, object_), fact) in enumerate(reversed(asserted.items()))
        ]
    return [
        (cypher.ENTITIES, [entities[id_] for id_ in sorted(entities)]),
        (cypher.MENTIONS, sorted(mentions, key=lambda row: str(row["entity"]))),
        (cypher.RELATES, relations),
    ]


def _when(memory: Memory) -> tuple[datetime, str]:
    event = memory.event
    return event.valid_from or (event.at.utc if event.at else event.recorded_at), event.event_id


async def _seen(run: Run, head: str, values: Mapping[str, object], view: View, limit: int) -> list[tuple[str, float]]:
    """The best ``limit`` of what ``head`` finds in an index and ``view`` sees, with their scores; equals by id.

    An index knows neither scopes nor time. Where too little of what it found is seen, more is asked of it.
    """
    condition, seeing = cypher.seen(view)
    visible = f"MATCH (m:Memory) WHERE m.event_id IN $ids WITH m {condition} RETURN m.event_id AS id"
    many = limit
    found: list[tuple[str, float]] = []
    for deeper in DEEPER:
        many *= deeper
        rows = await run(head, {**values, "k": many})
        admitted = {row["id"] for row in await run(visible, {**seeing, "ids": [row["id"] for row in rows]})}
        found = sorted(
            ((row["id"], row["score"]) for row in rows if row["id"] in admitted), key=lambda f: (-f[1], f[0])
        )
        if len(found) >= limit or len(rows) < many:
            break
    return sorted(found, key=lambda f: (-f[1], f[0]))[:limit]


async def _beside(run: Run, here: Row | None, scope: Scope, span: int) -> list[Memory]:
    if here is None or here["document"] is None or here["tenant"] != scope.tenant:
        return []
    own = cypher.memory_of(here).event.scope
    near: list[Memory] = []
    for before in (True, False):
        statement, values = cypher.beside(here, own, before=before)
        rows = [cypher.memory_of(row) for row in await run(statement, {**values, "span": span})]
        near += reversed(rows) if before else rows
    return near


class _Walk:
    """A walk from the entities that a text names, level by level, by the rules of `adapters.graph.traversal`."""

    def __init__(self, run: Run, view: View, how: Walking) -> None:
        self._run, self._view, self._how = run, view, how
        self._numbers: dict[str, int] = {}

    async def links(self, text: str, similar: Sequence[str], limit: int) -> list[Link]:
        reached = arrived(await self._ways(await self._named(text)))
        if not reached:
            return []
        near = await self._visible(similar)
        pairs = await self._pairs(reached, near)
        order = sorted({memory for _, memory in pairs} | set(near))  # an id says when: the newer, the higher
        at = {memory: number for number, memory in enumerate(order)}
        found = strongest({(self._number(e), at[m]) for e, m in pairs}, reached, [at[memory] for memory in near])
        rank = ranks(found)
        wanted = {at[memory] for memory in near}
        found = [f for place, f in enumerate(found) if place < limit or f.memory in wanted]
        why, share = await self._paths(found, order, reached), shares(found)
        return [Link(order[f.memory], f.hops, rank[f.memory], share[f.memory], why[f.memory]) for f in found]

    def _number(self, entity: str) -> int:
        return self._numbers.setdefault(entity, len(self._numbers))

    async def _named(self, text: str) -> list[Row]:
        """The entities and concepts that ``text`` names, rarest first."""
        phrases = set(concepts(text))
        keys = list({name for _, _, name in spans(text)} | phrases)
        if not keys:
            return []
        scope = self._view.scope
        mine = "" if scope.user_id is None else "AND e.owner = $owner"
        values = {"keys": keys, "tenant": storable(scope.tenant), "owner": cypher.owner(scope)}
        rows = await self._run(cypher.NAMED.format(mine=mine), values)
        meant = {*named(text, {row["key"] for row in rows}), *phrases}
        return [row for row in rows if row["key"] in meant][:LINKED]

    async def _ways(self, seeds: Sequence[Row]) -> list[tuple[int, int, int | None, str | None, int, str, int]]:
        """The best way to each entity in reach: the shortest, by a relation, from the rarest neighbour."""
        best: dict[str, tuple[tuple[int, int, int, str], tuple[int, int, int | None, str | None, int, str, int]]] = {}
        mentions: dict[str, int] = {}

        def arrive(row: Row, depth: int, came: str | None, predicate: str | None, inverse: bool) -> None:
            count, together = row["mentions"], predicate == TOGETHER
            way = (depth * 2 + together, mentions.get(came, 0) if came else 0, count, row["id"])
            mentions[row["id"]] = count
            if depth and count > self._how.fan_out:
                return  # a hub is a place to start from, never one to pass or to end at
            if row["id"] not in best or way < best[row["id"]][0]:
                from_ = self._number(came) if came else None
                best[row["id"]] = way, (self._number(row["id"]), depth, from_, predicate, inverse, row["name"], count)

        for seed in seeds:
            arrive(seed, 0, None, None, False)
        level = [seed["id"] for seed in seeds if seed["type"] != PHRASE]  # which leads to its memories, no further
        for depth in range(1, self._how.hops):
            start = [id_ for id_ in level if depth == 1 or mentions[id_] <= self._how.fan_out]
            before = set(best)
            for edge, inverse in (("-[r:RELATES]->", False), ("<-[r:RELATES]-", True)):
                for row in await self._edges(edge, start):
                    arrive(row, depth, row["came"], row["predicate"], inverse)
            for row in await self._together([id_ for id_ in start if mentions[id_] <= self._how.fan_out]):
                arrive(row, depth, row["came"], TOGETHER, False)
            level = [id_ for id_ in best if id_ not in before]
        return [entity for _, entity in sorted(best.values(), key=lambda b: b[0])][:VISITED]

    async def _edges(self, edge: str, entities: Sequence[str]) -> list[Row]:
        """The newest relations of each entity in one direction, of those that are seen."""
        if not entities:
            return []
        condition, values = cypher.seen(self._view, "e", "edge")
        values |= {"entities": entities, "scanned": self._how.fan_out * SCANNED}
        rows = await self._run(cypher.EDGES.format(edge=edge, seen=condition), values)
        return _first(rows, "came", self._how.fan_out)

    async def _together(self, entities: Sequence[str]) -> list[Row]:
        if not entities:
            return []
        condition, values = cypher.seen(self._view, "e")
        return await self._run(
            cypher.TOGETHER.format(seen=condition), {**values, "entities": entities, "phrase": PHRASE}
        )

    async def _visible(self, ids: Sequence[str]) -> list[str]:
        if not ids:
            return []
        condition, values = cypher.seen(self._view)
        statement = f"MATCH (m:Memory) WHERE m.event_id IN $ids WITH m {condition} RETURN m.event_id AS id"
        admitted = {row["id"] for row in await self._run(statement, {**values, "ids": list(ids)})}
        return [id_ for id_ in ids if id_ in admitted]

    async def _pairs(self, reached: Mapping[int, Reached], near: Sequence[str]) -> set[tuple[str, str]]:
        """Entities with the memories that mention them: the newest of each that are seen, and all of ``near``."""
        entities = [entity for entity, number in self._numbers.items() if number in reached]
        entities.sort(key=lambda entity: list(reached).index(self._numbers[entity]))
        condition, values = cypher.seen(self._view, "e")
        values |= {
            "entities": entities[: -(-VISITED // self._how.fan_out)],
            "scanned": self._how.fan_out * SCANNED,
        }
        rows = await self._run(cypher.MENTIONING.format(seen=condition), values)
        pairs = {(row["entity"], row["memory"]) for row in _first(rows, "entity", self._how.fan_out)}
        wanted = set(entities)
        besides = await self._run(cypher.MENTIONED, {"ids": list(near)}) if near else []
        return pairs | {(row["entity"], row["memory"]) for row in besides if row["entity"] in wanted}

    async def _paths(
        self, found: Sequence[Linked], order: Sequence[str], reached: Mapping[int, Reached]
    ) -> dict[int, tuple[str, ...]]:
        rows = await self._run(cypher.ASSERTED, {"ids": [order[f.memory] for f in found]})
        memories = {order[f.memory]: f.memory for f in found}
        asserted: defaultdict[int, list[Asserted]] = defaultdict(list)
        for row in rows:
            ends = self._number(row["subject"]), self._number(row["object"])
            asserted[memories[row["memory"]]].append(
                (ends[0], row["predicate"], ends[1], row["subject_name"], row["object_name"])
            )
        return chains(found, reached, asserted)


def _first(rows: Sequence[Row], by: str, many: int) -> list[Row]:
    """The first ``many`` rows of each value of ``by``."""
    counted: defaultdict[str, int] = defaultdict(int)
    first = []
    for row in rows:
        counted[row[by]] += 1
        if counted[row[by]] <= many:
            first.append(row)
    return first
