"""Parses points in time with their precision."""

from __future__ import annotations

import os
import re
from calendar import monthrange
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from fusion.contract import Moment, Precision, TimeRange

_ISO = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)"
    r"(?P<clock>[T ]\d\d(?P<minute>:\d\d(?P<second>:\d\d(?:[.,]\d{1,9})?)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?)?)?)?",
    re.ASCII | re.IGNORECASE,
)


def moment(written: str) -> Moment:
    """Parse ISO 8601 with the precision that is written: ``2026``, ``2026-01``, ``2026-01-31``, or with a time of day.

    A time without a zone is UTC. Raises ValueError.
    """
    match = _ISO.fullmatch(written.strip())
    if match is None:
        raise ValueError(f"{written!r} is not ISO 8601")
    finest = next(name for name in ("second", "minute", "clock", "day", "month", "year") if match[name])
    precision: Precision = "hour" if finest == "clock" else finest  # type: ignore[assignment]
    whole = match[0].upper() + {"year": "-01-01", "month": "-01"}.get(finest, "")
    try:
        found = datetime.fromisoformat(whole)
        return Moment(found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC), precision)
    except OverflowError:
        raise ValueError(f"{written!r} is out of range") from None


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def day_of(name: str) -> Moment | None:
    """The day that a name begins with, as ``YYYY-MM-DD``."""
    match = _DAY.match(name)
    try:
        return Moment(datetime.fromisoformat(match[0]).replace(tzinfo=UTC), "day") if match else None
    except ValueError:  # 2026-13-45 is a name, not a day
        return None


_LENGTH = {"second": timedelta(seconds=1), "minute": timedelta(minutes=1), "hour": timedelta(hours=1)}


def end_of(moment: Moment) -> datetime:
    """The end of the period that a moment covers: its ``until``, else that of its day, month or year in its own time
    zone, by its precision.

    Raises OverflowError, and ValueError after the year 9999.
    """
    if moment.until is not None:
        return moment.until
    if moment.precision in _LENGTH:
        return moment.utc + _LENGTH[moment.precision]
    local = moment.utc.astimezone(zone_of(moment.zone))
    if moment.precision == "day":
        return (local + timedelta(days=1)).astimezone(UTC)  # wall time: a day in March may have 23 hours
    year, month = local.year + 1, local.month
    if moment.precision == "month":
        year, month = local.year + local.month // 12, local.month % 12 + 1
    day = min(local.day, monthrange(year, month)[1])  # a month after January 31 is the last day of February
    return local.replace(year=year, month=month, day=day).astimezone(UTC)


_COARSE = frozenset(("day", "month", "year"))


def anchored(moment: Moment, zone: str | None) -> Moment:
    """A day, month or year without a time zone, in this one; any other moment as it is.

    A daily note is of a day of the calendar: which 24 hours that are depends on who asks.
    """
    if zone is None or moment.zone is not None or moment.precision not in _COARSE:
        return moment
    with suppress(OverflowError, ValueError):  # the first and last day of all
        begin, end = (
            None if wall is None else wall.replace(tzinfo=zone_of(zone)).astimezone(UTC)
            for wall in (moment.utc, moment.until)
        )
        return Moment(begin or moment.utc, moment.precision, zone, end)
    return moment


def calendar_day(moment: Moment | None) -> str | None:
    """The day of the calendar, as ``YYYY-MM-DD``, of a moment that is a day without a time zone."""
    if moment is None or moment.precision != "day" or moment.zone is not None:
        return None
    return moment.utc.date().isoformat()


def days_of(one: TimeRange, zone: str | None) -> tuple[date, date]:
    """The first and the last day of the calendar in a time, in a time zone."""
    here = zone_of(zone)
    return one.start.astimezone(here).date(), (one.end - timedelta(microseconds=1)).astimezone(here).date()


_UTC = ("", "UTC", "UCT", "Universal", "Zulu", "GMT")


def local_zone() -> str | None:
    """The IANA name of this machine's time zone; None if it cannot be told, and for UTC."""
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name:
        with suppress(OSError):
            name = os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    return name if name.rpartition("/")[2] not in _UTC and zone_of(name) is not UTC else None


@lru_cache(maxsize=64)
def zone_of(name: str | None) -> tzinfo:
    """The time zone of an IANA name; UTC for None and for an unknown name."""
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):  # unknown; no name of a zone; a folder of the zone database
        return UTC
