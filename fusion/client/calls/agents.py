"""Requests of agents: the tools that they know from other memory systems, histories, and flushes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusion import wire
from fusion.client.calls.call import Call


def memory_search(
    query: str, *, max_results: int = 6, min_score: float = 0.0, **more: Any
) -> Call[wire.ToolSearchReply]:
    """Single memories in the shape of an agent's tool; ``more`` is scope, citations, backends, as_of, timezone,
    where, timeout_ms, all_users."""
    body = {"query": query, "maxResults": max_results, "minScore": min_score, **more}
    return Call.post("/v1/tools/memory_search", body)


def memory_get(path: str, *, start: int = 1, lines: int | None = None, **scope: str | None) -> Call[wire.ToolReadReply]:
    """A page of a document that a result names, or a memory; the text is empty for everything else."""
    return Call.post("/v1/tools/memory_get", {"path": path, "from": start, "lines": lines, **scope})


def memory_append(text: str, **scope: str | None) -> Call[wire.Appended]:
    """Append lines to today's log, without secrets."""
    return Call.post("/v1/tools/memory_append", locals())


def daily_logs(
    *, zone: str | None = None, budget_chars: int | None = None, all_users: bool = False, **scope: str | None
) -> Call[wire.DailyLogs]:
    """Today's and yesterday's logs as a block for the start of a session."""
    return Call.post("/v1/tools/daily_logs", locals())


def flush_plan(context_window: int, **session: Any) -> Call[wire.FlushPlan]:
    """Whether a session should save now what it knows, and how. ``session`` has the fields of `schemas.FlushBody`."""
    return Call.post("/v1/flush/plan", {"context_window": context_window, **session})


def ingest_history(
    messages: Sequence[Mapping[str, Any]],
    session_id: str,
    *,
    channel: str | None = None,
    user_id: str | None = None,
    agent_id: str | None = None,
    project: str | None = None,
    audience: str | None = None,
    debounce: bool = True,
) -> Call[wire.HistoryKept]:
    """Keep the whole history of a session, after each of its turns; what is new or changed is taken in later."""
    return Call.post("/ingest", locals())


def session_state(
    session_id: str, *, user_id: str | None = None, agent_id: str | None = None
) -> Call[wire.SessionState]:
    """What is kept of a session: when it was taken in and asked, and what waits for its next question."""
    return Call.get("/v1/session", locals())


def hybrid_search(
    query: str, *, limit: int = 10, all_users: bool = False, **scope: str | None
) -> Call[wire.CortexResults]:
    """The best memories of all backends by words and vectors, with the scores of seed 002's Memory Cortex."""
    return Call.post("/hybrid-search", locals())


def recall(query: str, *, all_users: bool = False, **scope: str | None) -> Call[wire.CortexRecall]:
    """An answer in a few sentences from all memories, each with its refs; by the language model or by rules."""
    return Call.post("/recall", locals())
