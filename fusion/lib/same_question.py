"""Whether two questions ask for the same in other words, as far as their words can tell.

Vectors cannot: "upload" and "download", "at home" and "at work" are as near to each other as synonyms are. So the same
content words are required, in forms or listed synonyms of each other (`fusion.lib.word_forms`), and the same function
words of those that decide what is asked.
"""

from __future__ import annotations

import re
from collections.abc import Set

from fusion.lib.jaccard import guard_words
from fusion.lib.paraphrase import Kind, difference
from fusion.lib.word_forms import FUNCTION_WORDS, canonical, names, same_word
from fusion.lib.words import words

DECISIVE = frozenset(
    "who whom whose when where why how before after since until with without for against from off on in out up down "
    "over under above below can could may might must shall should will would i me he him she her us them all some any "
    "each both few more most only".split()
)
"""function words that change what a question asks"""
_DO, _BE = frozenset(("do", "does", "did")), frozenset("is are am be been being was were".split())
_PAST = frozenset("did was were had has have".split())
NEUTRAL = _DO | _BE | _PAST | frozenset("a an the that which what there we our please".split())
"""words that may be in only one of two questions that are answered alike, if all others are in both, in their order"""
_POLITE = re.compile(
    r"^(?:(?:please|(?:can|could) you|tell me|remind me|do you (?:know|remember)|okay|ok|so|and)[,\s]+)+", re.IGNORECASE
)
"""what comes before a question and asks nothing"""


def asks_the_same(one: str, other: str) -> bool | None:
    """Whether two questions ask for the same; None if only their vectors can tell: the same words in another order."""
    one, other = _POLITE.sub("", one, count=1), _POLITE.sub("", other, count=1)
    if difference(one, other).kind is not Kind.ALIKE or not _may_be_alike(one, other):
        return False
    if _in_same_order(one, other):
        return True
    return False if _asks_who(one) else None  # "who pays Bo", "who does Bo pay"


def _asks_who(question: str) -> bool:
    return not words(question).isdisjoint(("who", "whom", "whose"))


def _may_be_alike(one: str, other: str) -> bool:
    """Whether both have the same decisive words, numbers, dates and time, and each content word a form in the other.

    And neither may be the passive of the other.
    """
    mine, theirs = words(one), words(other)
    return (
        mine & DECISIVE == theirs & DECISIVE
        and mine.isdisjoint(_PAST) == theirs.isdisjoint(_PAST)
        and guard_words(mine) == guard_words(theirs)
        and _matched(one, other)
        and _matched(other, one)
        and not (_passive(mine, theirs) or _passive(theirs, mine))
    )


def _matched(one: str, other: str) -> bool:
    """Whether the other question has a form of each word of one that is no function word."""
    named, there = names(one) | names(other), canonical(other)
    return all(
        any(same_word(word, its, word in named or its in named) for its in there)
        for word in canonical(one)
        if word not in FUNCTION_WORDS
    )


def _in_same_order(one: str, other: str) -> bool:
    """Whether both are the same words in the same order, without `NEUTRAL` ones."""
    mine, theirs = ([word for word in canonical(question) if word not in NEUTRAL] for question in (one, other))
    named = names(one) | names(other)
    return len(mine) == len(theirs) and all(
        same_word(a, b, a in named or b in named) for a, b in zip(mine, theirs, strict=True)
    )


def _passive(one: Set[str], other: Set[str]) -> bool:
    """Whether the second question may be the passive of the first: "how do we bill", "how are we billed".

    Not if its verb has the same form, if it lost its subject ("how are customers billed"), or with an "-ing".
    """
    if _DO.isdisjoint(one) or not _DO.isdisjoint(other) or _BE.isdisjoint(other):
        return False
    inflected = not other <= one | FUNCTION_WORDS
    return inflected and ("we" in one) == ("we" in other) and not any(word.endswith("ing") for word in other)
