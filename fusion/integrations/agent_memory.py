"""Recall before an agent's model is called, and capture after its turn, for an agent of any framework.

No failure of memory holds up an agent: recall returns "" after `recall_s`, and a turn that cannot be kept is logged. A
turn is kept once, however often a framework hands it over; a block of recalled memories is never part of it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, Self, TypeVar

from fusion.client import Client
from fusion.errors import FusionError
from fusion.lib.envelope import said

RECALL_S = 0.2
"""seconds that a model's call waits for its memories at most"""
CAPTURE_WAIT_S = 0.05
"""seconds that an agent waits for a turn to be kept; after that it is kept in the background"""
CAPTURE_S = 10.0
"""seconds that a server has to keep a turn"""
RECIPE = "hook"
"""the recipe of blocks that nobody asked for: what helps, and no more"""
MIN_PROMPT_CHARS = 5
"""characters of a prompt that asks something: not yes, ok, go"""
REMEMBERED_BLOCKS = 256
"""blocks that are kept for the further model calls of their runs"""
TEXT_CHARS = 100_000
"""characters of the longest turn that is kept"""
BATCH = 100
"""memories in one request"""
NO_USER = ""
"""as the user of a question: the memories that belong to no user"""

T = TypeVar("T")
Role = Literal["user", "assistant"]

log = logging.getLogger(__name__)


class Turn(NamedTuple):
    """What one side said. ``key`` is the framework's id of the message, if it has one; with it a turn is kept once."""

    role: Role
    text: str
    key: str | None = None


class Found(NamedTuple):
    """One excerpt that answers a query: its text, the ref to cite and forget it by, its score and where it is from."""

    text: str
    ref: str
    score: float
    metadata: Mapping[str, Any]


Whose = tuple[str | None, str | None]
"""a user and a session"""


class _Blocks:
    """The blocks of turns under way, by user and session: each model call of a turn gets the same one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Whose, tuple[str, str]] = OrderedDict()

    def get(self, whose: Whose, prompt: str) -> str | None:
        """The block for a prompt; None unless it was the last one that was asked."""
        with self._lock:
            asked, block = self._kept.get(whose, ("", ""))
        return block if asked == prompt else None

    def put(self, whose: Whose, prompt: str, block: str) -> None:
        with self._lock:
            self._kept[whose] = prompt, block
            while len(self._kept) > REMEMBERED_BLOCKS:
                self._kept.popitem(last=False)

    def end(self, whose: Whose) -> None:
        """Forget the block of a turn that is over."""
        with self._lock:
            self._kept.pop(whose, None)


class _Writer:
    """Keeps turns one after the other, in a thread of its own; the interpreter waits for it at its end."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "memory-fusion")
        self._open: set[Future[None]] = set()

    def keep(self, client: Client, memories: list[dict[str, Any]]) -> Future[None]:
        future = self._threads.submit(_remember, client, memories)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        return future

    def flush(self, timeout_s: float) -> bool:
        return not wait(list(self._open), timeout_s).not_done


def _remember(client: Client, memories: list[dict[str, Any]]) -> None:
    try:
        for start in range(0, len(memories), BATCH):
            client.remember(memories[start : start + BATCH])
    except (FusionError, OSError, ValueError) as error:
        log.warning("a turn was not kept: %s", error)


@dataclass(frozen=True, slots=True)
class AgentMemory:
    """The memories of one user for one agent. `bound` returns those of another user or session.

    Without ``client`` it finds the server of the home, or starts it. Questions search the memories of ``user_id``, of
    all its agents and sessions, without this session's own turns; turns are kept as private memories of ``user_id``,
    ``agent_id`` and ``session_id``. ``project`` raises the memories of a project. ``limits`` are further fields of
    `Client.fuse`, as ``budget_tokens``.
    """

    client: Client = field(default_factory=Client.of_home)
    user_id: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    project: str | None = None
    framework: str = "agent"
    """the first part of the source of its turns: langchain"""
    recall_s: float = RECALL_S
    capture: bool = True
    """whether turns are kept"""
    audience: Literal["private", "group"] = "private"
    """who reads the block and the turns: one person, or a group, which gets no private memories"""
    limits: Mapping[str, Any] = field(default_factory=dict)
    _blocks: _Blocks = field(default_factory=_Blocks, repr=False)
    _writer: _Writer = field(default_factory=_Writer, repr=False)

    def bound(self, *, user_id: str | None = None, session_id: str | None = None) -> Self:
        """The same for another user or session; what is None stays."""
        user, session = user_id or self.user_id, session_id or self.session_id
        if (user, session) == (self.user_id, self.session_id):
            return self
        return replace(self, user_id=user, session_id=session)

    def of_framework(self, framework: str) -> Self:
        """The same with this framework as the source of its turns, unless it has one already."""
        return replace(self, framework=framework) if self.framework == "agent" else self

    def limited(self, **limits: Any) -> Self:
        """The same with further fields of `Client.fuse`."""
        return replace(self, limits={**self.limits, **limits})

    # Before a model's call

    def recall(self, prompt: str) -> str:
        """The block for a prompt; "" if nothing helps, or nothing came in time. It never raises.

        Until the turn is kept, the same prompt gets the same block, since a turn may call the model several times.
        """
        question = question_of(prompt)
        if not question:
            return ""
        block = self._blocks.get(self._whose, question)
        if block is None:
            block = self.client.auto_recall(question, timeout_s=self.recall_s, **self._asked())
            self._blocks.put(self._whose, question, block)
        return block

    async def arecall(self, prompt: str) -> str:
        """As `recall`, without blocking the event loop."""
        return await asyncio.to_thread(self.recall, prompt)

    @property
    def _whose(self) -> Whose:
        return self.user_id, self.session_id

    def _asked(self) -> dict[str, Any]:
        """The fields of a question before a model's call. Its session has its own turns, and a block for one call."""
        asker = {"session_id": self.session_id, "agent_id": self.agent_id, "keeps_blocks": False}
        return {"recipe": RECIPE, **({"asker": asker} if self.session_id else {}), **self._scope()}

    def _scope(self) -> dict[str, Any]:
        scope: dict[str, Any] = {"user_id": self.user_id or NO_USER, "project": self.project}
        return scope | {"audience": self.audience, **self.limits}

    def search(self, query: str, limit: int) -> list[Found]:
        """The best excerpts for a query, best first; none if nothing came in time. It never raises."""
        if not query.strip():
            return []
        asked = self._scope()
        asked |= {"max_results": limit, "timeout_ms": max(1, int(self.recall_s * 1000)), "gate": False}
        future = _in_thread(lambda: self.client.fuse(query, **asked))
        try:
            return [_found(excerpt) for excerpt in future.result(self.recall_s)["memories"]]
        except Exception as error:  # noqa: BLE001 - no failure of memory may hold up an agent
            log.warning("a search goes on without memories: %s", str(error) or type(error).__name__)
            return []

    async def asearch(self, query: str, limit: int) -> list[Found]:
        """As `search`, without blocking the event loop."""
        return await asyncio.to_thread(self.search, query, limit)

    async def run(self, request: Callable[[Client], T]) -> T:
        """The result of a request of the client, without blocking the event loop. Raises what it raises."""
        return await asyncio.to_thread(request, self.client)

    # After a turn

    def keep(self, turns: Sequence[Turn]) -> None:
        """Keep what was said, once. It never raises, and waits no longer than `CAPTURE_WAIT_S`."""
        future = self._keep(turns)
        if future is not None:
            wait([future], CAPTURE_WAIT_S)

    async def akeep(self, turns: Sequence[Turn]) -> None:
        """As `keep`, without blocking the event loop."""
        future = self._keep(turns)
        if future is not None:
            await asyncio.wait([asyncio.wrap_future(future)], timeout=CAPTURE_WAIT_S)

    def keep_later(self, turns: Sequence[Turn]) -> None:
        """As `keep`, without waiting at all."""
        self._keep(turns)

    def flush(self, timeout_s: float = CAPTURE_S) -> bool:
        """Wait until what was said is kept; whether it was in time."""
        return self._writer.flush(timeout_s)

    def _keep(self, turns: Sequence[Turn]) -> Future[None] | None:
        self._blocks.end(self._whose)
        memories = self._memories(turns) if self.capture else []
        return self._writer.keep(self.client, memories) if memories else None

    def _memories(self, turns: Sequence[Turn]) -> list[dict[str, Any]]:
        return [memory for exchange in _exchanges(turns) for memory in self._of_exchange(exchange)]

    def _of_exchange(self, turns: Sequence[Turn]) -> list[dict[str, Any]]:
        """One exchange as memories; none of a prompt that no person wrote or that is marked, nor of its answer."""
        spoken = [(turn, said(turn.text, turn.role)) for turn in turns]
        if any(one.whole_exchange for turn, one in spoken if turn.role == "user"):
            return []
        exchange = "\0".join(one.text for _, one in spoken)
        return [self._memory(turn, one.text[:TEXT_CHARS], exchange) for turn, one in spoken if one.text]

    def _memory(self, turn: Turn, text: str, exchange: str) -> dict[str, Any]:
        """One turn as a memory. Its source and revision make it idempotent, for the same exchange of one session."""
        key = turn.key or blake2b(exchange.encode("utf-8", "replace"), digest_size=16).hexdigest()
        memory = {
            "text": text,
            "kind": "turn",
            "speaker": turn.role,
            "origin": "owner" if turn.role == "user" else "agent",
            "audience": self.audience,
            "source": f"{self.framework}:{self.session_id or ''}"[:256],
            "revision": f"{turn.role}:{key}"[:256],
            "user_id": self.user_id,
            "agent_id": self.agent_id,
            "session_id": self.session_id,
            "project": self.project,
        }
        return {name: value for name, value in memory.items() if value is not None}


def _exchanges(turns: Sequence[Turn]) -> list[list[Turn]]:
    """The turns in exchanges, each of which begins with what the user said."""
    found: list[list[Turn]] = []
    for turn in turns:
        if turn.role == "user" or not found:
            found.append([])
        found[-1].append(turn)
    return found


def question_of(prompt: str) -> str:
    """The question in a prompt, without blocks of ours; "" for very short ones and those that no person wrote."""
    spoken = said(prompt, "user")
    question = "" if spoken.unattended else spoken.text.strip()
    return question if len(question) >= MIN_PROMPT_CHARS else ""


def _in_thread(work: Callable[[], Any]) -> Future[Any]:
    """The result of work in a thread that nobody waits for at the end."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it
            future.set_exception(error)

    threading.Thread(target=run, name="memory-fusion-search", daemon=True).start()
    return future


def _found(excerpt: Mapping[str, Any]) -> Found:
    text = "\n".join(
        f"{one['speaker']}: {one['text']}" if one.get("speaker") else one["text"] for one in excerpt["members"]
    )
    metadata = {name: excerpt[name] for name in ("ref", "document", "at", "score") if excerpt[name] is not None}
    return Found(text, excerpt["ref"], excerpt["score"], metadata)
