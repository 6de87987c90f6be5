"""The words of a text, read once for every way in which they are compared."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.bm25 import Counted
from fusion.lib.text_words import SKETCH_BITS, text_words
from fusion.lib.words import stems, word_list, words_and_stems

TEXTS = st.one_of(st.text(), st.text("abcI'., \u0130\u212a\uff21\u3042\u05d0\u200d\U0001f600"))
"""any texts, and some with letters whose normalised form is in ASCII, though they are not"""


@given(TEXTS)
def test_words_and_stems_are_those_of_each_alone(text: str) -> None:
    assert words_and_stems(text) == (word_list(text), stems(text))


def test_words_of_a_text_are_counted_and_sketched() -> None:
    """Five terms, as "the" is a stop word; "pumps" has the stem of "pump", and is another word: five bits."""
    read = text_words("The pump pumps the green water pump")
    assert read.terms == Counted(5, Counter(pump=3, green=1, water=1))
    assert read.distinct == 5  # the, pump, pumps, green, water
    bits = int.from_bytes(read.sketch, "little")
    assert bits == sum({1 << hash(word) % SKETCH_BITS for word in ("the", "pump", "pumps", "green", "water")})
    assert len(read.sketch) * 8 == SKETCH_BITS
