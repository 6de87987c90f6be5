"""When a query asks for: relative dates, dates by name, and how close a memory comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Moment
from fusion.recall.query_dates import NAME_ONLY_CLOSENESS, Dates, dates
from tests.recall.helpers import at

NOW = datetime(2026, 3, 11, 10, 30, tzinfo=UTC)  # a Wednesday
DAY = timedelta(days=1)


@pytest.mark.feature(
    'a query\'s dates, also relative ones ("yesterday", "last summer", "two weeks ago"), count from '
    "when it is asked; a memory ranks higher, the closer its own date"
)
@pytest.mark.parametrize(
    ("text", "within", "without"),
    [
        ("what did I say yesterday?", "2026-03-10", "2026-03-09"),
        ("what did I say the day before yesterday?", "2026-03-09", "2026-03-10"),
        ("what did I buy last week?", "2026-03-08", "2026-03-09"),  # Monday to Sunday
        ("what did I buy the week before last?", "2026-03-01", "2026-03-02"),
        ("what happened last Friday?", "2026-03-06", "2026-03-07"),
        ("what happened last month?", "2026-02-28", "2026-03-01"),
        ("what happened last year?", "2025-12-31", "2026-01-01"),
        ("where were we last summer?", "2025-08-31", "2025-09-01"),
        ("what do we plant this spring?", "2026-03-01", "2026-02-28"),
        ("where are we next winter?", "2027-02-28", "2027-03-01"),
        ("who came two days ago?", "2026-03-09", "2026-03-10"),
        ("who came 3 weeks ago?", "2026-02-18", "2026-02-19"),
        ("who came a couple of months ago?", "2026-01-31", "2026-02-01"),
        ("who came two years ago?", "2024-12-31", "2025-01-01"),
        ("who comes next month?", "2026-04-30", "2026-05-01"),
        ("who came in January?", "2026-01-31", "2026-02-01"),
        ("what happened in march", "2026-03-01", "2026-02-28"),
        ("who came in may?", "2025-05-31", "2025-06-01"),
        ("what did we decide since march about the database?", "2026-03-01", "2026-02-28"),
        ("who came in January 2024?", "2024-01-31", "2024-02-01"),
        ("who came on 5 May 2024?", "2024-05-05", "2024-05-06"),
        ("who came in summer 2024?", "2024-06-01", "2024-05-31"),
    ],
)
def test_a_date_counts_from_when_it_is_asked(text: str, within: str, without: str) -> None:
    """Asked on Wednesday, 2026-03-11. What is outside by a day comes less close."""
    asked = dates(text, NOW)
    assert asked.closeness(_day(without)) <= NAME_ONLY_CLOSENESS
    assert asked.closeness(_day(within)) == 1.0


def _day(text: str) -> Moment:
    return Moment(at(text).utc, "day")


def test_closeness_falls_with_the_distance_in_units_of_what_was_said() -> None:
    """Three days before the day that is asked for: ½ / (1 + 3/1). One day after the week: ½ / (1 + 1/7), and as much
    for a day off the day of two weeks ago, which is said in weeks."""
    assert dates("yesterday", NOW).closeness(_day("2026-03-07")) == pytest.approx(1 / 8)
    assert dates("last week", NOW).closeness(_day("2026-03-09")) == pytest.approx(7 / 16)
    assert dates("two weeks ago", NOW).closeness(_day("2026-02-26")) == pytest.approx(7 / 16)
    assert dates("two weeks ago", NOW).closeness(_day("2026-02-25")) == 1.0


def test_a_month_by_its_name_comes_half_as_close_where_more_is_told() -> None:
    """Last May is that of 2025; that of 2024 at least has the name. May and Sept by their names alone are any."""
    assert dates("what happened last May?", NOW).closeness(_day("2025-05-08")) == 1.0
    assert dates("what happened last May?", NOW).closeness(_day("2024-05-08")) == NAME_ONLY_CLOSENESS
    assert dates("what happened last May?", NOW).closeness(_day("2025-04-30")) == 0.0  # who names a month means it
    assert dates("May or Sept?", NOW) == Dates(months=frozenset({5, 9}))
    assert dates("May or Sept?", NOW).closeness(_day("2019-09-30")) == 1.0
    assert dates("the 2024 trip", NOW).closeness(_day("2024-05-08")) == 1.0
    assert dates("the 2024 trip", NOW).closeness(_day("2023-05-08")) == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "it may march on",
        "they march on",
        "did the people in march step sing?",
        "who came from may hill?",
        "what did we decide?",
        "the last straw",
        "hurt in the fall",
        "",
    ],
)
def test_what_names_no_date_asks_for_none(text: str) -> None:
    """Months are also verbs, and not everything that is last is a time."""
    assert not dates(text, NOW)
    assert dates(text, NOW).closeness(_day("2026-03-10")) == 0.0


def test_a_memory_without_a_date_is_close_to_none_and_one_at_the_end_of_time_is_no_fault() -> None:
    """Foreign memories carry what they like: there is no year after 9999."""
    assert dates("yesterday", NOW).closeness(None) == 0.0
    assert 0.0 < dates("yesterday", NOW).closeness(Moment(datetime(9999, 12, 31, tzinfo=UTC), "year")) < 1e-3


DAYS = st.sampled_from(["yesterday", "today", "two days ago", "5 days ago", "two weeks ago", "tomorrow", "in two days"])
AWAY = st.timedeltas(timedelta(days=-20_000), timedelta(days=20_000))


@given(DAYS, AWAY.map(NOW.__add__), st.integers(-400, 400))
def test_what_is_counted_in_days_moves_with_the_asking(text: str, now: datetime, days: int) -> None:
    """The same words asked some days later mean days that are as much later."""
    later = dates(text, now + days * DAY)
    shift = days * DAY.total_seconds()
    assert later.windows == tuple((s + shift, e + shift, unit) for s, e, unit in dates(text, now).windows)


@pytest.mark.feature(
    'a query\'s dates, also relative ones ("yesterday", "last summer", "two weeks ago"), count from '
    "when it is asked; a memory ranks higher, the closer its own date"
)
@given(
    st.sampled_from(["yesterday", "last week", "last summer", "on 5 May 2024", "two weeks ago, or next year"]),
    AWAY.map(NOW.__add__),
    st.timedeltas(timedelta(0), timedelta(days=3000)),
)
def test_closeness_is_a_share_that_never_grows_with_the_distance(text: str, when: datetime, more: timedelta) -> None:
    """On either side of one window: further away is never closer. Of several windows each can be the near one."""
    asked = dates(text, NOW)
    assert 0.0 <= asked.closeness(Moment(when)) <= 1.0
    for start, end, unit in asked.windows:
        one = Dates(windows=((start, end, unit),))
        after, before = datetime.fromtimestamp(end, UTC), datetime.fromtimestamp(start, UTC)
        assert one.closeness(Moment(after + more + DAY)) <= one.closeness(Moment(after + more))
        assert one.closeness(Moment(before - more - DAY)) <= one.closeness(Moment(before - more))
