"""Jaccard similarity of word sets, and the guard that keeps apart what only looks alike.

P. Jaccard, "Étude comparative de la distribution florale", 1901: |a ∩ b| / |a ∪ b|.
"""

from __future__ import annotations

import re
from collections.abc import Set

_NUMBER = re.compile(r"\d")
# Words that turn a statement round, and words that place it in time: where two texts differ in one of these,
# they say different things however many words they share.
NEGATIONS = frozenset(
    "no not never none nobody nothing neither nor without cannot cant dont doesnt didnt isnt wasnt werent wont "
    "wouldnt shouldnt couldnt hasnt havent hadnt arent stopped quit refuse refused false "
    "don doesn didn isn wasn weren won wouldn shouldn couldn hasn haven hadn aren".split()
)
DATES = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december jan feb mar apr jun jul aug sep sept oct nov dec yesterday today tomorrow "
    "tonight morning afternoon evening spring summer autumn fall winter last next".split()
)


def jaccard(a: Set[str], b: Set[str]) -> float:
    """|a ∩ b| / |a ∪ b|, from 0 to 1; two empty sets are the same text, so 1."""
    if not a or not b:
        return 1.0 if not a and not b else 0.0
    common = len(a & b)
    return common / (len(a) + len(b) - common)


def telling(words: Set[str]) -> frozenset[str]:
    """The words of a text that the guard looks at: negations, dates, and whatever has a digit."""
    return frozenset(w for w in words if w in NEGATIONS or w in DATES or _NUMBER.search(w))
