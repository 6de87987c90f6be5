"""Facts that a text states in lines: nothing is inferred, and what is not understood states nothing."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.fact_lines import MAX_FACTS, stated_in
from fusion.lib.temporal_facts import Assertion, FactObject

JUNE, JULY = datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 7, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fact: api-gateway uses Postgres 16", Assertion("api-gateway", "uses", FactObject("literal", "Postgres 16"))),
        ("- Fact: the shop depends on Redis.", Assertion("the shop", "depends_on", FactObject("literal", "Redis"))),
        (
            "fact: shop replaces entity:Old-Shop",
            Assertion("shop", "replaces", FactObject("entity_ref", "entity:old-shop")),
        ),
        ("fact: shop status live (from 2026-06-01)", Assertion("shop", "status", FactObject("literal", "live"), JUNE)),
        (
            "fact: shop status live (from 2026-06-01 to 2026-07-01)",
            Assertion("shop", "status", FactObject("literal", "live"), JUNE, JULY),
        ),
        (
            "fact: shop state live (until 2026-07-01)",
            Assertion("shop", "status", FactObject("literal", "live"), None, JULY),
        ),
    ],
)
def test_a_line_states_a_fact(line: str, expected: Assertion) -> None:
    assert stated_in(f"Some note\n{line}\nmore") == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "api-gateway uses Postgres 16",
        "In fact: nobody uses it",
        "fact: api-gateway likes Postgres",
        "fact: uses Postgres",
        "fact: shop uses",
        "```\nfact: shop uses Redis\n```",
        f"fact: {'x' * 5000} uses Redis",
    ],
)
def test_other_texts_state_nothing(text: str) -> None:
    assert stated_in(text) == []


def test_a_memory_states_a_bounded_number_of_facts() -> None:
    assert len(stated_in("\n".join(f"fact: a{n} uses b" for n in range(1000)))) == MAX_FACTS


def test_long_runs_of_blanks_are_read_in_linear_time() -> None:
    began = time.process_time()
    assert stated_in(f"fact: shop{' ' * 3900}uses Redis\n" * 10)[0].subject == "shop"
    assert stated_in(f"fact: shop{' ' * 3900}Redis\n" * 10) == []
    assert time.process_time() - began < 1.0


@given(st.text(), st.text())
def test_any_text_states_bounded_facts(before: str, after: str) -> None:
    """Whatever a text is, what it states are whole facts, at most so many, and the same each time."""
    text = f"{before}\nfact: {after}\nfact: {before} uses {after} (from {before})"
    found = stated_in(text)
    assert len(found) <= MAX_FACTS
    assert all(one.subject and one.predicate and one.object.value for one in found)
    assert stated_in(text) == found
