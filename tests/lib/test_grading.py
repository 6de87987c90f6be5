"""Topic and importance of a fact, by rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Kind
from fusion.lib.grading import NAMES, Grade, grade_of, graded


@pytest.mark.row("A101", "without a model, rules give a fact its topic and an importance from 1 to 10")
@pytest.mark.parametrize(
    ("text", "topic", "importance"),
    [
        ("My sister Ines is allergic to penicillin.", "health", 8),
        ("I prefer tabs over spaces in Makefiles.", "preferences", 7),
        ("Never deploy on a Friday afternoon.", "rules", 8),
        ("We decided to drop support for Python 3.10.", "decisions", 9),
        ("We plan to open a second shop next spring.", "plans", 6),
        ("The staging server runs Debian.", "software", 5),
        ("Maybe the server runs Debian, I think.", "software", 3),
        ("I mentor a teenager just like me.", "general", 5),
        ("", "general", 5),
    ],
)
def test_rules_grade_a_fact(text: str, topic: str, importance: int) -> None:
    assert graded(text) == (topic, importance)


@pytest.mark.parametrize(("kind", "topic"), [("rule", "rules"), ("preference", "preferences"), ("fact", "home")])
def test_kind_decides_the_topic_where_it_has_one(kind: Kind, topic: str) -> None:
    assert graded("the heating of the house", kind).topic == topic


def test_state_of_a_memory_goes_before_the_rules() -> None:
    """A tag that is no topic says nothing of it."""
    assert grade_of("the heating of the house", importance=0.9, tags=["urgent", "money"]) == Grade("money", 9)
    assert grade_of("the heating of the house", importance=0.0, tags=["urgent"]) == Grade("home", 1)


@given(st.text(max_size=300))
def test_any_text_has_a_grade(text: str) -> None:
    found = graded(text)
    assert found.topic in NAMES
    assert 1 <= found.importance <= 10
