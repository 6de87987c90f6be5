"""Diversity: the next best that is unlike those before it."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.markdown.mmr import mmr, tokens

Scored = tuple[str, float]


def order(items: list[Scored], weight: float = 0.7) -> list[str]:
    return [text for text, _ in mmr(items, lambda item: item[1], lambda item: item[0], weight)]


@pytest.mark.row("A066", "MMR: λ × relevance − (1 − λ) × likeness, by Jaccard")
def test_the_arithmetic() -> None:
    """Scores 1, .9, .5 are relevances 1, (.9 - .5)/.5 = .8 and 0. After the first, its near twin shares 3 of 4 words:
    .7 × .8 - .3 × .75 = .335; the other shares none: .7 × 0 - .3 × 0 = 0. So the twin is second at λ = .7. At λ = .2
    it has .2 × .8 - .8 × .75 = -.44, and the other, with 0, goes before it."""
    items = [("red cat sleeps", 1.0), ("red cat sleeps well", 0.9), ("blue dog", 0.5)]
    assert order(items, 0.7) == ["red cat sleeps", "red cat sleeps well", "blue dog"]
    assert order(items, 0.2) == ["red cat sleeps", "blue dog", "red cat sleeps well"]


def test_a_repeated_note_makes_room() -> None:
    """Three days say the same. Relevances 1, .98, .96, .6 of scores .95, .94, .93, .75 (spread .5 with the last, 0):
    the copies have .7 × .98 - .3 × 1 = .386, the other .7 × .6 - 0 = .42, and so it is second."""
    same = "stand up done tests green"
    items = [(f"{same}", 0.95), (f"{same} ", 0.94), (f"{same}  ", 0.93), ("router at 10.0.0.7", 0.75), ("x", 0.45)]
    assert order(items)[:2] == [same, "router at 10.0.0.7"]


def test_lambda_one_is_the_plain_order() -> None:
    """…and lambda zero looks at likeness alone, after the best."""
    items = [("a b", 0.2), ("a b c", 0.9), ("d", 0.1)]
    assert order(items, 1.0) == ["a b c", "a b", "d"]
    assert order(items, 0.0) == ["a b c", "d", "a b"]


@pytest.mark.row(
    "A066",
    "… with λ = 1 the order does not change; equal scores count as 1, ties go by score",
    of="MMR: λ × relevance −",
)
def test_equal_scores_count_as_one_and_ties_keep_the_order_of_scores() -> None:
    """No range: every relevance is 1. Equal values: the better score; equal scores: as they came."""
    assert order([("a", 0.5), ("b", 0.5), ("a b", 0.5)], 0.7) == ["a", "b", "a b"]
    assert order([("b", 0.4), ("a", 0.5)], 0.7) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Café", {"café"}),
        ("Cafe\u0301", {"café"}),
        ("user_id = 7", {"user_id", "7"}),
        ("हिन्दी!", {"हिन्दी"}),
        ("— …", set()),
    ],
)
def test_words_are_letters_marks_and_digits_in_nfc(text: str, words: set[str]) -> None:
    """…in lower case; what has none is the empty set, which is like another empty one."""
    assert tokens(text) == words


ITEMS = st.lists(st.tuples(st.sampled_from(["a b", "a b c", "c d", "e", ""]), st.floats(0, 1)), max_size=12)


@given(ITEMS, st.floats(0, 1), st.integers(0, 12))
def test_the_best_k_are_the_first_of_the_best_k_plus_one(items: list[Scored], weight: float, k: int) -> None:
    """Nothing is lost, and who asks for fewer gets the same ones."""

    def first(k: int) -> list[Scored]:
        return list(islice(mmr(items, lambda item: item[1], lambda item: item[0], weight), k))

    assert first(k) == first(k + 1)[:k]
    assert sorted(first(len(items))) == sorted(items)
