"""Recall in seed 000's order: embed the query, find the 50 most similar, walk two hops, fuse, rank by nine factors.

Similarity is by words and by vectors, so recall works while vectors are missing. Memories found only by words or by the
graph get their cosine too, if they have a vector.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adapters.cortex.options import Options
from adapters.cortex.port import Graph, Link, Matches, Memory, View
from adapters.cortex.rank import Candidate, Ranked, fused, merged, rank
from fusion.contract import Hit, Query, Where
from fusion.lib.rank_fusion import highest

if TYPE_CHECKING:
    from fusion.contract import Floats

_log = logging.getLogger(__name__)

GRAPH_SHARE = 0.25
"""share of a query's deadline that the graph walk may take; then only similar memories are ranked. openclaw-cortex
gives it 50 of 200 ms in a hook, and 200 and 500 ms of .8 and 2 s elsewhere"""


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidates of a query before ranking. ``whole``: nothing was cut off and nothing failed."""

    found: Matches
    links: Sequence[Link]
    scores: Mapping[str, float]
    """the fused score of every candidate, by id"""
    cosines: Mapping[str, float]
    whole: bool


async def recall(
    graph: Graph, query: Query, vector: Floats | None, options: Options, *, history: bool = False, linked: bool = True
) -> list[Ranked]:
    """Everything found for ``query``, best first; the query's limit is ignored.

    ``vector`` is the query's, if it could be encoded. Without ``linked`` the graph is not walked.
    """
    pool, memories = await look(graph, query, vector, View.of(query, history=history), options, linked=linked)
    return ranked(pool, memories, query, options)


async def look(
    graph: Graph, query: Query, vector: Floats | None, view: View, options: Options, *, linked: bool = True
) -> tuple[Pool, Mapping[str, Memory]]:
    """The candidates of a query, similar and linked, and their memories."""
    found = await graph.find(query.text, vector, view, options.candidates)
    similar = fused(found)
    links = await _links(graph, query, view, similar, options) if linked else ()
    scores = merged(similar, links or (), options.similar_weight, options.graph_weight)
    cosines = dict(found.vectors)
    unread = [id_ for id_ in scores if id_ not in found.memories]
    more, others = await graph.complete(unread, vector, [id_ for id_ in scores if id_ not in cosines])
    encoded = vector is not None or graph.embedder is None
    cosines |= others
    pool = Pool(Matches(found.words, found.vectors), links or (), scores, cosines, encoded and links is not None)
    return pool, {**found.memories, **more}


def ranked(pool: Pool, memories: Mapping[str, Memory], query: Query, options: Options) -> list[Ranked]:
    """The memories of a pool, best first."""
    words = dict(pool.found.words)
    most = max(words.values(), default=0.0) or 1.0
    best = highest([options.similar_weight, options.graph_weight]) or 1.0
    by_id = {link.id: link for link in pool.links}
    candidates = []
    for id_, score in pool.scores.items():
        memory = memories.get(id_)  # None: forgotten just now
        if memory is not None and query.scope.admits(memory.event.scope) and _fits(memory, query.where):
            cosine, by_words = pool.cosines.get(id_), words.get(id_, 0.0) / most
            link = by_id.get(id_, _UNLINKED)
            candidates.append(
                Candidate(memory, cosine, score / best, by_words, link.hops or None, link.share, link.path)
            )
    return rank(candidates, query.text, query.scope.project, query.now, options.weights, options.by_words)


def _fits(memory: Memory, where: Where) -> bool:
    """Whether a memory fits a filter as far as the cortex knows: the gateway knows the tags and properties of notes."""
    return not where or replace(where, tag=(), property=()).admits(Hit.of(memory.event))


_UNLINKED = Link("", 0, 0)


def walk_timeout_s(query: Query) -> float:
    return query.deadline_s * GRAPH_SHARE


async def _links(
    graph: Graph, query: Query, view: View, similar: Sequence[str], options: Options
) -> Sequence[Link] | None:
    """The linked memories; ``None`` if the walk took too long."""
    try:
        async with asyncio.timeout(walk_timeout_s(query)):
            return await graph.link(query.text, view, similar, options.candidates)
    except TimeoutError:
        _log.info("the graph walk exceeded %d %% of the deadline; only similar memories are ranked", 100 * GRAPH_SHARE)
        return None
