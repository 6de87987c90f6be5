"""Orders the hits of a Markdown search: seed 001's pipeline, on one screen.

    by words ─┐
              ├─ merge ─ decay ─ sort ─ mentions ─ MMR ─ floor ─ top k
    by vectors┘

`merge`, `decay`, `mentions` and `mmr` are formulas of their own (`adapters.index.merge`, `decay.py`, `mentions.py`,
`mmr.py`). Decay and MMR are off unless set; mentions are ours, and the seed's pipeline is without them. The best k are
the first k of the best k + 1, because each step works on the same candidates for every k; except with the merge
`seed001`, which has four candidates per result, as the seed has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice

from adapters.index.merge import (
    BEST_RRF,
    TEXT_WEIGHT,
    VECTOR_WEIGHT,
    Scored,
    SearchResult,
    convex,
    rrf,
    seed_text_score,
    text_score,
    weighted,
)
from adapters.markdown.decay import age_days, decay
from adapters.markdown.mentions import AMONG, Note, led_to
from adapters.markdown.mmr import mmr
from adapters.options import choice, number
from fusion.errors import SettingsError

MERGES = ("convex", "rrf", "weighted", "seed001")

MENTION_LIFT = 0.3

PAGE = 100
"""candidates of each list that are merged at first; more are asked for where too few of them can be shown"""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The numbers of the pipeline. Scores are between 0 and 1.

    ``merge``: ``convex`` (scores relative to the 100th of their list), ``rrf`` (ranks), ``weighted`` (plain scores) or
    ``seed001`` (weighted, with seed 001's text score and number of candidates). ``candidate_multiplier``: with
    ``seed001``, the candidates of each list per result that is asked for; the others merge a page of 100, so that their
    order does not depend on how many are asked for. ``mention_lift``: how far a hit rises at most when the best ones
    lead to it; 0 leaves it where it is. ``half_life_days``: 0 leaves decay out, the seed's is 30. ``mmr_lambda``: 1
    leaves MMR out, the seed's is 0.7. ``min_score``: hits below it are left out, except that a hit of words alone
    passes with a text score of at least ``min(min_score, text_weight)``, after all others.
    """

    merge: str = choice("convex", MERGES)
    vector_weight: float = number(VECTOR_WEIGHT, 0)
    text_weight: float = number(TEXT_WEIGHT, 0)
    candidate_multiplier: int = number(4, 1, 20)
    mention_lift: float = number(MENTION_LIFT, 0, 1)
    half_life_days: float = number(0.0, 0)
    mmr_lambda: float = number(1.0, 0, 1)
    min_score: float = number(0.0, 0, 1)

    def __post_init__(self) -> None:
        if self.vector_weight + self.text_weight == 0:
            raise SettingsError("vector_weight and text_weight must not both be 0")

    def candidates(self, limit: int) -> int:
        """The number of candidates of each list that are merged at first for ``limit`` results."""
        return limit * self.candidate_multiplier if self.merge == "seed001" else PAGE

    @property
    def looks(self) -> int | None:
        """The number of hits, best first, whose texts and dates are read; ``None``: all."""
        if self.half_life_days or self.mmr_lambda < 1:
            return None
        return AMONG if self.mention_lift else 0


def ranked(
    found: Iterable[SearchResult],
    ranking: Ranking,
    question: str,
    *,
    noted: Callable[[str], datetime | None],
    note: Callable[[str], Note | None],
    text: Callable[[str], str],
    now: datetime,
) -> Iterator[SearchResult]:
    """What was ``merged``, best first. ``noted`` gives the date of a key's content (``None``: it does not age),
    ``note`` what of a user's file it is (``None``: of none), ``text`` what it says; none of them is asked where its
    step is left out."""
    if ranking.half_life_days:
        found = sorted(aged(found, noted, now, ranking.half_life_days), key=_best_first)
    if ranking.mention_lift:
        found = lifted(found, question, note, ranking.mention_lift)
    if ranking.mmr_lambda < 1:
        found = mmr(list(found), lambda one: one.score, lambda one: text(one.key), ranking.mmr_lambda)
    return floored(found, ranking)


def merged(
    by_words: Scored, by_vectors: Scored, ranking: Ranking, wordless: Callable[[str], bool] | None = None
) -> Iterator[SearchResult]:
    """The union of both lists with one score, best first; by rank, what is first in both has 1. ``wordless`` says which
    keys have no text."""
    if ranking.merge == "rrf":
        return (one._replace(score=one.score / BEST_RRF) for one in rrf(by_words, by_vectors))
    if ranking.merge == "convex":
        return convex(by_words, by_vectors, ranking.vector_weight, ranking.text_weight, wordless)
    score = seed_text_score if ranking.merge == "seed001" else text_score
    return iter(weighted(by_words, by_vectors, ranking.vector_weight, ranking.text_weight, score, wordless))


def lifted(
    found: Iterable[SearchResult], question: str, note: Callable[[str], Note | None], lift: float
) -> Iterator[SearchResult]:
    """The hits after raising those that the best ones lead to: 1 - (1 - score)(1 - lift · confidence). No score falls,
    and no hit after the first ``AMONG`` moves."""
    rest = iter(found)
    head = list(islice(rest, AMONG))
    notes = {one.key: about for one in head if (about := note(one.key)) is not None}
    surely = led_to(question, [(one.key, one.score) for one in head], notes) if len(notes) > 1 else {}
    risen = [_raised(one, lift * surely[one.key]) if one.key in surely else one for one in head]
    return chain(sorted(risen, key=_best_first), rest)


def aged(
    found: Iterable[SearchResult], noted: Callable[[str], datetime | None], now: datetime, half_life_days: float
) -> list[SearchResult]:
    """The hits with their scores after time decay."""
    return [
        one if (then := noted(one.key)) is None else _times(one, decay(age_days(then, now), half_life_days))
        for one in found
    ]


def floored(found: Iterable[SearchResult], ranking: Ranking) -> Iterator[SearchResult]:
    """The hits above the floor; hits of words alone are compared by their text score, and come last.

    Weighed, the best of them has less than ``text_weight`` and none would ever pass the seed's floor of 0.35.
    """
    relaxed = min(ranking.min_score, ranking.text_weight)
    spare: list[SearchResult] = []
    for one in found:
        if one.score >= ranking.min_score:
            yield one
        elif one.cosine is None and one.lexical is not None and text_score(-one.lexical) >= relaxed:
            spare.append(one)
    yield from spare


def _raised(one: SearchResult, share: float) -> SearchResult:
    return one._replace(score=1 - (1 - one.score) * (1 - share))


def _best_first(one: SearchResult) -> float:
    return -one.score  # alone: of equals the one that the merge put first stays so


def _times(one: SearchResult, factor: float) -> SearchResult:
    return one._replace(score=one.score * factor)
