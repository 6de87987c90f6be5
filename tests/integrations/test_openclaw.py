"""The plugin for OpenClaw, in Node with a stand-in for its host: recall before the model's call, capture after it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from benchmarks.bad_servers import WAYS, Way, bad_server
from fusion import __version__
from fusion.client import Client, ensure_server, stop_server
from fusion.doors.pause import set_paused
from fusion.sources import turns
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
    module: str = "companion.js"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """OpenClaw's own"""

    def __enter__(self) -> Self:
        assert NODE is not None
        environment = {**os.environ, "OPENCLAW_STATE_DIR": str(self.state), **self.variables}
        command = [NODE, str(HOST), str(PLUGIN / self.module), json.dumps(self.config), json.dumps(self.settings)]
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
        answer = self.answer({"hook": hook, "event": event, "ctx": {**CTX, **ctx}})
        return answer["result"], answer["warnings"]

    def tool(self, name: str, params: Mapping[str, Any], **ctx: Any) -> str:
        """The text that the model gets from a tool, or the error."""
        answer = self.answer({"tool": name, "params": params, "ctx": {**CTX, **ctx}})
        return str(answer.get("error", answer["result"]))

    def call(self, path: str, *args: object) -> Any:
        """What a function returns that the plugin has registered: corpus.search, capability.flushPlanResolver."""
        answer = self.answer({"call": path, "args": args})
        assert "error" not in answer, answer
        return answer["result"]

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found


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
@pytest.mark.parametrize("module", ["companion.js", "slot.js"])
@pytest.mark.parametrize("way", WAYS)
def test_openclaw_prompt_goes_on_with_a_bad_server(tmp_path: Path, way: Way, module: str) -> None:
    """The handler returns nothing, with one line in the log, and the process ends."""
    home = tmp_path / "home"
    config = {"home": str(home), "command": "/nothing/here"}
    with bad_server(home, way), Host(tmp_path, config, module=module) as host:
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
        assert "does not know the home's token" in warnings[0]
    finally:
        (other / "server.json").write_text(json.dumps(record))
        stop_server(other)


@needs_node
def test_openclaw_plugin_without_a_user_shows_nothing_of_several(home: Path, tmp_path: Path, command: str) -> None:
    """Of several users it gets the memories of none; with `userId` those of this one."""
    ensure_server(home)
    with Client.of_home(home) as client:
        client.remember(
            [{"text": MILL}, *({"text": f"{one} closed the mill.", "user_id": one} for one in ("ada", "bo"))]
        )
        client.settle(60)
    for config, shown in (({}, MILL), ({"userId": "bo"}, "bo closed the mill.")):
        with Host(tmp_path, local(home, command, **config)) as host:
            result, warnings = host.fire("before_prompt_build", {"prompt": ASKED, "messages": []})
            assert shown in result["appendSystemContext"]
            assert "ada" not in result["appendSystemContext"]
            assert warnings == []


@needs_node
@pytest.mark.feature("OpenClaw: `fusion pause` stops recall, in one session or in all")
def test_openclaw_plugin_recalls_nothing_while_paused(home: Path, tmp_path: Path, command: str) -> None:
    for session in (ID, None):
        set_paused(home, session, paused=True)
        with Host(tmp_path, local(home, command)) as host:
            assert host.fire("before_prompt_build", {"prompt": ASKED, "messages": []}) == (None, [])
        set_paused(home, session, paused=False)
    assert not (home / "server.json").exists()


# Tools and supplements -----------------------------------------------------------------------------------------------

GROUP = "agent:main:telegram:group:42"
SUBAGENT = "agent:main:subagent:1f8e"


@needs_node
@pytest.mark.feature("OpenClaw: the model's tools read and forget private memories in a person's session alone")
def test_openclaw_tools_keep_to_the_audience_of_their_session(home: Path, tmp_path: Path, command: str) -> None:
    """The first call starts the server. A subagent may work for a group, and a session without a key for anybody."""
    with Host(tmp_path, local(home, command)) as host:
        ref = host.tool("fusion_store", {"text": MILL, "kind": "fact"}).removeprefix("Stored: ")
        with Client.of_home(home) as client:
            client.settle(60)
            assert client.memory(ref)["kind"] == "fact"
        assert MILL in host.tool("fusion_recall", {"query": ASKED})
        for key in (GROUP, SUBAGENT, "global", None):
            assert host.tool("fusion_recall", {"query": ASKED}, sessionKey=key).startswith("Nothing was recalled: ")
            host.tool("fusion_forget", {"ref": ref}, sessionKey=key)
        shown = json.loads(host.tool("fusion_forget", {"query": ASKED}))
        assert (shown["dry_run"], shown["found"]) == (True, [{"ref": ref, "snippet": MILL}])
        assert kept(home) == [(MILL, None)]
        forgotten = json.loads(host.tool("fusion_forget", {"ref": ref}))
        assert [one["ref"] for one in forgotten["forgotten"]] == [ref]
        assert kept(home) == []
        assert host.tool("fusion_forget", {}) == "give either ref or query"


@needs_node
@pytest.mark.feature(
    "OpenClaw: a direct message reads private memories only if a setting names its author as the owner"
)
@pytest.mark.parametrize("module", ["companion.js", "slot.js"])
def test_openclaw_shows_private_memories_to_the_owner_alone(
    home: Path, tmp_path: Path, command: str, module: str
) -> None:
    """In any of OpenClaw's keys of direct messages. A name without a channel is nobody's in a channel."""
    owners = (KEY, "agent:main:telegram:direct:7", "agent:main:telegram:bot:direct:7", "agent:main:dm:ada")
    threads = ("agent:main:telegram:direct:7:thread:2", "agent:main:matrix:direct:@ada:home.org")
    others = (
        *("agent:main:telegram:direct:8", "agent:main:direct:7", "agent:main:irc:direct:ada", "agent:main:direct"),
        *("agent:main:direct:telegram:direct:7", "agent:main:signal:telegram:dm:7", "agent:main:dm:ada:subagent:1"),
        *("agent:main:hook:7", "agent:main:telegram:direct:7:hook:1", "agent:main:telegram:direct:dm:7"),
    )
    ensure_server(home)
    with Client.of_home(home) as client:
        client.remember([{"text": MILL, "audience": "private"}])
        client.settle(60)
    recall = "fusion_recall" if module == "companion.js" else "memory_recall"
    config = local(home, command, ownerPeers=["telegram:7", "Ada", "matrix:@ada:home.org"])
    with Host(tmp_path, config, module=module) as host:
        shown = {
            key: MILL in host.tool(recall, {"query": ASKED}, sessionKey=key) for key in (*owners, *threads, *others)
        }
        assert shown == {key: key not in others for key in shown}
        prompts = [host.fire("before_prompt_build", {"prompt": ASKED}, sessionKey=key)[0] for key in (KEY, others[0])]
        assert [prompt is not None for prompt in prompts] == [True, False]
    with Host(tmp_path, local(home, command), module=module) as host:
        assert host.tool(recall, {"query": ASKED}, sessionKey=owners[1]).startswith("Nothing was recalled: ")


@needs_node
@pytest.mark.feature("OpenClaw: without `userId`, no ref of one of several users is read or forgotten")
@pytest.mark.parametrize("module", ["companion.js", "slot.js"])
def test_openclaw_plugin_without_a_user_reaches_no_ref_of_several(
    home: Path, tmp_path: Path, command: str, module: str
) -> None:
    """The only user's is, also without `userId`; from the second user on, only with it, and one of no user always."""
    ensure_server(home)
    with Client.of_home(home) as client, Host(tmp_path, local(home, command), module=module) as host:

        def remembered(user: str | None) -> str:
            """The ref of a new memory."""
            [row] = client.remember([{"text": f"{user} closed the mill.", "user_id": user}])["memories"]
            return str(row["ref"])

        def read(ref: str) -> str:
            if module == "companion.js":
                page = host.call("corpus.get", {"lookup": ref, "agentSessionKey": KEY})
                return page["content"] if page else ""
            return str(json.loads(host.tool("memory_get", {"path": ref}))["text"])

        forget = "fusion_forget" if module == "companion.js" else "memory_forget"
        ada = remembered("ada")
        assert read(ada) == "ada closed the mill."
        bo, nobodys = remembered("bo"), remembered(None)
        for ref in (ada, bo):
            assert read(ref) == ""
            assert json.loads(host.tool(forget, {"ref": ref}))["missing"] == [ref]
        assert read(nobodys) == "None closed the mill."
        assert len(client.memories()["memories"]) == 3
        assert json.loads(host.tool(forget, {"ref": nobodys}))["missing"] == []
        with Host(tmp_path, local(home, command, userId="bo"), module=module) as theirs:
            assert json.loads(theirs.tool(forget, {"ref": bo}))["missing"] == []
        assert [row["ref"] for row in client.memories()["memories"]] == [ada]


@needs_node
@pytest.mark.feature("OpenClaw: what the model stores is for groups only if its session is a group's")
def test_openclaw_stores_for_groups_in_groups_alone(home: Path, tmp_path: Path, command: str) -> None:
    """A subagent of a private session may not publish what it was given; nor may a session that no key names."""
    private, groups = (KEY, SUBAGENT, "global", None), (GROUP, "agent:main:matrix:room")
    with Host(tmp_path, local(home, command)) as host:
        for key in (*private, *groups):
            assert host.tool("fusion_store", {"text": f"{MILL} ({key})"}, sessionKey=key).startswith("Stored: ")
    with Client.of_home(home) as client:
        assert len(client.memories()["memories"]) == len(private) + len(groups)
        shown = {row["text"] for row in client.memories(audience="group")["memories"]}
    assert shown == {f"{MILL} ({key})" for key in groups}


@needs_node
def test_openclaw_tools_say_that_memory_is_unavailable(tmp_path: Path) -> None:
    """Recall fails open; to store fails, so that the model does not believe it."""
    config = {"home": str(tmp_path / "none"), "command": "/nothing/here"}
    with Host(tmp_path, config) as host:
        assert host.tool("fusion_recall", {"query": ASKED}).startswith(
            "Memory is unavailable, so nothing was recalled: "
        )
        assert "No server of" in host.tool("fusion_store", {"text": MILL})
        assert host.call("corpus.search", {"query": ASKED, "agentSessionKey": KEY}) == []
        assert host.call("corpus.get", {"lookup": "m1", "agentSessionKey": KEY}) is None


@needs_node
@pytest.mark.feature("OpenClaw: its own memory_search finds ours by corpus all, and a hint in the prompt says so")
def test_openclaw_supplements_its_own_memory(home: Path, tmp_path: Path, command: str) -> None:
    ensure_server(home)
    with Client.of_home(home) as client:
        client.remember([{"text": MILL, "audience": "private"}])
        client.settle(60)
    with Host(tmp_path, local(home, command)) as host:
        [found] = host.call("corpus.search", {"query": ASKED, "agentSessionKey": KEY})
        assert (found["corpus"], found["snippet"], found["startLine"]) == ("memory-fusion", MILL, 1)
        page = host.call("corpus.get", {"lookup": found["path"], "agentSessionKey": KEY})
        assert (page["content"], page["fromLine"], page["lineCount"]) == (MILL, 1, 1)
        assert host.call("corpus.search", {"query": ASKED, "agentSessionKey": GROUP}) == []
        assert host.call("corpus.get", {"lookup": found["path"], "agentSessionKey": GROUP}) is None
        [_, hint, _] = host.call("prompt", {"availableTools": {"set": ["memory_search"]}})
        assert 'corpus "all"' in hint
        assert host.call("prompt", {"availableTools": {"set": []}}) == []


# The slot ------------------------------------------------------------------------------------------------------------


@needs_node
@pytest.mark.feature("OpenClaw's memory slot: memory_search and memory_get in its shapes, and its search manager")
def test_openclaw_slot_answers_the_tools_and_the_search_manager(home: Path, tmp_path: Path, command: str) -> None:
    """Hits whose session is not known are handed to a group only if every audience may read them."""
    ensure_server(home)
    poster = "The poster says: the mill at the harbour is closed."
    with Client.of_home(home) as client:
        client.remember([{"text": MILL, "audience": "private"}, {"text": poster, "audience": "group"}])
        client.settle(60)
    with Host(tmp_path, local(home, command), module="slot.js") as host:
        assert host.answer({"names": True})["result"]["registered"] == ["capability"]
        results = json.loads(host.tool("memory_search", {"query": ASKED, "maxResults": 5}))["results"]
        path = next(one["path"] for one in results if one["snippet"] == MILL)
        assert json.loads(host.tool("memory_get", {"path": path}))["text"] == MILL
        assert json.loads(host.tool("memory_get", {"path": path}, sessionKey=GROUP))["text"] == ""
        hits = host.call("capability.runtime.manager.search", ASKED, {"sessionKey": KEY})
        assert {hit["snippet"] for hit in hits} == {MILL, poster}
        [for_groups] = host.call("capability.runtime.manager.search", ASKED, {})
        assert for_groups["snippet"] == poster
        authorize = "capability.runtime.authorizeSearchHits"
        assert host.call(authorize, {"hits": hits, "requesterSessionKey": KEY, "sandboxed": False}) == hits
        for key, sandboxed in ((GROUP, False), (KEY, True)):
            asked = {"hits": hits, "requesterSessionKey": key, "sandboxed": sandboxed}
            assert host.call(authorize, asked) == [hit for hit in hits if hit["snippet"] == poster]
        read = host.call("capability.runtime.manager.readFile", {"relPath": for_groups["path"]})
        assert read == {"status": "ok", "text": poster, "path": for_groups["path"], "from": 1, "lines": 1}
        assert host.call("capability.runtime.manager.readFile", {"relPath": path})["status"] == "not_found"
        assert host.call("capability.runtime.manager.status")["provider"] == "memory-fusion"
        lines = host.call("capability.promptBuilder", {"availableTools": {"set": ["memory_recall"]}})
        assert "reached by memory_recall." in lines[1]


@needs_node
@pytest.mark.feature(
    "OpenClaw's memory slot: the plan for a flush before a compaction is fetched ahead, and is of today"
)
def test_openclaw_slot_has_the_flush_plan_at_hand(home: Path, tmp_path: Path, command: str) -> None:
    ensure_server(home)
    with Host(tmp_path, local(home, command), module="slot.js") as host:
        assert host.fire("gateway_start", {}) == (None, [])
        with Client.of_home(home) as client:
            expected = client.flush_plan(200_000)
        asked = {"contextWindowTokens": 200_000}
        while (plan := host.call("capability.flushPlanResolver", asked)) is None:
            pass
        assert plan["relativePath"] == expected["path"]
        assert plan["reserveTokensFloor"] == expected["rules"]["reserve_floor_tokens"]
        assert plan["systemPrompt"] == expected["system_prompt"]
        tomorrow = int(time.time() * 1000) + 26 * 3600 * 1000
        assert host.call("capability.flushPlanResolver", {**asked, "nowMs": tomorrow}) is None


@needs_node
def test_openclaw_companion_yields_to_the_slot(tmp_path: Path) -> None:
    """Both at once would show each block twice."""
    settings = {"plugins": {"slots": {"memory": "memory-fusion-slot"}}}
    with Host(tmp_path, {}, settings=settings) as host:
        answer = host.answer({"names": True})
    assert answer["result"] == {"tools": [], "hooks": [], "registered": []}
    assert "disable memory-fusion" in answer["warnings"][0]


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
@pytest.mark.parametrize(("key", "shown"), [("global", set()), (KEY, set()), (GROUP, {MILL, "Noted."})])
def test_openclaw_sends_histories_for_groups_from_groups_alone(
    home: Path, tmp_path: Path, key: str, shown: set[str]
) -> None:
    server = ensure_server(home)
    assert server.token is not None
    with Host(tmp_path, {"url": server.url}, {"FUSION_API_KEY": server.token}) as host:
        history = [message("user", MILL), message("assistant", "Noted.")]
        host.fire("before_reset", {"messages": history, "reason": "new"}, sessionKey=key)
    with Client.of_home(home) as client:
        client.settle(60)
        assert len(client.memories()["memories"]) == 2
        assert {row["text"] for row in client.memories(audience="group")["memories"]} == shown


@needs_node
def test_openclaw_plugin_says_what_it_cannot_capture(home: Path, tmp_path: Path, command: str) -> None:
    """A missing transcript, a missing command and a server elsewhere that is away are one line each."""
    with Host(tmp_path, local(home, command)) as host:
        _, [line] = host.fire("agent_end", {"messages": [message("user", MILL)]})
        assert "the transcript of agent:main:main was not found" in line
    with Host(tmp_path, {"url": "http://127.0.0.1:1"}) as host:
        _, [line] = host.fire("before_prompt_build", {"prompt": ASKED, "messages": []})
        assert "the prompt goes on without memories" in line


@pytest.mark.parametrize("folder", [PLUGIN, PLUGIN / "slot"])
def test_openclaw_manifest_has_the_settings_that_the_plugin_reads(folder: Path) -> None:
    """And the version of the package."""
    package, manifest = (json.loads((folder / name).read_text()) for name in ("package.json", "openclaw.plugin.json"))
    assert package["version"] == __version__
    assert package["openclaw"]["extensions"] == ["./index.js"]
    properties = re.findall(r"@property \{.*\} \[?(\w+)", (PLUGIN / "settings.js").read_text())
    assert properties == [*manifest["configSchema"]["properties"]]
    assert f'id: "{manifest["id"]}"' in (folder / "index.js").read_text()


def test_openclaw_plugin_and_readers_know_the_same_groups() -> None:
    """The plugin's own pattern is that of the readers of transcripts."""
    [pattern] = re.findall(r"const GROUP = /(.*)/;", (PLUGIN / "sessions.js").read_text())
    assert pattern == turns.GROUP_KEY


@pytest.mark.row("A148", "the plugin claims no slot of OpenClaw: it listens to hooks alone, so another memory keeps it")
@needs_node
def test_the_plugin_takes_no_slot(tmp_path: Path) -> None:
    """A plugin of the kind "memory" would own the slot, and one that registers a memory would answer for it."""
    manifest = json.loads((PLUGIN / "openclaw.plugin.json").read_text(encoding="utf-8"))
    assert "kind" not in manifest
    assert "slots" not in manifest
    assert manifest["activation"]["onCapabilities"] == ["hook"]
    with Host(tmp_path, {}) as host:
        registered = host.answer({"names": True})["result"]
    assert registered["registered"] == ["corpus", "prompt"]
    assert "before_prompt_build" in registered["hooks"]
    assert registered["tools"] == manifest["contracts"]["tools"]
    assert not {"memory_search", "memory_get"} & {*registered["tools"]}
