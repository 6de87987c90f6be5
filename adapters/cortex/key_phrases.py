"""Extract the key phrases ("concepts") of a text, without a model.

RAKE: S. Rose et al., "Automatic keyword extraction from individual documents", 2010. A phrase is a run of words between
stop words and punctuation. Two memories that share one are linked, even if neither has a name: "signed up for a pottery
class" and "my pottery class starts today".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from fusion.lib.words import STOP_WORDS, normalise

PHRASE = "phrase"
"""the entity type of a key phrase, in stores where it is a node"""

MIN_WORD_CHARS = 3
"""minimum characters of a word that is a concept; "ok" and "uh" are none"""

MAX_PHRASES = 64
"""maximum phrases of one text; a text with more is a document, and its first ones say what it is about"""

READ_CHARS = 4_000
"""characters of a text that are read"""

_PIECE = re.compile(r"[^\W\d_][\w'’+#-]*|\S")


def key_phrases(text: str) -> list[str]:
    """Key phrases in their order, each once, in lower case; at most 64. A phrase has one or two words."""
    found: dict[str, None] = {}
    for run in _runs(text[:READ_CHARS]):
        found.update(dict.fromkeys(run if len(run) == 1 else map(" ".join, pairwise(run))))
        if len(found) >= MAX_PHRASES:
            break
    return list(found)[:MAX_PHRASES]


def _runs(text: str) -> Iterator[list[str]]:
    """Runs of content words without a stop word or punctuation between them."""
    run: list[str] = []
    for piece in _PIECE.findall(normalise(text)):
        if piece in STOP_WORDS or len(piece) < MIN_WORD_CHARS or not piece[0].isalpha():
            if run:
                yield run
            run = []
        else:
            run.append(piece)
    if run:
        yield run
