"""`fusion shepherd`: diff, promote, restore and incidents, and where incidents are shown."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fusion.client import calls
from fusion.doors.cli import app
from fusion.doors.cli.doctor import examine
from fusion.doors.http.openapi import examples
from fusion.doors.mcp.server import OWN_TOOLS
from fusion.store.workspace import Workspace
from fusion.trust import allow
from tests.doors.fakes import SMALL
from tests.upkeep.test_shepherd import BASELINE, NOW

TWISTED = BASELINE.replace("Never deploy", "Deploy")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home, agent = tmp_path / "home", (tmp_path / "agent").resolve()
    home.mkdir()
    agent.mkdir()
    (home / "fusion.toml").write_text(f'{SMALL}[workspace]\nwrite = true\nroot_folder = "{agent}"\n')
    allow(home)
    (agent / "MEMORY.md").write_text(BASELINE)
    return home


def memory(home: Path) -> Path:
    return home.parent.resolve() / "agent" / "MEMORY.md"


def written_by_a_job(home: Path, text: str) -> None:
    workspace = Workspace(memory(home).parent, home / "workspace")
    workspace.write(workspace.read("MEMORY.md"), text.encode(), by="distill", now=NOW, max_loss=1)


def fusion(home: Path, *arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, [*arguments, "--home", str(home)], input=answer)


def done(home: Path, *arguments: str) -> dict[str, Any]:
    result = fusion(home, *arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.row("A108", "only a person promotes the baseline of MEMORY.md, after a diff and a question")
def test_promote_shows_a_diff_and_asks(home: Path) -> None:
    refused = fusion(home, "shepherd", "promote", answer="n\n")
    assert refused.exit_code == 1
    assert "+- Never deploy on a Friday." in refused.stdout
    assert fusion(home, "shepherd", "diff", "--direct").exit_code == 2
    assert fusion(home, "shepherd", "promote", "--json").exit_code == 2
    assert done(home, "shepherd", "promote", "--dry-run")["promoted"] is None
    assert not (home / "shepherd" / "baseline.md").exists()
    assert "is the baseline now" in fusion(home, "shepherd", "promote", answer="y\n").stdout
    assert (home / "shepherd" / "baseline.md").read_text() == BASELINE
    assert "is the baseline already" in fusion(home, "shepherd", "promote").stdout


@pytest.mark.feature("`fusion shepherd undo-promotion` goes back to the earlier baseline, once")
def test_promotion_is_undone(home: Path) -> None:
    fusion(home, "shepherd", "promote", "--yes")
    assert "no earlier one" in fusion(home, "shepherd", "undo-promotion", "--yes").stderr
    memory(home).write_text(TWISTED)
    fusion(home, "shepherd", "promote", "--yes")
    assert done(home, "shepherd", "undo-promotion", "--dry-run")["promoted"] is None
    assert fusion(home, "shepherd", "undo-promotion", answer="n\n").exit_code == 1
    assert (home / "shepherd" / "baseline.md").read_text() == TWISTED
    assert "holds again" in fusion(home, "shepherd", "undo-promotion", "--yes").stdout
    assert (home / "shepherd" / "baseline.md").read_text() == BASELINE
    assert memory(home).read_text() == TWISTED
    assert "no earlier one" in fusion(home, "shepherd", "undo-promotion", "--yes").stderr


@pytest.mark.feature("no documented route, tool or call of a client promotes the baseline of MEMORY.md")
def test_no_documented_route_tool_or_call_promotes() -> None:
    assert not [name for name in OWN_TOOLS if "promote" in name or "shepherd" in name]
    assert not [name for name in dir(calls) if "promote" in name or "shepherd" in name]
    assert not [name for name in examples() if "promote" in name or "shepherd" in name]


def test_a_job_restores_and_undo_takes_it_back(home: Path) -> None:
    fusion(home, "shepherd", "promote", "--yes")
    written_by_a_job(home, TWISTED)
    shown = done(home, "shepherd", "diff", "--direct")
    assert "-- Never deploy on a Friday." in shown["diff"]
    assert "protected section" in shown["would_be_restored"]
    assert memory(home).read_text() == TWISTED
    ran = fusion(home, "jobs", "run", "shepherd", "--direct").stdout
    assert "MEMORY.md was restored" in ran
    assert memory(home).read_text() == BASELINE
    (incident,) = done(home, "shepherd", "incidents")["incidents"]
    assert "MEMORY.md was restored" in fusion(home, "shepherd", "incidents").stdout
    assert "MEMORY.md was restored" in done(home, "status", "--direct")["incidents"][0]
    assert "shepherd diff shows it" in fusion(home, "status", "--direct").stdout
    (finding,) = [one for one in examine(home) if one.check == "shepherd"]
    assert (finding.status, "shepherd diff" in finding.fix) == ("warn", True)
    assert "is taken back" in fusion(home, "undo", incident["change"], "--direct").stdout
    assert memory(home).read_text() == TWISTED


def test_status_shows_incidents_that_cannot_be_read(home: Path) -> None:
    (home / "shepherd").mkdir()
    for damaged in ("{", "[1]", '[{"number": 1}]'):
        (home / "shepherd" / "incidents.json").write_text(damaged)
        assert "cannot be read" in done(home, "status", "--direct")["incidents"][0]


def test_restore_brings_back_what_was_changed_by_hand(home: Path) -> None:
    fusion(home, "shepherd", "promote", "--yes")
    assert "has all of its baseline" in fusion(home, "shepherd", "restore").stdout
    memory(home).write_text(TWISTED + "- Jonas joined.\n")
    assert "left as it is" in fusion(home, "jobs", "run", "shepherd", "--direct").stdout
    assert done(home, "shepherd", "restore", "--dry-run")["incident"] is None
    assert fusion(home, "shepherd", "restore", answer="n\n").exit_code == 1
    assert memory(home).read_text() == TWISTED + "- Jonas joined.\n"
    assert "To take it back: fusion undo" in fusion(home, "shepherd", "restore", "--yes").stdout
    assert memory(home).read_text() == BASELINE + "- Jonas joined.\n"
    assert [one["outcome"] for one in done(home, "shepherd", "incidents")["incidents"]] == ["restored", "over"]


@pytest.mark.parametrize("command", ["diff", "restore", "promote"])
def test_without_a_writable_workspace_every_command_says_so(home: Path, command: str) -> None:
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    result = fusion(home, "shepherd", command)
    assert result.exit_code == 2
    assert "[workspace] write = true" in result.stderr


def test_the_job_is_off_without_a_writable_workspace(home: Path) -> None:
    schedules = {one["name"]: one["schedule"] for one in done(home, "jobs", "--direct")["jobs"]}
    assert schedules["shepherd"] == "every 3 hours"
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    schedules = {one["name"]: one["schedule"] for one in done(home, "jobs", "--direct")["jobs"]}
    assert schedules["shepherd"] == "off"


@pytest.mark.feature(
    "… by the command: a dry run first, and the run's name is in the log of jobs", of="`fusion undo --run j3`"
)
def test_undo_of_a_run_of_a_job(home: Path) -> None:
    """Scratch notes that the shepherd archived are where they were."""
    note = memory(home).with_name("scratch-idea.md")
    note.write_text("An idea.\n")
    os.utime(note, (0, 0))
    direct = ("--direct",)
    ran = fusion(home, "jobs", "run", "shepherd", *direct)
    assert ran.stdout.endswith("To take its changes of files back: fusion undo --run j1\n")
    assert not note.exists()
    assert "j1 " in fusion(home, "jobs", "log", *direct).stdout
    shown = fusion(home, "undo", "--run", "j1", "--dry-run", *direct)
    assert shown.stdout == "Would be taken back: w2 scratch-idea.md, w1 .archive/scratch-idea.md.\n"
    assert not note.exists()
    assert done(home, "undo", "--run", "j1", *direct) == {
        "decision": None, "undone": 2, "files": ["w2 scratch-idea.md", "w1 .archive/scratch-idea.md"]
    }  # fmt: skip
    assert note.read_text() == "An idea.\n"
    again = fusion(home, "undo", "--run", "j1", *direct)
    assert (again.exit_code, "what j1 changed is taken back already" in again.stderr) == (2, True)
