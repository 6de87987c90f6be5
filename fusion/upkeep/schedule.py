"""When a job runs: a cron expression, an interval, or never. The times at which it is due are its slots."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fusion.errors import BadInput

OFF = "off"
FORMS = 'write a cron expression ("0 3 * * *"), an interval ("every 15 min") or "off"'
_EPOCH = datetime.fromtimestamp(0, UTC)
_INTERVAL = re.compile(r"every (?P<count>\d{1,4} )?(?P<unit>s|sec|second|min|minute|h|hour|d|day)s?")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_LOOK_BACK = tuple(timedelta(hours=hours) for hours in (1, 24, 24 * 8, 24 * 63, 24 * 400, 24 * 366 * 9))
"""how far back the latest slot is looked for, the nearest first, so that each look takes few steps"""


class Schedule(Protocol):
    """The slots of a job, in UTC. ``str(schedule)`` is as the settings write it."""

    def latest(self, now: datetime) -> datetime | None:
        """The last slot up to ``now``; None if there is none in the last nine years."""
        ...

    def after(self, now: datetime) -> datetime | None:
        """The first slot after ``now``; None if there is none in the next fifty years."""
        ...


@dataclass(frozen=True, slots=True)
class Every:
    """A slot every so often, counted from 1970, so that a restart does not move them."""

    period: timedelta

    def latest(self, now: datetime) -> datetime:
        return _EPOCH + (now - _EPOCH) // self.period * self.period

    def after(self, now: datetime) -> datetime:
        return self.latest(now) + self.period

    def __str__(self) -> str:
        for name, unit in (("day", 86_400), ("hour", 3600), ("min", 60)):
            count, rest = divmod(self.period, timedelta(seconds=unit))
            if not rest:
                return f"every {count} {name}{'s' if count > 1 and name != 'min' else ''}"
        return f"every {self.period.total_seconds():g} s"


@dataclass(frozen=True, slots=True)
class Cron:
    """The slots of a cron expression with five fields, in a time zone.

    As in Debian's cron, a job at a fixed hour runs once when clocks are set back, and right after the hour that is left
    out when they are set forward.
    """

    expression: str
    zone: tzinfo

    def latest(self, now: datetime) -> datetime | None:
        for back in _LOOK_BACK:
            found = None
            for slot in self._slots(now - back):
                if slot > now:
                    break
                found = slot
            if found is not None:
                return found
        return None

    def after(self, now: datetime) -> datetime | None:
        return next((slot for slot in self._slots(now) if slot > now), None)

    def _slots(self, start: datetime) -> Iterator[datetime]:
        from cronsim import CronSim

        zone = UTC if str(self.zone) == "UTC" else self.zone  # cronsim knows UTC by its identity
        return (slot.astimezone(UTC) for slot in CronSim(self.expression, start.astimezone(zone)))

    def __str__(self) -> str:
        return self.expression


def parse(text: str, zone: tzinfo = UTC) -> Every | Cron | None:
    """The schedule that a setting names; None for "off". Raises BadInput."""
    words = " ".join(text.lower().split())
    if words == OFF:
        return None
    if found := _INTERVAL.fullmatch(words):
        count = int(found["count"] or 1)
        if count:
            return Every(timedelta(**{_UNITS[found["unit"][0]]: count}))
    elif len(words.split()) == 5:
        from cronsim import CronSim, CronSimError

        try:
            next(CronSim(text, datetime.now(UTC)))
        except (CronSimError, StopIteration) as error:
            wrong = str(error).lower().removeprefix("bad ") or "it names no day that there is"
            raise BadInput(f"{text!r} is no schedule ({wrong}); {FORMS}") from None
        return Cron(" ".join(text.split()), zone)
    raise BadInput(f"{text!r} is no schedule; {FORMS}")


def zone_of(name: str) -> tzinfo:
    """A time zone by its IANA name; empty: this machine's, with its changes of summer time."""
    if name == "UTC":
        return UTC
    if name:
        return ZoneInfo(name)
    try:
        if variable := os.environ.get("TZ", "").lstrip(":"):
            return ZoneInfo(variable)
        with open("/etc/localtime", "rb") as file:  # noqa: PTH123 — as the standard library reads it
            return ZoneInfo.from_file(file, "local")
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return datetime.now(UTC).astimezone().tzinfo or UTC
