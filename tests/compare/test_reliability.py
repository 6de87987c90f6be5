"""Brier score and calibration error of probabilities."""

from __future__ import annotations

import pytest

from fusion.compare.reliability import figures, groups


def test_figures_of_probabilities_that_hold_and_of_some_that_do_not() -> None:
    """Of ten said to help with .3, three do; of ten said to help with .9, three do, too."""
    good, bad = ([(p, i < 3) for i in range(10)] for p in (0.3, 0.9))
    assert figures(good) == {"judged": 10, "helpful": 0.3, "brier": 0.21, "brier_of_mean": 0.21, "ece": 0.0}
    assert figures(bad)["ece"] == pytest.approx(0.6)
    assert figures(bad)["brier"] == pytest.approx(0.57)
    assert figures([]) == {}


def test_groups_are_of_like_probability() -> None:
    found = groups([(0.001, False), (0.31, True), (0.35, False), (1.0, True)])
    assert [(round(one.probability, 3), one.helps, one.size) for one in found] == [
        (0.001, 0.0, 1),
        (0.33, 0.5, 2),
        (1.0, 1.0, 1),
    ]
