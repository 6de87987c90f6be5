"""Reciprocal rank fusion (RRF): several ranked lists become one, by ranks alone.

    score(item) = Σ over the lists that have the item: weight(list) / (k + rank(item in list))

Ranks are whole numbers from 1 (the best) on. ``k`` is a rank, too: the larger it is, the closer together the first few
places are. A weight is a pure number, 0 or more. A list's share of a score is between 0 and weight / (k + 1), so a
score is between 0 and Σ weights / (k + 1); with two lists of weight 1 and k = 60 that is 0.0328.

Cormack, Clarke, Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods",
SIGIR 2009. They found k = 60 to be near the best value on four collections, and other values little different.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import count, repeat
from typing import TypeVar

K = 60

T = TypeVar("T", bound=Hashable)


def reciprocal(rank: int, weight: float = 1.0, k: int = K) -> float:
    """What one list adds to the score of the item that has this rank in it."""
    return weight / (k + rank)


def highest(weights: Sequence[float], k: int = K) -> float:
    """The score of an item that is first in every one of the lists with these weights."""
    return sum(weights) / (k + 1)


def ranked(items: Iterable[T]) -> Iterable[tuple[T, int]]:
    """Items, best first, with their ranks."""
    return zip(items, count(1), strict=False)


def rank_fusion(
    lists: Iterable[Iterable[tuple[T, int]]], weights: Iterable[float] | None = None, k: int = K
) -> dict[T, float]:
    """The scores of all items, in the order in which the lists first name them.

    Each list has an item at most once, with its rank; `ranked` gives ranks to a list in order. Without ``weights`` each
    list weighs 1. Items that a list does not distinguish may share a rank. The caller sorts the result, since the order
    of equal scores is the caller's decision.
    """
    scores: dict[T, float] = {}
    for ranks, weight in zip(lists, repeat(1.0) if weights is None else weights, strict=False):
        for item, rank in ranks:
            scores[item] = scores.get(item, 0.0) + weight / (k + rank)
    return scores
