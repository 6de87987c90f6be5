"""BM25 over texts at hand, with the document frequencies of the whole scope.

Robertson and Zaragoza, "The probabilistic relevance framework: BM25 and beyond", 2009; k1 = 1.2, b = 0.75, and
Lucene's idf = ln(1 + (N - n + 0.5) / (n + 0.5)), which is never negative.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import log
from typing import TYPE_CHECKING, NamedTuple

from fusion.lib.words import stems

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1 = 1.2
B = 0.75


@dataclass(frozen=True, slots=True)
class Frequencies:
    """How common each term is in a scope: of ``documents`` memories, ``counts[term]`` have it.

    ``average_length`` is in terms.
    """

    documents: int = 0
    average_length: float = 1.0
    counts: Mapping[str, int] = field(default_factory=dict)

    def idf(self, term: str) -> float:
        n = min(self.counts.get(term, 0), self.documents)
        return log(1 + (self.documents - n + 0.5) / (n + 0.5))


@lru_cache(maxsize=8192)
def terms(text: str) -> tuple[str, ...]:
    """`stems`, remembered: the same memories come back query after query."""
    return tuple(stems(text))


class Counted(NamedTuple):
    """How often each term stands in a text of ``length`` terms."""

    length: int
    counts: Mapping[str, int]


@lru_cache(maxsize=8192)
def counted(text: str) -> Counted:
    """A text's terms, counted and remembered: a query then looks up its own few terms, not all of the text's."""
    found = stems(text)
    return Counted(len(found), Counter(found))


class Bm25:
    """A query, ready to be held against texts: the idf of each of its terms, and the most that they can count."""

    def __init__(self, query: Sequence[str], frequencies: Frequencies) -> None:
        self._weights = {term: frequencies.idf(term) for term in query}
        self._most = sum(self._weights.values()) * (K1 + 1)
        self._average_length = max(frequencies.average_length, 1.0)

    def score(self, *texts: Counted) -> float:
        """The score of texts read as one, as a share of the highest that the query allows, 0 to 1.

        A term that occurs without end would count k1 + 1 times its idf; that bound makes scores comparable between
        queries. The more texts, the longer they may be together.
        """
        length = 0
        for text in texts:
            length += text.length
        scale = K1 * (1 - B + B * length / (self._average_length * len(texts)))
        total = 0.0
        for term, weight in self._weights.items():  # always in the same order: sums of floats depend on it
            count = 0
            for text in texts:
                count += text.counts.get(term, 0)
            if count:
                total += weight * count * (K1 + 1) / (count + scale)
        return total / self._most if total else 0.0

    def scores(self, texts: Sequence[Counted], beside: Sequence[Sequence[int | None]] = ()) -> NDArray[np.float64]:
        """`score` of each text read as one with those beside it: ``beside`` has rows of where among the texts one is.

        The same to the last digit, for many texts at a fifth of the time.
        """
        import numpy as np

        counts = np.array([[text.counts.get(term, 0) for term in self._weights] for text in texts], dtype=np.float64)
        lengths = np.array([text.length for text in texts], dtype=np.float64)
        read, length, number = counts.copy(), lengths.copy(), np.ones(len(texts))
        for others in beside:
            here, there = pairs(others)
            read[here] += counts[there]
            length[here] += lengths[there]
            number[here] += 1
        scale = K1 * (1 - B + B * length / (self._average_length * number))
        total = np.zeros(len(texts))
        for weight, count in zip(self._weights.values(), read.T, strict=True):
            total += weight * count * (K1 + 1) / (count + scale)
        return total / self._most if self._most else total


def pairs(others: Sequence[int | None]) -> tuple[list[int], list[int]]:
    """Where there is another one, and where that one is."""
    here = [i for i, j in enumerate(others) if j is not None]
    return here, [j for j in others if j is not None]
