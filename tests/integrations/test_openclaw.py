"""The plugin for OpenClaw, in Node with a stand-in for its host: recall before the model's call, capture after it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self

import pytest

from benchmarks.bad_servers import WAYS, Way, bad_server
from fusion import __version__
from fusion.client import Client, ensure_server, stop_server
from fusion.trust import allow
from tests.doors.fakes import SMALL, server_stopped
from tests.sources.test_sessions import ID, add, claw, database

PLUGIN = Path(__file__).parents[2] / "integrations" / "openclaw"
HOST = Path(__file__).parent / "openclaw_host.mjs"
NODE = shutil.which("node")
PATIENT_MS = 60_000
KEY = "agent:main:main"
MILL, ASKED = "The mill at the harbour is closed in March.", "When is the mill at the harbour closed?"
HEADER = {"type": "session", "id": ID, "timestamp": "2026-03-04T09:30:00Z"}
CTX = {"agentId": "main", "sessionKey": KEY, "sessionId": ID, "trigger": "user"}
REPLY = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Only in March."}]

needs_node = pytest.mark.skipif(NODE is None, reason="Node is not installed")


@dataclass
class Host:
    """A process of Node with the plugin in it; ``state`` is OpenClaw's folder."""

    state: Path
    config: Mapping[str, Any]
    variables: Mapping[str, str] = field(default_factory=dict)

    def __enter__(self) -> Self:
        assert NODE is not None
        environment = {**os.environ, "OPENCLAW_STATE_DIR": str(self.state), **self.variables}
        command = [NODE, str(HOST), str(PLUGIN / "companion.js"), json.dumps(self.config)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        return self

    def __exit__(self, *exc: object) -> None:
        """The process ends when what it has started has ended."""
        with self.process:  # closes both pipes, and waits
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                assert self.process.wait(timeout=60) == 0
            finally:
                self.process.kill()

    def fire(self, hook: str, event: Mapping[str, Any], **ctx: Any) -> tuple[Any, list[str]]:
        """What the plugin's handler returns, and the warnings that it has logged."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"hook": hook, "event": event, "ctx": {**CTX, **ctx}}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["result"], answer["warnings"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home without a model and with time; its server is stopped at the end."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    recipes = home / "recipes"
    recipes.mkdir()
    shipped = Path(__file__).parents[2] / "config" / "recipes" / "seed002.toml"
    text = shipped.read_text(encoding="utf-8").replace("timeout_ms = 200", f"timeout_ms = {PATIENT_MS}")
    (recipes / "seed002.toml").write_text(text, encoding="utf-8")
    (home / "fusion.toml").write_text(SMALL)
    allow(home)
    with server_stopped(home):
        yield home


@pytest.fixture
def command(tmp_path: Path) -> str:
    """The command `fusion` of this checkout."""
    script = tmp_path / "fusion"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fusion "$@"\n')
    script.chmod(0o700)
    return str(script)


def local(home: Path, command: str, **config: Any) -> dict[str, Any]:
    return {"home": str(home), "command": command, "recallTimeoutMs": PATIENT_MS, **config}


def kept(home: Path) -> list[tuple[str, str | None]]:
    """The texts of a home with their speakers, in the order in which they were said."""
    with Client.of_home(home) as client:
        client.settle(60)
        rows = client.memories()["memories"]
    return sorted((row["text"], row["speaker"]) for row in rows)


def message(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


# Recall --------------------------------------------------------------------------------------------------------------


@needs_node
@pytest.mark.feature("OpenClaw: memories are recalled before the model's call, as system-level context")
@pytest.mark.parametrize(("place", "name"), [("system", "appendSystemContext"), ("user", "prependContext")])
def test_openclaw_prompt_gets_the_memories(home: Path, tmp_path: Path, command: str, place: str, name: str) -> None:
    """In the system prompt, or in the user's message if the settings say so."""
    ensure_server(home)
    with Client.of_home(home) as client:
        client.remember([{"text": MILL}])
        client.settle(60)
    with Host(tmp_path, local(home, command, place=place)) as host:
        result, warnings = host.fire("before_prompt_build", {"prompt": ASKED, "messages": []})
        assert ([*result], warnings) == ([name], [])
        assert result[name].startswith("## Long-Term Memories")
        assert MILL in result[name]
        nothing = host.fire("before_prompt_build", {"prompt": "x", "currentUserMessage": "", "messages": []})
        assert nothing == (None, [])


@needs_node
@pytest.mark.parametrize(
    ("prompt", "ctx"),
    [
        ("ok", {}),
        ("/compact now please", {}),
        (ASKED, {"trigger": "heartbeat"}),
        (ASKED, {"sessionKey": "agent:main:cron:nightly"}),
        (ASKED, {"sessionKey": "agent:main:subagent:1"}),
        (ASKED, {"inputProvenance": {"kind": "inter_session"}}),
        ("<private>" + ASKED, {}),
    ],
)
def test_openclaw_turn_that_no_person_asked_recalls_and_captures_nothing(
    home: Path, tmp_path: Path, command: str, prompt: str, ctx: dict[str, Any]
) -> None:
    """Nor do a very short prompt and a command; no server is asked, for none runs."""
    with Host(tmp_path, local(home, command)) as host:
        assert host.fire("before_prompt_build", {"prompt": prompt, "messages": []}, **ctx) == (None, [])
        if ctx:
            assert host.fire("agent_end", {"messages": [message("user", ASKED)]}, **ctx) == (None, [])
    assert not (home / "server.json").exists()


@needs_node
@pytest.mark.feature("OpenClaw: a prompt goes on without memories after 200 ms if the server does not answer")
@pytest.mark.parametrize("way", WAYS)
def test_openclaw_prompt_goes_on_with_a_bad_server(tmp_path: Path, way: Way) -> None:
    """The handler returns nothing, with one line in the log, and the process ends."""
    home = tmp_path / "home"
    with bad_server(home, way), Host(tmp_path, {"home": str(home), "command": "/nothing/here"}) as host:
        result, warnings = host.fire("before_prompt_build", {"prompt": ASKED, "messages": []})
        assert result is None
        assert warnings[0].startswith("memory-fusion: the prompt goes on without memories: ")


@needs_node
def test_openclaw_plugin_sends_no_token_to_another_program(home: Path, tmp_path: Path, command: str) -> None:
    """What answers at the address in the record is a server, but that of another home, which has another token."""
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    (other / "fusion.toml").write_text(SMALL)
    allow(other)
    server = ensure_server(home)
    ensure_server(other)
    try:
        record = json.loads((other / "server.json").read_text())
        (other / "server.json").write_text(json.dumps({**record, "url": server.url, "pid": server.pid}))
        with Host(tmp_path, local(other, "/nothing/here")) as host:
            result, warnings = host.fire("before_prompt_build", {"prompt": ASKED, "messages": []})
        assert result is None
        assert "what answers does not know the home's token" in warnings[0]
    finally:
        (other / "server.json").write_text(json.dumps(record))
        stop_server(other)


# Capture -------------------------------------------------------------------------------------------------------------


@needs_node
@pytest.mark.feature("OpenClaw: a turn is kept once, whether the plugin, `fusion ingest` or both read its session")
def test_openclaw_turn_is_kept_once(home: Path, tmp_path: Path, command: str) -> None:
    """Taken in when the home was made, after each reply, and by hand once more."""
    state = tmp_path / "openclaw"
    agents = state / "agents"
    path = agents / "main" / "agent" / "openclaw-agent.sqlite"
    db = database(path, (ID, KEY, "direct", [HEADER, claw(1, "user", MILL), claw(2, "assistant", "Noted, in March.")]))
    ingest = [command, "ingest", str(agents), "--home", str(home)]
    subprocess.run(ingest, check=True, capture_output=True, timeout=60)
    first: list[tuple[str, str | None]] = [("Noted, in March.", "assistant"), (MILL, "user")]
    assert kept(home) == first
    add(db, ID, [claw(3, "user", ASKED), claw(4, "assistant", REPLY)])
    whole = [message("user", MILL), message("assistant", "Noted, in March."), message("user", ASKED)]
    with Host(state, local(home, command)) as host:
        for _ in range(3):  # the second and third reply of the host find nothing new
            assert host.fire("agent_end", {"messages": [*whole, message("assistant", REPLY)]}) == (None, [])
    db.close()
    both = [*first, ("Only in March.", "assistant"), (ASKED, "user")]
    assert kept(home) == sorted(both)
    subprocess.run(ingest, check=True, capture_output=True, timeout=60)
    assert kept(home) == sorted(both)


@needs_node
@pytest.mark.feature("OpenClaw: a server on another computer gets the whole history, and keeps each turn once")
def test_openclaw_sends_histories_to_a_server_elsewhere(home: Path, tmp_path: Path) -> None:
    """With a key; `/new` sends what is left at once, and pictures, tools and thoughts stay on the host's computer."""
    server = ensure_server(home)
    assert server.token is not None
    picture = {"type": "image", "data": "x" * 100_000, "mimeType": "image/png"}
    asked = message("user", [{"type": "text", "text": ASKED}, picture], timestamp=1_772_616_600_000)
    history: Sequence[dict[str, Any]] = [
        message("user", MILL),
        message("assistant", "Noted, in March."),
        asked,
        message("toolResult", [{"type": "text", "text": "a list"}]),
        message("assistant", REPLY),
    ]
    config = {"url": server.url, "userId": "ada", "recallTimeoutMs": PATIENT_MS}
    with Host(tmp_path, config, {"FUSION_API_KEY": server.token}) as host:
        host.fire("agent_end", {"messages": history[:2]}, channel="telegram")
        host.fire("agent_end", {"messages": history}, channel="telegram")
        host.fire("before_reset", {"messages": history, "reason": "new"}, channel="telegram")
    with Client.of_home(home) as client:
        client.settle(60)
        rows = client.memories(user_id="ada")["memories"]
        assert sorted(row["text"] for row in rows) == sorted([MILL, "Noted, in March.", ASKED, "Only in March."])
        assert {row["scope"]["session_id"] for row in rows} == {KEY}
    with Host(tmp_path, config, {"FUSION_API_KEY": server.token}) as host:
        result, warnings = host.fire("before_prompt_build", {"prompt": ASKED, "messages": []})
        assert (MILL in result["appendSystemContext"], warnings) == (True, [])


@needs_node
def test_openclaw_plugin_says_what_it_cannot_capture(home: Path, tmp_path: Path, command: str) -> None:
    """A missing transcript, a missing command and a server elsewhere that is away are one line each."""
    with Host(tmp_path, local(home, command)) as host:
        _, [line] = host.fire("agent_end", {"messages": [message("user", MILL)]})
        assert "the transcript of agent:main:main was not found" in line
    with Host(tmp_path, {"url": "http://127.0.0.1:1"}) as host:
        _, [line] = host.fire("before_prompt_build", {"prompt": ASKED, "messages": []})
        assert "the prompt goes on without memories" in line


def test_openclaw_manifest_has_the_settings_that_the_plugin_reads() -> None:
    """And the version of the package."""
    package, manifest = (json.loads((PLUGIN / name).read_text()) for name in ("package.json", "openclaw.plugin.json"))
    assert package["version"] == __version__
    assert package["openclaw"]["extensions"] == ["./index.js"]
    code = (PLUGIN / "companion.js").read_text()
    settings = manifest["configSchema"]["properties"]
    assert {name for name in settings if f"settings.{name}" not in code} == set()
    assert f'id: "{manifest["id"]}"' in (PLUGIN / "index.js").read_text()


# The real host -------------------------------------------------------------------------------------------------------

OPENCLAW = os.environ.get("OPENCLAW_MODULES", "")
"""``node_modules`` with ``openclaw`` and ``node@24``; the test of the real host runs only if it is given"""


class ScriptedModel(ThreadingHTTPServer):
    """A model with OpenAI's API that always says the same, and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Scripted)
        self.asked: list[dict[str, Any]] = []

    @contextmanager
    def running(self) -> Iterator[Self]:
        thread = Thread(target=self.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


class _Scripted(BaseHTTPRequestHandler):
    server: ScriptedModel

    def do_POST(self) -> None:
        self.server.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for delta, end in (({"role": "assistant", "content": "Only in March."}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": end}
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.mark.skipif(not OPENCLAW, reason="OPENCLAW_MODULES names no node_modules with openclaw and node@24")
@pytest.mark.timeout(600)
def test_real_openclaw_shows_the_memories_to_its_model_and_keeps_the_turn_once(
    home: Path, tmp_path: Path, command: str
) -> None:
    """In two turns of `openclaw agent --local`, whose transcript `fusion ingest` reads afterwards as well."""
    ensure_server(home)
    with Client.of_home(home) as client:
        client.remember([{"text": MILL}])
        client.settle(60)
    modules, state = Path(OPENCLAW), tmp_path / ".openclaw"
    state.mkdir()
    node, openclaw = modules / "node" / "bin" / "node", modules / "openclaw" / "openclaw.mjs"
    environment = {"PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}

    def run(*arguments: str) -> None:
        subprocess.run(
            [str(node), str(openclaw), *arguments], check=True, capture_output=True, env=environment, timeout=250
        )

    run("plugins", "install", "--link", str(PLUGIN), "--force", "--accept-capabilities")
    with ScriptedModel().running() as model:
        (state / "openclaw.json").write_text(json.dumps(_openclaw_settings(state, model, local(home, command))))
        for prompt in (ASKED, "And who repairs it then?"):
            run("agent", "--local", "--agent", "main", "--message", prompt)
    [system] = [one["content"] for one in model.asked[0]["messages"] if one["role"] == "system"]
    assert system.count("## Long-Term Memories") == 1
    assert MILL in system
    others = json.dumps([one for asked in model.asked for one in asked["messages"] if one["role"] != "system"])
    assert "Long-Term Memories" not in others
    subprocess.run(
        [command, "ingest", str(state / "agents"), "--home", str(home)], check=True, capture_output=True, timeout=60
    )
    said = [one for one in kept(home) if one[1] is not None]
    assert said.count((ASKED, "user")) == 1
    assert len(said) == 4, said


def _openclaw_settings(state: Path, model: ScriptedModel, config: Mapping[str, Any]) -> dict[str, Any]:
    """OpenClaw's settings as the installation left them, with a scripted model and the plugin's own."""
    one = {"id": "m", "name": "m", "contextWindow": 100_000, "maxTokens": 1_000, "reasoning": False, "input": ["text"]}
    url = f"http://127.0.0.1:{model.server_port}/v1"
    provider = {"baseUrl": url, "apiKey": "x", "api": "openai-completions", "models": [one]}
    plugin = {"enabled": True, "hooks": {"allowConversationAccess": True}, "config": config}
    installed = json.loads((state / "openclaw.json").read_text())
    plugins = {**installed.get("plugins", {}), "entries": {"memory-fusion": plugin}}
    return {
        **installed,
        "models": {"providers": {"scripted": provider}},
        "agents": {"defaults": {"model": {"primary": "scripted/m"}}},
        "memory": {"search": {"provider": "none"}},
        "plugins": plugins,
    }


@pytest.mark.row("A148", "the plugin claims no slot of OpenClaw: it listens to hooks alone, so another memory keeps it")
def test_the_plugin_takes_no_slot() -> None:
    """A plugin of the kind "memory" would own the slot, and one that registers a memory would answer for it."""
    manifest = json.loads((PLUGIN / "openclaw.plugin.json").read_text(encoding="utf-8"))
    assert "kind" not in manifest
    assert "slots" not in manifest
    assert manifest["activation"]["onCapabilities"] == ["hook"]
    code = "".join(file.read_text(encoding="utf-8") for file in PLUGIN.glob("*.js"))
    used = set(re.findall(r"\bapi\.(\w+)", code))
    assert used <= {"on", "logger", "pluginConfig"}
    assert "on" in used
