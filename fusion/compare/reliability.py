"""Measures how well probabilities are calibrated: of memories with a probability of 30 %, 30 of 100 should help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

EDGES = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""bounds of the groups that are compared; narrow at low probabilities, where most memories are"""

Judged = tuple[float, bool]
"""the probability that a memory helps, and whether it does"""


@dataclass(frozen=True, slots=True)
class Group:
    """A group of memories with similar probabilities: their mean, the share that helps, and their number."""

    probability: float
    helps: float
    size: int


def groups(judged: Iterable[Judged]) -> tuple[Group, ...]:
    """The memories in groups of similar probability, lowest first."""
    members: dict[int, list[Judged]] = {}
    for one in judged:
        members.setdefault(sum(edge <= one[0] for edge in EDGES[1:-1]), []).append(one)
    return tuple(
        Group(fmean(p for p, _ in found), fmean(float(helps) for _, helps in found), len(found))
        for _, found in sorted(members.items())
    )


def figures(judged: Sequence[Judged]) -> dict[str, Any]:
    """``brier``: the mean square of the error (G. Brier, 1950); ``brier_of_mean``: the same with the mean for all.

    ``ece``: the mean distance of probability and share over the groups (expected calibration error). Empty without
    probabilities.
    """
    if not judged:
        return {}
    share = fmean(float(helps) for _, helps in judged)
    return {
        "judged": len(judged),
        "helpful": round(share, 4),
        "brier": round(fmean((p - helps) ** 2 for p, helps in judged), 4),
        "brier_of_mean": round(share * (1 - share), 4),
        "ece": round(sum(abs(one.probability - one.helps) * one.size for one in groups(judged)) / len(judged), 4),
    }
