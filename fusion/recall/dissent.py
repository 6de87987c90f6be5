"""Finds memories in a ranking that answer its question differently, also in other words (dissent).

Two memories contradict each other only with regard to a question: both answer it, they are about one thing, and what
they say cannot both be current. `dissent_features` compares the best few answers in pairs; logistic regression makes a
probability of each comparison. Its weights are a few numbers each for questions whose answer is a value and for those
of yes or no. For questions after a person, place or thing, such features found hardly a contradiction, so only a
language model does (`fusion.gateway.dissent_by_model`).

Nothing that a memory says of itself or of others counts ("this conflicts with everything"): only what it answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import exp
from typing import NamedTuple

from fusion.lib.answer_type import AnswerType
from fusion.lib.paraphrase import Kind
from fusion.lib.restatement import differs_in_one_place
from fusion.lib.same_subject import MAX_CHARS, kept_apart_by
from fusion.recall.decision import TOO_WEAK, Decision
from fusion.recall.dedup import Rival
from fusion.recall.dispute import outdated
from fusion.recall.dissent_features import Asked, Features, Stated, best_first, features
from fusion.recall.filter import Record
from fusion.recall.pack import Ranking
from fusion.recall.rerank import Scored
from fusion.recall.several import asks_for_several

MAX_READ = 12
"""best memories of a ranking among which the answers are looked for"""
MAX_COMPARED = 4
"""best answers that are compared with each other: six pairs"""
MAX_PAIRS = 2
"""pairs of a pack that dissent; more would be a question that everything answers"""
_BY_WORDS = frozenset({Kind.WORD, Kind.NAME, Kind.NUMBER, Kind.NEGATION, Kind.ORDER})
"""the kinds of rivals that only their words make"""
_VALUES = frozenset({Kind.WORD, Kind.NAME})
"""those of which both may be true where a question asks for several things"""
WEAK = frozenset({Decision.ADDS_TOO_LITTLE, *TOO_WEAK})
"""the reasons for leaving a memory out that do not hold for a side of a contradiction"""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a logistic regression over `Features`, by name; a feature that is not named has none.

    ``threshold`` is the probability from which two memories count as contradicting each other.
    """

    bias: float
    of: Mapping[str, float]
    threshold: float = 1.0

    def probability(self, found: Features) -> float:
        """That the two memories contradict each other."""
        total = self.bias + sum(weight * getattr(found, name) for name, weight in self.of.items())
        return 1.0 / (1.0 + exp(min(700.0, -total)))


WEIGHTS: Mapping[str, Weights] = {
    "value": Weights(-7.15, {"likeness": 7.33, "similarity": 5.59, "best_two": 0.92}, threshold=0.9),
    "truth": Weights(
        -5.11, {"likeness": 0.73, "coverage": 1.2, "lead": 7.8, "added": 4.65, "best_two": 1.05}, threshold=0.9
    ),
}
"""fitted by ``python -m benchmarks.dissent_fit`` on the half for fitting of ``benchmarks/data/dissent_dev.jsonl``"""


class Dissent(NamedTuple):
    """Two memories, by ref, that answer a question differently, and the probability of it."""

    refs: tuple[str, str]
    probability: float


def sort_of(kind: AnswerType) -> str | None:
    """The key in `WEIGHTS` for questions that ask for this; None if there are no weights for them."""
    if kind in (AnswerType.NUMBER, AnswerType.TIME):
        return "value"
    return "truth" if kind is AnswerType.TRUTH else None


def compared(answers: Sequence[Stated]) -> Iterable[tuple[Stated, Stated, Features]]:
    """The pairs of the best answers that no rule keeps apart, with their features."""
    best = best_first(answers)[:MAX_COMPARED]
    for one, other in combinations(best, 2):
        rest = (each.answers for each in best if each is not one and each is not other)
        found = features(one, other, max(rest, default=None), best_two=other is best[1])
        if found is not None:
            yield one, other, found


def dissents(asked: Asked, answers: Sequence[Stated]) -> list[Dissent]:
    """The pairs that answer the question differently, the surest first; a memory is in one of them."""
    sort = sort_of(asked.kind)
    if sort is None:
        return []
    weights = WEIGHTS[sort]
    sure = [
        Dissent((one.ref, other.ref), probability)
        for one, other, found in compared(answers)
        if (probability := weights.probability(found)) >= weights.threshold
    ]
    kept: list[Dissent] = []
    for each in sorted(sure, key=lambda one: -one.probability):
        if not any(set(each.refs) & set(other.refs) for other in kept):
            kept.append(each)
    return kept[:MAX_PAIRS]


def readable(ranking: Ranking) -> list[Scored]:
    """The best memories of a ranking, each once, that may be in a block."""
    found: dict[str, Scored] = {}
    for one in ranking.order:
        decision = ranking.left_out.get(one.pooled.key)
        if decision is None or decision in WEAK:
            found.setdefault(one.ref, one)
        if len(found) == MAX_READ:
            break
    return list(found.values())


def without_rivals_apart(ranking: Ranking) -> Ranking:
    """The ranking in which no two memories are rivals that do not answer its question about one thing.

    Memories become rivals by their words, whatever is asked: "an office in Leeds" and "an office in Cardiff as well",
    "60 euros for one hour" and "35 euros for half an hour", or two answers to "which browsers …?".
    """
    known = {one.ref: one for one in ranking.order}
    several = asks_for_several(ranking.question)

    def apart(one: Scored, rival: Rival) -> bool:
        other = known.get(rival.ref)
        if other is None or rival.kind not in _BY_WORDS:
            return False
        return (several and rival.kind in _VALUES) or _apart(ranking.question, one, other)

    order = []
    for one in ranking.order:
        candidate = one.pooled.candidate
        left = tuple(rival for rival in candidate.rivals if not apart(one, rival))
        changed = len(left) < len(candidate.rivals)
        order.append(
            one._replace(pooled=one.pooled._replace(candidate=candidate._replace(rivals=left))) if changed else one
        )
    return replace(ranking, order=order)


def _apart(question: str, one: Scored, other: Scored) -> bool:
    """Whether two memories that share most words differ in several places, or a guard keeps them apart.

    The guards see them in the order of their times, or in either order if that is not known.
    """
    hits = one.pooled.candidate.hit, other.pooled.candidate.hit
    if not differs_in_one_place(hits[0].text[:MAX_CHARS], hits[1].text[:MAX_CHARS]):
        return True
    times = [hit.at.utc if hit.at else hit.recorded_at for hit in hits]
    orders = [hits, hits[::-1]]
    if times[0] is not None and times[1] is not None and times[0] != times[1]:
        orders = [hits if times[0] < times[1] else hits[::-1]]
    return any(kept_apart_by(question, early.text, late.text) is not None for early, late in orders)


def with_successions(ranking: Ranking) -> Ranking:
    """The ranking in which two memories are rivals if the later one says that what the other states is past.

    Only memories that are shown anyway are compared, so that nothing is shown for that reason alone.
    """
    there = [
        one for one in readable(ranking) if one.pooled.key not in ranking.left_out and not one.is_below(ranking.floors)
    ]
    found: dict[str, list[str]] = {}
    for one, other in combinations(there, 2):
        if outdated(one, other) and not _settled(ranking, one.ref, other.ref):
            found.setdefault(one.ref, []).append(other.ref)
            found.setdefault(other.ref, []).append(one.ref)
    if not found:
        return ranking
    order = [_with_rivals(one, found.get(one.ref, ()), Kind.SUPERSEDED) for one in ranking.order]
    return replace(ranking, order=order)


def with_dissent(ranking: Ranking, found: Iterable[Dissent]) -> Ranking:
    """The ranking in which the two memories of each dissent are rivals, unless their conflict is settled already."""
    rivals: dict[str, list[str]] = {}
    for one, other in (each.refs for each in found):
        if not _settled(ranking, one, other):
            rivals.setdefault(one, []).append(other)
            rivals.setdefault(other, []).append(one)
    if not rivals:
        return ranking
    return replace(ranking, order=[_with_rivals(one, rivals.get(one.ref, ())) for one in ranking.order])


def _with_rivals(one: Scored, refs: Sequence[str], kind: Kind = Kind.DISSENT) -> Scored:
    candidate = one.pooled.candidate
    known = {rival.ref for rival in candidate.rivals}
    more = tuple(Rival(ref, kind) for ref in refs if ref not in known)
    if not more:
        return one
    return one._replace(pooled=one.pooled._replace(candidate=candidate._replace(rivals=(*candidate.rivals, *more))))


def _settled(ranking: Ranking, one: str, other: str) -> bool:
    """Whether the journal says that the two do not contradict each other any longer.

    One replaces the other, or they are the sides of a conflict that was resolved.
    """
    records = {record.ref: record for record in ranking.records.values()}
    mine, theirs = records.get(one), records.get(other)
    if mine is None or theirs is None:
        return False
    return _replaces(mine, theirs) or _replaces(theirs, mine) or _resolved(mine, theirs)


def _replaces(one: Record, other: Record) -> bool:
    return one.event.supersedes is not None and one.event.supersedes == other.event.event_id


def _resolved(one: Record, other: Record) -> bool:
    group = one.state.conflict_group
    return (
        group is not None
        and group == other.state.conflict_group
        and "active"
        not in (
            one.state.conflict_status,
            other.state.conflict_status,
        )
    )
