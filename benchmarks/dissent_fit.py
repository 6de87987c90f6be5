"""Fits the weights by which dissent is recognised, on our own histories: ``python -m benchmarks.dissent_fit``.

It prints the table for `fusion.recall.dissent`, with thresholds that no history without a contradiction reaches
in cross-validation. Only the half for fitting of ``dissent_dev.jsonl`` is read.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adapters.embedders.local import LocalEmbedder
from benchmarks.pack_dissent import DEVELOPMENT, Case, halves, read
from fusion.contract import Embedder
from fusion.lib.words import spoken
from fusion.recall.dissent import Weights, compared, sort_of
from fusion.recall.dissent_features import Asked, Features, Stated

USED = {
    "value": ("likeness", "similarity", "best_two"),
    "truth": ("likeness", "coverage", "lead", "added", "best_two"),
}
"""the features that each sort of question weighs: with all of them, questions that were not fitted on fare worse"""
STRENGTH = 1.0
"""of the data against the penalty of the squares of the weights of standardised features"""
STEPS = 30
"""of Newton's method, which needs some ten"""
FOLDS = 10
MIN_THRESHOLD = 0.9
"""a few dozen cases of a sort say little of how high one without a contradiction may come. With .8, 6 of the 100
histories without a contradiction of ``dissent.jsonl`` had a marked pair, and 9 of the 100 contradictions"""
MARGIN = 0.01

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair of memories of a case with its features, and whether it is the contradiction."""

    case: Case
    sort: str
    found: Features
    is_contradiction: bool


def fit(pairs: Sequence[Pair]) -> dict[str, Weights]:
    """The weights for each sort of question."""
    return {sort: _fitted([pair for pair in pairs if pair.sort == sort], names) for sort, names in USED.items()}


def _fitted(pairs: Sequence[Pair], names: Sequence[str]) -> Weights:
    rows = np.array([[getattr(pair.found, name) for name in names] for pair in pairs])
    labels = np.array([float(pair.is_contradiction) for pair in pairs])
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread == 0] = 1.0
    found = _logistic(np.column_stack([(rows - mean) / spread, np.ones(len(rows))]), labels)
    weights = found[:-1] / spread
    bias = float(found[-1] - weights @ mean)
    return Weights(round(bias, 2), {name: round(float(w), 2) for name, w in zip(names, weights, strict=True)})


def _logistic(rows: Floats, labels: Floats) -> Floats:
    """Newton's method; the last column is the bias, which is not penalised."""
    penalty = np.full(rows.shape[1], 1 / STRENGTH)
    penalty[-1] = 1e-9
    found: Floats = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-(rows @ found)))
        slope = rows.T @ (chance - labels) + penalty * found
        curve = (rows * (chance * (1 - chance))[:, None]).T @ rows + np.diag(penalty)
        found = found - np.linalg.solve(curve, slope)
    return found


def thresholds(pairs: Sequence[Pair]) -> dict[str, float]:
    """The threshold of each sort of question: above the probability of every case without a contradiction.

    The probabilities are of cases whose questions were not fitted on. No threshold is below `MIN_THRESHOLD`.
    """
    best = _cross_validated(pairs)
    highest = dict.fromkeys(USED, MIN_THRESHOLD)
    for pair in pairs:
        if not pair.case.sides:
            highest[pair.sort] = max(highest[pair.sort], best[pair.case.id] + MARGIN)
    return {sort: round(chance, 2) for sort, chance in highest.items()}


def _cross_validated(pairs: Sequence[Pair]) -> dict[str, float]:
    """By case, the probability of its contradiction, or the highest of one without; each fitted on other questions."""
    questions = list(dict.fromkeys(pair.case.question for pair in pairs))
    found: dict[str, float] = {}
    for fold in range(FOLDS):
        held_out = {*questions[fold::FOLDS]}
        weights = fit([pair for pair in pairs if pair.case.question not in held_out])
        for pair in pairs:
            if pair.case.question in held_out:
                counts = pair.is_contradiction or not pair.case.sides
                chance = weights[pair.sort].probability(pair.found) if counts else 0.0
                found[pair.case.id] = max(found.get(pair.case.id, 0.0), chance)
    return found


async def pairs_of(cases: Sequence[Case], embedder: Embedder) -> list[Pair]:
    """The pairs of all cases that no rule keeps apart."""
    return [pair for case in cases for pair in await _pairs(case, embedder)]


async def _pairs(case: Case, embedder: Embedder) -> list[Pair]:
    async def dense(text: str) -> NDArray[np.float32]:
        found: NDArray[np.float32] = (await embedder.embed([text], keep=False))[0]
        return found

    asked = Asked(case.question, await embedder.query_tokens(case.question), await dense(case.question))
    answers = []
    for number, memory in enumerate(case.memories):
        text = spoken(memory.text, memory.speaker)
        at = memory.at.utc if memory.at else None
        tokens = await embedder.query_tokens(text)
        answers.append(Stated(str(number), memory.text, memory.speaker, at, tokens, await dense(text), asked))
    sort = sort_of(asked.kind)
    if sort is None:
        return []
    return [
        Pair(case, sort, found, bool(case.sides) and all({int(one.ref), int(other.ref)} & side for side in case.sides))
        for one, other, found in compared(answers)
    ]


async def _main() -> None:
    fitting, _ = halves(read(DEVELOPMENT))
    with tempfile.TemporaryDirectory() as folder:
        embedder = await LocalEmbedder.open(Path(folder), {})
        pairs = await pairs_of(fitting, embedder)
        await embedder.close()
    limits = thresholds(pairs)
    for sort, one in fit(pairs).items():
        sys.stdout.write(f'    "{sort}": Weights({one.bias}, {dict(one.of)}, threshold={limits[sort]}),\n')


if __name__ == "__main__":
    asyncio.run(_main())
