"""Dates in languages besides English."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Moment
from fusion.lib.times import windows
from fusion.lib.translated_times import PHRASES, in_english, phrases_in_english
from fusion.recall.query_dates import dates

NOW = datetime(2026, 3, 11, 10, 30, tzinfo=UTC)


@pytest.mark.feature(
    "… also in German, French, Spanish, Italian, Portuguese, Arabic, Korean, Japanese and Chinese",
    of="a query's dates, also relative",
)
@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("¿Qué hice ayer?", "yesterday"),
        ("¿Dónde estuvimos el verano pasado?", "last summer"),
        ("¿Quién vino hace 3 días?", "3 days ago"),
        ("Quién vino HACE 2 MESES", "2 months ago"),
        ("O que fiz anteontem?", "the day before yesterday"),
        ("O que comprei na semana passada?", "last week"),
        ("Quem veio há 2 semanas?", "2 weeks ago"),
        ("Quem veio 5 anos atrás?", "5 years ago"),
        ("ماذا قلت أمس؟", "yesterday"),
        ("ماذا قلت امس؟", "yesterday"),  # the hamza is often left out
        ("أين كنا الأسبوع الماضي؟", "last week"),
        ("من جاء قبل 3 أيام؟", "3 days ago"),
        ("어제 뭐 했지?", "yesterday"),
        ("지난달에 뭘 샀지?", "last month"),
        ("3주 전에 누가 왔어?", "3 weeks ago"),
        ("昨日何を食べた？", "yesterday"),
        ("先週どこへ行った？", "last week"),
        ("2週間前に誰が来た？", "2 weeks ago"),
        ("上个月我买了什么？", "last month"),
        ("3天前谁来了？", "3 days ago"),
        ("5年以前我们住在哪里？", "5 years ago"),
        ("Was habe ich gestern gemacht?", "yesterday"),
        ("Was habe ich am 21. November 2026 gemacht?", "21 November 2026"),
        ("Wen traf ich letzten Freitag?", "last Friday"),
        ("Was war vor zwei Wochen?", "2 weeks ago"),
        ("Was war im März?", "in March"),
        ("Was war seit dem 3. Mai?", "since 3 May"),
        ("Was war vom 3. bis 5. Mai?", "3 to 5 May"),
        ("Was war zwischen dem 3. und dem 5. Mai?", "3 to 5 May"),
        ("Was war am Samstag, dem 21. November 2026?", "21 November 2026"),
        ("Was war am 21.11.2026?", "2026-11-21"),
        ("Qu'est-ce que j'ai fait hier ?", "yesterday"),
        ("Qu’ai-je fait avant-hier ?", "the day before yesterday"),
        ("Que s'est-il passé le 1er mars 2026 ?", "1 March 2026"),
        ("Qui est venu vendredi dernier ?", "last Friday"),
        ("Qui est venu il y a deux semaines ?", "2 weeks ago"),
        ("tout depuis vendredi", "since Friday"),
        ("¿Qué hice el 21 de noviembre de 2026?", "21 November 2026"),
        ("¿Quién vino el viernes pasado?", "last Friday"),
        ("¿Quién vino hace dos semanas?", "2 weeks ago"),
        ("cosa ho fatto ieri?", "yesterday"),
        ("chi è venuto lunedì scorso?", "last Monday"),
        ("chi è venuto tre giorni fa?", "3 days ago"),
        ("cosa è successo a marzo?", "in March"),
    ],
)
def test_each_language_says_it_in_its_words(text: str, english: str) -> None:
    """With accents or without, in any case; what it means is then read as English."""
    assert phrases_in_english(text) == [english]
    assert dates(text, NOW).windows == dates(english, NOW).windows != ()


@pytest.mark.parametrize(
    "text",
    [
        *("the hoya plant", "a yoga day", "3 anos", "mesa redonda", "前端", "一周年", ""),
        *("Wer wohnt hier?", "Guten Morgen", "a mars bar", "life on Mars", "Santo Domingo", "Mardi Gras"),
        *("in April", "5 September 2026", "1/2/2026"),
    ],
)
def test_what_only_looks_like_one_is_none(text: str) -> None:
    """Within a word, or a number of days that is not ago."""
    assert phrases_in_english(text) == []
    assert in_english(text) == text


def test_every_phrase_of_the_table_means_one_time() -> None:
    """Each is found by itself, longer ones before those within them, and English knows what it says."""
    for english, phrases in PHRASES.items():
        assert len(list(windows(english, Moment(NOW)))) == 1
        assert [phrases_in_english(phrase) for phrase in phrases.split("|")] == [[english]] * len(phrases.split("|"))


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    """Whatever it is: a list, and no fault."""
    assert all(
        list(windows(said, Moment(NOW))) or "ago" in said or any(map(str.isdecimal, said))
        for said in phrases_in_english(text)
    )
