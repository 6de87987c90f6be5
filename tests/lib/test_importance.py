"""The label of an importance score, and the older ways to write a score."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import ImportanceGrade, State
from fusion.errors import BadInput
from fusion.lib.importance import LABELS, SCORE_OF_LABEL, label_of, parse_importance, stated_importance


@pytest.mark.row("A126", "a score has one of three labels, and a memory without a score is unknown")
@pytest.mark.parametrize(
    ("score", "label"),
    [
        (None, "unknown"),
        (0.0, "ignore"),
        (0.49999, "ignore"),
        (0.5, "nice_to_have"),
        (0.79999, "nice_to_have"),
        (0.8, "must_remember"),
        (1.0, "must_remember"),
    ],
)
def test_label_of_a_score(score: float | None, label: str) -> None:
    assert label_of(score) == label


@pytest.mark.row("A127", "numbers, percentages, fractions, digits of any script, labels, aliases and objects are read")
@pytest.mark.parametrize(
    ("value", "score"),
    [
        (0.86, 0.86),
        (1, 1.0),
        ("0.86", 0.86),
        (" .5 ", 0.5),
        ("0,5", 0.5),
        ("86%", 0.86),
        ("86 %", 0.86),
        ("９１%", 0.91),
        ("９１％", 0.91),
        ("٨٦%", 0.86),
        ("86/100", 0.86),
        ("4 / 5", 0.8),
        ("must_remember", 0.8),
        ("Must Remember", 0.8),
        ("must-remember", 0.8),
        ("nice_to_have", 0.5),
        ("ignore", 0.0),
        ("low", 0.0),
        ("MEDIUM", 0.5),
        ("ｈｉｇｈ", 0.8),
        ("unknown", None),
        (None, None),
        ({"score": 0.7, "label": "ignore"}, 0.7),
        ({"label": "high"}, 0.8),
        ({"score": "70%"}, 0.7),
        ({}, None),
    ],
)
def test_parse_importance_reads_older_values(value: Any, score: float | None) -> None:
    assert parse_importance(value) == (None if score is None else pytest.approx(score))


@pytest.mark.row("A127", "an importance that is not one is refused, with what is taken instead")
@pytest.mark.parametrize(
    "value",
    [
        *(
            True,
            1.2,
            -0.1,
            float("nan"),
            float("inf"),
            86,
            "86",
            "187%",
            "-3%",
            "5/0",
            "7/5",
            "1/2/3",
            "",
            " ",
            "vital",
        ),
        *("9" * 5_000, "0.5" + " " * 100, "1e400", "٪", [0.5], {"score": [1]}, {"label": "vital"}),
        {"score": {"score": 0.5}},
    ],
)
def test_parse_importance_refuses_other_values(value: Any) -> None:
    with pytest.raises(BadInput, match=r'give a number from 0 to 1, "86%", "86/100", a label'):
        parse_importance(value)


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=60)))
def test_parse_importance_returns_a_share_or_refuses(value: Any) -> None:
    try:
        score = parse_importance(value)
    except BadInput:
        return
    assert score is None or 0 <= score <= 1


@given(st.floats(0, 1))
def test_parse_importance_reads_what_it_wrote(score: float) -> None:
    assert parse_importance(f"{score:.9f}") == pytest.approx(score, abs=1e-9)
    assert parse_importance({"score": score, "label": label_of(score)}) == score


def test_each_label_with_a_score_is_the_label_of_that_score() -> None:
    assert all(label_of(score) == label for label, score in SCORE_OF_LABEL.items())
    assert {*SCORE_OF_LABEL, "unknown"} == {*LABELS}


def test_what_rules_graded_is_not_what_somebody_stated() -> None:
    by_rules = ImportanceGrade("heuristic-v1", datetime(2026, 3, 14, tzinfo=UTC))
    by_hand = ImportanceGrade("manual", datetime(2026, 3, 14, tzinfo=UTC))
    states = [State(importance=0.7, grade=grade) for grade in (None, by_hand, by_rules)]
    assert [stated_importance(one) for one in states] == [0.7, 0.7, None]
