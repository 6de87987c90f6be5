"""Trees are learned from labels, made shares, and judged on what they had not seen."""

from __future__ import annotations

import json
from math import exp
from pathlib import Path
from random import Random

import pytest

from fusion.compare.learn import (
    LabelledAnswer,
    calibrated,
    learn_from_votes,
    pairs_right,
    platt,
    read_labels,
    train,
)
from fusion.errors import BadInput
from fusion.lib.gbdt import Trees
from fusion.recipe import Recipe
from tests.lib.test_gbdt import MODEL

BASE = Recipe(name="first come")


def labels(file: Path, answers: int) -> Path:
    """Votes as they are exported: what is dense is useful, whatever bm25 says; ``local`` is of no help."""
    draw = Random(1)
    with file.open("w", encoding="utf-8") as stream:
        for n in range(answers):
            for m in range(6):
                useful = m < 2
                signals = {"dense": draw.uniform(0.6, 1) if useful else draw.uniform(0, 0.4), "bm25": draw.random()}
                row = {"receipt_id": f"r{n}", "ref": f"m{m}", "useful": useful, "signals": signals, "local": 0.5}
                stream.write(json.dumps(row) + "\n")
    return file


@pytest.mark.feature("… and from feedback", of="`tune --learner` learns")
def test_learn_from_votes_orders_useful_memories_first(tmp_path: Path) -> None:
    """What had no say is ordered rightly in nearly all of its 8 pairs an answer; a local score of .5 for all is half.
    The shares of the model hold with a floor of ½: what is useful lies over it."""
    pytest.importorskip("lightgbm")
    taught = learn_from_votes(read_labels(labels(tmp_path / "votes.jsonl", 60)), BASE, "learned.txt")
    told = taught.as_json()
    assert (told["answers"], told["votes"], told["base_pairs_right"]) == (60, 360, 0.5)
    assert told["cross_validated_pairs_right"] > 0.95
    good, bad = Trees.parse(taught.text).shares([{"dense": 0.9, "bm25": 0.1}, {"dense": 0.1, "bm25": 0.9}])
    assert bad < 0.5 < good
    assert taught.recipe.hash != BASE.hash


def test_trees_score_as_lightgbm_does(tmp_path: Path) -> None:
    """For rows with and without missing values both add up to the same."""
    lightgbm = pytest.importorskip("lightgbm")
    taught = learn_from_votes(read_labels(labels(tmp_path / "votes.jsonl", 60)), BASE, "learned.txt")
    trees = Trees.parse(taught.text)
    rows = [{}, {"dense": 0.2}, {"bm25": 0.7}, {"dense": 0.7, "bm25": 0.3, "mean": 0.1}]
    values = [[row.get(name, float("nan")) for name in trees.names] for row in rows]
    assert trees.sums(rows).tolist() == pytest.approx(lightgbm.Booster(model_str=taught.text).predict(values).tolist())


@pytest.mark.feature("… a tree node may separate present from missing values", of="`tune --learner` learns")
def test_a_signal_that_only_some_memories_have_teaches_whether_it_is_there() -> None:
    """LightGBM parts those that have it from those that lack it at infinity, and we read that as it does."""
    lightgbm = pytest.importorskip("lightgbm")
    draw = Random(1)
    answers = []
    for _ in range(60):
        useful = [n < 3 for n in range(12)]
        rows = [{"dense": draw.random(), **({"bm25": draw.random()} if good else {})} for good in useful]
        answers.append(LabelledAnswer(rows, useful))
    text = train(answers)
    assert "inf" in text.partition("end of trees")[0]
    trees = Trees.parse(text)
    values = [[row.get(name, float("nan")) for name in trees.names] for row in answers[0].signals]
    sums = trees.sums(answers[0].signals).tolist()
    assert sums == pytest.approx(lightgbm.Booster(model_str=text).predict(values).tolist())
    assert min(sums[:3]) > max(sums[3:])


def test_labels_with_earlier_signal_names_are_read_under_current_ones(tmp_path: Path) -> None:
    """Votes that an earlier version exported, or a journal kept since then."""
    file = tmp_path / "votes.jsonl"
    row = {"receipt_id": "r", "useful": True, "signals": {"own": 0.5, "agreement": 1.0, "linked": 0.2, "bm25": 0.1}}
    file.write_text(json.dumps(row), encoding="utf-8")
    (answer,) = read_labels(file)
    assert answer.signals == [{"similarity": 0.5, "fusion": 1.0, "graph": 0.2, "bm25": 0.1}]


def test_too_few_votes_are_refused(tmp_path: Path) -> None:
    """19 answers with votes of both kinds: one too few."""
    with pytest.raises(BadInput, match="19 answers have votes of both kinds"):
        learn_from_votes(read_labels(labels(tmp_path / "votes.jsonl", 19)), BASE, "learned.txt")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "an object is expected"),
        ('{"useful": true}', "receipt_id is missing"),
        ('{"receipt_id": "r", "useful": 1}', "useful is true or false"),
        ('{"receipt_id": "r", "useful": true, "signals": {"dense": "much"}}', "an object of numbers"),
    ],
)
def test_a_label_that_is_none_is_named_by_its_line(tmp_path: Path, line: str, says: str) -> None:
    """The second line is wrong."""
    file = tmp_path / "votes.jsonl"
    file.write_text('{"receipt_id": "r", "useful": true, "signals": {}}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(BadInput, match=f"votes.jsonl:2: .*{says}"):
        read_labels(file)


def test_pairs_right_counts_pairs() -> None:
    """Useful .9 and .2 against useless .5 and .2: .9 wins two, .2 loses one and ties one: 2.5 of 4."""
    assert pairs_right([0.9, 0.2, 0.5, 0.2], [True, True, False, False]) == 2.5 / 4


def test_platt_gives_probabilities() -> None:
    """Of a sum of 1 three quarters are useful, of -1 a quarter: the sigmoid is ¾ and ¼ there, a little drawn in."""
    slope, intercept = platt(
        [1.0] * 400 + [-1.0] * 400, [n % 4 < 3 for n in range(400)] + [n % 4 < 1 for n in range(400)]
    )
    assert 1 / (1 + exp(-(slope + intercept))) == pytest.approx(0.75, abs=0.01)
    assert 1 / (1 + exp(-(-slope + intercept))) == pytest.approx(0.25, abs=0.01)


def test_calibration_is_in_the_models_head() -> None:
    """The line that is written is the one that is read."""
    trees = Trees.parse(calibrated(MODEL.replace("calibration=2 -1\n", ""), 1.5, -0.25))
    assert (trees.slope, trees.intercept) == (1.5, -0.25)
