"""Claude Code's hooks as it runs them: child processes with JSON on stdin, over fake and real homes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from benchmarks.bad_servers import WAYS, Way, bad_server
from fusion.client import ensure_server
from fusion.contract import Asker
from fusion.doors.hooks import (
    HOOKS,
    MAX_INPUT_BYTES,
    MAX_PROMPT_CHARS,
    HookCall,
    _TooLate,
    limit,
    project_of,
    question_of,
    recall,
)
from fusion.errors import NobodyNamed
from fusion.home import HomeLock
from fusion.recall.engine import Fused, FuseRequest
from fusion.trust import allow
from tests.doors.claude_hooks import (
    BLOCK,
    END,
    EVENTS,
    SPEAKING,
    command,
    context,
    hook,
    is_silent,
    memory,
    plugin_hooks,
    real,
)
from tests.doors.fakes import FakeFusion, serving_home

__all__ = ["memory", "real"]  # fixtures


class TestRecall:
    @pytest.mark.row("A051", "A154", "Claude Code: a prompt gets its block, in the documented shape")
    async def test_prompt_hook_returns_block_in_documented_shape(
        self, memory: FakeFusion, home: Path, tmp_path: Path
    ) -> None:
        """The block goes into additionalContext as it is; the question names the project and filters by nothing."""
        payload = {"prompt": "where do chains come from?", "session_id": "s1", "cwd": str(tmp_path / "hjul")}
        printed, notice = await asyncio.to_thread(hook, "user-prompt-submit", payload, "--home", home)
        assert context("user-prompt-submit", printed) == "<memory>[m1z] We move to Postgres in April.</memory>"
        assert notice == ""
        [asked] = memory.requests
        assert (asked.query, asked.recipe) == ("where do chains come from?", "hook")
        assert asked.scope.project == "hjul"
        assert asked.scope.named() == {}  # a session that filtered would hide what all other sessions know
        assert asked.asker == Asker("claude-code", "s1")

    async def test_prompt_hook_filters_by_user_option(self, memory: FakeFusion, home: Path) -> None:
        """--user filters by that user."""
        payload = {"prompt": "where do chains come from?"}
        await asyncio.to_thread(hook, "user-prompt-submit", payload, "--home", home, "--user", "ada")
        assert memory.requests[0].scope.named() == {"user_id": "ada"}

    async def test_prompt_hook_reads_what_has_no_user_where_several_users_have_memories(self, home: Path) -> None:
        """Without --user it stores memories without a user, so these are its own; it mixes in no user's."""

        class Several(FakeFusion):
            async def fuse(self, request: str | FuseRequest, **fields: Any) -> Fused:
                if isinstance(request, FuseRequest) and request.scope.user_id is None:
                    raise NobodyNamed("Several users have memories here: ada, ben.", {"users": ["ada", "ben"]})
                return await super().fuse(request, **fields)

        fusion = Several()
        async with serving_home(home, fusion):
            asked = {"prompt": "where do chains come from?"}
            printed, notice = await asyncio.to_thread(hook, "user-prompt-submit", asked, "--home", home)
        assert "We move to Postgres" in context("user-prompt-submit", printed)
        assert notice == ""
        assert [request.scope.user_id for request in fusion.requests] == [""]

    @pytest.mark.row(
        "A158", "short prompts, slash commands, heartbeats, scheduled runs and subagents are not looked up"
    )
    @pytest.mark.parametrize(
        "prompt",
        [
            "",
            "yes",
            " ok! ",
            "\u200b" * 50,
            "/compact",
            "/deploy staging now",
            "/plugin:command with words",
            "[cron:daily] Summarise the inbox.",
            "Read HEARTBEAT.md if it exists. If nothing needs attention, reply HEARTBEAT_OK.",
            "<private>what do chains cost?</private>",
            BLOCK + END,
        ],
    )
    async def test_prompt_hook_ignores_prompts_that_ask_nothing(
        self, memory: FakeFusion, home: Path, prompt: str
    ) -> None:
        """Very short prompts, commands, scheduled runs, what is private: no context, and the server hears nothing."""
        printed, notice = await asyncio.to_thread(hook, "user-prompt-submit", {"prompt": prompt}, "--home", home)
        assert is_silent("user-prompt-submit", printed)
        assert notice == ""
        assert memory.requests == []

    @pytest.mark.parametrize(
        "prompt",
        [
            pytest.param(
                "```python\n" + "rows = [int(x) for x in line]\n" * 4_000 + "```\nwhat are chains?", id="code"
            ),
            pytest.param("ዳቦ ቤቱ መቼ ዝግ ነው", id="unknown script"),
            pytest.param("🙂🦄" * 9_000, id="emoji"),
            pytest.param("why \ud800\x00 \u202e?", id="broken characters"),
            pytest.param("x" * 2_000_000, id="one word"),
        ],
    )
    @pytest.mark.feature("the prompt hook answers prompts that are huge, code or in an unknown script")
    async def test_prompt_hook_sends_the_ends_of_any_prompt(self, memory: FakeFusion, home: Path, prompt: str) -> None:
        """What the server takes of it, begun and ended as it was typed, and the block is printed as always."""
        printed, notice = await asyncio.to_thread(hook, "user-prompt-submit", {"prompt": prompt}, "--home", home)
        assert (context("user-prompt-submit", printed)[:8], notice) == ("<memory>", "")
        [asked] = memory.requests
        typed = prompt.encode(errors="replace").decode()
        assert len(asked.query) <= min(len(prompt), MAX_PROMPT_CHARS)
        assert (asked.query[:3], asked.query[-1]) == (typed[:3], typed[-1])

    async def test_prompt_hook_ignores_subagents(self, memory: FakeFusion, home: Path) -> None:
        """The agent that wrote it has recalled already."""
        payload = {"prompt": "where do chains come from?", "agent_id": "a1", "agent_type": "Explore"}
        printed, _ = await asyncio.to_thread(hook, "user-prompt-submit", payload, "--home", home)
        assert is_silent("user-prompt-submit", printed)
        assert memory.requests == []

    @pytest.mark.row("A157", "the gateway's own block is not part of a question")
    def test_question_of_removes_our_own_block(self) -> None:
        """Whole, cut off at its end, cut off at its beginning; what was typed around it is asked."""
        ask = "where do chains come from?"
        assert question_of(f"{BLOCK}{END}\n{ask}") == ask
        assert question_of(f"{ask}\n{BLOCK[:-9]}") == ask
        assert question_of(f"from Kedjan.\n[m2z] Chains are dear.\n{END}\n{ask}") == ask
        assert question_of(f"why does {END} come twice here?") == f"why does {END} come twice here?"
        assert question_of(f"<system-reminder>\nBe brief.\n</system-reminder>\n{ask}") == ask

    def test_question_of_keeps_a_path_that_looks_like_a_command(self) -> None:
        """A slash command is one word behind one slash."""
        assert question_of("/etc/hosts: why is it empty?") == "/etc/hosts: why is it empty?"

    def test_question_of_shortens_a_long_prompt_to_its_ends(self) -> None:
        """100,000 characters become 32,000: the server takes no more, and searches by the first and last 2,000."""
        prompt = "why does it fail? " + "x" * 100_000 + " the end"
        asked = question_of(prompt)
        assert len(asked) == MAX_PROMPT_CHARS
        assert asked[:2000] == prompt[:2000]
        assert asked[-2000:] == prompt[-2000:]

    @pytest.mark.row("A155", "`[hooks]` bounds the blocks of the hooks, also in tokens, and names their format")
    async def test_hooks_take_their_limits_from_the_settings(self, memory: FakeFusion, home: Path) -> None:
        """Of the home or of the environment; a session's start keeps its own limits where these are smaller."""
        settings = '[hooks]\nbudget_tokens = 300\nmax_results = 6\nmax_items = 5\nformat = "cortex"\nbudget_chars = 0\n'
        (home / "fusion.toml").write_text(settings, encoding="utf-8")
        allow(home)
        payload = {"prompt": "where do chains come from?"}
        _, notice = await asyncio.to_thread(hook, "user-prompt-submit", payload, "--home", home)
        assert notice == ""
        await asyncio.to_thread(hook, "session-start", payload, "--home", home)
        named = {**os.environ, "FUSION_HOOKS__BUDGET_TOKENS": "200", "FUSION_HOOKS__BUDGET_CHARS": "900"}
        await asyncio.to_thread(hook, "user-prompt-submit", payload, "--home", home, environment=named)
        prompt, start, by_environment = memory.requests
        assert (prompt.budget_chars, prompt.budget_tokens, prompt.max_results) == (None, 300, 6)
        assert (start.budget_chars, start.budget_tokens, start.max_results) == (2000, 300, 4)
        assert {(asked.max_items, asked.format) for asked in memory.requests} == {(5, "cortex")}
        assert (by_environment.budget_chars, by_environment.budget_tokens) == (900, 200)

    async def test_gate_is_turned_off_by_setting_or_environment(
        self, memory: FakeFusion, home: Path, tmp_path: Path
    ) -> None:
        """A prompt is gated unless a setting says otherwise; the block at the start of a session is neither gated nor
        cut, since its question has no answer."""
        payload = {"prompt": "where do chains come from?", "cwd": str(tmp_path / "hjul")}
        await asyncio.to_thread(hook, "user-prompt-submit", payload, "--home", home)
        await asyncio.to_thread(hook, "session-start", payload, "--home", home)
        named = {**os.environ, "FUSION_HOOKS__GATE": "false"}
        await asyncio.to_thread(hook, "user-prompt-submit", payload, "--home", home, environment=named)
        (home / "fusion.toml").write_text("[hooks]\ngate = false\n", encoding="utf-8")
        allow(home)
        await asyncio.to_thread(hook, "user-prompt-submit", payload, "--home", home)
        assert [asked.gate for asked in memory.requests] == [None, False, False, False]
        assert [asked.fill for asked in memory.requests] == [None, True, None, None]

    @pytest.mark.row("A099", "autoRecall and autoIngest off: prompts get no memories, and nothing is captured")
    async def test_recall_and_capture_are_turned_off_by_setting_or_environment(
        self, memory: FakeFusion, home: Path, tmp_path: Path
    ) -> None:
        payload = {"prompt": "where do chains come from?", "cwd": str(tmp_path / "hjul"), "session_id": "s1"}
        (home / "fusion.toml").write_text("[memory_cortex]\nauto_recall = false\nauto_ingest = false\n")
        allow(home)
        for event in ("user-prompt-submit", "session-start"):
            await asyncio.to_thread(hook, event, payload, "--home", home)
        reply = {"last_assistant_message": "Chains come from a shop in Bremen.", "session_id": "s1"}
        await asyncio.to_thread(hook, "stop", reply, "--home", home)
        assert (memory.requests, memory.kept) == ([], [])
        named = {**os.environ, "FUSION_MEMORY_CORTEX__AUTO_RECALL": "true"}
        await asyncio.to_thread(hook, "user-prompt-submit", payload, "--home", home, environment=named)
        assert len(memory.requests) == 1

    @pytest.mark.parametrize(
        ("table", "reason"),
        [
            ("[hooks]\nmax_items = 'many'\n", "a limit in [hooks] is no number"),
            ("[hooks]\nbudget_tokens = [1]\n", "a limit in [hooks] is no number"),
            ("[hooks\n", "is not TOML"),
        ],
    )
    async def test_a_wrong_limit_holds_up_no_prompt(
        self, memory: FakeFusion, home: Path, table: str, reason: str
    ) -> None:
        """One line names the settings, and the agent goes on without memories."""
        (home / "fusion.toml").write_text(table, encoding="utf-8")
        allow(home)
        payload = {"prompt": "where do chains come from?"}
        printed, notice = await asyncio.to_thread(hook, "user-prompt-submit", payload, "--home", home)
        assert is_silent("user-prompt-submit", printed)
        assert reason in notice
        assert memory.requests == []

    @pytest.mark.feature("a session starts with a few memories of its project")
    @pytest.mark.feature(
        "… at the start of a session, the hook recalls what matters of any day, within its budget",
        of="Markdown: the layout of a workspace",
    )
    async def test_session_start_hook_returns_memories_of_the_project(
        self, memory: FakeFusion, home: Path, tmp_path: Path
    ) -> None:
        """By the project's name; small, because nobody asked."""
        payload = {"source": "startup", "cwd": str(tmp_path / "hjul")}
        printed, _ = await asyncio.to_thread(hook, "session-start", payload, "--home", home)
        assert context("session-start", printed) == "<memory>[m1z] We move to Postgres in April.</memory>"
        [asked] = memory.requests
        assert asked.query.startswith("hjul: ")
        assert (asked.scope.project, asked.budget_chars, asked.max_results) == ("hjul", 2000, 4)

    @pytest.mark.row("A055", "a session starts with today's and yesterday's logs, where the host does not load them")
    async def test_session_start_hook_adds_the_daily_logs(self, memory: FakeFusion, home: Path) -> None:
        """Before what was recalled; not when a session is resumed, whose context has them, nor for other hooks."""
        memory.logs = f"{BLOCK}{END}"
        allow(home)
        for source in ("startup", "clear", "compact"):
            printed, notice = await asyncio.to_thread(hook, "session-start", {"source": source}, "--home", home)
            assert notice == ""
            recalled = "<memory>[m1z] We move to Postgres in April.</memory>"
            assert context("session-start", printed) == f"{BLOCK}{END}\n{recalled}"
        printed, _ = await asyncio.to_thread(hook, "session-start", {"source": "resume"}, "--home", home)
        assert context("session-start", printed) == recalled
        await asyncio.to_thread(hook, "user-prompt-submit", {"prompt": "where do chains come from?"}, "--home", home)
        assert len(memory.logs_asked) == 3

    @pytest.mark.feature("… `[hooks] daily_log_chars` bounds them, and 0 leaves them out", of="a session starts with t")
    async def test_daily_log_chars_bounds_the_logs(self, memory: FakeFusion, home: Path) -> None:
        """Of the settings or of the environment; --user filters the logs as it filters memories."""
        memory.logs = f"{BLOCK}{END}"
        (home / "fusion.toml").write_text("[hooks]\ndaily_log_chars = 900\n", encoding="utf-8")
        allow(home)
        await asyncio.to_thread(hook, "session-start", {}, "--home", home, "--user", "ada")
        [(scope, options)] = memory.logs_asked
        assert (scope.user_id, options["budget_chars"]) == ("ada", 900)
        without = {**os.environ, "FUSION_HOOKS__DAILY_LOG_CHARS": "0"}
        printed, _ = await asyncio.to_thread(hook, "session-start", {}, "--home", home, environment=without)
        assert END not in context("session-start", printed)
        assert len(memory.logs_asked) == 1

    @pytest.mark.feature("… today is that of the agent's zone, or of `[flush] zone`", of="a session starts with t")
    async def test_daily_logs_are_those_of_the_callers_day(self, memory: FakeFusion, home: Path) -> None:
        """TZ of the hook's process, if it names a zone; a zone in the settings is the user's, and holds everywhere."""
        allow(home)
        for zone, sent in (("Asia/Tokyo", "Asia/Tokyo"), (":UTC", "UTC"), ("CET-1", None), ("../x", None), ("", None)):
            environment = {**os.environ, "TZ": zone}
            await asyncio.to_thread(hook, "session-start", {}, "--home", home, environment=environment)
            assert memory.logs_asked[-1][1]["zone"] == sent
        (home / "fusion.toml").write_text('[flush]\nzone = "Europe/Berlin"\n', encoding="utf-8")
        allow(home)
        environment = {**os.environ, "TZ": "Asia/Tokyo"}
        await asyncio.to_thread(hook, "session-start", {}, "--home", home, environment=environment)
        assert memory.logs_asked[-1][1]["zone"] is None

    @pytest.mark.feature("a session that starts or was compacted is shown again what it was shown before")
    async def test_session_start_begins_a_new_context(self, memory: FakeFusion, home: Path) -> None:
        """A resumed session still has in its context what it was shown."""
        for source, begins_anew in (("startup", True), ("clear", True), ("compact", True), ("resume", False)):
            payload = {"source": source, "session_id": "s1\n"}
            await asyncio.to_thread(hook, "session-start", payload, "--home", home)
            assert memory.requests[-1].asker == Asker("claude-code", "s1", new_context=begins_anew)

    def test_project_of_is_the_name_of_the_folder(self) -> None:
        """As `fusion ingest` names it by a transcript's first line; somebody's home and a root are no projects."""
        for folder, project in [("/srv/hjul", "hjul"), ("/", None), ("", None), (str(Path.home()), None)]:
            assert project_of(folder) == project

    async def test_prompt_hook_keeps_project_after_cd(self, memory: FakeFusion, home: Path) -> None:
        """cwd follows `cd`; CLAUDE_PROJECT_DIR does not."""
        payload = {"prompt": "where do chains come from?", "cwd": "/srv/elsewhere"}
        environment = {**os.environ, "CLAUDE_PROJECT_DIR": "/srv/hjul"}
        await asyncio.to_thread(hook, "user-prompt-submit", payload, "--home", home, environment=environment)
        assert memory.requests[0].scope.project == "hjul"


class TestFailOpen:
    @pytest.mark.row(
        "A051",
        "a hook always exits 0: garbage, floods, unknown events, a home in use, broken settings, a dead or hanging "
        "server",
    )
    @pytest.mark.parametrize("event", EVENTS)
    @pytest.mark.parametrize(
        "payload",
        [
            b"",
            b"\xff\xfe\x00",
            b"{",
            b"[]",
            b"null",
            b'"a prompt"',
            b"[" * 100_000,
            b'{"prompt": 7, "cwd": [], "transcript_path": {}, "last_assistant_message": false}',
            b'{"prompt": "\\ud800\\udc", "cwd": "\\u0000"}',
            b'{"cwd": "\\ud800", "transcript_path": "/\\u0000", "prompt": "\\ud800"}',
            b'{"n": 1e400, "prompt": ""}',
        ],
        ids=range(11),
    )
    async def test_hook_answers_garbage_in_documented_shape(
        self, memory: FakeFusion, home: Path, event: str, payload: bytes
    ) -> None:
        """For any stdin: exit 0, one object of the event's shape, at most one line on stderr."""
        memory.text = ""
        printed, notice = await asyncio.to_thread(hook, event, payload, "--home", home)
        printed.pop("systemMessage", None)
        assert set(printed) <= {"hookSpecificOutput"}
        assert bool(printed) == (event in SPEAKING)
        assert len(notice.splitlines()) <= 1
        assert memory.kept == []

    @pytest.mark.parametrize("event", EVENTS)
    def test_hook_refuses_too_long_stdin(self, home: Path, event: str) -> None:
        """Its writer is not cut off, and the flood is not kept."""
        printed, notice = hook(event, b'{"prompt": "' + b"x" * MAX_INPUT_BYTES + b'"}', "--home", home)
        printed.pop("systemMessage", None)
        assert is_silent(event, printed)
        assert "are read" in notice

    @pytest.mark.parametrize("arguments", [["tool-use"], [""], ["stop", "--nope"], ["stop", "--home"]])
    def test_hook_exits_0_on_wrong_arguments(self, arguments: list[str]) -> None:
        """An unknown event of a later Claude Code, an option that is not ours: code 2 would block the agent."""
        printed, notice = hook(arguments[0], {}, *arguments[1:])
        assert printed == {}
        assert len(notice.splitlines()) == 1

    def test_hook_runs_through_the_command_line_parser(self, home: Path) -> None:
        """`fusion --help` shows it; reached through the command line's own parser it is no stricter."""
        code = "import sys; from fusion.doors.cli import main; main()"
        for arguments in (["hook", "stop", "--nope"], ["hook"], ["hook", "stop", "--home", str(home)]):
            done = subprocess.run(
                [sys.executable, "-c", code, *arguments], input=b"{}", capture_output=True, timeout=60, check=False
            )
            assert (done.returncode, done.stdout) == (0, b"{}\n")
        shown = subprocess.check_output([sys.executable, "-m", "fusion", "hook", "--help"], text=True, timeout=60)
        assert "pre-compact" in shown

    def test_hook_without_event_names_the_events(self) -> None:
        """`fusion hook` alone."""
        done = subprocess.run(
            [sys.executable, "-m", "fusion", "hook"], input=b"", capture_output=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout) == (0, b"{}\n")
        assert b"user-prompt-submit" in done.stderr

    @pytest.mark.parametrize("event", SPEAKING)
    def test_hook_names_the_process_that_has_the_home(self, home: Path, event: str) -> None:
        """Its owner is named in one line; a session's beginning tells its user as well."""
        with HomeLock.take(home, "fusion ingest --direct"):
            printed, notice = hook(event, {"prompt": "where do chains come from?"}, "--home", home)
        assert is_silent(event, printed)
        [line] = notice.splitlines()
        assert f"process {os.getpid()}" in line.replace("this process", f"process {os.getpid()}")
        assert "fusion ingest --direct" in line
        assert printed.get("systemMessage") == (line if event == "session-start" else None)

    @pytest.mark.feature("a hook that names a home which does not exist says so, and makes none")
    @pytest.mark.parametrize("event", EVENTS)
    @pytest.mark.parametrize("by", ["option", "variable"])
    def test_hook_refuses_a_named_home_that_does_not_exist(self, home: Path, event: str, by: str) -> None:
        """One line on stderr names the fix, the block is empty, and no home is made."""
        options = ["--home", home] if by == "option" else []
        environment = {**os.environ, **({} if options else {"FUSION_HOME": str(home)})}
        payload = {"prompt": "where do chains come from?", "session_id": "s1", "last_assistant_message": "From Kedjan."}
        printed, notice = hook(event, payload, *options, environment=environment)
        assert printed.pop("systemMessage", notice.strip()) == notice.strip()
        assert is_silent(event, printed)
        assert notice == f"fusion hook: there is no home {home}. To make one: fusion init --home {home}\n"
        assert not home.exists()

    @pytest.mark.parametrize("event", SPEAKING)
    def test_hook_names_the_wrong_setting(self, home: Path, event: str) -> None:
        """Told with the key that is wrong; no server is started for it."""
        home.mkdir()
        (home / "fusion.toml").write_text("[server]\nprot = 1\n")
        printed, notice = hook(event, {"prompt": "where do chains come from?"}, "--home", home)
        assert is_silent(event, printed)
        assert "server.prot" in notice
        assert not (home / "server.log").exists()

    async def test_hook_reports_a_server_error_on_stderr(self, memory: FakeFusion, home: Path) -> None:
        """Its error is a line on stderr, not the agent's."""
        memory.error = RuntimeError("the disk is on fire")
        printed, notice = await asyncio.to_thread(
            hook, "user-prompt-submit", {"prompt": "where do chains come from?"}, "--home", home
        )
        assert is_silent("user-prompt-submit", printed)
        assert len(notice.splitlines()) == 1

    @pytest.mark.parametrize("event", EVENTS)
    def test_hook_survives_impossible_paths(self, event: str) -> None:
        """A home below a file, a path that no system takes: errors that are none of ours hold nothing up either."""
        payload = {"prompt": "where do chains come from?", "transcript_path": "/" + "x" * 5000}
        printed, notice = hook(event, payload, "--home", "/dev/null/home")
        printed.pop("systemMessage", None)
        assert is_silent(event, printed)
        assert len(notice.splitlines()) == 1

    @pytest.mark.row(
        "A096", "A104", "a hook whose server does not answer in time prints nothing, and the agent continues"
    )
    async def test_hook_gives_up_on_a_hanging_server(self, memory: FakeFusion, home: Path) -> None:
        """The hook's own deadline cuts it, and the agent continues."""
        memory.hold = asyncio.Event()
        printed, notice = await asyncio.to_thread(
            hook, "user-prompt-submit", {"prompt": "where do chains come from?"}, "--home", home
        )
        assert is_silent("user-prompt-submit", printed)
        assert "did not answer in time" in notice

    @pytest.mark.row("A104", "a hook's own deadline ends every wait")
    def test_hook_time_limit_interrupts_any_wait(self) -> None:
        """A pipe that nobody closes blocks a read; the limit breaks into it, past `except Exception` and OSError."""
        reading, writing = os.pipe()

        def wait() -> None:
            try:
                os.read(reading, 1)
            except Exception:  # noqa: BLE001 — what the limit must get through
                pytest.fail("the limit was taken for a failure of the read")

        try:
            with pytest.raises(_TooLate), limit(0.01):
                wait()
        finally:
            os.close(reading)
            os.close(writing)

    def test_hook_exits_0_when_stdout_is_closed(self, home: Path) -> None:
        """Claude Code left: a closed stdout is no failure."""
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            command("stop", "--home", home), input=b"{}", stdout=writing, stderr=writing, timeout=60, check=False
        )
        os.close(writing)
        assert done.returncode == 0

    def test_hook_limits_are_below_plugin_timeouts(self) -> None:
        """What Claude Code would kill has ended by itself before: 15 of 20 seconds before a prompt."""
        for name, entry in plugin_hooks().items():
            assert HOOKS[name].limit_s < entry["timeout"] or HOOKS[name].detached, name


@pytest.mark.row(
    "A096",
    "a prompt goes on without memories after 200 ms if its server hangs, is dead, floods or trickles",
)
@pytest.mark.parametrize("way", [way for way in WAYS if way != "dead"])
def test_prompt_goes_on_without_a_bad_server(home: Path, way: Way) -> None:
    """On real sockets. The hook's own limit ends the wait: a longer one would end with another notice."""
    environment = {**os.environ, "FUSION_HOOKS__RECALL_TIMEOUT_MS": "200"}
    with bad_server(home, way):
        printed, notice = hook(
            "user-prompt-submit", {"prompt": "where do chains come from?"}, "--home", home, environment=environment
        )
    assert is_silent("user-prompt-submit", printed)
    assert len(notice.splitlines()) == 1
    if not way.startswith("flooding"):  # a flood may also end at its most bytes
        assert "it took too long" in notice


@pytest.mark.row("A096", "where the server is dead, a prompt does not wait for another, which answers the next prompt")
def test_prompt_goes_on_while_a_server_is_started(real: Path) -> None:
    """It is started in the background."""
    environment = {**os.environ, "FUSION_HOOKS__RECALL_TIMEOUT_MS": "900"}
    payload = {"prompt": "where do chains come from?"}
    os.kill(ensure_server(real).pid, signal.SIGKILL)
    printed, notice = hook("user-prompt-submit", payload, "--home", real, environment=environment)
    assert is_silent("user-prompt-submit", printed)
    assert "it is being started" in notice or "it took too long" in notice
    ensure_server(real)
    assert hook("user-prompt-submit", payload, "--home", real)[1] == ""


async def test_hook_of_cortex_goes_on_without_a_bad_server(home: Path) -> None:
    """With its own shape of nothing."""
    environment = {**os.environ, "FUSION_HOOKS__RECALL_TIMEOUT_MS": "200"}
    with bad_server(home, "hung"):
        printed, notice = await asyncio.to_thread(
            hook, "pre", {"message": "where do chains come from?"}, "--home", home, environment=environment
        )
    assert printed == {"context": "", "memory_count": 0, "tokens_used": 0}
    assert "it took too long" in notice


@pytest.mark.parametrize(("given", "asked"), [("200", 150), ("100", 75), ("266", 199), ("400", None), ("15000", None)])
async def test_prompt_leaves_the_server_less_time_than_it_has(
    memory: FakeFusion, home: Path, given: str, asked: int | None
) -> None:
    """So that an answer by the deadline is in time; a prompt that has more time asks for no less than the recipe's."""
    call = HookCall({"prompt": "where do chains come from?"}, home, before_prompt=True)
    with patch.dict(os.environ, FUSION_HOOKS__RECALL_TIMEOUT_MS=given):
        await asyncio.to_thread(recall, call)
    assert memory.requests[0].timeout_ms == asked
