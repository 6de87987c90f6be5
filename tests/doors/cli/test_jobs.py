"""`fusion jobs`: the list, a run with its receipt, pauses, the log."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from fusion.doors.cli.render.jobs import _next, job_log, outcome, ran
from fusion.trust import allow
from tests.doors.fakes import SMALL


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    return home


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["jobs", *arguments, "--home", str(home), "--direct"])


def told(home: Path, *arguments: str) -> dict[str, Any]:
    result = run(home, *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


JOBS = [
    "checks",
    "consolidation",
    "distill",
    "episodes",
    "extract",
    "feed",
    "grade",
    "layers",
    "lifecycle",
    "observe",
    "proposals",
    "receipts",
    "reflect",
    "reflect-prefix",
    "shepherd",
    "vectors",
]


@pytest.mark.feature("`fusion jobs` lists, runs and pauses the jobs of a home, and shows the receipt of each run")
def test_jobs_are_listed_run_and_paused(home: Path) -> None:
    assert [job["name"] for job in told(home)["jobs"]] == JOBS
    assert [job["name"] for job in told(home, "list")["jobs"]] == [job["name"] for job in told(home)["jobs"]]
    assert run(home, "run", "receipts").stdout == "receipts: done, deleted 0\n"
    assert run(home, "run", "checks", "--dry-run").stdout == "checks: done (dry run), checked 0, damaged 0\n"
    assert "It still runs on request" in run(home, "pause", "receipts").stdout
    row = next(line for line in run(home).stdout.splitlines() if line.startswith("receipts "))
    assert "30 3 * * *" in row
    assert "paused" in row
    assert row.endswith(" done")
    assert told(home, "resume", "receipts")["paused"] is False
    assert [one["job"] for one in told(home, "log")["runs"]] == ["checks", "receipts"]
    assert [one["job"] for one in told(home, "log", "receipts")["runs"]] == ["receipts"]
    log = " ".join(run(home, "log").stdout.split())
    assert "done (dry run), checked 0, damaged 0 j1 " in log


LEAP_DAYS = """
[jobs.checks]
schedule = "off"
[jobs.consolidation]
schedule = "off"
[jobs.episodes]
schedule = "off"
[jobs.lifecycle]
schedule = "off"
[jobs.observe]
schedule = "off"
[jobs.proposals]
schedule = "off"
[jobs.receipts]
schedule = "0 0 29 2 *"
[jobs.reflect_prefix]
schedule = "off"
[jobs.vectors]
schedule = "off"
"""


@pytest.mark.feature("… a timer runs what is due, once", of="`fusion jobs` lists, runs and pauses")
def test_due_runs_what_the_schedules_say(home: Path) -> None:
    """Nothing in a new home, whose schedules have just begun; then one run for what was missed."""
    (home / "fusion.toml").write_text(SMALL + LEAP_DAYS)
    allow(home)
    assert told(home, "run", "--due") == {"runs": []}
    with closing(sqlite3.connect(home / "journal.sqlite")) as db, db:
        db.execute("update job set since = 1")
    (run_,) = told(home, "run", "--due")["runs"]
    assert (run_["job"], run_["started_by"], run_["slot"][4:10]) == ("receipts", "schedule", "-02-29")
    assert run(home, "run", "receipts", "--due").stdout == "Nothing is due.\n"


def test_run_that_fails_is_exit_code_1(home: Path) -> None:
    """Its receipt says why; here the journal lacks a table that the lifecycle reads."""
    assert run(home).exit_code == 0
    with closing(sqlite3.connect(home / "journal.sqlite")) as db, db:
        db.execute("drop table use")
    result = run(home, "run", "lifecycle")
    assert result.exit_code == 1
    assert result.stdout.startswith("lifecycle: failed, default: ")
    assert "no such table: use" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run",), "name a job, or add --due"),
        (("run", "receipts", "--due", "--dry-run"), "do not go together"),
        (
            ("run", "receiptz"),
            "there is no job 'receiptz': there are checks, consolidation,",
        ),
        (("pause", "x"), "there is no job 'x'"),
        (("log", "x"), "there is no job 'x'"),
    ],
)
def test_wrong_use_is_exit_code_2(home: Path, arguments: tuple[str, ...], said: str) -> None:
    result = run(home, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_run_under_way_and_faults_are_shown() -> None:
    receipt = {"took_s": 1.0, "steps": {"done": 1, "total": 3}, "stopped": "budget", "faults": {"acme": "no disk"}}
    began = "2026-03-14T03:30:00Z"
    last: Any = {"id": 1, "job": "checks", "status": "failed", "began": began, "dry_run": False, "receipt": receipt}
    assert outcome(last) == "failed, budget after 1 of 3 steps, acme: no disk"
    last["receipt"] = {"result": {"damaged": 1, "faults": {"acme": {"cortex": "cortex: damaged"}}}}
    assert outcome(last) == "failed, damaged 1, cortex: damaged"
    running: Any = {"progress": {"done": 1, "total": 3, "note": "acme"}, "paused": False, "next": None}
    assert _next(running) == "now: 1 of 3 acme"


@pytest.mark.feature(
    "… a dry run prints its diff line by line, and the log only its counts", of="`fusion jobs` lists, runs and pauses"
)
def test_diff_of_a_dry_run_is_printed_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    diff = ["--- MEMORY.md", "+++ MEMORY.md", "@@ -1 +1,2 @@", " # Memory", "+- Ada likes [bold]tea[/], not coffee."]
    result = {"turns": 3, "diff": diff, "files_changed": 1}
    receipt = {"took_s": 1.0, "steps": {"done": 1, "total": 1}, "result": result}
    dry: Any = {
        "id": 1,
        "job": "extract",
        "status": "done",
        "began": "2026-03-14T03:30:00Z",
        "started_by": "request",
        "dry_run": True,
        "receipt": receipt,
    }
    ran([dry])
    assert capsys.readouterr().out.splitlines() == ["extract: done (dry run), turns 3, files changed 1", *diff]
    job_log({"runs": [dry], "next_cursor": None})
    logged = " ".join(capsys.readouterr().out.split())
    assert "done (dry run), turns 3, files changed 1" in logged
    assert "tea" not in logged
