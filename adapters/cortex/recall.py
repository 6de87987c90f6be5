"""Recall in seed 000's order: embed, the 50 most similar, two hops of the graph, fusion, nine factors.

Similar by words counts beside similar by meaning, so that recall works while vectors are missing; what only words or
the graph found gets its cosine too, where it has a vector.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from adapters.cortex.options import Options
from adapters.cortex.port import Graph, Link, View
from adapters.cortex.rank import Candidate, K, Ranked, fused, merged, rank
from fusion.contract import Query

if TYPE_CHECKING:
    from fusion.contract import Floats

_log = logging.getLogger(__name__)

GRAPH_SHARE = 0.25
"""of a query's time is what the graph may take: the 50 ms that openclaw-cortex gives it in a hook of 200, and the 200
and 500 ms elsewhere in 0.8 and 2 seconds. Then the similar alone are ranked"""


async def recall(
    graph: Graph, query: Query, vector: Floats | None, options: Options, *, history: bool = False, linked: bool = True
) -> list[Ranked]:
    """Everything found for ``query``, best first, whatever its limit: a limit only cuts, it does not change the order.

    ``vector`` is the query's, if it could be encoded. Without ``linked`` the graph is left out.
    """
    view = View.of(query, history=history)
    found = await graph.find(query.text, vector, view, options.candidates)
    similar = fused(found)
    links = await _links(graph, query, view, similar, options) if linked else ()
    scores = merged(similar, links, options.similar_weight, options.graph_weight)
    cosines = dict(found.vectors)
    more, others = await asyncio.gather(
        graph.get([id_ for id_ in scores if id_ not in found.memories], learnt=False),
        _cosines(graph, vector, [id_ for id_ in scores if id_ not in cosines]),
    )
    cosines |= others
    memories = {**found.memories, **more}
    words = dict(found.words)
    most = max(words.values(), default=0.0) or 1.0
    best = (options.similar_weight + options.graph_weight) / (K + 1) or 1.0
    by_id = {link.id: link for link in links}
    candidates = []
    for id_, score in scores.items():
        memory = memories.get(id_)  # None: forgotten just now
        if memory is not None and query.scope.admits(memory.event.scope):
            cosine, by_words = cosines.get(id_), words.get(id_, 0.0) / most
            link = by_id.get(id_, _UNLINKED)
            candidates.append(
                Candidate(memory, cosine, score / best, by_words, link.hops or None, link.share, link.path)
            )
    return rank(candidates, query.text, query.scope.project, query.now, options.weights, options.by_words)


_UNLINKED = Link("", 0, 0)


async def _links(graph: Graph, query: Query, view: View, similar: Sequence[str], options: Options) -> Sequence[Link]:
    try:
        async with asyncio.timeout(query.deadline_s * GRAPH_SHARE):
            return await graph.link(query.text, view, similar, options.candidates)
    except TimeoutError:
        _log.info("the graph took more than its %d %% of the time; only what is similar is ranked", 100 * GRAPH_SHARE)
        return ()


async def _cosines(graph: Graph, vector: Floats | None, ids: Sequence[str]) -> Mapping[str, float]:
    return {} if vector is None else await graph.cosines(vector, ids)
