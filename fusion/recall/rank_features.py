"""What a memory's place among the others says of it: signals for a model that has learned what to make of them.

Each is 0 to 1. ``mean`` is the recipe's own weighted mean, and the others are made of that, of the pool and of the
texts; they cost more than they are worth to a sum, so they are computed only where a recipe names a model.

| signal   | what it says |
|----------|--------------|
| mean     | the weighted mean, by which the pool would be ordered without the model |
| share    | the same, as a share of the best one's |
| rank     | 1 for the best by that order, ½ for the second, ⅓ for the third… |
| before   | the mean of the memory right before it in its document |
| after    | …and of the one right after it |
| session  | the mean of its document's three best, as a share of the best document's |
| question | 1: it ends by asking something |
| reply    | 1: what stands right before it asks something |
| feedback | the words of the three best memories, weighted by how rare they are, in this one |
| found    | of all sightings of the pool's best found memory, how many this one has; 0 for a neighbour |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log, nan
from typing import TYPE_CHECKING

from fusion.lib.bm25 import Counted, counted, pairs
from fusion.lib.words import spoken
from fusion.recall.expand import Pooled
from fusion.recall.signals import SignalTable, adjacent_positions, document_of, scores

if TYPE_CHECKING:
    from fusion.recall.signals import Column

CONTEXT = ("mean", "share", "rank", "before", "after", "session", "question", "reply", "feedback", "found")
HEAD_MEMORIES = 3
"""memories that speak for a document, or for what the query is about"""
FEEDBACK_TERMS = 20
"""words of theirs: Lavrenko and Croft, "Relevance-based language models", SIGIR 2001, take 10 to 100"""


def in_context(pool: Sequence[Pooled], table: SignalTable, weights: Mapping[str, float]) -> SignalTable:
    """The table with these signals beside those that it has."""
    import numpy as np

    if not pool:
        return table
    means = scores(table, weights)
    order = sorted(range(len(pool)), key=lambda i: (-means[i], -pool[i].rrf, pool[i].ref))
    rank = np.empty(len(pool))
    rank[order] = np.arange(1, len(pool) + 1)
    best = means[order[0]]
    asks = np.array([p.candidate.hit.text.rstrip().endswith("?") for p in pool], dtype=np.float64)
    texts = [counted(spoken(p.candidate.hit.text, p.candidate.hit.speaker)) for p in pool]
    source_hits = np.array([0 if p.neighbour_of else len(p.candidate.source_hits) for p in pool])
    adjacent = adjacent_positions(pool)

    def of_the_one(offset: int, column: Column) -> Column:
        here, there = pairs(adjacent[offset])
        found = np.full(len(pool), nan)
        found[here] = column[there]
        return found

    context = {
        "mean": means,
        "share": means / best if best else np.zeros(len(pool)),
        "rank": 1 / rank,
        "session": np.array(_sessions(pool, means.tolist())),
        "question": asks,
        "reply": np.nan_to_num(of_the_one(-1, asks)),
        "feedback": np.array(_feedback(texts, order)),
        "found": source_hits / (source_hits.max() or 1),
        "before": of_the_one(-1, means),
        "after": of_the_one(1, means),
    }
    return SignalTable(table.size, {**table.columns, **context})


def _sessions(pool: Sequence[Pooled], means: Sequence[float]) -> list[float]:
    documents: dict[object, list[float]] = {}
    keys = [document_of(p.candidate.hit) or p.ref for p in pool]
    for key, mean in zip(keys, means, strict=True):
        documents.setdefault(key, []).append(mean)
    strength = {key: sum(sorted(found)[-HEAD_MEMORIES:]) / HEAD_MEMORIES for key, found in documents.items()}
    most = max(strength.values(), default=0.0)
    return [strength[key] / most if most else 0.0 for key in keys]


def _feedback(texts: Sequence[Counted], order: Sequence[int]) -> list[float]:
    """How much of what tells the three best apart from the pool each text has; a text's own words do not count."""
    documents = Counter(term for text in texts for term in text.counts)
    rare = {term: log(1 + len(texts) / df) for term, df in documents.items()}
    head = order[:HEAD_MEMORIES]
    said = Counter(term for i in head for term in texts[i].counts)
    chosen = sorted(said, key=lambda term: (-said[term] * rare[term], term))[:FEEDBACK_TERMS]
    found = []
    for i, text in enumerate(texts):
        others = {t: said[t] - (i in head and t in text.counts) for t in chosen}
        most = sum(n * rare[t] for t, n in others.items())
        got = sum(n * rare[t] for t, n in others.items() if t in text.counts)
        found.append(got / most if most else 0.0)
    return found
