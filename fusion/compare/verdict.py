"""Statistics of two arms over many questions: the paired difference with its interval, agreement, and costs.

Each question is its own control, so the bootstrap resamples the differences. Without expected answers there are only
the agreement of the arms and their costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RESAMPLES = 10_000
CONFIDENCE_LEVEL = 0.95
TIE_WITHIN = 1e-9
"""largest difference of two scores that counts as a tie"""


@dataclass(frozen=True, slots=True)
class Paired:
    """b against a over the same ``n`` questions: the means, their difference b - a, and its 95 % interval.

    Rounded to four digits, so that statements about the interval are true of the printed numbers.
    """

    n: int
    a: float
    b: float
    difference: float
    low: float
    high: float
    win: int
    tie: int
    loss: int

    @property
    def better(self) -> str | None:
        """The arm that is better at the 95 % level; None if the interval includes 0."""
        return "b" if self.low > 0 else "a" if self.high < 0 else None


def paired(a: Sequence[float], b: Sequence[float], *, seed: int = 0) -> Paired:
    """The paired comparison of b with a, question by question. The same seed gives the same interval.

    Raises ValueError for lists of different length, or empty ones.
    """
    if len(a) != len(b) or not a:
        raise ValueError(f"pairs are expected, not {len(a)} and {len(b)} values")
    differences = [right - left for left, right in zip(a, b, strict=True)]
    low, high = interval(differences, seed=seed)
    win, loss = sum(d > TIE_WITHIN for d in differences), sum(d < -TIE_WITHIN for d in differences)
    n = len(differences)
    return Paired(
        n=n,
        a=round(sum(a) / n, 4),
        b=round(sum(b) / n, 4),
        difference=round(sum(differences) / n, 4),
        low=round(low, 4),
        high=round(high, 4),
        win=win,
        tie=n - win - loss,
        loss=loss,
    )


def interval(differences: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES) -> tuple[float, float]:
    """The 95 % interval of the mean, by a percentile bootstrap.

    Efron and Tibshirani, "An introduction to the bootstrap", 1993.
    """
    import numpy as np

    values, draw = np.asarray(differences, np.float64), np.random.default_rng(seed)
    step = max(1, 1_000_000 // len(values))  # a million draws at a time, to limit memory
    means = [
        values[draw.integers(0, len(values), (min(step, resamples - done), len(values)))].mean(axis=1)
        for done in range(0, resamples, step)
    ]
    low, high = np.quantile(np.concatenate(means), [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2])
    return float(low), float(high)


def agreement(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The agreement of two arms and the costs of each; it says nothing of quality. ``rows`` has one per question.

    ``overlap`` is the mean Jaccard of the two blocks' memories, 1 if both are empty. ``alone`` counts, by backend, the
    memories that only one arm's block has.
    """
    shares = [len(r["both"]) / total if (total := _either(r)) else 1.0 for r in rows]
    return {
        "questions": len(rows),
        "same_memories": sum(not r["only_a"] and not r["only_b"] for r in rows),
        "overlap": round(sum(shares) / len(rows), 4),
        **{side: _cost(side, rows) for side in ("a", "b")},
    }


def _either(row: Mapping[str, Any]) -> int:
    return len(row["both"]) + len(row["only_a"]) + len(row["only_b"])


def _cost(side: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    alone = Counter(backend for row in rows for found_by in row[f"only_{side}"].values() for backend in found_by)
    return {
        "only": sum(len(row[f"only_{side}"]) for row in rows),
        "alone": dict(alone.most_common()),
        "characters": round(_mean([row[side]["characters"] for row in rows]), 1),
        "waited_ms": round(_mean([row[side]["waited_ms"] for row in rows]), 2),
        "took_ms": round(_mean([row[side]["took_ms"] for row in rows]), 2),
        "empty": sum(not row[side]["characters"] for row in rows),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
