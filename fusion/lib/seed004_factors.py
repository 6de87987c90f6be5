"""The factors of openclaw-mem's composite score (seed 004), each over its highest value. Pure functions.

A memory's score is its relevance times each of them. They are divided by what they are at most (1.2 and 1.3), so that
they are from 0 to 1 like every signal; that changes no order.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from math import log1p

from fusion.contract import Kind, Moment, State
from fusion.lib.due import due_end
from fusion.lib.importance import Label, label_of

HALF_LIFE_DAYS: Mapping[Kind, float] = {
    "preference": 365.0,
    "decision": 180.0,
    "rule": 180.0,
    "procedure": 180.0,
    "fact": 120.0,
    "plan": 60.0,
    "note": 30.0,
    "episode": 14.0,
    "turn": 14.0,
}
"""days after which a memory of a kind counts half; rules and procedures are what openclaw-mem calls a learning"""
STALE_AFTER = timedelta(days=7)
"""time after the end of its due time from which a plan is stale"""

_WEIGHT: Mapping[Label, float] = {"must_remember": 1.2, "nice_to_have": 1.0, "unknown": 1.0, "ignore": 0.8}
_MAX_WEIGHT = 1.2
_MAX_USE = 1.3
ACTIVE, CONSOLIDATED, STALE, ARCHIVED = 1.0, 0.9, 0.5, 0.0


def importance_weight(state: State) -> float:
    """1.2 for what must be remembered, 1 for what is nice to have or unknown, .8 for the rest; over 1.2."""
    return _WEIGHT[label_of(state.importance)] / _MAX_WEIGHT


def recency_decay(kind: Kind, began: datetime | None, now: datetime) -> float:
    """.5 ^ (age / half-life of the kind); 1 for a time to come, and without a time."""
    if began is None:
        return 1.0
    days = max(0.0, (now - began) / timedelta(days=1))
    return float(0.5 ** (days / HALF_LIFE_DAYS[kind]))


@lru_cache(1024)
def use_boost(count: int) -> float:
    """min(1.3, 1 + .1 · ln(1 + n)) for a memory that was in n blocks; over 1.3."""
    return min(_MAX_USE, 1 + 0.1 * log1p(max(0, count))) / _MAX_USE


def state_gate(state: State, now: datetime, *, derived: bool = False, replaced: bool = False) -> float:
    """0 for an archived memory, .5 for a stale one, .9 for a consolidated one, else 1.

    Stale is what another memory of the pool replaces, and a plan whose due time is long over. Consolidated is what was
    made of other memories.
    """
    if state.ended_at is not None and state.ended_at <= now:
        return ARCHIVED
    if replaced or is_over(state.due, now - STALE_AFTER):
        return STALE
    return CONSOLIDATED if derived else ACTIVE


def is_over(due: Moment | None, now: datetime) -> bool:
    """Whether a due time has ended by ``now``."""
    end = None if due is None else due_end(due)
    return end is not None and end <= now
