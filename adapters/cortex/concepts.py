"""The concepts that a text speaks of: its key phrases, found without a model.

S. Rose et al., "Automatic keyword extraction from individual documents" (RAKE), 2010: what stands between stop words
and punctuation is a phrase. Two memories that share one are linked by it, though neither names anybody: "signed up for
a pottery class" and "my pottery class starts today".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from fusion.lib.words import STOP_WORDS, normalise

PHRASE = "phrase"
"""the entity type of a concept, in stores where it is a node; what somebody names becomes an entity of its own type"""

SHORTEST_WORD = 3
"""letters: "ok", "ah" and "uh" are no concepts"""

MOST = 64
"""phrases of one text: what has more is a document, and its first ones tell what it is about"""

READ_CHARS = 4_000
"""of a text"""

_PIECE = re.compile(r"[^\W\d_][\w'’+#-]*|\S")


def concepts(text: str) -> list[str]:
    """Key phrases in their order, each once, in lower case; at most 64.

    A word that stands alone, or two that stand together: phrases of three find no more.
    """
    found: dict[str, None] = {}
    for run in _runs(text[:READ_CHARS]):
        found.update(dict.fromkeys(run if len(run) == 1 else map(" ".join, pairwise(run))))
        if len(found) >= MOST:
            break
    return list(found)[:MOST]


def _runs(text: str) -> Iterator[list[str]]:
    """Content words that stand together."""
    run: list[str] = []
    for piece in _PIECE.findall(normalise(text)):
        if piece in STOP_WORDS or len(piece) < SHORTEST_WORD or not piece[0].isalpha():
            if run:
                yield run
            run = []
        else:
            run.append(piece)
    if run:
        yield run
