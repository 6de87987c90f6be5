"""The replies with context packs, in the fields of openclaw-mem.context-pack.v1."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from fusion.wire.answers import BackendAnswer, Coverage, Dispute


class PackCitation(TypedDict):
    """Where an item comes from; ``url`` is a web address or a note's path without the folders of the machine."""

    url: str | None
    recordRef: str


class PackItem(TypedDict):
    """One line of a pack. ``layer`` is L0 (one line), L1 (a few sentences) or L2 (in detail)."""

    recordRef: str
    layer: str
    type: str
    importance: str
    trust: str
    text: str
    citations: PackCitation


class PackMeta(TypedDict):
    """When the pack was made, for which question, and its limits; ``scope`` is the project."""

    ts: str
    query: str
    scope: str | None
    budgetTokens: int
    maxItems: int


class PackNotes(TypedDict):
    how_to_use: list[str]


class PackReceipt(TypedDict):
    """How a pack came about; ``GET /v1/receipts/{receipt_id}`` has the decision on every candidate."""

    receipt_id: str
    tokens: int
    """estimated tokens of ``bundle_text``"""
    took_ms: float
    abstained: str | None
    """why no memory is in the pack; null if one is"""
    degraded: bool
    backends: list[BackendAnswer]
    coverage: Coverage
    disputed: list[Dispute]
    tail_left_out: int
    """turns of the tail that had no room"""
    notes: list[str]


class PackReply(TypedDict):
    """A context pack; ``bundle_text`` goes into the prompt as it is. ``trace`` is null unless it was asked for."""

    schema: str
    meta: PackMeta
    bundle_text: str
    items: list[PackItem]
    notes: PackNotes
    receipt: PackReceipt
    trace: dict[str, Any] | None
    """openclaw-mem.pack.trace.v1: the lanes, and why each candidate is in the pack or not; no text of a memory"""
