"""Requests that ask all memories a question, and those about the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from fusion import wire
from fusion.client.calls.call import Call, quoted

if TYPE_CHECKING:
    from datetime import datetime


def fuse(
    query: str,
    *,
    user_id: str | None = None,
    agent_id: str | None = None,
    run_id: str | None = None,
    session_id: str | None = None,
    project: str | None = None,
    audience: str | None = None,
    as_of: datetime | str | None = None,
    known_at: datetime | str | None = None,
    timezone: str | None = None,
    now: datetime | str | None = None,
    where: Mapping[str, Any] | None = None,
    budget_chars: int | None = None,
    budget_tokens: int | None = None,
    max_results: int | None = None,
    max_items: int | None = None,
    format: str | None = None,
    backends: Sequence[str] | None = None,
    recipe: str | None = None,
    timeout_ms: int | None = None,
    explain: bool | None = None,
    fill: bool | None = None,
    gate: bool | None = None,
    asker: Mapping[str, Any] | None = None,
    all_users: bool | None = None,
) -> Call[wire.FuseReply]:
    """Ask all memories; the reply has one block. What is None is left to the server's recipe.

    ``asker`` has the agent_id, session_id and channel of who asks: no filter, unlike those of the scope. Raises
    NobodyNamed for a question without user and agent where several have memories, unless ``all_users``. An empty
    ``user_id`` asks for the memories without a user. ``timezone`` is the asker's (an IANA name), by which the days that
    the question names count, and ``now`` when it is asked. ``where`` has the fields of `schemas.WhereBody`: only
    memories like that are shown.
    """
    return Call.post("/v1/fuse", locals())


def pack(
    query: str,
    *,
    budget_tokens: int | None = None,
    max_items: int | None = None,
    layer: Literal["L0", "L1", "L2"] | None = None,
    max_l2: int | None = None,
    tail_text: str | None = None,
    tail_max_items: int | None = None,
    tail_budget_tokens: int | None = None,
    graph: Literal["off", "auto", "on"] | None = None,
    graph_soft_ms: int | None = None,
    graph_hard_ms: int | None = None,
    trace: bool | None = None,
    lanes: Sequence[str] | None = None,
    include_archived: bool | None = None,
    as_of: datetime | str | None = None,
    known_at: datetime | str | None = None,
    timezone: str | None = None,
    now: datetime | str | None = None,
    where: Mapping[str, Any] | None = None,
    backends: Sequence[str] | None = None,
    recipe: str | None = None,
    timeout_ms: int | None = None,
    asker: Mapping[str, Any] | None = None,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.PackReply]:
    """Ask all memories; the reply is a context pack of 1,200 tokens and 12 items at most, unless they are given.

    ``tail_text`` has the last turns of the conversation, one a line; they have a place in the pack first. ``trace``
    asks for the reason of each candidate. ``lanes`` adds what the session did lately (hot) and episodes (cold). The
    other parameters are those of `fuse`.
    """
    return Call.post("/v1/pack", locals())


def index(
    query: str,
    *,
    limit: int | None = None,
    budget_tokens: int | None = None,
    as_of: datetime | str | None = None,
    known_at: datetime | str | None = None,
    timezone: str | None = None,
    now: datetime | str | None = None,
    where: Mapping[str, Any] | None = None,
    backends: Sequence[str] | None = None,
    recipe: str | None = None,
    timeout_ms: int | None = None,
    asker: Mapping[str, Any] | None = None,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.IndexReply]:
    """Ask all memories; the reply lists the hits, one line each, with the tokens of each and of the next step."""
    return Call.post("/v1/index", locals())


def timeline(
    refs: Sequence[str],
    *,
    before: int | None = None,
    after: int | None = None,
    budget_tokens: int | None = None,
    **scope: str | None,
) -> Call[wire.TimelineReply]:
    """What stands around memories, one line each: in their document or session, else in time."""
    return Call.post("/v1/timeline", locals())


def records(refs: Sequence[str], *, budget_tokens: int | None = None, **scope: str | None) -> Call[wire.RecordsReply]:
    """Memories in full, within a budget of tokens; the reply says what did not fit."""
    return Call.post("/v1/records", locals())


def why(ref: str, *, limit: int = 20, **scope: str | None) -> Call[wire.Why]:
    """Where a memory is from, what was decided on it, and the latest blocks and packs with it, each with the reason."""
    return Call.get(f"/v1/why/{quoted(ref)}", {"limit": limit, **scope})


def replay(
    recording: str,
    *,
    user_id: str | None = None,
    recipe: str | None = None,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    budget_chars: int | None = None,
    max_results: int | None = None,
) -> Call[wire.Asked]:
    """Answer a question of POST /v1/ask with ``record`` by other numbers: {"pack": {"max_results": 3}}."""
    return Call.post("/v1/replay", locals())


def recipes() -> Call[wire.Recipes]:
    """The recipes of the home with their values, and the range, choices and default of each value."""
    return Call.get("/v1/recipes", {})


def compare(
    query: str,
    a: str,
    b: str,
    *,
    as_of: datetime | str | None = None,
    known_at: datetime | str | None = None,
    timezone: str | None = None,
    now: datetime | str | None = None,
    where: Mapping[str, Any] | None = None,
    budget_chars: int | None = None,
    budget_tokens: int | None = None,
    max_results: int | None = None,
    max_items: int | None = None,
    format: str | None = None,
    timeout_ms: int | None = None,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.CompareReply]:
    """Answer a question by two arms. An arm is a recipe, @backends or both: seed003, default@markdown+cortex, -mem0."""
    return Call.post("/v1/compare", locals())


def search(
    backend: str,
    query: str,
    *,
    where: Mapping[str, Any] | None = None,
    limit: int = 10,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.SearchReply]:
    """The raw hits of one backend."""
    return Call.post("/v1/search", locals())


def prefix(*, all_users: bool | None = None, **scope: str | None) -> Call[wire.Prefix]:
    """The stable prefix of what an agent or session said: compressed observations, and the last turns word for word.

    ``text`` goes into the prompt before what changes with every turn. Raises NobodyNamed as `fuse`.
    """
    return Call.post("/v1/prefix", locals())


def receipt(receipt_id: str, *, user_id: str | None = None) -> Call[dict[str, Any]]:
    """Why each candidate of one answer is in the block or not. Raises NotFound if the answer was another user's."""
    return Call.get(f"/v1/receipts/{quoted(receipt_id)}", {"user_id": user_id})


def receipts(
    *,
    after: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.Receipts]:
    """A page of what was answered, newest first; ``after`` is a receipt, or `latest` of an earlier reply."""
    return Call.get("/v1/receipts", locals())


def activity(*, days: int = 90, **scope: str | None) -> Call[wire.Activity]:
    """How many memories were remembered, forgotten and decided on, and questions asked, on each of the last days."""
    return Call.get("/v1/activity", locals())


def backend_history(
    *, answers: int = 200, all_users: bool | None = None, **scope: str | None
) -> Call[wire.BackendHistory]:
    """How fast each backend was for the latest answers, and what it brought into their blocks."""
    return Call.get("/v1/backends/history", locals())


def feedback(
    receipt_id: str,
    *,
    useful: Sequence[str] = (),
    useless: Sequence[str] = (),
    merge: bool | None = None,
    **scope: str | None,
) -> Call[wire.Feedback]:
    """Say which memories of an answer were useful, by ref; replaces earlier feedback on it.

    With ``merge`` it replaces that on the same memories alone.
    """
    return Call.post("/v1/feedback", locals())


def labels(*, limit: int = 100, cursor: str | None = None) -> Call[wire.Labels]:
    """A page of the memories that have feedback, oldest first, each with the signals that ranked it."""
    return Call.get("/v1/feedback", locals())


def keep_comparison(
    *,
    a: Mapping[str, Any],
    b: Mapping[str, Any],
    questions: int,
    same_memories: int,
    overlap: float,
    unanswered: int = 0,
    degraded: int = 0,
    tuned_on: int = 0,
    verdict: Mapping[str, Any] | None = None,
) -> Call[wire.Comparison]:
    """Store the figures of a comparison of two arms over many questions, as `wire.Comparison` has them."""
    return Call.post("/v1/comparisons", locals())


def comparisons(*, limit: int = 20, cursor: str | None = None) -> Call[wire.Comparisons]:
    """A page of the stored comparisons, newest first."""
    return Call.get("/v1/comparisons", locals())
