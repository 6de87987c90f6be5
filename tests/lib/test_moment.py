"""Moments in the calendar of who asks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fusion.contract import Moment, TimeRange
from fusion.lib.moment import anchored, calendar_day, days_of, end_of, local_zone, moment

LOS_ANGELES = "America/Los_Angeles"
DAY = Moment(datetime(2026, 11, 21, tzinfo=UTC), "day")


def day_in(zone: str, day: int) -> TimeRange:
    begin = moment(f"2026-11-{day}T00:00:00" + {"Asia/Tokyo": "+09:00", LOS_ANGELES: "-08:00", "UTC": "Z"}[zone])
    return TimeRange(begin.utc, begin.utc + timedelta(days=1))


@pytest.mark.feature("a day without a time zone is a day of the calendar of who asks")
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", LOS_ANGELES])
def test_day_of_the_calendar_is_one_day_in_every_zone(zone: str) -> None:
    """By its UTC time alone, the 21st would be partly the 20th in Los Angeles, and partly the 22nd in Tokyo."""
    at = anchored(DAY, zone)
    assert TimeRange(at.utc, end_of(at)) == day_in(zone, 21)


def test_moment_with_a_time_of_day_or_a_zone_stays() -> None:
    for at in (Moment(DAY.utc, "minute"), Moment(DAY.utc, "day", "UTC")):
        assert anchored(at, LOS_ANGELES) is at
    assert anchored(DAY, None) is DAY


def test_episode_of_calendar_days_is_anchored_at_both_ends() -> None:
    episode = Moment(DAY.utc, "day", until=DAY.utc + timedelta(days=2))
    assert anchored(episode, "Asia/Tokyo").until == datetime(2026, 11, 22, 15, tzinfo=UTC)


def test_month_after_its_last_day_ends_on_the_last_day_of_the_next() -> None:
    """January has 31 days and February 2023 has 28; the year after February 29 has no such day."""
    assert end_of(Moment(datetime(2023, 1, 31, tzinfo=UTC), "month")) == datetime(2023, 2, 28, tzinfo=UTC)
    assert end_of(Moment(datetime(2024, 2, 29, tzinfo=UTC), "year")) == datetime(2025, 2, 28, tzinfo=UTC)
    assert end_of(Moment(datetime(2023, 12, 1, tzinfo=UTC), "month")) == datetime(2024, 1, 1, tzinfo=UTC)


def test_calendar_days_of_a_time() -> None:
    assert days_of(day_in(LOS_ANGELES, 21), LOS_ANGELES) == (date(2026, 11, 21), date(2026, 11, 21))
    assert days_of(day_in(LOS_ANGELES, 21), "UTC") == (date(2026, 11, 21), date(2026, 11, 22))
    assert calendar_day(DAY) == "2026-11-21"
    assert calendar_day(Moment(DAY.utc, "day", "UTC")) is None
    assert calendar_day(Moment(DAY.utc, "month")) is None
    assert calendar_day(None) is None


def test_zone_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    assert local_zone() == "Europe/Berlin"
    for name in ("no/such/zone", "UTC", "Etc/UTC"):
        monkeypatch.setenv("TZ", name)
        assert local_zone() is None


@example(datetime(2024, 1, 31, tzinfo=UTC), "month")
@example(datetime(2024, 2, 29, tzinfo=UTC), "year")
@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(["day", "month", "year"]))
def test_every_day_of_the_calendar_is_anchored(utc: datetime, precision: str) -> None:
    """The first and the last year included."""
    at = anchored(Moment(utc, precision), "Asia/Tokyo")  # type: ignore[arg-type]
    assert abs(at.utc - utc) <= timedelta(hours=15)
    if utc.year < 9998:
        assert end_of(at) > at.utc
