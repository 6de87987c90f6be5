"""Draws meaningless texts with the statistics of real ones, the same for the same seed.

Two words in five are the small ones of every sentence; the others come from a vocabulary of some thousands, the n-th
drawn 1/n as often as the first (G. K. Zipf, "Human behavior and the principle of least effort", 1949). A few dozen
words drawn evenly would make all texts alike, which no memories are, and would cost dedup many times what they do.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from random import Random

SMALL = (
    "the a of to and in that it for on with as was at by this from they we have but what all were when there can is "
    "be not are you i he she had his her my so if will would do did about out up then them our your me just been"
).split()
SYLLABLES = (
    "ba ce di fo gu ka le mi no pu ra se ti vo wu lan mer sto pre con der ing ber tal nor vik sun hel dro pan".split()
)
VOCABULARY = 5000
SMALL_SHARE = 0.4
NUMBER_SHARE = 0.03


@lru_cache(maxsize=1)
def _vocabulary() -> tuple[list[str], list[float]]:
    """Words of two to four syllables, and their cumulative weights."""
    draw = Random("vocabulary")
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        words["".join(draw.choice(SYLLABLES) for _ in range(draw.randrange(2, 5)))] = None
    return list(words), list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))


def word(draw: Random) -> str:
    """A content word."""
    words, weights = _vocabulary()
    return draw.choices(words, cum_weights=weights)[0]


def sentence(draw: Random, characters: int) -> str:
    """A sentence of exactly so many characters, with a number here and there."""
    text = ""
    while len(text) < characters:
        kind = draw.random()
        if kind < NUMBER_SHARE:
            text += str(draw.randrange(1000))
        else:
            text += draw.choice(SMALL) if kind < NUMBER_SHARE + SMALL_SHARE else word(draw)
        text += " "
    return text[:characters].rstrip().capitalize().ljust(characters, ".")


def question(draw: Random) -> str:
    """A question of five content words."""
    return "what about " + " ".join(word(draw) for _ in range(5)) + "?"
