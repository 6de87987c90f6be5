"""The piece of a text that a question is most likely about, short enough to be shown beside others."""

from __future__ import annotations

from dataclasses import dataclass

from fusion.lib.budget import clip
from fusion.lib.words import stems

SNIPPET_CHARS = 700
"""seed 001's bound"""


@dataclass(frozen=True, slots=True)
class Snippet:
    """``start`` and ``end`` are lines of the text, from 0, both included."""

    text: str
    start: int
    end: int


def snippet(text: str, question: str, limit: int = SNIPPET_CHARS) -> Snippet:
    """Whole lines, at most ``limit`` characters, that share the most different words with the question; the first such.

    A single line that is longer is cut at its end. A text that fits is given as it is.
    """
    lines = text.split("\n")
    if len(text) <= limit:
        return Snippet(text, 0, len(lines) - 1)
    asked = frozenset(stems(question))
    said = [asked.intersection(stems(line)) for line in lines]
    best, most = (0, 0), -1
    first = size = 0
    for last, line in enumerate(lines):
        size += len(line) + (last > first)
        while size > limit and first < last:
            size -= len(lines[first]) + 1
            first += 1
        found = len(frozenset().union(*said[first : last + 1]))
        # Of windows that say as much, the first; it grows as long as it still fits.
        if found > most or (found == most and first == best[0]):
            best, most = (first, last), found
    start, end = best
    return Snippet(clip("\n".join(lines[start : end + 1]), limit), start, end)
