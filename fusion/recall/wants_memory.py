"""Decides whether a prompt wants memory, for recipes that recall without being asked (`gate` in the recipe).

`needs_no_search` reads the prompt alone: arithmetic, or words without a subject ("continue", "thanks a lot", "do it on
Monday"). `gate` weighs, after the search, the signs of the prompt and of the best memories as a probability (logistic
regression), for each of the best memories and for each private one. It costs less than a millisecond and needs no
model.

The prompt's signs are word classes of five languages (`fusion.lib.prompt_words`). The home's signs say how telling the
prompt's words are here: which share of their information (idf) one memory has, and how unlikely it is that any memory
of this home has them by chance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, exp, isnan, log10, nan
from typing import Any

from fusion.contract import Hit, has_tag
from fusion.lib.bm25 import Counted, Frequencies, terms
from fusion.lib.prompt_words import (
    ARRANGING,
    COURTESY,
    FUNCTION,
    HERE,
    MODAL,
    ORDER,
    OWN,
    PAST,
    POSSESSIVE,
    QUESTION,
    RECALL,
    SHOWING,
    SUMS,
)
from fusion.lib.text_cache import text_cache
from fusion.lib.text_words import text_words
from fusion.lib.words import STOP_WORDS, accentless, find_words, normalise, spoken
from fusion.recall.query_dates import Dates, time_of
from fusion.recall.rerank import Scored, signals_of
from fusion.recall.signals import pool_frequencies
from fusion.recipe import GateSettings

NOTHING_SPECIFIC = "silent: nothing specific"
NO_SUBJECT = "silent: the prompt names no subject"
ARITHMETIC = "silent: arithmetic"
SILENT = frozenset({NOTHING_SPECIFIC, NO_SUBJECT, ARITHMETIC})
"""the reasons for an empty block because a prompt wants no memory"""

HEAD = 3
"""the best memories that are weighed"""
SPREAD_OVER = 5
"""the best memory is compared with the one of this rank"""
MAX_WEIGHED = 50
"""memories of the order that are looked at; the others stay as they are"""
MAX_SURPRISE = 4.0
LEADING_WORDS = 4
"""first words of a prompt that make it a question or an order"""
_ASKING = frozenset("are does est is qu que".split())
"""words of many uses that make a question where they are first"""
_YOU = frozenset("you du ihr sie tu vous usted ustedes voi lei".split())
CODE_SHARE = 0.06
"""share of a prompt's characters that are code's, from which it is code"""

_SYMBOL = re.compile(r"[{}()\[\];=<>|\\]|->|::")
_SENTENCE_END = re.compile(r"(?<=[.!?:,])\s+")
_DAILY_NOTE = re.compile(r"(?:^|/)\d{4}-?\d{2}-?\d{2}$")
_PRIVATE_FOLDER = re.compile(
    r"(?:^|[/\s_-])(?:diary|diaries|journals?|journaling|daily( notes?)?|private?|privat|tagebuch|carnet|intime|"
    r"diario|privado|privato|therapy|therapie)(?:$|[/\s_.-])",
    re.IGNORECASE,
)
_PRIVATE_TAGS = ("private", "privat", "privé", "privado", "privato", "diary", "journal")
_AGENTS_LOG = re.compile(r"(?:^|/)memory/")
"""daily logs that agents keep of their work"""

MEANING: Mapping[str, float] = {
    "bias": -7.80,
    "question": 1.94,
    "own": 1.24,
    "possessive": 2.85,
    "past": 1.77,
    "recall": 0.51,
    "here": -1.00,
    "courtesy": -4.41,
    "order": -0.88,
    "code": -5.33,
    "name": 1.90,
    "unknown": -0.57,
    "speaker": 2.64,
    "score": 5.09,
    "meaning": 7.64,
    "margin": 7.71,
    "unmatched": -2.46,
    "surprise": 0.29,
    "date": 1.43,
}
"""weights of the signs: fitted on home ``a`` of `benchmarks quiet`, half of its prompts and two development
conversations; prompts of home ``b`` and of others were held back"""
WORDS: Mapping[str, float] = {
    "bias": -4.47,
    "question": 0.91,
    "own": 1.06,
    "possessive": 2.21,
    "past": 1.92,
    "recall": 1.09,
    "here": -0.54,
    "courtesy": -3.07,
    "order": -1.16,
    "code": -1.72,
    "name": 3.19,
    "unknown": -1.05,
    "speaker": 3.60,
    "score": 8.83,
    "margin": 1.37,
    "unmatched": -2.56,
    "surprise": 2.35,
    "date": 0.55,
}
"""the same where no model has compared the prompt with the memories: fitted on home ``a``, from
earlier weights"""


@dataclass(frozen=True, slots=True)
class GateResult:
    """Whether the prompt wants memory, with the probability, the signs, and the private memories to be left out."""

    probability: float
    least: float
    signs: Mapping[str, float]
    private: frozenset[str] = frozenset()

    @property
    def silent(self) -> str | None:
        """The reason for an empty block, or None."""
        return NOTHING_SPECIFIC if self.probability < self.least else None

    def report(self) -> dict[str, Any]:
        """The result as a receipt has it."""
        return {
            "probability": round(self.probability, 4),
            "least": self.least,
            "silent": self.silent,
            "private": len(self.private),
            "signs": {name: round(value, 3) for name, value in self.signs.items()},
        }


# The prompt -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PromptWords:
    """The words of a prompt: all of them without accents, its search terms with a subject, and its names."""

    every: tuple[str, ...]
    subject: tuple[str, ...]
    names: tuple[str, ...]


@text_cache(64)
def prompt_words(text: str) -> PromptWords:
    """The words of a prompt. A name is capitalised and not the first word of a sentence."""
    every = tuple(accentless(normalise(word)) for word in find_words(text))
    subject = tuple(term for term in dict.fromkeys(terms(text)) if accentless(term) not in FUNCTION)
    capitals = (word for part in _SENTENCE_END.split(text) for word in find_words(part)[1:] if word[:1].isupper())
    return PromptWords(every, subject, tuple(word for word in capitals if accentless(normalise(word)) not in OWN))


def needs_no_search(text: str, named: Dates | None = None) -> str | None:
    """Why a prompt wants no memory in any home; None if that depends on the home.

    ``named`` are the times that the prompt names.
    """
    if named is not None and named.windows and arranges(named.rest):
        return NO_SUBJECT
    said = prompt_words(text)
    words = set(said.every)
    if not words.isdisjoint(RECALL | POSSESSIVE | OWN):
        return None
    numbers = sum(word[:1].isdigit() for word in said.every)
    rest = [word for word in said.every if not word[:1].isdigit() and word not in FUNCTION and word not in STOP_WORDS]
    sums = sum(word in SUMS for word in rest)
    if sums == len(rest) and (numbers > 1 or (numbers and sums) or (sums > 1 and not words.isdisjoint(QUESTION))):
        return ARITHMETIC
    return NO_SUBJECT if not numbers and (COURTESY | ORDER).issuperset(rest) else None


def arranges(rest: str) -> bool:
    """Whether a prompt only arranges when something happens, by its words without the times.

    "Do it", "see you" and "let's go" arrange; "what did I do", "show me" and "my notes" ask, and a time alone may.
    """
    every = prompt_words(rest).every
    words = set(every)
    led = [word for word in every if word not in COURTESY]
    request = bool(led) and led[0] in MODAL
    first = next((word for word in led if word not in MODAL | OWN | _YOU), "")
    asks = bool(words & QUESTION) or first in PAST | _ASKING or (first in SHOWING and not words & HERE)
    if not words or asks or ("?" in rest and not request) or words & (POSSESSIVE | RECALL) - ARRANGING:
        return False
    return all(word in COURTESY | ORDER | ARRANGING | MODAL | FUNCTION or word in STOP_WORDS for word in every)


def prompt_signs(text: str, frequencies: Frequencies) -> dict[str, float]:
    """What a prompt is, as signs from 0 to 1."""
    said = prompt_words(text)
    words = set(said.every)
    leading = [word for word in said.every if word not in COURTESY][:LEADING_WORDS]
    first = next((word for word in leading if word in QUESTION or word in ORDER), "")
    asks = not QUESTION.isdisjoint(said.every[:LEADING_WORDS]) or ("?" in text and bool(words & QUESTION))
    rare = 0.1 * frequencies.documents
    known = [frequencies.counts.get(term, 0) for name in said.names for term in terms(name)]
    symbols = len(_SYMBOL.findall(text)) / max(len(text), 1)
    return {
        "question": float(asks),
        "own": float(bool(words & OWN)),
        "possessive": float(bool(words & POSSESSIVE)),
        "past": float(bool(words & PAST)),
        "recall": float(bool(words & RECALL)),
        "here": float(bool(words & HERE)),
        "courtesy": sum(word in COURTESY for word in said.every) / max(len(said.every), 1),
        "order": float(first in ORDER),
        "code": float(symbols > CODE_SHARE or "```" in text),
        "name": float(any(0 < count <= max(2.0, rare) for count in known)),
    }


# The home ---------------------------------------------------------------------------------------------------------


def gate(
    order: Sequence[Scored], prompt: str, frequencies: Frequencies, named: Dates, numbers: GateSettings
) -> GateResult:
    """Whether the prompt wants memory: the higher probability of its best memories together and of a private one.

    Private memories are weighed one by one, against the threshold ``private``. Those that do not reach it are to be
    left out, except those of a day that the prompt names.
    """
    evidence = _Evidence(order, prompt, frequencies, named)
    head: list[Scored] = []
    hidden: list[str] = []
    best, signs = 0.0, evidence.signs([])
    for scored in order[:MAX_WEIGHED]:
        if not is_private(scored.pooled.candidate.hit):
            if len(head) < HEAD and not evidence.repeats_prompt(scored):
                head.append(scored)
            continue
        alone = evidence.signs([scored])
        probability = probability_of(alone)
        if probability < numbers.private and not alone["date"]:
            hidden.append(scored.ref)
        elif probability > best:
            best, signs = probability, alone
    together = evidence.signs(head)
    if (probability := probability_of(together)) >= best:
        best, signs = probability, together
    return GateResult(best, numbers.wants_memory, signs, frozenset(hidden))


def probability_of(signs: Mapping[str, float]) -> float:
    """The probability that these signs are those of a prompt that memory helps."""
    weights = WORDS if isnan(signs["meaning"]) else MEANING
    return 1 / (1 + exp(-sum(weight * signs.get(name, 1.0) for name, weight in weights.items())))


class _Evidence:
    """The signs of a prompt, and of memories for it."""

    def __init__(self, order: Sequence[Scored], prompt: str, frequencies: Frequencies, named: Dates) -> None:
        self._asked = prompt_words(prompt).subject
        if frequencies.documents < len(order):  # external memories are not in the journal
            frequencies = pool_frequencies([_counted(scored) for scored in order], self._asked)
        self._frequencies = frequencies
        self._information = sum(frequencies.idf(term) for term in self._asked)
        self._dates = named
        self._level = order[min(SPREAD_OVER, len(order)) - 1].local if order else 0.0
        known = sum(frequencies.idf(term) for term in self._asked if frequencies.counts.get(term))
        speakers = signals_of(order[:MAX_WEIGHED]).column("speaker").tolist() if order else []
        self._of_prompt = {
            **prompt_signs(prompt, frequencies),
            "unknown": 1 - known / self._information if self._information else 1.0,
            "speaker": float(1.0 in speakers),
        }

    def signs(self, memories: Sequence[Scored]) -> dict[str, float]:
        """The signs of the prompt and of these memories, of which the first is the best."""
        best = memories[0] if memories else None
        return {
            **self._of_prompt,
            "score": best.local if best else 0.0,
            "meaning": (best.signals.get("dense", 0.0) if best.complete else nan) if best else 0.0,
            "margin": max(0.0, best.local - self._level) if best else 0.0,
            "unmatched": float(not any(map(self._matched, memories))),
            "surprise": max(map(self._surprise, memories), default=0.0),
            "date": float(any(map(self._is_of_named_date, memories))),
        }

    def repeats_prompt(self, scored: Scored) -> bool:
        """Whether a memory says no more than the prompt: an earlier "commit and push" adds nothing to a later one."""
        return text_words(scored.pooled.candidate.hit.text).terms.counts.keys() <= set(self._asked)

    def _matched(self, scored: Scored) -> list[str]:
        """The prompt's terms that a memory has."""
        counts = _counted(scored).counts
        return [term for term in self._asked if term in counts]

    def _surprise(self, scored: Scored) -> float:
        """-log10 of the number of memories of this length that have these terms of the prompt by chance."""
        text, frequencies = _counted(scored), self._frequencies
        documents = max(frequencies.documents, 1)
        share = text.length / max(frequencies.average_length, 1.0) / documents
        matched = self._matched(scored)
        expected = log10(documents * comb(len(self._asked), len(matched)))
        expected += sum(log10(min(1.0, max(frequencies.counts.get(term, 0), 1) * share)) for term in matched)
        return min(MAX_SURPRISE, max(0.0, -expected))

    def _is_of_named_date(self, scored: Scored) -> bool:
        return bool(self._dates.windows) and self._dates.closeness(time_of(scored.pooled.candidate.hit)) == 1.0


def _counted(scored: Scored) -> Counted:
    hit = scored.pooled.candidate.hit
    return text_words(spoken(hit.text, hit.speaker)).terms


def is_private(hit: Hit) -> bool:
    """Whether a memory is of a diary or marked as private: by its folder, a date as its file's name, or a tag.

    Tags in the note's front matter count, and those in the text; a passage has the tags of the whole text.
    """
    if hit.place is None or hit.place.unit == "turn":
        return False
    document = hit.place.document
    if _AGENTS_LOG.search(document):
        return False
    return bool(
        _PRIVATE_FOLDER.search(document)
        or _DAILY_NOTE.search(document.removesuffix(".md"))
        or any(has_tag(hit, (), tag) for tag in _PRIVATE_TAGS)
    )
