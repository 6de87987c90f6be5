"""The reply that explains one memory."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from fusion.wire.memories import Decision


class Inclusion(TypedDict):
    """One block or pack that had the memory; its receipt has all candidates."""

    receipt_id: str
    at: str
    kind: str
    """block or pack"""
    place: int
    """among its memories, the best is 1"""
    why: str


class Contradiction(TypedDict):
    """What two stores contradicted each other in, in one answer (`fusion.recall.contradictions`)."""

    receipt_id: str
    decision: str
    """newest (the first of ``refs`` took the place of the second), less_trusted or same_time (both stand), ended (the
    first says that the second has ended), or journal (the journal has a later word)"""
    on: str
    """version of one memory, or value of an attribute with one value at a time"""
    refs: list[str]
    stores: list[str]
    at: list[str | None]
    """when each was asserted"""
    why: str


class ComesFrom(TypedDict):
    """Where a memory comes from; ``derived_from`` has the refs of the memories that it was extracted from."""

    kind: str
    """of the reference ``ref``: none, url, file_line, file_anchor, receipt or opaque"""
    ref: str
    source: str | None
    origin: str
    document: str | None
    position: int | None
    speaker: str | None
    recorded_at: str | None
    trust: str
    derived_from: list[str]


class ForgottenThen(TypedDict):
    """When and by which criteria a memory was forgotten, and what each backend did."""

    at: str
    by: str
    backends: dict[str, str]


class StatedFact(TypedDict):
    """A triple that a memory states, as the rules or a model extracted it."""

    subject: str
    predicate: str
    object: str


class Why(TypedDict):
    """What is known of a memory. ``status`` is current, superseded, retired, merged, quarantined, forgotten, or how it
    ended (archived, expired, lost, …)."""

    ref: str
    recordRef: str
    status: str
    provenance: ComesFrom | None
    """null of what was forgotten"""
    supersedes: str | None
    superseded_by: str | None
    state: dict[str, Any]
    copies: dict[str, str]
    """by backend: done, pending or failed"""
    facts: list[StatedFact]
    """what graphs were given of it; none while it is quarantined, as they say what its text does"""
    layers: dict[str, str]
    """what made its stored abstract and overview, by maker: the version of the ``rules``, the name of the ``model``"""
    included: int
    """blocks and packs that had it, as long as receipts are kept"""
    inclusions: list[Inclusion]
    """the latest of them, the newest first"""
    contradictions: list[Contradiction]
    """what other stores said otherwise in the latest five of them"""
    changes: list[Decision]
    """the decisions on it, the newest first"""
    forgotten: ForgottenThen | None
