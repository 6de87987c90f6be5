"""When a query asks for, and how close to that a memory comes.

What is relative ("yesterday", "last summer", "two weeks ago") counts from when the query is asked, in UTC days. People
who speak so are off by the more, the coarser they speak: beside what they ask for, closeness falls with the distance in
units of what they said, as ½ / (1 + distance / unit). Who names a month or a year means it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from fusion.contract import Moment
from fusion.lib.moment import end_of
from fusion.lib.times import MONTHS, windows
from fusion.recall.multilingual_dates import in_english

NAME_ONLY_CLOSENESS = 0.5
"""how close comes at most what is not when the query asks for: right beside it, or by its month's or year's name alone,
for "last May" is not any May"""

_WEEK_S = timedelta(days=7).total_seconds()
# Capitals tell the month from the verb: "it may rain", "they march".
_MONTH = re.compile(r"\b(?:" + "|".join(f"{m[:3].title()}(?:{m[3:]})?" for m in MONTHS) + r"|Sept)\b")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


@dataclass(frozen=True, slots=True)
class Dates:
    """What a query says of when: months (1 to 12) and years by name, and windows of time as (start, end, unit): POSIX
    seconds, and how many seconds one is easily off."""

    months: frozenset[int] = frozenset()
    years: frozenset[int] = frozenset()
    windows: tuple[tuple[float, float, float], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.months or self.years or self.windows)

    def closeness(self, at: Moment | None) -> float:
        """0 to 1: 1 for what touches a window, else by the name, or ¼ one unit away; without a date 0."""
        if at is None:
            return 0.0
        by_name = bool(self.months or self.years)
        named = float(by_name and self._names(at.utc))
        if not self.windows:
            return named
        first, last = at.utc.timestamp(), _end(at)
        away = min(_distance(first, last, start, end) / unit for start, end, unit in self.windows)
        if not away:
            return 1.0
        return NAME_ONLY_CLOSENESS * (named if by_name else 1 / (1 + away))

    def _names(self, when: datetime) -> bool:
        return (not self.months or when.month in self.months) and (not self.years or when.year in self.years)


def dates(text: str, now: datetime) -> Dates:
    """The dates that a query names, asked at ``now``."""
    months = frozenset(
        next(i for i, m in enumerate(MONTHS, 1) if m[:3] == found[:3].lower()) for found in _MONTH.findall(text)
    )
    told = []
    for said in (text, *in_english(text)):
        for window in windows(said, Moment(now)):
            start, end = window.start.timestamp(), window.end.timestamp()
            told.append((start, end, max(end - start, _WEEK_S if window.weeks else 0.0)))
    return Dates(months, frozenset(int(y) for y in _YEAR.findall(text)), tuple(told))


def _distance(first: float, last: float, start: float, end: float) -> float:
    """Seconds from a window to the far end of a memory's time, so that the day before is a day away; 0 if they meet."""
    if first < end and last > start:
        return 0.0
    return max(start - first, last - end)


def _end(at: Moment) -> float:
    """Where a memory's time ends, as far as there is a time after it."""
    try:
        return end_of(at).timestamp()
    except (OverflowError, ValueError):  # the year 9999 has no next one
        return at.utc.timestamp()
