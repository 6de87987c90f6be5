"""The day that a note is of, by its path, its headings or its front matter: a daily note, a section of a log."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import PurePosixPath

from fusion.contract import Moment
from fusion.lib.moment import day_of
from fusion.lib.times import windows
from fusion.lib.translated_times import in_english

_YEAR = r"(?:19|20|21)\d\d"
_NUMBERS = re.compile(
    rf"(?P<year>{_YEAR})(?P<gap>[-_. ]?)(?P<month>\d\d)(?P=gap)(?P<day>\d\d)(?!\d)"
    rf"|(?P<day2>\d\d?)(?P<gap2>[-_./])(?P<month2>\d\d?)(?P=gap2)(?P<year2>{_YEAR})(?!\d)"
)
"""2026-11-21, 2026_11_21, 20261121, 21-11-2026, 21.11.2026"""
_AT_END = re.compile(rf"(?<![\d-])(?:{_YEAR}([-_.])\d\d\1\d\d|\d\d?([-_.])\d\d?\2{_YEAR})$")
_NESTED = re.compile(
    rf"(?:^|/)(?P<year>{_YEAR})/(?P<month>\d\d?)(?:[ _-][^/\d]*)?[/-](?P<day>\d\d?)(?:[ _-][^/\d]*)?(?:\.[^/]*|/[^/]*)$"
)
"""2026/11/21.md, 2026/11-November/21-Saturday.md, 2026/11-21.md, 2026/11/21/meeting.md"""
_WITH_YEAR = re.compile(rf"\b{_YEAR}\b")
_WRITTEN_CHARS = 60
_WEEKDAY_CHARS = 12
"""characters before the date in a heading, for a weekday: "Saturday, 21 November 2026" """


def noted_day(path: str, headings: Sequence[str] = (), matter: Mapping[str, str] | None = None) -> Moment | None:
    """The day that a section of a note is of: by its path, its innermost dated heading, or the front matter."""
    if day := day_of_path(path):
        return day
    for heading in reversed(headings):
        if day := day_of_heading(heading):
            return day
    matter = matter or {}
    return day_of(matter.get("date", "")) or day_of(matter.get("created", ""))


@lru_cache(maxsize=4096)
def day_of_path(path: str) -> Moment | None:
    """The day in the name of a note or of its folders, as daily notes are named."""
    stem = PurePosixPath(path).stem
    if match := _NUMBERS.match(stem):
        return _day(match)
    if match := _AT_END.search(stem):
        return _day(_NUMBERS.match(match[0]))
    if match := _NESTED.search(path):
        return _moment(int(match["year"]), int(match["month"]), int(match["day"]))
    return _written_out(stem)


@lru_cache(maxsize=4096)
def day_of_heading(heading: str) -> Moment | None:
    """The day that a heading begins with: "2026-11-21 Call", "Saturday, 21 November 2026"."""
    if match := _NUMBERS.match(heading):
        return _day(match)
    return _written_out(heading)


def _day(match: re.Match[str] | None) -> Moment | None:
    if match is None:
        return None
    if match["year"]:
        return _moment(int(match["year"]), int(match["month"]), int(match["day"]))
    day, month = int(match["day2"]), int(match["month2"])
    if month > 12:  # 11-21-2026, as written in the United States
        day, month = month, day
    return _moment(int(match["year2"]), month, day)


def _moment(year: int, month: int, day: int) -> Moment | None:
    try:
        return Moment(datetime(year, month, day, tzinfo=UTC), "day")
    except ValueError:  # 2026-13-45 is a name, not a day
        return None


def _written_out(text: str) -> Moment | None:
    """The one day with its year that a text begins with, after a weekday at most."""
    text = text[:_WRITTEN_CHARS]
    if not _WITH_YEAR.search(text):
        return None
    said = in_english(text)
    found = [one for one in windows(said, Moment(datetime(2000, 1, 1, tzinfo=UTC))) if one.at is not None]
    if len(found) != 1 or found[0].at is None or found[0].at.precision != "day" or found[0].span[0] > _WEEKDAY_CHARS:
        return None
    begin, end = found[0].span
    return Moment(found[0].at.utc, "day") if re.search(_YEAR, said[begin:end]) else None
