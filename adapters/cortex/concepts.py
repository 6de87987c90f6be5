"""The concepts that a text speaks of: its key phrases, found without a model.

S. Rose et al., "Automatic keyword extraction from individual documents" (RAKE), 2010: what stands between stop words
and punctuation is a phrase. Two memories that share one are linked by it, though neither names anybody: "signed up for
a pottery class" and "my pottery class starts today".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from adapters.cortex.port import Memory
from adapters.graph import PHRASE
from fusion.contract import Entity, Extraction
from fusion.lib.words import STOP_WORDS, normalise

LONGEST = 3
"""words of a phrase; of a longer run, every two and three that stand together"""

SHORTEST_WORD = 3
"""letters: "ok", "ah" and "uh" are no concepts"""

MOST = 64
"""phrases of one text: what has more is a document, and its first ones tell what it is about"""

READ_CHARS = 4_000
"""of a text"""

_PIECE = re.compile(r"[^\W\d_][\w'’+#-]*|\S")


def concepts(text: str) -> list[str]:
    """Key phrases in their order, each once, in lower case; at most 64."""
    found: dict[str, None] = {}
    for run in _runs(text[:READ_CHARS]):
        if len(run) <= LONGEST:
            found[" ".join(run)] = None
        for length in range(2, LONGEST + 1):
            found.update((" ".join(run[i : i + length]), None) for i in range(len(run) - length + 1))
        if len(found) >= MOST:
            break
    return list(found)[:MOST]


def with_concepts(memory: Memory) -> Extraction:
    """What a memory mentions in a store: what capture found in it, and its concepts."""
    known = memory.extraction
    phrases = (Entity(phrase, PHRASE) for phrase in concepts(memory.event.text))
    return replace(known, entities=(*known.entities, *phrases))


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
