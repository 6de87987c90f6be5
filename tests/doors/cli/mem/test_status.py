"""`fusion mem`: the group of openclaw-mem's commands, and its status."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from fusion.doors.cli.mem import COMMANDS
from tests.doors.fakes import SMALL


def mem(home: Path, *arguments: str) -> Result:
    home.mkdir(exist_ok=True)
    (home / "fusion.toml").write_text(SMALL)
    return CliRunner().invoke(app, ["mem", *arguments, "--home", str(home), "--direct"])


def test_mem_status_shows_what_the_memory_holds(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shown = mem(home, "status")
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.startswith("memories  0; 0 forgotten\nreceipts  0\nbackends  memory ready")
    assert json.loads(mem(home, "status", "--json").stdout)["memories"]["current"] == 0


def test_help_of_mem_lists_its_commands() -> None:
    shown = CliRunner().invoke(app, ["mem", "--help"]).stdout
    assert all(f" {name} " in shown for name in COMMANDS)
