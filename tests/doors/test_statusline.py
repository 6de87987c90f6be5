"""`fusion statusline`: one line for Claude Code's status line, whatever happens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusion.client import Client
from fusion.doors.pause import FILE, is_paused, set_paused
from fusion.trust import allow
from tests.doors.claude_hooks import hook
from tests.doors.fakes import SMALL, server_stopped


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    with server_stopped(home):
        yield home


def line(home: Path, given: bytes = b'{"session_id": "s1"}') -> str:
    """The line. Exit code 0, and nothing on stderr."""
    words = [sys.executable, "-m", "fusion", "statusline", "--home", str(home)]
    done = subprocess.run(words, input=given, capture_output=True, check=True, timeout=60)
    assert done.stderr == b""
    [said] = done.stdout.decode().splitlines()
    return said


@pytest.mark.feature("`fusion statusline`: memories known, the last block of the session or what is wrong, in a line")
def test_statusline_says_what_is_known(home: Path) -> None:
    assert line(home) == "memory: asleep until the next prompt"
    with Client.of_home(home) as client:
        client.remember([{"text": "Our chains come from Kedjan."}, {"text": "The mill is closed in March."}])
        client.settle(60)
    assert line(home) == "memory: 2 memories"
    hook("user-prompt-submit", {"session_id": "s1", "prompt": "where do our chains come from?"}, "--home", home)
    assert line(home) == "memory: 2 memories · 1 in the last block, just now"
    set_paused(home, "s1", paused=True)
    assert line(home) == "memory: paused"


@pytest.mark.parametrize("given", [b"", b"garbage", b"[]", b"\xff" * 9, b'{"session_id": 3, "cwd": "/nowhere"}'])
def test_statusline_never_fails(home: Path, given: bytes) -> None:
    assert line(home, given).startswith("memory: ")


def test_statusline_names_a_home_that_is_not_there(tmp_path: Path) -> None:
    assert line(tmp_path / "none").startswith("memory: there is no home")


def test_pause_survives_a_broken_file(home: Path) -> None:
    """It pauses nothing; the next pause replaces it."""
    (home / FILE).write_text("[")
    assert not is_paused(home, "s1")
    assert set_paused(home, None, paused=True)
    assert is_paused(home, "s1")
    assert not set_paused(home, None, paused=True)
    assert set_paused(home, None, paused=False)
    assert not is_paused(home, "s1")
