"""How often the stores are asked for their state."""

from __future__ import annotations

import pytest

from fusion.gateway.health import LONGEST_AGE_S, MAX_AGE_S, apart_s, lasts_s


@pytest.mark.feature("stores that take long to say their state are asked less often")
def test_a_look_that_took_long_counts_for_longer() -> None:
    assert [lasts_s(took_s, sound=True) for took_s in (0.0, 0.01, 0.5, 30.0)] == [
        MAX_AGE_S,
        MAX_AGE_S,
        25.0,
        LONGEST_AGE_S,
    ]


def test_after_a_look_at_which_a_store_did_not_answer_the_next_is_soon() -> None:
    """It took long because a store waited for its server, which may be back a second later."""
    assert lasts_s(1.0, sound=False) == MAX_AGE_S


def test_comparisons_that_take_long_are_further_apart() -> None:
    """A fiftieth of the time, and no less often than a tenth of what was set."""
    assert [apart_s(60.0, took_s) for took_s in (0.0, 1.0, 3.0, 60.0)] == [60.0, 60.0, 150.0, 600.0]
