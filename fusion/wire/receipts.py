"""The replies about receipts: lists of what was answered."""

from __future__ import annotations

from typing import NotRequired

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
    the block, of which ``refs`` has the first hundred. ``tokens`` are those of the block, ``candidate_tokens`` those of
    every candidate in full, each once; both are estimated, and the second is null in receipts of earlier versions.
    """

    receipt_id: str
    at: str
    query: str | None
    took_ms: float
    characters: int
    tokens: int
    candidate_tokens: int | None
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

    ``questions`` counts those whose receipts are kept. ``bytes`` are those of each part of the home at the last look of
    that day, as in `Status`; without a scope only, and only for days on which the home was open.
    """

    day: str
    remembered: int
    forgotten: int
    decisions: int
    questions: int
    sources: dict[str, int]
    bytes: NotRequired[dict[str, int]]


class Activity(TypedDict):
    """The days up to today, the oldest first."""

    days: list[DayOfActivity]


class VotesOnBackend(TypedDict):
    """How many votes said of a memory that a backend found that it was useful, or that it was not."""

    useful: int
    useless: int


class SpanOfAnswers(TypedDict):
    """How fast a backend was for some answers that follow each other; ``at`` is the time of the first."""

    at: str
    asked: int
    answered: int
    p50_ms: float | None
    p95_ms: float | None


class BackendMoment(TypedDict):
    """What a backend's status and backlog have been since a time, until the next moment."""

    at: str
    status: str
    backlog: int


class BackendWorth(TypedDict):
    """What one backend did for the latest answers.

    The percentiles are of the times in which it answered, null if it never did. ``contributed`` is the share of the
    blocks with a memory that it found, ``alone`` of those with one that no other backend found. ``spans`` are the
    answers in parts of the same size, ``moments`` the latest changes of its breaker and its backlog;
    both have the oldest first.
    """

    name: str
    asked: int
    answered: int
    p50_ms: float | None
    p95_ms: float | None
    contributed: float
    alone: float
    votes: VotesOnBackend
    spans: list[SpanOfAnswers]
    moments: list[BackendMoment]


class RecipeVotes(TypedDict):
    """The votes on what the blocks of one recipe had: ``share`` of them said useful, with its 95 % interval."""

    name: str
    hash: str
    answers: int
    useful: int
    useless: int
    share: float
    low: float
    high: float


class VotesOnRecipes(TypedDict):
    """The recipes with votes, the best share first; ``better`` is one whose interval is above all others', or null."""

    recipes: list[RecipeVotes]
    better: str | None


class BackendHistory(TypedDict):
    """The backends over the latest ``answers``, of which ``blocks`` had a memory, and the votes on recipes."""

    answers: int
    blocks: int
    backends: list[BackendWorth]
    votes: VotesOnRecipes
