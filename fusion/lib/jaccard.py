"""Jaccard similarity of word sets, and the guard words that keep similar texts with different statements apart.

P. Jaccard, "Étude comparative de la distribution florale", 1901: |a ∩ b| / |a ∪ b|.
"""

from __future__ import annotations

import re
from collections.abc import Set

_NUMBER = re.compile(r"\d")
# Words that negate a statement or place it in time: two texts that differ in one of these state different things,
# however many words they share.
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
    """|a ∩ b| / |a ∪ b|, from 0 to 1; it is 1 for two empty sets."""
    if not a or not b:
        return 1.0 if not a and not b else 0.0
    common = len(a & b)
    return common / (len(a) + len(b) - common)


def guard_words(words: Set[str]) -> frozenset[str]:
    """The negations, dates and words with a digit among the words of a text."""
    return frozenset(w for w in words if w in NEGATIONS or w in DATES or _NUMBER.search(w))
