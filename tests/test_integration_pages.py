"""The pages of agents' hosts: each is listed, has a few lines to start, names a version, and its commands work."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusion.doors.cli.host_files import HOSTS
from fusion.trust import allow
from tests.doors.fakes import SMALL, server_stopped

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "integrations"
PAGES = sorted(file.name for file in FOLDER.glob("*.md") if file.name != "README.md")
NAMES = {"gemini": "gemini-cli", "openclaw-slot": "openclaw"}
"""pages that have another name than `fusion connect` has for the host"""
LINES = 6
"""the most lines to start"""


def text(page: str) -> str:
    return (FOLDER / page).read_text(encoding="utf-8")


def commands(page: str) -> list[list[str]]:
    """The words of each command of ours in the page's blocks for a shell."""
    blocks = re.findall(r"```sh\n(.*?)```", text(page), re.DOTALL)
    lines = [one.strip() for block in blocks for line in block.splitlines() for one in line.split("&&")]
    found = [shlex.split(line, comments=True) for line in lines if line.startswith("fusion ")]
    return [words for words in found if words[1] != "init"]


def test_every_page_is_listed() -> None:
    assert [page for page in PAGES if f"]({page})" not in text("README.md")] == []


@pytest.mark.parametrize("name", HOSTS)
def test_every_host_has_a_page_with_its_lines(name: str) -> None:
    """Few lines to start, what was tried, and how to take it out."""
    page = text(f"{NAMES.get(name, name)}.md")
    [first, *_] = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    assert 4 <= len(first.splitlines()) <= LINES
    assert f"fusion connect {name}" in page
    assert "**Tried" in page
    assert "**Take it out:**" in page
    assert re.search(r"\d+\.\d+\.\d+", page[page.index("**Tried") :])


@pytest.mark.parametrize("page", PAGES)
def test_every_page_names_a_version_that_was_tried(page: str) -> None:
    assert re.search(r"\b\d+\.\d+\b", text(page))


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A user with a home where `fusion init` makes it, which needs no permission."""
    user = tmp_path_factory.mktemp("user")
    home = user / ".local" / "share" / "memory-fusion"
    home.mkdir(parents=True)
    home.chmod(0o700)
    (home / "fusion.toml").write_text(SMALL)
    allow(home)  # for this process, which stops its server
    with server_stopped(home):
        yield user


@pytest.mark.feature("the commands on the page of each host work in an empty home folder, and the last takes it out")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)])
def test_commands_of_a_page_work(user: Path, page: str) -> None:
    variables = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in variables} | {"HOME": str(user)}
    before = {*user.iterdir()}
    undone = [["fusion", "connect", name, "--undo"] for name in HOSTS if f"fusion connect {name} --undo" in text(page)]
    for _, *words in [*commands(page), *undone]:
        done = subprocess.run(
            [sys.executable, "-m", "fusion", *words],
            env=environment,
            cwd=user,
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        already = "--undo" in words and "is not connected" in done.stderr  # the page says it twice
        assert done.returncode == 0 or already, f"{' '.join(words)}: {done.stderr}{done.stdout}"
    assert {*user.iterdir()} <= {*before, user / ".local", user / ".config"}


def test_host_of_a_page_is_named_by_connect(user: Path) -> None:
    """`fusion connect` alone, which lists them."""
    words = [sys.executable, "-m", "fusion", "connect", "--json"]
    listed = json.loads(subprocess.check_output(words, env={**os.environ, "HOME": str(user)}, timeout=100))["hosts"]
    assert {f"{NAMES.get(name, name)}.md" for name in listed} <= {*PAGES}
