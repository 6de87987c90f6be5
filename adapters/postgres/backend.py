"""Stores the gateway's own memories in PostgreSQL, for any number of gateways.

A memory is a row, found by its words through an index of terms and by its vector through HNSW. All filters are in the
statement, so what a question may not see takes no place in an answer. A memory stored while the model is unavailable
has no vector: its words find it, and the vector is computed in the background.

Every tenant has a schema of its own, so neither its vectors nor its word statistics mix with those of others. A gateway
that stores holds the schema's lock with others, and one that forgets holds it alone: a memory that another gateway is
storing at that moment is waited for and deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, islice
from time import monotonic
from typing import Any, ClassVar, Self, TypeVar

from adapters.hits import deeper
from adapters.index.backfill import Backfill
from adapters.index.encode import BestEffortEmbedding, memory_vectors
from adapters.index.lexical import characters, terms
from adapters.index.merge import DEEP, convex
from adapters.options import FULL_FEATURES, read, verified
from adapters.postgres import query as sql
from adapters.postgres import schema
from adapters.postgres.connections import Connection, Connections, Row
from adapters.postgres.errors import tables_gone, with_fix
from adapters.postgres.options import Options
from adapters.postgres.values import HalfVector, escaped, stored, written
from fusion.contract import (
    NEW,
    Description,
    Embedder,
    Event,
    Extracted,
    Forgotten,
    Hit,
    Opening,
    Query,
    Scope,
    State,
)
from fusion.errors import BackendError, FusionError
from fusion.lib.words import spoken
from fusion.store.rows import EVENT_NAMES, Kept, event_in, event_row, hit_in, kept_in, microseconds

T = TypeVar("T")

WRITE_S, NEIGHBOURS_S = 30.0, 5.0
FILL = 64
"""memories that get their vector at once"""
STATISTICS_S = 60.0
"""seconds for which the size of a scope and its common terms are remembered: they only weigh a term against others"""
MOST_SCOPES = 1000
MOST_KEPT, KEPT_S = 5000, 60.0
"""memories whose fields are kept, some 2 kB each, and for how long: another gateway may have forgotten them since"""
_STORE = (
    f"INSERT INTO memory ({', '.join(EVENT_NAMES)}, escaped, terms, length, ended_at, ended, merged_into) VALUES "
    f"({', '.join(['%s'] * len(EVENT_NAMES))}, %s, array_to_tsvector(%s::text[]), %s, %s, %s, %s) "
    "ON CONFLICT (event_id) DO NOTHING"
)
_STATE = "UPDATE memory SET ended_at = %s, ended = %s, merged_into = %s WHERE event_id = %s"


class Postgres:
    """Remembers events in tables of its own. The native id of a memory is its event's id."""

    features = FULL_FEATURES
    scanned: ClassVar[int] = 20_000
    """vectors that pgvector's index looks at before it gives up on a filter (hnsw.max_scan_tuples)"""

    def __init__(self, options: Options, embedder: Embedder | None) -> None:
        self._options, self._embedder = options, embedder
        self._connections = Connections(options)
        self._vectors = "" if embedder is None else schema.vectors_of(embedder)
        self._preparing = asyncio.Lock()
        self._ready = False
        self._found = (False, False)
        self._had = False
        """whether there were tables at the last look, so that it is a fault if there are none"""
        self._pgvector = ""
        """the schema that pgvector is in, once there are vectors"""
        self._statistics: dict[Scope, tuple[float, sql.Statistics]] = {}
        self._kept: dict[str, Kept] = {}
        """by event id as it is stored, the fields of memories that were found; the oldest first"""
        self._forgotten = 0
        """how often something was forgotten here"""
        self._analysed = 0
        """bytes of the memories when this gateway last let PostgreSQL count them"""
        self._backfill = Backfill(f"postgres: {options.shown}", self._fill)
        self._embedding = BestEffortEmbedding("PostgreSQL")

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> str:
        """The options are right and the password that they name is there; the rest its description says."""
        return verified(Options, options).reached()

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Does not wait for the server: one that is down now may be up at the first question."""
        self = cls(read(Options, opening).of_tenant(opening.tenant), opening.embedder)
        self._backfill.start()
        return self

    # Reading

    async def search(self, query: Query) -> Sequence[Hit]:
        if query.limit < 1 or not query.text.strip():
            return []
        until = monotonic() + query.deadline_s
        asked = sql.Asked.of(query.text, await self._embedding.query_vector(self._embedder, query.text))
        limit = query.limit
        while True:  # not all of a filter can be compared in SQL: others may take the places
            left_s = max(until - monotonic(), 0.001)
            wanted = replace(query, limit=limit)
            hits = await self._run(partial(self._search, query=wanted, asked=asked), left_s)
            if not query.where:
                return hits
            seen = [hit for hit in hits if query.admits(hit)][: query.limit]
            more = deeper(query.limit, len(seen), len(hits), limit)
            if not more:
                return seen
            limit = more

    async def _search(self, connection: Connection, query: Query, asked: sql.Asked) -> list[Hit]:
        memories, vectors = await self._tables(connection)
        if not memories:
            return []  # nothing was ever remembered
        if not vectors:
            asked = replace(asked, vector=None)
        known = await self._known(connection, query.scope)
        width = max(query.limit, DEEP)
        ids: dict[int, str] = {}
        by_words, by_vectors = await self._scored(connection, query, asked, known, width, ids)
        if asked.vector is not None and len(by_vectors) < min(width, known.memories) and known.memories > self.scanned:
            # The index gave up on the filter, or there are no more: only comparing all can tell.
            by_vector = sql.Asked((), asked.vector)
            _, by_vectors = await self._scored(connection, query, by_vector, known, width, ids, exact=True)
        best = [(int(one.key), one.score) for one in islice(convex(by_words, by_vectors), query.limit)]
        return await self._hits(connection, best, ids)

    async def _scored(
        self,
        connection: Connection,
        query: Query,
        asked: sql.Asked,
        known: sql.Statistics,
        width: int,
        ids: dict[int, str],
        *,
        exact: bool = False,
    ) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
        """The memories found by words and by vectors, best first, with BM25 and cosine. ``ids`` gets their events'."""
        statement = sql.search(query, asked, known, self._vectors, width, pgvector=self._pgvector, exact=exact)
        rows = [] if statement is None else await connection.rows(*statement)
        found: tuple[list[tuple[str, float]], list[tuple[str, float]]] = ([], [])
        for which, number, event_id, score in rows:
            found[which].append((str(number), score))
            ids[number] = event_id
        found[1].sort(key=_best_first)  # the index looks on in a relaxed order
        return found

    async def _hits(
        self, connection: Connection, best: Sequence[tuple[int, float]], ids: Mapping[int, str]
    ) -> list[Hit]:
        """The hits of numbered memories in this order, without those that are forgotten when they are read.

        A memory's fields never change, so those that were read before are not read again; its state may, and is in the
        search, as is whether it was forgotten. They are kept by the event's id: after the database was restored, a
        number may be another memory's.
        """
        forgotten = self._forgotten
        kept = {number: there for number, _ in best if (there := self._kept.get(ids[number])) is not None}
        if absent := [str(number) for number, _ in best if number not in kept]:
            # As a text: a list takes longer to write.
            for number, *row in await connection.rows(sql.READ, (f"{{{','.join(absent)}}}",)):
                kept[number] = kept_in(stored(row))
                if not self._kept:  # also if nobody asks again: another gateway may have forgotten them
                    asyncio.get_running_loop().call_later(KEPT_S, self._kept.clear)
                if forgotten == self._forgotten:  # else it may be this one
                    self._kept[ids[number]] = kept[number]
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return [hit_in(kept[number], score) for number, score in best if number in kept]

    async def _tables(self, connection: Connection) -> tuple[bool, bool]:
        """Whether there are memories, and vectors of this model; looked up until there are."""
        if not (self._found[0] and (self._found[1] or self._embedder is None)):
            found = await self._look(connection)
            if found[1]:
                self._pgvector = await schema.pgvector(connection)
            self._found = found  # last, as other questions look here meanwhile
        return self._found

    async def _look(self, connection: Connection) -> tuple[bool, bool]:
        """Look for memories, and for vectors of this model. If only these are missing, they are made in the background.

        Raises BackendUnreachable if the tables are gone.
        """
        found = await schema.tables(connection, self._embedder)
        if not found[0] and (self._had or await schema.was_made(connection)):
            found = await schema.tables(connection, self._embedder)  # another gateway may just have made them
            if not found[0]:
                # To answer that there is nothing would be to say that nothing was ever remembered.
                raise tables_gone(self._options.shown, "no memory")
        self._had = found[0]
        if found == (True, False) and self._embedder is not None:
            self._ready, self._found = False, found
            self._backfill.start(retry=False)
        return found

    async def _known(self, connection: Connection, scope: Scope) -> sql.Statistics:
        """The statistics of a scope, counted once a minute."""
        scope = replace(scope, project=None)
        counted = self._statistics.get(scope)
        if counted is None or counted[0] < monotonic():
            if len(self._statistics) >= MOST_SCOPES:
                self._statistics.clear()
            counted = self._statistics[scope] = (monotonic() + STATISTICS_S, await _statistics(connection, scope))
            if self._has_doubled(*await schema.sizes(connection)):
                self._backfill.start(retry=False)
        return counted[1]

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        """The neighbours in the same document and scope, by place; one statement for all hits."""
        placed = [hit for hit in hits if hit.place is not None]
        if not placed or span < 1:
            return [[] for _ in hits]

        async def work(connection: Connection) -> list[Row]:
            if not (await self._tables(connection))[0]:
                return []
            return await connection.rows(sql.NEIGHBOURS, sql.around(placed, span))

        found: dict[int, list[Hit]] = {}
        for row in await self._run(work, NEIGHBOURS_S):
            found.setdefault(row[0], []).append(hit_in(kept_in(stored(row[1:]))))
        numbers = count(1)  # as the statement numbers the hits that have a place
        return [[] if hit.place is None else nearest(hit, found.get(next(numbers), []), span) for hit in hits]

    async def events(self, after: str, limit: int) -> Sequence[tuple[Event, tuple[str, ...]]]:
        async def work(connection: Connection) -> list[Row]:
            if not (await self._tables(connection))[0]:
                return []
            return await connection.rows(
                f"SELECT {sql.COLUMNS} FROM memory m WHERE m.event_id > %s ORDER BY m.event_id LIMIT %s",
                (escaped(after), limit),
            )

        events = [event_in(stored(row)) for row in await self._run(work)]
        return [(event, (event.event_id,)) for event in events]

    # Writing

    def accepts(self, event: Event) -> bool:
        """Blank memories are refused: nothing finds them."""
        return bool(event.text.strip())

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        if not batch:
            return []
        await self._prepare()
        # In the order of their ids: two gateways that store the same memories wait for each other, and never both.
        by_id = {one.event.event_id: one for one in batch}
        new = await self._run(lambda c: _absent(c, sorted(by_id)))
        if new:
            events = [by_id[event_id].event for event_id in new]
            vectors = await self._embedding.vectors(self._embedder, [(event.text, event.speaker) for event in events])
            rows = [_row(by_id[event_id]) for event_id in new]
            made = [] if vectors is None else list(zip(map(HalfVector, vectors), new, strict=True))
            await self._run(lambda c: self._store(c, rows, made))
            if self._embedder is not None and vectors is None:
                self._backfill.start(retry=False)
        return [(one.event.event_id,) for one in batch]

    async def _store(self, connection: Connection, rows: Sequence[Any], made: Sequence[tuple[HalfVector, str]]) -> None:
        async with connection.transaction():
            await connection.rows("SELECT pg_advisory_xact_lock_shared(%s)", (schema.locks(self._options.schema)[1],))
            await connection.many(_STORE, rows)
            if made:
                await connection.many(self._give("event_id"), made)

    def _give(self, by: str) -> str:
        """The statement that stores the vector of a memory, unless it has one or is gone."""
        vector = f"%b::{self._pgvector}.halfvec"
        return f"INSERT INTO {self._vectors} SELECT id, {vector} FROM memory WHERE {by} = %s ON CONFLICT DO NOTHING"

    async def set_states(self, states: Mapping[str, State]) -> None:
        if states:
            await self._prepare()
            rows = [(*_state_row(state), escaped(event_id)) for event_id, state in sorted(states.items())]

            async def work(connection: Connection) -> None:
                async with connection.transaction():
                    await connection.many(_STATE, rows)

            await self._run(work)

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        [outcome] = await self.forget_all([(event_id, native_ids)])
        return outcome

    has_files = False

    async def forget_all(self, items: Sequence[tuple[str, Sequence[str]]]) -> Sequence[Forgotten]:
        every = sorted({escaped(one) for event_id, native_ids in items for one in (event_id, *native_ids)})

        async def work(connection: Connection) -> set[str]:
            if not (await schema.tables(connection, None))[0]:
                return set()
            async with connection.transaction():
                await connection.rows("SELECT pg_advisory_xact_lock(%s)", (schema.locks(self._options.schema)[1],))
                gone = await connection.rows("DELETE FROM memory WHERE event_id = ANY(%s) RETURNING event_id", (every,))
            return {event_id for (event_id,) in gone}

        self._forgotten += 1
        gone = await self._run(work) if every else set()
        self._forgotten += 1
        for event_id in every:
            self._kept.pop(event_id, None)
        return [
            "deleted" if any(escaped(one) in gone for one in (event_id, *native_ids)) else "absent"
            for event_id, native_ids in items
        ]

    async def _run(self, work: Callable[[Connection], Awaitable[T]], deadline_s: float = WRITE_S) -> T:
        try:
            return await self._connections.run(work, deadline_s)
        except BackendError:
            self._ready, self._found = False, (False, False)  # the tables may be gone: the next one looks
            raise

    async def _prepare(self) -> None:
        """Create what is missing. Done once, and again after a failed write."""
        async with self._preparing:
            if not self._ready:
                self._pgvector = await self._connections.run(
                    lambda c: schema.prepare(c, self._options.schema, self._embedder), WRITE_S
                )
                self._ready = self._had = True

    # State

    async def describe(self) -> Description:
        """Count the memories, start to compute the vectors that are missing, and report faults with the fix."""
        notes = []
        if self._embedder is None:
            notes.append("No embedding model: PostgreSQL is searched by words only. Fix: configure [embedder].")
        try:
            items, made = await self._run(self._counted, self._options.describe_s)
        except FusionError as error:
            return Description(notes=(*notes, with_fix(error)), degraded=True)
        vectors = made or 0
        pending = items - vectors
        if pending and self._embedder is not None:  # also those that a gateway without a model has left
            self._backfill.start(retry=False)
        lost = "" if made is not None else "their table or its index is missing, and is made"
        if fault := self._embedding.fault or (pending and self._embedder and (self._backfill.error or lost)):
            notes.append(f"{pending} memories wait for their vectors and are found by their words only: {fault}")
        return Description(items, vectors, pending, tuple(notes), bool(fault))

    async def _counted(self, connection: Connection) -> tuple[int, int | None]:
        """The number of memories, and that of their vectors; None if these have no whole table."""
        memories, vectors = await self._look(connection)
        if not memories:
            return 0, 0
        counts = f"(SELECT count(*) FROM {self._vectors})" if vectors else "NULL"
        [(items, made)] = await connection.rows(f"SELECT (SELECT count(*) FROM memory), {counts}")
        return items, made

    async def count(self) -> int | None:
        """Counted in an index, as by `describe`, which asks more often: a number that is kept would be a row that all
        gateways wait for. Without tables there are none, so that they are delivered again."""

        async def work(connection: Connection) -> int | None:
            [(is_replica,)] = await connection.rows("SELECT pg_is_in_recovery()")
            if is_replica:
                return None  # it may not have yet what the journal says was delivered
            if not (await schema.tables(connection, None))[0]:
                return 0
            [(memories,)] = await connection.rows("SELECT count(*) FROM memory")
            return int(memories)

        return await self._run(work)

    async def settle(self) -> None:
        """Raises the error that prevents computing the vectors."""
        await self._backfill.settle()
        if self._backfill.error is not None:
            raise self._backfill.error

    async def close(self) -> None:
        await self._backfill.close()
        await self._connections.close()

    async def _fill(self) -> bool:
        """Give vectors to memories that have none of this model, then let PostgreSQL count what is there, if it has
        grown; returns whether there may be more."""
        memories, _ = await self._run(lambda c: schema.tables(c, None))
        if not memories:
            return False
        if self._embedder is not None and await self._fill_vectors(self._embedder):
            return True
        now, counted = await self._run(schema.sizes)
        if self._has_doubled(now, counted):
            self._analysed = now  # also if it may not: it is not tried again and again
            await self._run(lambda c: schema.analyse(c, self._vectors))
        return False

    def _has_doubled(self, now: int, counted: int) -> bool:
        """Whether the memories have doubled since PostgreSQL last counted what it plans with."""
        return now > 2 * max(counted, self._analysed, schema.SMALL // 2)

    async def _fill_vectors(self, embedder: Embedder) -> bool:
        """Give vectors to some memories that have none; returns whether there were any."""
        await self._prepare()
        missing = (
            f"SELECT m.escaped, m.id, m.text, m.speaker FROM memory m LEFT JOIN {self._vectors} v ON v.memory = m.id "
            "WHERE v.memory IS NULL LIMIT %s"
        )
        rows = [stored(row) for row in await self._run(lambda c: c.rows(missing, (FILL,)))]
        if not rows:
            return False
        vectors = await memory_vectors(embedder, [(text, speaker) for _, text, speaker in rows])
        self._embedding.fault = None
        made = [(HalfVector(vector), number) for vector, (number, *_) in zip(vectors, rows, strict=True)]
        await self._run(lambda c: c.many(self._give("id"), made))
        return True


def _best_first(one: tuple[str, float]) -> tuple[float, int]:
    return -one[1], int(one[0])


def _row(extracted: Extracted) -> list[Any]:
    event = extracted.event
    text = spoken(event.text, event.speaker)
    found = terms(text)
    return [*written(event_row(event)), sorted({*found, *characters(text)}), len(found), *_state_row(extracted.state)]


def _state_row(state: State) -> tuple[int | None, str | None, str | None]:
    if state is NEW:
        return None, None, None
    return None if state.ended_at is None else microseconds(state.ended_at), state.ended, state.merged_into


async def _absent(connection: Connection, ids: Sequence[str]) -> list[str]:
    """The ids among ``ids`` that are not stored: those of a repeated delivery keep their rows and vectors."""
    there = await connection.rows("SELECT event_id FROM memory WHERE event_id = ANY(%s)", (list(map(escaped, ids)),))
    known = {event_id for (event_id,) in there}
    return [one for one in ids if escaped(one) not in known]


async def _statistics(connection: Connection, scope: Scope) -> sql.Statistics:
    """Counted up to `sql.COMMON`; beyond that, and for the shares of common terms, PostgreSQL's own statistics."""
    condition, values = sql.owned(scope)
    values["most"] = sql.COMMON
    [(memories, average)] = await connection.rows(
        "SELECT count(*), coalesce(avg(length), 1)::float8 FROM "
        f"(SELECT m.length FROM memory m WHERE {condition} LIMIT %(most)s) counted",
        values,
    )
    if memories < sql.COMMON:
        return sql.Statistics(memories, average)
    [(all_memories,)] = await connection.rows(
        "SELECT reltuples::bigint FROM pg_class WHERE oid = 'memory'::regclass::oid"
    )
    rows = await connection.rows(
        "SELECT term, share FROM pg_stats, unnest(most_common_elems::text::text[], most_common_elem_freqs) "
        "AS s(term, share) WHERE schemaname = current_schema AND tablename = 'memory' AND attname = 'terms' "
        "AND term IS NOT NULL"
    )
    return sql.Statistics(max(memories, all_memories), average, dict(rows))


def nearest(hit: Hit, found: Sequence[Hit], span: int) -> list[Hit]:
    """At most ``span`` of ``found`` before a hit and after it, in document order."""
    order = sorted({other.native_id: other for other in found if other.scope == hit.scope}.values(), key=_position)
    here = sum(_position(other) < _position(hit) for other in order)
    return [*order[max(0, here - span) : here], *order[here : here + span]]


def _position(hit: Hit) -> tuple[int, int, str]:
    place = hit.place
    return (place.start, place.end, hit.native_id) if place is not None else (0, 0, hit.native_id)
