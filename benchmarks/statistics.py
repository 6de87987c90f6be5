"""What may be said about two arms, and about what each backend is worth: pure functions of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial

import numpy as np

from fusion.compare.verdict import interval

EVEN = 1e-9
"""differences within this are ties"""


@dataclass(frozen=True, slots=True)
class Paired:
    """How much more one arm has than another over the same questions.

    ``low`` to ``high`` holds 95 % of the means of questions drawn again, with replacement.
    """

    n: int
    difference: float
    low: float
    high: float
    win: int
    tie: int
    loss: int


def paired(ours: Sequence[float], theirs: Sequence[float], *, seed: int = 0) -> Paired:
    """Percentile bootstrap of the mean difference: Efron and Tibshirani, "An introduction to the bootstrap", 1993.

    Raises ValueError for lists of different length, or empty ones.
    """
    if len(ours) != len(theirs) or not ours:
        raise ValueError(f"pairs are expected, not {len(ours)} and {len(theirs)} values")
    differences = np.asarray(ours, dtype=np.float64) - np.asarray(theirs, dtype=np.float64)
    low, high = interval(differences.tolist(), seed=seed)
    return Paired(
        n=len(differences),
        difference=round(float(differences.mean()), 4),
        low=round(low, 4),
        high=round(high, 4),
        win=int((differences > EVEN).sum()),
        tie=int((abs(differences) <= EVEN).sum()),
        loss=int((differences < -EVEN).sum()),
    )


def shapley(players: Sequence[str], worth: Mapping[frozenset[str], float]) -> dict[str, float]:
    """Each player's mean gain over all orders of joining; together they are what the whole set is worth.

    φ(i) = Σ over S without i of |S|! (n - |S| - 1)! / n! · (v(S + i) - v(S)): Shapley, 1953. The empty set is worth 0
    where ``worth`` does not say; every other set must be in it.
    """
    n = len(players)
    values = {frozenset(): 0.0, **worth}
    shares = {}
    for player in players:
        others = [other for other in players if other != player]
        total = 0.0
        for size in range(n):
            weight = factorial(size) * factorial(n - size - 1) / factorial(n)
            for chosen in combinations(others, size):
                without = frozenset(chosen)
                total += weight * (values[without | {player}] - values[without])
        shares[player] = total
    return shares


def loss_beyond_own(
    gold: Iterable[tuple[Sequence[str], Sequence[bool], Sequence[bool]]], own: frozenset[str] | set[str]
) -> float:
    """How much of the gold that others hold too is lost when one backend is down, as a mean share over questions.

    ``gold`` has, for each question, the gold ids, which of them were found with all up, and which with one down;
    ``own`` is what that one alone held. Negative where more is found, because what it held has left its places.
    """
    losses = [
        sum(whole - less for g, whole, less in zip(ids, up, down, strict=True) if g not in own) / len(ids)
        for ids, up, down in gold
    ]
    return sum(losses) / len(losses) if losses else 0.0
