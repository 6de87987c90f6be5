"""The factors of openclaw-mem's composite score: their arithmetic."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import e

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import KINDS, Kind, Moment, State
from fusion.lib.seed004_factors import (
    HALF_LIFE_DAYS,
    importance_weight,
    is_over,
    recency_decay,
    state_gate,
    use_boost,
)

NOW = datetime(2026, 3, 14, 12, tzinfo=UTC)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


@pytest.mark.row("A146", "half-lives by kind: preference 365, decision 180, fact 120, plan 60, note 30, event 14 days")
@pytest.mark.parametrize(
    ("kind", "days"),
    [
        ("preference", 365),
        ("decision", 180),
        ("rule", 180),
        ("procedure", 180),
        ("fact", 120),
        ("plan", 60),
        ("note", 30),
        ("episode", 14),
        ("turn", 14),
    ],
)
def test_memory_counts_half_after_the_half_life_of_its_kind(kind: Kind, days: float) -> None:
    assert recency_decay(kind, ago(days), NOW) == pytest.approx(0.5)
    assert recency_decay(kind, ago(2 * days), NOW) == pytest.approx(0.25)
    assert recency_decay(kind, NOW, NOW) == recency_decay(kind, ago(-9), NOW) == recency_decay(kind, None, NOW) == 1


def test_every_kind_has_a_half_life() -> None:
    assert set(HALF_LIFE_DAYS) == set(KINDS)


@pytest.mark.row("A147", "the factors of the composite score: weight 1.2/1/1/.8, use up to 1.3, state 1/.9/.5/0")
def test_factors_have_the_seeds_arithmetic() -> None:
    weights = [importance_weight(State(importance=score)) * 1.2 for score in (0.8, 0.5, None, 0.1)]
    assert weights == [pytest.approx(one) for one in (1.2, 1.0, 1.0, 0.8)]
    assert use_boost(0) * 1.3 == pytest.approx(1.0)
    assert use_boost(round(e) - 1) * 1.3 == pytest.approx(1.11, abs=0.01), "1 + .1 · ln(1 + 2)"
    assert use_boost(20) == use_boost(10**9) == 1.0
    assert state_gate(State(), NOW) == 1.0
    assert state_gate(State(), NOW, derived=True) == 0.9
    assert state_gate(State(), NOW, derived=True, replaced=True) == 0.5
    assert state_gate(State(ended_at=ago(1), ended="archived"), NOW) == 0.0


@pytest.mark.row("A146", "a plan whose due time is over for a week counts half in `seed004`")
def test_plan_that_is_long_over_is_stale() -> None:
    due = Moment(datetime(2026, 3, 5, tzinfo=UTC), "day")
    assert state_gate(State(due=due), NOW) == 0.5
    assert state_gate(State(due=Moment(datetime(2026, 3, 8, tzinfo=UTC), "day")), NOW) == 1.0
    assert state_gate(State(due=Moment(datetime(2026, 3, 1, tzinfo=UTC), "month")), NOW) == 1.0, "of March"
    assert not is_over(Moment(datetime(9999, 12, 31, tzinfo=UTC), "day"), NOW)


@given(st.floats(0, 10_000), st.integers(-5, 10**6), st.sampled_from(KINDS))
def test_every_factor_is_from_0_to_1(days: float, count: int, kind: Kind) -> None:
    assert 0 <= recency_decay(kind, ago(days), NOW) <= 1
    assert 1 / 1.3 <= use_boost(count) + 1e-12 <= 1 + 1e-9
