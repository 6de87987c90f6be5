"""The dates that a query names, and the closeness of a memory's date to them.

Relative dates ("yesterday", "last summer", "two weeks ago") count from the time of the query, in the days of who asks.
The coarser such a date, the less exact it is: outside of the named time, closeness is ½ / (1 + distance / unit), where
the unit is the length of the named time. A month or year that is named must match.

A question about a time also finds what happened then without a word in common: episodes and daily notes; and every
memory of that time if the question names nothing else ("what happened in March?").
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from fusion.contract import Hit, Moment, TimeRange
from fusion.lib.bm25 import terms
from fusion.lib.dated_notes import day_of_path
from fusion.lib.moment import anchored, end_of, zone_of
from fusion.lib.text_cache import text_cache
from fusion.lib.times import MONTHS, windows
from fusion.lib.translated_times import in_english

NAME_ONLY_CLOSENESS = 0.5
"""highest closeness outside of the named time: for a date next to it, or where only the name of the month or year
matches, since "last May" is not every May"""

_WEEK_S = timedelta(days=7).total_seconds()
# Capitals tell the month from the verb: "it may rain", "they march".
_MONTH = re.compile(r"\b(?:" + "|".join(f"{m[:3].title()}(?:{m[3:]})?" for m in MONTHS) + r"|Sept)\b")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_ABOUT_ANY_EVENT = frozenset(
    terms(
        "happen happens happened happening occur occurred event events episode episodes go going take took place "
        "remember recall tell new talk talked talking discuss discussed meet met see saw work worked working "
        "show log notes diary journal entry entries daily day write wrote written note noted summary summarise "
        "summarize summarised sum list give get up"
    )
)
"""the words that a question about a time may have besides it, and still ask for all that happened then"""
_ABOUT_ANY_EVENT_ELSEWHERE = frozenset(
    terms(
        # German, French, Spanish, Italian
        "war waren ist sind habe hab haben hatte ich wir gemacht getan gab es passiert geschehen geschah los "
        "unternommen erlebt am an der dem den im vom bis mein meine meinem unser tag notiz notizen tagebuch qu qui "
        "que est etait ete ce c j ai on nous avons fait faites a t il y s passe passee quoi le la les l de du des "
        "au jour journee notes journal mon ma mes fue era hubo hice hicimos he hemos hecho paso pasado ocurrio "
        "sucedio el los las en ese dia notas diario mi mis cosa che era stato stata ho abbiamo fatto e successo "
        "accaduto il lo nel nella nei di giorno giornata appunti diario mio "
    )
)
MAX_TIMES = 4
"""the windows of a query that are looked up"""


@dataclass(frozen=True, slots=True)
class Dates:
    """The dates of a query: named months (1 to 12) and years, and time windows.

    A window is (start, end, unit): POSIX seconds, and the length in seconds by which distance is measured. ``zone`` is
    the time zone of who asks, by which a day without a zone counts.
    """

    months: frozenset[int] = frozenset()
    years: frozenset[int] = frozenset()
    windows: tuple[tuple[float, float, float], ...] = ()
    nothing_else: bool = False
    """whether the query names a window and asks for nothing but what happened then"""
    zone: str | None = None
    rest: str = field(default="", compare=False)
    """what the query says without the windows"""

    @property
    def times(self) -> tuple[TimeRange, ...]:
        """The beginning and end of each window, at most `MAX_TIMES`."""
        return tuple(
            TimeRange(datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC))
            for start, end, _ in self.windows[:MAX_TIMES]
        )

    def asks_for(self, hit: Hit) -> bool:
        """Whether the query asks for what happened in a time, and the hit says what happened then.

        That is an episode that overlaps the time, and a memory that is dated by the day, as a daily note is; or any
        memory of that time, if the query names nothing else.
        """
        if not self.windows or hit.external:
            return False
        at = time_of(hit)
        if at is None or not (
            self.nothing_else or hit.kind == "episode" or at.until is not None or at.precision == "day"
        ):
            return False
        at = anchored(at, self.zone)
        first, last = at.utc.timestamp(), max(_end(at), at.utc.timestamp() + 1)
        return any(not _distance(first, last, start, end) for start, end, _ in self.windows)

    def __bool__(self) -> bool:
        return bool(self.months or self.years or self.windows)

    def closeness(self, at: Moment | None) -> float:
        """The closeness of a date, 0 to 1: 1 inside a window, ¼ one unit away from it; 0 without a date."""
        if at is None:
            return 0.0
        at = anchored(at, self.zone)
        by_name = bool(self.months or self.years)
        named = float(by_name and self._names(at.utc if at.zone is None else at.utc.astimezone(zone_of(at.zone))))
        if not self.windows:
            return named
        first, last = at.utc.timestamp(), _end(at)
        away = min(_distance(first, last, start, end) / unit for start, end, unit in self.windows)
        if not away:
            return 1.0
        return NAME_ONLY_CLOSENESS * (named if by_name else 1 / (1 + away))

    def _names(self, when: datetime) -> bool:
        return (not self.months or when.month in self.months) and (not self.years or when.year in self.years)


@text_cache(64)
def dates(text: str, now: datetime, zone: str | None = None) -> Dates:
    """The dates that a query names, asked at ``now`` in the time zone ``zone``."""
    text = in_english(text)
    months = frozenset(
        next(i for i, m in enumerate(MONTHS, 1) if m[:3] == name[:3].lower()) for name in _MONTH.findall(text)
    )
    found = []
    rest = text
    for window in windows(text, Moment(now, zone=zone)):
        start, end = window.start.timestamp(), window.end.timestamp()
        found.append((start, end, max(end - start, _WEEK_S if window.weeks else 0.0)))
        first, last = window.span
        rest = rest[:first] + "\0" * (last - first) + rest[last:]
    others = frozenset(terms(rest.replace("\0", " "))) if found else frozenset()
    alone = bool(found) and (others <= _ABOUT_ANY_EVENT or others <= _ABOUT_ANY_EVENT_ELSEWHERE)
    years = frozenset(int(y) for y in _YEAR.findall(text))
    return Dates(months, years, tuple(found), alone, zone, rest.replace("\0", " "))


def time_of(hit: Hit) -> Moment | None:
    """When what a hit says happened: its date, the day in its file's name, or of an episode when it was recorded."""
    if hit.at is not None:
        return hit.at
    if hit.kind == "episode" and hit.recorded_at is not None:
        return Moment(hit.recorded_at)
    if hit.place is not None and hit.place.unit == "line":
        return day_of_path(hit.place.document)
    return None if hit.valid_from is None else Moment(hit.valid_from)


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
