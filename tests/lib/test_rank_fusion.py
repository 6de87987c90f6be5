"""Reciprocal rank fusion, with its arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.rank_fusion import K, highest, rank_fusion, ranked, reciprocal

LISTS = st.lists(st.lists(st.integers(0, 20), unique=True), max_size=4)


def test_rank_fusion_adds_one_over_sixty_plus_rank() -> None:
    """b: 1/(60 + 2) + 1/(60 + 1) = .032522; a: 1/(60 + 1) = .016393; c: 1/(60 + 2) = .016129."""
    scores = rank_fusion([ranked("ab"), ranked("bc")])
    assert scores == {"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62}
    assert scores["b"] == pytest.approx(0.032522, abs=1e-6)


def test_rank_fusion_weighs_lists() -> None:
    """Weights .6 and .4, k 10. a: .6/(10 + 1) + .4/(10 + 2) = .087879; b: .4/(10 + 1) = .036364."""
    assert rank_fusion([ranked("a"), ranked("ba")], (0.6, 0.4), k=10) == pytest.approx(
        {"a": 0.087879, "b": 0.036364}, abs=1e-6
    )


def test_rank_fusion_takes_shared_ranks() -> None:
    """Three items that a list cannot tell apart are all third: 1/(60 + 3) each."""
    assert rank_fusion([[("a", 3), ("b", 3), ("c", 3)]]) == dict.fromkeys("abc", 1 / 63)


def test_reciprocal_and_highest() -> None:
    """Rank 3 of a list of weight 2: 2/(60 + 3). First in lists of weight 1 and 2: 3/(60 + 1)."""
    assert reciprocal(3, 2.0) == 2 / 63
    assert highest([1.0, 2.0]) == 3 / 61
    assert highest([]) == 0.0


@given(LISTS)
def test_rank_fusion_scores_lie_between_zero_and_the_highest(lists: list[list[int]]) -> None:
    scores = rank_fusion(map(ranked, lists))
    assert scores.keys() == {item for one in lists for item in one}
    assert all(0 < score <= highest([1.0] * len(lists)) + 1e-15 for score in scores.values())


@given(LISTS, st.integers(0, 20))
def test_rank_fusion_never_lowers_an_item_that_one_more_list_has(lists: list[list[int]], item: int) -> None:
    before = rank_fusion(map(ranked, lists)).get(item, 0.0)
    assert rank_fusion(map(ranked, [*lists, [item]]))[item] == pytest.approx(before + 1 / (K + 1))
