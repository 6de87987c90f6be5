"""Two lists become one: each formula with its arithmetic."""

from __future__ import annotations

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.index.merge import BEST_RRF, SearchResult, convex, fused_keys, rrf, seed_text_score, text_score, weighted


def test_rrf_is_the_sum_of_one_over_sixty_plus_rank() -> None:
    """b: 1/(60 + 2) + 1/(60 + 1); a: 1/(60 + 1) + 1/(60 + 3); c and d have one part each."""
    found = rrf([("a", 9.0), ("b", 5.0), ("c", 1.0)], [("b", 0.9), ("d", 0.8), ("a", 0.7)])
    assert found == [
        SearchResult("b", 1 / 62 + 1 / 61, 5.0, 0.9),
        SearchResult("a", 1 / 61 + 1 / 63, 9.0, 0.7),
        SearchResult("d", 1 / 62, None, 0.8),
        SearchResult("c", 1 / 63, 1.0, None),
    ]
    assert rrf([("a", 9.0)], [("a", 0.9)])[0].score == BEST_RRF


@pytest.mark.row("A060", "the text score is r/(1 + r), corrected")
@pytest.mark.parametrize(
    ("rank", "score"),
    [
        (-4.2, 4.2 / 5.2),
        (-1.0, 0.5),
        (-0.5, 0.5 / 1.5),
        (0.0, 1.0),
        (1.0, 0.5),
        (3.0, 0.25),
        (nan, 0.001),
        (-inf, 0.001),
    ],
)
def test_the_text_score_rises_with_what_bm25_says(rank: float, score: float) -> None:
    """FTS5's rank is negative: with r = -rank, r/(1 + r); else 1/(1 + rank); no number is 1/1000."""
    assert text_score(rank) == pytest.approx(score)


@pytest.mark.row("A060", "… mode `seed001` has the seed's formula: 1 for every hit", of="the text score is r/(1 + r)")
def test_the_seeds_text_score_is_one_for_every_hit() -> None:
    """1/(1 + max(0, rank)): FTS5's ranks are all negative, so max gives 0 and the score 1, good or bad."""
    assert seed_text_score(-0.1) == seed_text_score(-12.0) == 1 / (1 + 0)
    assert seed_text_score(3.0) == 1 / (1 + 3)


@pytest.mark.row("A061", "the weighted sum has the weights .7 and .3, by key")
def test_the_weighted_sum() -> None:
    """BM25 4 is the text score 4/5: both .7 × .9 + .3 × .8 = .87; words alone .3 × .8 = .24; vectors alone .7 × .6."""
    found = weighted([("both", 4.0), ("words", 4.0)], [("both", 0.9), ("vector", 0.6)])
    assert [one.key for one in found] == ["both", "vector", "words"]
    assert [one.score for one in found] == pytest.approx([0.7 * 0.9 + 0.3 * 0.8, 0.7 * 0.6, 0.3 * 0.8])


@pytest.mark.row("A061", "… weights are divided by their sum", of="the weighted sum has the weights")
def test_weights_are_divided_by_their_sum() -> None:
    """7 and 3 are .7 and .3; (7 × .5 + 3 × .5)/10 = .5."""
    lists = [("a", 1.0)], [("a", 0.5)]
    assert weighted(*lists, 7, 3) == weighted(*lists, 0.7, 0.3)
    assert weighted(*lists, 7, 3)[0].score == pytest.approx((7 * 0.5 + 3 * 0.5) / 10)


def test_without_vectors_the_text_score_is_the_score() -> None:
    """BM25 3 is 3/4, weighed by nothing: a floor means the same with a model and without one."""
    assert weighted([("a", 3.0)], [])[0].score == 0.75


def test_the_seeds_formula_loses_the_order_of_words() -> None:
    """Both .7 × .5 + .3 × 1 = .65 as the seed has it, and the stronger first where the formula is fixed."""
    by_words, by_vectors = [("z", 8.0), ("a", 0.2)], [("a", 0.5), ("z", 0.5)]
    legacy = weighted(by_words, by_vectors, score=seed_text_score)
    assert [one.key for one in legacy] == ["a", "z"]
    assert legacy[0].score == legacy[1].score == pytest.approx(0.65)
    assert [one.key for one in weighted(by_words, by_vectors)] == ["z", "a"]


@pytest.mark.feature(
    "… `convex` (the default) sums each score above the list's 100th, and `rrf` is rank fusion",
    of="the weighted sum has the weights",
)
def test_the_convex_sum_scales_each_list() -> None:
    """BM25 9 and 4.5 are 1 and .5, cosines .8, .6, .2 are 1, .75, .25: b has .7 × 1 + .3 × .5 = .85, d .7 × .75 = .525,
    a .7 × .25 + .3 × 1 = .475."""
    found = list(convex([("a", 9.0), ("b", 4.5)], [("b", 0.8), ("d", 0.6), ("a", 0.2)]))
    assert [one.key for one in found] == ["b", "d", "a"]
    assert [one.score for one in found] == pytest.approx([0.85, 0.525, 0.475])
    assert (found[2].lexical, found[2].cosine) == (9.0, 0.2)


def test_the_convex_sum_of_one_list_is_that_list() -> None:
    """Shares of its best, weighed by nothing; a negative cosine is 0."""
    assert [one.score for one in convex([("a", 4.0), ("b", 3.0), ("c", 1.0)], [])] == [1, 0.75, 0.25]
    assert [one.score for one in convex([], [("a", 0.4), ("b", 0.1), ("c", -0.1)])] == [1, 0.25, 0]


@pytest.mark.feature(
    "… if vectors do not discriminate, words decide: a rare code is found first", of="the weighted sum has the weights"
)
def test_nearly_equal_cosines_leave_the_order_to_the_words() -> None:
    """A rare code that one file has, .3, and a hundred cosines from .20 to .15: the best has .7 × (.20 - .15)/.20 =
    .175. From .80 to .15 it has .7 × (.80 - .15)/.80 = .569: that is near in meaning."""
    flat = [(f"v{n:03}", 0.20 - 0.05 * n / 99) for n in range(100)]
    found = list(convex([("code", 12.0)], flat))
    assert [one.key for one in found][:2] == ["code", "v000"]
    assert [one.score for one in found][:2] == pytest.approx([0.3, 0.175])
    steep = list(convex([("code", 12.0)], [("near", 0.80), *flat[1:]]))
    assert [one.key for one in steep][:2] == ["near", "code"]
    assert steep[0].score == pytest.approx(0.7 * 0.65 / 0.8)


def test_a_longer_list_changes_no_score() -> None:
    """What is behind the hundredth has 0, in the order of its list; nothing before it moves."""
    by_vectors = [(f"v{n:03}", 0.9 - n / 200) for n in range(150)]
    whole, first = list(convex([], by_vectors)), list(convex([], by_vectors[:100]))
    assert whole[:100] == first
    assert [one.key for one in whole] == [key for key, _ in by_vectors]
    assert {one.score for one in whole[99:]} == {0}


def test_in_the_convex_sum_a_picture_is_judged_by_its_vector_alone() -> None:
    """The best cosine is its own: 1, where a text that is as near has .7."""
    found = list(convex([("words", 1.0)], [("text", 0.5), ("picture", 0.5)], wordless=lambda key: key == "picture"))
    assert [(one.key, one.score) for one in found] == [("picture", 1.0), ("text", 0.7), ("words", 0.3)]


KEYS = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(words=KEYS, vectors=KEYS, bm25=st.floats(0.01, 50), cosine=st.floats(-1, 1))
def test_the_union_has_every_key_once_and_scores_between_0_and_1(
    words: list[str], vectors: list[str], bm25: float, cosine: float
) -> None:
    """Whatever the lists: nothing is lost or doubled, best first, equals by key."""
    by_words = [(key, bm25 / (n + 1)) for n, key in enumerate(words)]
    by_vectors = [(key, cosine) for key in vectors]
    for merge in (rrf, weighted, convex):
        found = list(merge(by_words, by_vectors))
        assert sorted(one.key for one in found) == sorted({*words, *vectors})
        assert found == sorted(found, key=lambda one: -one.score)
        assert merge is convex or found == sorted(found, key=lambda one: (-one.score, one.key))
        assert all(0 <= one.score <= 1 for one in found)


@given(words=KEYS, vectors=KEYS)
def test_fused_keys_are_those_of_rrf(words: list[str], vectors: list[str]) -> None:
    """The same keys in the same order, equals by key too."""
    by_words, by_vectors = ([(key, 1.0) for key in keys] for keys in (words, vectors))
    assert fused_keys(by_words, by_vectors) == [found.key for found in rrf(by_words, by_vectors)]
