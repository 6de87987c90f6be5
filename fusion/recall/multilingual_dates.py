"""Translates relative dates in Spanish, Portuguese, Arabic, Korean, Japanese and Chinese into English.

These are the languages with stop words of questions in `fusion.lib.words`. A table has the most frequent phrases;
numbers must be digits. `fusion.lib.times` then resolves the English phrases.
"""

from __future__ import annotations

import re

from fusion.lib.words import accentless, normalise

PHRASES = {
    "today": "hoy|hoje|اليوم|오늘|今日|今天",
    "yesterday": "ayer|ontem|أمس|البارحة|어제|昨日|昨天",
    "the day before yesterday": "anteayer|anteontem|أول أمس|그저께|一昨日|おととい|前天",
    "tomorrow": "amanhã|غدا|내일|明日|明天",
    "last week": "semana pasada|semana passada|الأسبوع الماضي|지난주|지난 주|先週|上周|上週|上星期|上个星期|上個星期",
    "this week": "esta semana|هذا الأسبوع|이번주|이번 주|今週|本周|本週|这周|這週|这个星期|這個星期",
    "next week": "próxima semana|semana que viene|semana que vem|الأسبوع القادم|다음주|다음 주|来週|下周|下週|下星期",
    "last month": "mes pasado|mês passado|الشهر الماضي|지난달|지난 달|先月|上个月|上個月|上月",
    "this month": "este mes|este mês|هذا الشهر|이번달|이번 달|今月|这个月|這個月|本月",
    "next month": "próximo mes|mes que viene|mês que vem|الشهر القادم|다음달|다음 달|来月|下个月|下個月",
    "last year": "año pasado|ano passado|العام الماضي|السنة الماضية|작년|지난해|去年|昨年",
    "this year": "este año|este ano|هذا العام|هذه السنة|올해|今年",
    "next year": "próximo año|año que viene|ano que vem|العام القادم|السنة القادمة|내년|来年|明年",
    "last summer": "verano pasado|verão passado|الصيف الماضي|지난여름|지난 여름|去年の夏|去年夏天",
    "last winter": "invierno pasado|inverno passado|الشتاء الماضي|지난겨울|지난 겨울|去年の冬|去年冬天",
}
_UNITS = {
    "day": "día|días|dia|dias|يوم|أيام|일|日|天",
    "week": "semana|semanas|أسبوع|أسابيع|주|주일|週間|周|週|星期|个星期|個星期",
    "month": "mes|meses|mês|شهر|أشهر|개월|달|か月|ヶ月|カ月|个月|個月",
    "year": "año|años|ano|anos|سنة|سنوات|عام|أعوام|년|年",
}


def _plain(text: str) -> str:
    return accentless(normalise(text))


_ENGLISH = {_plain(phrase): english for english, phrases in PHRASES.items() for phrase in phrases.split("|")}
_UNIT = {_plain(name): unit for unit, names in _UNITS.items() for name in names.split("|")}


def _any(words: dict[str, str]) -> str:
    """A pattern of these alternatives, longest first; whole words only, in scripts with blanks between words."""
    longest = sorted(words, key=len, reverse=True)
    return "|".join(rf"\b{w}\b" if w.isascii() else w for w in longest)


_AGO = "|".join(map(_plain, ("hace", "há", "قبل", "منذ")))
_SAID = re.compile(
    rf"(?P<phrase>{_any(_ENGLISH)})"
    rf"|\b(?:{_AGO}) (?P<count>\d{{1,4}}) (?P<unit>{_any(_UNIT)})"
    rf"|(?P<number>\d{{1,4}}) ?(?P<past>{_any(_UNIT)}) ?(?:atras\b|{_plain('전')}|以?前)"
)


def in_english(text: str) -> list[str]:
    """The relative dates of a text in English: "3 days ago" for "hace 3 días"."""
    found = []
    for match in _SAID.finditer(_plain(text)):
        count, unit = match["count"] or match["number"], match["unit"] or match["past"]
        found.append(_ENGLISH[match["phrase"]] if match["phrase"] else f"{count} {_UNIT[unit]}s ago")
    return found
