"""What the stages compare of a text's words: the counts of its search terms, and a bit sketch of its words.

Nearly every text of a question is compared in both ways, so one pass over it finds both.
"""

from __future__ import annotations

from typing import NamedTuple

from fusion.lib.bm25 import Counted
from fusion.lib.text_cache import text_cache
from fusion.lib.words import words_and_stems

SKETCH_BITS = 512
"""bits of a sketch, 64 times a power of two; more bits separate longer texts better and take longer to compare"""

_BITS = [1 << n for n in range(SKETCH_BITS)]


class TextWords(NamedTuple):
    """The words of a text. The sketch has one bit for each of its ``distinct`` words; several may have the same."""

    terms: Counted
    distinct: int
    sketch: bytes


@text_cache(8192)
def text_words(text: str) -> TextWords:
    """Read a text's words; cached, since queries return the same memories again and again.

    Python's hash differs between processes, which is harmless: it decides which pairs are compared, not the result.
    """
    words, terms = words_and_stems(text)
    distinct = set(words)
    bits = 0
    for word in distinct:
        bits |= _BITS[hash(word) % SKETCH_BITS]
    return TextWords(Counted.of(terms), len(distinct), bits.to_bytes(SKETCH_BITS // 8, "little"))
