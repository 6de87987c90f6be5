"""Whether two texts that share most of their words say the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.paraphrase import Difference, Kind, difference
from fusion.lib.word_forms import misspelt
from tests.fire.lies import Pair, copies, lies

MODEL_NEEDED = {("typo", "databse")}


@pytest.mark.feature(
    "… in 15 kinds of change: names, opposites, units, look-alikes, other scripts", of="two texts that differ"
)
@pytest.mark.parametrize("pair", lies(), ids=lambda pair: f"{pair.kind}-{pair.other[-40:]}")
def test_difference_sees_each_kind_of_change(pair: Pair) -> None:
    """Names, objects, opposites, negations, numbers, units, dates, look-alikes, other scripts, words that swap."""
    assert difference(pair.truth, pair.other).kind is not Kind.ALIKE
    assert difference(pair.other, pair.truth).kind is difference(pair.truth, pair.other).kind


@pytest.mark.feature("a copy with another spelling, inflection, contraction or listed synonym is the same memory")
@pytest.mark.parametrize("pair", copies(), ids=lambda pair: f"{pair.kind}-{pair.other[:40]}")
def test_difference_is_alike_for_copies(pair: Pair) -> None:
    """Blanks, case, marks, slips, inflections, contractions, hyphens, months, spellings, listed synonyms."""
    found = difference(pair.truth, pair.other)
    if "databse" in pair.other:
        assert found == Difference(Kind.WORD, ("database",), ("databse",))
        assert found.doubtful
        assert misspelt("database", "databse")
    else:
        assert found.kind is Kind.ALIKE


def test_what_is_only_added_is_the_same_unless_it_is_a_name_or_turns_the_text_round() -> None:
    """The fuller text replaces the shorter one; an additional name, number or negation is another statement."""
    text = "the spare key of the shed is under the pot"
    assert difference(text, f"{text} behind the door").kind is Kind.ALIKE
    assert difference(text, f"{text} of Mallory").kind is Kind.NAME
    assert difference(text, f"{text} in room 7").kind is Kind.NUMBER
    assert difference(text, f"{text} no longer").kind is Kind.NEGATION


def test_difference_disputes_statements_but_not_dates() -> None:
    """Changed, not added; and in a word or two."""
    assert difference("the port of the gateway is 8765", "the port of the gateway is 8764").disputes
    assert difference("the gateway is up", "the gateway is not up").disputes
    assert not difference("the gateway was restarted on monday", "the gateway was restarted on friday").disputes
    assert not difference("we met in the big hall", "we met in the big hall with Ada").disputes


said = st.sampled_from("the a cat dog Ada Bo not 7 5kg on off house houses monday".split())
texts = st.lists(said, max_size=9).map(" ".join)


@given(texts, texts)
def test_difference_is_symmetrical(one: str, other: str) -> None:
    """Which text is seen first does not decide whether two are one memory."""
    here, there = difference(one, other), difference(other, one)
    assert (here.kind, here.disputes, here.doubtful) == (there.kind, there.disputes, there.doubtful)


@given(st.text(max_size=60))
def test_difference_of_a_text_from_itself_is_alike(text: str) -> None:
    """Whatever is in it."""
    assert difference(text, text).kind is Kind.ALIKE
    assert difference(text, text + "  ").kind is Kind.ALIKE
