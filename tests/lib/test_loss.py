"""The share of a text that a new version of it loses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.lib.loss import loss, lost_lines

OLD = "# Facts\n\n- Ada sails a red boat.\n- The server listens on port 7777.\n- Ben is not allergic to nuts.\n"


@pytest.mark.parametrize(
    ("new", "lost"),
    [
        (OLD, []),
        ("# Facts\n* Ben is not allergic to nuts.\n1. The server  listens on port 7777.\n> Ada sails a red boat.", []),
        (
            "## Facts\nAda, who sails a red boat, has the server that listens on 7777.\nBen is not allergic to nuts",
            [],
        ),
        (OLD.replace("7777", "8888"), ["- The server listens on port 7777."]),
        (OLD.replace("not ", ""), ["- Ben is not allergic to nuts."]),
        ("# Facts\n", OLD.splitlines()[2:]),
        ("", [line for line in OLD.splitlines() if line]),
    ],
    ids=["the same", "marks and order", "merged", "a number", "a negation", "lines", "everything"],
)
def test_lost_lines_are_those_that_no_line_says(new: str, lost: list[str]) -> None:
    assert lost_lines(OLD, new) == lost


def test_loss_is_the_larger_share_of_lines_and_characters() -> None:
    assert loss("a\nbb\nccc\nlong line that is gone", "a\nbb\nccc") == pytest.approx(22 / 28)
    assert loss("a\nb\nc\nlong line that stays", "long line that stays\na") == 0.5
    assert loss("", "new") == loss("\n\n", "") == 0.0


@given(st.text(), st.text())
def test_loss_is_a_share_and_nothing_for_the_same_text(old: str, new: str) -> None:
    assert 0.0 <= loss(old, new) <= 1.0
    assert loss(old, old) == 0.0
