"""Finds the pairs among many texts that can reach a Jaccard threshold, by bit sketches, before exact comparison."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from fusion.lib.text_words import text_words

FOLDED_BITS_PER_WORD = 4
"""mean bits per word of a folded sketch: they exclude nearly all pairs; the rest is compared by whole sketches"""

BATCH_TEXTS = 64
"""texts compared with all before them at a time: 64 by 500 sketches fit in the processor's cache"""


def possible_pairs(texts: Sequence[str], threshold: float, since: int = 0) -> dict[int, list[int]]:
    """For each text from ``since`` on, the earlier texts whose Jaccard with it may reach ``threshold``, by index.

    No pair that reaches it is missed. A sketch has one bit per word, which several words may share. Two texts have at
    most as many words in common as their sketches have bits in common, plus the words that the text with fewer
    collisions loses to them. A Jaccard of t needs t / (1 + t) · (n + m) words in common. In the folded sketches the
    mean of both texts' lost words replaces the smaller number, which it is never below.
    """
    import numpy as np

    if len(texts) <= since:
        return {}
    read = [text_words(text) for text in texts]
    sizes = np.array([words.distinct for words in read], dtype=np.float32)
    chunks = np.frombuffer(b"".join([words.sketch for words in read]), dtype=np.uint64).reshape(len(texts), -1).T
    folded = chunks
    while len(folded) > 1 and len(folded) * 32 >= sizes.mean() * FOLDED_BITS_PER_WORD:
        folded = folded[: len(folded) // 2] | folded[len(folded) // 2 :]
    # Slightly less than the product: 0.375 × 8 must not become 3.0000002 and exclude three common words.
    needed = threshold / (1 + threshold) * sizes - 1e-3
    lost = sizes - np.bitwise_count(chunks).sum(axis=0, dtype=np.uint16)
    needed_folded = needed - (sizes - np.bitwise_count(folded).sum(axis=0, dtype=np.uint16)) / 2
    found: dict[int, list[int]] = defaultdict(list)
    for low in range(since, len(texts), BATCH_TEXTS):
        high = min(low + BATCH_TEXTS, len(texts))
        common = np.zeros((high - low, high), dtype=np.uint16)  # a byte would overflow for long texts
        for chunk in folded:
            common += np.bitwise_count(chunk[low:high, None] & chunk[:high])
        met = np.flatnonzero(common >= needed_folded[low:high, None] + needed_folded[:high])
        i, j = met // high + low, met % high
        i, j = i[j < i], j[j < i]
        common = np.bitwise_count(chunks[:, i] & chunks[:, j]).sum(axis=0, dtype=np.uint16)
        alike = common + np.minimum(lost[i], lost[j]) >= needed[i] + needed[j]
        for one, other in zip(i[alike].tolist(), j[alike].tolist(), strict=True):
            found[one].append(other)
    return found
