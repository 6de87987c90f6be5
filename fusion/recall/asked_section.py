"""Puts the section of a document that the question asks for right after the best memory of that document.

"Why Postgres?" finds the beginning of the note on Postgres, which names it most often. The answer is under `## Why`. A
section is asked for if all words of its heading are in the question. It is then packed before other sections of its
document, and it is not cut while the block shows the document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fusion.contract import Hit, document_of
from fusion.lib.bm25 import terms
from fusion.lib.words import find_words, normalise
from fusion.recall.rerank import Scored

_HEADING = re.compile(r"\A\s*#{2,6}[ \t]+(\S.*)")
"""the heading of a section; that of the whole note, of one #, says nothing about its parts"""


class AskedSections:
    """Which memories are sections of a document that a question asks for."""

    __slots__ = ("_terms", "_words")

    def __init__(self, question: str) -> None:
        self._words = _words(question)
        self._terms = frozenset(terms(question))

    def has(self, hit: Hit) -> bool:
        if hit.place is None or hit.place.unit != "line":
            return False
        heading = _HEADING.match(hit.text)
        words = _words(heading[1]) if heading else frozenset()
        return bool(words) and all(word in self._words or self._asks_for(word) for word in words)

    def _asks_for(self, word: str) -> bool:
        """Whether the question has the word in another form: "cost" asks for "Costs"."""
        stems = terms(word)
        return bool(stems) and self._terms.issuperset(stems)

    def first(self, order: Sequence[Scored]) -> Sequence[Scored]:
        """The order with each such section right after the best memory of its document."""
        asked = [scored for scored in order if self.has(scored.pooled.candidate.hit)]
        if not asked:
            return order
        by_document: dict[object, list[Scored]] = {}
        for scored in asked:
            by_document.setdefault(document_of(scored.pooled.candidate.hit), []).append(scored)
        keys = {scored.pooled.key for scored in asked}
        found: list[Scored] = []
        for scored in order:
            waiting = by_document.pop(document_of(scored.pooled.candidate.hit), ())
            if scored.pooled.key not in keys:
                found.append(scored)
            found += waiting
        return found


def _words(text: str) -> frozenset[str]:
    return frozenset(normalise(word) for word in find_words(text))
