"""Schedules: what a setting means, and that slots are the same from wherever they are looked at."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.errors import BadInput
from fusion.settings import JobsSettings
from fusion.upkeep.schedule import Cron, Every, parse, zone_of

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 14, 12, 34, 56, 789, tzinfo=UTC)
TIMES = st.integers(0, 4 * 366 * 86_400).map(lambda s: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=s))
SCHEDULES = ("0 3 * * *", "*/7 * * * *", "30 2 * * *", "15 1,13 1 * MON", "0 0 29 2 *", "0 9 * * 1-5", "every 90 min")


def at(text: str, zone: tzinfo = UTC) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


@pytest.mark.parametrize(
    ("text", "latest", "after"),
    [
        ("0 3 * * *", "2026-03-14T03:00", "2026-03-15T03:00"),
        ("*/15 * * * *", "2026-03-14T12:30", "2026-03-14T12:45"),
        ("every 15 min", "2026-03-14T12:30", "2026-03-14T12:45"),
        ("every hour", "2026-03-14T12:00", "2026-03-14T13:00"),
        ("every 6 hours", "2026-03-14T12:00", "2026-03-14T18:00"),
        ("every 2 days", "2026-03-14T00:00", "2026-03-16T00:00"),
        ("every 30 s", "2026-03-14T12:34:30", "2026-03-14T12:35:00"),
        ("0 0 29 2 *", "2024-02-29T00:00", "2028-02-29T00:00"),
    ],
)
def test_schedule_has_slots(text: str, latest: str, after: str) -> None:
    schedule = parse(text)
    assert schedule is not None
    assert schedule.latest(NOW) == at(latest)
    assert schedule.after(NOW) == at(after)
    assert parse(str(schedule)) == schedule


def test_schedule_off_is_none() -> None:
    assert parse("off") is None
    assert parse(" Off ") is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "sometimes", "every", "every 0 min", "every -5 min", "every 99999 min", "every 5 fortnights"),
        *("0 3 * *", "61 3 * * *", "0 0 30 2 *", "* * * * * *"),
    ],
)
def test_wrong_schedule_names_the_forms(text: str) -> None:
    """Also a day that does not exist, and six fields, of which the first would be seconds."""
    with pytest.raises(BadInput, match='"every 15 min"'):
        parse(text)


@given(schedule=st.sampled_from(SCHEDULES), now=TIMES)
def test_slots_do_not_depend_on_the_time_of_looking(schedule: str, now: datetime) -> None:
    """The next slot is the latest one as soon as it has come, through changes of summer time as well."""
    found = parse(schedule, BERLIN)
    assert found is not None
    following = found.after(now)
    assert following is not None
    assert following > now
    assert found.latest(following) == following
    before = found.latest(following - timedelta(microseconds=1))
    assert before is None or before <= now
    assert found.latest(now) == before


@pytest.mark.parametrize(
    ("day", "slots"),
    [
        ("2026-03-29", ["2026-03-29T03:00+02:00"]),  # 02:30 is left out
        ("2026-10-25", ["2026-10-25T02:30+02:00"]),  # 02:30 comes twice
        ("2026-06-01", ["2026-06-01T02:30+02:00"]),
    ],
)
@pytest.mark.feature("a job at a fixed hour runs once a day, also when summer time begins and ends")
def test_cron_slot_comes_once_when_clocks_change(day: str, slots: list[str]) -> None:
    schedule, now, end = Cron("30 2 * * *", BERLIN), at(day, BERLIN), at(day, BERLIN) + timedelta(days=1)
    found = []
    while (slot := schedule.after(now)) is not None and slot < end:
        found.append(slot)
        now = slot
    assert found == [datetime.fromisoformat(slot) for slot in slots]


@pytest.fixture
def in_tokyo() -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    yield
    os.environ.pop("TZ") if before is None else os.environ.update(TZ=before)
    time.tzset()


def test_zone_is_this_machines_by_default(in_tokyo: None) -> None:
    assert NOW.astimezone(zone_of("")).utcoffset() == timedelta(hours=9)
    assert NOW.astimezone(zone_of("Europe/Berlin")).utcoffset() == timedelta(hours=1)
    assert zone_of("UTC") is UTC


def test_default_schedules_are_valid() -> None:
    """A default is not validated when the settings are read, so that no settings import the library of cron."""
    jobs = JobsSettings()
    for chosen in (jobs.lifecycle, jobs.receipts, jobs.vectors):
        assert chosen.schedule == "off" or parse(chosen.schedule) is not None
    assert jobs.checks.schedule == ""


def test_interval_of_fractions_is_shown() -> None:
    assert str(Every(timedelta(hours=6))) == "every 6 hours"
    assert str(Every(timedelta(hours=1.5))) == "every 90 min"
    assert str(Every(timedelta(hours=1e-6))) == "every 0.0036 s"
