"""Jaccard similarity with the sums written out, and the words that keep similar statements apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.jaccard import guard_words, jaccard
from fusion.lib.words import words

SETS = st.frozensets(st.sampled_from("abcdef"))


@pytest.mark.parametrize(
    ("one", "other", "similarity"),
    [
        ("use postgres", "use postgres", 1.0),
        ("we use postgres", "we use sqlite", 2 / 4),
        ("alpha beta gamma", "alpha beta gamma delta epsilon", 3 / 5),
        ("we chose postgres for the bookings", "we chose postgres for the bookings store", 6 / 7),
        ("pump", "valve", 0 / 2),
        ("", "valve", 0.0),
        ("", "", 1.0),
    ],
)
def test_jaccard_is_common_words_over_all_words(one: str, other: str, similarity: float) -> None:
    """ "we use postgres" and "we use sqlite" have 2 common words of 4."""
    assert jaccard(words(one), words(other)) == similarity


@given(SETS, SETS)
def test_jaccard_is_symmetric_and_a_share(one: frozenset[str], other: frozenset[str]) -> None:
    assert 0.0 <= jaccard(one, other) == jaccard(other, one) <= 1.0
    assert (jaccard(one, other) == 1.0) == (one == other)


@pytest.mark.parametrize(
    ("text", "guarded"),
    [
        ("He did not pay 190 kr on Monday", {"not", "190", "monday"}),
        ("We stopped it yesterday", {"stopped", "yesterday"}),
        ("It isn't on port 8080a", {"isn", "8080a"}),
        ("We use postgres", set()),
    ],
)
def test_guard_words_are_negations_dates_and_numbers(text: str, guarded: set[str]) -> None:
    """Two texts that differ in one of these state different things, however many words they share."""
    assert guard_words(words(text)) == guarded
