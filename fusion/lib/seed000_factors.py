"""The factors of seed 000 that depend on a memory alone, each from 0 to 1, and its penalties. Pure functions.

Where openclaw-cortex differs from the seed, the docstring of the factor says which one is used here, and why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from math import exp, log, log2

from fusion.contract import UNSTATED_CONFIDENCE, Kind, Lifetime
from fusion.lib.words import words

SUPERSEDED_PENALTY = 0.3
"""factor on a memory's score while its successor is among the results"""

CONFLICT_PENALTY = 0.8
"""factor on the score of each side of an active conflict"""

HALF_LIFE_H = 168.0
"""hours after which recency has halved: a week"""

NEVER_ACCESSED = 0.1
"""recency of a memory that was never used: below anything used within the last three weeks"""

_TYPE: Mapping[Kind, float] = {"rule": 1.5, "procedure": 1.3, "fact": 1.0, "episode": 0.8, "preference": 0.7}
_MAX_TYPE_BOOST = 1.5


def recency(last_accessed: datetime | None, now: datetime) -> float:
    """exp(-ln 2 · hours / 168): 1 just now, .5 after a week. A time in the future counts as now."""
    if last_accessed is None:
        return NEVER_ACCESSED
    hours = max(0.0, (now - last_accessed).total_seconds() / 3600)
    return exp(-log(2) * hours / HALF_LIFE_H)


@lru_cache(1024)
def frequency(access_count: int) -> float:
    """min(1, log2(1 + n) / 10): 0 for none, 1 from 1,023 uses on."""
    return min(1.0, log2(1 + max(0, access_count)) / 10)


def type_boost(kind: Kind) -> float:
    """The seed's multiplier over its highest: rule 1, procedure .867, fact .667, episode .533, preference .467.

    Kinds that the seed does not have count as facts.
    """
    return _TYPE.get(kind, 1.0) / _MAX_TYPE_BOOST


def scope_boost(lifetime: Lifetime, project: str | None, asked: str | None) -> float:
    """1 for a memory of the query's project, .667 for a permanent one, .533 for any other; .667 for all if the query
    has no project."""
    if asked is None or lifetime == "permanent":
        return 1.0 / _MAX_TYPE_BOOST
    return 1.0 if lifetime == "project" and project == asked else 0.8 / _MAX_TYPE_BOOST


def confidence(stated: float) -> float:
    """The stated confidence, 0 to 1; below .01 it counts as unknown, .7."""
    return UNSTATED_CONFIDENCE if stated < 0.01 else min(1.0, stated)


@lru_cache(1024)
def reinforcement(count: int) -> float:
    """min(1, log2(n + 1) / 5): 0 for none, 1 from 31 on."""
    return min(1.0, log2(max(0, count) + 1) / 5)


def tag_affinity(tags: Sequence[str], asked: Collection[str]) -> float:
    """The share of the tags that have all their words in the query; 0 without tags.

    Compares words, not whitespace-separated tokens as openclaw-cortex does: "What about Rust?" has the word "rust".
    """
    if not tags:
        return 0.0
    return sum(1 for tag in tags if (own := words(tag)) and own <= set(asked)) / len(tags)
