"""The layers of a text, by rules: an abstract of one line (L0) and an overview of a few sentences (L1).

The text itself is the third layer, its detail (L2). A short text is its own abstract and overview. All functions are
pure and take time linear in the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fusion.lib.budget import clip
from fusion.lib.statements import sentences
from fusion.lib.words import stems

METHOD = "rules-1"
"""the method and version of these layers: what another one made is made again"""
ABSTRACT_CHARS = 160
OVERVIEW_CHARS = 450
"""characters of a passage, too: an overview is as long as a part of the text"""
MAX_READ_CHARS = 40_000
"""characters of a text from which its layers are made"""
GAP = " […] "
SHORT_WORDS = 5
"""words that are added to a sentence's length, so that a short one does not win by a single frequent word"""


@dataclass(frozen=True, slots=True)
class Layers:
    """The abstract and the overview of a text, each on one line.

    ``method`` made them: a version of the rules, or the name of a language model.
    """

    abstract: str
    overview: str
    method: str = METHOD


@dataclass(frozen=True, slots=True)
class _Sentence:
    at: int
    line: str
    terms: frozenset[str]


NEW_SHARE = 2
"""of a sentence of the overview, one in so many words at least is not in the others: it repeats none of them"""


def layers_of(text: str) -> Layers:
    """The layers of a text: its most central sentences, in its own words and order, with gaps marked.

    It takes .3 ms for 2,000 characters. `fusion.journal.layers` keeps those of memories. Nothing is kept here, so no
    text is left when it is forgotten.
    """
    if len(text) <= ABSTRACT_CHARS:
        line = " ".join(text.split())
        return Layers(line, line)
    found = _sentences(text[:MAX_READ_CHARS])
    ranked = _most_central_first(found)
    abstract = ranked[0].line if ranked else " ".join(text.split())
    return Layers(clip(abstract, ABSTRACT_CHARS), _overview(text, found, ranked))


def _overview(text: str, found: Sequence[_Sentence], ranked: Sequence[_Sentence]) -> str:
    line = " ".join(text.split())
    if len(line) <= OVERVIEW_CHARS or not ranked:
        return clip(line, OVERVIEW_CHARS)
    chosen: list[_Sentence] = []
    said: frozenset[str] = frozenset()
    left = OVERVIEW_CHARS
    for one in ranked:
        if len(one.line) + len(GAP) <= left and len(one.terms - said) * NEW_SHARE >= len(one.terms):
            chosen.append(one)
            said |= one.terms
            left -= len(one.line) + len(GAP)
    if not chosen:
        return clip(ranked[0].line, OVERVIEW_CHARS)
    chosen.sort(key=lambda one: one.at)
    numbers = {one.at: number for number, one in enumerate(found)}
    joined = chosen[0].line
    for before, one in pairwise(chosen):
        joined += (" " if numbers[one.at] == numbers[before.at] + 1 else GAP) + one.line
    return joined


def best_sentence(text: str, question: str) -> str:
    """The sentence of a text that has most of a question's words, on one line; "" if none has any."""
    asked = frozenset(stems(question))
    best, most = "", 0
    for one in _sentences(text[:MAX_READ_CHARS]):
        shared = len(asked & one.terms)
        if shared > most:
            best, most = one.line, shared
    return best


def _sentences(text: str) -> list[_Sentence]:
    found = []
    for start, end in sentences(text):
        line = " ".join(text[start:end].split())
        if terms := frozenset(stems(line)):
            found.append(_Sentence(start, line, terms))
    return found


def _most_central_first(found: Sequence[_Sentence]) -> list[_Sentence]:
    """The sentences by the mean weight of their words; a word weighs as much as sentences that have it.

    Of equals the earlier one is first.
    """
    weights = Counter(term for one in found for term in one.terms)
    worth = {one.at: sum(weights[term] for term in one.terms) / (SHORT_WORDS + len(one.terms)) for one in found}
    return sorted(found, key=lambda one: (-worth[one.at], one.at))
