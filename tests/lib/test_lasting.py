"""How long a statement is worth keeping, by its wording, and which number or date replaces another."""

from __future__ import annotations

import pytest

from fusion.lib.lasting import (
    LASTING_DAYS,
    OTHER_DAYS,
    PASSING_DAYS,
    half_life_days,
    has_other_value,
)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("Ben lives in Oslo.", LASTING_DAYS),
        ("My daughter Mia is allergic to peanuts.", LASTING_DAYS),
        ("We moved to Bergen last week.", LASTING_DAYS),
        ("From now on, write dates in ISO form.", LASTING_DAYS),
        ("We decided to go with Postgres.", LASTING_DAYS),
        ("The server is down right now.", PASSING_DAYS),
        ("Ben is ill today.", PASSING_DAYS),
        ("Ich war gestern in Lyon.", PASSING_DAYS),
        ("I paid 30 euros for the taxi.", OTHER_DAYS),
        ("The build failed.", OTHER_DAYS),
        ("Ada wohnt in Berlin.", OTHER_DAYS),
        ("", OTHER_DAYS),
    ],
)
def test_a_half_life_is_that_of_the_wording(text: str, days: float) -> None:
    assert half_life_days(text) == days


@pytest.mark.parametrize(
    ("newer", "older", "is_replaced"),
    [
        ("The ledger is due on 9 June.", "The ledger is due on 7 May.", True),
        ("The server kedjan listens on port 6000.", "The server kedjan listens on port 5432.", True),
        ("We moved the deadline to 9 June.", "We moved the deadline to 30 May.", True),
        ("The server kedjan listens on port 6000.", "The server solvik listens on port 5432.", False),
        ("The taxi took 30 minutes.", "The taxi took 20 minutes.", False),
        ("Ada has an appointment on 9 June.", "Ada has an appointment on 7 May.", False),
        ("Room 12 has a projector.", "Room 13 has a projector.", False),
        ("Mia is allergic to soy.", "Mia is allergic to kiwi.", False),
        ("The limit is 30 days.", "The limit is 30 days.", False),
        ("The limit is 30 days.", "So the limit is 30 days.", False),
        ("", "The limit is 30 days.", False),
    ],
)
def test_a_newer_number_or_date_replaces_an_older_one_of_the_same_thing(
    newer: str, older: str, is_replaced: bool
) -> None:
    assert has_other_value(newer, older) is is_replaced
