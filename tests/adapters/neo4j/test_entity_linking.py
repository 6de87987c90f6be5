"""The entities of a graph that a query names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.neo4j import Options
from adapters.neo4j.entity_linking import linked, spellings
from adapters.neo4j.rows import Rows
from fusion.contract import Scope


def node(name: str, *, labels: Sequence[str] = ("Person",)) -> Any:
    row = [name, list(labels), name, None, None, None, None, None]
    return Rows(Options(entities=("Person",)), Scope()).node(row)


@pytest.mark.feature(
    "… entities are found by aliases, by the longest name, and by names with some words missing",
    of="neo4j: any graph in Neo4j or",
)
def test_the_longest_name_matches() -> None:
    """ "New York Times" is not New York; half of a name's words are a guess, which comes after."""
    times, york, ann = node("New York Times"), node("New York"), node("Ann Marie York")
    candidates = [(one, [one.name]) for one in (york, ann, times)]
    named = linked("Who reads the NEW-YORK times with Ann Marie?", candidates)
    assert [(one.name, round(weight, 2)) for one, weight in named] == [("New York Times", 1.0), ("Ann Marie York", 0.5)]


def test_spellings_of_a_name() -> None:
    """As it stands, with capitals, and without the possessive; nothing that only stop words are."""
    names = spellings("Where is O'Brien's café-bar, the big one?")
    assert {"O'Brien", "café-bar", "cafe bar", "Cafe Bar", "Big", "BIG"} <= set(names)
    assert not {"the", "is", "where", "Where"} & set(names)


@given(st.text(max_size=200))
def test_any_text_has_bounded_spellings(text: str) -> None:
    """Whatever is asked: at most 2,000 names to look up, each a text that Bolt can carry."""
    names = spellings(text)
    assert len(names) <= 2000
    assert all(name.encode() for name in names)
