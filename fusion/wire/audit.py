"""The reply about who read, changed and forgot memories."""

from __future__ import annotations

from typing_extensions import TypedDict


class Access(TypedDict):
    """One access: when, what, to which memories, with which key, and how it ended. It never has a text."""

    at: str
    action: str
    """ask, read, list, remember, edit, forget, state, backend, export, import; or gap: ``count`` entries were lost"""
    call: str
    """the call by its name, such as memory; of a backend's own verb or route also the backend"""
    outcome: str
    """ok; preview: only shown what would be done; else the name of the error"""
    key: str
    """the name of the key; `owner` with the home's token"""
    key_id: str
    """the first eight digits of the key's SHA-256; empty without a key"""
    role: str
    door: str
    """http, mcp, openclaw-mem, mem0, qmd, compat, inspector, or cli: a command without a server"""
    user_id: str | None
    """whose memories; null for all users of the tenant"""
    agent_id: str | None
    session_id: str | None
    refs: list[str]
    """the first 100 memories; those of an answer are in its receipt"""
    count: int
    """of all of them"""
    receipt_id: str | None
    """the receipt of the answer, as long as it is kept"""
    decision: str | None
    """the decision that changed a state, as `GET /v1/decisions` lists it"""
    request_id: str
    """as in the log of the server"""


class Audit(TypedDict):
    """A page of the access log, the newest first."""

    accesses: list[Access]
    next_cursor: str | None
    keep_days: float
    waiting: int
    """entries that could not be written yet"""
    fault: str
    """why not; empty if nothing is wrong"""
