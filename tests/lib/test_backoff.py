"""One formula for all waits between tries."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.backoff import backoff_s


@pytest.mark.parametrize(("failures", "wait_s"), [(0, 5), (1, 5), (2, 10), (3, 20), (5, 80), (6, 120), (10**9, 120)])
def test_backoff_doubles_from_the_first_wait_up_to_the_cap(failures: int, wait_s: float) -> None:
    """5, 10, 20, 40, 80, and from then on 120; a week of failures does not overflow."""
    assert backoff_s(failures, 5.0, 120.0) == wait_s


def test_backoff_without_a_cap_goes_on_doubling() -> None:
    """The caller bounds its tries."""
    assert [backoff_s(failures, 60.0) for failures in (1, 2, 3)] == [60, 120, 240]
    assert math.isfinite(backoff_s(10**9, 60.0))


@pytest.mark.parametrize(("drawn", "wait_s"), [(0.0, 8.0), (0.5, 10.0), (1.0, 12.0)])
def test_backoff_spread_is_around_the_steady_wait(drawn: float, wait_s: float) -> None:
    """10 s ± 20 %."""
    assert backoff_s(2, 5.0, spread=0.2, draw=lambda: drawn) == pytest.approx(wait_s)


@given(st.integers(0, 10**6), st.floats(0.001, 1e3), st.floats(0.001, 1e4), st.floats(0.0, 0.9))
def test_backoff_stays_within_the_spread_of_the_cap(failures: int, first_s: float, cap_s: float, spread: float) -> None:
    """Whatever is drawn, and it never shrinks with more failures."""
    wait_s = backoff_s(failures, first_s, cap_s, spread=spread)
    assert 0 < wait_s <= cap_s * (1 + spread) * (1 + 1e-9)
    assert backoff_s(failures + 1, first_s, cap_s) >= backoff_s(failures, first_s, cap_s)
