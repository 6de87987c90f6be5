"""Jobs of a workspace that are killed before any of their statements: no file is lost or half written."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.test_kill import is_sound, nursery

ROOT = Path(__file__).resolve().parents[2]
EVERY = 4
"""Statements from one kill to the next. Without this argument, `tests.faults.upkeep_victims` kills at each of them."""


@pytest.mark.feature(
    "a job that is killed at any statement: each file of the workspace is the old or the new one, and the next run "
    "ends it"
)
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("job", "least"), [("extract", 300), ("distill", 200), ("reflect", 100), ("shepherd", 200), ("feed", 50)]
)
def test_a_job_that_is_killed_at_any_statement_is_ended_by_the_next_run(tmp_path: Path, job: str, least: int) -> None:
    """Some 250 kills in all, each in a process of its own: before the first statement, each fourth one and the last."""
    command = [sys.executable, "-m", "tests.faults.upkeep_victims", job, str(tmp_path), str(EVERY)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > least / EVERY


@pytest.mark.feature(
    "… also at any statement in the journal: the run is lost, and the next one continues at its step",
    of="a job that is killed at any statement",
)
def test_a_run_that_is_killed_at_any_statement_in_the_journal_is_continued(tmp_path: Path) -> None:
    """Killed before its 1st, 2nd, … statement until it survives them all, each when the lease before is over."""
    file, notes = tmp_path / "journal.sqlite", tmp_path / "notes"
    said: list[list[object]] = []
    with nursery() as home:
        for statement in range(1, 200):
            said = home.kill("two_steps", file, notes, statement, statement)
            assert is_sound(file)
            if ["ran", statement] in said:
                break
    assert ["ran", statement] in said
    assert statement > 10, "a run has more statements than that"
    with closing(sqlite3.connect(file)) as db:
        ended = [status for (status,) in db.execute("select status from job_run order by id")]
        assert db.execute("select owner, resume from job").fetchall() == [(None, None)]
    assert set(ended[:-1]) <= {"lost", "done"}
    assert ended[-1] == "done"
    done = notes.read_text().split()
    assert done[0] == "first"
    assert done[-1] == "second"
    began_again = sum(pair == ("second", "first") for pair in pairwise(done))
    assert began_again == ended[:-1].count("done"), "the first step is done again only after a run that ended"
