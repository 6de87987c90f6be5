"""The day that a note is of: by its name, its folders, its headings and its front matter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.dated_notes import day_of_heading, day_of_path, noted_day


@pytest.mark.feature("a daily note is of the day in its name or folders, in any of the usual layouts")
@pytest.mark.parametrize(
    "path",
    [
        "diary/2026-11-21.md",
        "2026-11-21 Meeting with Bo.md",
        "2026_11_21.md",
        "2026.11.21.md",
        "20261121.md",
        "21-11-2026.md",
        "21.11.2026.md",
        "11-21-2026.md",  # no month is the 21st
        "2026/11/21.md",
        "notes/2026/11-November/21-Saturday.md",
        "notes/2026/11-21.md",
        "2026/11/21/meeting.md",
        "daily note 2026-11-21.md",
        "21 November 2026.md",
        "November 21, 2026.md",
        "Samstag, 21. November 2026.md",
        "21 novembre 2026.md",
    ],
)
def test_path_names_a_day(path: str) -> None:
    day = day_of_path(path)
    assert day is not None
    assert (day.utc.date().isoformat(), day.precision, day.zone) == ("2026-11-21", "day", None)


@pytest.mark.parametrize(
    "path",
    [
        "roadmap.md",
        "2026-13-45.md",
        "202611211430 an idea.md",  # when it was made, to the minute
        "invoice 20261121x.md",
        "room 12-11.md",
        "version 1.2.2026beta.md",
        "2026/notes.md",
        "2026/11/overview.md",
        "November 2026.md",
        "the plan of 3 May 2024 and of 4 May 2024.md",
        "",
    ],
)
def test_path_without_a_day(path: str) -> None:
    assert day_of_path(path) is None


@pytest.mark.parametrize(
    ("heading", "day"),
    [
        ("2026-11-21", "2026-11-21"),
        ("2026-11-21 Call with Bo", "2026-11-21"),
        ("Saturday, 21 November 2026", "2026-11-21"),
        ("21. November 2026", "2026-11-21"),
        ("21.11.2026", "2026-11-21"),
        ("samedi 21 novembre 2026", "2026-11-21"),
        ("What we said of the contract of 21 November 2026", None),
        ("Plans for November", None),
        ("", None),
    ],
)
def test_heading_that_begins_with_a_day(heading: str, day: str | None) -> None:
    found = day_of_heading(heading)
    assert (found and found.utc.date().isoformat()) == day


def test_path_comes_before_headings_and_headings_before_front_matter() -> None:
    """The innermost dated heading is the nearest to the text."""
    matter = {"date": "2026-01-01", "created": "2025-01-01"}

    def day(*arguments: object) -> str | None:
        found = noted_day(*arguments)  # type: ignore[arg-type]
        return found and found.utc.date().isoformat()

    assert day("2026-11-21.md", ("2026-11-22",), matter) == "2026-11-21"
    assert day("log.md", ("2026-11-21", "2026-11-22 evening", "Food"), matter) == "2026-11-22"
    assert day("log.md", ("Food",), matter) == "2026-01-01"
    assert day("log.md", (), {"created": "2025-01-01"}) == "2025-01-01"
    assert day("log.md") is None


@given(st.text(max_size=80))
def test_any_name_is_read(name: str) -> None:
    for found in (day_of_path(name), day_of_heading(name)):
        assert found is None or found.precision == "day"
