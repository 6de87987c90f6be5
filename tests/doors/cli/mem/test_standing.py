"""`fusion mem trust` and `fusion mem plans`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fusion.doors.cli import app
from tests.doors.cli.mem.test_status import mem


def fusion(home: Path, *arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--home", str(home), "--direct"])
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.mark.row("A145", "`fusion state` sets trust and provenance, and `fusion mem trust` explains them")
def test_mem_trust_explains_what_was_set(tmp_path: Path) -> None:
    home = tmp_path / "home"
    mem(home, "status")
    ref = fusion(home, "remember", "Backups run at two", "--provenance", "notes/db.md#L3").split()[0]
    fusion(home, "state", ref, "--trust", "untrusted", "--why", "it is\nhearsay")
    shown = mem(home, "trust", f"obs:{ref}").stdout.splitlines()
    assert shown[0] == f"{ref}  untrusted; unknown when it came"
    assert shown[1] == "from      file_line notes/db.md#L3"
    assert shown[4].endswith("owner: None -> untrusted; it is hearsay")
    assert shown[-1].startswith("Use never raises trust.")
    assert json.loads(mem(home, "trust", ref, "--json").stdout)["provenance"]["kind"] == "file_line"
    assert "there is no memory" in mem(home, "trust", "m9zz").stderr


@pytest.mark.row("A146", "`fusion mem plans` lists what is due; `fusion state --due` sets when")
def test_mem_plans_lists_what_is_due(tmp_path: Path) -> None:
    home = tmp_path / "home"
    mem(home, "status")
    assert mem(home, "plans").stdout.startswith("Nothing is due.")
    ref = fusion(home, "remember", "Renew the passport", "--kind", "plan", "--due", "2020-03").split()[0]
    assert mem(home, "plans").stdout == f"{ref:<8}  overdue   2020-03-01  Renew the passport\n"
    fusion(home, "state", ref, "--due", "2999-01-01")
    assert mem(home, "plans").stdout.startswith("Nothing is due.")
    assert "upcoming" in mem(home, "plans", "--all").stdout
