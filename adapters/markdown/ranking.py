"""How a search of Markdown orders what it found, on one screen: seed 001's pipeline.

    by words ─┐
              ├─ merge ─ decay ─ sort ─ MMR ─ floor ─ top k
    by vectors┘

`merge`, `decay` and `mmr` are formulas of their own (`adapters.index.merge`, `decay.py`, `mmr.py`). Decay and MMR are
off unless set. The best k are the first k of the best k + 1: each step works on the same candidates whatever k is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from adapters.index.merge import (
    BEST_RRF,
    TEXT_WEIGHT,
    VECTOR_WEIGHT,
    Found,
    Scored,
    convex,
    rrf,
    seed_text_score,
    text_score,
    weighted,
)
from adapters.markdown.decay import age_days, decay
from adapters.markdown.mmr import mmr

Merge = Literal["rrf", "convex", "weighted", "seed001"]
MERGES: tuple[Merge, ...] = ("rrf", "convex", "weighted", "seed001")
"""the first is the default"""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The numbers of the pipeline. Scores are between 0 and 1.

    ``merge``: by rank; by score, weighted; or by score with the seed's text score as it was written.
    ``half_life_days``: 0 leaves decay out, the seed's is 30. ``mmr_lambda``: 1 leaves MMR out, the seed's is 0.7.
    ``min_score``: what is below it is left out, except that a hit of words alone passes with a text score of at least
    ``min(min_score, text_weight)``, behind all others.
    """

    merge: Merge = "rrf"
    vector_weight: float = VECTOR_WEIGHT
    text_weight: float = TEXT_WEIGHT
    half_life_days: float = 0.0
    mmr_lambda: float = 1.0
    min_score: float = 0.0

    @property
    def looks(self) -> bool:
        """Whether it looks at more than scores: at dates or texts."""
        return bool(self.half_life_days) or self.mmr_lambda < 1


def ranked(
    by_words: Scored,
    by_vectors: Scored,
    ranking: Ranking,
    *,
    noted: Callable[[str], datetime | None],
    text: Callable[[str], str],
    now: datetime,
    wordless: Callable[[str], bool] = lambda key: False,
) -> Iterator[Found]:
    """What was found, best first. ``noted`` says when what a key stands for was noted (``None``: it does not age),
    ``text`` what it says; neither is asked where its step is left out. ``wordless`` tells what is no text."""
    found = merged(by_words, by_vectors, ranking, wordless)
    if ranking.half_life_days:
        found = aged(found, noted, now, ranking.half_life_days)
    found.sort(key=lambda one: (-one.score, one.key))
    ordered: Iterable[Found] = found
    if ranking.mmr_lambda < 1:
        ordered = mmr(found, lambda one: one.score, lambda one: text(one.key), ranking.mmr_lambda)
    return floored(ordered, ranking)


def merged(
    by_words: Scored, by_vectors: Scored, ranking: Ranking, wordless: Callable[[str], bool] = lambda key: False
) -> list[Found]:
    """The union of both lists with one score; by rank, what is first in both has 1."""
    if ranking.merge == "rrf":
        found = rrf(by_words, by_vectors)
        return [Found(one.key, one.score / BEST_RRF, one.lexical, one.cosine) for one in found]
    if ranking.merge == "convex":
        return convex(by_words, by_vectors)
    score = seed_text_score if ranking.merge == "seed001" else text_score
    return weighted(by_words, by_vectors, ranking.vector_weight, ranking.text_weight, score, wordless)


def aged(
    found: Iterable[Found], noted: Callable[[str], datetime | None], now: datetime, half_life_days: float
) -> list[Found]:
    """Scores after what time has taken of them."""
    return [
        one if (then := noted(one.key)) is None else _times(one, decay(age_days(then, now), half_life_days))
        for one in found
    ]


def floored(found: Iterable[Found], ranking: Ranking) -> Iterator[Found]:
    """Without what is too poor; hits of words alone are judged by their words, and come last.

    Weighed, the best of them has less than ``text_weight`` and none would ever pass the seed's floor of 0.35.
    """
    relaxed = min(ranking.min_score, ranking.text_weight)
    spare: list[Found] = []
    for one in found:
        if one.score >= ranking.min_score:
            yield one
        elif one.cosine is None and one.lexical is not None and text_score(-one.lexical) >= relaxed:
            spare.append(one)
    yield from spare


def _times(one: Found, factor: float) -> Found:
    return replace(one, score=one.score * factor)
