"""The values that a statement gives: amounts with units, times of day, days, dates and how often something happens.

Two statements can be compared by them whatever their other words are: "at half past seven" and "7.30 pm" are one time
of day, "three weeks" and "21 days" one duration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from fusion.lib.text_cache import text_cache
from fusion.lib.word_forms import FUNCTION_WORDS
from fusion.lib.words import accentless, find_words, normalise, stem

MAX_CHARS = 2_000
"""characters of a statement that are read for values"""


class Value(NamedTuple):
    """One value: what is measured ("day", "euro", "clock", "weekday"; "" for a bare number), and the value."""

    sort: str
    value: str


_ONES = """
one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen \
nineteen twenty
ein zwei drei vier funf sechs sieben acht neun zehn elf zwolf dreizehn vierzehn funfzehn sechzehn siebzehn achtzehn \
neunzehn zwanzig
une deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit dix-neuf \
vingt
uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciseis diecisiete dieciocho \
diecinueve veinte
una due tre quattro cinque sei sette otto nove dieci undici dodici tredici quattordici quindici sedici diciassette \
diciotto diciannove venti
een twee drie vier vijf zes zeven acht negen tien elf twaalf dertien veertien vijftien zestien zeventien achttien \
negentien twintig
um dois tres quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezasseis dezassete dezoito dezanove \
vinte
"""
"""the numbers from one on in seven languages, one a line, without accents"""
_AMBIGUOUS = frozenset("ein une uno una um een one once".split())
"""words for one that are mostly articles or pronouns, and "once", which is Spanish for eleven"""
_NUMBERS = {
    word: n for listed in _ONES.split("\n") for n, word in enumerate(listed.split(), start=1) if word not in _AMBIGUOUS
} | {
    "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90, "hundred": 100,
    "dozen": 12, "one": 1, "zero": 0, "dreissig": 30, "dreißig": 30, "vierzig": 40, "funfzig": 50, "trente": 30,
    "quarante": 40, "cinquante": 50, "treinta": 30, "cuarenta": 40, "cincuenta": 50, "trenta": 30, "quaranta": 40,
    "cinquanta": 50, "dertig": 30, "veertig": 40, "vijftig": 50, "trinta": 30, "quarenta": 40, "cinquenta": 50,
}  # fmt: skip

_DAYS_IN = {"day": 1.0, "week": 7.0, "month": 30.0, "year": 365.0, "hour": 1 / 24, "minute": 1 / 1440,
            "second": 1 / 86400}  # fmt: skip
_UNITS = {
    word: unit
    for unit, listed in {
        "day": "day days night nights tag tage tagen nacht nachte jour jours nuit nuits dia dias noche noches giorno "
        "giorni notte notti dag dagen noite noites",
        "week": "week weeks woche wochen semaine semaines semana semanas settimana settimane weken",
        "month": "month months monat monate monaten mois mes meses mese mesi maand maanden",
        "year": "year years jahr jahre jahren an ans annee annees ano anos anno anni jaar jaren",
        "hour": "hour hours hr hrs stunde stunden heure heures hora horas ora ore uur uren",
        "minute": "minute minutes min mins minuten minuto minutos minuti minuut",
        "second": "second seconds sec secs sekunde sekunden seconde secondes segundo segundos secondo secondi",
        "euro": "euro euros eur €",
        "dollar": "dollar dollars usd $ bucks",
        "pound": "pound pounds gbp £ quid",
        "franc": "franc francs chf franken",
        "percent": "percent % pct prozent procent pourcent",
        "metre": "metre metres meter meters m",
        "kilometre": "kilometre kilometres kilometer kilometers km",
        "kilogram": "kilogram kilograms kilo kilos kg",
        "gram": "gram grams g gramm",
        "litre": "litre litres liter liters l",
        "degree": "degree degrees ° °c grad degres grados gradi graden graus celsius",
        "megabyte": "mb megabyte megabytes",
        "gigabyte": "gb gigabyte gigabytes",
        "square metre": "m² m2 sqm",
        "person": "people persons person guests members employees staff personen leute personnes personas persone "
        "pessoas mensen empleados employes dipendenti empregados mitarbeiter werknemers",
    }.items()
    for word in listed.split()
}
_LABELS = frozenset(
    "version port size number room line page level floor gate chapter step release build ticket box".split()
)
"""words before a number that say what it is"""
_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:-[^\W\d_]+)*|[€$£%°²]")

_WEEKDAYS = {
    word: str(n)
    for listed in (
        "monday tuesday wednesday thursday friday saturday sunday",
        "montag dienstag mittwoch donnerstag freitag samstag sonntag",
        "lundi mardi mercredi jeudi vendredi samedi dimanche",
        "lunes martes miercoles jueves viernes sabado domingo",
        "lunedi martedi mercoledi giovedi venerdi sabato domenica",
        "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
        "segunda terca quarta quinta sexta sabado domingo",
    )
    for n, word in enumerate(listed.split(), start=1)
}
_MONTHS = {
    word: str(n)
    for listed in (
        "january february march april may june july august september october november december",
        "januar februar marz april mai juni juli august september oktober november dezember",
        "janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "januari februari maart april mei juni juli augustus september oktober november december",
        "janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro",
    )
    for n, word in enumerate(listed.split(), start=1)
} | {"jan": "1", "feb": "2", "apr": "4", "aug": "8", "sept": "9", "oct": "10", "nov": "11", "dec": "12"}
_ALSO_WORDS = frozenset("may march mars marco".split())
"""months that are other words, too: they count with a day"""
_ARTICLES = frozenset({"a", "an", "al"})
_EVERY = frozenset(
    "every each per a an jeden jede jedes jeder pro chaque par cada por ogni al alla elke iedere todas todos".split()
)
_TIMES_A = frozenset("once twice thrice times mal einmal zweimal dreimal fois veces volte keer vezes".split())
_ADVERBS = {
    word: period
    for period, listed in {
        "day": "daily taglich quotidiennement diariamente quotidianamente dagelijks",
        "week": "weekly wochentlich hebdomadaire semanalmente settimanalmente wekelijks",
        "2 week": "fortnightly biweekly fortnight",
        "month": "monthly monatlich mensuel mensualmente mensilmente maandelijks",
        "quarter": "quarterly vierteljahrlich trimestriel",
        "year": "yearly annually annual jahrlich annuel anualmente jaarlijks",
        "hour": "hourly stundlich",
    }.items()
    for word in listed.split()
}
_HALF_PAST, _QUARTER = re.compile(r"\bhalf past (\w+)"), re.compile(r"\bquarter (past|to) (\w+)")
_CLOCK = re.compile(
    r"(?<![\d.,:])([01]?\d|2[0-4])(?:[:.h]([0-5]\d))?\s*(?:(am|pm|a\.m\.|p\.m\.)\b|(uhr|o'clock|heures?|uur|horas)\b)"
    r"|(?<![\d.,:])([01]?\d|2[0-3])[:h]([0-5]\d)(?![\d:])"
    r"|\b(?:at|before|until|till|from|um|bis|ab|a|à|alle|dalle|fino alle|om|tot|as|às|las) "
    r"((?:[01]?\d|2[0-4])(?![\d:%]|[.,]\d)|[a-z]{3,12})(?= (?:in the|at night|every|each)|[.,;]|$)"
)
_EVENING = re.compile(r"\b(?:pm|evening|night|afternoon|abends|nachmittags|du soir|noche|tarde|sera|avonds|noite)\b")
_ISO = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_VERSION = re.compile(r"(?<![\d.])\d+\.\d+(?:\.\d+)*(?![\d.])")


@text_cache(8_192)
def stated_values(text: str) -> frozenset[Value]:
    """The values that a statement gives."""
    plain = accentless(normalise(text[:MAX_CHARS])).replace("’", "'").replace(" o'clock", " uhr")
    return frozenset((*_clock_times(plain), *_others(_TOKEN.findall(plain)), *_dates(plain)))


def _clock_times(plain: str) -> Iterator[Value]:
    evening = bool(_EVENING.search(plain))
    for match in _HALF_PAST.finditer(plain):
        if (hour := _number(match[1])) is not None:
            yield _clock(hour, 30, late=evening)
    for match in _QUARTER.finditer(plain):
        if (hour := _number(match[2])) is not None:
            yield _clock(hour - (match[1] == "to"), 15 if match[1] == "past" else 45, late=evening)
    for match in _CLOCK.finditer(plain):
        written = match[1] or match[5] or match[7]
        hour = _number(written)
        if hour is None or hour > 24:
            continue
        minute = int(match[2] or match[6] or 0)
        yield _clock(hour, minute, late=evening or (match[3] or "").startswith("p"))
    for word, hour in (("noon", 12), ("midday", 12), ("midnight", 0), ("mittags", 12), ("midi", 12), ("minuit", 0)):
        if f" {word}" in plain:
            yield _clock(hour, 0)


def _clock(hour: float, minute: int, *, late: bool = False) -> Value:
    hour = int(hour) + 12 if late and hour < 12 else int(hour)
    return Value("clock", f"{hour % 24}:{minute:02}")


def _dates(plain: str) -> Iterator[Value]:
    for match in _ISO.finditer(plain):
        yield Value("date", f"{int(match[3])}.{int(match[2])}")
    for match in _VERSION.finditer(plain):
        yield Value("version", match[0])


def _others(tokens: list[str]) -> Iterator[Value]:
    """Amounts with units, days, months and frequencies."""
    dated = _days_of_months(tokens)
    for i, token in enumerate(tokens):
        before, after = tokens[i - 1] if i else "", tokens[i + 1] if i + 1 < len(tokens) else ""
        if day := _WEEKDAYS.get(token) or _WEEKDAYS.get(token.removesuffix("s")):
            yield Value("weekday", day)
            if before in _EVERY:
                yield Value("frequency", "week")
        elif (month := _MONTHS.get(token)) and (i in dated or token not in _ALSO_WORDS):
            yield Value("date", f"{dated[i][1]}.{month}") if i in dated else Value("month", month)
        elif period := _ADVERBS.get(token) or _period(token, before, after):
            yield Value("frequency", period)
    days = {at for at, _ in dated.values()}
    for i, token in enumerate(tokens):
        number = _number(token)
        if number is not None and i not in days and (not i or tokens[i - 1] not in _TIMES_A):
            yield _amount(number, tokens, i)


def _days_of_months(tokens: list[str]) -> dict[int, tuple[int, int]]:
    """By the index of a month, the index of the day that is written next to it, and that day."""
    found: dict[int, tuple[int, int]] = {}
    used: set[int] = set()
    for i, token in enumerate(tokens):
        for near in (i - 1, i + 1, i - 2) if token in _MONTHS else ():
            if 0 <= near < len(tokens) and near not in used and 0 < (day := _digits(tokens[near])) <= 31:
                used.add(near)
                found[i] = near, day
                break
    return found


def _period(token: str, before: str, after: str) -> str:
    """The period in which something happens: "every day", "once a week"; "" if the words are no such thing."""
    unit = _UNITS.get(after, "")
    if token not in _EVERY or unit not in _DAYS_IN:
        return ""
    return unit if token not in _ARTICLES or before in _TIMES_A else ""


def _amount(number: float, tokens: list[str], i: int) -> Value:
    near = [*tokens[i + 1 : i + 3], *reversed(tokens[max(0, i - 1) : i])]
    if tokens[i + 1 : i + 2] == ["square"]:
        return Value("square metre", f"{number:g}")
    unit = next((unit for word in near if (unit := _UNITS.get(word))), "")
    if unit in _DAYS_IN:
        return Value("duration", f"{round(number * _DAYS_IN[unit], 4):g}")
    label = tokens[i - 1] if i and tokens[i - 1] in _LABELS else ""
    return Value(unit or (f"#{stem(label)}" if label else _counted(tokens[i + 1 : i + 2])), f"{number:g}")


def _counted(after: list[str]) -> str:
    """What a bare number counts, as a sort of its own: "#server" for "12 servers"; "" if no noun follows."""
    word = after[0] if after else ""
    return f"#{stem(word)}" if len(word) > 2 and word.isalpha() and word not in FUNCTION_WORDS else ""


def _digits(token: str) -> int:
    """The whole number that a token writes in digits, possibly as an ordinal; 0 if it does not."""
    plain = token.rstrip(".")
    return int(plain) if plain.isascii() and plain.isdigit() and len(plain) <= 2 else 0


def _number(word: str) -> float | None:
    if word[:1].isdigit():
        plain = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", word).replace(",", ".")
        try:
            return float(plain)
        except ValueError:
            return None
    return _NUMBERS.get(word)


class Relation(StrEnum):
    """How the values of two statements relate, as far as they answer a question."""

    DIFFERENT = "different"
    """they give other values of one sort"""
    EQUAL = "equal"
    UNLIKE = "unlike"
    """both give values, but of sorts that cannot be compared"""
    ABSENT = "absent"
    """one of them gives none"""


TIMES = frozenset({"clock", "weekday", "date", "month", "frequency"})
"""the sorts that answer when and how often"""


def relation(one: str, other: str, question: str, *, times: bool) -> Relation:
    """How two statements' values relate: those of time if ``times``, else the amounts.

    What the question says itself is no answer.
    """
    asked = stated_values(question)
    mine, theirs = ({v for v in stated_values(text) - asked if (v.sort in TIMES) is times} for text in (one, other))
    if not mine or not theirs:
        return Relation.ABSENT
    if mine & theirs:
        return Relation.EQUAL
    if times:
        common = {v.sort for v in mine} & {v.sort for v in theirs}
        return Relation.DIFFERENT if common or (_frequent(mine) and _frequent(theirs)) else Relation.UNLIKE
    counted = f" {' '.join(map(stem, find_words(accentless(normalise(question)))))} "
    if {_sort(v, counted) for v in mine} & {_sort(v, counted) for v in theirs}:
        return Relation.DIFFERENT
    return Relation.UNLIKE


def _frequent(values: Iterable[Value]) -> bool:
    return any(v.sort in ("frequency", "weekday") for v in values)


def _sort(value: Value, counted: str) -> str:
    """The sort of a value, "" for a bare number, for persons and for the number of what the question counts."""
    if value.sort == "person" or (value.sort.startswith("#") and f" {value.sort[1:]} " in counted):
        return ""
    return value.sort
