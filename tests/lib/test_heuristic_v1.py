"""The deterministic scorer of importance: its signs, its labels, its rationale, and hostile texts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.contract import Kind
from fusion.lib.heuristic_v1 import MAX_CHARS, MAX_REASONS, heuristic_score
from fusion.lib.importance import label_of

SIGNS: list[tuple[str, float]] = [
    ("The ferry has two decks.", 0.3),
    ("I always sit by the window.", 0.7),
    ("We decided to rent the smaller hall.", 0.6),
    ("Her page is https://example.org/ana.", 0.5),
    ("The lamp has id 3f2b8a10-1c2d-4e5f-8a9b-0c1d2e3f4a5b.", 0.5),
    ("BACKUP_TARGET points at the attic disk.", 0.5),
    ("The greenhouse is aired every morning.", 0.5),
    ("The pump reports an error.", 0.45),
    ("The pump failed; root cause was a loose belt.", 0.55),
    ("TODO: oil the gate", 0.5),
    ("- [ ] oil the gate by Friday", 0.6),
    ("Thanks, that was quick", 0.05),
    ("The upload is finished", 0.1),
    ("Meeting at 10:30 with the tailors", 0.15),
    ("My key is sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1w", 0.0),
    ("Wir haben entschieden, die Fähre zu nehmen.", 0.6),
    ("Je préfère le thé vert.", 0.7),
    ("Yo uso siempre el carril izquierdo.", 0.7),
]


@pytest.mark.row("A126", "heuristic-v1: each sign of importance adds or takes away its published points")
@pytest.mark.parametrize(("text", "score"), SIGNS)
def test_sign_has_its_points(text: str, score: float) -> None:
    assert heuristic_score(text).score == score


def test_signs_add_up_and_the_sum_is_from_0_to_1() -> None:
    text = "We decided: never deploy on Fridays, see https://example.org/rules; the cron error is fixed by a restart"
    assert heuristic_score(text).score == 1.0
    assert heuristic_score("lol thanks, password: hunter2hunter2hunter2").score == 0.0


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("From now on always use UTC; it is set in DEFAULT_ZONE", "must_remember"),
        ("I prefer oat milk", "nice_to_have"),
        ("The bus was late", "ignore"),
        ("ok, got it", "ignore"),
    ],
)
def test_score_has_a_label(text: str, label: str) -> None:
    assert label_of(heuristic_score(text).score) == label


OWN_LINES = Path(__file__).parent / "importance_lines_of_our_own.tsv"


@pytest.mark.feature("of the lines that its words were chosen by, nine tenths get their label")
def test_lines_of_our_own_get_their_labels() -> None:
    lines = [line.split("\t") for line in OWN_LINES.read_text(encoding="utf-8").splitlines()]
    right = [label == label_of(heuristic_score(text).score) for label, text in lines]
    assert len(lines) >= 50
    assert sum(right) / len(right) >= 0.9


@pytest.mark.row("A126", "a grade has a rationale of at most two reasons and one penalty")
def test_rationale_has_two_reasons_and_one_penalty() -> None:
    full = heuristic_score("Thanks! We decided to never merge on Fridays, see https://example.org/rules every week")
    assert len(full.reasons) > MAX_REASONS
    reasons = "states a preference, a rule or a lasting constraint; records a decision"
    assert full.rationale == f"{reasons}; but is small talk"
    assert heuristic_score("ok").rationale == "is small talk"
    assert heuristic_score("A ferry").rationale == "has no sign of importance"


def test_progress_and_appointments_count_against_a_text_only_if_there_is_nothing_else() -> None:
    assert "only reports progress" in heuristic_score("The upload is done").penalties
    assert not heuristic_score("The upload is done: https://example.org/x").penalties
    assert not heuristic_score("TODO: meeting at 10:30").penalties


def test_a_plan_is_a_task_and_a_task_is_no_decision() -> None:
    assert heuristic_score("Oil the gate", "plan").reasons == ("is a task",)
    assert heuristic_score("TODO: we decided nothing").reasons == ("is a task",)


@pytest.mark.parametrize("text", ["nevermore", "mustard", "an okapi", "the ruler", "Bernice", "hallowed", "colander"])
def test_words_are_whole_words(text: str) -> None:
    assert heuristic_score(text).score == 0.3


HOSTILE = {
    "one long word": "a" * 1_000_000,
    "dashes": "-" * 1_000_000,
    "almost a UUID": "3f2b8a10-1c2d-" * 80_000,
    "almost a variable": "A_" * 500_000,
    "signs of a list": "> - * [ ] " * 100_000,
    "spaces between words": ("do" + " " * 50 + "not") * 20_000,
    "expands under NFKC": "\ufdfa" * 300_000,
    "NUL and bidi": "\0\u202e" * 300_000,
    "an open URL": "https://" * 100_000,
    "lone surrogates": "\ud800" * 300_000,
}


@pytest.mark.feature("a hostile text of any length is graded in bounded time")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_bounded_time(name: str) -> None:
    began = time.process_time()
    assert 0 <= heuristic_score(HOSTILE[name]).score <= 1
    assert time.process_time() - began < 0.5


KINDS: tuple[Kind, ...] = ("note", "fact", "turn", "plan")


@given(st.text(max_size=300), st.sampled_from(KINDS))
def test_every_text_has_one_score_from_0_to_1(text: str, kind: Kind) -> None:
    one = heuristic_score(text, kind)
    assert 0 <= one.score <= 1
    assert heuristic_score(text, kind) == one
    assert heuristic_score(text + "x" * MAX_CHARS, kind).score <= 1
