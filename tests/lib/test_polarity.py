"""Whether a statement affirms or denies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.polarity import polarity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I love the sea.", 1),
        ("I don't love the sea.", -1),
        ("I can't stand the sea.", -1),
        ("I can't wait to sail.", 1),
        ("Nothing beats a morning on the water.", 1),
        ("The lift is out of order.", -1),
        ("The lift works fine.", 1),
        ("Dogs are banned from the quay.", -1),
        ("Dogs are not banned from the quay.", 1),
        ("The quay is made of stone.", 0),
        ("El teatro me aburre.", -1),
        ("Ich mag das nicht.", -1),
        ("", 0),
    ],
)
def test_polarity_of_statements(text: str, expected: int) -> None:
    assert polarity(text) == expected


@given(st.text(max_size=500))
def test_polarity_of_any_text_is_a_sign(text: str) -> None:
    assert polarity(text) in (-1, 0, 1)
