"""Claude Code's hooks: recall before a prompt, capture after a turn.

    echo '{"prompt": "why did we leave SQLite?", "cwd": "/home/ada/hjul"}' | fusion hook user-prompt-submit

A memory must never hold up an agent. Whatever is wrong, a hook prints one JSON object of the documented shape, says in
one line on stderr what was wrong, and exits with 0 in time. On the way to a running server nothing heavy is imported.

Whose memory: a question names no session, agent or run. Those filter, and what helps is what *other* sessions know;
what this one said stands in its prompt already. The project, which is the folder that the session was begun in, boosts;
``--user`` filters, for a home that several people share.

What is captured is the session's transcript, read by `fusion.sources.sessions` from where it was left: the same turns,
keys and bookmarks as those of `fusion ingest ~/.claude/projects`, so that none is kept twice and any hook catches up on
what an earlier one could not keep.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from fusion import local_server
from fusion.doors.terminal import plain
from fusion.errors import BadInput, FusionError, HomeGone, NotFound
from fusion.home import locate_home, missing_home
from fusion.lib.clean import clean
from fusion.lib.envelope import said, without_own_block, without_private, without_wrappers
from fusion.trust import require

if TYPE_CHECKING:
    from fusion.client import Client
    from fusion.ingest.intake import NewMemory

MAX_INPUT_BYTES = 16 << 20
"""of what Claude Code tells a hook: the last reply of the assistant is in it"""
MIN_PROMPT_CHARS = 5
"""a shorter prompt asks nothing: yes, ok, go"""
MAX_PROMPT_CHARS = 32_000
"""the server takes no longer query, and searches by its first and last 2,000"""
READ_S = 10.0
"""for stdin to end"""
LOOK_S = 1.0
"""for a server to say that it runs"""
ANSWER_S = 3.0
"""for an answer; the recipe `hook` itself wants 0.2"""
KEEP_S = 20.0
"""for the server to start, and for each batch to be kept: nobody waits for that"""
LAG_S = 2.0
"""for Claude Code to write the last reply into the transcript, which it does behind"""
TAIL_BYTES = 1 << 18
"""of a transcript, in which the last reply is looked for"""
PROFILE_MS = 1500
"""for recall at the start of a session, where nobody has asked yet and the caches are cold"""
PROFILE_CHARS = 2000
PROFILE_MEMORIES = 4

_SLASH_COMMAND = re.compile(r"/[\w:.-]+(?:\s|\Z)")


class Told(NamedTuple):
    """What Claude Code told a hook, and whose memory is meant."""

    payload: Mapping[str, Any]
    home: Path
    user: str | None = None

    @property
    def transcript(self) -> Path:
        """Where the session is written; ``is_file`` says whether it is."""
        return Path(self.text("transcript_path") or os.devnull)

    def text(self, name: str) -> str:
        """A field's text, without what nobody sees; empty where there is none."""
        value = self.payload.get(name)
        return clean(value)[0] if isinstance(value, str) else ""

    @property
    def project(self) -> str | None:
        """The folder that the session was begun in; Claude Code's variable stays when the session goes elsewhere."""
        return project_of(os.environ.get("CLAUDE_PROJECT_DIR") or self.text("cwd"))

    def block_for(self, question: str, **options: object) -> str:
        """The server's block for a question, on the connection on which the server has proved itself.

        Where no server runs, or another one takes its place, the client starts it or waits for it.
        """
        asked = {"query": question, "user_id": self.user, "project": self.project, "recipe": "hook", **options}
        given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        with suppress(HomeGone):
            reply = local_server.ask(self.home, "/v1/fuse", given, look_s=LOOK_S, answer_s=ANSWER_S)
            if reply is not None:
                return str(reply["block"])
        with self.server() as memory:
            return memory.fuse(**given)["block"]

    @contextmanager
    def server(self, *, start_s: float | None = None, answer_s: float = ANSWER_S) -> Iterator[Client]:
        """A client of the home's server. One that does not run is started, and waited for as long as is set."""
        from fusion.client import client_of, ensure_server

        record = local_server.running_server(self.home, timeout_s=LOOK_S)
        if record is None and start_s is None:
            from fusion.settings import load  # takes longer than all the rest: only where a start takes longer still

            start_s = max(0.001, load(home=self.home).hooks.start_wait_ms / 1000)
        if record is None:
            record = ensure_server(self.home, timeout_s=start_s or 0.0)
        with client_of(self.home, record, timeout_s=answer_s) as client:
            yield client


def project_of(folder: str) -> str | None:
    """The name of a folder, as a transcript's turns have it for their project; somebody's home and a root are none."""
    path = Path(folder)
    return None if path == Path.home() else clean(path.name)[0].strip()[:256] or None


# What the hooks do -----------------------------------------------------------------------------------------------


def recall(told: Told) -> str:
    """The block for a prompt; empty where it asks nothing."""
    question = question_of(told.text("prompt"))
    if not question or "agent_id" in told.payload:  # a subagent's prompt was written by the agent, which has recalled
        return ""
    return told.block_for(question)


def question_of(prompt: str) -> str:
    """What a prompt asks; empty for very short ones, commands, heartbeats and other things that no person asked."""
    if said(prompt, "user").unattended or _SLASH_COMMAND.match(prompt):
        return ""
    asked = without_private(without_wrappers(without_own_block(prompt))).strip()
    if len(asked) > MAX_PROMPT_CHARS:
        half = MAX_PROMPT_CHARS // 2
        asked = asked[:half] + asked[-half:]
    return asked if len(asked) >= MIN_PROMPT_CHARS else ""


def profile(told: Told) -> str:
    """A few memories of the project, for the beginning of a session; the server is started for what follows."""
    what = "decisions, preferences, rules and plans"
    return told.block_for(
        f"{told.project}: {what}" if told.project else f"My {what}",
        timeout_ms=PROFILE_MS,
        budget_chars=PROFILE_CHARS,
        max_results=PROFILE_MEMORIES,
    )


def capture(told: Told) -> None:
    """Keeps what was said since the last time. Not while another hook makes the assistant go on: it has not ended."""
    if told.payload.get("stop_hook_active") is True:
        return
    reply = told.payload.get("last_assistant_message")
    text = said(told.text("last_assistant_message"), "assistant").text
    if not text or (told.transcript.is_file() and _is_written(told.transcript, str(reply))):
        keep(told)
    else:
        keep(told, [_reply(told, text)])


def keep(told: Told, more: Sequence[NewMemory] = ()) -> None:
    """Keeps everything of the session's transcript that is not kept yet, and ``more``; in batches, in order."""
    from itertools import chain

    from fusion.contract import Scope
    from fusion.doors.cli.ingest import batches
    from fusion.sources.files import Skip
    from fusion.sources.offsets import ReadOffsets
    from fusion.sources.sessions import read_session
    from fusion.trust.token import reader_key

    if not more and not told.transcript.is_file():
        return
    whose = Scope(user_id=told.user)
    with told.server(start_s=KEEP_S, answer_s=KEEP_S) as memory:
        bookmarks = ReadOffsets(told.home, whose)
        reader = reader_key(told.home)
        turns = read_session(told.transcript, whose, bookmarks=bookmarks) if told.transcript.is_file() else ()
        for batch in batches(chain((turn for turn in turns if not isinstance(turn, Skip)), more)):
            _send(memory, batch, reader)
            bookmarks.commit()
        bookmarks.commit()


def _send(memory: Client, batch: Sequence[NewMemory], reader: str | None) -> None:
    """Hands a batch in. One that is refused is halved until what is objected to stands alone, and is left out."""
    from fusion.doors.cli.ingest import wire_form

    try:
        memory.remember([wire_form(turn) for turn in batch], reader=reader)
    except (BadInput, NotFound) as error:
        if len(batch) == 1:
            _write(2, _notice(f"a turn was refused: {error}"))
            return
        half = len(batch) // 2
        _send(memory, batch[:half], reader)
        _send(memory, batch[half:], reader)


def _is_written(transcript: Path, reply: str) -> bool:
    """Whether the transcript has the end of the last reply; waits a little, for it is written behind.

    The end is short, because a reply may have been written in parts; so it may stand there from an earlier turn. Then
    the next hook finds what this one did not: better than the same words kept twice.
    """
    end = reply.rstrip().rpartition("\n")[2][-80:]
    forms = [json.dumps(end, ensure_ascii=plain)[1:-1].encode("utf-8", "replace") for plain in (False, True)]
    deadline = time.monotonic() + LAG_S
    while True:
        with transcript.open("rb") as file:
            file.seek(max(0, transcript.stat().st_size - TAIL_BYTES))
            tail = file.read()
        if any(form in tail for form in forms):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)


def _reply(told: Told, text: str) -> NewMemory:
    """The last reply of a session whose transcript does not have it. Another send of the same is the same memory."""
    from datetime import UTC, datetime

    from fusion.contract import Moment, Scope
    from fusion.ingest.intake import NewMemory
    from fusion.lib.words import content_hash

    session = told.text("session_id")
    if not session:
        raise BadInput("there is neither a transcript nor a session_id: nothing says which session this is")
    return NewMemory(
        text=text,
        scope=Scope(user_id=told.user, session_id=session, project=told.project, audience="private"),
        kind="turn",
        speaker="assistant",
        at=Moment(datetime.now(UTC)),
        source=f"claude-code:{session}",
        revision=f"reply:{content_hash(text)}",
        origin="agent",
    )


class Hook(NamedTuple):
    """One event: its name in Claude Code, what is done, and after how many seconds that is given up."""

    event: str
    run: Callable[[Told], str | None]
    limit_s: float
    context: bool = False
    """whether it says something to the model; the others answer with an empty object"""
    detached: bool = False
    """whether it answers at once and works on in a process of its own, which its caller's end does not end"""

    def answer(self, context: str) -> dict[str, Any]:
        """What Claude Code reads."""
        if not self.context:
            return {}
        return {"hookSpecificOutput": {"hookEventName": self.event, "additionalContext": context}}


HOOKS: Mapping[str, Hook] = {
    "user-prompt-submit": Hook("UserPromptSubmit", recall, 15, context=True),
    "session-start": Hook("SessionStart", profile, 15, context=True),
    "stop": Hook("Stop", capture, 55),
    "pre-compact": Hook("PreCompact", keep, 55),
    # Claude Code gives a plugin 1.5 seconds here, whatever timeout the plugin asks for, and then leaves.
    "session-end": Hook("SessionEnd", keep, 120, detached=True),
}


# How they are run ------------------------------------------------------------------------------------------------


class _TooLate(BaseException):
    """The time of a hook is over. Not an ``Exception``: what tolerates failures must not tolerate this one."""


def main(arguments: Sequence[str]) -> None:
    """Runs one hook: JSON on stdin, JSON on stdout. Returns whatever happens, because a hook always exits with 0."""
    hook = HOOKS.get(arguments[0] if arguments else "")
    answer = hook.answer("") if hook else {}
    try:
        if hook is None:
            raise BadInput(f"there is no such hook; there are {', '.join(HOOKS)}")
        with _limit(READ_S):
            told = _told(arguments[1:])
        if hook.detached and not _detach(told.home, answer):
            return
        with _limit(hook.limit_s):
            answer = hook.answer(hook.run(told) or "")
    except BaseException as error:  # noqa: BLE001 — an agent is never held up, whatever is wrong with its memory
        notice = _notice(_why(error))
        _write(2, notice)
        if hook is not None and hook.event == "SessionStart":
            answer["systemMessage"] = notice  # once a session its user shall see it
    _write(1, json.dumps(answer))


def _why(error: BaseException) -> str:
    if isinstance(error, _TooLate):
        return "it took too long"
    return str(error) if isinstance(error, FusionError) else f"{type(error).__name__}: {error}"


def _notice(what: str) -> str:
    return f"fusion hook: {' '.join(plain(what).split())}"[:500]


def _detach(home: Path, answer: Mapping[str, Any]) -> bool:
    """Answers, and goes on in a process of its own, where it returns True; what goes wrong there is in the home's log.

    Nothing is left open that the caller could wait for.
    """
    if os.fork():
        _write(1, json.dumps(answer))
        return False
    from fusion.client import open_log

    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    try:
        log = open_log(home)
    except (OSError, FusionError):
        log = null
    for descriptor, there in enumerate((null, null, log)):
        os.dup2(there, descriptor)
    return True


def _told(options: Sequence[str]) -> Told:
    """What is on stdin, for the home that is meant. Raises BadInput, and HomeNotAllowed before the home is opened."""
    home, user = _options(options)
    payload = _payload()
    cwd = payload.get("cwd")
    inside = Path(cwd) if isinstance(cwd, str) and Path(cwd).is_absolute() else None
    located = locate_home(home, cwd=inside)
    if located.named and not located.path.is_dir():
        raise missing_home(located.path)
    return Told(payload, require(located.path, named=located.named), user)


def _options(given: Sequence[str]) -> tuple[Path | None, str | None]:
    """The home and the user that are named. A parser is imported only for what is not plainly an option and a value."""
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
    """The object on stdin. All of it is read, so that its writer is not cut off, and no more than the limit is kept."""
    kept = bytearray()
    size = 0
    with suppress(OSError):  # closed: as good as empty
        while chunk := os.read(0, 1 << 16):
            size += len(chunk)
            if size <= MAX_INPUT_BYTES:
                kept += chunk
    if size > MAX_INPUT_BYTES:
        raise BadInput(f"stdin has {size:,} bytes; {MAX_INPUT_BYTES:,} are read")
    try:
        payload = json.loads(kept.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise BadInput("stdin has no JSON: pipe in what Claude Code tells a hook") from None
    if not isinstance(payload, dict):
        raise BadInput("stdin has JSON, but no object")
    return payload


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raises _TooLate in the block when its time is over, whatever it is waiting for."""

    def ring(number: int, frame: object) -> None:
        raise _TooLate

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _write(descriptor: int, line: str) -> None:
    """One line, unbuffered: what nobody reads any more must not turn into an exit code at the end."""
    data = line.encode("utf-8", "replace") + b"\n"
    with suppress(OSError):
        while data:
            data = data[os.write(descriptor, data) :]
