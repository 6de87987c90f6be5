"""Finds the times that an English text names, as intervals; relative times count from the time of the text.

By rules, in time linear in the text. A weekday, a month or a day without a year is the last one before the time of the
text, or the next one after it if the sentence is about the future.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from fusion.contract import Moment, Precision
from fusion.lib.moment import end_of, zone_of
from fusion.lib.words import find_words

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november"),
    "december",
)

_MONTH = "|".join(f"{month}|{month[:3]}" for month in MONTHS) + "|sept"
_DAY = "|".join(DAYS) + "|mon|tues?|wed|thu(?:rs?)?|fri|sat|sun"
_YEAR = r"(?:1[89]|20|21)\d\d"
_TH = r"(?:st|nd|rd|th)?"
_NUMBERS = {
    word: number
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
} | {"a": 1, "an": 1, "couple of": 2, "a couple of": 2}
_COUNT = r"\d{1,4}|" + "|".join(sorted(_NUMBERS, key=len, reverse=True)).replace(" ", r"\s")
_UNIT = "minute|hour|day|week|weekend|month|year"
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""the month that each begins in, as meteorologists of the northern half count"""
_SEASON = "|".join(_SEASONS)

_BARE = rf"""(?P<barestart>\d{{1,2}}){_TH}\s(?:of\s)?(?P<baremonth1>{_MONTH})\b\.?
    | (?P<baremonth2>{_MONTH})\.?\s(?:the\s)?(?P<bareday>\d{{1,2}}){_TH}\b(?!:)
"""
_TIME = re.compile(
    rf"""(?<![\w-])(?:
      (?P<iso>{_YEAR}-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{{1,9}})?)?(?:Z|[+-]\d\d:?\d\d)?)?)?)(?![\w-])
    | (?P<years1>{_YEAR})\s?[-–—]\s?(?P<years2>{_YEAR})(?![\w-])
    | (?P<from1>\d{{1,2}}){_TH}\s?(?:[-–—]|to)\s?(?P<to1>\d{{1,2}}){_TH}\s(?:of\s)?(?P<rmonth1>{_MONTH})\b
        (?:\.?,?\s(?P<ryear1>{_YEAR})\b)?
    | (?P<rmonth2>{_MONTH})\.?\s(?P<from2>\d{{1,2}}){_TH}\s?(?:[-–—]|to)\s?(?P<to2>\d{{1,2}}){_TH}\b
        (?:,?\s(?P<ryear2>{_YEAR})\b)?
    | between\s(?:the\s)?(?P<from3>\d{{1,2}}){_TH}\sand\s(?:the\s)?(?P<to3>\d{{1,2}}){_TH}\s(?:of\s)?
        (?P<rmonth3>{_MONTH})\b(?:\.?,?\s(?P<ryear3>{_YEAR})\b)?
    | (?P<day1>\d{{1,2}}){_TH}\s(?:of\s)?(?P<month1>{_MONTH})\.?,?\s(?P<year1>{_YEAR})\b
    | (?P<month2>{_MONTH})\.?\s(?P<day2>\d{{1,2}}){_TH},?\s(?P<year2>{_YEAR})\b
    | (?P<month3>{_MONTH})\.?,?\s(?:of\s)?(?P<year3>{_YEAR})\b
    | q(?P<quarter>[1-4])\s(?P<qyear>{_YEAR})\b
    | (?:in|since|during|until|by|from)\s(?:early\s|mid\s|mid-|late\s)?(?P<year4>{_YEAR})\b(?!-)
    | (?P<day>the\sday\sbefore\syesterday|the\sday\safter\stomorrow|yesterday|today|tonight|last\snight
        |this\s(?:morning|afternoon|evening)|tomorrow)\b
    | the\s(?P<twice>week|weekend|month|year)\sbefore\slast\b
    | (?P<season>{_SEASON})\s(?:of\s)?(?P<syear>{_YEAR})\b
    | (?P<which>last|this|next)\s(?P<period>week|weekend|month|year|{_SEASON}|{_DAY}|{_MONTH})\b(?!\s\d)
    | (?P<count>{_COUNT})\s(?P<unit>{_UNIT})s?\sago\b
    | (?:a\s)?few\s(?P<fewunit>{_UNIT})s\sago\b
    | in\s(?P<incount>{_COUNT})\s(?P<inunit>{_UNIT})s?\b(?!\sof\b)
    | (?:(?:over|for|in|during)\s)?(?:the|these)\s(?:last|past)\s(?:(?P<past>{_COUNT})\s|(?P<pastfew>few\s))?
        (?P<pastunit>{_UNIT})s?\b
    | {_BARE}
    | (?P<on>on|by|until|till|since|from|before|after|between)\s(?P<weekday>{_DAY})\b
        (?!,?\s(?:the\s)?(?:\d{{1,2}}{_TH}\s(?:of\s)?(?:{_MONTH})\b|(?:{_MONTH})\.?\s\d))
    | (?P<in>in|by|until|till|since|from|during|before|after|between|early|late|mid)[\s-]
        (?:early\s|mid\s|mid-|late\s)?(?P<inmonth>{_MONTH})\b(?!\s\d)
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_NAMING = frozenset(
    [*_UNIT.split("|"), *(f"{unit}s" for unit in _UNIT.split("|")), *_SEASONS, *MONTHS, "sept", *DAYS]
    + [month[:3] for month in MONTHS]
    + "mon tue tues wed thu thur thurs fri sat sun".split()
    + "yesterday today tonight tomorrow night morning afternoon evening".split()
)
"""each time names one of these words, or a year"""
_ANY_YEAR = re.compile(rf"\b{_YEAR}\b")
_TO = re.compile(r"\s?(?:[-–—]|to|until|till|through|and)\s?", re.IGNORECASE)
_LATER = re.compile(rf"(?P<weekday>{_DAY})\b|{_BARE}|(?P<inmonth>{_MONTH})\b(?!\s\d)", re.IGNORECASE | re.VERBOSE)
_FUTURE = re.compile(
    r"\b(?:will|going to|gonna|shall|plan(?:s|ned|ning)?|upcoming|due|deadline|hop(?:e|es|ing)|schedul\w+|see you"
    r"|let['’]?s|would|want|expect\w*|looking forward|can['’]?t wait|starts|begins)\b|['’]ll\b",
    re.IGNORECASE,
)
_AHEAD = ("by", "until", "till")
_CAPITAL = frozenset({"may", "march", "mar", "sun", "sat", "wed"})
"""also ordinary words: they are times only if capitalised, or where nothing but a month can stand"""
_BEFORE_MONTH = frozenset({"in", "by", "until", "till", "since", "during", "before", "after", "early", "late", "mid"})
"""words that no verb follows: "in march", "until may"; "from may" may be a path, "march on" is a command"""
_AFTER_MONTH = re.compile(
    r"\s*(?:$|[^\w\s'’-]|\n)|\s(?:a|about|an|and|at|but|did|do|does|for|he|how|i|if|is|it|my|or|our|she|that|the|there|"
    r"they|this|was|we|were|what|when|where|which|who|with|you)\b",
    re.IGNORECASE,
)
"""what may follow a month; to another word it may belong, as in "in march order" """
_STOPS = ".!?\n;"

_DAY_OFFSET = {"the day before yesterday": -2, "yesterday": -1, "last night": -1, "tomorrow": 1}
_WHICH = {"last": -1, "this": 0, "next": 1}
_FINENESS: tuple[Precision, ...] = ("year", "month", "day", "hour", "minute", "second")
_FEW = (6, 2)
"""the largest and the smallest number that "a few" may mean"""


@dataclass(frozen=True, slots=True)
class Window:
    """A time in a text: from ``start`` (included) to ``end`` (excluded), UTC.

    ``at`` is the start with its precision, None if that is vague; ``span`` is the position in the text.
    """

    start: datetime
    end: datetime
    at: Moment | None
    span: tuple[int, int]
    weeks: bool = False
    """whether the unit is a week: "two weeks ago" may mean any day of that week"""


def find_time(text: str) -> re.Match[str] | None:
    """The first words of a text that name a time, even an impossible one."""
    return _TIME.search(text) if _may_name_time(text) else None


def _may_name_time(text: str) -> bool:
    """False for a text that certainly names no time, found in a tenth of the time of `_TIME`."""
    if not text.isascii():  # letters such as "ſ" match others in `_TIME`
        return True
    return not _NAMING.isdisjoint(find_words(text.lower())) or _ANY_YEAR.search(text) is not None


def windows(text: str, said: Moment, ahead: bool | None = None) -> Iterator[Window]:
    """The times that a text names, in order. ``said`` is the time of the text.

    ``ahead`` says whether a weekday, a month or a day without a year is in the future; None: its sentence decides.

    A week starts on Monday, a weekend on Saturday; "last Friday" is the last one before the day of ``said``. Relative
    times that are finer than the precision of ``said`` ("yesterday", said in a month) and impossible days are left out.
    """
    if not _may_name_time(text):
        return
    position = 0
    while match := _TIME.search(text, position):
        position = match.end()
        try:
            found = _Reading(text, said, ahead).window(match)
        except (ValueError, OverflowError):  # the 31st of June, 9999 years ago, yesterday of a month: no such time
            continue
        if found is not None:
            position = max(position, found.span[1])
            yield found


class _Reading:
    """Interprets one time of a text. ``ahead`` says whether it is in the future; None: the sentence decides."""

    def __init__(self, text: str, said: Moment, ahead: bool | None = None) -> None:
        self._text = text
        self._said = said
        self._ahead = ahead
        self._zone: tzinfo = zone_of(said.zone)

    def _must_be_month(self, match: re.Match[str]) -> bool:
        """Whether a name in small letters can only be that of a month, by the words before and after it."""
        before, name = (match["in"] or "").lower(), (match["inmonth"] or "").lower()
        return before in _BEFORE_MONTH and name in MONTHS and _AFTER_MONTH.match(self._text, match.end()) is not None

    def window(self, match: re.Match[str]) -> Window | None:
        name = next((match[g] for g in ("period", "weekday", "inmonth", "baremonth1", "baremonth2") if match[g]), "")
        if name.lower() in _CAPITAL and not name[0].isupper() and not self._must_be_month(match):
            return None
        start, end, at = self._read(match)
        stop = match.end()
        joined = _TO.match(self._text, stop)
        if joined and (self._opened(match) or joined[0].strip().lower() != "and"):
            until = self._until(joined.end(), start)
            if until is not None and until.at is not None and _is_bare(match) and until.start < start:
                start, end, at = _Reading(self._text, until.at, ahead=False)._read(match)  # "from May to July 2023"
            if until is not None and until.end > start:
                end, stop = until.end, until.span[1]
        elif self._word_before(match) == "since":
            end = max(end, end_of(Moment(self._midnight().astimezone(UTC), "day", self._said.zone)))
        weeks = any((match[unit] or "").lower() == "week" for unit in ("unit", "inunit"))
        return Window(start, end, at, (match.start(), stop), weeks) if start < end else None

    def _opened(self, match: re.Match[str]) -> bool:
        """Whether a range begins: "from …", "between …"."""
        return self._word_before(match) in {"from", "between"}

    def _word_before(self, match: re.Match[str]) -> str:
        """The preposition of a time, within its match or before it."""
        words = self._text[max(0, match.start() - 12) : match.start()].split()
        first = re.match(r"[a-z]+", match[0].lower())
        own = first[0] if first else ""
        return own if own in {"since", "from", "between"} else words[-1].lower() if words else ""

    def _until(self, position: int, start: datetime) -> Window | None:
        """The end of a range that begins at ``start``, or None."""
        match = _LATER.match(self._text, position)
        fuller = _TIME.match(self._text, position)
        if fuller is not None and (match is None or fuller.end() > match.end()):
            match = fuller
        if match is None:
            return None
        after = _Reading(self._text, Moment(start, "second", self._said.zone), ahead=True)
        return Window(*(after if _is_bare(match) else self)._read(match), match.span())

    def _read(self, match: re.Match[str]) -> tuple[datetime, datetime, Moment | None]:
        """Start and end of a time, in UTC, and its start as a moment unless that is vague."""
        given = {key: value for key, value in match.groupdict().items() if value}

        def exact(start: datetime, precision: Precision, end: datetime | None = None) -> _Read:
            at = Moment(start.astimezone(UTC), precision, self._said.zone)
            return at.utc, end_of(at) if end is None else end.astimezone(UTC), at

        if "iso" in given:
            return self._iso(given["iso"], exact)
        if "years1" in given:
            return exact(self._day(int(given["years1"])), "year", self._day(int(given["years2"]) + 1))
        for n in ("1", "2", "3"):
            if f"rmonth{n}" in given:
                month, year = _month(given[f"rmonth{n}"]), given.get(f"ryear{n}")
                day = int(given[f"from{n}"])
                known = int(year) if year else self._near(match, month, day)
                last = self._day(known, month, int(given[f"to{n}"]))
                return exact(self._day(known, month, day), "day", last + timedelta(days=1))
        for n in ("1", "2"):
            if f"month{n}" in given:
                date = int(given[f"year{n}"]), _month(given[f"month{n}"]), int(given[f"day{n}"])
                return exact(self._day(*date), "day")
        if "month3" in given:
            return exact(self._day(int(given["year3"]), _month(given["month3"])), "month")
        if "quarter" in given:
            quarter = self._day(int(given["qyear"]), 3 * int(given["quarter"]) - 2)
            return exact(quarter, "month", _month_start(quarter, 3))
        if "season" in given:
            begins, ends = _season(self._day(int(given["syear"])), given["season"].lower())
            return begins.astimezone(UTC), ends.astimezone(UTC), None
        if "year4" in given:
            return exact(self._day(int(given["year4"])), "year")
        start, precision, end, vague = self._relative(match, given)
        if _FINENESS.index(precision) > _FINENESS.index(self._said.precision):
            raise ValueError("what is relative cannot be finer than what it is relative to")
        found = exact(start, precision, end)
        return (found[0], found[1], None) if vague else found

    def _iso(self, written: str, exact: Callable[[datetime, Precision], _Read]) -> _Read:
        if len(written) == len("2026-01"):
            return exact(datetime.fromisoformat(written + "-01").replace(tzinfo=self._zone), "month")
        found = datetime.fromisoformat(written)
        clock = written[len("2026-01-31T") :]
        precision: Precision = "day" if not clock else "second" if re.match(r"\d\d:\d\d:", clock) else "minute"
        return exact(found if found.tzinfo else found.replace(tzinfo=self._zone), precision)

    def _relative(
        self, match: re.Match[str], given: dict[str, str]
    ) -> tuple[datetime, Precision, datetime | None, bool]:
        """Start, precision, end (None: given by the precision), and whether the time is vague."""
        now, midnight = self._now(), self._midnight()
        if day := given.get("day"):
            return midnight + timedelta(days=_DAY_OFFSET.get(" ".join(day.lower().split()), 0)), "day", None, False
        if which := given.get("which"):
            period = given["period"].lower()
            if period in _SEASONS:
                start, end = _season_near(midnight, _WHICH[which.lower()], period)
                return start, "month", end, True
            return *_period(midnight, _WHICH[which.lower()], period), False
        if "twice" in given:
            return *_period(midnight, -2, given["twice"].lower()), False
        if count := given.get("count"):
            return *_away(now, -_number(count), given["unit"].lower()), False
        if unit := given.get("fewunit"):
            most, least = (_away(now, -n, unit.lower()) for n in _FEW)
            return most[0], most[1], least[2] or _end(least[0], least[1]), True
        if count := given.get("incount"):
            return *_away(now, _number(count), given["inunit"].lower()), False
        if unit := given.get("pastunit"):
            n = _FEW[0] if "pastfew" in given else _number(given.get("past", "one"))
            start, precision, _ = _away(now, -n, unit.lower())
            return start, precision, now, "pastfew" in given
        for named in ("1", "2"):
            if name := given.get(f"baremonth{named}"):
                month, number = _month(name), int(given["barestart" if named == "1" else "bareday"])
                return self._day(self._near(match, month, number), month, number), "day", None, False
        if weekday := given.get("weekday"):
            ahead = (_weekday(weekday) - midnight.weekday()) % 7
            days = ahead or 7 if self._will_be(match) else ahead - 7
            return midnight + timedelta(days=days), "day", None, False
        month = _month(given["inmonth"])
        return self._day(self._near(match, month), month), "month", None, False

    def _near(self, match: re.Match[str], month: int, day: int = 0) -> int:
        """The year of a month, or of a day in it, that is given without a year."""
        now = self._now()
        this, given = (now.month, now.day if day else 0), (month, day)
        if self._will_be(match):
            return now.year + (given < this)
        return now.year - (given > this)

    def _will_be(self, match: re.Match[str]) -> bool:
        """Whether the sentence is about the future."""
        if self._ahead is not None:
            return self._ahead
        if match[0].lower().startswith(_AHEAD):
            return True
        near = self._text[max(0, match.start() - 200) : match.start()], self._text[match.end() : match.end() + 100]
        before = near[0][max(map(near[0].rfind, _STOPS)) + 1 :]
        after = near[1][: min((at for at in map(near[1].find, _STOPS) if at >= 0), default=len(near[1]))]
        return bool(_FUTURE.search(before) or _FUTURE.search(after))

    def _now(self) -> datetime:
        return self._said.utc.astimezone(self._zone)

    def _midnight(self) -> datetime:
        return self._now().replace(hour=0, minute=0, second=0, microsecond=0)

    def _day(self, year: int, month: int = 1, day: int = 1) -> datetime:
        return datetime(year, month, day, tzinfo=self._zone)


def _is_bare(match: re.Match[str]) -> bool:
    """Whether a time is a weekday, or a month or a day without its year."""
    return any(match[name] for name in ("weekday", "inmonth", "baremonth1", "baremonth2"))


_Read = tuple[datetime, datetime, Moment | None]


def _month(name: str) -> int:
    return next(n for n, month in enumerate(MONTHS, start=1) if month[:3] == name[:3].lower())


def _weekday(name: str) -> int:
    return next(n for n, day in enumerate(DAYS) if day[:3] == name[:3].lower())


def _number(written: str) -> int:
    plain = " ".join(written.lower().split())
    return int(plain) if plain.isdecimal() else _NUMBERS[plain]


def _period(midnight: datetime, offset: int, period: str) -> tuple[datetime, Precision, datetime | None]:
    """The last, this or next week, weekend, month, year, weekday or named month."""
    if period in ("week", "weekend"):
        monday = midnight + timedelta(days=7 * offset - midnight.weekday())
        start = monday + timedelta(days=5 if period == "weekend" else 0)
        return start, "day", monday + timedelta(days=7)
    if period == "month":
        return _month_start(midnight, offset), "month", None
    if period == "year":
        return midnight.replace(year=midnight.year + offset, month=1, day=1), "year", None
    if re.fullmatch(_MONTH, period):
        month = _month(period)
        years = (month < midnight.month) - 1 if offset < 0 else (month <= midnight.month if offset else 0)
        return midnight.replace(year=midnight.year + years, month=month, day=1), "month", None
    ahead = (_weekday(period) - midnight.weekday()) % 7
    if offset < 0:
        return midnight + timedelta(days=ahead - 7), "day", None
    return midnight + timedelta(days=ahead or (7 if offset else 0)), "day", None


def _season(year: datetime, season: str) -> tuple[datetime, datetime]:
    """Start and end of the season that begins in this year; a winter ends in the next one."""
    start = year.replace(month=_SEASONS[season], day=1)
    return start, _month_start(start, 3)


def _season_near(midnight: datetime, offset: int, season: str) -> tuple[datetime, datetime]:
    """The last season that is over, the next one to begin, or the present one (else the one that begins this year)."""
    near = [_season(midnight.replace(year=midnight.year + years, day=1), season) for years in (-2, -1, 0, 1)]
    if offset < 0:
        return next(found for found in reversed(near) if found[1] <= midnight)
    if offset > 0:
        return next(found for found in near if found[0] > midnight)
    return next((found for found in near if found[0] <= midnight < found[1]), near[2])


def _away(now: datetime, count: int, unit: str) -> tuple[datetime, Precision, datetime | None]:
    """The day, month or year that is ``count`` units after now, or before it: two weeks ago, three months ago."""
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "minute":
            return now.replace(second=0, microsecond=0) + timedelta(minutes=count), "minute", None
        case "hour":
            return now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=count), "hour", None
        case "weekend":
            return _period(midnight, count, "weekend")
        case "month":
            return _month_start(midnight, count), "month", None
        case "year":
            return midnight.replace(year=midnight.year + count, month=1, day=1), "year", None
    return midnight + timedelta(days=count * (7 if unit == "week" else 1)), "day", None


def _end(start: datetime, precision: Precision) -> datetime:
    return end_of(Moment(start.astimezone(UTC), precision))


def _month_start(day: datetime, offset: int) -> datetime:
    years, month = divmod(day.month - 1 + offset, 12)
    return day.replace(year=day.year + years, month=month + 1, day=1)
