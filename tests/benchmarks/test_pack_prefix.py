"""The benchmark of the stable prefix: the same day each time, and its figures."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.pack import Data
from benchmarks.pack_prefix import FACTS, TURNS, day, measure


def test_the_day_is_the_same_each_time() -> None:
    said = [*day()]
    assert said == [*day()]
    assert len(said) == TURNS
    assert Counter(turn.group for turn in said if turn.key) == dict.fromkeys(("marked", "specific", "bare"), FACTS // 3)
    assert {turn.origin for turn in said} == {"owner", "agent", "tool"}


@pytest.mark.row("A138", "over a day of 200 turns the prefix hit rate is at least .9, and the morning is still known")
def test_the_prefix_hits_over_a_day() -> None:
    found = measure(Data())
    assert found["prefix_hit_rate"] >= 0.9
    assert found["saved"] >= 0.8
    assert found["known_in_the_evening"]["marked"] >= 0.9
    assert found["known_in_the_evening"]["all"] > found["last_turns_known_in_the_evening"]["all"]
