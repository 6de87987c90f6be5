"""`fusion connect`: the file of each host is changed, checked and given back; and what `fusion doctor` sees there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fusion.doors.cli import app
from fusion.doors.cli.connect_host import replace_text
from fusion.doors.cli.doctor_hosts import hosts as examine_hosts
from fusion.doors.cli.host_files import HOSTS, NAME
from fusion.errors import SettingsError
from fusion.home import plugin_root
from fusion.local_server import running_server
from fusion.trust import allow
from tests.doors.fakes import SMALL, server_stopped

HOST_FOLDERS = ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "OPENCLAW_CONFIG_PATH", "OPENCLAW_STATE_DIR")
BEFORE = {
    "json": '// mine\n{\n  "theme": "dark", // at night\n  "mcpServers": {"other": {"command": "x"}}\n}\n',
    "toml": '# mine\nmodel = "x" # this one\n',
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One home for all tests: its server starts as the first connection is checked, and answers the other checks."""
    yield from _home(tmp_path_factory.mktemp("connected") / "home")


@pytest.fixture
def new_home(tmp_path: Path) -> Iterator[Path]:
    """A home that has no server yet."""
    yield from _home(tmp_path / "user" / "home")


def _home(home: Path) -> Iterator[Path]:
    home.mkdir(mode=0o700, parents=True)
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    with server_stopped(home):
        yield home


@pytest.fixture
def user(home: Path, tmp_path: Path) -> Path:
    """The folder of a user of whose hosts the home has no record."""
    shutil.rmtree(home / "connected", ignore_errors=True)
    user = tmp_path / "user"
    user.mkdir(exist_ok=True)
    return user


def words_and_environment(home: Path, user: Path, words: Sequence[str]) -> tuple[list[str], dict[str, str | None]]:
    """A command line of `fusion connect`, and the variables to set, or with None to remove, for a user."""
    # What is allowed is kept in the state folder of the tests: the user's HOME must not move that.
    state = os.environ.get("XDG_STATE_HOME", str(Path(os.environ["HOME"]) / ".local" / "state"))
    environment = {**dict.fromkeys(HOST_FOLDERS), "XDG_STATE_HOME": state, "HOME": str(user)}
    return ["connect", *words, "--home", str(home), "--json"], environment


def run(home: Path, user: Path, *words: str, code: int = 0) -> Any:
    """The report of `fusion connect` in this process; for an exit code, the error."""
    given, environment = words_and_environment(home, user, words)
    done = CliRunner().invoke(app, given, env=environment)
    assert done.exit_code == code, done.output
    return json.loads(done.stderr if code else done.stdout)


def run_process(home: Path, user: Path, *words: str, code: int = 0) -> Any:
    """The same by a process of its own."""
    given, changed = words_and_environment(home, user, words)
    environment = {name: value for name, value in {**os.environ, **changed}.items() if value is not None}
    done = subprocess.run(
        [sys.executable, "-m", "fusion", *given],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stderr if code else done.stdout)


@pytest.mark.feature("`fusion connect HOST` adds the MCP server to a host's file, keeps the rest, and takes it back")
@pytest.mark.parametrize("name", HOSTS)
def test_host_is_connected_and_given_back(home: Path, user: Path, name: str) -> None:
    """A preview writes nothing; twice changes nothing; the undo gives the very same bytes back."""
    connects_and_gives_back(run, home, user, name)


def test_host_is_connected_and_given_back_by_processes(new_home: Path) -> None:
    """As a user has it: each command is a process, and the check starts the server of the home."""
    connects_and_gives_back(run_process, new_home, new_home.parent, "claude-code")
    assert running_server(new_home) is not None


def connects_and_gives_back(run: Callable[..., Any], home: Path, user: Path, name: str) -> None:
    host = HOSTS[name]
    file = host.file(user)
    file.parent.mkdir(parents=True, exist_ok=True)
    before = BEFORE[host.format]
    file.write_text(before)
    file.chmod(0o640)
    assert run(home, user, name, "--dry-run")["changed"]
    assert file.read_text() == before
    done = run(home, user, name)
    assert (done["changed"], done["file"]) == (True, str(file))
    assert done["checked"].endswith("a search was answered")
    text = file.read_text()
    words = host.words_in(text)
    assert words[-2:] == ["--home", str(home)]
    assert Path(words[0]).is_absolute()
    assert "mine" in text
    assert file.stat().st_mode & 0o777 == 0o640
    assert not run(home, user, name, "--dry-run")["changed"]
    assert run(home, user, name, "--undo")["changed"]
    assert file.read_text() == before
    assert "is not connected" in run(home, user, name, "--undo", code=2)["detail"]


def test_file_that_was_not_there_is_removed_again(home: Path, user: Path) -> None:
    run(home, user, "cursor")
    file = HOSTS["cursor"].file(user)
    assert json.loads(file.read_text())["mcpServers"][NAME]["args"] == ["mcp", "--home", str(home)]
    assert file.stat().st_mode & 0o777 == 0o600
    run(home, user, "cursor", "--undo")
    assert not file.parent.exists()


def test_folder_in_which_the_host_has_put_something_stays(home: Path, user: Path) -> None:
    run(home, user, "zed")
    other = HOSTS["zed"].file(user).with_name("keymap.json")
    other.write_text("[]")
    run(home, user, "zed", "--undo")
    assert [one.name for one in other.parent.iterdir()] == ["keymap.json"]


def test_undo_keeps_what_was_changed_since(home: Path, user: Path) -> None:
    file = HOSTS["gemini"].file(user)
    run(home, user, "gemini")
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "theme": "light"}))
    run(home, user, "gemini", "--undo")
    assert json.loads(file.read_text()) == {"theme": "light"}


@pytest.mark.parametrize("before", [None, '{"theme": "dark"}'])
def test_undo_after_a_second_connection_leaves_nothing_of_either(home: Path, user: Path, before: str | None) -> None:
    """The host has written its file anew in between, with our server in it."""
    file = HOSTS["gemini"].file(user)
    if before is not None:
        file.parent.mkdir()
        file.write_text(before)
    run(home, user, "gemini")
    file.write_text(json.dumps(json.loads(file.read_text()), indent=3))
    run(home, user, "gemini", "--user", "ada")
    record = home / "connected" / "gemini.json"
    assert NAME not in str(json.loads(record.read_text())["before"])
    run(home, user, "gemini", "--undo")
    assert (json.loads(file.read_text()) if file.exists() else None) == (json.loads(before) if before else None)
    assert file.parent.exists() == (before is not None)
    assert not record.exists()


def test_undo_mistrusts_a_record_whose_original_has_our_server(home: Path, user: Path) -> None:
    """As an earlier version kept it after a second connection."""
    file = HOSTS["cursor"].file(user)
    run(home, user, "cursor")
    record = home / "connected" / "cursor.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "before": file.read_text()}))
    run(home, user, "cursor", "--undo")
    assert NAME not in file.read_text()


@pytest.mark.parametrize(("before", "rest"), [("{}", "{}"), ('{"mcpServers": {}}', '{"mcpServers": {}}'), (None, None)])
def test_undo_of_a_changed_file_leaves_no_part_of_ours(
    home: Path, user: Path, before: str | None, rest: str | None
) -> None:
    file = HOSTS["gemini"].file(user)
    file.parent.mkdir()
    if before is not None:
        file.write_text(before)
    run(home, user, "gemini")
    file.write_text(json.dumps(json.loads(file.read_text()), indent=3))  # as a host that writes its settings anew
    run(home, user, "gemini", "--undo")
    assert (json.loads(file.read_text()) if file.exists() else None) == (json.loads(rest) if rest else None)


@pytest.mark.parametrize(("name", "text"), [("cursor", '{"mcpServers": '), ("codex", "a = "), ("zed", "[1]")])
def test_damaged_file_is_refused(home: Path, user: Path, name: str, text: str) -> None:
    file = HOSTS[name].file(user)
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert "is damaged" in run(home, user, name, code=2)["detail"]
    assert file.read_text() == text


def test_link_out_of_the_users_folder_is_refused(home: Path, user: Path, tmp_path: Path) -> None:
    """One within it, as a manager of dotfiles makes it, is followed."""
    file, outside = HOSTS["cursor"].file(user), tmp_path / "outside.json"
    file.parent.mkdir(parents=True)
    outside.write_text("{}")
    file.symlink_to(outside)
    assert "is a link" in run(home, user, "cursor", code=1)["detail"]
    assert outside.read_text() == "{}"
    file.unlink()
    inside = user / "dotfiles.json"
    inside.write_text("{}")
    file.symlink_to(inside)
    run(home, user, "cursor")
    assert file.is_symlink()
    assert NAME in inside.read_text()


@pytest.mark.parametrize("text", ["ours", None])
def test_what_a_host_writes_in_between_is_not_lost(tmp_path: Path, text: str | None) -> None:
    """The file is compared again right before it is replaced or removed, and nothing of ours is left."""
    file = tmp_path / "mcp.json"
    file.write_text("the host's new text")
    with pytest.raises(SettingsError, match="just now; nothing is written"):
        replace_text(file, "the text before", text)
    assert [one.read_text() for one in tmp_path.iterdir()] == ["the host's new text"]
    replace_text(file, "the host's new text", text)
    assert (file.read_text() if file.exists() else None) == text


def test_unknown_host_is_named(home: Path, user: Path) -> None:
    assert "there is no host 'curser'" in run(home, user, "curser", code=2)["detail"]
    assert set(run(home, user)["hosts"]) == set(HOSTS)


@pytest.mark.feature("`fusion doctor` sees a server or a hook of a host that is dead or switched off")
def test_doctor_sees_dead_servers_and_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command or a home that is gone, a plugin that is off or removed, hooks that are switched off."""
    for variable in HOST_FOLDERS:
        monkeypatch.delenv(variable, raising=False)
    assert list(examine_hosts(tmp_path / "home", tmp_path)) == []
    gone = {"command": "/nowhere/fusion", "args": ["mcp"]}
    moved = {"command": sys.executable, "args": ["mcp", "--home", str(tmp_path / "gone")]}
    lives = {"command": sys.executable, "args": ["mcp", "--home", str(tmp_path)]}
    for name, entry in (("cursor", gone), ("windsurf", moved), ("gemini", lives)):
        file = HOSTS[name].file(tmp_path)
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"mcpServers": {NAME: entry}}))
    claude = tmp_path / ".claude"
    (claude / "plugins").mkdir(parents=True)
    hooks = [{"hooks": [{"type": "command", "command": command}]} for command in ("/nowhere/fusion hook stop", "other")]
    settings = {
        "disableAllHooks": True,
        "enabledPlugins": {"memory-fusion@memory-fusion": True, "memory-fusion@other": False},
        "hooks": {"PostToolUse": hooks, "Stop": "odd"},
    }
    (claude / "settings.json").write_text(json.dumps(settings))
    places = {"memory-fusion@memory-fusion": [{"installPath": str(tmp_path / "removed")}]}
    (claude / "plugins" / "installed_plugins.json").write_text(json.dumps({"plugins": places}))
    found = [(one.check, one.status, one.detail) for one in examine_hosts(tmp_path / "home", tmp_path)]
    assert [(check, status) for check, status, _ in found] == [
        ("host cursor", "fail"),
        ("host windsurf", "fail"),
        ("host gemini", "ok"),
        ("hooks of Claude Code", "fail"),
        ("hooks of Claude Code", "fail"),
        ("hooks of Claude Code", "warn"),
        ("hooks of Claude Code", "fail"),
    ]
    details = " ".join(detail for _, _, detail in found)
    for part in ("/nowhere/fusion is not there", "gone is not there", "all hooks off", "is gone from", "a hook in"):
        assert part in details


# OpenClaw ------------------------------------------------------------------------------------------------------------

PLUGINS = {"openclaw": "memory-fusion", "openclaw-slot": "memory-fusion-slot"}
CLAW = """// mine
{
  "agents": {"defaults": {"model": {"primary": "x/y"}}}, // the model
  "plugins": {
    "load": {"paths": ["/opt/weather"]},
    "entries": {"weather": {"enabled": false}},
  },
}
"""


@pytest.mark.feature("`fusion connect openclaw` links the plugin, lets it see conversations, and takes both back")
@pytest.mark.parametrize(("name", "plugin"), PLUGINS.items())
def test_openclaw_is_connected_and_given_back(home: Path, user: Path, name: str, plugin: str) -> None:
    """The settings that OpenClaw rewrote since lose the plugin alone."""
    file = user / ".openclaw" / "openclaw.json"
    file.parent.mkdir()
    file.write_text(CLAW)
    run(home, user, name, "--user", "ada")
    settings = HOSTS[name].parsed(file.read_text())
    entry = settings["plugins"]["entries"][plugin]
    assert entry["hooks"] == {"allowConversationAccess": True}
    assert (entry["config"]["home"], entry["config"]["userId"]) == (str(home), "ada")
    other, linked = settings["plugins"]["load"]["paths"]
    assert other == "/opt/weather"
    assert json.loads((Path(linked) / "openclaw.plugin.json").read_text())["id"] == plugin
    assert settings["plugins"].get("slots") == ({"memory": plugin} if name == "openclaw-slot" else None)
    assert [(one.check, one.status) for one in examine_hosts(home, user)] == [(f"host {name}", "ok")]
    file.write_text(json.dumps({**settings, "meta": {"lastTouchedVersion": "2026.9.6"}}))
    run(home, user, name, "--undo")
    left = json.loads(file.read_text())
    assert left["plugins"]["load"] == {"paths": ["/opt/weather"]}
    assert left["plugins"]["entries"] == {"weather": {"enabled": False}}
    assert not left["plugins"].get("slots")


def test_openclaw_is_linked_once(home: Path, user: Path) -> None:
    """The folder of an earlier installation is replaced; what JSON5 has beyond comments is left to the user."""
    file, earlier = user / ".openclaw" / "openclaw.json", user / "earlier"
    earlier.mkdir()
    (earlier / "openclaw.plugin.json").write_text('{"id": "memory-fusion"}')
    file.parent.mkdir()
    file.write_text(json.dumps({"plugins": {"load": {"paths": [str(earlier)]}}}))
    run(home, user, "openclaw")
    [linked] = json.loads(file.read_text())["plugins"]["load"]["paths"]
    assert Path(linked) == plugin_root() / "openclaw"
    file.write_text("{plugins: {}}")
    assert "add the plugin by hand" in run(home, user, "openclaw", code=2)["detail"]


@pytest.mark.feature("`fusion doctor` names a plugin of OpenClaw that may not see conversations, is off, or is gone")
def test_doctor_sees_what_keeps_openclaws_plugins_from_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in HOST_FOLDERS:
        monkeypatch.delenv(variable, raising=False)
    file = tmp_path / ".openclaw" / "openclaw.json"
    file.parent.mkdir()

    def said(entry: object, plugin: str = "memory-fusion", **more: object) -> list[str]:
        load = {"paths": [str(plugin_root() / "openclaw"), str(plugin_root() / "openclaw" / "slot")]}
        file.write_text(json.dumps({"plugins": {"load": load, "entries": {plugin: entry}, **more}}))
        return [f"{one.status} {one.detail}" for one in examine_hosts(tmp_path, tmp_path)]

    sees = {"hooks": {"allowConversationAccess": True}}
    [line] = said(sees)
    assert line == "ok OpenClaw has the plugin memory-fusion, which sees conversations"
    [line] = said({"enabled": True})
    assert line.startswith("fail OpenClaw calls no hook of memory-fusion: it needs hooks.allowConversationAccess")
    [line] = said({**sees, "enabled": False})
    assert line.startswith("warn OpenClaw's settings switch the plugin memory-fusion off")
    [line] = said(sees, enabled=False)
    assert "all plugins off" in line
    [line] = said(sees, load={"paths": ["/nowhere"]})
    assert "no folder in plugins.load.paths" in line
    [line] = said(sees, "memory-fusion-slot")
    assert "another plugin has the memory slot" in line
    both = {"memory-fusion": sees, "memory-fusion-slot": sees}
    lines = said(sees, entries=both, slots={"memory": "memory-fusion-slot"})
    assert lines[-1].startswith("warn both plugins are in OpenClaw's settings")
    gone = {**sees, "config": {"command": "/nowhere/fusion"}}
    assert "/nowhere/fusion is not there" in said(gone)[0]
