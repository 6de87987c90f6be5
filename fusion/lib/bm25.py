"""BM25 scores of texts in memory, with the document frequencies of the whole scope.

Robertson and Zaragoza, "The probabilistic relevance framework: BM25 and beyond", 2009; k1 = 1.2, b = 0.75, and
Lucene's idf = ln(1 + (N - n + 0.5) / (n + 0.5)), which is never negative.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import TYPE_CHECKING, NamedTuple

from fusion.lib.text_cache import text_cache
from fusion.lib.words import stems

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

K1 = 1.2
B = 0.75


@dataclass(frozen=True, slots=True)
class Frequencies:
    """The document frequencies of a scope: ``counts[term]`` of its ``documents`` memories have the term.

    ``average_length`` of a memory is in terms.
    """

    documents: int = 0
    average_length: float = 1.0
    counts: Mapping[str, int] = field(default_factory=dict)

    def idf(self, term: str) -> float:
        """The inverse document frequency of a term, 0 or more."""
        n = min(self.counts.get(term, 0), self.documents)
        return log(1 + (self.documents - n + 0.5) / (n + 0.5))


@text_cache(8192)
def terms(text: str) -> tuple[str, ...]:
    """`stems` with a cache: the same memories occur in many queries."""
    return tuple(stems(text))


class Counted(NamedTuple):
    """A text of ``length`` terms, with the count of each."""

    length: int
    counts: Mapping[str, int]

    @classmethod
    def of(cls, terms: Sequence[str]) -> Counted:
        return cls(len(terms), Counter(terms))


class Bm25:
    """A query prepared for scoring: the idf of each of its terms, and the highest possible score."""

    def __init__(self, query: Sequence[str], frequencies: Frequencies) -> None:
        self._weights = {term: frequencies.idf(term) for term in query}
        self._highest = sum(self._weights.values()) * (K1 + 1)
        self._average_length = max(frequencies.average_length, 1.0)

    def score(self, *texts: Counted) -> float:
        """The score of the texts as one, divided by the highest possible score of the query: 0 to 1.

        A term counts at most k1 + 1 times its idf, however often it occurs; this bound makes scores comparable between
        queries. The length is compared with the average length times the number of texts.
        """
        length = 0
        for text in texts:
            length += text.length
        scale = K1 * (1 - B + B * length / (self._average_length * len(texts)))
        total = 0.0
        for term, weight in self._weights.items():  # in a fixed order, since sums of floats depend on it
            count = 0
            for text in texts:
                count += text.counts.get(term, 0)
            if count:
                total += weight * count * (K1 + 1) / (count + scale)
        return total / self._highest if total else 0.0

    def scores(self, texts: Sequence[Counted], adjacent: Sequence[Sequence[int | None]] = ()) -> NDArray[np.float64]:
        """`score` of each text together with its adjacent texts, equal to the last digit, in a fifth of the time.

        Each row of ``adjacent`` has, for each text, the index of one adjacent text or None.
        """
        import numpy as np

        columns = [[text.counts.get(term, 0) for text in texts] for term in self._weights]
        counts = np.array(columns, dtype=np.float64).reshape(len(columns), len(texts)).T
        lengths = np.array([text.length for text in texts], dtype=np.float64)
        read, length, number = counts.copy(), lengths.copy(), np.ones(len(texts))
        for others in adjacent:
            here, there = pairs(others)
            read[here] += counts[there]
            length[here] += lengths[there]
            number[here] += 1
        scale = K1 * (1 - B + B * length / (self._average_length * number))
        total = np.zeros(len(texts))
        for weight, count in zip(self._weights.values(), read.T, strict=True):
            total += weight * count * (K1 + 1) / (count + scale)
        return total / self._highest if self._highest else total


def pairs(others: Sequence[int | None]) -> tuple[list[int], list[int]]:
    """The indices of the texts that have an adjacent text, and the indices of those."""
    here = [i for i, j in enumerate(others) if j is not None]
    return here, [j for j in others if j is not None]
