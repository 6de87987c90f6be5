"""The title that a text opens with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.titles import bare, lead


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Green (album). It was recorded in 1977.", "Green (album)"),
        ("History of the Kiln: it burnt twice.", "History of the Kiln"),
        ("# Bug Gateway\nwhat we know", "Bug Gateway"),
        ("Seattle. In Seattle it snows.", "Seattle"),
        ("Wow. That is nice.", None),
        ("We met Marta. She left.", None),
        ("the heron stood in the reeds", None),
        ("", None),
    ],
)
def test_the_title_that_a_text_opens_with(text: str, title: str | None) -> None:
    """Two words with capitals, or one that comes again; greetings and sentences are none."""
    assert lead(text) == title


def test_a_title_without_its_qualifier() -> None:
    assert (bare("Paris, Texas"), bare("Green (album)"), bare("Kiln")) == ("Paris", "Green", None)


@given(st.text(st.sampled_from("AB ab.,()\n:#-'“”é東"), max_size=300) | st.text(max_size=200))
def test_any_text_has_a_title_or_none(text: str) -> None:
    assert lead(text) != ""


def test_hostile_texts_take_linear_time() -> None:
    """Names and brackets without end: 300,000 characters of each."""
    for piece in ("A ", "A (B) ", "(A", "A. ", "Aa-"):
        text = piece * (300_000 // len(piece))
        assert text.startswith(lead(text) or "")
