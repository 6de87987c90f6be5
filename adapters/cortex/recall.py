"""Recall in seed 000's order: embed, the 50 most similar, two hops of the graph, fusion, nine factors.

Similar by words counts beside similar by meaning, so that recall works while vectors are missing; what only words or
the graph found gets its cosine too, where it has a vector.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.cortex.options import Options
from adapters.cortex.port import Found, Graph, Link, Memory, View
from adapters.cortex.rank import Candidate, Ranked, fused, merged, rank
from fusion.contract import Query
from fusion.lib.rank_fusion import highest

if TYPE_CHECKING:
    from fusion.contract import Floats

_log = logging.getLogger(__name__)

GRAPH_SHARE = 0.25
"""of a query's time is what the graph may take: the 50 ms that openclaw-cortex gives it in a hook of 200, and the 200
and 500 ms elsewhere in 0.8 and 2 seconds. Then the similar alone are ranked"""


@dataclass(frozen=True, slots=True)
class Pool:
    """What is looked at for a question before it is ranked. ``whole``: nothing of it was cut off, or failed."""

    found: Found
    links: Sequence[Link]
    scores: Mapping[str, float]
    """by id, what similar and linked make of it together: whatever was found at all"""
    cosines: Mapping[str, float]
    whole: bool


async def recall(
    graph: Graph, query: Query, vector: Floats | None, options: Options, *, history: bool = False, linked: bool = True
) -> list[Ranked]:
    """Everything found for ``query``, best first, whatever its limit: a limit only cuts, it does not change the order.

    ``vector`` is the query's, if it could be encoded. Without ``linked`` the graph is left out.
    """
    pool, memories = await look(graph, query, vector, View.of(query, history=history), options, linked=linked)
    return ranked(pool, memories, query, options)


async def look(
    graph: Graph, query: Query, vector: Floats | None, view: View, options: Options, *, linked: bool = True
) -> tuple[Pool, Mapping[str, Memory]]:
    """What is similar and what is linked, and those memories as they stand."""
    found = await graph.find(query.text, vector, view, options.candidates)
    similar = fused(found)
    links = await _links(graph, query, view, similar, options) if linked else ()
    scores = merged(similar, links or (), options.similar_weight, options.graph_weight)
    cosines = dict(found.vectors)
    unread = [id_ for id_ in scores if id_ not in found.memories]
    more, others = await graph.lacking(unread, vector, [id_ for id_ in scores if id_ not in cosines])
    encoded = vector is not None or graph.embedder is None
    cosines |= others
    pool = Pool(Found(found.words, found.vectors), links or (), scores, cosines, encoded and links is not None)
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
        if memory is not None and query.scope.admits(memory.event.scope):
            cosine, by_words = pool.cosines.get(id_), words.get(id_, 0.0) / most
            link = by_id.get(id_, _UNLINKED)
            candidates.append(
                Candidate(memory, cosine, score / best, by_words, link.hops or None, link.share, link.path)
            )
    return rank(candidates, query.text, query.scope.project, query.now, options.weights, options.by_words)


_UNLINKED = Link("", 0, 0)


async def _links(
    graph: Graph, query: Query, view: View, similar: Sequence[str], options: Options
) -> Sequence[Link] | None:
    """``None`` where it took too long."""
    try:
        async with asyncio.timeout(query.deadline_s * GRAPH_SHARE):
            return await graph.link(query.text, view, similar, options.candidates)
    except TimeoutError:
        _log.info("the graph took more than its %d %% of the time; only what is similar is ranked", 100 * GRAPH_SHARE)
        return None
