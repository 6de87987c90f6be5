"""Which near statements say the same, and what keeps the others apart."""

from __future__ import annotations

import pytest

from fusion.contract import Entity, Extraction, Fact
from fusion.lib.restatement import Statement, kept_apart_by, says_more


@pytest.mark.feature("statements that differ in a negation, number, date or name are never merged")
@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Ada prefers dark mode in every editor", "In all editors Ada prefers the dark mode", None),
        ("The password is rotated every 90 days", "Every 90 days we rotate the password", None),
        ("Vera leads the mobile team", "The mobile team is led by Vera", None),
        ("Lena does not eat fish", "Lena doesn't eat fish", None),
        ("Meetings are never on Friday", "No meetings on Friday", None),
        ("Ada does not like tea", "Ada likes tea", "negation"),
        ("use tabs, never spaces", "use spaces, never tabs", "negation"),
        ("the standup is at 9", "the standup is at 10", "number or date"),
        ("a dose is half a tablet", "a dose is one tablet", "number or date"),
        ("we bill once a year", "we bill twice a year", "number or date"),
        ("the timeout is 30 seconds", "the timeout is 30 minutes", "number or date"),
        ("we deploy on Tuesdays", "we deploy on Thursdays", "number or date"),
        ("her visa ends next week", "her visa ends next month", "number or date"),
        ("the office is in Rome", "the office is in Oslo", "name"),
        ("ask @ana about billing", "ask @bob about billing", "name"),
        ('we read "Emma" aloud', 'we read "Persuasion" aloud', "name"),
        ("the alarm is enabled", "the alarm is disabled", "opposite"),
        ("take it before lunch", "take it after lunch", "opposite"),
        ("we pay Ana and owe Bob", "we pay Bob and owe Ana", "order"),
        ("I like trains over planes", "I like planes over trains", "order"),
        ("the client calls the server", "the server calls the client", "order"),
        ("the hall is painted blue", "the hall is painted green", "word"),
    ],
)
def test_difference_that_keeps_statements_apart(one: str, other: str, expected: str | None) -> None:
    assert kept_apart_by(Statement(one), Statement(other)) == expected
    assert kept_apart_by(Statement(other), Statement(one)) == expected


@pytest.mark.feature("statements in a script that the model does not know are merged only if their words agree")
@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("አበበ ቁልፉን ከምንጣፉ ስር ያስቀምጣል", "ዳቦ ቤቱ ሰኞ ዝግ ነው", "script"),
        ("ལྡེ་མིག་གདན་འོག་ཏུ་ཡོད།", "བག་ལེབ་ཁང་གཟའ་ཟླ་བར་བརྒྱབ་ཡོད།", "script"),
        ("鍵はマットの下にあります", "パン屋は月曜日が休みです", "word"),
        ("Анна хранит ключ под ковриком", "Пекарня закрыта по понедельникам", "script"),
        ("Abebe: አበበ ቁልፉን ያስቀምጣል", "Abebe: ድመቷ ትናንት ጠፋች", "script"),
        ("ዳቦ ቤቱ ሰኞ ዝግ ነው", "ዳቦ ቤቱ ሰኞ ዝግ ነው!", None),
        ("Анна хранит ключ под ковриком", "Анна хранит ключ под ковриком.", None),
    ],
)
def test_other_scripts_need_the_same_words(one: str, other: str, expected: str | None) -> None:
    """Their vectors may be near whatever they say: the words decide."""
    assert kept_apart_by(Statement(one), Statement(other)) == expected
    assert kept_apart_by(Statement(other), Statement(one)) == expected


def test_name_at_the_beginning_is_known_from_the_extraction() -> None:
    ana, bob = (Statement(f"{x} likes tea", None, Extraction("fact", (Entity(x, "person"),))) for x in ("Ana", "Bob"))
    assert kept_apart_by(ana, bob) == "name"


def test_first_person_is_the_speaker() -> None:
    ana, bob, other = (Statement("I like tea", who) for who in ("Ana", "Bob", "user"))
    assert kept_apart_by(ana, bob) == "name"
    assert kept_apart_by(other, Statement("I like tea")) is None, "a role is nobody's name"


def test_other_object_of_one_fact_keeps_apart() -> None:
    tea, coffee = (
        Statement(
            f"my drink of choice these days is a cup of {x}", None, Extraction("fact", (), (Fact("Ada", "likes", x),))
        )
        for x in ("tea", "strong coffee")
    )
    assert kept_apart_by(tea, coffee) == "fact"


def test_says_more() -> None:
    short, long = Statement("Ada likes tea"), Statement("Ada likes green tea at breakfast")
    assert says_more(long, short)
    assert not says_more(short, long)
    assert not says_more(short, short)
