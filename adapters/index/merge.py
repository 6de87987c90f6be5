"""Merges the BM25 and the vector results into one ranked list, by key.

Pure functions. BM25 scores are tantivy's: positive, higher is better. Equal scores are ordered by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite
from typing import NamedTuple

from fusion.lib.rank_fusion import highest, rank_fusion, ranked

Scored = Sequence[tuple[str, float]]
"""keys with their scores, best first"""

BEST_RRF = highest([1.0, 1.0])
"""the score of a key that is first in both lists"""

VECTOR_WEIGHT = 0.7
TEXT_WEIGHT = 0.3
_NO_NUMBER = 1 / 1000

DEEP = 100
"""the rank in a list from which hits are no more similar to the query than any text"""


class SearchResult(NamedTuple):
    """``score`` is the fused one; ``lexical`` (BM25) and ``cosine`` are those of the lists that have it."""

    key: str
    score: float
    lexical: float | None = None
    cosine: float | None = None


def rrf(by_words: Scored, by_vectors: Scored) -> list[SearchResult]:
    """Reciprocal rank fusion: 1/(60 + rank) from each list, ranks from 1."""
    return _in_order(_reciprocal(by_words, by_vectors), by_words, by_vectors)


def fused_keys(by_words: Scored, by_vectors: Scored) -> list[str]:
    """The keys of ``rrf``, in its order: all that is needed of it where another score follows."""
    scores = _reciprocal(by_words, by_vectors)
    return sorted(sorted(scores), key=scores.__getitem__, reverse=True)


def _reciprocal(*lists: Scored) -> dict[str, float]:
    return rank_fusion(ranked(key for key, _ in one) for one in lists)


def text_score(rank: float) -> float:
    """A rank of SQLite's FTS5 (the lower the better) as a score between 0 and 1 (the higher the better).

    With r = -rank: r/(1 + r). A rank of 0 or more is a poor one: 1/(1 + rank). What is no number is 1/1000.
    """
    if not isfinite(rank):
        return _NO_NUMBER
    return -rank / (1 - rank) if rank < 0 else 1 / (1 + rank)


def seed_text_score(rank: float) -> float:
    """1/(1 + max(0, rank)), exactly as in the seed. FTS5's ranks are negative, so every hit scores 1: words decide
    which hits are found, never their order."""
    return 1 / (1 + max(0.0, rank))


def weighted(
    by_words: Scored,
    by_vectors: Scored,
    vector: float = VECTOR_WEIGHT,
    text: float = TEXT_WEIGHT,
    score: Callable[[float], float] = text_score,
    wordless: Callable[[str], bool] | None = None,
) -> list[SearchResult]:
    """vector × cosine + text × text score, the weights divided by their sum; the score is between 0 and 1.

    The score of a ``wordless`` item (a picture) is its cosine, because it has no words to find. A negative cosine
    counts as 0, as does a key that a list does not have. Without any vectors the score is the text score, so a floor
    means the same with and without a model.
    """
    if not by_vectors:
        vector, text = 0.0, 1.0
    word_scores = [(key, score(-bm25)) for key, bm25 in by_words]
    return _in_order(_sum(word_scores, by_vectors, vector, text, wordless), by_words, by_vectors)


def convex(
    by_words: Scored,
    by_vectors: Scored,
    vector: float = VECTOR_WEIGHT,
    text: float = TEXT_WEIGHT,
    wordless: Callable[[str], bool] | None = None,
) -> Iterator[SearchResult]:
    """As ``weighted``, but each score counts by its excess over its list's hundredth, as a share of the best.

    S. Bruch, S. Gai and A. Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023: it keeps the
    distance between a hit and the next, which ranks lose. A list whose best score hardly exceeds its hundredth, as that
    of the vectors for a rare code, contributes little, and the words decide. The length of a list has no effect. Scores
    compare hits of one answer only. Ties: nearest vector first.
    """
    if not by_vectors:
        vector, text = 0.0, 1.0
    if not by_words:
        vector, text = 1.0, 0.0
    scores = _sum(_shares(by_words), _shares(by_vectors), vector, text, wordless)
    order = sorted(scores, key=scores.__getitem__, reverse=True)  # stable: as they came, those of vectors first
    return _found(order, scores, by_words, by_vectors)


def _sum(
    by_words: Scored, by_vectors: Scored, vector: float, text: float, wordless: Callable[[str], bool] | None
) -> dict[str, float]:
    total = vector + text
    share = vector / total
    scores = {key: cosine * share if cosine > 0 else 0.0 for key, cosine in by_vectors}
    if wordless is not None:
        scores |= {key: max(0.0, cosine) for key, cosine in by_vectors if wordless(key)}
    for key, score in by_words:
        scores[key] = scores.get(key, 0.0) + text * score / total
    return scores


def _shares(ranked: Scored) -> Scored:
    """The excess of each score over the ``DEEP``th, or over 0 in a shorter list, as a share of the best."""
    best = ranked[0][1] if ranked else 0.0
    floor = max(0.0, ranked[DEEP - 1][1]) if len(ranked) >= DEEP else 0.0
    return [(key, (score - floor) / best if score > floor else 0.0) for key, score in ranked] if best > 0 else ranked


def _in_order(scores: dict[str, float], by_words: Scored, by_vectors: Scored) -> list[SearchResult]:
    return list(_found(sorted(scores, key=lambda key: (-scores[key], key)), scores, by_words, by_vectors))


def _found(
    order: Iterable[str], scores: dict[str, float], by_words: Scored, by_vectors: Scored
) -> Iterator[SearchResult]:
    """The results, made one by one: of two hundred candidates a search mostly takes twenty."""
    words, cosines = dict(by_words), dict(by_vectors)
    return (SearchResult(key, scores[key], words.get(key), cosines.get(key)) for key in order)
