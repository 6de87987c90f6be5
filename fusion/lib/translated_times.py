"""Puts the dates of a question into English, in place, where they are in another language.

`fusion.lib.times` then reads "am 21. November 2026" as "on 21 November 2026", and "hace 3 días" as "3 days ago". Tables
have the most frequent phrases of German, French, Spanish, Italian, Portuguese, Arabic, Korean, Japanese and Chinese;
dates with the name of a month, weekdays and small numbers in words are read in the first five.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from fusion.lib.lazy_pattern import lazy_pattern
from fusion.lib.words import accentless, normalise

PHRASES = {
    "today": "heute|aujourd'hui|oggi|hoy|hoje|اليوم|오늘|今日|今天",
    "yesterday": "gestern|ieri|ayer|ontem|أمس|البارحة|어제|昨日|昨天",
    "the day before yesterday": "vorgestern|avant-hier|l'altro ieri|altro ieri|anteayer|anteontem"
    "|أول أمس|그저께|一昨日|おととい|前天",
    "tomorrow": "demain|domani|amanhã|غدا|내일|明日|明天",
    "last night": "gestern abend|letzte nacht|hier soir|ieri sera|anoche|ontem à noite",
    "last week": "letzte woche|letzten woche|vergangene woche|vergangenen woche|vorige woche|vorigen woche"
    "|semaine dernière|semaine passée|settimana scorsa|scorsa settimana"
    "|semana pasada|semana passada|الأسبوع الماضي|지난주|지난 주|先週|上周|上週|上星期|上个星期|上個星期",
    "this week": "diese woche|dieser woche|cette semaine|questa settimana"
    "|esta semana|هذا الأسبوع|이번주|이번 주|今週|本周|本週|这周|這週|这个星期|這個星期",
    "next week": "nächste woche|nächsten woche|kommende woche|kommenden woche|semaine prochaine|settimana prossima"
    "|próxima semana|semana que viene|semana que vem|الأسبوع القادم|다음주|다음 주|来週|下周|下週|下星期",
    "last weekend": "letztes wochenende|letzten wochenende|vergangenen wochenende|week-end dernier|weekend dernier"
    "|scorso weekend|scorso fine settimana|fine settimana scorso|fin de semana pasado|fim de semana passado",
    "last month": "letzten monat|vergangenen monat|vorigen monat|mois dernier|mois passé|mese scorso|scorso mese"
    "|mes pasado|mês passado|الشهر الماضي|지난달|지난 달|先月|上个月|上個月|上月",
    "this month": "diesen monat|diesem monat|ce mois-ci|questo mese"
    "|este mes|este mês|هذا الشهر|이번달|이번 달|今月|这个月|這個月|本月",
    "next month": "nächsten monat|kommenden monat|mois prochain|mese prossimo|prossimo mese"
    "|próximo mes|mes que viene|mês que vem|الشهر القادم|다음달|다음 달|来月|下个月|下個月",
    "last year": "letztes jahr|letzten jahr|vergangenes jahr|vergangenen jahr|voriges jahr|année dernière|an dernier"
    "|anno scorso|scorso anno|año pasado|ano passado|العام الماضي|السنة الماضية|작년|지난해|去年|昨年",
    "this year": "dieses jahr|diesem jahr|cette année|quest'anno|este año|este ano|هذا العام|هذه السنة|올해|今年",
    "next year": "nächstes jahr|nächsten jahr|kommendes jahr|année prochaine|an prochain|anno prossimo|prossimo anno"
    "|próximo año|año que viene|ano que vem|العام القادم|السنة القادمة|내년|来年|明年",
    "last summer": "letzten sommer|vergangenen sommer|été dernier|estate scorsa|scorsa estate"
    "|verano pasado|verão passado|الصيف الماضي|지난여름|지난 여름|去年の夏|去年夏天",
    "last winter": "letzten winter|vergangenen winter|hiver dernier|inverno scorso|scorso inverno"
    "|invierno pasado|inverno passado|الشتاء الماضي|지난겨울|지난 겨울|去年の冬|去年冬天",
}
_UNITS = {
    "day": "tag|tage|tagen|jour|jours|giorno|giorni|día|días|dia|dias|يوم|أيام|일|日|天",
    "week": "woche|wochen|semaine|semaines|settimana|settimane|semana|semanas"
    "|أسبوع|أسابيع|주|주일|週間|周|週|星期|个星期",
    "month": "monat|monate|monaten|mois|mese|mesi|mes|meses|mês|شهر|أشهر|개월|달|か月|ヶ月|カ月|个月|個月",
    "year": "jahr|jahre|jahren|an|ans|année|années|anno|anni|año|años|ano|anos|سنة|سنوات|عام|أعوام|년|年",
}
_NUMBERS = {
    1: "ein|einem|einer|eine|un|une|una|uno|um|uma",
    2: "zwei|deux|due|dos|dois|duas",
    3: "drei|trois|tre|tres|três",
    4: "vier|quatre|quattro|cuatro|quatro",
    5: "fünf|cinq|cinque|cinco",
    6: "sechs|six|sei|seis",
    7: "sieben|sept|sette|siete|sete",
    8: "acht|huit|otto|ocho|oito",
    10: "zehn|dix|dieci|diez|dez",
}
_MONTHS = {
    "January": "januar|jänner|janvier|gennaio|enero|janeiro",
    "February": "februar|feber|février|febbraio|febrero|fevereiro",
    "March": "märz|mars|marzo|março",
    "April": "april|avril|aprile|abril",
    "May": "mai|maggio|mayo|maio",
    "June": "juni|juin|giugno|junio|junho",
    "July": "juli|juillet|luglio|julio|julho",
    "August": "august|août|agosto",
    "September": "september|septembre|settembre|septiembre|setiembre|setembro",
    "October": "oktober|octobre|ottobre|octubre|outubro",
    "November": "november|novembre|noviembre|novembro",
    "December": "dezember|décembre|dicembre|diciembre|dezembro",
}
_WEEKDAYS = {
    "Monday": "montag|lundi|lunedì|lunes|segunda-feira",
    "Tuesday": "dienstag|mardi|martedì|martes|terça-feira",
    "Wednesday": "mittwoch|mercredi|mercoledì|miércoles|quarta-feira",
    "Thursday": "donnerstag|jeudi|giovedì|jueves|quinta-feira",
    "Friday": "freitag|vendredi|venerdì|viernes|sexta-feira",
    "Saturday": "samstag|sonnabend|samedi|sabato|sábado",
    "Sunday": "sonntag|dimanche|domenica|domingo",
}
_BEFORE_MONTH = {
    "in": "im|in|en|a|em|au mois de|nel mese di|en el mes de",
    "since": "seit|ab|depuis|desde|da|dal",
    "until": "bis|jusqu'en|jusque|fino a|hasta|até",
    "during": "während|pendant|durante",
}
_ITALIAN_MONTHS = (
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre".split()
)
_LAST = "letzten|letzter|vergangenen|vorigen|dernier|dernière|passé|scorso|scorsa|pasado|passado|passada"
_NEXT = "nächsten|nächster|kommenden|prochain|prochaine|prossimo|prossima|próximo|próxima"
_FRENCH = lazy_pattern(
    r"\b(?:qu[ei]|quoi|quel|je|tu|nous|avons|ai|avec|est-ce|le|les|du|des|ou|on|mon|ma|mes)\b|\b[jqlmn]'"
)
_GERMAN = lazy_pattern(r"\b(?:wer|wo|was|wie|ich|wir|ist|sind|hat|habe|der|das|und|wohnt|gibt)\b")


def _plain(text: str) -> str:
    return accentless(normalise(text))


def _by_word(table: dict[str, str]) -> dict[str, str]:
    return {_plain(word): english for english, words in table.items() for word in words.split("|")}


def _any(words: Iterable[str] | str) -> str:
    """A pattern of these alternatives, longest first; whole words only, in scripts with blanks between words."""
    longest = sorted(map(_plain, words.split("|")) if isinstance(words, str) else words, key=len, reverse=True)
    return "|".join(rf"{re.escape(w)}\b" if w.isascii() else re.escape(w) for w in longest)


def _latin(words: Iterable[str]) -> list[str]:
    return [word for word in words if word.isascii()]


def _other(words: Iterable[str]) -> list[str]:
    return [word for word in words if not word.isascii()]


_ENGLISH, _UNIT = _by_word(PHRASES), _by_word(_UNITS)
_MONTH, _WEEKDAY, _BEFORE = _by_word(_MONTHS), _by_word(_WEEKDAYS), _by_word(_BEFORE_MONTH)
_NUMBER = _by_word({str(number): words for number, words in _NUMBERS.items()})
_COUNT = rf"\d{{1,4}}|{_any(_NUMBER)}"
_YEAR = r"(?:,? (?:de |del |di |do )?(?P<{}>(?:19|20|21)\d\d)\b)?"
_OF = "(?: de| di)? "
_IN_LETTERS = lazy_pattern(
    r"(?<!\w)(?:(?P<since>seit|depuis|desde|dal?)(?: dem| der| le| la| el| il| lo)? )?(?:"
    rf"(?P<phrase>{_any(_latin(_ENGLISH))})"
    rf"|(?:hace|ha|vor|il y a) (?P<count>{_COUNT}) (?P<unit>{_any(_latin(_UNIT))})"
    rf"|(?P<number>{_COUNT}) (?P<past>{_any(_latin(_UNIT))}) (?:atras|fa)\b"
    rf"|(?:zwischen|entre|tra)(?: dem| le| el| il)? (?P<from2>\d\d?)(?:\.|er|º|°)? (?:und|et|y|e)(?: dem| le| el| il)? "
    rf"(?P<to2>\d\d?)(?:\.|er)?{_OF}(?P<rmonth2>{_any(_MONTH)}){_YEAR.format('ryear2')}"
    rf"|(?P<from>\d\d?)(?:\.|er|º|°)? ?(?:bis(?: zum)?|au|al|a|-|–) ?(?P<to>\d\d?)(?:\.|er)?{_OF}"
    rf"(?P<rmonth>{_any(_MONTH)}){_YEAR.format('ryear')}"
    rf"|(?:(?:{_any(_WEEKDAY)}),? (?:dem |den |le |el |il )?)?"
    rf"(?P<day>\d\d?)(?:\.|er|º|°)?{_OF}(?P<month>{_any(_MONTH)}){_YEAR.format('year')}"
    rf"|(?P<before>{_any(_BEFORE)}) (?:anfang |mitte |ende |debut |fin |mi-)?(?P<inmonth>{_any(_MONTH)})"
    rf"{_YEAR.format('inyear')}"
    rf"|(?P<monthof>{_any(_MONTH)})(?: de| del)? (?P<ofyear>(?:19|20|21)\d\d)\b"
    rf"|(?:(?P<last>{_any(_LAST)}) |(?P<next>{_any(_NEXT)}) )?(?<!santo )(?P<weekday>{_any(_WEEKDAY)})(?! gras)"
    rf"(?: (?:(?P<last2>{_any(_LAST)})|(?P<next2>{_any(_NEXT)})))?"
    r"|(?P<hier>hier)\b|(?<!am )(?<!heute )(?<!gestern )(?<!guten )(?<!jeden )(?P<morgen>morgen)\b"
    r"|(?P<first>\d\d?)(?P<gap>[./])(?P<second>\d\d?)(?P=gap)(?P<nyear>(?:19|20|21)\d\d)\b)"
)
_IN_OTHER_SCRIPTS = lazy_pattern(
    rf"(?P<phrase>{_any(_other(_ENGLISH))})"
    rf"|(?:{_plain('قبل')}|{_plain('منذ')}) (?P<count>\d{{1,4}}) (?P<unit>{_any(_other(_UNIT))})"
    rf"|(?P<number>\d{{1,4}}) ?(?P<past>{_any(_other(_UNIT))}) ?(?:{_plain('전')}|以?前)"
)
_WORD = re.compile(r"[a-z]+")
_TELLING = frozenset(
    max(_WORD.findall(phrase), key=len) for phrase in (*_latin(_ENGLISH), *_MONTH, *_WEEKDAY, "hier", "morgen")
) | {"hace", "ha", "vor", "atras", "fa", "y"}
"""one word of each phrase: a text without all of them, which most are, need not be searched"""
_NUMBERED = re.compile(r"\d[./]\d")
_OTHER_SCRIPT = re.compile("[\u0600-\u06ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def in_english(text: str) -> str:
    """The text with its dates in English; the very text if it has none in another language."""
    text = unicodedata.normalize("NFC", text)
    parts: list[str] = []
    position = 0
    for begin, end, english in sorted(_found(text)):
        if begin < position:
            continue
        parts += [text[position:begin], f" {english} "]
        position = end
    return "".join([*parts, text[position:]]) if parts else text


def phrases_in_english(text: str) -> list[str]:
    """The dates of a text that are in another language, in English."""
    return [english for _, _, english in sorted(_found(unicodedata.normalize("NFC", text)))]


def _found(text: str) -> Iterator[tuple[int, int, str]]:
    folded = _folded(text)
    if not _TELLING.isdisjoint(_WORD.findall(folded)) or _NUMBERED.search(folded):
        yield from _matches(_IN_LETTERS, folded)
    if not text.isascii() and _OTHER_SCRIPT.search(folded):
        yield from _matches(_IN_OTHER_SCRIPTS, folded)


def _matches(pattern: re.Pattern[str], folded: str) -> Iterator[tuple[int, int, str]]:
    for match in pattern.finditer(folded):
        if (english := _said(match, folded)) is not None:
            yield match.start(), match.end(), english


def _folded(text: str) -> str:
    """The text in lower case without accents, each character in its place."""
    if text.isascii():
        return text.lower()
    return "".join(map(_folded_character, text))


@lru_cache(maxsize=4096)
def _folded_character(character: str) -> str:
    if character == "’":
        return "'"
    plain = _plain(character)
    return plain if len(plain) == 1 else character


def _said(match: re.Match[str], folded: str) -> str | None:
    """A match in English; None for what is English already, or no date in its language."""
    given = {name: value for name, value in match.groupdict().items() if value}
    english = _date(given, folded)
    if english is not None and "since" in given:
        english = f"since {english.removeprefix('on ')}"
    return None if english is None or english.lower() == match[0] else english


def _date(given: Mapping[str, str], folded: str) -> str | None:
    if phrase := given.get("phrase"):
        return _ENGLISH[phrase]
    if count := given.get("count") or given.get("number"):
        number = _NUMBER.get(count, count)
        return f"{number} {_UNIT[given.get('unit') or given['past']]}s ago"
    if "rmonth" in given:
        return _with_year(f"{given['from']} to {given['to']} {_MONTH[given['rmonth']]}", given.get("ryear"))
    if "rmonth2" in given:
        return _with_year(f"{given['from2']} to {given['to2']} {_MONTH[given['rmonth2']]}", given.get("ryear2"))
    if "month" in given:
        return _with_year(f"{given['day']} {_MONTH[given['month']]}", given.get("year"))
    if "inmonth" in given:
        if given["before"] in ("a", "in") and given["inmonth"] not in _ITALIAN_MONTHS:
            return None  # "a mars bar"
        return _with_year(f"{_BEFORE[given['before']]} {_MONTH[given['inmonth']]}", given.get("inyear"))
    if "monthof" in given:
        return _with_year(_MONTH[given["monthof"]], given["ofyear"])
    if weekday := given.get("weekday"):
        which = "last" if {"last", "last2"} & given.keys() else "next" if {"next", "next2"} & given.keys() else "on"
        return f"{which} {_WEEKDAY[weekday]}"
    if "hier" in given:  # yesterday in French, here in German
        return "yesterday" if _FRENCH.search(folded) and not _GERMAN.search(folded) else None
    if "morgen" in given:
        return "tomorrow" if _GERMAN.search(folded) else None
    return _numbered(int(given["nyear"]), int(given["second"]), int(given["first"]), given["gap"])


def _numbered(year: int, month: int, day: int, gap: str) -> str | None:
    """21.11.2026, 21/11/2026 and 11/21/2026; None for 1/2/2026, of which half of the world means another day."""
    if gap == "/" and month <= 12 and day <= 12 and month != day:
        return None
    if month > 12:
        day, month = month, day
    return f"{year:04}-{month:02}-{day:02}"


def _with_year(english: str, year: str | None) -> str:
    return f"{english} {year}" if year else english
