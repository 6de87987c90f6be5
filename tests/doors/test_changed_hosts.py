"""Hosts that are upgraded, call twice, name no session, die within a turn or share one: hooks fail open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from fusion.client import Client
from fusion.doors.cli.doctor_hosts import hosts as examine_hosts
from fusion.doors.cli.finding import Finding
from fusion.doors.cli.host_files import HOSTS, NAME
from fusion.doors.hook_calls import FOLDER, UNKNOWN, last_calls, record
from fusion.doors.hooks import HOOKS
from fusion.trust import allow
from tests.doors.claude_hooks import SESSION, Talk, context, hook, hook_here, is_silent, kept
from tests.doors.fakes import SMALL, server_stopped

KNOWN, ASKED = "Our chains come from Kedjan.", "where do our chains come from?"
EVENT = "user-prompt-submit"
HOUR_S = 3600.0


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with one memory, whose server runs for all tests: each of them has a session of its own."""
    home = tmp_path_factory.mktemp("real") / "home"
    home.mkdir(mode=0o700)
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    with server_stopped(home):
        with Client.of_home(home) as client:
            client.remember([{"text": KNOWN}])
            client.settle(60)
        yield home


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path, str(uuid4()))


def complaints(home: Path, user: Path) -> list[Finding]:
    """What doctor says of a home's hooks, for a user without any host."""
    user.mkdir(exist_ok=True)
    return [one for one in examine_hosts(home, user) if one.status != "ok"]


# Upgraded ------------------------------------------------------------------------------------------------------------


def test_fields_that_a_later_host_adds_are_ignored(real: Path, talk: Talk) -> None:
    later = talk.payload(prompt=ASKED, hook_event_name="UserPromptSubmit", prompt_id=7, attachments=[{"a": None}])
    printed, notice = hook(EVENT, later, "--home", real)
    assert KNOWN in context(EVENT, printed)
    assert notice == ""


@pytest.mark.feature("an input whose fields a host has renamed or changed costs a line, and doctor names it")
@pytest.mark.parametrize(
    ("event", "given"),
    [
        (EVENT, {"session_id": SESSION, "user_prompt": ASKED}),
        (EVENT, {"session_id": SESSION, "prompt": [{"type": "text", "text": ASKED}]}),
        ("stop", {"session_id": SESSION, "transcriptPath": "/x.jsonl"}),
        ("pre-compact", {"session_id": SESSION, "transcript_path": {"path": "/x.jsonl"}}),
    ],
)
def test_input_of_another_shape_is_named(home: Path, tmp_path: Path, event: str, given: dict[str, Any]) -> None:
    """No server is asked or started for it."""
    home.mkdir(mode=0o700)
    printed, notice = hook_here(event, given, "--home", home)
    assert is_silent(event, printed)
    [line] = notice.splitlines()
    assert "has the host changed its hooks?" in line
    [found] = complaints(home, tmp_path / "user")
    assert (found.check, found.status) == (f"hook {event}", "warn")
    assert "the input has no text" in found.detail
    assert "pipx upgrade" in (found.fix or "")
    assert not (home / "server.log").exists()


def test_hook_of_an_unknown_event_is_named(home: Path, tmp_path: Path) -> None:
    home.mkdir(mode=0o700)
    printed, notice = hook("prompt-expanded", {"session_id": SESSION}, "--home", home)
    assert printed == {}
    assert "there is no such hook" in notice
    [found] = complaints(home, tmp_path / "user")
    assert found.check == f"hook {UNKNOWN}"


def test_complaint_ends_with_a_call_that_succeeds(real: Path, tmp_path: Path) -> None:
    hook_here(EVENT, {"prompt": 3}, "--home", real)
    assert complaints(real, tmp_path / "user")
    hook_here(EVENT, {"prompt": ASKED}, "--home", real)
    assert complaints(real, tmp_path / "user") == []


def test_calls_are_not_recorded_through_a_link(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    home.mkdir()
    (home / FOLDER).symlink_to(elsewhere)
    record(home, "stop", "x")
    assert list(elsewhere.iterdir()) == []
    (home / FOLDER).unlink()
    record(home, "stop", "it took too long\n" * 1000)
    [call] = last_calls(home)
    assert (call.hook, len(call.notice)) == ("stop", 2000)


# Silently off --------------------------------------------------------------------------------------------------------


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a Claude Code with our plugin, installed at the beginning of time."""
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    folder = tmp_path / "user" / ".claude"
    (folder / "plugins").mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps({"enabledPlugins": {"memory-fusion@memory-fusion": True}}))
    installed = folder / "plugins" / "installed_plugins.json"
    installed.write_text(json.dumps({"plugins": {"memory-fusion@memory-fusion": {"installPath": str(folder)}}}))
    os.utime(installed, (0, 0))
    return folder


def talked(claude: Path, at: float) -> None:
    transcript = claude / "projects" / "-srv-hjul" / f"{SESSION}.jsonl"
    transcript.parent.mkdir(parents=True, exist_ok=True)
    transcript.write_text("{}\n")
    os.utime(transcript, (at, at))


def called(home: Path, at: float) -> None:
    home.mkdir(exist_ok=True)
    record(home, EVENT, "")
    os.utime(home / FOLDER / EVENT, (at, at))


@pytest.mark.feature("`fusion doctor` sees that Claude Code talks and calls the hook of a prompt no more")
@pytest.mark.parametrize(
    ("called_at", "talked_at", "says"),
    [
        (HOUR_S, 3 * HOUR_S, "was last called 1970-01-01 01:00 UTC"),
        (None, 3 * HOUR_S, "was never called"),
        (HOUR_S, HOUR_S + 60, None),
        (HOUR_S, None, None),
        (None, None, None),
    ],
)
def test_doctor_sees_a_hook_that_is_called_no_more(
    claude: Path, home: Path, called_at: float | None, talked_at: float | None, says: str | None
) -> None:
    if called_at is not None:
        called(home, called_at)
    if talked_at is not None:
        talked(claude, talked_at)
    found = [one.detail for one in examine_hosts(home, claude.parent) if one.status != "ok"]
    assert len(found) == (says is not None)
    if says:
        assert says in found[0]
        assert "wrote a transcript 1970-01-01 03:00 UTC" in found[0]


# Without a permission ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"permissions": {"deny": ["Bash", "mcp__plugin_memory-fusion_memory__memory_fuse"]}},
            "denies the tools mcp__",
        ),
        ({"allowManagedHooksOnly": True}, "allows managed hooks only"),
        ({"permissions": {"deny": "odd"}}, None),
        ({"permissions": ["odd"]}, None),
    ],
)
def test_doctor_sees_a_permission_that_is_lacking(claude: Path, home: Path, settings: Any, says: str | None) -> None:
    file = claude / "settings.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    found = [one.detail for one in examine_hosts(home, claude.parent) if one.status != "ok"]
    assert len(found) == (says is not None)
    assert not says or says in found[0]


@pytest.mark.parametrize(
    ("name", "entry", "more"),
    [
        ("codex", {"enabled": False}, {}),
        ("windsurf", {"disabled": True}, {}),
        ("opencode", {"enabled": False}, {}),
        ("gemini", {}, {"mcp": {"excluded": [NAME]}}),
        ("gemini", {}, {"mcp": {"allowed": ["other"]}}),
    ],
)
def test_doctor_sees_a_server_that_is_switched_off(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, entry: dict[str, Any], more: dict[str, Any]
) -> None:
    for variable in ("XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.delenv(variable, raising=False)
    host = HOSTS[name]
    words = {"command": [sys.executable, "mcp"]} if name == "opencode" else {"command": sys.executable}
    settings = {host.servers: {NAME: {**words, **entry}}, **more}
    file = host.file(tmp_path)
    file.parent.mkdir(parents=True)
    toml = f'[{host.servers}.{NAME}]\ncommand = "{sys.executable}"\nenabled = false\n'
    file.write_text(json.dumps(settings) if host.format == "json" else toml)
    [found] = examine_hosts(home, tmp_path)
    assert (found.check, found.status) == (f"host {name}", "warn")
    assert "switches the server off" in found.detail


@pytest.mark.feature("a plugin whose home is not allowed recalls nothing, keeps nothing, and says so in a line")
@pytest.mark.parametrize("event", [EVENT, "session-start", "stop"])
def test_plugin_without_the_permission_for_a_home(tmp_path: Path, event: str) -> None:
    """A `.fusion` folder that came with a repository: doctor names the command that allows it."""
    home = tmp_path / "repository" / ".fusion"
    home.mkdir(parents=True)
    (home / "fusion.toml").write_text(SMALL)
    talk = Talk(tmp_path)
    talk.add("user", ASKED)
    printed, notice = hook(event, talk.payload(prompt=ASKED, cwd=str(home.parent), last_assistant_message="x"))
    printed.pop("systemMessage", None)
    assert is_silent(event, printed)
    [line] = notice.splitlines()
    assert "fusion allow" in line
    assert [one.name for one in home.iterdir()] == ["fusion.toml"]
    words = [sys.executable, "-m", "fusion", "doctor", "--json"]
    done = subprocess.run(words, cwd=home.parent, capture_output=True, check=False, timeout=120)
    assert any("allow" in str(one["fix"]) for one in json.loads(done.stdout)["findings"])


# Calls ---------------------------------------------------------------------------------------------------------------


def test_host_that_calls_twice_for_one_prompt_shows_a_memory_once(real: Path, talk: Talk) -> None:
    """As one does in which the plugin and a hook of the settings are registered."""
    payload = talk.payload(prompt=ASKED)
    shown = [context(EVENT, hook_here(EVENT, payload, "--home", real)[0]) for _ in range(2)]
    assert KNOWN in shown[0]
    assert shown[1] == ""


def test_host_without_a_session_recalls_and_keeps(real: Path, talk: Talk) -> None:
    """Nothing says what was shown before, so it is shown again; a transcript says which session it is."""
    for given in ({"prompt": ASKED}, {"prompt": ASKED, "session_id": None}, {"prompt": ASKED, "session_id": 7}):
        printed, notice = hook_here(EVENT, given, "--home", real)
        assert KNOWN in context(EVENT, printed)
        assert notice == ""
    talk.add("user", "What does a chain cost?")
    for _ in range(2):
        assert hook_here("stop", {"transcript_path": str(talk.path)}, "--home", real) == ({}, "")
    assert [text for _, text in kept(real, talk.session)] == ["What does a chain cost?"]


@pytest.mark.feature("a host that dies between prompt and answer loses no turn and doubles none")
def test_turn_of_a_host_that_died_is_kept_once(real: Path, talk: Talk) -> None:
    """Its session goes on: the prompt without an answer, the prompt that is typed again, and the answer are kept."""
    talk.add("user", "What does a chain cost?")
    hook_here(EVENT, talk.payload(prompt="What does a chain cost?"), "--home", real)
    hook_here("session-start", talk.payload(source="resume"), "--home", real)
    talk.add("user", "Again: the price of a chain?")
    hook_here(EVENT, talk.payload(prompt="Again: the price of a chain?"), "--home", real)
    talk.add("assistant", "A chain costs 30 euros.")
    for event in ("stop", "session-end", "stop"):
        run = hook if HOOKS[event].detached else hook_here
        assert run(event, talk.payload(last_assistant_message="A chain costs 30 euros."), "--home", real) == ({}, "")
    said = ["What does a chain cost?", "Again: the price of a chain?", "A chain costs 30 euros."]
    assert [text for _, text in kept(real, talk.session)] == said


def test_two_hosts_on_one_session_keep_each_turn_once(real: Path, talk: Talk) -> None:
    """Two terminals that resumed the same session, both at the end of a turn; both are answered."""
    said = [f"Chain number {n} costs {n} euros." for n in range(6)]
    for text in said:
        talk.add("user", text)
    with ThreadPoolExecutor(4) as pool:
        events = ("stop", "pre-compact", "stop", "pre-compact")
        done = list(pool.map(lambda event: hook(event, talk.payload(), "--home", real), events))
    assert [printed for printed, _ in done] == [{}] * 4
    assert sorted(text for _, text in kept(real, talk.session)) == sorted(said)
