"""Shapley values of backends, and the loss with one of them down. Two arms are compared by `fusion.compare.verdict`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from math import factorial


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
