"""Reciprocal rank fusion, with its arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.recall.dedup import Candidate, SourceHit
from fusion.recall.rrf import ceiling, rrf
from fusion.recipe import FuseSettings
from tests.recall.helpers import found_by, standalone


@pytest.mark.row("A020", "A159", "reciprocal rank fusion: the sum of 1 / (60 + rank)")
def test_rrf_score_is_the_sum_of_one_over_k_plus_rank() -> None:
    """Third with one and first with another: 1/(60+3) + 1/(60+1)."""
    (only,) = rrf([found_by("a", standalone("a", "t"), cortex=3, mem0=1)], FuseSettings())
    assert only.score == pytest.approx(1 / (60 + 3) + 1 / (60 + 1))
    assert only.parts == {"cortex": pytest.approx(1 / 63), "mem0": pytest.approx(1 / 61)}


@pytest.mark.feature("one memory in several backends gets one vote from each", part="faults/backends")
def test_rrf_counts_one_vote_per_backend() -> None:
    """Returned twice by one backend, at 2 and 5: only 1/(60+2) counts."""
    twice = Candidate(
        "a", standalone("a", "t"), (SourceHit("x", "a", "1", 5, None, ""), SourceHit("x", "b", "2", 2, None, ""))
    )
    assert rrf([twice], FuseSettings())[0].score == pytest.approx(1 / (60 + 2))


@pytest.mark.row("A020", "each backend has one vote, weighted by the recipe")
def test_rrf_weight_multiplies_a_vote() -> None:
    """Seed 000's .6 vector and .4 graph: .6/(60+1) + .4/(60+2)."""
    numbers = FuseSettings(weights={"vector": 0.6, "graph": 0.4})
    (only,) = rrf([found_by("a", standalone("a", "t"), vector=1, graph=2)], numbers)
    assert only.score == pytest.approx(0.6 / 61 + 0.4 / 62)
    assert ceiling(["vector", "graph"], numbers) == pytest.approx(1.0 / 61)


def test_rrf_two_second_places_beat_one_first_place() -> None:
    """Second with two backends, 2/62 = .0323, is above first with one, 1/61 = .0164."""
    ranked = rrf(
        [found_by("one", standalone("1", "t"), x=1), found_by("both", standalone("2", "u"), x=2, y=2)], FuseSettings()
    )
    assert [r.candidate.ref for r in ranked] == ["both", "one"]


def test_ties_go_to_the_smaller_ref() -> None:
    """The order never depends on chance."""
    ranked = rrf([found_by("b", standalone("1", "t"), x=1), found_by("a", standalone("2", "u"), y=1)], FuseSettings())
    assert [r.candidate.ref for r in ranked] == ["a", "b"]


@given(st.dictionaries(st.sampled_from("wxyz"), st.integers(1, 100), min_size=1))
def test_rrf_score_never_exceeds_the_ceiling(ranks: dict[str, int]) -> None:
    """First place with everyone is the most there is."""
    (only,) = rrf([found_by("a", standalone("a", "t"), **ranks)], FuseSettings())
    assert 0 < only.score <= ceiling(list(ranks), FuseSettings()) + 1e-12
