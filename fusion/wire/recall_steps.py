"""The replies of progressive recall: an index of hits, what stands around a memory, and full texts."""

from __future__ import annotations

from typing_extensions import TypedDict

from fusion.wire.answers import BackendAnswer, Coverage
from fusion.wire.memories import StoredMemory


class NextStep(TypedDict):
    """What the next step would cost: ``step`` is a command and a route, for these ``refs``."""

    step: str
    refs: list[str]
    tokens: int


class RecallEntry(TypedDict):
    """One line on a memory; ``tokens`` is what its full text costs. ``ts`` is when it happened, else was recorded."""

    ref: str
    recordRef: str
    line: str
    ts: str | None
    kind: str
    trust: str
    importance: str
    place: str | None
    tokens: int


class IndexHit(RecallEntry):
    """A hit, best first."""

    score: float
    probability: float | None


class IndexReply(TypedDict):
    """The hits of all memory systems for a question, one line each; ``left_out`` did not fit the limits."""

    hits: list[IndexHit]
    left_out: int
    tokens: int
    next: NextStep | None
    abstained: str | None
    degraded: bool
    backends: list[BackendAnswer]
    coverage: Coverage
    receipt_id: str
    took_ms: float
    notes: list[str]


class TimelineEntry(RecallEntry):
    """A memory of a timeline; ``anchor`` if it was asked for, and ``by`` what connects the others with it."""

    anchor: bool
    by: str
    """document, session or time"""


class TimelineReply(TypedDict):
    """What stands around memories, in reading order; ``missing`` are refs that name nothing here."""

    entries: list[TimelineEntry]
    missing: list[str]
    left_out: int
    tokens: int
    next: NextStep | None


class FullRecord(StoredMemory):
    """A memory in full; its text may be ``truncated`` to the budget, and ``tokens`` are those of what is there."""

    recordRef: str  # noqa: N815 - the name in openclaw-mem
    tokens: int
    truncated: bool


class RecordsReply(TypedDict):
    """Memories in full, in the order of their refs. Those in ``left_out`` had no room."""

    records: list[FullRecord]
    missing: list[str]
    left_out: list[str]
    tokens: int
    next: NextStep | None
