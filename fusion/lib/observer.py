"""Compresses a turn of a conversation into an observation, by rules: one line with an importance.

The line has the turn's most telling sentences in the speaker's own words and order: those that are important, and those
with a number or a name, which nobody could guess; of a turn without any, the most central one. Of a short turn all
sentences stay. Greetings, questions, output of programs, recalled memories and secrets are left out, so small talk has
no observation. All functions are pure and take time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fusion.lib.budget import clip
from fusion.lib.envelope import said
from fusion.lib.heuristic_v1 import METHOD, heuristic_score
from fusion.lib.importance import MUST_REMEMBER, NICE_TO_HAVE
from fusion.lib.junk import junk_of
from fusion.lib.layers import GAP, layers_of
from fusion.lib.listing import one_line
from fusion.lib.redact import redact
from fusion.lib.statements import sentences

LINE_CHARS = 240
"""characters of an observation, without its speaker; a line that must be remembered may have `IMPORTANT_CHARS`"""
IMPORTANT_CHARS = 400
SHORT_CHARS = 100
"""characters of the telling sentences of a turn up to which all of them stay"""
MAX_READ_CHARS = 40_000
"""characters of a turn that are read; longer ones are pastes"""
MAX_SENTENCES = 200
"""sentences of a turn that are scored"""
MIN_CHARS = 12
"""fewest characters of a sentence in the line"""


@dataclass(frozen=True, slots=True)
class Observation:
    """What stays of a turn: one line without its speaker, its importance from 0 to 1, and the method that made it."""

    text: str
    importance: float
    method: str = METHOD


@dataclass(frozen=True, slots=True)
class _Sentence:
    number: int
    text: str
    importance: float

    @property
    def is_telling(self) -> bool:
        return self.importance >= NICE_TO_HAVE or is_specific(self.text)


_NAME = re.compile(r"(?<=[\w,;:] )[A-ZÀ-ÖØ-Þ]\w")
_NUMBER = re.compile(r"\d")


def is_specific(text: str) -> bool:
    """Whether a text has a number, or within a sentence a word with a capital letter."""
    return _NUMBER.search(text) is not None or _NAME.search(text) is not None


def observe(text: str, speaker: str | None, *, of_agent: bool) -> Observation | None:
    """The observation of a turn; None if nothing in it is worth a line.

    ``of_agent``: an agent or a program said it, so its announcements and offers are left out.
    """
    found = telling(text, speaker, of_agent=of_agent)
    if not found:
        return None
    best = max(one.importance for one in found)
    line = _joined(_chosen(found, IMPORTANT_CHARS if best >= MUST_REMEMBER else LINE_CHARS))
    return Observation(line, best)


def telling(text: str, speaker: str | None, *, of_agent: bool) -> Sequence[_Sentence]:
    """The sentences of a turn that state something, without secrets, each on one line with its importance."""
    shown = said(text[:MAX_READ_CHARS], "assistant" if of_agent else "user").text
    shown = redact(shown)[0]
    role = "assistant" if of_agent else speaker
    found: list[_Sentence] = []
    for start, end in sentences(shown):
        sentence = one_line(shown[start:end])
        if len(sentence) >= MIN_CHARS and junk_of(sentence, role) is None:
            found.append(_Sentence(len(found), sentence, heuristic_score(sentence).score))
        if len(found) == MAX_SENTENCES:
            break
    return found


def _chosen(found: Sequence[_Sentence], chars: int) -> Sequence[_Sentence]:
    """The most important sentences that fit, in their order. Of equals the one that says most of the turn is first."""
    if sum(len(one.text) for one in found) <= SHORT_CHARS:
        return found
    layers = layers_of(" ".join(one.text for one in found))
    told = [one for one in found if one.is_telling]
    central = [one for one in found if one.text in layers.abstract][:1]
    ranked = sorted(
        told or central or found[:1], key=lambda one: (-one.importance, one.text not in layers.overview, one.number)
    )
    chosen, left = [ranked[0]], chars - len(ranked[0].text)
    for one in ranked[1:]:
        if len(one.text) + len(GAP) <= left:
            chosen.append(one)
            left -= len(one.text) + len(GAP)
    return [_Sentence(one.number, clip(one.text, chars), one.importance) for one in _in_order(chosen)]


def _in_order(chosen: Sequence[_Sentence]) -> Sequence[_Sentence]:
    return sorted(chosen, key=lambda one: one.number)


def _joined(chosen: Sequence[_Sentence]) -> str:
    """The sentences on one line, with a mark where others are left out between two."""
    line = chosen[0].text
    for before, one in pairwise(chosen):
        line += (" " if one.number == before.number + 1 else GAP) + one.text
    return line
