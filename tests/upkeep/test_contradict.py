"""Contradictions: what the rules see, and what a model may say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Event, Fact
from fusion.errors import BackendUnreachable, InvalidAnswer, RateLimited
from fusion.ingest.extract import extract
from fusion.upkeep.contradict import CANDIDATES, Claim, Contradiction, contradicted, contradiction, read
from tests.fakes import FakeModel

NOON = datetime(2026, 3, 11, 12, tzinfo=UTC)


def claim(name: str, text: str, speaker: str = "Ana", day: int = 0) -> Claim:
    """What capture makes of a sentence that Ana says, ``day`` days after the first."""
    at = NOON + timedelta(days=day)
    found = extract(Event(name, text, at, speaker=speaker))
    return Claim(name, f"{speaker}: {text}", found.facts, at)


@pytest.mark.row(
    "A036",
    "rules recognise a memory that ends another: one object at a time, an end in so many words, or a "
    'replacement ("ten, no longer fifteen")',
)
@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("I live in Berlin", "I moved to Lisbon"),
        ("I work at Acme", "I work at Initech"),
        ("We use MySQL", "We now use PostgreSQL"),
        ("I prefer tea", "I prefer coffee these days"),
        ("My favourite colour is green", "My favourite colour is blue"),
        ("The deploy target is Fly", "The deploy target is Hetzner"),
        ("I work at Acme", "I no longer work at Acme"),
        ("gateway -> status -> green", "gateway -> status -> red"),
        ("A slot is held for fifteen minutes", "A slot is held for ten minutes, no longer fifteen"),
        ("Write tests with spaces", "Write tests with tabs instead of spaces"),
        ("The list is printed at eight", "The list is printed at seven rather than eight."),
    ],
)
def test_another_object_where_there_is_one_at_a_time(before: str, now: str):
    """Same subject, same functional predicate, other object, later; or the old one ended in so many words."""
    found = contradiction(claim("new", now, day=1), [claim("other", "I like tea"), claim("old", before)])
    assert found is not None
    assert found.contradicted_id == "old"
    assert found.reason


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("I live in Berlin", "I live in Berlin"),
        ("I live in Berlin", "I live in Berlin Mitte"),  # the same, told more exactly
        ("We use MySQL", "We use Redis"),  # both may be in use
        ("We use MySQL", "We now also use Redis"),
        ("I'm a nurse", "I'm a mother"),  # what kind of person somebody is may be many things
        ("My dog is a poodle", "My dog is a menace"),
        ("Tom lives in Berlin", "Kim lives in Lisbon"),  # another subject
        ("I like tea", "I like coffee"),
        ("Fifteen bicycles were sold", "A slot is held for ten minutes, no longer fifteen"),  # about something else
        ("A slot costs fifteen kronor", "A slot is held for ten minutes, no longer fifteen"),
        ("Fifteen", "Ten, no longer fifteen"),  # nothing says what it is about
        ("A slot is held for fifteen minutes", "A slot is held for ten minutes, no longer fifty"),
    ],
)
def test_what_may_both_hold_is_no_contradiction(before: str, now: str):
    """Rather none than a wrong one: a contradiction takes a true memory out of answers."""
    assert contradiction(claim("new", now, day=1), [claim("old", before)]) is None


def test_what_comes_in_late_contradicts_nothing_that_came_after_it():
    """On day 0 she lived in Berlin, on day 1 in Lisbon: stored in the other order, Lisbon is still current."""
    assert contradiction(claim("new", "I live in Berlin"), [claim("old", "I live in Lisbon", day=1)]) is None


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=20)), max_size=4), st.text(max_size=60))
def test_the_rules_never_raise(parts: Sequence[tuple[str, str]], text: str):
    """For any facts, the answer is one of the candidates or none."""
    facts = tuple(Fact(one, "is", other) for one, other in parts)
    found = contradiction(Claim("new", text, facts), [Claim("old", text[::-1], facts[::-1])])
    assert found is None or found.contradicted_id == "old"


OLD = [claim("one", "I live in Berlin"), claim("two", "I like tea")]
NEW = claim("new", "I moved to Lisbon", day=1)


def answer(**fields: object) -> str:
    return json.dumps({"contradicts": True, "contradicted_id": "2", "reason": "she said so", **fields})


async def test_a_model_is_asked_about_five_and_its_word_counts():
    """The five most similar are shown under numbers, escaped; the rules would have said "one"."""
    model = FakeModel(answer(reason="a\u202e  b"))
    many = [*OLD, *(claim(f"more{n}", "I like </old-x> it") for n in range(9))]
    assert await contradicted(NEW, many, model) == Contradiction("two", "a b")
    (asked,) = model.asked
    assert asked.user.count("</old-") == CANDIDATES == 5
    assert "&lt;/old-x&gt;" in asked.user
    assert asked.max_tokens == 512


async def test_a_model_that_sees_none_is_believed():
    """It knows better than the rules that both may hold."""
    assert await contradicted(NEW, OLD, FakeModel(answer(contradicts=False, contradicted_id=None))) is None


@pytest.mark.row(
    "A036",
    "… or a model does, among the five most similar; its answer must be one of them, otherwise the rules decide",
    of="rules recognise a memory that",
)
@pytest.mark.parametrize(
    "said",
    [
        "Yes, the first one.",
        '{"contradicts": true, "contra',
        "[]",
        "null",
        answer(contradicts="yes"),
        answer(contradicted_id="new"),
        answer(contradicted_id="3"),  # there are two
        answer(contradicted_id=True),
        answer(contradicted_id=None),
        answer(contradicted_id=["2"]),
    ],
)
async def test_what_makes_no_sense_leaves_it_to_the_rules(said: str):
    """Prose, half a JSON, another form, an id that is not a candidate: then "one", as the rules see it."""
    with pytest.raises(InvalidAnswer):
        read(said, OLD)
    found = await contradicted(NEW, OLD, FakeModel(said))
    assert found is not None
    assert found.contradicted_id == "one"


@pytest.mark.parametrize("fault", [BackendUnreachable("x"), RateLimited("x"), TimeoutError()])
async def test_a_model_that_fails_leaves_it_to_the_rules(fault: Exception):
    """Down, over its budget, too slow: nothing is lost but its opinion."""
    found = await contradicted(NEW, OLD, FakeModel(fault))
    assert found is not None
    assert found.contradicted_id == "one"


async def test_without_a_model_and_without_candidates():
    """No model: the rules. Nobody to contradict: nobody is asked."""
    found = await contradicted(NEW, OLD)
    assert found is not None
    model = FakeModel(answer())
    assert await contradicted(NEW, [], model) is None
    assert await contradicted(claim("new", "I live in Rome"), [claim("late", "I live in Bonn", day=2)], model) is None
    assert model.asked == []
