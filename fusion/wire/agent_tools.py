"""The replies of routes and tools in the shapes of other systems: OpenClaw's memory tools and Memory Cortex."""

from __future__ import annotations

from typing import (
    Literal,
    NotRequired,  # pydantic cannot read typing's own before Python 3.12
)

from typing_extensions import TypedDict


class ToolSearchItem(TypedDict):
    """One result of memory_search. ``path`` is its document, or its ref if it has none."""

    path: str
    startLine: int
    endLine: int
    score: float
    probability: NotRequired[float | None]
    snippet: str
    source: Literal["memory", "sessions"]
    ref: str
    kind: str
    trust: str
    backends: list[str]
    vectorScore: NotRequired[float]
    textScore: NotRequired[float]
    citation: NotRequired[str]
    at: NotRequired[str]
    speaker: NotRequired[str]


class ToolSearchReply(TypedDict):
    """The result of memory_search; when no backend answered, an empty list with ``error`` and ``action``."""

    results: list[ToolSearchItem]
    provider: NotRequired[str]
    model: NotRequired[str | None]
    fallback: NotRequired[dict[str, str] | None]
    degraded: NotRequired[bool]
    notice: NotRequired[str | None]
    disabled: NotRequired[bool]
    unavailable: NotRequired[bool]
    error: NotRequired[str]
    warning: NotRequired[str]
    action: NotRequired[str]


ToolReadReply = TypedDict(
    "ToolReadReply",
    {
        "text": str,
        "path": str,
        "from": NotRequired[int],
        "lines": NotRequired[int],
        "truncated": NotRequired[bool],
        "nextFrom": NotRequired[int],
    },
)


class Appended(TypedDict):
    """The place of appended lines; ``path`` is that of the log, or the ref of the note that they became."""

    path: str | None
    ref: str | None
    status: str
    """appended, or what became of the note: stored, duplicate, blocked, skipped"""
    redacted: int
    reason: str
    """why nothing was kept, or how the kept text differs from the sent one"""
    startLine: NotRequired[int]
    endLine: NotRequired[int]


class DailyLog(TypedDict):
    """A log that is shown: its day, and its name for `memory_get`."""

    day: str
    path: str
    truncated: bool
    """only its last lines are shown"""


class DailyLogs(TypedDict):
    """Today's and yesterday's logs, as a fenced block for a prompt; empty if there are none."""

    block: str
    logs: list[DailyLog]


class FlushRules(TypedDict):
    enabled: bool
    reserve_floor_tokens: int
    soft_threshold_tokens: int
    force_transcript_bytes: int


class FlushPlan(TypedDict):
    """Whether an agent should save now what it knows, and the turn to run; ``path`` is relative to its workspace.

    ``expected_tokens`` includes the next message.
    """

    flush: bool
    reason: str
    """tokens, transcript or overflow; or a reason against it, see `fusion.gateway.memory_flush.Reason`"""
    threshold_tokens: int
    expected_tokens: int | None
    prompt: str
    system_prompt: str
    path: str
    time: str
    zone: str
    rules: FlushRules


class HistoryKept(TypedDict):
    """The reply to `POST /ingest`: whether the history is kept, and when it is taken in unless another call comes."""

    status: Literal["accepted", "skipped"]
    session_id: str
    due_at: str | None
    reason: str
    """why it was skipped"""


class CortexResult(TypedDict):
    """One result of `POST /hybrid-search`. ``id`` is a number, as Memory Cortex has; ``ref`` names the memory here."""

    id: int
    ref: str
    user_id: str
    topic: str
    fact: str
    importance: int
    created_at: str
    score: float
    source: str
    """what found it: fts5+vector, fts5 or vector"""


class CortexResults(TypedDict):
    """The reply to `POST /hybrid-search`: best first."""

    results: list[CortexResult]
    count: int


class CortexRecall(TypedDict):
    """The reply to `POST /recall`: an answer in sentences, each with the refs of the memories that say it."""

    response: str
    memories_searched: int
    memories_used: int
    synthesis: Literal["model", "rules"]
    """who wrote it: the language model, or rules that quote the memories"""
    refs: list[str]
    """the memories that are cited"""


class CachedSynthesis(TypedDict):
    """What was recalled for a session's last question, summed up for its next one; ``cachedAt`` is in milliseconds."""

    query: str
    response: str
    cachedAt: int


class SessionState(TypedDict):
    """What is kept of a session, by Memory Cortex's names. Times are milliseconds since 1970; None: never."""

    session_id: str
    memoryCortexIngestedAt: int | None
    memoryCortexRecalledAt: int | None
    memoryCortexFactsInjected: int
    """memories in the block of the last question"""
    memoryCortexSynthesis: CachedSynthesis | None
