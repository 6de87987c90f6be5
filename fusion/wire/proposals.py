"""The replies about proposals: memories that somebody asks to store, and the decisions on them."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

ProposalStateName = Literal["open", "approved", "rejected", "expired"]


class ProposalOutcome(TypedDict):
    """The outcome for one proposal that was sent.

    proposed: it waits for a decision. duplicate: an open proposal says the same, and ``id`` names that one. skipped: no
    text is left of it to propose, and ``id`` is empty.
    """

    id: str
    state: ProposalStateName | None
    status: Literal["proposed", "duplicate", "skipped"]
    ref: str | None
    """the memory that it became, if a policy approved it at once"""
    redacted: int
    """secrets that were masked"""
    reason: str
    """how the proposed text differs from the sent one, or why it was skipped"""


class ProposeReply(TypedDict):
    """The outcomes in the order of the request; ``proposal`` is the first one.

    ``writes_performed`` is true only if a policy approved one at once. Otherwise nothing is stored yet.
    """

    writes_performed: bool
    proposal: ProposalOutcome
    proposals: list[ProposalOutcome]


class Proposal(TypedDict):
    """One proposal: what the memory would say, who proposes it, why, and what was decided.

    ``ref`` is the memory that it became, and ``decision`` the last decision on it, which can be undone.
    ``forgotten_before``: somebody forgot these words earlier; to approve it stores them again.
    """

    id: str
    state: ProposalStateName
    text: str
    kind: str
    raw_kind: str | None
    importance: float | None
    trust: str
    origin: str
    source: str | None
    supersedes: str | None
    tags: list[str]
    provenance: dict[str, str]
    scope: dict[str, str]
    evidence: list[str]
    """refs of the memories that it follows from"""
    reason: str
    proposed_by: str
    role: str
    at: str
    decided_at: str | None
    decided_by: str | None
    why: str
    ref: str | None
    decision: str | None
    forgotten_before: bool


class Proposals(TypedDict):
    """A page of proposals, newest first, and how many there are by state."""

    proposals: list[Proposal]
    counts: dict[str, int]
    next_cursor: str | None


class ProposalDecided(TypedDict):
    """The result of a decision on a proposal; ``decision`` is its name in the log, by which it can be undone.

    ``writes_performed``: a memory was stored, ``ref``. An approval of what is remembered already stores nothing, and
    its ``status`` is duplicate.
    """

    writes_performed: bool
    proposal: Proposal
    ref: str | None
    status: Literal["stored", "superseded", "duplicate", "rejected"]
    redacted: int
    decision: str | None


class Candidate(TypedDict):
    """A statement that could become a memory, with the refs of the memories that state it."""

    text: str
    kind: str
    topic: str
    importance: float
    confidence: float
    trust: str
    evidence: list[str]


class Extracted(TypedDict):
    """The candidates in what was read, and how many sentences were left out by reason; nothing is stored.

    ``proposals`` has the outcomes of those that were queued, if that was asked for.
    """

    writes_performed: Literal[False]
    method: Literal["rules", "model"]
    read: int
    candidates: list[Candidate]
    left_out: dict[str, int]
    proposals: list[ProposalOutcome]
