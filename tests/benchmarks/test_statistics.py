"""What may be said about two arms, and what each backend is worth: by hand, and for any numbers."""

from __future__ import annotations

from itertools import combinations, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.statistics import loss_beyond_own, paired, shapley

THREE = ("a", "b", "c")
SETS = [frozenset(s) for n in (1, 2, 3) for s in combinations(THREE, n)]


def test_pairs_are_counted_and_averaged() -> None:
    """Differences 1, 0, 0 and -0.5: mean 0.5 / 4 = 0.125; one win, two ties, one loss."""
    found = paired([1, 1, 0, 0], [0, 1, 0, 0.5])
    assert (found.n, found.difference, found.win, found.tie, found.loss) == (4, 0.125, 1, 2, 1)
    assert found.low <= found.difference <= found.high


def test_the_same_difference_everywhere_has_no_spread() -> None:
    """Whatever is drawn again, the mean is 0.25: so are both ends."""
    found = paired([0.5] * 20, [0.25] * 20)
    assert (found.low, found.difference, found.high) == (0.25, 0.25, 0.25)


def test_two_questions_by_hand() -> None:
    """Of differences 0 and 1, drawn twice: mean 0, ½, ½ or 1 with ¼ each, so 2.5 % and 97.5 % are 0 and 1."""
    found = paired([0, 1], [0, 0])
    assert (found.low, found.high) == (0.0, 1.0)


def test_the_same_seed_draws_alike() -> None:
    """An interval can be printed again."""
    ours, theirs = [0.1 * (i % 7) for i in range(50)], [0.1 * (i % 5) for i in range(50)]
    assert paired(ours, theirs, seed=3) == paired(ours, theirs, seed=3)


def test_pairs_are_pairs() -> None:
    """Lists of different length are refused."""
    with pytest.raises(ValueError, match="not 1 and 2"):
        paired([1], [1, 2])


def test_shapley_of_two_by_hand() -> None:
    """v(a) = .6, v(b) = .4, v(ab) = .8: a gains (.6 - 0 + .8 - .4) / 2 = .5, b (.4 - 0 + .8 - .6) / 2 = .3."""
    worth = {frozenset("a"): 0.6, frozenset("b"): 0.4, frozenset("ab"): 0.8}
    assert shapley("ab", worth) == pytest.approx({"a": 0.5, "b": 0.3})


def test_what_nobody_needs_is_worth_nothing() -> None:
    """c adds nothing to any set, so its share is 0 and the others' are as without it."""
    base = {frozenset(): 0.0, frozenset("a"): 0.6, frozenset("b"): 0.4, frozenset("ab"): 0.8}
    worth = {**base, **{s | {"c"}: v for s, v in base.items()}}
    assert shapley(THREE, worth) == pytest.approx({"a": 0.5, "b": 0.3, "c": 0.0})


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


def test_only_what_others_hold_counts_as_lost_beyond_own() -> None:
    """The store down alone held x. Question 1 loses x and y: 1/2 beyond; question 2 gains z: -1. Mean -1/4."""
    first = (("x", "y"), (True, True), (False, False))
    second = (("z",), (False,), (True,))
    assert loss_beyond_own([first, second], {"x"}) == (1 / 2 - 1) / 2
    assert loss_beyond_own([], set()) == 0.0
