"""What Claude Code's hooks keep of a session, and the server that they start."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from mcp import Client as McpClient
from mcp import StdioServerParameters, stdio_client

from fusion.client import Client, ensure_server
from fusion.doors.hooks import HOOKS
from fusion.home import owner
from fusion.local_server import running_server
from tests.doors.claude_hooks import (
    BLOCK,
    END,
    Talk,
    context,
    hook,
    hook_here,
    is_silent,
    kept,
    memory,
    own,
    real,
    run_fusion,
    running,
    talk,
)
from tests.doors.fakes import SMALL, FakeFusion

__all__ = ["memory", "own", "real", "running", "talk"]  # fixtures


def items(home: Path) -> int:
    """How many memories the backend of a home has."""
    with Client.of_home(home, start=False) as client:
        assert client.settle(60)["settled"]
        found: int = client.backends()["backends"][0]["items"]
    return found


class TestCapture:
    @pytest.mark.row(
        "A150",
        "a turn is captured once, without tools, thoughts, sidechains, private parts and the gateway's own block",
    )
    def test_capture_keeps_a_turn_once_and_only_what_was_said(self, running: Path, own: Talk) -> None:
        """Prompt and reply; no tool results, thoughts, sidechains, reminders, nor our own block however it was cut."""
        own.add("user", f"{BLOCK}{END}\nwhere do our chains come from?")
        own.add("assistant", [{"type": "thinking", "thinking": "chains, chains"}])
        own.add("assistant", [{"type": "tool_use", "id": "t1", "name": "Grep", "input": {"pattern": "chains"}}])
        own.add("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "chains.md: chain"}])
        own.add("assistant", "a chain in a sidechain", isSidechain=True)
        own.add("assistant", [{"type": "text", "text": f"Chains come from Kedjan.\n{BLOCK[:-9]}"}])
        own.add("user", "<private>what does a chain cost?</private>")
        own.add("user", "[NOMEM] the price of chains is a secret")
        expected = [("user", "where do our chains come from?"), ("assistant", "Chains come from Kedjan.")]
        payload = own.payload(stop_hook_active=False, last_assistant_message="Chains come from Kedjan.")
        assert hook("stop", payload, "--home", running) == ({}, "")
        assert kept(running, own.session) == expected
        assert hook("stop", payload, "--home", running) == ({}, "")
        assert hook("pre-compact", own.payload(trigger="auto"), "--home", running) == ({}, "")
        assert kept(running, own.session) == expected

    @pytest.mark.row("A123", "hooks keep calls and results of tools, each once, if [episodes] capture_tools says so")
    def test_tools_are_captured_only_if_the_settings_say_so(self, running: Path, own: Talk) -> None:
        """By the hooks before and after a tool, and by those that read the transcript; all name the same events."""
        own.add("user", "where do our chains come from?")
        own.add("assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}])
        own.add("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "chains.md"}])
        used = own.payload(tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="t1", tool_response="chains.md")
        on = {**os.environ, "FUSION_EPISODES__CAPTURE_TOOLS": "true"}

        def episodes(at_least: int) -> list[tuple[str, str]]:
            with Client.of_home(running, start=False) as client:
                for _ in range(200):  # the hook works in a process of its own
                    found = client.query_episodes(session_id=own.session)["episodes"]
                    if len(found) >= at_least:
                        return [(one["type"], one["summary"]) for one in found]
                    assert client.health()["status"] == "ok"
            return []

        assert hook("post-tool-use", used, "--home", running) == ({}, "")
        hook("stop", own.payload(last_assistant_message=""), "--home", running)
        assert episodes(0) == []
        own.add("assistant", "From Kedjan.")
        begins = {name: value for name, value in used.items() if name != "tool_response"}
        assert hook("pre-tool-use", begins, "--home", running, environment=on) == ({}, "")
        assert episodes(1) == [("tool.call", "command: ls")]
        assert hook("post-tool-use", used, "--home", running, environment=on) == ({}, "")
        assert sorted(episodes(2)) == [("tool.call", "command: ls"), ("tool.result", "chains.md")]
        own.add("user", [{"type": "tool_result", "tool_use_id": "t1", "content": "chains.md"}])
        hook("stop", own.payload(last_assistant_message="From Kedjan."), "--home", running, environment=on)
        assert len(episodes(2)) == 2

    @pytest.mark.feature("a hook and `fusion ingest` of one transcript store nothing twice")
    def test_capture_adds_the_next_turn(self, running: Path, own: Talk) -> None:
        """Each hook continues where the last one stopped; what `fusion ingest` then reads is known already."""
        own.add("user", "where do our chains come from?")
        hook_here("stop", own.payload(last_assistant_message=""), "--home", running)
        own.add("assistant", "Chains come from Kedjan.")
        hook_here("stop", own.payload(last_assistant_message="Chains come from Kedjan."), "--home", running)
        assert [speaker for speaker, _ in kept(running, own.session)] == ["user", "assistant"]
        command = [sys.executable, "-m", "fusion", "ingest", str(own.path), "--home", str(running), "--json"]
        summary = json.loads(subprocess.check_output(command, timeout=60))
        assert summary["stored"] == 0
        assert len(kept(running, own.session)) == 2

    def test_capture_waits_while_a_stop_hook_continues(self, real: Path, talk: Talk) -> None:
        """stop_hook_active: another hook made the assistant continue; nothing is asked of a server."""
        talk.add("user", "where do our chains come from?")
        payload = talk.payload(stop_hook_active=True, last_assistant_message="Chains come from Kedjan.")
        assert hook_here("stop", payload, "--home", real) == ({}, "")
        assert owner(real) is None

    @pytest.mark.feature("a reply that is in no transcript is stored once")
    def test_capture_keeps_a_reply_without_transcript_once(self, running: Path, own: Talk) -> None:
        """last_assistant_message is all there is; its session, speaker and words make a retry a no-op."""
        payload = own.payload(last_assistant_message=f"Chains come from Kedjan.\n{BLOCK}{END}")
        for _ in range(2):
            assert hook_here("stop", payload, "--home", running) == ({}, "")
        assert kept(running, own.session) == [("assistant", "Chains come from Kedjan.")]

    @pytest.mark.parametrize(
        "parts",
        [
            [f"Chains come\n{BLOCK}{END}\nfrom Kedjan."],
            ["Chains come from Kedjan. \n\n"],
            ["Chains come from:\n", 'from "Kedjan" \u00e5\u00e4\u00f6 \U0001f6b2\t.'],
            ["Chains come from Kedjan.\u200b"],
        ],
    )
    def test_capture_keeps_a_reply_in_the_transcript_once(self, running: Path, own: Talk, parts: list[str]) -> None:
        """However the reply is cleaned, and in however many parts it was written: it is recognised by its end."""
        own.add("assistant", [{"type": "text", "text": part} for part in parts])
        hook_here("stop", own.payload(last_assistant_message="".join(parts)), "--home", running)
        assert len(kept(running, own.session)) == 1

    def test_capture_keeps_a_reply_before_it_is_in_the_transcript(self, running: Path, own: Talk) -> None:
        """The transcript is written behind: what it lacks after two seconds is taken from the hook's own input."""
        own.add("user", "where do our chains come from?")
        payload = own.payload(last_assistant_message="Chains come from Kedjan.")
        assert hook_here("stop", payload, "--home", running) == ({}, "")
        assert sorted(kept(running, own.session)) == [
            ("assistant", "Chains come from Kedjan."),
            ("user", "where do our chains come from?"),
        ]

    def test_capture_leaves_out_the_reply_to_a_marked_prompt(self, running: Path, own: Talk) -> None:
        """The reply is in the hook's own input alone, the mark in the transcript."""
        own.add("user", "[NOMEM] my PIN is 4711, keep it for today")
        payload = own.payload(last_assistant_message="Your PIN is 4711.")
        assert hook_here("stop", payload, "--home", running) == ({}, "")
        own.add("user", "where do our chains come from?")
        hook_here("stop", own.payload(last_assistant_message="Chains come from Kedjan."), "--home", running)
        assert sorted(kept(running, own.session)) == [
            ("assistant", "Chains come from Kedjan."),
            ("user", "where do our chains come from?"),
        ]

    @pytest.mark.feature("before a compaction, everything that was said is stored")
    def test_pre_compact_hook_keeps_everything(self, running: Path, own: Talk) -> None:
        """250 turns are three batches of at most 100; a second time, none of them again."""
        for number in range(250):
            own.add("user" if number % 2 == 0 else "assistant", f"chain number {number}")
        before = items(running)
        for _ in range(2):
            assert hook_here("pre-compact", own.payload(trigger="manual"), "--home", running) == ({}, "")
            assert items(running) == before + 250

    @pytest.mark.feature("the end of a session is answered at once and stored in the background")
    def test_session_end_hook_answers_at_once_and_keeps_in_background(self, real: Path, talk: Talk) -> None:
        """Claude Code waits 1.5 s at most: the hook closes its pipes, and a child process finishes the work."""
        talk.add("user", "where do our chains come from?")
        assert hook("session-end", talk.payload(reason="other"), "--home", real) == ({}, "")
        ensure_server(real)
        while not kept(real):  # the test's own timeout bounds it
            pass
        assert kept(real) == [("user", "where do our chains come from?")]

    @pytest.mark.row("A051", "one session recalls what another said")
    def test_capture_is_recalled_in_another_session(self, real: Path, talk: Talk) -> None:
        """The point of it all: said in one session, found before a prompt of another."""
        talk.add("user", "Our chains come from Kedjan in Uppsala.")
        hook("stop", talk.payload(), "--home", real)
        kept(real)
        payload = {"session_id": "another", "cwd": "/srv/hjul", "prompt": "where do our chains come from?"}
        printed, notice = hook("user-prompt-submit", payload, "--home", real)
        assert notice == ""
        assert "Our chains come from Kedjan in Uppsala." in context("user-prompt-submit", printed)

    @pytest.mark.feature(
        "`fusion pause` stops recall and capture by hooks, for one session or all, until `fusion resume`"
    )
    def test_paused_session_is_neither_recalled_nor_kept(self, real: Path, tmp_path: Path) -> None:
        """What was said meanwhile is not kept afterwards either; another session goes on if only this one is paused."""
        for named in (True, False):
            talk = Talk(tmp_path, str(uuid4()))
            session = ["--session", talk.session] if named else []
            talk.add("user", "Our chains come from Kedjan in Uppsala.")
            hook_here("stop", talk.payload(), "--home", real)
            assert run_fusion("pause", *session, "--home", real)["changed"]
            talk.add("user", "The price of the secret chain is nine.")
            for event in ("stop", "pre-compact"):
                assert hook_here(event, talk.payload(), "--home", real) == ({}, "")
            asks = {"prompt": "where do our chains come from?", "cwd": "/srv/hjul"}
            for event in ("user-prompt-submit", "session-start"):
                printed, _ = hook_here(event, {**asks, "session_id": talk.session}, "--home", real)
                assert is_silent(event, printed)
            other, _ = hook_here("user-prompt-submit", {**asks, "session_id": f"another than {named}"}, "--home", real)
            assert ("Kedjan" in context("user-prompt-submit", other)) is named
            assert run_fusion("resume", *session, "--home", real)["changed"]
            talk.add("user", "We order a chain on Monday.")
            hook_here("stop", talk.payload(), "--home", real)
            assert [text for _, text in kept(real, talk.session)] == [
                "Our chains come from Kedjan in Uppsala.",
                "We order a chain on Monday.",
            ]
            assert not run_fusion("resume", *session, "--home", real)["changed"]

    @pytest.mark.feature("the latest decisions and rules of a project start its sessions, relevant or not")
    def test_session_start_lists_what_was_decided_in_the_project(self, real: Path, talk: Talk) -> None:
        """Of stored memories and of what the user wrote; not another project's, nor what was quarantined since."""
        talk.add("user", "We decided to buy the chains from Kedjan.")
        talk.add("assistant", "Decided: the chains come from Kedjan, and I decided on the price, too.")
        hook_here("pre-compact", talk.payload(), "--home", real)
        with Client.of_home(real, start=False) as client:
            client.remember(
                [
                    {"text": "Never ship on a Friday.", "kind": "rule"},
                    {"text": "The boat becomes green.", "kind": "decision", "project": "boat"},
                    {"text": "Prices are in euros.", "kind": "decision", "project": "hjul"},
                    {"text": "Ada's prices are in crowns.", "kind": "decision", "project": "hjul", "user_id": "ada"},
                    {"text": "Nobody pays.", "kind": "decision", "project": "hjul", "trust": "untrusted"},
                ]
            )
        starts = {"source": "startup", "session_id": "other", "cwd": "/srv/hjul"}
        printed, notice = hook_here("session-start", starts, "--home", real)
        block = context("session-start", printed)
        assert notice == ""
        assert [line.partition("] ")[2] for line in block.splitlines()[2:-1]] == [
            "Prices are in euros.",
            "Never ship on a Friday.",
            "2026-05-01 We decided to buy the chains from Kedjan.",
        ]

    @pytest.mark.parametrize("event", ["stop", "pre-compact", "session-end"])
    @pytest.mark.parametrize("path", ["/nowhere/x.jsonl", "", "/dev/null", "/", None])
    def test_capture_without_transcript_keeps_nothing(self, real: Path, event: str, path: object) -> None:
        """No server is started for it."""
        run = hook if HOOKS[event].detached else hook_here
        assert run(event, {"session_id": "s", "transcript_path": path}, "--home", real) == ({}, "")
        assert owner(real) is None

    def test_capture_ignores_a_file_that_is_no_transcript(self, running: Path, tmp_path: Path) -> None:
        """Whatever a path names: only sessions are read."""
        (tmp_path / "keys.jsonl").write_text('{"text": "the price of chains"}\n')
        before = items(running)
        hook_here("pre-compact", {"transcript_path": str(tmp_path / "keys.jsonl")}, "--home", running)
        assert items(running) == before


class TestServer:
    @pytest.mark.feature("a prompt starts the server and continues without it if that takes too long")
    def test_prompt_hook_starts_the_server(self, real: Path) -> None:
        """Without any time to wait, this prompt continues without memories; the started server answers the next."""
        (real / "fusion.toml").write_text(SMALL + "[hooks]\nstart_wait_ms = 0\n")
        payload = {"prompt": "where do chains come from?"}
        printed, notice = hook("user-prompt-submit", payload, "--home", real)
        assert is_silent("user-prompt-submit", printed)
        assert len(notice.splitlines()) == 1
        holder = owner(real)
        assert holder is None or holder.serves
        record = ensure_server(real)
        assert hook("user-prompt-submit", payload, "--home", real)[1] == ""
        assert running_server(real) == record

    def test_session_start_hook_starts_the_server(self, real: Path) -> None:
        """session-start waits as long as is set, here a minute, and an empty home has nothing to say."""
        (real / "fusion.toml").write_text(SMALL + "[hooks]\nstart_wait_ms = 60000\n")
        printed, notice = hook("session-start", {"source": "startup"}, "--home", real)
        assert (context("session-start", printed), notice) == ("", "")
        assert running_server(real) is not None

    def test_hook_replaces_a_killed_server(self, real: Path) -> None:
        """Its record and lock file are still there."""
        (real / "fusion.toml").write_text(SMALL + "[hooks]\nstart_wait_ms = 60000\n")
        record = ensure_server(real)
        os.kill(record.pid, signal.SIGKILL)
        printed, notice = hook("user-prompt-submit", {"prompt": "where do chains come from?"}, "--home", real)
        assert (context("user-prompt-submit", printed), notice) == ("", "")

    @pytest.mark.feature(
        "two MCP servers, three hooks, a command and a program that start in the same second on one "
        "home share one server and all get answers"
    )
    async def test_concurrent_hooks_command_and_client_share_one_server(self, real: Path, talk: Talk) -> None:
        """Two MCP servers, three hooks, a command, a program, in the same second on a home without a server: one server
        comes of it, and every one is answered."""
        (real / "fusion.toml").write_text(SMALL + "[hooks]\nstart_wait_ms = 60000\n")
        talk.add("user", "where do our chains come from?")

        async def agent() -> bool:
            arguments = ["-m", "fusion", "mcp", "--home", str(real)]
            server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
            async with McpClient(stdio_client(server)) as client:
                return not (await client.call_tool("memory_fuse", {"query": "where do chains come from?"})).is_error

        def program() -> int:
            with Client.of_home(real) as client:
                return client.health()["pid"]

        def listing() -> dict[str, Any]:
            arguments = [sys.executable, "-m", "fusion", "backends", "--home", str(real), "--json"]
            found: dict[str, Any] = json.loads(subprocess.check_output(arguments, timeout=60))
            return found

        one, two, pid, listed, begun, asked, kept_it = await asyncio.gather(
            agent(),
            agent(),
            asyncio.to_thread(program),
            asyncio.to_thread(listing),
            asyncio.to_thread(hook, "session-start", talk.payload(source="startup"), "--home", real),
            asyncio.to_thread(
                hook, "user-prompt-submit", talk.payload(prompt="where do chains come from?"), "--home", real
            ),
            asyncio.to_thread(hook, "stop", talk.payload(), "--home", real),
        )
        assert (one, two) == (True, True)
        assert [backend["name"] for backend in listed["backends"]] == ["memory"]
        # Of seven processes that start at once, one may need more than the 15 seconds that a prompt waits at most.
        gave_up = "fusion hook: it took too long\n"
        assert {notice for _, notice in (begun, asked)} <= {"", gave_up}
        assert kept_it[1] == ""
        record = running_server(real)
        assert record is not None
        assert record.pid == pid
        assert await asyncio.to_thread(kept, real) == [("user", "where do our chains come from?")]


@pytest.mark.feature("a hook imports nothing heavy")
async def test_hook_imports_nothing_heavy(home: Path, memory: FakeFusion) -> None:
    """On the way to a running server, that is: a prompt waits for these imports."""
    heavy = "httpx asyncio typer rich click pydantic numpy mcp fastapi dataclasses fusion.client http.client orjson"
    heavy += " ssl subprocess logging tempfile argparse"
    code = (
        "import sys; import fusion.__main__\n"
        "from fusion.doors.hooks import main\nmain(['user-prompt-submit', '--home', sys.argv[1]])\n"
        f"print([name for name in {heavy.split()!r} if name in sys.modules], file=sys.stderr)"
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code, str(home)],
        input=b'{"prompt": "where do chains come from?"}',
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == b"[]\n"
    assert len(memory.requests) == 1
