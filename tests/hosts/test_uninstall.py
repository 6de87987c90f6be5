"""Connect, use, take back: nothing of ours is left in a user's folder but the home with the memories.

The file that `fusion connect` writes for a host has the shape that the host documents, and MCP Inspector starts the
server from exactly that file. Hosts that run here are used by themselves.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fusion.doors.cli.host_files import HOSTS as FILES
from fusion.doors.cli.host_files import NAME, Host
from fusion.doors.mcp_stdio.listing import listing_of
from fusion.lib import jsonc
from tests.hosts import hosts
from tests.hosts.hosts import HOSTS, PLUGIN, World
from tests.hosts.scripted_model import ScriptedModel
from tests.hosts.test_hosts import ANSWER, ASKED, INSTALLED, LEFT, asks_memory, remember, world

__all__ = ["world"]
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.timeout(900),
    pytest.mark.skipif(hosts.TOOLS is None, reason="run by `make test-hosts`"),
]
CONNECTED = {"Codex": "codex", "Gemini CLI": "gemini", "opencode": "opencode"}
"""hosts that run here after `fusion connect`"""
RECORDS = {
    "Claude Code": (
        ".claude.json",
        ".claude/backups",
        ".claude/projects",
        ".claude/plugins/cache",
        ".cache/claude-cli-nodejs",
    ),
    "Codex": (".codex/sessions", ".codex/thread_history_1.sqlite"),
    "Gemini CLI": (".gemini/tmp",),
    "opencode": (".local/share/opencode",),
}
"""a host's own records of its sessions, and Claude Code's copy of a plugin, which it deletes itself after seven days"""
ALLOWED = ".local/state/memory-fusion"
"""which homes the user allows; `fusion init` needs no such record for the user's own home, these tests do for theirs"""
END_S = 60.0
Tree = Mapping[str, tuple[int, bytes]]


def tree(world: World) -> Tree:
    """Mode and content of everything in the user's folder but the home and the record that it is allowed."""
    left_out = (world.home, world.user / ALLOWED)
    found = [one for one in sorted(world.user.rglob("*")) if not any(one.is_relative_to(out) for out in left_out)]
    return {str(one.relative_to(world.user)): (one.lstat().st_mode, _content(one)) for one in found}


def _content(path: Path) -> bytes:
    if path.is_symlink():
        return str(path.readlink()).encode()
    return path.read_bytes() if path.is_file() else b""


def fusion(world: World, *words: str) -> str:
    command = [str(world.command), *words, "--home", str(world.home)]
    return subprocess.run(command, env=world.environment(), check=True, capture_output=True, text=True).stdout


def left_running(world: World) -> list[str]:
    """The command lines of processes of ours for the home, after time for one that was stopped to end."""
    deadline = time.monotonic() + END_S
    while (found := _running(world)) and time.monotonic() < deadline:
        pass
    return found


def _running(world: World) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(world.home) in words and b"fusion" in b" ".join(words[:5]):
            found.append(b" ".join(words).decode())
    return found


def is_command(entry: Any) -> bool:
    return isinstance(entry["command"], str) and all(isinstance(word, str) for word in entry["args"])


SHAPES: Mapping[str, Callable[[Any], bool]] = {
    "claude-code": lambda file: file["mcpServers"][NAME]["type"] == "stdio" and is_command(file["mcpServers"][NAME]),
    "cursor": lambda file: is_command(file["mcpServers"][NAME]),
    "windsurf": lambda file: is_command(file["mcpServers"][NAME]),
    "vscode": lambda file: file["servers"][NAME]["type"] == "stdio" and is_command(file["servers"][NAME]),
    "codex": lambda file: is_command(file["mcp_servers"][NAME]),
    "gemini": lambda file: is_command(file["mcpServers"][NAME]),
    "opencode": lambda file: (
        file["mcp"][NAME]["type"] == "local"
        and file["mcp"][NAME]["enabled"] is True
        and all(isinstance(word, str) for word in file["mcp"][NAME]["command"])
    ),
    "zed": lambda file: is_command(file["context_servers"][NAME]),
}
"""what the documentation of each host says of its file; OpenClaw, whose plugin is linked, has tests of its own"""


def inspected(world: World, host: Host) -> list[str]:
    """The names of the tools that MCP Inspector lists for the server in a host's file."""
    file = host.file(world.user)
    if host.servers == "mcpServers":  # Inspector reads this file itself
        chosen = ["--config", str(file), "--server", NAME]
    else:
        chosen = host.words_in(file.read_text())
    done = hosts.run_inspector(world, *chosen, "--method", "tools/list")
    return [tool["name"] for tool in json.loads(done.stdout)["tools"]]


@pytest.mark.feature("the file that `fusion connect` writes for each host starts the server, and is given back")
@pytest.mark.parametrize("name", SHAPES)
def test_connected_file_starts_the_server_and_is_given_back(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for variable in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(variable, raising=False)
    host = FILES[name]
    before = tree(world)
    fusion(world, "connect", name)
    text = host.file(world.user).read_text()
    assert SHAPES[name](tomllib.loads(text) if host.format == "toml" else jsonc.parse(text))
    assert inspected(world, host) == [tool["name"] for tool in listing_of("fusion").tools]
    fusion(world, "connect", name, "--undo")
    fusion(world, "stop")
    after = {path: one for path, one in tree(world).items() if not path.startswith(".npm")}
    assert after == before
    assert left_running(world) == []


@pytest.mark.feature("a host that was connected, used and taken back has nothing of ours left")
@pytest.mark.parametrize("name", [one for one in INSTALLED if one.values[0] in CONNECTED])
def test_host_has_nothing_left_of_a_connection(world: World, name: str) -> None:
    """Its settings are as before, and only its own records of the session name the memory."""
    remember(world, LEFT)
    with ScriptedModel(asks_memory) as model:
        done = HOSTS[name](world, model, ASKED, [])
    assert ANSWER in done.stdout, done.stderr
    file = FILES[CONNECTED[name]].file(world.user)
    assert NAME in file.read_text()
    fusion(world, "connect", CONNECTED[name], "--undo")
    fusion(world, "stop")
    assert named(world, name) == []
    assert NAME not in file.read_text()
    assert "scripted" in file.read_text() or name == "Gemini CLI"
    assert left_running(world) == []


def named(world: World, host: str) -> list[str]:
    """The files that name the memory, without the host's own records."""
    found = [path for path, (_, content) in tree(world).items() if b"memory-fusion" in content]
    return [path for path in found if not path.startswith(RECORDS[host])]


@pytest.mark.feature(
    "Claude Code's plugin is installed, used and uninstalled by its page, and leaves nothing in its settings"
)
def test_claude_codes_plugin_leaves_nothing(world: World) -> None:
    """From its marketplace, as the page says; the hook's block is in the prompt meanwhile, and not after that."""
    remember(world, LEFT)
    settings = world.user / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"cleanupPeriodDays": 30}')
    with ScriptedModel(ANSWER) as model:
        for words in (["marketplace", "add", str(PLUGIN)], ["install", "memory-fusion@memory-fusion"]):
            done = hosts.run_claude(world, model, "plugin", *words)
            assert done.returncode == 0, done.stderr
        assert ANSWER in hosts.run_claude(world, model, "-p", ASKED).stdout
        assert LEFT in model.main[-1].text
        for words in (["uninstall", "memory-fusion@memory-fusion"], ["marketplace", "remove", "memory-fusion"]):
            done = hosts.run_claude(world, model, "plugin", *words)
            assert done.returncode == 0, done.stderr
        assert ANSWER in hosts.run_claude(world, model, "-p", ASKED).stdout
        assert LEFT not in model.main[-1].text
    fusion(world, "stop")
    rest = {name: value for name, value in json.loads(settings.read_text()).items() if value != {}}
    assert rest == {"cleanupPeriodDays": 30}
    assert named(world, "Claude Code") == []
    assert left_running(world) == []
