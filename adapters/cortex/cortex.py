"""Recall as seed 000 describes it: what is similar, and what the graph leads to, merged by weighted RRF.

The similar are found by meaning and by words (by words alone while vectors are missing), the linked by walking up to
two hops from the entities that the query names. A memory that both find comes first:
.6 / (60 + 1) + .4 / (60 + 2) beats .6 / (60 + 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Self

from adapters.cortex.port import Found, Graph, Link, Memory, State, View
from adapters.cortex.stated import stated
from adapters.cortex.stores import open_graph, verify, without_store
from adapters.graph import Walking
from fusion.contract import (
    DIMENSIONS,
    KINDS,
    Captured,
    Description,
    Embedder,
    Event,
    Features,
    Forgotten,
    Hit,
    Opening,
    Query,
)

K = 60
"""RRF's constant: Cormack, Clarke, Büttcher, SIGIR 2009. It keeps the first few ranks close to one another."""


class Cortex:
    """Memories with scope, time, versions and use; a hit that the graph found carries its path."""

    features = Features(filters=frozenset(DIMENSIONS), tenants=True, as_of=True, kinds=frozenset(KINDS))
    opening: Opening
    """what it was opened with: where another store would be, too"""

    def __init__(self, graph: Graph, options: Walking, embedder: Embedder | None) -> None:
        self.graph = graph
        self.embedder = embedder
        self._options = options

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Raises ``SettingsError`` for a wrong option, ``StoreDamaged`` for a corrupt or newer file."""
        options = Walking.of(without_store(opening))
        cortex = cls(await open_graph(opening, options), options, opening.embedder)
        cortex.opening = opening
        return cortex

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> None:
        verify(options)

    async def search(self, query: Query) -> Sequence[Hit]:
        if query.limit <= 0:
            return []
        view = View.of(query)
        similar = fused(await self.graph.find(query.text, None, view, query.limit * 2))
        links = await self.graph.link(query.text, view, similar, query.limit)
        scores = merged(similar, links, self._options)
        best = sorted(scores, key=lambda id_: -scores[id_])[: query.limit]
        memories = await self.graph.get(best)
        paths = {link.id: link.path for link in links}
        return [
            Hit.of(memories[id_].event, score=scores[id_], path=paths.get(id_, ()))
            for id_ in best
            if id_ in memories and query.scope.admits(memories[id_].event.scope)
        ]

    def accepts(self, event: Event) -> bool:
        return event.kind in self.features.kinds

    async def remember(self, batch: Sequence[Captured]) -> Sequence[tuple[str, ...]]:
        await self.graph.add(
            [Memory(captured.event, captured.extraction, State(**stated(captured.event))) for captured in batch]
        )
        return [(captured.event.event_id,) for captured in batch]

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        """Deletes the memory with its mentions and relations. What other memories assert as well stays theirs."""
        return "deleted" if await self.graph.delete([event_id, *native_ids]) else "absent"

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        """Within the same document and the same scope, by place; superseded versions left out."""
        return [[Hit.of(near.event) for near in nears] for nears in await self.graph.beside(hits, span)]

    async def used(self, native_ids: Sequence[str], at: datetime) -> None:
        """Counts a use of each, and when the latest was: what recency and frequency are reckoned from."""
        await self.graph.use(native_ids, at)

    async def describe(self) -> Description:
        held = await self.graph.holding()
        notes = () if self.embedder else ("no embedding model: searched by words and graph only",)
        return Description(
            held.items, held.vectors, held.vectors_pending, (*notes, *held.faults), degraded=bool(held.faults)
        )

    async def check(self) -> str | None:
        return await self.graph.check()

    async def settle(self) -> None:
        await self.graph.settle()

    async def close(self) -> None:
        await self.graph.close()


def fused(found: Found) -> list[str]:
    """Both lists as one by reciprocal rank fusion: 1/(60 + rank) from each, ranks from 1. Equal scores: by id."""
    scores: dict[str, float] = {}
    for ranked in (found.words, found.vectors):
        for rank, (id_, _) in enumerate(ranked, start=1):
            scores[id_] = scores.get(id_, 0.0) + 1 / (K + rank)
    return sorted(scores, key=lambda id_: (-scores[id_], id_))


def merged(similar: Sequence[str], links: Sequence[Link], how: Walking) -> dict[str, float]:
    """Ids with their scores by weighted reciprocal rank fusion of what is similar and what is linked:
    similar_weight / (K + rank) + graph_weight / (K + rank), ranks from 1."""
    scores = {id_: how.similar_weight / (K + rank) for rank, id_ in enumerate(similar, start=1)}
    for link in links:
        scores[link.id] = scores.get(link.id, 0.0) + how.graph_weight / (K + link.rank)
    return scores
