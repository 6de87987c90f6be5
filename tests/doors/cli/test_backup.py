"""`fusion backup` and `fusion restore`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from tests.doors.fakes import SMALL

TEXT = "The bookings database moves to Postgres in March"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "fusion.toml").write_text(SMALL)
    assert run("remember", TEXT, "--home", str(home), "--direct").exit_code == 0
    return home


@pytest.mark.row("A163", "`fusion backup` and `fusion restore` bring a home with its settings to another folder")
def test_backup_is_verified_and_restored(home: Path, tmp_path: Path) -> None:
    archive, new = tmp_path / "backup.tar.gz", tmp_path / "new"
    shown = run("backup", str(archive), "--home", str(home)).stdout
    assert f"{archive}: a sound backup with 1 memory, " in shown
    assert f"fusion restore {archive} --home FOLDER" in shown
    assert "a sound backup of " in run("backup", str(archive), "--verify", "--home", str(home)).stdout
    shown = run("restore", str(archive), "--home", str(new)).stdout
    assert f"{new}: 1 memory as of " in shown
    assert f"fusion serve --home {new}" in shown
    assert (new / "fusion.toml").read_text() == SMALL
    listed = run("memories", "--home", str(new), "--direct", "--json")
    assert [memory["text"] for memory in json.loads(listed.stdout)["memories"]] == [TEXT]


def test_restore_over_a_home_says_where_it_is_kept(home: Path, tmp_path: Path) -> None:
    run("backup", str(tmp_path / "b"), "--home", str(home))
    run("remember", "Something newer than the backup is this", "--home", str(home), "--direct")
    refused = run("restore", str(tmp_path / "b"), "--home", str(home))
    assert (refused.exit_code, "--force" in refused.stderr) == (2, True)
    shown = run("restore", str(tmp_path / "b"), "--home", str(home), "--force").stdout
    assert "The backup is older than the home that was there" in shown
    (kept,) = tmp_path.glob("home.replaced-*")
    assert f"fusion import {kept} --home {home}" in shown
    added = run("import", str(kept), "--home", str(home), "--direct", "--yes", "--json")
    assert json.loads(added.stdout)["tenants"][0]["new"] == 1


def test_restore_needs_a_named_home(home: Path, tmp_path: Path) -> None:
    run("backup", str(tmp_path / "b"), "--home", str(home))
    assert "--home FOLDER" in run("restore", str(tmp_path / "b")).stderr
    assert "there is no backup" in run("restore", str(tmp_path / "none"), "--home", str(tmp_path / "new")).stderr
