"""Chooses which observations leave the stable prefix, by importance and age.

A pruning rewrites the prefix, so the providers' caches miss it once. It is therefore done seldom and down to
`KEPT_SHARE` of the limit: caches hit again until the block has grown by what was pruned. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from fusion.lib.importance import Label, label_of

KEPT_SHARE = 0.6
"""what is left after pruning, as a share of the most tokens"""
HALF_LIFE: dict[Label, timedelta] = {
    "must_remember": timedelta(days=30),
    "nice_to_have": timedelta(days=7),
    "unknown": timedelta(days=3),
    "ignore": timedelta(days=1),
}
"""the age at which an observation is worth half of its importance; within a day age counts little, since the raw buffer
has what was said last anyway"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One observation: its number in the log, its importance (None: unknown), its time and the tokens of its line.

    ``specific``: it has a number or a name.
    """

    number: int
    importance: float | None
    at: datetime
    tokens: int
    specific: bool = False


SPECIFIC = 0.15
"""what a number or a name adds to the importance: nobody could guess it again"""
UNKNOWN = 0.5
"""the importance that an observation without one is taken to have, since nothing says that it is unimportant"""


def worth(entry: Entry, now: datetime) -> float:
    """The importance of an observation, and what its details add, halved with each half-life of its label.

    A time in the future has no age.
    """
    importance = UNKNOWN if entry.importance is None else entry.importance
    importance += SPECIFIC if entry.specific else 0.0
    age = max(now - entry.at, timedelta())
    return float(importance * 0.5 ** (age / HALF_LIFE[label_of(entry.importance)]))


def pruned(entries: Sequence[Entry], now: datetime, most_tokens: int, kept_tokens: int) -> frozenset[int]:
    """The numbers of the observations to drop, those of least worth first, so that the rest has ``kept_tokens``.

    None while all fit into ``most_tokens``. Of equal worth the older one is dropped.
    """
    left = sum(entry.tokens for entry in entries)
    gone: set[int] = set()
    if left <= most_tokens:
        return frozenset()
    for entry in sorted(entries, key=lambda one: (worth(one, now), one.at, one.number)):
        if left <= kept_tokens:
            break
        gone.add(entry.number)
        left -= entry.tokens
    return frozenset(gone)
