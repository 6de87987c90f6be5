"""What a dead server costs an agent: an empty context and 300 ms at most, at each door.

A server is dead that hangs before it has proved itself, whose place another program has, or that does not start. How
long a door waits is read from the notice, which names the limit that ended the wait: no test depends on speed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bad_servers import DEAD, Way, bad_server
from fusion.doors import statusline
from fusion.doors.hooks import CAPTURE_S, MAX_AGE_S, MIN_HELLO_S, HookCall
from fusion.doors.mcp_stdio import upstream
from fusion.doors.mcp_stdio.protocol import ToolCall
from fusion.doors.mcp_stdio.upstream import HomeServer
from fusion.errors import ServerUnreachable
from fusion.home import Located
from fusion.integrations import agent_memory
from fusion.local_server import HELLO_MS, LOG, failed_start, hello_s
from fusion.trust import allow
from tests.doors.claude_hooks import hook, is_silent
from tests.doors.fakes import SMALL, server_stopped

MOST_MS = 300
LIMIT = "FUSION_HOOKS__HELLO_TIMEOUT_MS"
SHORT_MS: Mapping[str, str] = {"hung": "50"}
"""a limit that ends a wait before any other does; a reply without a proof is recognised at once"""
SAID: Mapping[Way, str] = {
    "hung": "does not answer within 0.05 s",
    "garbage": "does not know the home's token",
    "failing": "does not know the home's token",
    "another": "does not know the home's token",
}
ASKED = "where do chains come from?"
HOOKS = ("user-prompt-submit", "session-start", "stop", "pre-compact")
FAILED = "fusion: server.prot: Extra inputs are not permitted\n"


@pytest.fixture
def short(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, SHORT_MS.get(way, os.environ[LIMIT]))


@pytest.fixture
def broken(home: Path) -> Path:
    """A home whose server cannot start, which was tried once."""
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text("[server]\nprot = 1\n")
    (home / LOG).write_text(FAILED)
    allow(home)
    return home


def turn(tmp_path: Path) -> dict[str, Any]:
    """The input of a hook at the end of a turn that is in a transcript."""
    transcript = tmp_path / "s1.jsonl"
    said = {"type": "user", "uuid": "u1", "sessionId": "s1", "message": {"role": "user", "content": ASKED}}
    transcript.write_text(json.dumps({**said, "timestamp": "2026-05-01T10:00:00Z", "cwd": str(tmp_path)}) + "\n")
    return {"session_id": "s1", "source": "startup", "prompt": ASKED, "transcript_path": str(transcript)}


@pytest.mark.feature("a dead server costs a hook 300 ms at most, and an empty context", part="faults/clients")
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("way", SAID)
@pytest.mark.parametrize("event", HOOKS)
def test_hook_does_not_wait_for_a_dead_server(home: Path, tmp_path: Path, event: str, way: Way) -> None:
    with bad_server(home, way):
        printed, notice = hook(event, turn(tmp_path), "--home", home, environment=os.environ)
    printed.pop("systemMessage", None)
    assert is_silent(event, printed)
    [line] = notice.splitlines()
    assert SAID[way] in line


@pytest.mark.parametrize("event", HOOKS)
def test_hook_does_not_wait_for_a_server_that_does_not_start(broken: Path, tmp_path: Path, event: str) -> None:
    """It is tried again in the background, and the failure of the last one is named."""
    printed, notice = hook(event, turn(tmp_path), "--home", broken)
    printed.pop("systemMessage", None)
    assert is_silent(event, printed)
    [line] = notice.splitlines()
    assert "the last server did not start, and another try is under way: server.prot" in line


def test_hook_asks_no_program_that_has_the_address_of_a_server_that_has_gone(home: Path, tmp_path: Path) -> None:
    """It would be named if it were asked; a server is started as if there were no record."""
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    environment = {**os.environ, "FUSION_HOOKS__RECALL_TIMEOUT_MS": "900"}
    with bad_server(home, "stale"), server_stopped(home):
        printed, notice = hook("user-prompt-submit", turn(tmp_path), "--home", home, environment=environment)
    assert is_silent("user-prompt-submit", printed)
    assert "it is being started" in notice or "it took too long" in notice


@pytest.mark.feature("… and a call of an MCP tool", of="a dead server costs a hook 300 ms at most")
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("way", SAID)
def test_mcp_call_does_not_wait_for_a_dead_server(home: Path, way: Way) -> None:
    with bad_server(home, way):
        server = HomeServer(Located(home, named=True), None, "fusion", {}, create=False)
        server.start()
        with pytest.raises(ServerUnreachable, match=SAID[way]):
            server.call(ToolCall(1, "memory_fuse", {"query": ASKED}, "2025-11-25"))


def test_mcp_call_does_not_wait_for_a_server_that_does_not_start(broken: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call ends with the try to start the server, however long that takes here, and not with the call's limit."""
    monkeypatch.setattr(upstream, "START_S", 600.0)
    server = HomeServer(Located(broken, named=True), None, "fusion", {}, create=False)
    server.start()
    for _ in range(2):
        with pytest.raises(ServerUnreachable, match=r"did not start: .*server\.prot"):
            server.call(ToolCall(1, "memory_fuse", {"query": ASKED}, "2025-11-25"))


@pytest.mark.parametrize("way", SAID)
def test_statusline_does_not_wait_for_a_dead_server(home: Path, way: Way) -> None:
    words = [sys.executable, "-m", "fusion", "statusline", "--home", str(home)]
    with bad_server(home, way):
        said = subprocess.check_output(words, input=b'{"session_id": "s1"}', timeout=60).decode()
    assert said.startswith("memory: ")
    assert "memories" not in said


def test_default_limits_are_below_300_ms(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget of each door for a server that does not prove itself, and for recall and capture of a framework."""
    monkeypatch.delenv(LIMIT)
    assert hello_s(home) * 1000 == HELLO_MS < MOST_MS
    assert (agent_memory.RECALL_S + agent_memory.CAPTURE_WAIT_S) * 1000 < MOST_MS
    assert statusline.LOOK_S * 1000 < MOST_MS


def test_start_of_a_hooks_process_counts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is older than what counts of an age, so the most is taken off; what nobody waits for has time."""
    monkeypatch.delenv(LIMIT)
    call = HookCall({}, home)
    assert call._hello_s == pytest.approx(HELLO_MS / 1000 - MAX_AGE_S)
    assert call._replace(detached=True)._hello_s == CAPTURE_S
    monkeypatch.setenv(LIMIT, "1")
    assert call._hello_s == MIN_HELLO_S


@pytest.mark.parametrize(("text", "expected_s"), [("400", 0.4), ("0", 0.001), ('"soon"', 0.25), ("[]", 0.25)])
def test_limit_is_a_setting(home: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected_s: float) -> None:
    monkeypatch.delenv(LIMIT)
    home.mkdir()
    (home / "fusion.toml").write_text(f"[hooks]\nhello_timeout_ms = {text}\n")
    assert hello_s(home) == expected_s


class TestFailedStart:
    @pytest.fixture
    def logged(self, home: Path) -> Path:
        home.mkdir()
        (home / LOG).write_text(f"memory-fusion serves {home} on http://127.0.0.1:1\n{FAILED}")
        return home

    def test_is_the_last_line_of_a_server(self, logged: Path) -> None:
        """A hook writes into the same log; what it says is left out."""
        with (logged / LOG).open("a") as log:
            log.write("fusion hook: the last server did not start\n\n")
        assert failed_start(logged) == "server.prot: Extra inputs are not permitted"

    def test_ends_with_a_server_that_starts(self, logged: Path) -> None:
        with (logged / LOG).open("a") as log:
            log.write(f"memory-fusion serves {logged} on http://127.0.0.1:1\n")
        assert failed_start(logged) is None

    def test_ends_when_the_settings_change(self, logged: Path) -> None:
        (logged / "fusion.toml").write_text(SMALL)
        os.utime(logged / LOG, (1, 1))
        assert failed_start(logged) is None

    def test_is_none_without_a_log(self, home: Path) -> None:
        assert failed_start(home) is None


def test_every_dead_server_is_tried() -> None:
    assert {*SAID, "stale"} == DEAD.keys()
