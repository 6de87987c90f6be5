"""Trains boosted trees over the signals on the user's own labels, and cross-validates them.

LambdaMART (Burges, "From RankNet to LambdaRank to LambdaMART", 2010) by LightGBM, an optional package that only
training needs. The trees' sums only give an order; Platt's sigmoid, fitted to sums of memories outside of the training
data, turns them into probabilities (Platt, 1999). Floors apply to these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

import orjson

from fusion.errors import BadInput, SettingsError
from fusion.lib.gbdt import Trees, digest
from fusion.recall.rank_features import CONTEXT
from fusion.recall.signals import SIGNALS
from fusion.recipe import EARLIER_SIGNALS, Learned, Recipe, renamed

NAMES = (*SIGNALS, *CONTEXT)
TREES = 150
SETTINGS: Mapping[str, Any] = {
    "objective": "lambdarank",
    "lambdarank_truncation_level": 60,  # about the number of memories in a block
    "num_leaves": 7,  # about three levels: a user has few labels
    "learning_rate": 0.05,
    "min_data_in_leaf": 50,
    "lambda_l2": 5.0,
    "feature_fraction": 0.7,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "seed": 0,
    "verbose": -1,
}
MIN_ANSWERS = 20
"""fewest answers with useful and useless votes from which a model is learned"""


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """The training data of one answer: the signals of its memories, and which of them were useful."""

    signals: Sequence[Mapping[str, float]]
    useful: Sequence[bool]
    local: Sequence[float] = ()
    """the local scores under the recipe of that time"""


@dataclass(frozen=True, slots=True)
class Trained:
    """A trained model's text, the recipe that uses it (the caller writes ``file``), and its cross-validated scores."""

    text: str
    recipe: Recipe
    validated: Mapping[str, Any]
    held_out: Mapping[int, Recipe] = field(default_factory=dict)
    """by case, the recipe made without its fold"""

    def as_json(self) -> dict[str, Any]:
        return {"recipe_hash": self.recipe.hash, "model_hash": digest(self.text), **self.validated}


def with_model(recipe: Recipe, file: str, text: str) -> Recipe:
    return replace(recipe, rerank=replace(recipe.rerank, model=Learned(file, digest(text), Trees.parse(text))))


# From feedback ---------------------------------------------------------------------------------------------------


def read_labels(file: Path) -> list[LabelledAnswer]:
    """The votes of `fusion feedback --export`, answer by answer. Raises BadInput, which names the line."""
    answers: dict[str, list[Mapping[str, Any]]] = {}
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BadInput(f"{file}:{number}: is not JSON: {error}") from None
        if (wrong := _wrong(row)) is not None:
            raise BadInput(f"{file}:{number}: {wrong}")
        answers.setdefault(row["receipt_id"], []).append(row)
    return [
        LabelledAnswer(
            [renamed(r["signals"], EARLIER_SIGNALS) for r in rows],
            [r["useful"] for r in rows],
            [float(r.get("local", 0.0)) for r in rows],
        )
        for rows in answers.values()
    ]


def _wrong(row: object) -> str | None:
    if not isinstance(row, dict):
        return "an object is expected"
    if not isinstance(row.get("receipt_id"), str):
        return "receipt_id is missing"
    if not isinstance(row.get("useful"), bool):
        return "useful is true or false"
    signals = row.get("signals")
    if not isinstance(signals, dict) or not all(isinstance(v, int | float) for v in signals.values()):
        return "signals is an object of numbers"
    return None


def learn_from_votes(answers: Sequence[LabelledAnswer], base: Recipe, file: str) -> Trained:
    """Trains a model on votes alone. Answers cannot be replayed, so its score is the share of correctly ordered pairs.

    Raises BadInput for too few answers with votes of both kinds, and SettingsError without LightGBM.
    """
    both = [a for a in answers if any(a.useful) and not all(a.useful)]
    if len(both) < MIN_ANSWERS:
        raise BadInput(
            f"{len(both)} answers have votes of both kinds, useful and useless; at least {MIN_ANSWERS} are needed"
        )
    lightgbm_package()
    right: dict[str, list[float]] = {"base": [], "learned": []}
    sums: list[float] = []
    useful: list[bool] = []
    for n in range(5):
        trees = Trees.parse(train([a for i, a in enumerate(both) if i % 5 != n]))
        for answer in both[n::5]:
            found = trees.sums(answer.signals).tolist()
            right["base"].append(pairs_right(answer.local, answer.useful))
            right["learned"].append(pairs_right(found, answer.useful))
            sums += found
            useful += answer.useful
    slope, intercept = platt(sums, useful)
    text = calibrated(train(both), slope, intercept)
    report = {
        "base": base.name,
        "base_hash": base.hash,
        "answers": len(both),
        "votes": len(useful),
        "base_pairs_right": round(mean(right["base"]), 4),
        "cross_validated_pairs_right": round(mean(right["learned"]), 4),
    }
    numbers = replace(base, rerank=replace(base.rerank, floor=0.0, abstain=0.0))
    return Trained(text, with_model(numbers, file, text), report)


def pairs_right(scores: Sequence[float], useful: Sequence[bool]) -> float:
    """The share of (useful, useless) pairs in the right order; a tie counts half."""
    good = [s for s, u in zip(scores, useful, strict=True) if u]
    bad = [s for s, u in zip(scores, useful, strict=True) if not u]
    return mean((g > b) + 0.5 * (g == b) for g in good for b in bad)


# LightGBM --------------------------------------------------------------------------------------------------------


def train(answers: Iterable[LabelledAnswer]) -> str:
    """Trains LightGBM to rank useful memories first; returns the model's text."""
    lightgbm = lightgbm_package()
    import numpy as np

    listed = [a for a in answers if any(a.useful) and not all(a.useful)]
    nan = float("nan")
    values = np.array([[row.get(name, nan) for name in NAMES] for a in listed for row in a.signals])
    labels = np.array([u for a in listed for u in a.useful], dtype=np.int32)
    small = {} if len(labels) > 20_000 else {"min_data_in_leaf": max(2, min(50, len(labels) // 50))}
    data = lightgbm.Dataset(values, labels, group=[len(a.useful) for a in listed], feature_name=list(NAMES))
    return str(lightgbm.train({**SETTINGS, **small}, data, TREES).model_to_string())


def lightgbm_package() -> Any:
    try:
        import lightgbm
    except ModuleNotFoundError:
        raise SettingsError("learning needs the package lightgbm: pip install '/path/to/checkout[learner]'") from None
    return lightgbm


def calibrated(text: str, slope: float, intercept: float) -> str:
    """The model's text with a calibration line in its head, which LightGBM ignores."""
    head, line, rest = text.partition("feature_names=")
    return f"{head}calibration={slope:.6g} {intercept:.6g}\n{line}{rest}"


def platt(sums: Sequence[float], useful: Sequence[bool]) -> tuple[float, float]:
    """Slope and intercept of the sigmoid that fits the probability of being useful best, by Newton's method."""
    import numpy as np

    x = np.stack([np.asarray(sums, dtype=np.float64), np.ones(len(sums))], axis=1)
    # Platt's targets: finitely many examples give no certainty.
    good = sum(useful)
    y = np.where(np.asarray(useful), (good + 1) / (good + 2), 1 / (len(useful) - good + 2))
    theta = np.array([1.0, np.log((good + 1) / (len(useful) - good + 1))])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(x @ theta, -60, 60)))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + 1e-6 * np.eye(2)
        step = np.linalg.solve(hessian, x.T @ (y - p))
        theta += np.clip(step, -2.0, 2.0)
        if abs(step).max() < 1e-6:
            break
    # A negative slope would reverse the trees' order.
    return max(float(theta[0]), 1e-3), float(theta[1])
