"""`fusion export` and `fusion import`."""

from __future__ import annotations

import gzip
import json
import stat
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from tests.doors.fakes import SMALL

TEXT = "The bookings database moves to Postgres in March"


def home_at(folder: Path) -> Path:
    folder.mkdir()
    (folder / "fusion.toml").write_text(SMALL)
    return folder


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A home with one memory."""
    home = home_at(tmp_path / "here")
    assert run(home, "remember", TEXT).exit_code == 0
    return home


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return home_at(tmp_path / "there")


def run(home: Path, *arguments: str, answer: str | bytes | None = None) -> Result:
    return CliRunner().invoke(app, [*arguments, "--home", str(home), "--direct"], input=answer)


def replied(home: Path, *arguments: str) -> Any:
    result = run(home, *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def texts(home: Path) -> list[str]:
    return [memory["text"] for memory in replied(home, "memories")["memories"]]


@pytest.mark.row("A163", "`fusion export` and `fusion import` move a home's memories by one private file")
@pytest.mark.parametrize("name", ["memories.jsonl", "memories.jsonl.gz"])
def test_file_moves_memories_to_another_home(here: Path, there: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    assert f"fusion import {file}" in run(here, "export", str(file)).stdout
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    result = run(there, "import", str(file), answer="y\n")
    assert "1 new memory would be imported, at most unknown" in result.stdout
    assert "1 new memory imported" in result.stdout
    assert texts(there) == [TEXT]
    assert replied(there, "import", str(file), "--yes")["tenants"][0]["known"] == 1


def test_answer_no_imports_nothing(here: Path, there: Path, tmp_path: Path) -> None:
    run(here, "export", str(tmp_path / "a.jsonl"))
    assert run(there, "import", str(tmp_path / "a.jsonl"), answer="n\n").exit_code == 1
    assert texts(there) == []


def test_dry_run_imports_nothing(here: Path, there: Path, tmp_path: Path) -> None:
    run(here, "export", str(tmp_path / "a.jsonl"))
    report = replied(there, "import", str(tmp_path / "a.jsonl"), "--dry-run")
    assert (report["dry_run"], report["tenants"][0]["new"]) == (True, 1)
    assert texts(there) == []


def test_pipe_moves_memories(here: Path, there: Path) -> None:
    lines = run(here, "export").stdout_bytes
    for sent in (lines, gzip.compress(lines)):
        assert run(there, "import", "-", "--yes", answer=sent).exit_code == 0
    assert texts(there) == [TEXT]


@pytest.mark.feature("`fusion import FOLDER` merges another home into this one without changing it")
def test_home_folder_is_merged(here: Path, there: Path) -> None:
    run(there, "remember", "Another home has this under the first ref")
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    refs = there / "refs.jsonl"
    report = replied(there, "import", str(here), "--yes", "--refs", str(refs))
    assert report["tenants"][0]["new_refs"] == 1
    assert json.loads(refs.read_text()) == {"tenant": "default", "old": "m1", "new": "m2"}
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before
    assert sorted(texts(there)) == ["Another home has this under the first ref", TEXT]


def test_home_is_not_merged_into_itself(here: Path) -> None:
    assert "is the home to import into" in run(here, "import", str(here), "--yes").stderr


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (b'{"format":"memory-fusion.export","version":3,"program":"7.0"}\n', "memory-fusion 7.0"),
        (b'{"results":[{"memory":"tea"}]}\n', "fusion ingest FILE"),
        (b"", "get the export again"),
        (gzip.compress(b"{}", mtime=0)[:-9], "get the export again"),
    ],
)
def test_another_file_is_refused_with_the_fix(there: Path, tmp_path: Path, content: bytes, advice: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    result = run(there, "import", str(file), "--yes")
    assert result.exit_code == 2
    assert advice in result.stderr


def test_export_replaces_no_file(here: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("mine")
    assert "is there already" in run(here, "export", str(file)).stderr
    assert file.read_text() == "mine"
    assert "no folder" in run(here, "export", str(tmp_path / "none" / "a.jsonl")).stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_json_import_does_not_ask(here: Path, there: Path, tmp_path: Path) -> None:
    run(here, "export", str(tmp_path / "a.jsonl"))
    assert "add --yes" in run(there, "import", str(tmp_path / "a.jsonl"), "--json").stderr
