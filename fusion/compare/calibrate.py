"""Fits calibrations from memories of which it is known whether they helped.

The labels are votes (`fusion feedback --export`), or answers to questions whose answers are known. A calibration is a
logistic regression for each sort of memory with a small ridge (`fusion.recall.calibration` applies it); what it is
worth is measured on answers that it was not fitted on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log1p
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from fusion.calibration import FEATURES, SORTS, UNABLE, Calibration, Sort, SortWeights, scored_as
from fusion.compare.reliability import Judged, figures
from fusion.errors import BadInput
from fusion.recall.calibration import UNKNOWN, probabilities
from fusion.recipe import EARLIER_SIGNALS, renamed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

USED: Mapping[Sort, tuple[str, ...]] = {
    "turn": ("score", "share", "log_rank", "length", "speaker", "fusion", "bm25"),
    "long_turn": ("score", "share", "log_rank"),
    "note": ("score", "share", "lead"),
}
"""what the probability of each sort of memory is made of"""
USED_BY_WORDS: Mapping[Sort, tuple[str, ...]] = {**USED, "note": ("share", "log_rank", "bm25", "lead")}
"""the same in homes without a model, where words are all the evidence"""
OF_SIGNALS = ("length", "speaker", "fusion", "bm25")
RIDGE = 3.0
"""of the weights of standardised features: as much as some ten memories say"""
MIN_LABELS = 20
"""fewest memories of a sort that help, and fewest that do not, from which it is fitted"""
FOLDS = 5
HEAD = 100
"""memories of an answer that are labelled: the best ones"""


class Key(NamedTuple):
    """What a calibration is for: the embedder, the second encoder, and the hash of the weights."""

    model: str
    second: str
    weights: str


@dataclass(frozen=True, slots=True)
class Labelled:
    """One memory of an answer: what its probability is made of, and whether it helped."""

    answer: str
    sort: Sort
    features: tuple[float, ...]
    helps: bool


@dataclass(frozen=True, slots=True)
class Fitted:
    """A calibration with its figures by sort, on answers that it was not fitted on."""

    calibration: Calibration
    labels: Mapping[Sort, Mapping[str, int]]
    figures: Mapping[Sort, Mapping[str, Any]]
    kept: tuple[Sort, ...] = ()
    """the sorts with too few labels, whose weights are those of the calibration that there was"""

    def as_json(self) -> dict[str, Any]:
        one = self.calibration
        weights = {sort: asdict(found) for sort, found in one.sorts.items()}
        return {
            "model": one.model,
            "second": one.second,
            "weights_hash": one.weights,
            "labels": dict(self.labels),
            "held_out": dict(self.figures),
            "kept": list(self.kept),
            "weights": weights,
        }


# Labels ----------------------------------------------------------------------------------------------------------


def rows_of_answer(receipt: Mapping[str, Any], helps: Callable[[str], bool], name: str = "") -> list[dict[str, Any]]:
    """The best memories of an answer as labels, from its receipt; ``helps`` says of a ref whether it answers.

    What has no vectors yet is left out. ``name`` is that of the answer, by default the receipt's id.
    """
    rows = sorted(receipt["candidates"], key=lambda row: -row["local"])[:HEAD]
    rows = [row for row in rows if "by_words" not in row["signals"]]
    return [
        {
            "receipt_id": name or receipt["receipt_id"],
            "ref": row["ref"],
            "useful": helps(row["ref"]),
            "position": position,
            "local": round(row["local"], 6),
            "signals": {name: round(row["signals"][name], 6) for name in OF_SIGNALS if name in row["signals"]},
            **scored_as(receipt, row),
        }
        for position, row in enumerate(rows, start=1)
    ]


def read_rows(file: Path) -> dict[Key, list[Labelled]]:
    """The labels of a file, a line of JSON each, by what they are for. Raises BadInput, which names the line.

    Votes of earlier versions, which do not say what scored them, are left out.
    """
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}") from None
    found: dict[Key, list[Labelled]] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                row = orjson.loads(line)
                if row.get("sort") is not None:
                    key, label = _label(row)
                    found.setdefault(key, []).append(label)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                raise BadInput(f"{file}:{number}: is no label ({type(error).__name__}: {error})") from None
    return found


def labels_of(rows: Iterable[Mapping[str, Any]]) -> dict[Key, list[Labelled]]:
    """The labels in these rows, by what they are for."""
    found: dict[Key, list[Labelled]] = {}
    for row in rows:
        key, label = _label(row)
        found.setdefault(key, []).append(label)
    return found


def _label(row: Mapping[str, Any]) -> tuple[Key, Labelled]:
    model, second = row["encoders"]
    model = "" if model == UNABLE else model
    signals = renamed(row["signals"], EARLIER_SIGNALS)
    best, next_best = row["best"]
    score = float(row["local"])
    features = (
        score,
        score / (best or 1.0),
        log1p(row["position"] - 1),
        *(float(signals.get(name, UNKNOWN)) for name in OF_SIGNALS),
        score - next_best,
    )
    if row["sort"] not in SORTS or not isinstance(row["useful"], bool):
        raise ValueError("sort is turn, long_turn or note, and useful is true or false")
    return Key(model, second, row["weights_hash"]), Labelled(row["receipt_id"], row["sort"], features, row["useful"])


# Fitting ---------------------------------------------------------------------------------------------------------


def fit(
    key: Key,
    labels: Sequence[Labelled],
    *,
    held_out: Sequence[Labelled] = (),
    before: Calibration | None = None,
    fitted_on: str = "",
) -> Fitted:
    """Fits a calibration. Its figures are those on ``held_out``, or without any, cross-validated by answer.

    A sort with too few labels keeps its weights of ``before``, or has none. Raises BadInput if that holds for all.
    """
    used = USED if key.model else USED_BY_WORDS
    weights: dict[Sort, SortWeights] = {}
    found: dict[Sort, Mapping[str, Any]] = {}
    counts: dict[Sort, Mapping[str, int]] = {}
    kept: list[Sort] = []
    for sort in SORTS:
        mine = [one for one in labels if one.sort == sort]
        helpful = sum(one.helps for one in mine)
        counts[sort] = {"helpful": helpful, "unhelpful": len(mine) - helpful}
        if min(counts[sort].values()) >= MIN_LABELS:
            weights[sort] = _weights(used[sort], mine)
            others = [one for one in held_out if one.sort == sort]
            found[sort] = figures(_judged(weights[sort], others) if held_out else _cross_validated(used[sort], mine))
        elif before is not None and sort in before.sorts:
            weights[sort] = before.sorts[sort]
            kept.append(sort)
    if len(kept) == len(weights):
        raise BadInput(_too_few(counts))
    by_sort = (weights.get(sort) for sort in SORTS)
    calibration = Calibration(key.model, key.weights, key.second, fitted_on, False, *by_sort)
    return Fitted(calibration, counts, found, tuple(kept))


def _too_few(counts: Mapping[Sort, Mapping[str, int]]) -> str:
    each = "; ".join(f"{sort}: {c['helpful']} and {c['unhelpful']}" for sort, c in counts.items())
    return (
        f"too few labels: of one sort of memory, at least {MIN_LABELS} that help and {MIN_LABELS} that do not are "
        f"needed; there are (help, do not) {each}"
    )


def _weights(used: Sequence[str], labels: Sequence[Labelled]) -> SortWeights:
    """The weights of the features ``used``."""
    import numpy as np

    rows = np.array([one.features for one in labels])[:, [FEATURES.index(name) for name in used]]
    bias, weights = logistic(rows, np.array([one.helps for one in labels], dtype=np.float64))
    return SortWeights(round(bias, 2), **{name: round(w, 2) for name, w in zip(used, weights, strict=True)})


def logistic(rows: NDArray[np.float64], helps: NDArray[np.float64]) -> tuple[float, list[float]]:
    """Bias and weights of a logistic regression with a ridge, by Newton's method with halved steps."""
    import numpy as np

    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread < 1e-9] = 1.0
    x = np.column_stack([np.ones(len(rows)), (rows - mean) / spread])
    ridge = np.diag([1e-6, *[RIDGE] * rows.shape[1]])
    theta = np.zeros(x.shape[1])

    def loss(at: NDArray[np.float64]) -> float:
        total = x @ at
        return float(np.sum(np.logaddexp(0, total) - helps * total) + 0.5 * at @ ridge @ at)

    current = loss(theta)
    for _ in range(60):
        p = 1 / (1 + np.exp(-np.clip(x @ theta, -30, 30)))
        hessian = (x * np.maximum(p * (1 - p), 1e-6)[:, None]).T @ x + ridge
        step = np.linalg.solve(hessian, x.T @ (p - helps) + ridge @ theta)
        size = 1.0
        while loss(theta - size * step) > current and size > 1e-4:
            size /= 2
        theta = theta - size * step
        before, current = current, loss(theta)
        if before - current < 1e-6:
            break
    weights = theta[1:] / spread
    return float(theta[0] - mean @ weights), weights.tolist()


def _judged(weights: SortWeights, labels: Sequence[Labelled]) -> list[Judged]:
    """Of each memory, the probability that it helps, and whether it does."""
    import numpy as np

    if not labels:
        return []
    found = probabilities(weights, np.array([one.features for one in labels]).T)
    return [(p, one.helps) for p, one in zip(found.tolist(), labels, strict=True)]


def _cross_validated(used: Sequence[str], labels: Sequence[Labelled]) -> list[Judged]:
    """As `_judged`, each answer's memories by weights that were fitted without it."""
    answers = {name: n % FOLDS for n, name in enumerate(dict.fromkeys(one.answer for one in labels))}
    return [pair for n in range(FOLDS) for pair in _fold(used, labels, answers, n)]


def _fold(used: Sequence[str], labels: Sequence[Labelled], answers: Mapping[str, int], n: int) -> Iterator[Judged]:
    fitted = _weights(used, [one for one in labels if answers[one.answer] != n])
    yield from _judged(fitted, [one for one in labels if answers[one.answer] == n])


# The file --------------------------------------------------------------------------------------------------------


def toml(fitted: Fitted, comment: Sequence[str]) -> str:
    """The text of a calibration's file, below lines of comment."""
    one = fitted.calibration
    texts = {"model": one.model, "second": one.second, "weights": one.weights, "fitted_on": one.fitted_on}
    out = [f"# {line}" for line in comment]
    out += [f"{key} = {_quoted(text)}" for key, text in texts.items() if text or key == "model"]
    for sort, weights in one.sorts.items():
        measured = fitted.figures.get(sort)
        out += ["", *([f"# Held out: {in_words(measured)}."] if measured else []), f"[{sort}]"]
        out += [f"{name} = {value:g}" for name, value in asdict(weights).items() if value or name == "bias"]
    return "\n".join(out) + "\n"


def in_words(measured: Mapping[str, Any]) -> str:
    """Figures of a sort as a line of text."""
    return (
        f"ECE {measured['ece']:.4f}, Brier score {measured['brier']:.4f} (the mean's {measured['brier_of_mean']:.4f}), "
        f"{measured['judged']:,} memories, {measured['helpful']:.1%} of them helpful"
    )


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def too_few_for(weights: str, found: Mapping[Key, Sequence[Labelled]]) -> str:
    """Why no labels are for a recipe's weights, in words."""
    if not found:
        return "there is no label that says what scored the memory; votes of earlier versions do not"
    others = Counter({key.weights: len(labels) for key, labels in found.items()})
    name, count = others.most_common(1)[0]
    return f"no label is for the weights {weights} of this recipe; {count} are for {name}: name their recipe"
