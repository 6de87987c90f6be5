"""Questions that name a date, over daily notes made for them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from benchmarks.dates import HOMES, NOTES, DateQuestion, asked, diary, figures, run, show


@pytest.mark.feature("figures: questions that name a date or an event, over daily notes: `python -m benchmarks dates`")
def test_questions_over_three_homes_that_are_the_same_each_time() -> None:
    """Two homes to tune on, one to report; each question has a right day, and not all days are right."""
    assert [home.tuned for home in HOMES] == [True, True, False]
    assert sum(len(home.questions) for home in HOMES) == 64
    for home in HOMES:
        days = diary(home)
        assert days == diary(home)
        assert len({day.date for day in days}) == NOTES
        assert days[0].date == home.clock.date()
        for question in home.questions:
            text, right = asked(question, days)
            assert 0 < len(right) <= 31, text
            assert "{" not in text


def test_right_days_are_those_that_write_about_it() -> None:
    home = HOMES[0]
    days = diary(home)
    text, right = asked(DateQuestion("What about {what} last week?", range(3, 10), "what"), days)
    said = next(what for what in home.language.what if what in text)
    assert right == {day.date for day in days[3:10] if said in day.text}
    assert asked(DateQuestion("2026-11-24", [1]), days) == ("2026-11-24", {date(2026, 11, 24)})


def test_figures_by_hand() -> None:
    """Two of three right; of two whole days one shown; half, none and all of the excerpts are of other days."""
    rows = [
        {"right": True, "whole": True, "other": 0.5, "empty": False},
        {"right": True, "whole": False, "other": 0.0, "empty": False},
        {"right": False, "whole": None, "other": 1.0, "empty": True},
    ]
    assert figures(rows) == {"right_day_first": 0.6667, "day_whole": 0.5, "other_days": 0.5, "empty": 0.3333}
    assert figures([]) == {"right_day_first": 0.0, "day_whole": 0.0, "other_days": 0.0, "empty": 0.0}


@pytest.mark.model
def test_right_day_is_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Some questions of the home that nothing was tuned on."""
    found = run([replace(home, questions=home.questions[::7]) for home in HOMES if not home.tuned])
    show(found)
    assert "french" in capsys.readouterr().out
    assert found["questions"] == 3
    assert found["all"]["right_day_first"] == 1.0, found["failed"]
    assert found["all"]["day_whole"] == 1.0
