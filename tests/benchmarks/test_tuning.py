"""Numbers are chosen by what they gain, and what is told of the choice is of questions that had no say in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.tuning import Knob, choose, folds, is_better, steps, tune
from fusion.errors import BadInput
from fusion.lib.gbdt import Trees
from fusion.recall.engine import fuse
from fusion.recipe import Learned
from tests.benchmarks.recorded_question import FIRST_COME, question
from tests.lib.test_gbdt import MODEL

BM25 = Knob("rerank.signals.bm25", (0, 2))


@pytest.mark.feature(
    "`tune` changes a number only if it gains more than its error, and reports the gain on held-out questions"
)
def test_a_number_that_helps_is_chosen_and_validated() -> None:
    """In all 12 questions the evidence has the words and comes second: 0 of 12 without bm25, 12 with."""
    cases = [question(fold, n) for fold in ("a", "b", "c") for n in range(4)]
    ticks: list[int] = []
    tuned = tune(cases, FIRST_COME, [BM25], ticks.append)
    assert tuned.changed == {"rerank.signals.bm25": 2}
    assert tuned.recipe.rerank.signals == {"fusion": 1, "bm25": 2}
    told = tuned.as_json()
    assert (told["base_eib"], told["cross_validated_eib"], told["cross_validated_all"]) == (0.0, 1.0, 1.0)
    assert (told["verdict"]["better"], told["verdict"]["win"]) == ("tuned", 12)
    assert [(p["value"], p["base"], p["eib"]) for p in told["curves"]["rerank.signals.bm25"]] == [
        (0.0, True, 0.0),
        (2, False, 1.0),
    ]
    assert told["folds"]["b"] == {
        "questions": 4,
        "base_eib": 0.0,
        "held_out_eib": 1.0,
        "chosen_without_it": {"rerank.signals.bm25": 2},
    }
    assert sum(ticks) <= steps(cases, [BM25])


@pytest.mark.feature("… chance changes nothing", of="`tune` changes a number only")
def test_tune_does_not_choose_by_luck() -> None:
    """In half of the questions the words mislead: two gains, two losses a fold, so the mean gain of 0 moves nothing."""
    cases = [question(fold, n, evidence_has_the_words=n < 2) for fold in ("a", "b", "c") for n in range(4)]
    tuned = tune(cases, FIRST_COME, [BM25])
    assert (tuned.changed, tuned.recipe) == ({}, FIRST_COME)
    assert tuned.as_json()["verdict"]["better"] is None


@pytest.mark.feature(
    "… held-out questions never influence the numbers that answer them, even if that makes the result look bad",
    of="`tune` changes a number only",
)
def test_tune_answers_a_fold_by_a_recipe_chosen_without_it() -> None:
    """Words help all 4 questions of a and of b, and mislead the 4 of c, which the order of the backend answers.

    Without a, b gains 4 and c loses 4: nothing moves, and a keeps its 0; so it is without b. Without c all 8 gain, and
    c loses what it had. All 12 together gain 8 - 4, more than the error, so the number moves: on its own questions it
    gets 8 of 12. What is told is 0 of 12, and that the base with its 4 is better.
    """
    cases = [question(fold, n) for fold in ("a", "b") for n in range(4)]
    cases += [question("c", n, evidence_has_the_words=False) for n in range(4)]
    tuned = tune(cases, FIRST_COME, [BM25])
    told = tuned.as_json()
    assert tuned.changed == {"rerank.signals.bm25": 2}
    chosen = [told["folds"][fold]["chosen_without_it"] for fold in "abc"]
    assert chosen == [{}, {}, {"rerank.signals.bm25": 2}]
    assert (told["cross_validated_eib"], told["base_eib"], told["verdict"]["loss"]) == (0.0, round(4 / 12, 4), 4)


@pytest.mark.feature(
    "… a recipe without a gain is not written; a shipped recipe's name needs `--force`",
    of="`tune` changes a number only",
)
@pytest.mark.parametrize(
    ("better", "left_empty", "paid"),
    [("tuned", 0.0, True), (None, 0.0, False), (None, 0.5, True), ("base", 0.5, False)],
)
def test_what_does_not_pay_is_not_written(better: str | None, left_empty: float, paid: bool) -> None:
    """More evidence beyond chance pays, and as much where more of the unanswerable stay empty; nothing else does."""
    told = {"cross_validated_left_empty": left_empty, "base_left_empty": 0.0, "verdict": {"better": better}}
    assert is_better(told) is paid


@pytest.mark.feature("… a floor rises only with enough questions", of="`tune` changes a number only")
def test_tune_raises_a_floor_as_far_as_it_costs_nothing() -> None:
    """A floor of .3 costs nothing, .4 half a thousandth, .5 a tenth: .4 it is, by 150 questions.

    149 do not raise it from .3, but let it sink from .5.
    """
    knob = Knob("rerank.floor", (0.3, 0.4, 0.5), thrifty=True)
    gains = {
        0.3: dict.fromkeys(range(150), 0.0),
        0.4: dict.fromkeys(range(150), -0.0005),
        0.5: dict.fromkeys(range(150), -0.1),
    }
    assert choose(knob, 0.3, gains, range(150)) == 0.4
    assert choose(knob, 0.3, gains, range(149)) == 0.3
    assert choose(knob, 0.5, gains, range(149)) == 0.4


def test_questions_without_an_answer_count_for_empty_blocks_only() -> None:
    """The base finds nothing, so a floor over everything costs nothing and saves everything: all ten are left empty.

    Of 188 answerable ones a fold has 38 at most, so that the 150 that a floor wants are left."""
    cases = [question("a", n, answerable=n >= 10) for n in range(198)]
    told = tune(cases, FIRST_COME, [Knob("rerank.floor", (0.0, 1.1), thrifty=True)]).as_json()
    assert (told["questions"], told["unanswerable"], told["cross_validated_left_empty"]) == (188, 10, 1.0)


def test_folds_cut_one_conversation_in_five() -> None:
    """Every fifth question is a fold; nine questions cannot be cut, for one fold would have a single one."""
    parts = folds([question("a", n) for n in range(10)])
    assert list(parts.values()) == [[n, n + 5] for n in range(5)]
    with pytest.raises(BadInput, match="too few questions"):
        folds([question("a", n) for n in range(9)])


@pytest.mark.feature(
    "a learned model that is missing or changed costs no answer: the weights score, and the answer says so"
)
async def test_a_recipe_without_its_model_ranks_by_weights_and_says_so() -> None:
    """The answer is that of the same recipe without a model, degraded, with the fault; with its trees it is whole."""
    case = question("a", 1)
    weights = replace(FIRST_COME.rerank, signals={"bm25": 1.0})
    plain = replace(FIRST_COME, rerank=weights)
    trees = Trees.parse(MODEL)
    fused = {
        name: (await fuse(case.request, replace(plain, rerank=replace(weights, model=model)), case.io)).fused
        for name, model in {
            "none": None,
            "gone": Learned("learned.txt", "ab", None, "learned.txt cannot be used"),
            "there": Learned("learned.txt", "ab", trees),
        }.items()
    }
    assert fused["gone"].block == fused["none"].block
    assert (fused["none"].degraded, fused["gone"].degraded, fused["there"].degraded) == (False, True, False)
    assert fused["gone"].rerank["learned"] == {"file": "learned.txt", "fault": "learned.txt cannot be used"}
    assert fused["there"].rerank["learned"] == {"file": "learned.txt"}
    assert "learned" not in fused["none"].rerank
    assert 0.0 < fused["there"].memories[0].score < 1.0
