"""Texts as sparse vectors, so that Qdrant's inner product of a query and a memory is their BM25 score.

A term's number is that of fastembed's ``Qdrant/bm25``, the usual maker of such vectors: the MurmurHash3 of its English
stem, without sign. A memory weighs each of its terms by its frequency (Robertson and Zaragoza, "The
probabilistic relevance framework: BM25 and beyond", 2009; k1 = 1.2, b = .75); a question weighs each as 1; and Qdrant
multiplies by idf, which it keeps up to date, where the vector's modifier says so.
"""

from __future__ import annotations

from fusion.lib.bm25 import K1, B
from fusion.lib.text_cache import text_cache
from fusion.lib.text_words import text_words

AVERAGE_LENGTH = 32
"""assumed terms of a memory: turns have some fifteen, pieces of notes a hundred. It must never change."""

Sparse = dict[str, list[int] | list[float]]


def of_memory(text: str) -> Sparse:
    """Its terms' numbers, rising, and their weights."""
    terms = text_words(text).terms
    scale = K1 * (1 - B + B * terms.length / AVERAGE_LENGTH)
    weights: dict[int, float] = {}
    for term, count in terms.counts.items():
        weights[number(term)] = count * (K1 + 1) / (count + scale)
    return {"indices": sorted(weights), "values": [weights[n] for n in sorted(weights)]}


def of_question(text: str) -> Sparse:
    """Each of its terms once."""
    numbers = sorted({number(term) for term in text_words(text).terms.counts})
    return {"indices": numbers, "values": [1.0] * len(numbers)}


@text_cache(65_536)
def number(term: str) -> int:
    """The number of a term, below 2³¹ + 1."""
    signed = murmur3(term.encode("utf-8", "surrogatepass"))
    return signed if signed < 1 << 31 else (1 << 32) - signed


def murmur3(data: bytes) -> int:
    """Appleby's MurmurHash3_x86_32 of seed 0, an unsigned number."""
    mask, h = 0xFFFFFFFF, 0
    whole = len(data) - len(data) % 4
    for i in range(0, whole, 4):
        h ^= _mixed(int.from_bytes(data[i : i + 4], "little"))
        h = (h << 13 | h >> 19) & mask
        h = (h * 5 + 0xE6546B64) & mask
    h ^= _mixed(int.from_bytes(data[whole:], "little")) ^ len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    return h ^ h >> 16


def _mixed(k: int) -> int:
    k = k * 0xCC9E2D51 & 0xFFFFFFFF
    k = (k << 15 | k >> 17) & 0xFFFFFFFF
    return k * 0x1B873593 & 0xFFFFFFFF
