"""`fusion lifecycle`, and `POST /v1/lifecycle`, which it calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from tests.doors.fakes import SMALL


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    return home


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--home", str(home), "--direct"])


@pytest.mark.row(
    "A047", "`fusion lifecycle` prints what it changed, and with --json its report; --dry-run changes nothing"
)
def test_lifecycle_reports_what_it_changed(home: Path) -> None:
    ref = json.loads(run(home, "remember", "Lunch is at one", "--json").stdout)["memories"][0]["ref"]
    assert run(home, "state", ref, "--lifetime", "ttl").exit_code == 0
    soon = ("lifecycle", "--ttl-hours", "1e-9")
    dry = json.loads(run(home, *soon, "--dry-run", "--json").stdout)
    names = ("decayed", "consolidated", "retired", "conflicts_resolved", "released", "deleted", "archived")
    expected = {**dict.fromkeys(names, 0), "expired": 1, "scanned": 1, "dry_run": True, "run": "", "archived_by": {}}
    assert dry == {**expected, "notes": dry["notes"]}
    assert run(home, *soon, "--dry-run").stdout.startswith("Dry run: 1 expired, of 1 memories.")
    done = run(home, *soon)
    assert done.stdout.startswith("1 expired, of 1 memories.")
    assert "fusion undo ID takes it back" in done.stdout
    assert run(home, *soon).stdout.startswith("nothing changed, of 1 memories.")


@pytest.mark.feature("`fusion undo --run` takes back what a run decided, and `fusion decisions` names the run")
def test_a_run_is_taken_back_by_the_name_that_the_list_shows(home: Path) -> None:
    ref = json.loads(run(home, "remember", "Lunch is at one", "--json").stdout)["memories"][0]["ref"]
    assert run(home, "state", ref, "--lifetime", "ttl").exit_code == 0
    made = json.loads(run(home, "lifecycle", "--ttl-hours", "1e-9", "--json").stdout)["run"]
    assert f"fusion undo --run {made}" in "".join(run(home, "decisions").stdout.split("\n"))
    assert run(home, "undo", "--run", made).stdout.startswith("1 decision taken back.")
    again = run(home, "undo", "--run", made)
    assert again.exit_code == 2
    assert "undone already" in again.stderr
    assert run(home, "undo", "d1", "--run", made).exit_code == 2


def test_time_of_no_length_is_refused(home: Path) -> None:
    result = run(home, "lifecycle", "--ttl-hours", "0", "--json")
    assert result.exit_code != 0
    assert "ttl_hours" in result.stderr
