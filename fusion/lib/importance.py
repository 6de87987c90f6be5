"""Importance as openclaw-mem has it (seed 004): a score from 0 to 1, its label, and the older ways to write one.

A memory without a score is unknown: nothing filters it for that. `fusion.lib.grading` is another scale, 1 to 10, for
what a distilled MEMORY.md keeps.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, Literal

from fusion.contract import Priority, State
from fusion.errors import BadInput

Label = Literal["must_remember", "nice_to_have", "unknown", "ignore"]

MUST_REMEMBER: Final = 0.8
"""lowest score of a memory that must be remembered"""
NICE_TO_HAVE: Final = 0.5
"""lowest score of a memory that is nice to have"""
LABELS: tuple[Label, ...] = ("must_remember", "nice_to_have", "unknown", "ignore")
"""from the most important to the least; unknown is between, since it may be either"""
BY_HAND = "manual"
"""the method of a score that was given rather than computed"""
VERSION = 1
"""the version of the importance object"""

SCORE_OF_LABEL: Mapping[str, float] = {"ignore": 0.0, "nice_to_have": NICE_TO_HAVE, "must_remember": MUST_REMEMBER}
"""the score of a label that comes without one"""
_ALIASES: Mapping[str, Label] = {"low": "ignore", "medium": "nice_to_have", "high": "must_remember"}
_MAX_CHARS = 40
_NUMBER = r"[+-]?(?:\d{1,12}(?:[.,]\d{0,12})?|[.,]\d{1,12})"
_PERCENT = re.compile(rf"({_NUMBER}) ?%")
_FRACTION = re.compile(rf"({_NUMBER}) ?/ ?({_NUMBER})")
_PLAIN = re.compile(_NUMBER)

_WANTED = (
    'importance: give a number from 0 to 1, "86%", "86/100", a label (must_remember, nice_to_have, ignore) '
    'or an object with "score" or "label"'
)


def label_of(score: float | None) -> Label:
    """The label of a score: unknown without one."""
    if score is None:
        return "unknown"
    if score >= MUST_REMEMBER:
        return "must_remember"
    return "nice_to_have" if score >= NICE_TO_HAVE else "ignore"


_PRIORITY_OF_LABEL: Mapping[Label, Priority] = {
    "must_remember": "P0",
    "nice_to_have": "P1",
    "ignore": "P2",
    "unknown": "P0",
}
"""what nobody graded is kept: that its importance is unknown is no reason to lose it"""


def stated_importance(state: State) -> float | None:
    """The importance that somebody stated; None for what rules graded, whose scale is another than that of facts."""
    return state.importance if state.grade is None or state.grade.method == BY_HAND else None


def priority_of(state: State) -> Priority:
    """How long a memory is kept unused: as somebody set it, else by the label of its importance."""
    return state.priority or _PRIORITY_OF_LABEL[label_of(state.importance)]


def parse_importance(value: Any) -> float | None:
    """The score, 0 to 1, that a value states in any of the older ways; None for null and for the label "unknown".

    It reads numbers, percentages, fractions, labels with their aliases low, medium and high, and objects with a score
    or else a label. Digits of any script count. Raises BadInput for anything else and for a score out of range.
    """
    if isinstance(value, Mapping):
        stated = value.get("label") if value.get("score") is None else value["score"]
        if isinstance(stated, Mapping):
            raise BadInput(_WANTED)
        return parse_importance(stated)
    if value is None:
        return None
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadInput(_WANTED)
    return _share(float(value))


def _of_text(written: str) -> float | None:
    if len(written) > _MAX_CHARS:
        raise BadInput(_WANTED)
    text = unicodedata.normalize("NFKC", written).strip().casefold()
    word = re.sub(r"[ -]", "_", text)
    label = _ALIASES.get(word, word)
    if label == "unknown":
        return None
    if label in SCORE_OF_LABEL:
        return SCORE_OF_LABEL[label]
    if found := _PERCENT.fullmatch(text):
        return _share(_number(found[1]) / 100)
    if found := _FRACTION.fullmatch(text):
        whole = _number(found[2])
        if whole <= 0:
            raise BadInput(_WANTED)
        return _share(_number(found[1]) / whole)
    if _PLAIN.fullmatch(text):
        return _share(_number(text))
    raise BadInput(_WANTED)


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _share(number: float) -> float:
    if not (isfinite(number) and 0 <= number <= 1):
        raise BadInput(_WANTED)
    return number
