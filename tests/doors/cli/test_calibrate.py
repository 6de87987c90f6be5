"""`fusion tune --calibrate`: from questions and from votes, into a file that the home's next answers use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from fusion.recipe_files import read_calibration

THINGS = ("bell", "kite", "drum", "lamp", "boat", "sled", "harp", "tent", "comb", "loom", "vase", "rake")
PLACES = ("attic", "cellar")
TEXTS: Sequence[str] = [f"The {thing} hangs in the {place}" for thing in THINGS for place in PLACES]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home without a model, with two dozen memories."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    config = '[embedder]\nprovider = "none"\n[backends.mem0]\nenabled = false\n[backends.cortex]\nenabled = false\n'
    (home / "fusion.toml").write_text(config)
    (tmp_path / "said.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in TEXTS))
    assert fusion("ingest", tmp_path / "said.jsonl", "--home", home).exit_code == 0
    return home


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """A question for each memory, with its text."""
    asked = [
        {
            "query": f"where does the {thing} hang, in the {place}?",
            "expected": {"texts": [f"{thing} hangs in the {place}"]},
        }
        for thing in THINGS
        for place in PLACES
    ]
    file = tmp_path / "questions.jsonl"
    file.write_text("\n".join(map(json.dumps, asked)))
    return file


def fusion(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(app, [*(str(a) for a in arguments), "--direct"])


def calibrate(home: Path, data: Path, *more: object) -> Result:
    return fusion("tune", "--calibrate", "--data", data, "--home", home, *more)


def printed(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.feature(
    "… with `--dry-run` and `--json`; the next answers have these probabilities", of="`fusion tune --calibrate` fits"
)
def test_questions_become_probabilities_of_the_next_answers(home: Path, questions: Path) -> None:
    """A dry run writes nothing; a second run replaces the file with --force alone."""
    dry = printed(calibrate(home, questions, "--dry-run", "--json"))
    (one,) = dry["calibrations"]
    file = Path(one["file"])
    assert (one["model"], one["labels"]["note"]["helpful"], file.name) == ("", 24, "default-words.calibration")
    assert 0 <= one["held_out"]["note"]["ece"] <= 1
    assert not file.exists()
    shown = calibrate(home, questions)
    assert "held out: ECE" in shown.stdout
    assert f"Wrote {file}" in shown.stdout
    assert read_calibration(file).note is not None
    assert "--force" in calibrate(home, questions).stderr
    assert calibrate(home, questions, "--force").exit_code == 0
    asked = printed(fusion("fuse", "where does the bell hang?", "--home", home, "--json"))
    assert "uncalibrated" not in asked["rerank"]
    assert all(member["probability"] is not None for memory in asked["memories"] for member in memory["members"])


def test_votes_are_read_as_they_are_exported(home: Path, tmp_path: Path) -> None:
    """One vote is too few, and the message says how many are needed."""
    asked = printed(fusion("fuse", "where does the bell hang?", "--home", home, "--json"))
    assert (
        fusion("feedback", asked["receipt_id"], "--useful", asked["memories"][0]["ref"], "--home", home).exit_code == 0
    )
    labels = tmp_path / "labels.jsonl"
    assert fusion("feedback", "--export", labels, "--home", home).exit_code == 0
    refused = calibrate(home, labels, "--json")
    assert refused.exit_code == 2
    assert "at least 20 that help and 20 that do not" in json.loads(refused.stderr)["detail"]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--learner",), "leave out --learner"),
        (("--recipe", "fast"), "there are deep, default"),
        (("--recipe", "seed001"), "too few labels"),
        (("--held-out", "nowhere"), "nowhere: there is no such file"),
    ],
)
def test_what_cannot_be_calibrated_is_named(home: Path, tmp_path: Path, more: tuple[str, ...], says: str) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps({"query": "where does the bell hang?", "expected": ["bell"]}))
    refused = calibrate(home, file, "--json", *more)
    assert (refused.exit_code, says in json.loads(refused.stderr)["detail"]) == (2, True), refused.stderr
    assert not list(home.glob("recipes/*"))


def test_questions_without_an_expected_answer_are_refused(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "questions.txt"
    file.write_text("where does the bell hang?\n")
    assert "no question has expected" in calibrate(home, file).stderr
    assert "--held-out and --dry-run are options of --calibrate" in " ".join(
        fusion("tune", "--data", file, "--dry-run", "--home", home).stderr.split()
    )
