"""What each backend is worth: by hand, and for any numbers."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.shapley import loss_beyond_own, shapley

THREE = ("a", "b", "c")
SETS = [frozenset(s) for n in (1, 2, 3) for s in combinations(THREE, n)]


def test_shapley_of_two_by_hand() -> None:
    """v(a) = .6, v(b) = .4, v(ab) = .8: a gains (.6 - 0 + .8 - .4) / 2 = .5, b (.4 - 0 + .8 - .6) / 2 = .3."""
    worth = {frozenset("a"): 0.6, frozenset("b"): 0.4, frozenset("ab"): 0.8}
    assert shapley("ab", worth) == pytest.approx({"a": 0.5, "b": 0.3})


def test_a_backend_that_adds_nothing_has_no_share() -> None:
    """c adds nothing to any set, so its share is 0 and the others' are as without it."""
    base = {frozenset(): 0.0, frozenset("a"): 0.6, frozenset("b"): 0.4, frozenset("ab"): 0.8}
    worth = {**base, **{s | {"c"}: v for s, v in base.items()}}
    assert shapley(THREE, worth) == pytest.approx({"a": 0.5, "b": 0.3, "c": 0.0})


@pytest.mark.feature("the contributions of the backends add up to the whole")
@given(st.lists(st.floats(0, 1), min_size=len(SETS), max_size=len(SETS)))
def test_the_shares_sum_to_the_whole(values: list[float]) -> None:
    """Whatever the subsets are worth; and each share is the mean gain over the six orders of joining."""
    worth = dict(zip(SETS, values, strict=True))
    shares = shapley(THREE, worth)
    assert sum(shares.values()) == pytest.approx(worth[frozenset(THREE)])
    for player in THREE:
        gains = []
        for order in permutations(THREE):
            before = frozenset(order[: order.index(player)])
            gains.append(worth[before | {player}] - worth.get(before, 0.0))
        assert shares[player] == pytest.approx(sum(gains) / 6)


@pytest.mark.feature("figures: what is lost with one backend down, next to its own answers")
def test_only_what_others_hold_counts_as_lost_beyond_own() -> None:
    """The store down alone held x. Question 1 loses x and y: 1/2 beyond; question 2 gains z: -1. Mean -1/4."""
    first = (("x", "y"), (True, True), (False, False))
    second = (("z",), (False,), (True,))
    assert loss_beyond_own([first, second], {"x"}) == (1 / 2 - 1) / 2
    assert loss_beyond_own([], set()) == 0.0
