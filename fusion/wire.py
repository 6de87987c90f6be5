"""What the server's replies look like: typed dictionaries, as they come out of JSON.

The client returns them, the command line prints them, and the OpenAPI document describes them; so there is one place
that says what a field is called.
"""

from __future__ import annotations

from typing import (
    Any,
    Literal,
    NotRequired,  # pydantic cannot read typing's own before Python 3.12
)

from typing_extensions import TypedDict


class Coverage(TypedDict):
    """How much of what was asked answered; ``ratio`` leaves out what was skipped."""

    total: int
    ok: int
    failed: int
    skipped: int
    ratio: float
    vectors_pending: NotRequired[int]
    """memories whose vectors are not computed yet: they are found by their words alone"""


class Asked(TypedDict):
    """How one backend did on one request."""

    name: str
    status: str
    """as `fusion.recall.gather.Status` lists them: ok, empty, skipped, timeout, …"""
    took_ms: float
    count: int
    error_code: str | None
    detail: NotRequired[str]
    dropped: NotRequired[dict[str, int]]
    refused: NotRequired[dict[str, int]]


class Moment(TypedDict):
    utc: str
    precision: str
    zone: str | None


class Place(TypedDict):
    document: str
    start: int
    end: int
    unit: str


class Member(TypedDict):
    """One memory inside an excerpt."""

    ref: str
    text: str
    speaker: str | None
    at: str | None
    kind: str
    trust: str
    backends: list[str]
    score: float
    place: Place | None
    path: list[str]


class Excerpt(TypedDict):
    """One excerpt of a document; ``ref`` and ``score`` are its best member's."""

    ref: str
    document: str | None
    at: str | None
    score: float
    members: list[Member]


class Dispute(TypedDict):
    """Two memories of a block that share most words and cannot both be true.

    ``kind`` says in what they differ: word, name, number, negation or order. ``newer`` is the ref of the later one,
    null where that is not known, and ``at`` its day; ``sources`` say where each of ``refs`` comes from.
    """

    refs: list[str]
    kind: str
    newer: str | None
    at: str | None
    sources: list[str]


class RecipeName(TypedDict):
    name: str
    hash: str


class Fused(TypedDict):
    """The answer to a question; ``block`` goes into the prompt as it is."""

    block: str
    memories: list[Excerpt]
    coverage: Coverage
    degraded: bool
    backends: list[Asked]
    rerank: dict[str, Any]
    recipe: RecipeName
    receipt_id: str
    took_ms: float
    abstained: str | None
    query_truncated: bool
    explain: dict[str, Any] | None
    notes: list[str]
    """what is degraded for the whole home, in words with the fix"""
    disputed: list[Dispute]


class Side(TypedDict):
    """One arm's answer to a comparison; ``arm`` is as it was written.

    ``waited_ms`` is how long the slowest of its own backends took, ``took_ms`` its ranking and packing alone.
    """

    arm: str
    block: str
    characters: int
    memories: list[Excerpt]
    coverage: Coverage
    degraded: bool
    backends: list[Asked]
    rerank: dict[str, Any]
    recipe: RecipeName
    receipt_id: str
    waited_ms: float
    took_ms: float
    abstained: str | None
    tuned_on: bool
    """whether this very question chose numbers of the arm's recipe: then what it finds does not speak for it"""


class Reason(TypedDict):
    """What an arm's receipt says of one memory; without a ``ref`` it was no candidate, and ``decision`` says why, as
    ``reason`` does in words.

    ``found_by`` has the rank in each backend's own answer; a memory that came in as a neighbour has none.
    """

    ref: str | None
    decision: str
    reason: str
    local: float | None
    judge: float | None
    rrf: float | None
    neighbour_of: str | None
    signals: dict[str, float]
    found_by: dict[str, int]


class Why(TypedDict):
    ref: str
    a: Reason
    b: Reason


class Compared(TypedDict):
    """Two answers out of one gather; refs are those that a's block has, and b's for what only b has."""

    a: Side
    b: Side
    only_a: list[str]
    only_b: list[str]
    both: list[str]
    why: list[Why]
    took_ms: float
    query_truncated: bool
    notes: list[str]


class Feedback(TypedDict):
    """What stands now of an answer's feedback."""

    receipt_id: str
    useful: list[str]
    useless: list[str]


class Label(TypedDict):
    """One memory of one answer, voted on: the answer's recipe, and all that was known of the memory when it was ranked.

    ``position`` counts from 1 in the order of the answer, what was left out included; ``found_by`` has the rank in
    each backend's own answer. Never a text, and no query.
    """

    receipt_id: str
    ref: str
    useful: bool
    at: str
    scope: dict[str, str]
    recipe: RecipeName
    position: int
    decision: str
    local: float
    judge: float | None
    rrf: float
    signals: dict[str, float]
    found_by: dict[str, int]


class Labels(TypedDict):
    """A page of labels, oldest first; ``next_cursor`` asks for the next one, and is null on the last."""

    labels: list[Label]
    next_cursor: str | None


class Hit(TypedDict):
    """One thing that a backend found, as it found it; the fields are those of `fusion.contract.Hit`."""

    ref: str
    native_id: str
    text: str
    scope: dict[str, str | None]
    event_id: str | None
    score: float | None
    kind: str
    raw_kind: str | None
    speaker: str | None
    at: Moment | None
    recorded_at: str | None
    valid_from: str | None
    valid_to: str | None
    place: Place | None
    trust: str
    origin: str
    derived_from: list[str]
    path: list[str]
    linked: float | None
    stated_by: str | None
    """who states the place: a file that was read ("file:…"), or only this backend ("backend:…")"""


class Found(TypedDict):
    """One backend's raw answer."""

    backend: Asked
    hits: list[Hit]


class Problem(TypedDict):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    retry_after_s: NotRequired[float]
    coverage: NotRequired[Coverage]
    backends: NotRequired[list[Asked]]


class Ready(TypedDict):
    """Whether the server answers; who has no key learns nothing else."""

    ready: bool
    reason: NotRequired[str]
    backends: NotRequired[dict[str, Any]]
    notes: NotRequired[list[str]]


class Health(TypedDict):
    status: Literal["ok"]
    version: str
    pid: int


class BackendState(TypedDict):
    """One backend: how it is, what it holds, and what it still has to do."""

    name: str
    adapter: str
    status: str
    detail: str
    items: int
    vectors: int
    vectors_pending: int
    backlog: int
    leaked: int
    """memories of somebody else's that it answered with, and that were dropped, since the start"""
    notes: list[str]
    degraded: bool
    """whether something fails that is configured to work; ``notes`` say what"""


class ToolResult(TypedDict):
    """One memory that a search found. ``path`` is its document, or its ref where it stands in none."""

    path: str
    startLine: int
    endLine: int
    score: float
    snippet: str
    source: Literal["memory", "sessions"]
    ref: str
    kind: str
    trust: str
    backends: list[str]
    vectorScore: NotRequired[float]
    textScore: NotRequired[float]
    citation: NotRequired[str]
    at: NotRequired[str]
    speaker: NotRequired[str]


class ToolFound(TypedDict):
    """What memory_search found; where nobody answered, an empty list with ``error`` and what to do."""

    results: list[ToolResult]
    provider: NotRequired[str]
    model: NotRequired[str | None]
    fallback: NotRequired[dict[str, str] | None]
    degraded: NotRequired[bool]
    notice: NotRequired[str | None]
    disabled: NotRequired[bool]
    unavailable: NotRequired[bool]
    error: NotRequired[str]
    warning: NotRequired[str]
    action: NotRequired[str]


ToolRead = TypedDict(
    "ToolRead",
    {
        "text": str,
        "path": str,
        "from": NotRequired[int],
        "lines": NotRequired[int],
        "truncated": NotRequired[bool],
        "nextFrom": NotRequired[int],
    },
)


class Appended(TypedDict):
    """Where lines stand now; ``path`` is the log's, or the ref of the note that they became."""

    path: str | None
    ref: str | None
    status: str
    """appended, or what became of the note: stored, duplicate, blocked, skipped"""
    redacted: int
    reason: str
    """why nothing was kept; of what is kept, how it differs from what was sent"""
    startLine: NotRequired[int]
    endLine: NotRequired[int]


class FlushRules(TypedDict):
    enabled: bool
    reserve_floor_tokens: int
    soft_threshold_tokens: int
    force_transcript_bytes: int


class FlushPlan(TypedDict):
    """Whether an agent should save now what it knows, and the turn to run; ``path`` is below its workspace."""

    flush: bool
    reason: str
    """tokens, transcript or overflow; or what speaks against it, as `fusion.gateway.memory_flush.Reason` lists them"""
    threshold_tokens: int
    expected_tokens: int | None
    prompt: str
    system_prompt: str
    path: str
    time: str
    zone: str
    rules: FlushRules


class Settled(TypedDict):
    """Whether everything remembered is delivered and its vectors are there."""

    settled: bool
    backends: list[BackendState]


class Backends(TypedDict):
    backends: list[BackendState]


class BackendStatus(BackendState):
    """…and how calls of it go. ``refused`` of its backlog it did not take so far, ``failed`` were given up.

    ``reason`` says why one of these was. ``wait_s``: seconds until an open breaker lets a call in.
    """

    refused: int
    failed: int
    reason: str
    breaker: Literal["closed", "open", "half_open"]
    wait_s: float


class Counts(TypedDict):
    """Memories of the asking tenant; ``superseded`` are earlier versions, ``forgotten`` are tombstones without text."""

    current: int
    superseded: int
    forgotten: int


class ReceiptsKept(TypedDict):
    kept: int
    keep_days: float


class HeldBack(TypedDict):
    """A document of which something was forgotten: what these refs said stays out of answers while it says so."""

    document: str
    refs: list[str]


class Requests(TypedDict):
    """What the server works on now, beside this question."""

    in_flight: int
    queued: int


class Status(TypedDict):
    """A home at a glance. ``bytes`` is by part of the home; ``notes`` say what is degraded, with the fix."""

    version: str
    uptime_s: float
    backends: list[BackendStatus]
    memories: Counts
    receipts: ReceiptsKept
    embedder: str | None
    judge: str | None
    bytes: dict[str, int]
    notes: list[str]
    held_back: list[HeldBack]
    links: dict[str, int]
    """links below the folders of [notes], by kind: none is followed"""
    requests: Requests


class Kept(TypedDict):
    """What became of one memory that was handed in; what is stored, superseded or duplicate is kept.

    stored: it is new. superseded: it is new, and replaces what stood in its place. duplicate: it was there already.
    blocked: it was forgotten before. skipped: nothing was left to keep.
    """

    ref: str
    event_id: str
    status: Literal["stored", "superseded", "duplicate", "blocked", "skipped"]
    redacted: int
    """secrets taken out"""
    reason: str
    """why it was not kept; of what is kept, how it differs from what was sent"""
    supersedes: str | None
    """the ref of the memory that it takes the place of"""
    said: int
    """how often it was remembered on purpose, this time included"""


class Remembered(TypedDict):
    memories: list[Kept]


class Remembrance(TypedDict):
    """One memory as it was handed in; or, with ``backend``, an item of that backend's own, as it has it now.

    Read by its ref it says, too, which ``backends`` keep it, the event that it ``supersedes``, and whether it is
    ``current``: another may have replaced it since, or its file have it no more.
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
    backends: NotRequired[list[str]]
    supersedes: NotRequired[str | None]
    current: NotRequired[bool]
    said: NotRequired[int]
    """how often it was remembered on purpose"""
    said_at: NotRequired[str | None]
    """when that was for the last time, if more than once; ``recorded_at`` is the first"""


class Memories(TypedDict):
    """A page of memories, newest first; ``next_cursor`` asks for the next one, and is null on the last."""

    memories: list[Remembrance]
    next_cursor: str | None


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
    },
)
"""A page of a document. ``from`` and ``lines`` say which lines (or turns, as ``unit`` says) ``text`` has; the next page
begins at ``next_from``. What was forgotten is blank, and secrets are masked."""


class Forgotten(TypedDict):
    """What became of a memory in each backend: deleted, absent, hidden (a user's own file), pending or still_there.

    deleted: it was asked again, and does not return it. pending: it did not answer; still_there: it says that it
    deleted, and returns it. Both are asked until they have forgotten; nothing shows the memory meanwhile. ``also`` has
    the refs of what went with it: the same user's copies in the same words, which ``same`` names, its earlier versions,
    and what was derived from it alone.
    """

    ref: str
    event_id: str
    backends: dict[str, str]
    also: NotRequired[list[str]]
    same: NotRequired[list[str]]


class FoundToForget(TypedDict):
    """One memory that a request to forget means; ``text`` is short, and empty once it is forgotten.

    ``same_as``: it is not named itself and goes with that one, for it says the same words.
    """

    ref: str
    text: str
    backends: list[str]
    at: str | None
    source: str | None
    same_as: NotRequired[str | None]


class Forgetting(TypedDict):
    """What a request to forget came to; ``pending`` counts the memories that some backend has not forgotten yet.

    ``missing`` are refs of nothing here. With ``more`` the same request again goes on; a dry run, from ``next_cursor``.
    """

    dry_run: bool
    found: list[FoundToForget]
    receipts: list[Forgotten]
    missing: list[str]
    done: bool
    pending: int
    more: bool
    next_cursor: str | None


class Undone(TypedDict):
    """What an undo came to: ``undone`` memories of a batch were taken back, ``left`` still are to be.

    ``found`` shows the first of those that were, or with ``dry_run`` would be.
    """

    batch: str
    dry_run: bool
    found: list[FoundToForget]
    undone: int
    left: int


class Batch(TypedDict):
    """One run of an ingest: when, how many memories of it are kept, and the first and the last of their sources."""

    id: str
    at: str
    memories: int
    first: str
    last: str


class Batches(TypedDict):
    batches: list[Batch]


class Audited(TypedDict):
    """One forgetting as the audit has it: refs only. ``by`` names what it was found by; ``backends`` is as of now."""

    ref: str
    at: str
    by: str
    backends: dict[str, str]


class ForgottenPage(TypedDict):
    """A page of the audit, newest first."""

    forgotten: list[Audited]
    next_cursor: str | None


class SourceCount(TypedDict):
    """Where memories came from, and how many of them are current."""

    source: str
    memories: int


class Sources(TypedDict):
    sources: list[SourceCount]


class Retired(TypedDict):
    """How many memories are not current any more because their files do not have them, in all and by source."""

    retired: int
    sources: dict[str, int]
    dry_run: bool
