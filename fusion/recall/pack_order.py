"""The order in which openclaw-mem (seed 004) takes memories into a pack.

What a graph synthesised comes first, then trust, importance, RRF score, the number of matches and recency decide, each
among those that are equal before it. What is equal in all of these keeps the order that it came in. The order compares
labels of importance rather than scores, so that among memories of one label the search decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from fusion.contract import Trust
from fusion.lib.importance import LABELS, Label

T = TypeVar("T")

TRUST_ORDER: tuple[Trust, ...] = ("trusted", "unknown", "untrusted", "quarantined")
"""from the most trusted tier to the least"""
_PLACE_OF_TRUST = {tier: place for place, tier in enumerate(TRUST_ORDER)}
_PLACE_OF_LABEL = {label: place for place, label in enumerate(LABELS)}


@dataclass(frozen=True, slots=True)
class Merit:
    """What a memory's place in a pack depends on. ``rrf`` is its fused score, ``matches`` how many searches found it.

    ``at`` is when it was said or remembered, None if that is not known: such a memory counts as the oldest.
    """

    trust: Trust = "unknown"
    importance: Label = "unknown"
    rrf: float = 0.0
    matches: int = 0
    at: datetime | None = None
    synthesised: bool = False
    """whether a graph put it together from several memories"""


Key = tuple[bool, int, int, float, int, float]


def sort_key(merit: Merit) -> Key:
    """The key by which a sort puts the memory that a pack takes first before the others."""
    return (
        not merit.synthesised,
        _PLACE_OF_TRUST[merit.trust],
        _PLACE_OF_LABEL[merit.importance],
        -merit.rrf,
        -merit.matches,
        float("inf") if merit.at is None else -merit.at.timestamp(),
    )


def in_pack_order(items: Iterable[T], merit_of: Callable[[T], Merit]) -> list[T]:
    """The items in the order in which a pack takes them."""
    return sorted(items, key=lambda item: sort_key(merit_of(item)))
