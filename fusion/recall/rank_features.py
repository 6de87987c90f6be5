"""Features of a memory relative to the pool, for a trained model. Each is from 0 to 1.

They are computed only for recipes with a model: in a weighted mean they would cost more than they gain.

| feature  | meaning |
|----------|---------|
| mean     | the recipe's weighted mean, which orders the pool without the model |
| share    | the mean as a share of the highest mean |
| rank     | 1 for the best by mean, ½ for the second, ⅓ for the third… |
| before   | the mean of the memory right before it in its document |
| after    | the mean of the memory right after it |
| session  | the mean of its document's three best memories, as a share of the best document's |
| question | 1 if it ends with a question mark |
| reply    | 1 if the memory right before it ends with a question mark |
| feedback | the share of the three best memories' words that it has, weighted by rarity |
| found    | its source hits as a share of the most that any memory has; 0 for a neighbour |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import log, nan
from typing import TYPE_CHECKING

from fusion.contract import document_of
from fusion.lib.bm25 import Counted, pairs
from fusion.lib.text_words import text_words
from fusion.lib.words import spoken
from fusion.recall.expand import Pooled
from fusion.recall.signals import SignalTable, adjacent_positions, scores

if TYPE_CHECKING:
    from fusion.recall.signals import Column

CONTEXT = ("mean", "share", "rank", "before", "after", "session", "question", "reply", "feedback", "found")
HEAD_MEMORIES = 3
"""best memories that represent a document, or the topic of the query"""
FEEDBACK_TERMS = 20
"""words of the best memories; Lavrenko and Croft, "Relevance-based language models", SIGIR 2001, take 10 to 100"""


def in_context(pool: Sequence[Pooled], table: SignalTable, weights: Mapping[str, float]) -> SignalTable:
    """The table with these features added."""
    import numpy as np

    if not pool:
        return table
    means = scores(table, weights)
    order = sorted(range(len(pool)), key=lambda i: (-means[i], -pool[i].rrf, pool[i].ref))
    rank = np.empty(len(pool))
    rank[order] = np.arange(1, len(pool) + 1)
    best = means[order[0]]
    asks = np.array([p.candidate.hit.text.rstrip().endswith("?") for p in pool], dtype=np.float64)
    texts = [text_words(spoken(p.candidate.hit.text, p.candidate.hit.speaker)).terms for p in pool]
    source_hits = np.array([0 if p.neighbour_of else len(p.candidate.source_hits) for p in pool])
    adjacent = adjacent_positions(pool)

    def of_neighbour(offset: int, column: Column) -> Column:
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
        "reply": np.nan_to_num(of_neighbour(-1, asks)),
        "feedback": np.array(_feedback(texts, order)),
        "found": source_hits / (source_hits.max() or 1),
        "before": of_neighbour(-1, means),
        "after": of_neighbour(1, means),
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
    """For each text the weighted share of the best memories' words that it has, without those that only it has."""
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
