"""Tunes a recipe's numbers on the user's own questions, and cross-validates the choice.

Each number is varied alone, over a few round values, on recorded input. It changes only if it gains more than its
standard error, since the best of many values is otherwise mostly luck. A floor, which gains no evidence, rises as far
as it costs none. Each fold (a conversation, or a fifth of the questions) is answered by the recipe chosen on the
other folds: only that score is reported, never the final recipe's score on the questions that chose it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import mean, pstdev, stdev
from typing import Any

from fusion.compare.verdict import paired
from fusion.errors import BadInput
from fusion.recall.engine import FuseRequest, Outcome, RecallIO, fuse
from fusion.recipe import Recipe, mark

FOLDS = 5
"""number of folds if all questions are of one conversation or folder"""
TOLERATED_LOSS = 0.001
"""share of evidence that a higher floor may cost"""
MIN_QUESTIONS_TO_RAISE_FLOOR = 150
"""fewest questions for raising a floor: if none of these loses evidence, at most 2 % of all do, at 95 % confidence
(the rule of three, Hanley and Lippman-Hand, JAMA 1983: 3/n)"""
FULL_SHARE = 1 - 1e-9
Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Case:
    """A question with recorded input. ``found`` returns the share of its evidence in an answer's block."""

    fold: str
    request: FuseRequest
    io: RecallIO
    answerable: bool
    found: Callable[[Outcome], float]
    useful: Callable[[str], bool]
    """whether the memory of this ref is evidence"""
    answer: Callable[[Outcome, int], Mapping[str, Any]] = lambda outcome, budget: {"block": outcome.fused.block}
    """an answer within this many characters, as a referee sees it"""


@dataclass(frozen=True, slots=True)
class Questions:
    """The cases to tune on, the name of the data that they are from, and the commit that recorded them."""

    cases: tuple[Case, ...]
    data: str
    commit: str | None

    def remembered_by(self, recipe: Recipe) -> Recipe:
        """The recipe with these questions in ``tuned_on``, so that no figure is reported on them."""
        hashes = {*recipe.tuned_on, *(mark(case.request.query) for case in self.cases)}
        return replace(recipe, tuned_on=tuple(sorted(hashes)))


ReadQuestions = Callable[[Recipe, int], Questions]
"""Gives the questions, recorded under a recipe with at least so many neighbours."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A number of a recipe, by its path in the file, and the values to try.

    A ``thrifty`` number leaves memories out: its best value is the highest that costs at most `TOLERATED_LOSS`. It
    rises only with `MIN_QUESTIONS_TO_RAISE_FLOOR` questions or more, because a few that lose nothing prove nothing.
    """

    name: str
    values: tuple[float, ...]
    thrifty: bool = False

    def of(self, recipe: Recipe) -> float:
        part, _, key = self.name.partition(".")
        if key.startswith("signals."):
            return float(recipe.rerank.signals.get(key.removeprefix("signals."), 0))
        return float(getattr(getattr(recipe, part), key))

    def set(self, recipe: Recipe, value: float) -> Recipe:
        part, _, key = self.name.partition(".")
        old = getattr(recipe, part)
        if key.startswith("signals."):
            signals = {**recipe.rerank.signals, key.removeprefix("signals."): float(value)}
            new = replace(old, signals={name: weight for name, weight in signals.items() if weight})
        else:
            new = replace(old, **{key: type(getattr(old, key))(value)})
        return replace(recipe, **{part: new})


WEIGHTS = (0, 1, 2, 3, 4)
SIMILARITY_WEIGHTS = (0, 2, 4, 6, 8)
"""twice those of a window, since a memory without windows has the similarity in place of two"""
KNOBS = (
    *(
        Knob(f"rerank.signals.{name}", WEIGHTS)
        for name in ("maxsim", "window3", "window5", "dense", "bm25", "fusion", "speaker", "date", "length")
    ),
    Knob("rerank.signals.similarity", SIMILARITY_WEIGHTS),
    Knob("fuse.k", (10, 30, 60, 100)),
    Knob("expand.span", (0, 1, 2)),
    Knob("pack.source_share", (0.4, 0.6, 0.8, 1.0)),
    Knob("rerank.floor", (0.0, 0.2, 0.3, 0.35, 0.4), thrifty=True),
    Knob("rerank.abstain", (0.0, 0.2, 0.3, 0.35, 0.4), thrifty=True),
)


def select_knobs(only: Sequence[str]) -> tuple[Knob, ...]:
    """The numbers whose name has one of these texts; without texts all. Raises BadInput for a text that none has."""
    for name in only:
        if not any(name in knob.name for knob in KNOBS):
            raise BadInput(f"--only {name}: there are {', '.join(knob.name for knob in KNOBS)}")
    return tuple(knob for knob in KNOBS if not only or any(name in knob.name for name in only))


def largest_span(knobs: Sequence[Knob]) -> int:
    """The most neighbours to each side that any value of these numbers asks for: recordings must reach as far."""
    return max((int(value) for knob in knobs if knob.name == "expand.span" for value in knob.values), default=0)


@dataclass(frozen=True, slots=True)
class Point:
    """The result of one value of one number, others as in the base: mean share of evidence, by fold and overall.

    ``gain`` is the mean paired gain over the base, ``error`` its standard error.
    """

    value: float
    base: bool
    """whether the base has this value"""
    eib: float
    gain: float
    error: float
    spread: float
    """standard deviation over the folds' means"""
    folds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Tuned:
    """The recipe chosen on all folds, and the cross-validated score of choosing that way."""

    recipe: Recipe
    changed: Mapping[str, float]
    curves: Mapping[str, Sequence[Point]]
    validated: Mapping[str, Any]
    held_out: Mapping[int, Recipe]
    """by case, the recipe chosen without its fold"""

    def as_json(self) -> dict[str, Any]:
        curves = {name: [asdict(point) for point in points] for name, points in self.curves.items()}
        return {"recipe_hash": self.recipe.hash, "changed": self.changed, **self.validated, "curves": curves}


class Scores:
    """Answers cases from their recordings; each pair of case and recipe once."""

    def __init__(self, cases: Sequence[Case], advance: Advance) -> None:
        self.cases, self._advance = cases, advance
        self._known: dict[tuple[str, int], tuple[float, bool]] = {}

    def of(self, recipe: Recipe, indices: Sequence[int]) -> list[float]:
        """The share of evidence in the block of each of these cases under ``recipe``."""
        return [found for found, _ in self._evaluated(recipe, indices)]

    def empty(self, recipe: Recipe, indices: Sequence[int]) -> list[bool]:
        """Whether each of these cases' blocks is empty."""
        return [empty for _, empty in self._evaluated(recipe, indices)]

    def _evaluated(self, recipe: Recipe, indices: Sequence[int]) -> list[tuple[float, bool]]:
        unknown = [i for i in indices if (recipe.hash, i) not in self._known]
        self._advance(len(indices) - len(unknown))
        asyncio.run(self._answer(recipe, unknown))
        return [self._known[recipe.hash, i] for i in indices]

    async def _answer(self, recipe: Recipe, indices: Sequence[int]) -> None:
        for i in indices:
            case = self.cases[i]
            outcome = await fuse(case.request, recipe, case.io)
            self._known[recipe.hash, i] = (case.found(outcome), not outcome.fused.block)
            self._advance(1)


def folds(cases: Sequence[Case]) -> dict[str, list[int]]:
    """The cases of each fold, by its name; for a single conversation each fold is every fifth question.

    Raises BadInput if there are too few questions to hold some back.
    """
    found: dict[str, list[int]] = {}
    for i, case in enumerate(cases):
        found.setdefault(case.fold, []).append(i)
    if len(found) == 1:
        (every,) = found.values()
        found = {f"questions {n + 1} of {FOLDS}": every[n::FOLDS] for n in range(FOLDS)}
    if not found or min(sum(cases[i].answerable for i in fold) for fold in found.values()) < 2:
        raise BadInput("there are too few questions to hold some back: give ten or more, with their evidence")
    return found


def steps(cases: Sequence[Case], knobs: Sequence[Knob]) -> int:
    """The largest number of answers that `tune` computes, for a progress bar."""
    answerable = sum(case.answerable for case in cases)
    return answerable * sum(len(knob.values) + 1 for knob in knobs) + 2 * len(cases)


def tune(
    cases: Sequence[Case], base: Recipe, knobs: Sequence[Knob] = KNOBS, advance: Advance = lambda n: None
) -> Tuned:
    """Chooses each number on all cases and cross-validates the choice. Raises BadInput for too few cases."""
    by_name = folds(cases)
    every = [i for i, case in enumerate(cases) if case.answerable]
    scores = Scores(cases, advance)
    plain = dict(zip(every, scores.of(base, every), strict=True))
    gains: dict[str, dict[float, dict[int, float]]] = {}
    curves: dict[str, list[Point]] = {}
    for knob in knobs:
        own = knob.of(base)
        gains[knob.name], curves[knob.name] = {}, []
        for value in sorted({*knob.values, own}):
            got = dict(zip(every, scores.of(knob.set(base, value) if value != own else base, every), strict=True))
            gains[knob.name][value] = {i: got[i] - plain[i] for i in every}
            curves[knob.name].append(_point(value, value == own, got, gains[knob.name][value], by_name))

    def chosen(indices: Sequence[int]) -> Recipe:
        recipe = base
        for knob in knobs:
            value = choose(knob, knob.of(base), gains[knob.name], indices)
            if value != knob.of(base):
                recipe = knob.set(recipe, value)
        return recipe

    def changes(recipe: Recipe) -> dict[str, float]:
        return {knob.name: knob.of(recipe) for knob in knobs if knob.of(recipe) != knob.of(base)}

    without = {name: chosen([i for i in every if i not in set(fold)]) for name, fold in by_name.items()}
    report = validated(scores, base, without, by_name)
    for name, recipe in without.items():
        report["folds"][name]["chosen_without_it"] = changes(recipe)
    final = chosen(every)
    held_out = {i: without[name] for name, fold in by_name.items() for i in fold}
    return Tuned(final, changes(final), curves, report, held_out)


def choose(knob: Knob, own: float, gains: Mapping[float, Mapping[int, float]], indices: Sequence[int]) -> float:
    """The best value on these cases; the base's own if none gains more than its standard error."""
    mine = {value: [by_case[i] for i in indices] for value, by_case in gains.items()}
    if knob.thrifty:
        highest = own if len(indices) < MIN_QUESTIONS_TO_RAISE_FLOOR else max(mine)
        return max(
            (value for value, gained in mine.items() if value <= highest and mean(gained) >= -TOLERATED_LOSS),
            default=own,
        )
    best = max(mine, key=lambda value: (mean(mine[value]), value == own))
    return best if mean(mine[best]) > _error(mine[best]) else own


def validated(
    scores: Scores, base: Recipe, without: Mapping[str, Recipe], parts: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    """The scores of each fold under the recipe made ``without`` it and under the base, and the paired verdict."""
    held_out_scores: list[float] = []
    base_scores: list[float] = []
    held_out_empty: list[bool] = []
    base_empty: list[bool] = []
    by_fold: dict[str, dict[str, Any]] = {}
    for name, fold in parts.items():
        good = [i for i in fold if scores.cases[i].answerable]
        bad = [i for i in fold if not scores.cases[i].answerable]
        got, plain = scores.of(without[name], good), scores.of(base, good)
        by_fold[name] = {"questions": len(good), "base_eib": _mean(plain), "held_out_eib": _mean(got)}
        held_out_scores += got
        base_scores += plain
        held_out_empty += scores.empty(without[name], bad)
        base_empty += scores.empty(base, bad)
    pair = paired(base_scores, held_out_scores)
    return {
        "base": base.name,
        "base_hash": base.hash,
        "questions": len(held_out_scores),
        "unanswerable": len(held_out_empty),
        "folds": by_fold,
        "base_eib": _mean(base_scores),
        "base_all": _mean(share > FULL_SHARE for share in base_scores),
        "base_left_empty": _mean(base_empty),
        "cross_validated_eib": _mean(held_out_scores),
        "cross_validated_all": _mean(share > FULL_SHARE for share in held_out_scores),
        "cross_validated_left_empty": _mean(held_out_empty),
        "verdict": {**asdict(pair), "better": {"a": "base", "b": "tuned", None: None}[pair.better]},
    }


def answers(
    cases: Sequence[Case], held_out: Mapping[int, Recipe], budgets: Sequence[int], advance: Advance = lambda n: None
) -> list[Mapping[str, Any]]:
    """The held-out answer of each case within each of these budgets in characters, for a referee."""

    async def given() -> list[Mapping[str, Any]]:
        rows = []
        for i, recipe in sorted(held_out.items()):
            for budget in budgets:
                outcome = await fuse(replace(cases[i].request, budget_chars=budget), recipe, cases[i].io)
                rows.append(cases[i].answer(outcome, budget))
                advance(1)
        return rows

    return asyncio.run(given())


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return round(mean(listed), 4) if listed else None


def _point(
    value: float, base: bool, got: Mapping[int, float], gained: Mapping[int, float], parts: Mapping[str, Sequence[int]]
) -> Point:
    of_folds = {name: mean(got[i] for i in fold if i in got) for name, fold in parts.items()}
    return Point(
        value,
        base,
        round(mean(got.values()), 4),
        round(mean(gained.values()), 4),
        round(_error(list(gained.values())), 4),
        round(pstdev(of_folds.values()), 4),
        {name: round(eib, 4) for name, eib in of_folds.items()},
    )


def _error(values: Sequence[float]) -> float:
    return float(stdev(values) / len(values) ** 0.5)


def is_better(figures: Mapping[str, Any]) -> bool:
    """Whether held-out questions speak for what was chosen: more evidence, beyond chance; or as much, and more of the
    unanswerable questions left empty.
    """
    emptier = (figures["cross_validated_left_empty"] or 0) > (figures["base_left_empty"] or 0)
    better = figures["verdict"]["better"]
    return better == "tuned" or (better is None and emptier)
