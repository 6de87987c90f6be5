"""The cortex as a backend of the gateway: it recalls, stores and forgets memories in one of several stores."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from adapters.bolt.errors import with_fix
from adapters.cortex.open_store import SQLITE, STORE_OPTIONS, open_graph, verify
from adapters.cortex.options import REMOVED, Options
from adapters.cortex.port import Graph, Memory, View, journal_state, stored_fields
from adapters.cortex.port import State as StoredState
from adapters.cortex.prewarm import PrewarmCache
from adapters.cortex.rank import Ranked
from adapters.cortex.recall import look, ranked
from adapters.index.encode import BestEffortEmbedding
from adapters.options import EMBEDDED_FEATURES, FULL_FEATURES, read, verified
from fusion.contract import (
    Description,
    EdgeList,
    Embedder,
    Event,
    Extracted,
    Forgotten,
    GraphEdge,
    Graphs,
    Hit,
    Opening,
    Query,
    Scope,
    State,
)
from fusion.errors import BackendError, FusionError, SettingsError

if TYPE_CHECKING:
    pass


class Cortex:
    """A backend of memories with scope, time, versions and usage; a hit that the graph found carries its path."""

    features = FULL_FEATURES
    opening: Opening
    """what it was opened with; `migrate` opens the target store from it"""

    def __init__(
        self,
        graph: Graph,
        options: Options,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.graph = graph
        self._options = options
        self._clock = clock
        self._embedding = BestEffortEmbedding("cortex")
        self._prewarm = PrewarmCache()
        self._to_refresh: dict[Scope, tuple[Query, bool]] = {}
        """by session, the last query, which is to be run again"""
        self._refreshing: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Raises ``SettingsError`` for a wrong option, ``StoreDamaged`` for a corrupt or newer file."""
        options = read(Options, opening, also=(*STORE_OPTIONS, *REMOVED))
        cortex = cls(await open_graph(opening, options), options)
        if opening.options.get("store", SQLITE) == SQLITE:
            cortex.features = EMBEDDED_FEATURES
        cortex.opening = opening
        return cortex

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> None:
        """Check the options and that the chosen store's packages are installed. Raises ``SettingsError``."""
        verify(options)
        verified(Options, options, also=(*STORE_OPTIONS, *REMOVED))

    @property
    def embedder(self) -> Embedder | None:
        """The embedder whose vectors the store has."""
        return self.graph.embedder

    async def search(self, query: Query) -> Sequence[Hit]:
        if query.limit <= 0:
            return []
        best = (await self.recall(query))[: query.limit]
        return [hit_of(one) for one in best]

    async def recall(self, query: Query, *, history: bool = False) -> Sequence[Ranked]:
        """Everything found for ``query``, best first, with the factors of each score; ignores the query's limit.

        With ``history`` also earlier versions and ended memories. Counts nothing as used.
        """
        view = View.of(query, history=history)
        generation = None if query.scope.session_id is None else self.graph.generation
        if (ready := self._prewarm.get(query, history, generation)) is not None:
            memories = await self.graph.visible(view, list(ready.scores))
            if len(memories) == len(ready.scores):
                return ranked(ready, memories, query, self._options)
        vector = await self._embedding.query_vector(self.graph.embedder, query.text)
        pool, memories = await look(self.graph, query, vector, view, self._options)
        self._prewarm.put(query, history, generation, pool)
        return ranked(pool, memories, query, self._options)

    def _refresh_stale(self, sessions: Collection[str | None]) -> None:
        """After a turn was stored: run its session's last query again in the background, to refresh the cache."""
        self._to_refresh |= {
            query.scope: (query, history) for query, history in self._prewarm.stale(sessions, self._clock())
        }
        if self._to_refresh and (self._refreshing is None or self._refreshing.done()):
            self._refreshing = asyncio.create_task(self._refresh(), name="warm up")

    async def _refresh(self) -> None:
        while self._to_refresh:
            _, (query, history) = self._to_refresh.popitem()
            with contextlib.suppress(FusionError):  # the next query reports it
                await self.graph.settle()
                await self.recall(query, history=history)

    def accepts(self, event: Event) -> bool:
        return event.kind in self.features.kinds

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        """Store memories in their states; those that are stored already stay as they are."""
        await self.graph.add([Memory(c.event, c.extraction, StoredState(**stored_fields(c.state))) for c in batch])
        self._refresh_stale({c.event.scope.session_id for c in batch} - {None})
        return [(extracted.event.event_id,) for extracted in batch]

    async def set_states(self, states: Mapping[str, State]) -> None:
        await self.graph.alter({event_id: stored_fields(state) for event_id, state in states.items()})

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        """Delete the memory with its mentions and relations; relations that other memories assert too stay."""
        return "deleted" if await self.graph.delete([event_id, *native_ids]) else "absent"

    async def events(self, after: str, limit: int) -> Sequence[tuple[Event, tuple[str, ...]]]:
        return [(memory.event, (memory.id,)) for memory in await self.graph.page(after, limit)]

    async def states(self, after: str, limit: int) -> Sequence[tuple[str, State]]:
        return [(memory.id, journal_state(memory)) for memory in await self.graph.page(after, limit)]

    async def count(self) -> int | None:
        return await self.graph.count()

    @property
    def has_files(self) -> bool:
        return False

    async def forget_all(self, items: Sequence[tuple[str, Sequence[str]]]) -> Sequence[Forgotten]:
        gone = await self.graph.delete([id_ for event_id, native_ids in items for id_ in (event_id, *native_ids)])
        return ["absent" if gone.isdisjoint((event_id, *ids)) else "deleted" for event_id, ids in items]

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        """The hits' neighbours in the same document and scope, ordered by place, without superseded versions."""
        return [[Hit.of(near.event) for near in nears] for nears in await self.graph.neighbours(hits, span)]

    async def entities_in(self, text: str, scope: Scope) -> Sequence[str]:
        """The names of the entities that a text names; none over a graph database."""
        return await self.graph.entities_in(text, scope) if isinstance(self.graph, Graphs) else ()

    async def edges_at(self, names: Sequence[str], query: Query, limit: int) -> Sequence[GraphEdge]:
        """The edges at entities of these names; none over a graph database."""
        return await self.graph.edges_at(names, query, limit) if isinstance(self.graph, Graphs) else ()

    async def newest_edges(self, query: Query, limit: int) -> Sequence[GraphEdge]:
        """The newest edges of all entities; none over a graph database."""
        return await self.graph.newest_edges(query, limit) if isinstance(self.graph, EdgeList) else ()

    async def used(self, native_ids: Sequence[str], at: datetime) -> None:
        """Count one use of each memory and keep the latest time, for the recency and frequency factors."""
        await self.graph.use(native_ids, at)

    async def describe(self) -> Description:
        """Counts and faults of the store; an unreachable database is reported as degraded, with the fix."""
        try:
            held = await self.graph.stats()
        except (BackendError, SettingsError) as error:
            return Description(notes=(with_fix(error, "its table"),), degraded=True)
        notes = () if self.embedder else ("no embedding model: searched by words and graph only",)
        fault = self._embedding.fault
        faults = (*held.faults, *([f"search by vectors does not work: {fault}"] if fault else ()))
        return Description(held.items, held.vectors, held.vectors_pending, (*notes, *faults), bool(faults))

    async def check(self) -> str | None:
        return await self.graph.check()

    async def settle(self) -> None:
        await self.graph.settle()
        if self._embedding.fault:  # try the embedder again
            await self._embedding.query_vector(self.graph.embedder, "")

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await self.graph.close()


def hit_of(found: Ranked) -> Hit:
    """A memory as a hit. One that states a single fact is compared by it with what other stores say, if the graph reads
    facts with its memories: a server does, which other programs may write to."""
    memory = found.memory
    hit = Hit.of(memory.event, score=found.score, path=found.path)
    if len(memory.extraction.facts) == 1:
        (hit.fact,) = memory.extraction.facts  # nobody else has the hit yet
    return hit
