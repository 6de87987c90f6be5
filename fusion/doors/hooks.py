"""The hooks of Claude Code and of openclaw-cortex: recall before a prompt, capture after a turn.

    echo '{"prompt": "why did we leave SQLite?", "cwd": "/home/ada/hjul"}' | fusion hook user-prompt-submit

A memory must never hold up an agent. When anything fails, a hook prints one JSON object of the documented shape, says
in one line on stderr what failed, and exits with 0 in time. With a running server it imports nothing heavy. A prompt
waits at most 200 ms for its memories (`[hooks] recall_timeout_ms`), and then goes on without them.

Scope: a question names no session, agent or run as whose memories it reads. Those filter, and the memories of *other*
sessions help; its own session is in the prompt already. The session is named as the asker: what was shown in it is not
shown again while it is in the context, which begins anew when a session starts or is compacted. The project, the folder
in which the session began, boosts. ``--user`` filters, for a home that several people share. Without it, a hook
in such a home reads what it stores there: the memories of no user.

Capture reads the session's transcript with `fusion.sources.sessions` from the bookmark of the last call, with the same
turns, keys and bookmarks as `fusion ingest ~/.claude/projects`. So no turn is kept twice, and each hook catches up on
what an earlier one could not keep.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, cast

from fusion import local_server
from fusion.doors.hook_calls import UNKNOWN, record
from fusion.doors.pause import is_paused
from fusion.doors.terminal import plain
from fusion.errors import BadInput, FusionError, HomeGone, NobodyNamed, NotFound, ServerUnreachable, SettingsError
from fusion.home import locate_home, missing_home
from fusion.lib.clean import clean
from fusion.lib.envelope import said, without_own_block, without_private, without_wrappers
from fusion.lib.lazy_pattern import lazy_pattern
from fusion.settings_table import setting
from fusion.trust import require

if TYPE_CHECKING:
    from fusion import wire
    from fusion.client import Client
    from fusion.contract import Kind
    from fusion.ingest.intake import NewMemory
    from fusion.lib.observation import NewObservation
    from fusion.sources.bookmarks import Bookmarks

MAX_INPUT_BYTES = 16 << 20
"""maximum bytes of a hook's input, which contains the last reply of the assistant"""
MIN_PROMPT_CHARS = 5
"""minimum characters of a prompt that is a question; shorter ones ask nothing: yes, ok, go"""
MAX_PROMPT_CHARS = 32_000
"""characters of the longest query that the server accepts; it searches by the first and last 2,000"""
STDIN_S = 10.0
"""seconds to wait for the end of stdin"""
ANSWER_S = 3.0
"""seconds to wait for an answer; the deadline of the recipe `hook` is 0.2"""
RECALL_MS = 200
"""milliseconds that a prompt waits for its memories, unless `[hooks]` says otherwise"""
SERVERS_SHARE = 0.75
"""share of that time that the server has for its answer, if it is less than the recipe's; the rest is the hook's own"""
RECIPE_MS = 200
"""the deadline of the recipe `hook`"""
START_MS = 1000
"""milliseconds that a prompt must have for it to wait for a server that is started; with less it is not waited for"""
MAX_AGE_S = 0.1
"""seconds that a process has had before this module at most; the rest of an older process's age was not its start"""
MIN_HELLO_S = 0.05
"""seconds that a server has for its proof, however long this process took to start"""
CAPTURE_S = 20.0
"""seconds for the server to start, and for each batch to be kept; no person waits for these"""
TRANSCRIPT_LAG_S = 2.0
"""seconds for Claude Code to write the last reply into the transcript, which it does in the background"""
TAIL_BYTES = 1 << 18
"""bytes at the end of a transcript that are searched for the last reply"""
PROFILE_MS = 1500
"""milliseconds for recall at the start of a session, when the caches are cold"""
PROFILE_CHARS = 2000
PROFILE_MEMORIES = 4
PROFILE_DECISIONS = 12
"""decisions, rules and preferences that are listed at a session's start"""
ASKS_NOTHING = "is it"
"""stop words: the server searches nothing for them, and notes that the context of the session begins anew"""
PROFILE_PAGE = 100
PROFILE_PAGES = 3
"""pages of the newest memories that are looked through for them"""
PROFILE_TURN_CHARS = 400
"""characters of a turn that states a decision; a longer one is a task or a text"""
DECIDED = frozenset({"decision", "plan"})
"""kinds that belong to their project"""
LASTING = frozenset({"rule", "preference"})
"""kinds that hold in every project if they belong to none"""
ENDED = frozenset({"ended_at", "merged_into", "conflict_status"})
"""fields of a state by which a memory may no longer hold"""
CONTEXT_TOKENS = 2000
"""tokens of the context of openclaw-cortex's hook, unless its caller or `[hooks]` says otherwise"""
MIN_CONTEXT_TOKENS = 60
"""tokens of the smallest block"""
MIN_SIDE_CHARS = 20
"""minimum characters of a side of a turn that openclaw-cortex's hook keeps"""
LIMITS = ("budget_chars", "budget_tokens", "max_results", "max_items", "format")
"""settings of `[hooks]` that are fields of a question"""

NEW_CONTEXT = frozenset({"startup", "clear", "compact"})
"""the sources of a session's start after which nothing that was shown earlier is in its context"""

_ZONE = lazy_pattern(r"UTC|[A-Za-z]+(?:/[A-Za-z0-9_+-]+)+")
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_SLASH_COMMAND = lazy_pattern(r"/[\w:.-]+(?:\s|\Z)")


_ClientCall = Callable[["Client", "dict[str, Any]"], "Mapping[str, Any]"]
"""makes a request, with this body, by a client"""


class HookCall(NamedTuple):
    """One call of a hook: its JSON input, the home, and the user whose memories it reads and writes."""

    payload: Mapping[str, Any]
    home: Path
    user: str | None = None
    before_prompt: bool = False
    """whether a prompt waits for the answer"""
    detached: bool = False
    """whether nothing waits for it"""

    @property
    def transcript(self) -> Path:
        """The transcript of the session; it may not exist."""
        return Path(self.text("transcript_path") or os.devnull)

    def text(self, name: str) -> str:
        """A field's text without invisible characters; "" if the field is missing or no text."""
        value = self.payload.get(name)
        return clean(value)[0] if isinstance(value, str) else ""

    @property
    def project(self) -> str | None:
        """The folder in which the session began; Claude Code's variable stays the same when ``cwd`` changes."""
        return project_of(os.environ.get("CLAUDE_PROJECT_DIR") or self.text("cwd"))

    def limits(self) -> dict[str, Any]:
        """What `[hooks]` of the home's settings or of the environment says of a block, by the names of a question.

        A prompt waits for this, so it does without `fusion.settings`, by which the server checks the settings.
        """
        given = {name: setting(self.home, "hooks", name) for name in LIMITS}
        limits = {name: value if name == "format" else _number(value) for name, value in given.items() if value}
        gate = str(setting(self.home, "hooks", "gate", True))
        return {**limits, "gate": False} if gate.casefold() in _FALSE else limits

    @property
    def paused(self) -> bool:
        """Whether this session or all of the home are paused (`fusion pause`)."""
        return is_paused(self.home, self.session)

    def recalls(self) -> bool:
        """Whether memories are recalled: the session is not paused, and `[memory_cortex] auto_recall` is on."""
        return not self.paused and self.is_on("auto_recall")

    def is_on(self, switch: str) -> bool:
        """Whether a switch of `[memory_cortex]` is on: auto_recall or auto_ingest."""
        return str(setting(self.home, "memory_cortex", switch, True)).casefold() not in _FALSE

    def captures_tools(self) -> bool:
        """Whether calls and results of tools are kept as observations: `[episodes] capture_tools`, off by default."""
        return str(setting(self.home, "episodes", "capture_tools", False)).casefold() in _TRUE

    def recall_ms(self) -> int:
        """Milliseconds that a prompt waits for its memories, from the start of this process on."""
        return _number(setting(self.home, "hooks", "recall_timeout_ms", RECALL_MS))

    def _deadline(self) -> dict[str, int]:
        """The server's own deadline for the block of a prompt, where the prompt waits shorter than the recipe takes."""
        most_ms = int(self.recall_ms() * SERVERS_SHARE)
        return {"timeout_ms": max(1, most_ms)} if most_ms < RECIPE_MS else {}

    def daily_log_chars(self) -> int | None:
        """The characters of the logs at a session's start in `[hooks]`; None if they are not set."""
        given = setting(self.home, "hooks", "daily_log_chars")
        return None if given is None else _number(given)

    def zone(self) -> str | None:
        """The time zone of this process, if it has one of its own and `[flush]` names none."""
        name = os.environ.get("TZ", "").removeprefix(":")
        if not name or setting(self.home, "flush", "zone"):
            return None
        return name if _ZONE.fullmatch(name) else None

    @property
    def session(self) -> str:
        """The id of the session in one line; "" if it is unknown."""
        return " ".join(self.text("session_id").split())[:256]

    @property
    def asker(self) -> dict[str, object] | None:
        """The session that asks; its context begins anew when it starts or was compacted, not when it is resumed."""
        if not self.session:
            return None
        asker: dict[str, object] = {"agent_id": "claude-code", "session_id": self.session}
        return {**asker, "new_context": True} if self.text("source") in NEW_CONTEXT else asker

    def block_for(self, question: str, **options: object) -> str:
        """The server's block for a question."""
        return str(self.fused(question, **options)["block"])

    def fused(self, question: str, **options: object) -> Mapping[str, Any]:
        """The server's answer to a question.

        A running server is asked on the connection on which it has proved itself. If none runs, or the home was
        replaced, the client starts one or waits for it.
        """
        options = {
            "query": question,
            "user_id": self.user,
            "project": self.project,
            "recipe": "hook",
            "asker": self.asker,
            **(self._deadline() if self.before_prompt else {}),
            **options,
        }
        request: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        return self._ask("/v1/fuse", request, lambda memory, body: memory.fuse(**body))

    def logs(self) -> str:
        """The block with today's and yesterday's logs; "" if there are none, or the settings leave them out."""
        budget_chars = self.daily_log_chars()
        if budget_chars == 0:
            return ""
        options = {"user_id": self.user, "zone": self.zone(), "budget_chars": budget_chars}
        request: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        return str(self._ask("/v1/tools/daily_logs", request, lambda memory, body: memory.daily_logs(**body))["block"])

    def _ask(self, path: str, request: dict[str, Any], call: _ClientCall) -> Mapping[str, Any]:
        """The server's reply to one request, for the memories of no user where several have memories."""
        try:
            return self._reply(path, request, call)
        except NobodyNamed:  # several users or agents have memories: what a hook keeps without --user has no user
            return self._reply(path, {**request, "user_id": ""}, call)

    def _reply(self, path: str, request: dict[str, Any], call: _ClientCall) -> Mapping[str, Any]:
        """The server's reply to one request; ``call`` makes it by a client, which starts a server.

        A prompt that has no time for that starts the server in the background. Raises ServerUnreachable for it.
        """
        with suppress(HomeGone):
            reply = local_server.ask(self.home, path, request, look_s=self._hello_s, answer_s=ANSWER_S)
            if reply is not None:
                return reply
        if self.before_prompt and self.recall_ms() < START_MS:
            _start_in_background(self)
            raise ServerUnreachable("no server runs yet: it is being started, and answers the next prompt")
        with self.server() as memory:
            return call(memory, request)

    @property
    def _hello_s(self) -> float:
        """Seconds for a server to prove that it is there; one that takes longer is dead, and is not waited for.

        The start of this process counts, because the host waits for that as well.
        """
        if self.detached:
            return CAPTURE_S
        return max(MIN_HELLO_S, local_server.hello_s(self.home) - min(_age_s(), MAX_AGE_S))

    @contextmanager
    def server(self, *, start_s: float | None = None, answer_s: float = ANSWER_S) -> Iterator[Client]:
        """A client of the home's server, which is started if none runs: ``start_s`` or the setting bounds the wait.

        Where the last one did not start, another is started in the background. Raises ServerUnreachable for it.
        """
        proven = local_server.greet(self.home, self._hello_s)
        if proven is None and (why := local_server.failed_start(self.home)):
            _start_in_background(self)
            raise ServerUnreachable(f"the last server did not start, and another try is under way: {why}")
        from fusion.client import client_of, ensure_connection  # slow to import: a dead server must cost less

        if proven is None and start_s is None:
            from fusion.settings import load  # slow to import: only where a server must be started, which is slower

            start_s = max(0.001, load(home=self.home).hooks.start_wait_ms / 1000)
        if proven is None:
            proven = ensure_connection(self.home, timeout_s=start_s or 0.0, hello_s=self._hello_s)
        proven.close()
        with client_of(self.home, proven, timeout_s=answer_s) as client:
            yield client


def project_of(folder: str) -> str | None:
    """The project of a folder: its name, as in the turns of a transcript. A home folder and a root are no projects."""
    path = Path(folder)
    return None if path == Path.home() else clean(path.name)[0].strip()[:256] or None


def _number(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise SettingsError("a limit in [hooks] is no number; `fusion doctor` names it") from None


# The work of each hook -----------------------------------------------------------------------------------------------


def recall(call: HookCall) -> str:
    """The block for a prompt; "" for a prompt that asks nothing."""
    question = question_of(call.text("prompt")) if call.recalls() else ""
    if not question or "agent_id" in call.payload:  # the agent that wrote a subagent's prompt has recalled already
        return ""
    return call.block_for(question, **call.limits())


def question_of(prompt: str) -> str:
    """The question in a prompt; "" for very short prompts, commands, heartbeats and others that no person typed."""
    if said(prompt, "user").unattended or _SLASH_COMMAND.match(prompt):
        return ""
    question = without_private(without_wrappers(without_own_block(prompt))).strip()
    if len(question) > MAX_PROMPT_CHARS:
        half = MAX_PROMPT_CHARS // 2
        question = question[:half] + question[-half:]
    return question if len(question) >= MIN_PROMPT_CHARS else ""


def profile(call: HookCall) -> str:
    """The blocks for the beginning of a session: what was decided in the project lately, and the daily logs.

    Where nothing was decided, it is a few memories of the project. It also starts the server. A session that is resumed
    has the logs in its context already.
    """
    if not call.recalls():
        return ""
    logs = "" if call.text("source") == "resume" else call.logs()
    decided = _decided(call)
    if decided and call.asker and "new_context" in call.asker:
        call.fused(ASKS_NOTHING)
    return "\n".join(filter(None, (logs, decided or _recalled(call))))


def _decided(call: HookCall) -> str:
    """The block with the latest decisions, rules and preferences of the project, newest first; "" for none.

    They are of the project because they were stored with it, however far they are from its name. Preferences and rules
    that belong to no project hold in each.
    """
    from fusion.lib.fence import cited, fenced

    limits = call.limits()
    budget = min(PROFILE_CHARS, limits.get("budget_chars", PROFILE_CHARS)) - len(fenced("x"))
    lines: list[str] = []
    for memory in _latest(call):
        line = cited(memory["ref"], f"{memory['at'][:10] + ' ' if memory['at'] else ''}{memory['text']}")
        if len(line) < budget and len(lines) < PROFILE_DECISIONS:
            lines.append(line)
            budget -= len(line) + 1
    return fenced("\n".join(lines))


def _latest(call: HookCall) -> Iterator[wire.StoredMemory]:
    """The decisions, rules and preferences among the newest memories, newest first, as they are now."""
    cursor: str | None = None
    with call.server() as memory:
        for _ in range(PROFILE_PAGES):
            page = memory.memories(limit=PROFILE_PAGE, cursor=cursor, user_id=call.user or "")
            for row in page["memories"]:
                if row["scope"].get("user_id") == call.user and _states_something(row, call.project):
                    found = memory.memory(row["ref"], user_id=call.user or "")
                    holds = found.get("current") and not ENDED & {*found.get("state", ())}
                    if holds and found["trust"] in ("trusted", "unknown"):
                        yield row
            cursor = page["next_cursor"]
            if cursor is None:
                return


def _states_something(row: wire.StoredMemory, project: str | None) -> bool:
    """Whether a memory is a decision or a plan of a project, or a rule or a preference of that or of every project.

    Of turns only those count that a person wrote, and that are no text to work on.
    """
    from fusion.lib.grading import kind_of

    if row["kind"] == "turn" and (row["speaker"] != "user" or len(row["text"]) > PROFILE_TURN_CHARS):
        return False
    kind, belongs_to = kind_of(row["text"], cast("Kind", row["kind"])), row["scope"].get("project")
    return belongs_to == project if kind in DECIDED else kind in LASTING and belongs_to in (project, None)


def _recalled(call: HookCall) -> str:
    """The block with a few memories of the project, for a home in which nothing was decided."""
    topics = "decisions, preferences, rules and plans"
    limits = call.limits()
    limits["budget_chars"] = min(PROFILE_CHARS, limits.get("budget_chars", PROFILE_CHARS))
    limits["max_results"] = min(PROFILE_MEMORIES, limits.get("max_results", PROFILE_MEMORIES))
    question = f"{call.project}: {topics}" if call.project else f"My {topics}"
    return call.block_for(question, timeout_ms=PROFILE_MS, **{**limits, "gate": False, "fill": True})


def capture(call: HookCall) -> None:
    """Remember what was said since the last call, unless another hook makes the assistant continue its turn."""
    if call.payload.get("stop_hook_active") is True:
        return
    reply = call.payload.get("last_assistant_message")
    text = said(call.text("last_assistant_message"), "assistant").text
    if not text or (call.transcript.is_file() and _is_written(call.transcript, str(reply))):
        capture_transcript(call)
    else:
        capture_transcript(call, [_reply(call, text)])


def capture_transcript(call: HookCall, more: Sequence[NewMemory] = ()) -> None:
    """Remember the new turns of the session's transcript and then ``more``, in order, in batches."""
    if not call.is_on("auto_ingest"):
        return

    if not more and not call.transcript.is_file():
        return
    if call.paused:
        _read_past(call)
        return
    with call.server(start_s=CAPTURE_S, answer_s=CAPTURE_S) as memory:
        _send_new(call, memory, more)


def _send_new(call: HookCall, memory: Client, more: Sequence[NewMemory]) -> None:
    """Send what the transcript has behind its bookmark, and then ``more``."""
    from itertools import chain

    from fusion.contract import Scope
    from fusion.doors.memory_batches import batches
    from fusion.sources.bookmarks import Bookmarks
    from fusion.sources.files import Skip
    from fusion.sources.readers import read_session
    from fusion.trust.token import reader_key

    whose = Scope(user_id=call.user)
    bookmarks = Bookmarks(call.home, whose)
    reader = reader_key(call.home)
    seen: list[NewObservation] = []
    observe = seen.append if call.captures_tools() else None
    there = call.transcript.is_file()
    turns = read_session(call.transcript, whose, bookmarks=bookmarks, observe=observe) if there else ()
    kept = (turn for turn in turns if not isinstance(turn, Skip))
    for batch in batches(chain(kept, _unless_unkept(call.transcript, bookmarks, more))):
        _send(memory, batch, reader)
        _send_observed(memory, seen)
        bookmarks.commit()
    _send_observed(memory, seen)
    bookmarks.commit()


def _unless_unkept(transcript: Path, bookmarks: Bookmarks, replies: Sequence[NewMemory]) -> Iterator[NewMemory]:
    """The replies that a transcript lacks, unless it ends with a prompt whose answer is not kept."""
    mark = bookmarks.latest(str(transcript.parent.resolve() / transcript.name))  # as `read_session` names it
    if mark is None or not mark.unattended:
        yield from replies


def _read_past(call: HookCall) -> None:
    """Move the bookmark of the transcript to its end: what is said while memory is paused is never remembered."""
    from fusion.contract import Scope
    from fusion.sources.bookmarks import Bookmarks
    from fusion.sources.readers import read_session

    whose = Scope(user_id=call.user)
    bookmarks = Bookmarks(call.home, whose)
    for _ in read_session(call.transcript, whose, bookmarks=bookmarks) if call.transcript.is_file() else ():
        pass
    bookmarks.commit()


def _send(memory: Client, batch: Sequence[NewMemory], reader: str | None) -> None:
    """Send a batch. A refused batch is halved until the refused turn is alone; that turn is left out."""
    from fusion.doors.memory_batches import check_version, wire_form

    try:
        memory.remember([wire_form(turn) for turn in batch], reader=reader)
    except (BadInput, NotFound) as error:
        check_version(error)
        if len(batch) == 1:
            write_line(2, _notice(f"a turn was refused: {error}"))
            return
        half = len(batch) // 2
        _send(memory, batch[:half], reader)
        _send(memory, batch[half:], reader)


def _send_observed(memory: Client, seen: list[NewObservation]) -> None:
    """Send observations in batches, and empty the list. One that is refused is left out alone."""
    from fusion.doors.memory_batches import episode_batches, episode_form

    taken, seen[:] = seen[:], []
    for batch in episode_batches(taken):
        try:
            memory.append_episodes([episode_form(one) for one in batch])
        except BadInput as error:
            if len(batch) == 1:
                write_line(2, _notice(f"an observation was refused: {error}"))
                continue
            for one in batch:
                _send_observed(memory, [one])


def observe_tool(call: HookCall) -> None:
    """Keep the call of one tool, and its result once there is one, as observations: if the settings say so.

    Without a server nothing is started: the hooks that read the transcript find both there.
    """
    if not call.captures_tools() or not call.session or call.paused or not call.is_on("auto_ingest"):
        return
    from datetime import UTC, datetime

    from fusion.client import client_of
    from fusion.contract import Scope
    from fusion.sources.tool_events import ToolEvents

    proven = local_server.greet(call.home, call._hello_s)
    if proven is None:
        return
    proven.close()
    scope = Scope(user_id=call.user, session_id=call.session, project=call.project, audience="private")
    events = ToolEvents(scope, f"claude-code:{call.session}")
    tool, at = call.text("tool_name"), datetime.now(UTC)
    use = call.text("tool_use_id") or _digest_of(call.payload)
    seen = [*events.called(use, tool, call.payload.get("tool_input"), at)]
    if "tool_response" in call.payload:
        seen += events.returned(use, tool, call.payload["tool_response"], at)
    with client_of(call.home, proven, timeout_s=ANSWER_S) as memory:
        _send_observed(memory, seen)


def _digest_of(payload: Mapping[str, Any]) -> str:
    """The id of a tool's call that has none: that of its words, so that a repeated hook changes nothing."""
    from hashlib import blake2b

    said = [payload.get(name) for name in ("session_id", "tool_name", "tool_input", "tool_response")]
    return blake2b(json.dumps(said, sort_keys=True).encode(), digest_size=16).hexdigest()


def _is_written(transcript: Path, reply: str) -> bool:
    """Whether the transcript contains the end of the last reply; waits up to `TRANSCRIPT_LAG_S` for it.

    Only the last line is compared, because a reply may be written in parts. If an earlier turn has the same line, the
    next hook captures this reply: late is better than twice.
    """
    end = reply.rstrip().rpartition("\n")[2][-80:]
    forms = [json.dumps(end, ensure_ascii=plain)[1:-1].encode("utf-8", "replace") for plain in (False, True)]
    deadline = time.monotonic() + TRANSCRIPT_LAG_S
    while True:
        with transcript.open("rb") as file:
            file.seek(max(0, transcript.stat().st_size - TAIL_BYTES))
            tail = file.read()
        if any(form in tail for form in forms):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def _reply(call: HookCall, text: str) -> NewMemory:
    """The last reply of a session as a memory, if the transcript lacks it. Its revision makes it idempotent."""
    from datetime import UTC, datetime

    from fusion.contract import Moment, Scope
    from fusion.ingest.intake import NewMemory
    from fusion.lib.words import content_hash

    session = call.text("session_id")
    if not session:
        raise BadInput("there is neither a transcript nor a session_id: nothing says which session this is")
    return NewMemory(
        text=text,
        scope=Scope(user_id=call.user, session_id=session, project=call.project, audience="private"),
        kind="turn",
        speaker="assistant",
        at=Moment(datetime.now(UTC)),
        source=f"claude-code:{session}",
        revision=f"reply:{content_hash(text)}",
        origin="agent",
    )


# The hooks of openclaw-cortex ----------------------------------------------------------------------------------------


def pre(call: HookCall) -> Mapping[str, Any] | None:
    """openclaw-cortex's hook before a turn: the context for a message, from all memories."""
    from fusion.lib.budget import MAX_BUDGET_TOKENS, estimate_tokens

    question = question_of(call.text("message") or call.text("prompt"))
    if not question:
        return None
    given = call.payload.get("token_budget")
    limits = {"budget_tokens": CONTEXT_TOKENS, **call.limits(), "format": "cortex"}
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        limits["budget_tokens"] = min(max(given, MIN_CONTEXT_TOKENS), MAX_BUDGET_TOKENS)
    session = call.session
    asker = {"session_id": session} if session else None
    fused = call.fused(question, project=call.text("project").strip()[:256] or call.project, asker=asker, **limits)
    return {
        "context": fused["block"],
        "memory_count": sum(len(excerpt["members"]) for excerpt in fused["memories"]),
        "tokens_used": estimate_tokens(fused["block"]),
    }


def post(call: HookCall) -> Mapping[str, Any]:
    """openclaw-cortex's hook after a turn: remembers both sides. The same turn of a session is kept once."""
    from datetime import UTC, datetime

    from fusion.contract import Moment, Scope
    from fusion.doors.memory_batches import wire_form
    from fusion.ingest.intake import NewMemory
    from fusion.lib.words import content_hash

    user = said(call.text("user_message"), "user")
    assistant = said(call.text("assistant_message") or call.text("last_assistant_message"), "assistant")
    exchange = content_hash(f"{user.text}\0{assistant.text}")
    now = Moment(datetime.now(UTC))
    project = call.text("project").strip()[:256] or call.project
    turns = [
        NewMemory(
            text=one.text,
            scope=Scope(user_id=call.user, session_id=call.session or None, project=project, audience="private"),
            kind="turn",
            speaker=who,
            at=now,
            source=f"openclaw-cortex:{call.session}",
            revision=f"{who}:{exchange}",
            origin="owner" if who == "user" else "agent",
        )
        for who, one in (("user", user), ("assistant", assistant))
        if len(one.text) >= MIN_SIDE_CHARS and not user.whole_exchange
    ]
    if not turns:
        return {"stored": False}
    with call.server(start_s=CAPTURE_S, answer_s=CAPTURE_S) as memory:
        kept = memory.remember([wire_form(turn) for turn in turns])["memories"]
    return {"stored": any(one["status"] in ("stored", "superseded", "duplicate") for one in kept)}


class Hook(NamedTuple):
    """One hook: the name of its event in Claude Code, its function, and its time limit."""

    event: str
    run: Callable[[HookCall], str | Mapping[str, Any] | None]
    limit_s: float
    before_prompt: bool = False
    """whether a prompt waits for it: then `[hooks] recall_timeout_ms` is its time limit, too"""

    context: bool = False
    """whether it adds context for the model; the others answer with an empty object"""
    detached: bool = False
    """whether it answers at once and works in a process of its own, which outlives its caller"""
    needs: tuple[str, ...] = ()
    """fields of its input, one of which must be a text"""

    nothing: Mapping[str, Any] = MappingProxyType({})
    """the answer of a hook without context when it has done nothing"""

    def answer(self, result: str | Mapping[str, Any] | None) -> dict[str, Any]:
        """The JSON that the caller reads: for a text, that of Claude Code."""
        if isinstance(result, Mapping):
            return dict(result)
        if not self.context:
            return dict(self.nothing)
        return {"hookSpecificOutput": {"hookEventName": self.event, "additionalContext": result or ""}}


HOOKS: Mapping[str, Hook] = {
    "user-prompt-submit": Hook("UserPromptSubmit", recall, 15, before_prompt=True, context=True, needs=("prompt",)),
    "session-start": Hook("SessionStart", profile, 15, context=True),
    "pre-tool-use": Hook("PreToolUse", observe_tool, 10, detached=True),
    "post-tool-use": Hook("PostToolUse", observe_tool, 10, detached=True),
    "stop": Hook("Stop", capture, 55, needs=("transcript_path", "last_assistant_message")),
    "pre-compact": Hook("PreCompact", capture_transcript, 55, needs=("transcript_path",)),
    # Claude Code gives a plugin 1.5 seconds here, whichever timeout the plugin asks for, and then exits.
    "session-end": Hook("SessionEnd", capture_transcript, 120, detached=True, needs=("transcript_path",)),
}

CORTEX_HOOKS: Mapping[str, Hook] = {
    "pre": Hook("pre", pre, 15, before_prompt=True, nothing={"context": "", "memory_count": 0, "tokens_used": 0}),
    "post": Hook("post", post, 55, nothing={"stored": False}),
}
"""the hooks of openclaw-cortex, with its JSON on stdin and stdout"""

_ALL: Mapping[str, Hook] = {**HOOKS, **CORTEX_HOOKS}


# Running a hook ------------------------------------------------------------------------------------------------


class _TooLate(BaseException):
    """The time limit of a hook is over. No ``Exception``, so that code that tolerates failures does not catch it."""


def main(arguments: Sequence[str]) -> None:
    """Run one hook: JSON on stdin, JSON on stdout. It never raises, because a hook always exits with 0."""
    name = arguments[0] if arguments else ""
    hook = _ALL.get(name)
    answer = hook.answer("") if hook else {}
    call, notice = None, ""
    try:
        if hook is None:
            call = _unknown_call(name, arguments[1:])
            raise BadInput(f"there is no such hook; there are {', '.join(_ALL)}")
        with limit(STDIN_S):
            call = read_call(arguments[1:])
        call = call._replace(before_prompt=hook.before_prompt, detached=hook.detached)
        if hook.detached and not _detach(call.home, answer):
            return
        _check_shape(hook, call)
        with limit(min(hook.limit_s, _left_s(call)) if hook.before_prompt else hook.limit_s):
            answer = hook.answer(hook.run(call))
    except BaseException as error:  # noqa: BLE001 — no failure of memory may hold up an agent
        notice = _notice(_why(error))
        write_line(2, notice)
        if hook is not None and hook.event == "SessionStart":
            answer["systemMessage"] = notice  # shown to the user once a session
    write_line(1, json.dumps(answer))
    if call is not None:
        record(call.home, name if hook else UNKNOWN, notice)


def _unknown_call(name: str, options: Sequence[str]) -> HookCall | None:
    """The call of a hook that does not exist, to be recorded; None if nothing says where, and for a person's own."""
    with suppress(FusionError, OSError, ValueError), limit(STDIN_S):
        return read_call(options) if name else None
    return None


def _check_shape(hook: Hook, call: HookCall) -> None:
    """Raise BadInput for an input that lacks what the hook reads, as that of a later version of the host may.

    A host that gives null says that there is none.
    """
    given = [call.payload[name] for name in hook.needs if name in call.payload]
    if hook.needs and not any(isinstance(one, str | None) for one in given):
        fields = " or ".join(hook.needs)
        raise BadInput(f"the input has no text {fields}: has the host changed its hooks? See `fusion doctor`")


def _left_s(call: HookCall) -> float:
    """Seconds that a prompt still waits; never 0, which would be no limit."""
    return max(0.001, call.recall_ms() / 1000 - min(_age_s(), MAX_AGE_S))


def _age_s() -> float:
    """Seconds since this process was started; where Linux does not say that, the CPU time that it has used."""
    try:
        started = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - int(started) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError, AttributeError):
        return time.process_time()


def _why(error: BaseException) -> str:
    if isinstance(error, _TooLate):
        return "it took too long"
    return str(error) if isinstance(error, FusionError) else f"{type(error).__name__}: {error}"


def _notice(what: str) -> str:
    return f"fusion hook: {' '.join(plain(what).split())}"[:500]


def _detach(home: Path, answer: Mapping[str, Any]) -> bool:
    """Answer, and continue in a child process, where this returns True; the child logs its errors into the home's log.

    The child keeps no descriptor open that the caller could wait for.
    """
    if os.fork():
        write_line(1, json.dumps(answer))
        return False
    _leave_caller(home)
    return True


def _start_in_background(call: HookCall) -> None:
    """Start the server of a home from a child process, for the next prompt; the child logs its errors."""
    if os.fork():
        return
    try:
        _leave_caller(call.home)
        from fusion.client import ensure_connection

        with limit(CAPTURE_S):
            ensure_connection(call.home, timeout_s=CAPTURE_S).close()
    except BaseException as error:  # noqa: BLE001 — this process ends here, whatever happened
        write_line(2, _notice(_why(error)))
    finally:
        os._exit(0)


def _leave_caller(home: Path) -> None:
    """Become a session of its own, without the caller's descriptors; errors go to the home's log."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):  # before the imports: a caller waits for the end of what it reads
        os.dup2(null, descriptor)
    from fusion.client import open_log

    with suppress(OSError, FusionError):
        os.dup2(open_log(home), 2)


def read_call(options: Sequence[str]) -> HookCall:
    """Read the call from the options and stdin.

    Raises BadInput, SettingsError for a named home that does not exist, and HomeNotAllowed before the home is opened.
    """
    home, user = _options(options)
    payload = _payload()
    cwd = payload.get("cwd")
    inside = Path(cwd) if isinstance(cwd, str) and Path(cwd).is_absolute() else None
    located = locate_home(home, cwd=inside)
    if located.named and not located.path.is_dir():
        raise missing_home(located.path)
    return HookCall(payload, require(located.path, named=located.named), user)


def _options(given: Sequence[str]) -> tuple[Path | None, str | None]:
    """The values of --home and --user. A parser is imported only for other forms than option, value, option, value."""
    names, values = given[::2], given[1::2]
    if len(names) == len(values) and {*names} <= {"--home", "--user"} and not any(v.startswith("-") for v in values):
        named = dict(zip(names, values, strict=True))
        return Path(named["--home"]) if "--home" in named else None, named.get("--user")
    from argparse import ArgumentParser

    class Parser(ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise BadInput(message)

    parser = Parser(prog="fusion hook", add_help=False)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--user")
    chosen = parser.parse_args(given)
    return chosen.home, chosen.user


def _payload() -> Mapping[str, Any]:
    """The JSON object on stdin. All input is read, so that its writer gets no SIGPIPE; at most the limit is kept."""
    kept = bytearray()
    size = 0
    with suppress(OSError):  # closed stdin counts as empty
        while chunk := os.read(0, 1 << 16):
            size += len(chunk)
            if size <= MAX_INPUT_BYTES:
                kept += chunk
    if size > MAX_INPUT_BYTES:
        raise BadInput(f"stdin has {size:,} bytes; {MAX_INPUT_BYTES:,} are read")
    try:
        payload = json.loads(kept.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise BadInput("stdin has no JSON: pipe in the input that Claude Code gives a hook") from None
    if not isinstance(payload, dict):
        raise BadInput("stdin has JSON, but no object")
    return payload


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise _TooLate in the block when its time is over, also while it waits."""

    def ring(number: int, frame: object) -> None:
        raise _TooLate

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def write_line(descriptor: int, line: str) -> None:
    """Write one line without a buffer: a closed stdout must not become an exit code at the end."""
    data = line.encode("utf-8", "replace") + b"\n"
    with suppress(OSError):
        while data:
            data = data[os.write(descriptor, data) :]
