"""What a question looks for, in many scripts: words that say something, whatever form they are written in."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.index import Entry, Index
from adapters.index.expansion import keywords
from adapters.index.lexical import terms
from fusion.contract import Scope

ANN = Scope(user_id="ann")


async def found(folder: Path, texts: dict[str, str], question: str) -> list[str]:
    """By words alone: there is no embedder."""
    index = await Index.open(folder, None, [Entry(key, ANN, text) for key, text in texts.items()])
    try:
        return [hit.key for hit in await index.search(question, ANN, 10)]
    finally:
        await index.close()


@pytest.mark.row(
    "A087",
    "question words are left out in seven languages; numbers and short words stay, weighted by BM25 "
    "(Danish, Norwegian and Swedish have no list: BM25's idf is enough)",
)
@pytest.mark.parametrize(
    ("question", "left"),
    [
        ("why did we leave MongoDB?", ["leave", "mongodb"]),
        ("when did my son graduate", ["son", "graduate"]),
        ("what about Los Angeles", ["los", "angeles"]),
        ("¿Qué decidimos sobre la base de datos?", ["decidimos", "base", "datos"]),
        ("que decidimos sobre la base de datos", ["decidimos", "base", "datos"]),
        ("o que o João comprou em março?", ["joão", "comprou", "março"]),
        ("ماذا قررنا عن قاعدة البيانات؟", ["قررنا", "قاعدة", "البيانات"]),
        ("ومتى كانت المكالمة", ["المكالمة"]),
        ("데이터베이스는 어디에 있나요", ["데이터베이스"]),
        ("우리는 서버를 언제 옮겼나요", ["서버", "옮겼나요"]),
        ("昨日はどこで東京タワーのチケットを買いましたか", ["昨日", "東京", "タワー", "チケット", "買"]),
        ("りんごについて", ["りんご"]),
        ("我们为什么选择了数据库？", ["选择", "数据库"]),
        ("我的猫在哪里", ["猫"]),
        ("port 8765 Go", ["port", "8765", "go"]),
    ],
)
def test_words_that_only_ask_are_left_out(question: str, left: list[str]) -> None:
    """English, Spanish, Portuguese, Arabic, Korean, Japanese, Chinese; numbers and short names stay."""
    assert keywords(question) == left


@pytest.mark.parametrize("question", ["son", "que é", "متى", "언제", "いつですか", "什么", "the of and"])
def test_a_question_of_nothing_else_keeps_its_words(question: str) -> None:
    """Where all words are such, they are looked for."""
    assert keywords(question)


@given(st.text(max_size=60))
def test_no_question_breaks_it(text: str) -> None:
    """Whatever is asked: words of the text, and some whenever it has any."""
    assert bool(keywords(text)) == any(keywords(part) for part in [text])
    assert all(word and not word.isspace() for word in keywords(text))


@given(st.text(max_size=60))
def test_composed_or_not_is_the_same_text(text: str) -> None:
    """NFC and NFD of one text are found by the same terms."""
    assert terms(unicodedata.normalize("NFC", text)) == terms(unicodedata.normalize("NFD", text))


@pytest.mark.row(
    "A087",
    "a word matches in any form: composed or not, accents, widths, emoji, vowel points, right to "
    "left, no spaces, names of code",
)
@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("le café de la gare", "CAFE\u0301"),
        ("the résumé of Zoë", "resume zoe"),
        ("ｆｕｌｌ ｗｉｄｔｈ", "full width"),
        ("Donau\u00addampf\u00adschiff", "Donaudampfschiff"),
        ("deployed 🚀 at noon", "🚀"),
        ("pair of 👩🏽\u200d💻 today", "👩\u200d💻"),
        ("moved to 🇯🇵", "🇯🇵"),
        ("done ✅", "✅\ufe0f"),
        ("كِتَابٌ جَدِيد", "الكتاب"),
        ("אָנוּ בָּאנוּ", "באנו"),
        ("\u202bשלום עולם\u202c", "שלום"),
        ("می\u200cخواهم", "میخواهم"),
        ("हिन्दी में लिखा", "हिन्दी"),
        ("ドライブ", "ﾄﾞﾗｲﾌﾞ"),
        ("東京タワーに行きました", "東京タワーはどこ"),
        ("我们选择了数据库", "数据库为什么慢"),
        ("서버를 옮겼다", "서버가 어디에"),
        ("call getUserById first", "user id"),
        ("class HTTPServer", "http server"),
        ("set max_retry_count to 3", "retry count"),
        ("PostgreSQL数据库", "postgresql"),
    ],
)
async def test_one_word_in_whatever_form(tmp_path: Path, text: str, question: str) -> None:
    """Composed or not, accents, widths, soft hyphens, emoji with and without their colour, vowel points, directions,
    joiners, names of code: what people take for the same word is found by it, and before what has none of it."""
    assert (await found(tmp_path, {"other": "nothing of the kind", "it": text}, question))[:1] == ["it"]


@pytest.mark.row("A063", "any word of a question matches: words are joined by OR")
async def test_any_word_of_a_question_finds(tmp_path: Path) -> None:
    """Words are joined by OR: joined by AND, a question of many words would find nothing."""
    texts = {"one": "the gateway listens on 8765", "two": "a gateway", "none": "something else"}
    assert await found(tmp_path, texts, "which port does the gateway use for metrics 8765?") == ["one", "two"]


@pytest.mark.feature("a misspelt word finds words that differ by one letter")
async def test_a_misspelt_word_finds_what_is_one_letter_away(tmp_path: Path) -> None:
    """Only a word that no text has, of six letters at least: a known one is meant as it stands, and "Marta" is not
    "Maria"."""
    texts = {"db": "the database was moved", "maria": "Maria called", "data": "databases and datebases"}
    assert set(await found(tmp_path, texts, "databsae")) == {"db", "data"}
    assert await found(tmp_path, texts, "Marta") == []
    assert await found(tmp_path, {**texts, "x": "databaze"}, "databaze") == ["x"]


@pytest.mark.feature(
    "a word of 400,000 letters (a hash, a picture) is read once, and no other request waits", part="faults/clients"
)
@pytest.mark.parametrize("run", ["a1", "AB", "x"])
def test_a_run_of_letters_without_end_costs_what_it_is_long(run: str) -> None:
    """A hash or a picture in base64, 400,000 characters in one word: read once, not once from each letter (an hour)."""
    assert terms(run * 200_000) == []
    assert "name" in terms(f"{run * 200_000} someName")
