"""`fusion mem grade`, and `POST /v1/grade`, which it calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fusion.doors.cli import app
from tests.doors.cli.mem.test_status import mem


def remembered(home: Path, text: str) -> None:
    kept = CliRunner().invoke(app, ["remember", text, "--home", str(home), "--direct"])
    assert kept.exit_code == 0, kept.stderr


@pytest.mark.row("A128", "`fusion mem grade` prints the receipt of a run, and how to undo it")
def test_mem_grade_prints_its_receipt(tmp_path: Path) -> None:
    home = tmp_path / "home"
    mem(home, "status")
    remembered(home, "We decided to never deploy on Fridays")
    dry = mem(home, "grade", "--dry-run")
    assert dry.stdout.splitlines() == [
        "1 of 1 memories would get an importance; 0 had one, 0 are not graded.",
        "Then: 1 must_remember, 0 nice_to_have, 0 unknown, 0 ignore.",
    ]
    report = json.loads(mem(home, "grade", "--json").stdout)
    assert (report["graded_filled"], report["label_counts"]["must_remember"]) == (1, 1)
    assert "0 of 1 memories got an importance; 1 had one" in mem(home, "grade").stdout
    undone = CliRunner().invoke(app, ["undo", "--run", report["run"], "--home", str(home), "--direct"])
    assert undone.exit_code == 0, undone.stderr


def test_unknown_scorer_is_refused(tmp_path: Path) -> None:
    refused = mem(tmp_path / "home", "grade", "--scorer", "gpt", "--json")
    assert refused.exit_code == 2
    assert "heuristic-v1" in json.loads(refused.stdout)["error"]
