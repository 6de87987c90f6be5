"""The GitHub action before actionlint, which Go's module proxy has."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"
GO = shutil.which("go")

pytestmark = [pytest.mark.hosts, pytest.mark.skipif(GO is None, reason="Go is not installed"), pytest.mark.timeout(600)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with the action, and the workflow of docs/distribution.md."""
    shutil.copytree(ROOT / "compose" / "github-action", tmp_path / "compose" / "github-action")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def linted(project: Path, workflow: str) -> tuple[int, str]:
    file = project / ".github" / "workflows" / "decisions.yml"
    file.parent.mkdir(parents=True)
    file.write_text(f"on: pull_request\n{workflow}")
    assert GO is not None
    command = [GO, "run", ACTIONLINT, "-shellcheck=", "-pyflakes=", "-no-color"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def workflow() -> str:
    page = (ROOT / "docs" / "distribution.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"```yaml\n(jobs:.*?)```", page, re.DOTALL)
    return str(found)


def test_actionlint_accepts_the_workflow_of_the_page(project: Path) -> None:
    assert linted(project, workflow()) == (0, "")


@pytest.mark.parametrize(("right", "wrong"), [("paths: docs", "path: docs"), ("outputs.block", "outputs.blocks")])
def test_actionlint_reads_the_inputs_and_outputs_of_the_action(project: Path, right: str, wrong: str) -> None:
    status, said = linted(project, workflow().replace(right, wrong))
    assert status == 1
    assert wrong.split(maxsplit=1)[0].rstrip(":").rpartition(".")[2] in said
