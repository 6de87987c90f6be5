"""The cortex's store in a graph database: `adapters.cortex.port.Graph` on Memgraph or Neo4j.

The database has everything: memories, entities, vectors, and the indexes of words and vectors, so several gateways may
share it. This process only keeps the list of memories that still need a vector.

The first query makes the connection, so a server that is down at start may come up later. It also creates schema and
indexes, in a task that outlives the query, because that may take longer than the query's deadline. Planning may too: a
cold Neo4j takes 300 ms for each of a recall's ten statements, and discards the plan when the query is cancelled. So a
cancelled query runs once more in the background, and the next one finds the plans cached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from adapters.bolt.dialects import searchable
from adapters.bolt.driver import Bolt, Row, Run
from adapters.cortex import cypher
from adapters.cortex.bolt_vectors import DEFINE_S, READ_S, WRITE_S, Vectors
from adapters.cortex.bolt_walk import BoltWalk
from adapters.cortex.conflict import restored
from adapters.cortex.port import Change, EntitySummary, Link, Matches, Memory, StoreStats, View
from adapters.cortex.rows import memory_in
from adapters.graph.options import WalkOptions
from fusion.contract import Embedder, Hit, Scope
from fusion.store.rows import microseconds, storable

if TYPE_CHECKING:
    from fusion.contract import Floats

log = logging.getLogger(__name__)

T = TypeVar("T")

OVERFETCH_STEPS = (4, 16, 16)
"""factors by which a search asks an index for more, while too few of its results are visible: it knows no scopes"""


class BoltGraph:
    """The store; ``walking`` bounds the graph walk, and without an ``embedder`` there are no vectors."""

    def __init__(self, bolt: Bolt, walking: WalkOptions, embedder: Embedder | None) -> None:
        self._bolt, self._walking = bolt, walking
        self.index = Vectors(bolt, embedder)
        self._defining: asyncio.Task[None] | None = None

    @property
    def embedder(self) -> Embedder | None:
        return self.index.embedder

    @property
    def generation(self) -> None:
        """Unknown: other programs may write to the same database."""
        return None

    # Writing

    async def add(self, memories: Sequence[Memory]) -> None:
        first = {memory.id: memory for memory in reversed(memories)}

        async def insert(run: Run) -> list[str]:
            known = {row["id"] for row in await run(cypher.KNOWN, {"ids": list(first)})}
            new = [
                memory for memory in dict.fromkeys(memories) if memory.id not in known and first[memory.id] is memory
            ]
            await run(cypher.CREATE, {"rows": [cypher.node_of(memory) for memory in new]})
            for statement, rows in cypher.graph_statements(new):
                if rows:
                    await run(statement, {"rows": rows})
            return [memory.id for memory in new]

        if memories:
            self.index.fill(await self._write(insert))

    async def alter(self, changes: Mapping[str, Change]) -> None:
        if rows := _changed(changes):
            await self._write(lambda run: run(cypher.ALTER, {"rows": rows}))

    async def use(self, ids: Sequence[str], at: datetime) -> None:
        if ids:
            await self._write(lambda run: run(cypher.USE, {"ids": list(ids), "at": microseconds(at)}))

    async def delete(self, ids: Sequence[str]) -> frozenset[str]:
        async def delete(run: Run) -> frozenset[str]:
            chosen = {"ids": list(ids)}
            removed = [memory_in(row) for row in await run(cypher.GET, chosen)]
            gone = frozenset(memory.id for memory in removed)
            await run(cypher.RECONCILE, chosen)
            if groups := {m.state.conflict_group for m in removed if m.state.conflict_group is not None}:
                left = [memory_in(row) for row in await run(cypher.DISPUTED, {"groups": list(groups)})]
                await run(cypher.ALTER, {"rows": _changed(restored(removed, left))})
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
        return _by_id(await self._rows(cypher.GET, {"ids": list(ids)}) if ids else [])

    async def visible(self, view: View, ids: Sequence[str]) -> Mapping[str, Memory]:
        condition, values = cypher.visible(view)
        statement = f"MATCH (m:Memory) WHERE m.event_id IN $ids WITH m {condition} RETURN {cypher.WHOLE}"
        return _by_id(await self._rows(statement, {**values, "ids": list(ids)}) if ids else [])

    async def versions(self, id: str) -> Sequence[Memory]:
        async def look(run: Run) -> list[Row]:
            chain: set[str] = set()
            ends = {row["id"] for row in await run(cypher.KNOWN, {"ids": [id]})}
            while ends:
                chain |= ends
                around = [await run(statement, {"ids": sorted(ends)}) for statement in (cypher.NEWER, cypher.OLDER)]
                ends = {row["id"] for rows in around for row in rows} - chain
            return await run(cypher.GET, {"ids": sorted(chain)})

        return sorted((memory_in(row) for row in await self._read(look)), key=_when)

    async def page(self, after: str = "", limit: int = 500, scope: Scope | None = None) -> Sequence[Memory]:
        condition, values = ("true", {}) if scope is None else cypher.admitted(scope)
        return await self._page(f"m.event_id > $after AND {condition}", {**values, "after": after, "limit": limit})

    async def named(self, part: str, scope: Scope, limit: int) -> Sequence[Memory]:
        condition, values = cypher.admitted(scope)
        either_end = "(m.event_id STARTS WITH $part OR m.event_id ENDS WITH $part)"
        return await self._page(f"{either_end} AND {condition}", {**values, "part": storable(part), "limit": limit})

    async def _page(self, where: str, values: Mapping[str, object]) -> list[Memory]:
        statement = f"MATCH (m:Memory) WHERE {where} RETURN {cypher.WHOLE} ORDER BY event_id LIMIT $limit"
        return [memory_in(row) for row in await self._rows(statement, values)]

    async def find(self, text: str, vector: Floats | None, view: View, limit: int) -> Matches:
        dialect, words, index = self._bolt.dialect, searchable(text), self.index.of

        async def look(run: Run) -> Matches:
            by_words: list[tuple[str, float]] = []
            by_vectors: list[tuple[str, float]] = []
            if words:
                head = f"{dialect.matching(cypher.WORDS)} RETURN node.event_id AS id, score"
                by_words = await _search_visible(run, head, {"words": words}, view, limit)
            if vector is not None and index is not None and len(vector) == index.dimensions:
                head = f"{dialect.nearest(index)} RETURN node.event_id AS id, similarity AS score"
                by_vectors = await _search_visible(run, head, {"vector": vector.tolist()}, view, limit)
            return Matches(by_words, by_vectors)

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

    async def complete(
        self, ids: Sequence[str], vector: Floats | None, bare: Sequence[str]
    ) -> tuple[Mapping[str, Memory], Mapping[str, float]]:
        if vector is None:
            return await self.get(ids), {}
        return await asyncio.gather(self.get(ids), self.cosines(vector, bare))

    async def link(self, text: str, view: View, similar: Sequence[str], limit: int) -> Sequence[Link]:
        return await self._read(lambda run: BoltWalk(run, view.unfiltered, self._walking).links(text, similar, limit))

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Memory]]:
        async def look(run: Run) -> list[list[Memory]]:
            here = {row["event_id"]: row for row in await run(cypher.GET, {"ids": [hit.native_id for hit in hits]})}
            return [await _neighbours(run, here.get(hit.native_id), hit.scope, span) for hit in hits]

        return await self._read(look) if span > 0 else [[] for _ in hits]

    async def entities(self, scope: Scope, limit: int = 100) -> Sequence[EntitySummary]:
        statement, values = cypher.entities(scope)
        rows = await self._rows(statement, {**values, "limit": limit})
        return [EntitySummary(row["name"], row["type"], row["mentions"]) for row in rows]

    async def stats(self) -> StoreStats:
        ((items,),) = [row.values() for row in await self._rows(cypher.COUNT, {})]
        pending = len(self.index.pending)
        vectors = items - pending if self.index.of else 0
        return StoreStats(items, vectors, pending, () if self.index.fault is None else (self.index.fault,))

    async def count(self) -> int | None:
        """Unknown: other programs may write to the same database."""
        return None

    async def check(self) -> str | None:
        """Check that the database answers; it looks after its own files."""
        await self._rows("RETURN 1 AS one", {})
        return None

    async def settle(self) -> None:
        await self._ready()
        await self.index.settle()

    async def close(self) -> None:
        if self._defining is not None:
            self._defining.cancel()
            await asyncio.gather(self._defining, return_exceptions=True)
        await self.index.close()
        await self._bolt.close()

    # The database

    async def _write(self, work: Callable[[Run], Awaitable[T]]) -> T:
        await self._ready()
        return await self._bolt.writing(work, WRITE_S)

    async def _read(self, work: Callable[[Run], Awaitable[T]]) -> T:
        await self._ready()
        return await self._bolt.reading_once_more(work, READ_S)

    async def _rows(self, statement: str, values: Mapping[str, object]) -> list[Row]:
        return await self._read(lambda run: run(statement, values))

    async def _ready(self) -> None:
        """Wait until schema and indexes exist. A failure fails this query; the next one tries again."""
        task = self._defining
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._defining = asyncio.create_task(self._define())
        await asyncio.shield(task)

    async def _define(self) -> None:
        await self._bolt.define(cypher.schema(self.index.of), DEFINE_S)
        await self.index.queue_missing()


def _by_id(rows: Sequence[Row]) -> dict[str, Memory]:
    return {row["event_id"]: memory_in(row) for row in rows}


def _changed(changes: Mapping[str, Change]) -> list[dict[str, object]]:
    return [{"id": id_, "fields": cypher.changed(change)} for id_, change in changes.items()]


def _when(memory: Memory) -> tuple[datetime, str]:
    event = memory.event
    return event.valid_from or (event.at.utc if event.at else event.recorded_at), event.event_id


async def _search_visible(
    run: Run, head: str, values: Mapping[str, object], view: View, limit: int
) -> list[tuple[str, float]]:
    """The best ``limit`` visible results of the index search ``head``, with their scores; ties by id.

    An index knows neither scope nor time. While too few of its results are visible, it is asked for more.
    """
    condition, seeing = cypher.visible(view)
    visible = f"MATCH (m:Memory) WHERE m.event_id IN $ids WITH m {condition} RETURN m.event_id AS id"
    many = limit
    found: list[tuple[str, float]] = []
    for deeper in OVERFETCH_STEPS:
        many *= deeper
        rows = await run(head, {**values, "k": many})
        admitted = {row["id"] for row in await run(visible, {**seeing, "ids": [row["id"] for row in rows]})}
        found = sorted(
            ((row["id"], row["score"]) for row in rows if row["id"] in admitted), key=lambda f: (-f[1], f[0])
        )
        if len(found) >= limit or len(rows) < many:
            break
    return sorted(found, key=lambda f: (-f[1], f[0]))[:limit]


async def _neighbours(run: Run, here: Row | None, scope: Scope, span: int) -> list[Memory]:
    if here is None or here["document"] is None or here["tenant"] != scope.tenant:
        return []
    own = memory_in(here).event.scope
    near: list[Memory] = []
    for before in (True, False):
        statement, values = cypher.neighbours(here, own, before=before)
        rows = [memory_in(row) for row in await run(statement, {**values, "span": span})]
        near += reversed(rows) if before else rows
    return near
