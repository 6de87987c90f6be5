"""Joins questions of a data set into questions of several parts, which people ask and data sets seldom have."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from benchmarks.datasets import Corpus, Question
from fusion.lib.words import STOP_WORDS

CATEGORY = "joined"


def join_questions(corpus: Corpus, count: int, seed: int) -> Corpus:
    """The corpus, where each question is ``count`` of its answerable ones in one sentence, drawn by ``seed``.

    "When was Ada born?" and "Where does Bo live?" become "When was Ada born and where does Bo live?", and the evidence
    of both is looked for. A remainder of the division is not asked.
    """
    drawn = [question for question in corpus.questions if question.answerable]
    Random(f"{seed} {corpus.id}").shuffle(drawn)
    groups = [drawn[i : i + count] for i in range(0, len(drawn) - count + 1, count)]
    return replace(corpus, questions=tuple(_one(index, group) for index, group in enumerate(groups)))


def _one(index: int, group: list[Question]) -> Question:
    first, *others = (question.text.strip().rstrip("?. ") for question in group)
    *listed, last = [first, *map(_inside, others)]
    gold = dict.fromkeys(name for question in group for name in question.gold)
    return Question(index, f"{', '.join(listed)} and {last}?", CATEGORY, tuple(gold))


def _inside(text: str) -> str:
    """The question as a part of a sentence: its first word in lower case, unless it is a name."""
    word = text.split(maxsplit=1)[0]
    return text[0].lower() + text[1:] if word.lower() in STOP_WORDS else text
