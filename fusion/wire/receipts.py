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
