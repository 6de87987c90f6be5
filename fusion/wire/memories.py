"""The replies about stored memories: remembering, reading, changing and forgetting them."""

from __future__ import annotations

from typing import (
    Any,
    Literal,
    NotRequired,  # pydantic cannot read typing's own before Python 3.12
)

from typing_extensions import TypedDict


class RememberOutcome(TypedDict):
    """The outcome for one memory that was sent; it is kept if it is stored, superseded or duplicate.

    stored: it is new. superseded: it is new, and replaces the earlier one in its place. duplicate: it exists already.
    blocked: it was forgotten before. skipped: it has no text left to keep.
    """

    ref: str
    event_id: str
    status: Literal["stored", "superseded", "duplicate", "blocked", "skipped"]
    redacted: int
    """secrets that were masked"""
    reason: str
    """why it was not kept, or how the kept text differs from the sent one"""
    supersedes: str | None
    """the ref of the memory that it replaces"""
    said: int
    """how often a user or agent remembered it, this time included"""
    claimed: NotRequired[bool]
    """whether it is stored as a claim, because its caller may not name the source that it named"""


class RememberReply(TypedDict):
    memories: list[RememberOutcome]


class UpdateReply(RememberOutcome):
    """The new version of a memory, ``ref``, and the earlier one that it ``supersedes``.

    duplicate: the memory says that already. ``batch`` undoes the update; None if nothing was changed.
    """

    batch: str | None


class Grade(TypedDict):
    """The importance of a memory, 0 to 1, its label, and how it came about; ``method`` is manual if it was given."""

    score: float | None
    label: Literal["must_remember", "nice_to_have", "unknown", "ignore"]
    rationale: str
    method: str
    version: int
    graded_at: str


class Provenance(TypedDict):
    """Where a memory comes from: a reference, and its kind."""

    kind: Literal["none", "url", "file_line", "file_anchor", "receipt", "opaque"]
    ref: str


class Due(TypedDict):
    """When a plan is due: its time with the precision that is known, and when that is over."""

    at: str
    precision: str
    until: str | None


class StoredMemory(TypedDict):
    """One memory as it was sent; or, with ``backend``, an item of that backend's own, as it is now.

    If it was read by its ref, the reply also has the ``backends`` that keep it, the event that it ``supersedes``, and
    whether it is ``current``: it is not if another replaced it, or its file has it no more.
    """

    ref: str
    backend: NotRequired[str]
    event_id: str | None
    text: str
    kind: str
    speaker: str | None
    at: str | None
    recorded_at: str | None
    document: str | None
    position: int | None
    source: str | None
    trust: str
    origin: str
    scope: dict[str, str]
    until: NotRequired[str]
    """the end, excluded, of an episode that began ``at`` a time"""
    entities: NotRequired[list[str]]
    """who and what its caller said that it involves"""
    valid_to: NotRequired[str]
    """when it ends, or ended"""
    metadata: NotRequired[dict[str, Any]]
    """what its caller stated besides"""
    grade: NotRequired[Grade | None]
    """null if its importance is unknown"""
    provenance: NotRequired[Provenance]
    """as stated, else as its source and place say"""
    priority: NotRequired[Literal["P0", "P1", "P2"]]
    """how long it is kept unused: as set, else by its importance"""
    due: NotRequired[Due | None]
    """when a plan is due"""
    backends: NotRequired[list[str]]
    supersedes: NotRequired[str | None]
    current: NotRequired[bool]
    said: NotRequired[int]
    """how often a user or agent remembered it"""
    said_at: NotRequired[str | None]
    """the last of these times, if more than one; ``recorded_at`` is the first"""
    included: NotRequired[int]
    """how often it was part of a block"""
    last_included_at: NotRequired[str | None]
    retrieved: NotRequired[int]
    """how often it was among the best 50 candidates of a question, in its block or not"""
    last_retrieved_at: NotRequired[str | None]
    state: NotRequired[dict[str, Any]]
    """the fields of its state that differ from a new memory's: confidence, ended_at, ended, merged_into, trust, …"""
    status: NotRequired[
        Literal["current", "archived", "superseded", "retired", "expired", "decayed", "lost", "merged", "quarantined"]
    ]
    """in lists, in one word what holds of it"""
    importance: NotRequired[float | None]
    """in lists"""
    tags: NotRequired[list[str]]
    """in lists, those of its state"""
    withheld: NotRequired[str]
    """why its text is empty: it is quarantined, and the key is no operator's"""


class StateChanged(TypedDict):
    """One memory that a decision changed, with the changed fields before and after."""

    ref: str
    before: dict[str, Any]
    after: dict[str, Any]


class Decision(TypedDict):
    """One change of the state of one or more memories: when, by whom and why.

    ``run`` is the job run that it belongs to; ``undoes`` is the decision that it took back, and ``undone_by`` the one
    that took this one back.
    """

    id: str
    at: str
    who: str
    why: str
    changes: list[StateChanged]
    run: str | None
    undoes: str | None
    undone_by: str | None
    proposal: NotRequired[str]
    """the proposal that it decided on; ``changes`` may be empty then"""


class TrustReport(TypedDict):
    """The trust of a memory, without its text.

    ``trust`` holds now, ``stated_trust`` came with the memory, and ``changes`` are the decisions between them, the
    latest first. ``packEligibility`` is openclaw-mem's word for whether a pack may have it.
    """

    ref: str
    recordRef: str
    trust: Literal["trusted", "unknown", "untrusted", "quarantined"]
    stated_trust: Literal["trusted", "unknown", "untrusted", "quarantined"]
    quarantined: bool
    packEligibility: Literal["excluded_by_quarantine", "eligible_subject_to_pack_policy"]
    origin: str
    source: str | None
    provenance: Provenance
    changes: list[Decision]
    included: int
    last_included_at: str | None
    retrieved: int
    last_retrieved_at: str | None
    rule: str


class Plan(TypedDict):
    """What a memory announces, and whether it is to come, due, or over since ``until``."""

    ref: str
    recordRef: str
    text: str
    kind: str
    status: Literal["due", "overdue", "upcoming", "undated"]
    due: str | None
    until: str | None
    precision: str | None
    trust: str
    scope: dict[str, str]


class Plans(TypedDict):
    """Plans by due time; ``more``: there are others beyond the limit."""

    plans: list[Plan]
    more: bool


class StateReply(TypedDict):
    """The decision that a request made; null if the state was so already."""

    decision: Decision | None


class StatesReply(TypedDict):
    """What changed about several memories, or with ``dry_run`` would, as one decision; null if nothing differs.

    ``unchanged`` are those whose state was so already, ``missing`` the refs that name no memory.
    """

    dry_run: bool
    decision: Decision | None
    changes: list[StateChanged]
    unchanged: list[str]
    missing: list[str]


class DecisionUndone(StateReply):
    """The decision that took one back, null for a whole run; ``undone`` is the number of decisions taken back.

    ``files`` are the changes of files that were taken back with a run, as "w3 MEMORY.md".
    """

    undone: int
    files: NotRequired[list[str]]


class Decisions(TypedDict):
    """A page of the log of decisions, newest first."""

    decisions: list[Decision]
    next_cursor: str | None


class Memories(TypedDict):
    """A page of memories, newest first; ``next_cursor`` asks for the next one, and is null on the last."""

    memories: list[StoredMemory]
    next_cursor: str | None


class DocumentSection(TypedDict):
    """A section of a page: lines ``start`` to ``end`` under these headings, and one sentence about them."""

    headings: list[str]
    start: int
    end: int
    summary: str
    by: Literal["rules", "model"]
    """who wrote the summary; the rules quote the section's most central sentence"""


class DocumentVersion(TypedDict):
    """An earlier version of a file in a git repository: when it was committed, by whom and with what message."""

    at: str
    by: str
    why: str
    text: str


Document = TypedDict(
    "Document",
    {
        "path": str,
        "unit": str,
        "from": int,
        "lines": int,
        "text": str,
        "truncated": bool,
        "next_from": int | None,
        "sections": NotRequired[list[DocumentSection]],
        "versions": NotRequired[list[DocumentVersion]],
    },
)
"""A page of a document. ``text`` has ``lines`` lines (or turns, see ``unit``) from ``from`` on; the next page begins at
``next_from``. Forgotten lines are blank, and secrets are masked, also in its earlier ``versions``, newest first."""


class Forgotten(TypedDict):
    """The outcome of forgetting a memory in each backend.

    It is deleted, absent, hidden (a user's own file), pending or still_there.
    deleted: it was asked again and does not return it. pending: it did not answer. still_there: it reports the deletion
    and still returns the memory. Both are asked again until they have forgotten; no answer shows the memory meanwhile.
    ``also`` has the refs that went with it: the user's copies with the same words (``same``), its earlier versions, and
    what was derived from it alone. ``released`` has the refs of memories that say nearly the same: they were merged
    into what is forgotten, and are answered again.
    """

    ref: str
    event_id: str
    backends: dict[str, str]
    also: NotRequired[list[str]]
    same: NotRequired[list[str]]
    released: NotRequired[list[str]]


class FoundToForget(TypedDict):
    """One memory that matches a request to forget; ``text`` is short, and empty once it is forgotten.

    ``same_as``: it does not match itself, and goes with that memory because it has the same words. A key below the role
    operator gets no text of what is ``quarantined``.
    """

    ref: str
    text: str
    backends: list[str]
    at: str | None
    source: str | None
    same_as: NotRequired[str | None]
    quarantined: NotRequired[bool]


class ForgetReply(TypedDict):
    """The result of a request to forget; ``pending`` counts the memories that some backend has not forgotten yet.

    ``missing`` are unknown refs. With ``more``, send the same request again; for a dry run, with ``next_cursor``.
    ``released`` has those of all receipts, in a dry run those that would be released.
    """

    dry_run: bool
    found: list[FoundToForget]
    receipts: list[Forgotten]
    missing: list[str]
    done: bool
    pending: int
    more: bool
    next_cursor: str | None
    released: list[str]


class Undone(TypedDict):
    """The result of an undo: ``undone`` memories of a batch were removed, ``left`` are still to be removed.

    ``found`` has the first of those that were removed, or with ``dry_run`` would be.
    """

    batch: str
    dry_run: bool
    found: list[FoundToForget]
    undone: int
    left: int
    restored: list[str]
    """refs of the memories that are current again, because what had replaced them was removed"""


class Batch(TypedDict):
    """One ingest: its time, how many of its memories are kept, and the first and last of their sources."""

    id: str
    at: str
    memories: int
    first: str
    last: str


class Batches(TypedDict):
    batches: list[Batch]


class ForgottenEntry(TypedDict):
    """One entry of the audit of forgotten memories, without text; ``by`` is how the memory was selected."""

    ref: str
    at: str
    by: str
    backends: dict[str, str]


class ForgottenPage(TypedDict):
    """A page of the audit, newest first."""

    forgotten: list[ForgottenEntry]
    next_cursor: str | None


class SourceCount(TypedDict):
    """A source, and the number of its current memories."""

    source: str
    memories: int


class Sources(TypedDict):
    sources: list[SourceCount]


class Retired(TypedDict):
    """How many memories were retired because their files no longer contain them, in all and by source."""

    retired: int
    sources: dict[str, int]
    dry_run: bool
