"""The values of statements, and how those of two statements relate."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.stated_values import Relation, Value, relation, stated_values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The ferry leaves at half past seven.", Value("clock", "7:30")),
        ("Dinner is at 8:30 pm.", Value("clock", "20:30")),
        ("Dinner is at seven in the evening.", Value("clock", "19:00")),
        ("Das Büro schließt um 16 Uhr.", Value("clock", "16:00")),
        ("The regatta is on 14 June.", Value("date", "14.6")),
        ("The regatta is on June 14.", Value("date", "14.6")),
        ("Le marché a lieu le mardi.", Value("weekday", "2")),
        ("The pump is serviced every week.", Value("frequency", "week")),
        ("The pump is serviced once a month.", Value("frequency", "month")),
        ("The lease runs for three weeks.", Value("duration", "21")),
        ("A berth costs 1,200 euros.", Value("euro", "1200")),
        ("Members pay 15% less.", Value("percent", "15")),
        ("La panadería tiene cinco hornos.", Value("#horno", "5")),
    ],
)
def test_values_of_a_statement(text: str, value: Value) -> None:
    assert value in stated_values(text)


def test_a_month_that_is_another_word_counts_with_a_day_only() -> None:
    assert not stated_values("Guests may stay.")
    assert stated_values("Guests stay until 3 May.") == {Value("date", "3.5")}


@pytest.mark.parametrize(
    ("one", "other", "question", "expected"),
    [
        ("The limit is 20 MB.", "Files may have 100 MB.", "What is the limit?", Relation.DIFFERENT),
        ("The limit is three weeks.", "At most 21 days.", "How long may guests stay?", Relation.EQUAL),
        ("The room has 19 degrees.", "The room has two windows.", "How warm is the room?", Relation.UNLIKE),
        ("The room is warm.", "The room has 19 degrees.", "How warm is the room?", Relation.ABSENT),
        ("Berth 7 has 3 hooks.", "Berth 7 has 4 hooks.", "How many hooks has berth 7?", Relation.DIFFERENT),
    ],
)
def test_relation_of_amounts(one: str, other: str, question: str, expected: Relation) -> None:
    assert relation(one, other, question, times=False) is expected
    assert relation(other, one, question, times=False) is expected


def test_relation_of_times_ignores_amounts() -> None:
    one, other = "The market is on Monday and has 20 stalls.", "The market is on Friday and has 20 stalls."
    assert relation(one, other, "When is the market?", times=True) is Relation.DIFFERENT


@given(st.text(max_size=300), st.text(max_size=300), st.booleans())
def test_relation_is_symmetric(one: str, other: str, times: bool) -> None:
    assert relation(one, other, "", times=times) is relation(other, one, "", times=times)


def test_values_of_a_huge_text_are_read_fast() -> None:
    began = time.perf_counter()
    stated_values("at 7 12:30 3 May every " * 50_000)
    assert time.perf_counter() - began < 0.5
