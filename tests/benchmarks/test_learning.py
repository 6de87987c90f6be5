"""Trees learned from a data set's questions are judged on questions that had no say in them."""

from __future__ import annotations

import pytest

from benchmarks.learning import learn
from tests.benchmarks.recorded_question import FIRST_COME, question


@pytest.mark.feature("`tune --learner` learns from questions, held out by conversation")
def test_learn_holds_questions_out() -> None:
    """The evidence has the words and comes second: the base finds 0 of 60, trees that a fold had no say in all 20."""
    pytest.importorskip("lightgbm")
    cases = [question(fold, n) for fold in ("a", "b", "c") for n in range(20)]
    taught = learn(cases, FIRST_COME, "learned.txt")
    told = taught.as_json()
    assert (told["questions"], told["base_eib"], told["cross_validated_eib"]) == (60, 0.0, 1.0)
    assert {fold["held_out_eib"] for fold in told["folds"].values()} == {1.0}
    assert "eib" not in told
