"""Which pairs of many texts may be alike: a question asked of all pairs at once, before any two are compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

from fusion.lib.words import words

BITS = 512
"""of a text's sketch, a multiple of 64; more would separate longer texts better and cost more to compare"""

SHORT = 96
"""words of a text; up to so many, half a sketch will do"""


def possible(texts: Sequence[str], threshold: float, since: int = 0) -> dict[int, list[int]]:
    """By index, the other texts that may be as alike as ``threshold``; every pair that is, is in it.

    Asked for those from ``since`` on, each beside all.
    A sketch has a bit for each word, which words may share. Two texts cannot have more words in common than their
    sketches have bits in common, plus the words that the one with fewer collisions loses to them; and a Jaccard of t
    takes t / (1 + t) · (n + m) words in common. All pairs are counted at once, 64 bits at a time.
    """
    import numpy as np

    if not texts:
        return {}
    sketches = [sketch(text) for text in texts]
    sizes = np.array([size for size, _ in sketches], dtype=np.float32)
    chunks = np.frombuffer(b"".join([bits for _, bits in sketches]), dtype=np.uint64).reshape(len(texts), -1).T.copy()
    if sizes.max() <= SHORT:  # half the bits tell short texts apart as well
        chunks = chunks[: len(chunks) // 2] | chunks[len(chunks) // 2 :]
    common = np.zeros((len(texts) - since, len(texts)), dtype=np.uint16)
    for chunk in chunks:
        common += np.bitwise_count(chunk[since:, None] & chunk)
    lost = sizes - np.bitwise_count(chunks).sum(axis=0, dtype=np.uint16)
    # A hair less than the product: 0.375 × 8 must not become 3.0000002 and shut out three words of five.
    needed = threshold / (1 + threshold) * (sizes[since:, None] + sizes) - 1e-3
    found: dict[int, list[int]] = defaultdict(list)
    for i, j in np.argwhere(common + np.minimum(lost[since:, None], lost) >= needed).tolist():
        if i + since != j:
            found[i + since].append(j)
    return found


@lru_cache(maxsize=16_384)
def sketch(text: str) -> tuple[int, bytes]:
    """How many words a text has, and their bits; remembered, because the same memories come back query after query.

    Python's own hash will do, though processes differ in it: it decides what is compared, not what is found.
    """
    distinct = words(text)
    bits = 0
    for word in distinct:
        bits |= 1 << hash(word) % BITS
    return len(distinct), bits.to_bytes(BITS // 8, "little")
