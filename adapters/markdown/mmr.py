"""Maximal marginal relevance: the next best item that differs from those before it.

J. Carbonell and J. Goldstein, "The Use of MMR, Diversity-Based Reranking for Reordering Documents and Producing
Summaries", SIGIR 1998. Likeness is Jaccard's of the words, which needs no model.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from fusion.lib.jaccard import jaccard
from fusion.lib.words import find_words

Item = TypeVar("Item")
LAMBDA = 0.7


def mmr(
    items: Sequence[Item], score: Callable[[Item], float], text: Callable[[Item], str], weight: float = LAMBDA
) -> Iterator[Item]:
    """All items, each time the one with the most weight × relevance - (1 - weight) × likeness.

    Relevance: the score scaled to 0 to 1 (all 1 if they are equal). Likeness: the Jaccard similarity with the most
    similar item chosen so far. Ties: by score, then input order. ``weight`` is the λ of the paper: 1 ignores likeness,
    0 ignores relevance. Lazy: each item costs one comparison with all remaining.
    """
    rest = sorted(items, key=score, reverse=True)
    if weight >= 1 or len(rest) < 2:
        yield from rest
        return
    scores = [score(item) for item in rest]
    spread = scores[0] - scores[-1]
    relevance = [(value - scores[-1]) / spread if spread else 1.0 for value in scores]
    words = [tokens(text(item)) for item in rest]
    likeness = [0.0] * len(rest)
    left = list(range(len(rest)))
    while left:
        # The first of equals: `left` stays in the order of scores.
        best = max(left, key=lambda i: weight * relevance[i] - (1 - weight) * likeness[i])
        left.remove(best)
        yield rest[best]
        for i in left:
            likeness[i] = max(likeness[i], jaccard(words[i], words[best]))


def tokens(text: str) -> frozenset[str]:
    """Runs of letters, marks, digits and ``_`` of a text in NFC and lower case."""
    return frozenset(find_words(unicodedata.normalize("NFC", text).lower()))
