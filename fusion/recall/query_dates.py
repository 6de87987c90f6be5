"""The dates that a query names, and the closeness of a memory's date to them.

Relative dates ("yesterday", "last summer", "two weeks ago") count from the time of the query, in UTC days. The coarser
such a date, the less exact it is: outside of the named time, closeness is ½ / (1 + distance / unit), where the unit is
the length of the named time. A month or year that is named must match.
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
"""highest closeness outside of the named time: for a date next to it, or where only the name of the month or year
matches, since "last May" is not every May"""

_WEEK_S = timedelta(days=7).total_seconds()
# Capitals tell the month from the verb: "it may rain", "they march".
_MONTH = re.compile(r"\b(?:" + "|".join(f"{m[:3].title()}(?:{m[3:]})?" for m in MONTHS) + r"|Sept)\b")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


@dataclass(frozen=True, slots=True)
class Dates:
    """The dates of a query: named months (1 to 12) and years, and time windows.

    A window is (start, end, unit): POSIX seconds, and the length in seconds by which distance is measured.
    """

    months: frozenset[int] = frozenset()
    years: frozenset[int] = frozenset()
    windows: tuple[tuple[float, float, float], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.months or self.years or self.windows)

    def closeness(self, at: Moment | None) -> float:
        """The closeness of a date, 0 to 1: 1 inside a window, ¼ one unit away from it; 0 without a date."""
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
        next(i for i, m in enumerate(MONTHS, 1) if m[:3] == name[:3].lower()) for name in _MONTH.findall(text)
    )
    found = []
    for said in (text, *in_english(text)):
        for window in windows(said, Moment(now)):
            start, end = window.start.timestamp(), window.end.timestamp()
            found.append((start, end, max(end - start, _WEEK_S if window.weeks else 0.0)))
    return Dates(months, frozenset(int(y) for y in _YEAR.findall(text)), tuple(found))


def _distance(first: float, last: float, start: float, end: float) -> float:
    """Seconds from a window to the far end of a memory's time, so the day before is a day away; 0 if they overlap."""
    if first < end and last > start:
        return 0.0
    return max(start - first, last - end)


def _end(at: Moment) -> float:
    """The end of a memory's time in POSIX seconds."""
    try:
        return end_of(at).timestamp()
    except (OverflowError, ValueError):  # the year 9999 has no next one
        return at.utc.timestamp()
