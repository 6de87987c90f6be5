"""Candidates for temporal facts: what the lines and sentences of a text might assert."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.errors import BadInput
from fusion.ingest.fact_candidates import MAX_TEXT_CHARS, candidates


def shown(text: str, limit: int = 20) -> list[tuple[str, str, str]]:
    return [(one.subject, one.predicate, one.object.text) for one in candidates(text, limit)]


@pytest.mark.feature("a text is read for facts that it might assert, and nothing of it is stored")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("fact: api replaces soap (from 2026-01-01)", [("api", "replaces", "soap")]),
        ("- entity:api status live.", [("api", "status", "live")]),
        ("entity:api uses entity:postgres-16", [("api", "uses", "entity:postgres-16")]),
        (
            "Aurora runs on Linux. Team Blue owns Aurora.",
            [("Aurora", "uses", "Linux"), ("Team Blue", "owns", "Aurora")],
        ),
        ("Aurora uses Redis.\nentity:aurora uses redis", [("Aurora", "uses", "Redis")]),
        ("Does Aurora use Redis?", []),
        ("Aurora does not use Redis.", []),
        ("entity:api likes soap", []),
        ("", []),
    ],
)
def test_lines_and_sentences(text: str, found: list[tuple[str, str, str]]) -> None:
    assert shown(text) == found


def test_at_most_the_limit() -> None:
    assert len(shown("\n".join(f"entity:a uses v{n}" for n in range(9)), 3)) == 3


def test_a_huge_text_is_refused() -> None:
    with pytest.raises(BadInput, match="are read at most"):
        candidates("x" * (MAX_TEXT_CHARS + 1), 20)


@given(st.text(alphabet="entiy:abc usfo.-*\n?", max_size=200))
def test_no_text_is_an_error(text: str) -> None:
    assert len(candidates(text, 5)) <= 5
