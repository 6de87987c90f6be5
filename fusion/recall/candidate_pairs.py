"""Which pairs of many texts may be alike: a question asked of all pairs at once, before any two are compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

from fusion.lib.words import words

SKETCH_BITS = 512
"""of a text's sketch, 64 times a power of two; more would separate longer texts better and cost more to compare"""

FOLDED_BITS_PER_WORD = 4
"""of a sketch folded onto itself, in the mean: they tell nearly all pairs apart, and only the others are held side by
side as a whole"""

BATCH_TEXTS = 64
"""texts that are held beside all before them at a time: 64 by 500 sketches stay in the processor's cache"""


def possible_pairs(texts: Sequence[str], threshold: float, since: int = 0) -> dict[int, list[int]]:
    """By index, the texts before it that may be as alike as ``threshold``; every pair that is, is in it.

    Asked for those from ``since`` on, each beside all before it.
    A sketch has a bit for each word, which words may share. Two texts cannot have more words in common than their
    sketches have bits in common, plus the words that the one with fewer collisions loses to them; and a Jaccard of t
    takes t / (1 + t) · (n + m) words in common. Half of both's lost words is no less than the fewer of them.
    """
    import numpy as np

    if len(texts) <= since:
        return {}
    sketches = [sketch(text) for text in texts]
    sizes = np.array([size for size, _ in sketches], dtype=np.float32)
    chunks = np.frombuffer(b"".join([bits for _, bits in sketches]), dtype=np.uint64).reshape(len(texts), -1).T
    folded = chunks
    while len(folded) > 1 and len(folded) * 32 >= sizes.mean() * FOLDED_BITS_PER_WORD:
        folded = folded[: len(folded) // 2] | folded[len(folded) // 2 :]
    # A hair less than the product: 0.375 × 8 must not become 3.0000002 and shut out three words of five.
    needed = threshold / (1 + threshold) * sizes - 1e-3
    lost = sizes - np.bitwise_count(chunks).sum(axis=0, dtype=np.uint16)
    needed_folded = needed - (sizes - np.bitwise_count(folded).sum(axis=0, dtype=np.uint16)) / 2
    found: dict[int, list[int]] = defaultdict(list)
    for low in range(since, len(texts), BATCH_TEXTS):
        high = min(low + BATCH_TEXTS, len(texts))
        common = np.zeros((high - low, high), dtype=np.uint16)  # a byte is not enough for the bits of long texts
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


@lru_cache(maxsize=16_384)
def sketch(text: str) -> tuple[int, bytes]:
    """How many words a text has, and their bits; remembered, because the same memories come back query after query.

    Python's own hash will do, though processes differ in it: it decides what is compared, not what is found.
    """
    distinct = words(text)
    bits = 0
    for word in distinct:
        bits |= 1 << hash(word) % SKETCH_BITS
    return len(distinct), bits.to_bytes(SKETCH_BITS // 8, "little")
