"""What an event says, learnt once for every store: its kind, entities, facts and times. Rules only, no model.

Everything here is a pure function of the event, linear in its text, and never raises. The rules would rather miss a
fact than make one up: questions, conditions, negations and subjects that are only pronouns state nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import groupby

from fusion.contract import Entity, Event, Extraction, Fact, Kind, Moment, Precision
from fusion.lib.moment import zone_of
from fusion.lib.words import STOP_WORDS

READ_CHARS = 20_000
"""of a text; what is longer is an export, and its beginning tells what it is"""

MOST_ENTITIES = 16
MOST_FACTS = 8
MOST_TIMES = 8

LONGEST_PART_WORDS = 6
"""of a fact's subject and object; longer, and it is a sentence, not a thing"""


def capture(event: Event) -> Extraction:
    """Learns what is in one event. A kind that its caller chose stands; a "note" is classified."""
    text = event.text[:READ_CHARS]
    prose = _prose(text)
    return Extraction(
        kind=classify(text) if event.kind == "note" else event.kind,
        entities=tuple(entities(text, prose, event.speaker)),
        facts=tuple(facts(prose, event.speaker)),
        times=tuple(times(text, event.at or Moment(event.recorded_at))),
    )


_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,15}://\S+", re.IGNORECASE)


def _prose(text: str) -> str:
    """The text without fenced code and URLs: their capitals name nothing."""
    if "```" in text or "~~~" in text:
        text = _FENCED.sub("\n", text)
    return _URL.sub(" ", text) if "://" in text else text


# Kind --------------------------------------------------------------------------------------------------------------

KEYWORDS: dict[Kind, tuple[str, ...]] = {
    "rule": (
        *("must", "always", "never", "required", "shall", "constraint", "invariant", "rule:", "important:"),
        *("critical:", "forbidden", "mandatory", "do not", "don't", "ensure that", "make sure"),
    ),
    "procedure": (
        *("step 1", "step 2", "first", "then", "finally", "how to", "to do this", "process:", "workflow:", "steps:"),
        *("run the", "execute", "install", "configure", "setup", "create a", "deploy", "build the"),
    ),
    "preference": (
        *("prefer", "like", "dislike", "favorite", "rather", "style:", "prefer to", "would rather", "choose"),
        *("instead of", "better than", "worse than"),
    ),
    "episode": (
        *("yesterday", "today", "last week", "on monday", "happened", "occurred", "we did", "we found", "discovered"),
        *("resolved", "fixed the", "broke", "incident", "session", "meeting"),
    ),
}
"""seed 000's heuristic; words and phrases match whole, in any case"""


def _whole(keyword: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(keyword)}" + (r"\b" if keyword[-1].isalnum() else ""))


_WHOLE = {kind: tuple((keyword, _whole(keyword)) for keyword in keywords) for kind, keywords in KEYWORDS.items()}


def classify(text: str) -> Kind:
    """The kind of whose keywords most stand in the text; of equals the first of rule, procedure, preference, episode.
    Without any it is a fact (seed 000)."""
    lower = text.lower().replace("’", "'")
    best: Kind = "fact"
    most = 0
    for kind, keywords in _WHOLE.items():
        # Plain `in` rules nearly all of them out, a hundred times faster than a pattern.
        found = sum(1 for keyword, whole in keywords if keyword in lower and whole.search(lower))
        if found > most:
            best, most = kind, found
    return best


# Entities ----------------------------------------------------------------------------------------------------------


def _classes(characters: Iterator[int]) -> str:
    """Code points as ranges of a character class."""
    runs = (list(run) for _, run in groupby(enumerate(characters), key=lambda pair: pair[1] - pair[0]))
    return "".join(f"{chr(run[0][1])}-{chr(run[-1][1])}" for run in runs)


# `re` knows no \p{Lu}; Latin, Greek, Cyrillic and Armenian are below U+0590, what follows mostly has no capitals.
_UPPER = _classes(point for point in range(0x590) if chr(point).isupper())
_WORD = rf"[{_UPPER}][\w&+#-]*(?:\.\w+)*(?:['’](?!s\b)\w+)?"
_NAME = re.compile(rf"(?<![\w@/\\.'’-]){_WORD}(?:[ ](?:(?:of|de|del|van|von|der|la|du|&)[ ]){{0,2}}{_WORD}){{0,5}}")
_LINK = re.compile(r"\[\[([^\[\]|#\n]{1,120})(?:[|#][^\[\]\n]{0,240})?\]\]")
_HANDLE = re.compile(r"(?<![\w.@/])@(\w[\w.-]{0,38})")
_CODE = re.compile(r"(?<!`)`([^`\n]{1,60})`(?!`)")
_QUOTED = re.compile(r"[\"“«「『]([^\"“”«»「」『』\n]{2,60})[\"”»」』]")

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november"),
    "december",
)
_TITLES = ("Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "St.")
_COMMON = STOP_WORDS.union(
    _DAYS,
    _MONTHS,
    (month[:3] for month in _MONTHS),
    (title[:-1].lower() for title in _TITLES),
    "sept today yesterday tomorrow tonight last next absolutely actually agreed alright although always amazing "
    "anyway awesome aw bye cheers congrats congratulations cool definitely don either every everyone exactly fine "
    "first finally good great haha hello hey hi however indeed later look many maybe meanwhile never nice nothing "
    "oh ok okay perhaps please really right second see since something sometimes sorry still sure thank thanks "
    "third two three one true unfortunately usually wait well whatever whether without wonderful wow yea yeah yep "
    "yes yet also another because make use using note must todo done important rule step steps remember btw fyi lol "
    "omg imo mon tue tues wed thu thur thurs fri sat sun woah whoa glad go bet got guess hope looks sounds seems "
    "love loved been had keep let check".split(),
)
"""what begins a sentence with a capital and names nobody; days and months are times"""


def entities(text: str, prose: str, speaker: str | None) -> list[Entity]:
    """Who and what a text names, at most 16, each once whatever its case: the speaker, then what is marked as a name
    (wiki links, @handles, `code`, "quotes"), then capitalised names in their order."""
    found: dict[str, Entity] = {}

    def add(name: str, type_: str = "concept") -> None:
        name = " ".join(name.split())
        if name and any(map(str.isalnum, name)):
            found.setdefault(name.casefold(), Entity(name, type_))

    if speaker:
        add(speaker, "person")
    for name in _LINK.findall(text) if "[[" in text else ():
        add(name)
    for name in _HANDLE.findall(text) if "@" in text else ():
        add(name.rstrip(".-"), "person")
    for name in _CODE.findall(prose) if "`" in prose else ():
        if len(name.split()) <= 3:
            add(name)
    for name in _QUOTED.findall(prose):
        if _is_title(name):
            add(name)
    for name in _names(_unmarked(prose)):
        add(name)
    return list(found.values())[:MOST_ENTITIES]


def _unmarked(prose: str) -> str:
    """The text without what is marked as a name, of which a part is none of its own."""
    prose = _LINK.sub(" ", prose) if "[[" in prose else prose
    prose = _CODE.sub(" ", prose) if "`" in prose else prose
    return _QUOTED.sub(lambda match: " x " if _is_title(match[1]) else match[0], prose)


def _is_title(quoted: str) -> bool:
    """Whether quotation marks hold a name and not something that was said."""
    first = quoted[0]
    capital = first.isupper() or first.isdigit() or (first.isalpha() and not first.islower())
    return capital and quoted[-1] not in ".!?,;:…。！？" and len(quoted.split()) <= 5 and quoted.lower() not in _COMMON


def _names(prose: str) -> Iterator[str]:
    """Capitalised names. One plain word at a sentence's beginning counts only when the text has it again."""
    found = []
    for match in _NAME.finditer(prose):
        words = match[0].rstrip("&-'’").split(" ")
        opens = _opens_sentence(prose, match.start())
        while words and _is_common(words[0]):
            words.pop(0)
            opens = False
        while words and _is_common(words[-1]):
            words.pop()
        if words:
            found.append((" ".join(words), opens and len(words) == 1 and words[0][1:].islower()))
    times_seen = Counter(name for name, _ in found)
    for name, doubtful in found:
        if len(name) > 1 and (not doubtful or times_seen[name] > 1):
            yield name


def _is_common(word: str) -> bool:
    """Whether a word names nobody, be it alone or contracted ("They're")."""
    return re.split("['’]", word.lower(), maxsplit=1)[0] in _COMMON


def _opens_sentence(text: str, start: int) -> bool:
    before = text[max(0, start - 16) : start]
    lead = before.rstrip(" \t*_\"'“‘«([{#>-•|~=+0123456789)")
    if not lead:
        return len(before) == start or "\n" in before
    return lead[-1] in ".!?:;…\n\r。！？" and not lead.endswith(_TITLES)


# Facts -------------------------------------------------------------------------------------------------------------

_VERBS = {
    "is": ("is", "are", "am", "'m"),
    "uses": ("use", "uses", "am using", "is using", "are using", "'m using"),
    "owns": ("own", "owns"),
    "prefers": ("prefer", "prefers"),
    "likes": ("like", "likes"),
    "lives in": ("live in", "lives in"),
    "works at": ("work at", "works at"),
    "works on": ("work on", "works on", "am working on", "is working on", "are working on", "'m working on"),
    "moved to": ("moved to", "have moved to", "has moved to"),
    "decided on": ("decided on", "have decided on", "has decided on"),
    "chose": ("chose", "have chosen", "has chosen"),
}
"""the predicate, and the forms in which it is written; in the past only what then lasts"""

_PREDICATE = {form: predicate for predicate, forms in _VERBS.items() for form in forms}
_FORMS = "|".join(sorted(map(re.escape, _PREDICATE), key=len, reverse=True)).replace("'", "['’]")
_STATEMENT = re.compile(
    rf"""[\s*_>•#-]*
    (?i:(?:well|yes|yeah|oh|hey|ok|okay|and|but|so|also|now|today|yesterday|actually|honestly)[\s,]+){{0,2}}
    (?P<subject>
        (?i:(?:my|our|the)\s+)[\w'’-]+(?:\s+[\w'’-]+){{0,3}}?
      | (?:I|[Ww]e)\b
      | `[^`\n]{{1,60}}`
      | {_WORD}(?:[ ]{_WORD}){{0,4}}
    )
    (?:\s+(?i:really|just|also|now|still|always|usually|currently|recently|actually|both|all))*
    (?:\s+|(?=['’]m))
    (?P<verb>(?i:{_FORMS}))\s+
    (?P<object>\S.*)""",
    re.VERBOSE | re.DOTALL,
)
_VERB_SEEN = re.compile(rf"(?i:\b|(?=['’]))(?i:{_FORMS})\s")
_SENTENCE_END = re.compile(r"(?<=[.!?…。！？])\s+|\n+")
_CLAUSE_END = re.compile(
    r"[,;:.!?…。！？]+(?=\s|$)|[()\[\]{}—–\"“”]|\s-+\s"
    r"|\s(?:and|but|or|because|so|since|as|while|when|which|who|that|if|unless|although|though|after|before|until"
    r"|instead|rather|for|with|where|than)\s",
    re.IGNORECASE,
)
_ARROW = re.compile(r"\s+-{1,2}>\s+|\s*[→⟶]\s*")
_BULLET = re.compile(r"^\s*(?:[-*+]\s+|\d{1,9}[.)]\s+|>\s?)*")
_TRIM = " \t*_`\"'“”‘’«».,;:!"
_BASE_FORMS = frozenset(("use", "own", "prefer", "like", "live in", "work at", "work on"))
_UNSURE = frozenset("not no never neither nor it them him her us you this that these those".split())
"""an object that begins so denies the statement, or is told only by what was said before"""
_A_THING = frozenset("a an the my our his her their one from called named".split())


def facts(prose: str, speaker: str | None) -> list[Fact]:
    """What a text states as subject, predicate, object, at most 8: ``A -> rel -> B`` lines, then plain statements.

    ``I``, ``we``, ``my`` and ``our`` are the speaker; without one, what they state is left out.
    """
    found: dict[Fact, None] = {}
    for line in prose.split("\n") if "->" in prose or "→" in prose or "⟶" in prose else ():
        found.update(dict.fromkeys(_chain(line)))
    for sentence in _SENTENCE_END.split(prose):
        if len(found) >= MOST_FACTS:
            break
        if not sentence.endswith(("?", "？")) and _VERB_SEEN.search(sentence) and not _ARROW.search(sentence):
            found.update(dict.fromkeys(_statements(sentence, speaker)))
    return list(found)[:MOST_FACTS]


def _chain(line: str) -> Iterator[Fact]:
    """``A -> rel -> B -> rel -> C`` states two facts."""
    parts = [_LINK.sub(r"\1", part).strip(_TRIM) for part in _ARROW.split(_BULLET.sub("", line, count=1))]
    if len(parts) >= 3 and len(parts) % 2 and all(0 < len(p.split()) <= LONGEST_PART_WORDS for p in parts):
        for i in range(0, len(parts) - 2, 2):
            yield Fact(*parts[i : i + 3])


def _statements(sentence: str, speaker: str | None) -> Iterator[Fact]:
    start, condition = 0, False
    for end in (*_CLAUSE_END.finditer(sentence), None):
        clause = sentence[start : end.start() if end else len(sentence)]
        if not condition and (match := _STATEMENT.match(clause)):
            verb = match["verb"].lower().replace("’", "'")
            agrees = verb not in _BASE_FORMS or _takes_base_form(match["subject"])
            if agrees and (fact := _fact(match["subject"], _PREDICATE[verb], match["object"], speaker)):
                yield fact
        if end is not None:
            start = end.end()
            # "… if I move to Rome", "I heard that she uses it": what follows is not stated as so.
            condition = end[0].strip().lower() in {"if", "unless", "that", "than", "until", "as"}


def _takes_base_form(subject: str) -> bool:
    """Whether a subject goes with "like" and not "likes": I, we, my cats. "Looks like rain" has no subject at all."""
    first, *rest = subject.lower().split()
    return first in {"i", "we"} if not rest else first in {"my", "our", "the"} and rest[-1].endswith("s")


def _fact(subject: str, predicate: str, object_: str, speaker: str | None) -> Fact | None:
    """The fact that a statement makes; None where it makes none that stands by itself."""
    first, *rest = subject.split()
    who = first.lower()
    if who in {"i", "we", "my", "our"}:
        if not speaker:
            return None
        subject = f"{speaker}'s {' '.join(rest)}" if rest else speaker
    elif who == "the":
        subject = " ".join(rest)
    elif not subject.startswith("`") and _is_common(who):
        return None
    if when := _TIME.search(object_):  # "moved to Berlin last week": the week is no part of the place
        object_ = re.sub(r"\s(?:in|on|by|since)\s*$", "", object_[: when.start()])
    object_ = object_.strip(_TRIM)
    words = object_.split()
    if not words or words[0].lower() in _UNSURE:
        return None
    if predicate == "is" and who not in {"my", "our"} and not _names_a_thing(words[0]):
        return None
    if words[0].lower() in {"my", "our"}:
        if not speaker or len(words) == 1:
            return None
        object_ = f"{speaker}'s {' '.join(words[1:])}"
    subject, object_ = subject.strip(_TRIM), " ".join(object_.split())
    short = all(0 < len(part.split()) <= LONGEST_PART_WORDS for part in (subject, object_))
    return Fact(subject, predicate, object_) if short and object_.lower() not in _COMMON else None


def _names_a_thing(word: str) -> bool:
    """Whether "is" is followed by what something is; "is going", "is so tired" are how things are just now."""
    return word.lower() in _A_THING or word[0].isupper() or word[0].isdigit() or word[0] == "`"


# Times -------------------------------------------------------------------------------------------------------------

_MONTH = "|".join(f"{month}|{month[:3]}" for month in _MONTHS) + "|sept"
_YEAR = r"(?:1[89]|20|21)\d\d"
_NUMBERS = {
    word: number
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
} | {"a": 1, "an": 1, "couple of": 2, "a couple of": 2}
_COUNT = "|".join(sorted(_NUMBERS, key=len, reverse=True)).replace(" ", r"\s")
_TIME = re.compile(
    rf"""(?<![\w-])(?:
      (?P<iso>{_YEAR}-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{{1,9}})?)?(?:Z|[+-]\d\d:?\d\d)?)?)?)(?![\w-])
    | (?P<day1>\d{{1,2}})(?:st|nd|rd|th)?\s(?:of\s)?(?P<month1>{_MONTH})\.?,?\s(?P<year1>{_YEAR})\b
    | (?P<month2>{_MONTH})\.?\s(?P<day2>\d{{1,2}})(?:st|nd|rd|th)?,?\s(?P<year2>{_YEAR})\b
    | (?P<month3>{_MONTH})\.?,?\s(?:of\s)?(?P<year3>{_YEAR})\b
    | (?:in|since|during|until|by)\s(?P<year4>{_YEAR})\b(?!-)
    | (?P<day>the\sday\sbefore\syesterday|yesterday|today|tonight|this\s(?:morning|afternoon|evening)|tomorrow)\b
    | (?P<which>last|this|next)\s(?P<period>week|month|year|{"|".join(_DAYS)})\b
    | (?P<count>\d{{1,4}}|{_COUNT})\s(?P<unit>minute|hour|day|week|month|year)s?\sago\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)
_DAY_OFFSET = {"the day before yesterday": -2, "yesterday": -1, "tomorrow": 1}
_WHICH = {"last": -1, "this": 0, "next": 1}
_FINENESS: tuple[Precision, ...] = ("year", "month", "day", "hour", "minute", "second")


def times(text: str, said: Moment) -> list[Moment]:
    """The times that a text names, at most 8, as exactly as it names them; what is relative counts from ``said``.

    Each is the beginning of the time that is meant, in the zone of ``said`` or else UTC. A week is told by its Monday;
    "last Friday" is the latest one before the day of ``said``. What is finer than ``said`` itself is known ("yesterday"
    of a month) is left out.
    """
    found: dict[Moment, None] = {}
    for match in _TIME.finditer(text):
        try:
            found[_moment(match, said)] = None
        except (ValueError, OverflowError):  # the 31st of June, 9999 years ago, yesterday of a month: no such time
            continue
        if len(found) == MOST_TIMES:
            break
    return list(found)


def _moment(match: re.Match[str], said: Moment) -> Moment:
    zone = zone_of(said.zone)

    def at(start: datetime, precision: Precision) -> Moment:
        return Moment(start.astimezone(UTC), precision, said.zone)

    if match["iso"]:
        return _iso(match["iso"], zone, at)
    for n in ("1", "2"):
        if month := match[f"month{n}"]:
            return at(datetime(int(match[f"year{n}"]), _month(month), int(match[f"day{n}"]), tzinfo=zone), "day")
    if match["month3"]:
        return at(datetime(int(match["year3"]), _month(match["month3"]), 1, tzinfo=zone), "month")
    if match["year4"]:
        return at(datetime(int(match["year4"]), 1, 1, tzinfo=zone), "year")

    start, precision = _relative(match, said.utc.astimezone(zone))
    if _FINENESS.index(precision) > _FINENESS.index(said.precision):
        raise ValueError("what is relative cannot be finer than what it is relative to")
    return at(start, precision)


def _month(name: str) -> int:
    return next(n for n, month in enumerate(_MONTHS, start=1) if month[:3] == name[:3].lower())


def _iso(written: str, zone: tzinfo, at: Callable[[datetime, Precision], Moment]) -> Moment:
    if len(written) == len("2026-01"):
        return at(datetime.fromisoformat(written + "-01").replace(tzinfo=zone), "month")
    found = datetime.fromisoformat(written)
    clock = written[len("2026-01-31T") :]
    precision: Precision = "day" if not clock else "second" if re.match(r"\d\d:\d\d:", clock) else "minute"
    return at(found if found.tzinfo else found.replace(tzinfo=zone), precision)


def _relative(match: re.Match[str], now: datetime) -> tuple[datetime, Precision]:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if day := match["day"]:
        return midnight + timedelta(days=_DAY_OFFSET.get(" ".join(day.lower().split()), 0)), "day"
    if which := match["which"]:
        return _period(midnight, _WHICH[which.lower()], match["period"].lower())
    written = " ".join(match["count"].lower().split())
    return _back(now, int(written) if written.isdecimal() else _NUMBERS[written], match["unit"].lower())


def _period(midnight: datetime, offset: int, period: str) -> tuple[datetime, Precision]:
    if period == "week":
        return midnight + timedelta(days=7 * offset - midnight.weekday()), "day"
    if period == "month":
        return _month_start(midnight, offset), "month"
    if period == "year":
        return midnight.replace(year=midnight.year + offset, month=1, day=1), "year"
    ahead = (_DAYS.index(period) - midnight.weekday()) % 7
    if offset < 0:
        return midnight + timedelta(days=ahead - 7), "day"
    return midnight + timedelta(days=ahead or (7 if offset else 0)), "day"


def _back(now: datetime, count: int, unit: str) -> tuple[datetime, Precision]:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "minute":
            return now.replace(second=0, microsecond=0) - timedelta(minutes=count), "minute"
        case "hour":
            return now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=count), "hour"
        case "month":
            return _month_start(midnight, -count), "month"
        case "year":
            return midnight.replace(year=midnight.year - count, month=1, day=1), "year"
    return midnight - timedelta(days=count * (7 if unit == "week" else 1)), "day"


def _month_start(day: datetime, offset: int) -> datetime:
    years, month = divmod(day.month - 1 + offset, 12)
    return day.replace(year=day.year + years, month=month + 1, day=1)
