"""The replies about receipts: lists of what was answered."""

from __future__ import annotations

from typing_extensions import TypedDict

from fusion.wire.answers import RecipeName


class BackendOfReceipt(TypedDict):
    """What one backend did for an answer.

    ``in_block`` counts the memories of the block that it found, ``alone`` those that no other backend found.
    """

    name: str
    status: str
    took_ms: float
    count: int
    in_block: int
    alone: int


class ReceiptRow(TypedDict):
    """One answer in a list: its sizes and times, the refs in its block, and who asked.

    ``query`` is null unless the question is one of the latest, which are in memory alone. ``memories`` counts those of
    the block, of which ``refs`` has the first hundred.
    """

    receipt_id: str
    at: str
    query: str | None
    took_ms: float
    characters: int
    tokens: int
    memories: int
    refs: list[str]
    recipe: RecipeName
    degraded: bool
    abstained: str | None
    prepared: bool
    backends: list[BackendOfReceipt]
    user_id: str | None
    agent_id: str | None
    session_id: str | None


class Receipts(TypedDict):
    """A page of what was answered, newest first; ``latest`` asks for what comes later, as ``after``."""

    receipts: list[ReceiptRow]
    next_cursor: str | None
    latest: str


class DayOfActivity(TypedDict):
    """One day, UTC: how many memories were remembered, also by kind of source, forgotten and decided on.

    ``questions`` counts those whose receipts are kept.
    """

    day: str
    remembered: int
    forgotten: int
    decisions: int
    questions: int
    sources: dict[str, int]


class Activity(TypedDict):
    """The days up to today, the oldest first."""

    days: list[DayOfActivity]


class BackendWorth(TypedDict):
    """What one backend did for the latest answers.

    The percentiles are of the times in which it answered, null if it never did. ``contributed`` is the share of the
    blocks with a memory that it found, ``alone`` of those with one that no other backend found.
    """

    name: str
    asked: int
    answered: int
    p50_ms: float | None
    p95_ms: float | None
    contributed: float
    alone: float


class BackendHistory(TypedDict):
    """The backends over the latest ``answers``, of which ``blocks`` had a memory."""

    answers: int
    blocks: int
    backends: list[BackendWorth]
