"""Trains boosted trees on a data set's questions, and cross-validates them as `benchmarks.tuning` does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from math import exp
from statistics import mean

from benchmarks.tuning import Advance, Case, Scores, folds, validated
from fusion.compare.learn import LabelledAnswer, Trained, calibrated, lightgbm_package, platt, train, with_model
from fusion.lib.gbdt import Trees
from fusion.recall.engine import fuse
from fusion.recipe import Learned, Recipe

ABSTAIN = (0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
MAX_EMPTIED_SHARE = 0.01
"""largest share of answerable questions that ``abstain`` may leave without a block"""


def steps(cases: Sequence[Case]) -> int:
    """The number of answers that `learn` computes, for a progress bar."""
    return 3 * len(cases)


def learn(cases: Sequence[Case], base: Recipe, file: str, advance: Advance = lambda n: None) -> Trained:
    """Trains a model on all cases. Raises BadInput for too few, and SettingsError without LightGBM."""
    lightgbm_package()
    by_name = folds(cases)
    every = [i for i, case in enumerate(cases) if case.answerable]
    seen = asyncio.run(_answers(cases, with_all_features(base, file), advance))
    models = {name: train([seen[i] for i in every if i not in set(fold)]) for name, fold in by_name.items()}
    sums = {i: Trees.parse(models[name]).sums(seen[i].signals).tolist() for name, fold in by_name.items() for i in fold}
    slope, intercept = platt([s for i in every for s in sums[i]], [u for i in every for u in seen[i].useful])
    best = sorted(max((_sigmoid(slope * s + intercept) for s in sums[i]), default=0.0) for i in every)
    abstain = next((a for a in ABSTAIN if mean(b < a for b in best) <= MAX_EMPTIED_SHARE), 0.0)
    numbers = replace(base, rerank=replace(base.rerank, floor=0.0, abstain=abstain))

    without = {name: with_model(numbers, file, calibrated(text, slope, intercept)) for name, text in models.items()}
    report = validated(Scores(cases, advance), base, without, by_name)
    text = calibrated(train([seen[i] for i in every]), slope, intercept)
    held_out = {i: without[name] for name, fold in by_name.items() for i in fold}
    return Trained(text, with_model(numbers, file, text), report, held_out)


def with_all_features(base: Recipe, file: str) -> Recipe:
    """A recipe that orders as ``base`` does and computes every feature."""
    return replace(base, rerank=replace(base.rerank, model=Learned(file, "", None, "it is being learned")))


async def _answers(cases: Sequence[Case], recipe: Recipe, advance: Advance) -> list[LabelledAnswer]:
    found = []
    for case in cases:
        outcome = await fuse(case.request, recipe, case.io)
        rows = outcome.receipt.body["candidates"]
        found.append(LabelledAnswer([row["signals"] for row in rows], [case.useful(row["ref"]) for row in rows]))
        advance(1)
    return found


def _sigmoid(x: float) -> float:
    return 1 / (1 + exp(-max(-60.0, min(60.0, x))))
