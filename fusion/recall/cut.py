"""Leaves out of a block what adds too little to its best memories; neither the order nor a score changes.

Notes and other memories that are no turns are cut by a probability that the memory helps: a logistic regression over
its score as a share of the best one's, its BM25 and its cosine. Evidence that is scattered over several memories has no
knee, and the probability would cut it. So the share of the best score decides alone where a turn of a conversation is
the best memory, for turns, and where the question has many words, for all.

What is kept whatever its score: the best memory, what contradicts a memory that is kept, what the judge has scored, a
turn as long as an assistant's answer, and what happened on the days or in the episode that the question names.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isnan, nan
from typing import NamedTuple

from fusion.lib.passages import SAID_CHARS
from fusion.recall.dispute import rivals_of
from fusion.recall.query_dates import Dates, time_of
from fusion.recall.rerank import Scored, signals_of
from fusion.recall.wants_memory import prompt_words
from fusion.recipe import PackSettings

MANY_TERMS = 7
"""terms with a subject from which a question may need several memories"""
NAMED_DAYS_S = 8 * 86_400.0
"""seconds of the longest time that counts as days, and not as a month or a year"""


class Weights(NamedTuple):
    """The weights of the probability that a memory helps."""

    bias: float
    share: float
    bm25: float
    meaning: float


MEANING = Weights(-14.95, 11.83, 12.75, 3.67)
"""fitted on the questions of home ``a`` of `benchmarks quiet`; home ``b`` was held back"""
WORDS = Weights(-15.23, 13.59, 14.15, 0.0)
"""the same for memories that no model has compared with the question"""


def cut(order: Sequence[Scored], question: str, named: Dates, numbers: PackSettings, floor: float) -> frozenset[str]:
    """The keys of what adds too little; none if the block is to be filled, or if all that happened then is asked for.

    Memories below ``floor`` are in no block and are not weighed.
    """
    if numbers.fill or named.nothing_else:
        return frozenset()
    packable = [scored for scored in order if scored.local >= floor or not scored.complete]
    if not packable:
        return frozenset()
    best = max(scored.local for scored in packable) or 1.0
    talk, many = _is_turn(packable[0]), len(prompt_words(question).subject) >= MANY_TERMS
    table = signals_of(packable)
    words, meanings = table.column("bm25").tolist(), table.column("dense").tolist()
    weak: dict[str, Scored] = {}
    for scored, word, meaning in zip(packable[1:], words[1:], meanings[1:], strict=True):
        share = scored.local / best
        if many or (talk and _is_turn(scored)):
            adds = share >= numbers.cut_share
        else:
            adds = probability_of(share, word, meaning) >= numbers.cut_probability
        if not (adds or scored.decided_by_judge or _is_long_turn(scored) or _is_of_named_days(scored, named)):
            weak[scored.pooled.key] = scored
    kept = {scored.ref for scored in packable if scored.pooled.key not in weak}
    rivals = rivals_of(packable)
    return frozenset(key for key, scored in weak.items() if kept.isdisjoint(rivals.get(scored.ref, ())))


def probability_of(share: float, bm25: float, meaning: float = nan) -> float:
    """The probability that a memory helps, by its share of the best score, its BM25 and its cosine (NaN: none)."""
    weights = WORDS if isnan(meaning) else MEANING
    found = weights.bias + weights.share * share + weights.bm25 * (0.0 if isnan(bm25) else bm25)
    return 1 / (1 + exp(-(found + (0.0 if isnan(meaning) else weights.meaning * meaning))))


def _is_turn(scored: Scored) -> bool:
    place = scored.pooled.candidate.hit.place
    return place is not None and place.unit == "turn"


def _is_long_turn(scored: Scored) -> bool:
    """Whether it is, or is of, an answer of an assistant: a block has few of them, and each says several things."""
    is_long = scored.pooled.passage is not None or len(scored.pooled.candidate.hit.text) > SAID_CHARS
    return is_long and _is_turn(scored)


def _is_of_named_days(scored: Scored, named: Dates) -> bool:
    if not named.windows:
        return False
    hit = scored.pooled.candidate.hit
    if hit.kind == "episode" and named.asks_for(hit):
        return True
    return any(end - start <= NAMED_DAYS_S for start, end, _ in named.windows) and named.closeness(time_of(hit)) == 1
