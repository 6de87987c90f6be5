"""Fitting the probability that a memory helps: from labels of an answer, measured on answers that were held out."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fusion.calibration import UNABLE, Calibration, SortWeights, scored_as, weights_hash
from fusion.compare.calibrate import HEAD, Fitted, Key, Labelled, fit, labels_of, read_rows, rows_of_answer, toml
from fusion.errors import BadInput
from fusion.recipe_files import read_calibration

KEY = Key("mine@1", "", "67f2b58d0eff")


def row(n: int, local: float, **more: Any) -> dict[str, Any]:
    return {"ref": f"m{n}", "local": local, "signals": {"bm25": 0.2}, "sort": "note", **more}


def receipt(*scores: float, **more: Any) -> dict[str, Any]:
    """A receipt of notes with these scores, best first."""
    rows = [row(n, score) for n, score in enumerate(scores)]
    about = {"receipt_id": "r1", "weights": {"bm25": 2, "dense": 0}, "encoders": ["mine@1", ""], "candidates": rows}
    return about | more


def notes(answers: int = 60, sort: str = "note") -> list[Labelled]:
    """Answers of three memories, of which the best helps in proportion to its score."""
    draw = Random(7)
    rows: list[dict[str, Any]] = []
    for n in range(answers):
        best = draw.uniform(0.3, 0.8)
        helpful = draw.random() < best
        one = receipt(best, best / 2, best / 3, weights={"bm25": 2})
        rows += rows_of_answer(one, lambda ref, good=helpful: ref == "m0" and good, f"q{n}")
    return [label for found in labels_of(r | {"sort": sort} for r in rows).values() for label in found]


def fitted(**more: Any) -> Fitted:
    return fit(KEY, notes(), **more)


def test_labels_of_an_answer_say_what_scored_its_memories() -> None:
    """As an export has them: position, the two best scores, models and weights; what has no vector yet is left out."""
    one = receipt(0.8, 0.5, 0.3)
    one["candidates"][2]["signals"]["by_words"] = 1.0
    first, second = rows_of_answer(one, {"m1"}.__contains__)
    assert (first["useful"], second["useful"], second["position"]) == (False, True, 2)
    assert first["best"] == second["best"] == [0.8, 0.5]
    assert (first["encoders"], first["weights_hash"]) == (["mine@1", ""], weights_hash({"bm25": 2}))
    ((key, labels),) = labels_of([first, second]).items()
    assert key == Key("mine@1", "", weights_hash({"bm25": 2}))
    assert labels[1].features == pytest.approx((0.5, 0.625, 0.6931, 0.5, 0.5, 0.5, 0.2, 0.0), abs=1e-4)
    assert len(rows_of_answer(receipt(*[0.5] * (HEAD + 9)), bool)) == HEAD
    assert scored_as({"candidates": []}, {})["best"] == [0.0, 0.0]


def test_labels_of_a_model_that_failed_are_those_of_words_alone() -> None:
    """Its answers were scored as those of a home without a model."""
    found = labels_of(rows_of_answer(receipt(0.8, 0.5, encoders=[UNABLE, ""]), bool))
    assert {key.model for key in found} == {""}


@pytest.mark.feature("`fusion tune --calibrate` fits the probability that a memory helps from votes or questions")
def test_what_is_fitted_holds_on_answers_that_were_held_out() -> None:
    one = fitted()
    note = one.calibration.note
    assert note is not None
    assert note.score + note.share + note.lead > 0
    assert one.figures["note"]["ece"] < 0.1
    assert one.figures["note"]["brier"] < one.figures["note"]["brier_of_mean"]
    assert one.figures["note"]["judged"] == 180
    assert fitted(held_out=notes(20)).figures["note"]["judged"] == 60


def test_sort_with_too_few_labels_keeps_the_weights_that_there_were() -> None:
    before = Calibration("mine@1", KEY.weights, turn=SortWeights(-9, 8), note=SortWeights(-1))
    both = fit(KEY, [*notes(), *notes(5, "turn"), *notes(5, "long_turn")], before=before)
    assert (both.calibration.turn, both.calibration.long_turn) == (SortWeights(-9, 8), None)
    assert both.calibration.note != before.note
    assert (both.kept, set(both.figures)) == (("turn",), {"note"})


def test_too_few_labels_are_refused_with_their_numbers() -> None:
    with pytest.raises(BadInput, match=r"at least 20 that help and 20 that do not .* note: \d and 1\d$"):
        fit(KEY, notes(6), before=Calibration("mine@1", KEY.weights, note=SortWeights(-1)))


def test_a_calibration_that_is_written_is_read_back_the_same(tmp_path: Path) -> None:
    one = fitted(fitted_on='my "votes"')
    file = tmp_path / "mine.calibration"
    file.write_text(toml(one, ["Made from nothing."]), encoding="utf-8")
    assert read_calibration(file) == one.calibration
    assert file.read_text(encoding="utf-8").startswith("# Made from nothing.\nmodel = ")
    assert "# Held out: ECE " in file.read_text(encoding="utf-8")


def test_line_that_is_no_label_is_named(tmp_path: Path) -> None:
    """Votes of earlier versions, which do not say what scored them, are no mistake."""
    file = tmp_path / "labels.jsonl"
    good = rows_of_answer(receipt(0.8, 0.5), bool)[0]
    earlier = {"receipt_id": "r0", "ref": "m1", "useful": True, "signals": {}}
    file.write_text("\n".join(map(json.dumps, (good, earlier))), encoding="utf-8")
    assert [len(found) for found in read_rows(file).values()] == [1]
    for wrong in ("{", "[]", json.dumps(good | {"best": [1]}), json.dumps(good | {"sort": "page"})):
        file.write_text(f"{json.dumps(good)}\n{wrong}\n", encoding="utf-8")
        with pytest.raises(BadInput, match=r"labels\.jsonl:2: is no label"):
            read_rows(file)
    with pytest.raises(BadInput, match="No such file"):
        read_rows(tmp_path / "nowhere")
