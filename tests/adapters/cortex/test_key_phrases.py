"""Key phrases of a text, without a model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.cortex.key_phrases import MAX_PHRASES, key_phrases


@pytest.mark.row("A040", "Cortex: concepts are key phrases, bounded in number, from any text")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I signed up for a pottery class!", ["signed", "pottery class"]),
        ("the LGBTQ support group", ["lgbtq support", "support group"]),
        ("Oh, ok. It is on at 9.", []),
        ("C++ and C# at Café-Bar", ["c++", "café-bar"]),
        ("", []),
    ],
)
def test_phrases_stand_between_small_words_and_marks(text: str, expected: list[str]) -> None:
    """Single words and adjacent pairs; digits and words of two letters are left out."""
    assert key_phrases(text) == expected


@given(st.text(max_size=5000))
def test_any_text_has_a_bounded_number(text: str) -> None:
    """Whatever it is: at most 64, each once, none empty."""
    found = key_phrases(text)
    assert len(found) == len(set(found)) <= MAX_PHRASES
    assert all(found)
