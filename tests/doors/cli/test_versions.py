"""`fusion get REF --versions N`: a memory with the earlier versions of its file in a git repository."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fusion.doors.cli import app
from fusion.trust import allow
from tests.adapters.markdown.test_git_history import FIRST, SECOND, MemFS

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

SETTINGS = """
backends_only = true
[embedder]
adapter = ""
[backends.markdown]
adapter = "adapters.markdown:Markdown"
paths = ["{}"]
deadline_ms = 60000
"""


def fusion(home: Path, *words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--home", str(home), "--direct"])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.feature("… `fusion get REF --versions N` prints them", of="Notes in a git repository")
def test_get_shows_earlier_versions(home: Path, tmp_path: Path) -> None:
    memfs = MemFS(tmp_path / "memory")
    memfs.commit(FIRST, "Remember where Ada lives")
    memfs.commit(SECOND, "Ada has moved")
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SETTINGS.format(memfs.folder))
    allow(home)
    fused = json.loads(fusion(home, "fuse", "Where does Ada live?", "--json"))
    ref = fused["memories"][0]["members"][0]["ref"]
    shown = fusion(home, "get", ref, "--versions", "5")
    assert f"\n2026-11-20T10:02:00+00:00  Letta Agent  Remember where Ada lives\n{FIRST}" in shown
    assert shown.index("Malmö") < shown.index("Lund")
    told = json.loads(fusion(home, "get", ref, "--versions", "5", "--json"))
    assert (told["ref"], [one["text"] for one in told["versions"]]) == (ref, [FIRST])
    assert "versions" not in json.loads(fusion(home, "get", ref, "--json"))
    shutil.rmtree(memfs.folder / ".git")
    assert "no earlier versions" in fusion(home, "get", ref, "--versions", "5")
