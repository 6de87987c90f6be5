"""Texts in their context, as one string."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.in_context import in_context, parts_of


@given(st.text(), st.text(), st.text())
def test_the_parts_come_back(text: str, before: str, after: str) -> None:
    """Only the mark itself is lost from them."""
    made = parts_of(in_context(text, before, after))
    assert made == tuple(part.replace("\x1f", " ") for part in (before, text, after))


def test_other_texts_have_no_parts() -> None:
    for text in ("", "Ada: hello", "a\x1fb", "a\x1fb\x1fc\x1fd", "\x1f\x1f", "\x1fa\x1fb\x1fc\x1fd"):
        assert parts_of(text) is None
