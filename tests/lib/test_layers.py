"""The layers of a text by rules: an abstract of one line, an overview of a few sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.layers import ABSTRACT_CHARS, OVERVIEW_CHARS, best_sentence, layers_of

REPORT = (
    "The bookings database moved to Postgres in April. "
    "We compared Postgres and SQLite for the bookings database for two weeks. "
    "Lunch was late on both days. "
    + "The parking lot is closed until further notice because of the works on the northern gate of the yard. " * 4
    + "The port of the bookings database is 5432."
)


@pytest.mark.row("A133", "the abstract and the overview of a long text are its own sentences, in its order")
def test_layers_are_sentences_of_the_text() -> None:
    made = layers_of(REPORT)
    assert made.abstract in REPORT
    assert all(part in REPORT for part in made.overview.split(" […] "))
    assert "bookings database" in made.overview


def test_a_short_text_is_its_own_layers() -> None:
    assert layers_of("Tea at\nfour.").abstract == layers_of("Tea at\nfour.").overview == "Tea at four."


def test_the_best_sentence_has_most_of_the_question() -> None:
    assert (
        best_sentence(REPORT, "which port has the bookings database?") == "The port of the bookings database is 5432."
    )
    assert best_sentence(REPORT, "giraffes") == ""


@given(text=st.text(max_size=3000))
def test_layers_are_bounded_lines(text: str) -> None:
    made = layers_of(text)
    assert len(made.abstract) <= ABSTRACT_CHARS
    assert len(made.overview) <= OVERVIEW_CHARS
    assert len(f"{made.abstract}x".splitlines()) == len(f"{made.overview}x".splitlines()) == 1
