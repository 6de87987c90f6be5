"""The replies of the HTTP API, declared once as typed dictionaries of their JSON.

The client returns them, the command line prints them, and the OpenAPI document describes them. Requests are declared in
`fusion.doors.schemas`. `Hit`, `Moment` and `Place` are the JSON of the classes of that name in `fusion.contract`.
"""

from __future__ import annotations

from typing import (
    Any,
    Literal,
    NotRequired,  # pydantic cannot read typing's own before Python 3.12
)

from typing_extensions import TypedDict


class Coverage(TypedDict):
    """How many of the backends that were asked have answered; ``ratio`` leaves out skipped ones."""

    total: int
    ok: int
    failed: int
    skipped: int
    ratio: float
    vectors_pending: NotRequired[int]
    """memories without vectors yet, which are found by their words only"""


class BackendAnswer(TypedDict):
    """The answer of one backend to one request, without its hits."""

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
    passages: list[list[int]]
    """of a long memory the parts in ``text``: begin and end, in characters of the whole text"""
    probability: float | None
    """that it helps to answer the question; None where the scores are not calibrated (``rerank.uncalibrated``)"""


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


class _Answer(TypedDict):
    """What an answer to a question and the answer of one arm have in common."""

    block: str
    memories: list[Excerpt]
    coverage: Coverage
    degraded: bool
    backends: list[BackendAnswer]
    rerank: dict[str, Any]
    recipe: RecipeName
    receipt_id: str
    took_ms: float
    abstained: str | None


class FuseReply(_Answer):
    """The answer to a question; ``block`` goes into the prompt as it is."""

    query_truncated: bool
    explain: dict[str, Any] | None
    notes: list[str]
    """what is degraded for the whole home, each with its fix"""
    disputed: list[Dispute]
    prepared: bool
    """whether it was prepared behind the session's last turn"""


class ComparedArm(_Answer):
    """The answer of one arm of a comparison; ``arm`` is the text of the request.

    ``waited_ms`` is the time of the slowest of its backends, ``took_ms`` that of its ranking and packing alone.
    """

    arm: str
    characters: int
    waited_ms: float
    tuned_on: bool
    """whether the arm's recipe was tuned on this very question: then its answer is no evidence for it"""


class ReceiptEntry(TypedDict):
    """The entry of one memory in an arm's receipt. Without a ``ref`` it was no candidate; ``decision`` is an enum, and
    ``reason`` explains it in words.

    ``found_by`` has the rank in each backend's own answer; a memory that joined as a neighbour has none.
    """

    ref: str | None
    decision: str
    reason: str
    local: float | None
    probability: float | None
    judge: float | None
    rrf: float | None
    neighbour_of: str | None
    signals: dict[str, float]
    found_by: dict[str, int]


class ComparedMemory(TypedDict):
    ref: str
    a: ReceiptEntry
    b: ReceiptEntry


class CompareReply(TypedDict):
    """Two answers from one gather; refs are those of a's block, and b's for memories only in b's block."""

    a: ComparedArm
    b: ComparedArm
    only_a: list[str]
    only_b: list[str]
    both: list[str]
    why: list[ComparedMemory]
    took_ms: float
    query_truncated: bool
    notes: list[str]


class Feedback(TypedDict):
    """The feedback on an answer as it is now."""

    receipt_id: str
    useful: list[str]
    useless: list[str]


class Label(TypedDict):
    """The feedback on one memory of one answer, with the answer's recipe and the memory's values at ranking time.

    ``position`` counts from 1 in the order of the answer, including left out memories; ``found_by`` has the rank in
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
    sort: NotRequired[str | None]
    """turn, long_turn or note: what a calibration is fitted for; this and the next three are not in earlier labels"""
    best: NotRequired[list[float]]
    """the best and the second best score of the answer"""
    encoders: NotRequired[list[str]]
    """the identities of the embedder and of the second encoder, empty where there was none"""
    weights_hash: NotRequired[str]
    """of the recipe's weights (`fusion.calibration.weights_hash`)"""


class Labels(TypedDict):
    """A page of labels, oldest first; ``next_cursor`` asks for the next one, and is null on the last."""

    labels: list[Label]
    next_cursor: str | None


class Hit(TypedDict):
    """One raw hit of a backend; the fields are those of `fusion.contract.Hit`, with ``linked`` for its graph score."""

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
    """the source of the place: a file that was read ("file:…"), or only this backend ("backend:…")"""


class SearchReply(TypedDict):
    """The raw hits of one backend."""

    backend: BackendAnswer
    hits: list[Hit]


class Problem(TypedDict):
    """RFC 9457 problem details."""

    type: str
    title: str
    status: int
    detail: str
    retry_after_s: NotRequired[float]
    coverage: NotRequired[Coverage]
    backends: NotRequired[list[BackendAnswer]]
    current: NotRequired[str]
    """the ref of the newest version of a memory that was replaced"""
    users: NotRequired[list[str]]
    """of a question that names nobody: the first ten users that have memories, by name"""
    agents: NotRequired[list[str]]
    """the same, where several agents of one user have memories"""


class Ready(TypedDict):
    """Readiness; without a key the reply has ``ready`` alone."""

    ready: bool
    reason: NotRequired[str]
    backends: NotRequired[dict[str, Any]]
    notes: NotRequired[list[str]]


class Health(TypedDict):
    status: Literal["ok"]
    version: str
    pid: int


class BackendState(TypedDict):
    """The state of one backend: its health, what it holds, and its backlog."""

    name: str
    adapter: str
    status: str
    """ready, disabled, half_open (one call will be made as a probe), closed (it fails, but no other backend answers),
    or the reason why it is not asked: open, rate_limited, unauthorized"""
    detail: str
    items: int
    vectors: int
    vectors_pending: int
    backlog: int
    """deliveries that it has not acknowledged yet"""
    leaked: int
    """hits of other scopes that it returned and that were dropped, since the start"""
    notes: list[str]
    degraded: bool
    """whether a configured part fails; ``notes`` say which"""


class ToolSearchItem(TypedDict):
    """One result of memory_search. ``path`` is its document, or its ref if it has none."""

    path: str
    startLine: int
    endLine: int
    score: float
    probability: NotRequired[float | None]
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


class ToolSearchReply(TypedDict):
    """The result of memory_search; when no backend answered, an empty list with ``error`` and ``action``."""

    results: list[ToolSearchItem]
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


ToolReadReply = TypedDict(
    "ToolReadReply",
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
    """The place of appended lines; ``path`` is that of the log, or the ref of the note that they became."""

    path: str | None
    ref: str | None
    status: str
    """appended, or what became of the note: stored, duplicate, blocked, skipped"""
    redacted: int
    reason: str
    """why nothing was kept, or how the kept text differs from the sent one"""
    startLine: NotRequired[int]
    endLine: NotRequired[int]


class DailyLog(TypedDict):
    """A log that is shown: its day, and its name for `memory_get`."""

    day: str
    path: str
    truncated: bool
    """only its last lines are shown"""


class DailyLogs(TypedDict):
    """Today's and yesterday's logs, as a fenced block for a prompt; empty if there are none."""

    block: str
    logs: list[DailyLog]


class FlushRules(TypedDict):
    enabled: bool
    reserve_floor_tokens: int
    soft_threshold_tokens: int
    force_transcript_bytes: int


class FlushPlan(TypedDict):
    """Whether an agent should save now what it knows, and the turn to run; ``path`` is relative to its workspace.

    ``expected_tokens`` includes the next message.
    """

    flush: bool
    reason: str
    """tokens, transcript or overflow; or a reason against it, see `fusion.gateway.memory_flush.Reason`"""
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


class Steps(TypedDict):
    done: int
    total: int


class JobReceipt(TypedDict, total=False):
    """What a run did; empty while it is under way, and of a run that was lost."""

    took_s: float
    steps: Steps
    stopped: str
    """why it stopped early: its budget was spent, or the server stopped; empty if it did not"""
    faults: dict[str, str]
    """by step, why it failed"""
    result: dict[str, Any]
    """numbers of the job's own"""


class JobRun(TypedDict):
    """One run of a job. ``slot`` is the time in its schedule that it was for; None for a run that was asked for."""

    id: int
    job: str
    status: Literal["running", "done", "stopped", "failed", "lost"]
    """stopped: between two steps, and the next run continues; lost: its process ended"""
    began: str
    ended: str | None
    slot: str | None
    dry_run: bool
    started_by: Literal["schedule", "request"]
    receipt: JobReceipt


class JobProgress(TypedDict):
    """How many steps of a run are done, of how many; ``note`` is the step that is under way."""

    done: int
    total: int | None
    note: str


class Job(TypedDict):
    """A job. ``next`` is its next run; None while it is paused or off. ``last`` is its latest run."""

    name: str
    does: str
    schedule: str
    budget_s: float
    paused: bool
    next: str | None
    progress: JobProgress | None
    last: JobRun | None


class Jobs(TypedDict):
    jobs: list[Job]


class JobRan(TypedDict):
    """The run; None if the job was not due."""

    run: JobRun | None


class JobLog(TypedDict):
    runs: list[JobRun]
    next_cursor: str | None


class LifecycleReport(TypedDict):
    """Numbers of memories that a run of the lifecycle changed, or in a dry run would change.

    ``released`` can be found again, since the memory that they had been merged into ended. ``run`` names the run in the
    log of decisions; it is empty if nothing was decided. ``notes`` are caveats for the counts.
    """

    expired: int
    decayed: int
    consolidated: int
    retired: int
    conflicts_resolved: int
    scanned: int
    released: int
    deleted: int
    dry_run: bool
    run: str
    notes: list[str]


class Backends(TypedDict):
    backends: list[BackendState]


class BackendStatus(BackendState):
    """The state of one backend with its breaker and failed deliveries.

    Of its backlog it has refused ``refused`` so far; ``failed`` were given up; ``reason`` is why one of these was.
    ``wait_s`` is the time until an open breaker lets a call through.
    """

    refused: int
    failed: int
    reason: str
    breaker: Literal["closed", "open", "half_open"]
    wait_s: float


class Counts(TypedDict):
    """Memories of the asking tenant, or of the scope that was asked for.

    ``superseded`` are earlier versions, ``forgotten`` are tombstones without text.
    """

    current: int
    superseded: int
    forgotten: int
    by_backend: NotRequired[dict[str, int]]
    """of the current ones of a scope, how many each backend has"""


class ReceiptsKept(TypedDict):
    kept: int
    keep_days: float


class HeldBack(TypedDict):
    """A document with forgotten memories: the texts of these refs stay out of answers while the document has them."""

    document: str
    refs: list[str]


class Requests(TypedDict):
    """The other requests that the server works on now."""

    in_flight: int
    queued: int


class HistoryKept(TypedDict):
    """The reply to `POST /ingest`: whether the history is kept, and when it is taken in unless another call comes."""

    status: Literal["accepted", "skipped"]
    session_id: str
    due_at: str | None
    reason: str
    """why it was skipped"""


class CortexResult(TypedDict):
    """One result of `POST /hybrid-search`. ``id`` is a number, as Memory Cortex has; ``ref`` names the memory here."""

    id: int
    ref: str
    user_id: str
    topic: str
    fact: str
    importance: int
    created_at: str
    score: float
    source: str
    """what found it: fts5+vector, fts5 or vector"""


class CortexResults(TypedDict):
    """The reply to `POST /hybrid-search`: best first."""

    results: list[CortexResult]
    count: int


class CortexRecall(TypedDict):
    """The reply to `POST /recall`: an answer in sentences, each with the refs of the memories that say it."""

    response: str
    memories_searched: int
    memories_used: int
    synthesis: Literal["model", "rules"]
    """who wrote it: the language model, or rules that quote the memories"""
    refs: list[str]
    """the memories that are cited"""


class CachedSynthesis(TypedDict):
    """What was recalled for a session's last question, summed up for its next one; ``cachedAt`` is in milliseconds."""

    query: str
    response: str
    cachedAt: int


class SessionState(TypedDict):
    """What is kept of a session, by Memory Cortex's names. Times are milliseconds since 1970; None: never."""

    session_id: str
    memoryCortexIngestedAt: int | None
    memoryCortexRecalledAt: int | None
    memoryCortexFactsInjected: int
    """memories in the block of the last question"""
    memoryCortexSynthesis: CachedSynthesis | None


class HistoriesWaiting(TypedDict):
    """How many histories of sessions wait to be taken in, and why one of them failed, or empty."""

    waiting: int
    fault: str


class Statements(TypedDict):
    """The comparison of new statements with earlier ones: how many wait, and the error of the last try, or empty."""

    waiting: int
    fault: str


class FailedJob(TypedDict):
    """A job whose latest run failed, or ended with its process; ``began`` is when that run began."""

    job: str
    began: str
    why: str


class Status(TypedDict):
    """A home at a glance. ``bytes`` is by part of the home; ``notes`` say what is degraded, with the fix."""

    version: str
    uptime_s: float
    backends: list[BackendStatus]
    memories: Counts
    receipts: ReceiptsKept
    embedder: str | None
    judge: str | None
    judged: NotRequired[dict[str, int]]
    """answers since the start by what became of the judge: ok, not_needed (its gate was closed), timeout, off, …"""
    silent: NotRequired[dict[str, int]]
    """prompts since the start that got no block because they did not want memory, by the reason"""
    bytes: dict[str, int]
    notes: list[str]
    held_back: list[HeldBack]
    links: dict[str, int]
    """links below the folders of [notes], by kind: none is followed"""
    statements: NotRequired[Statements]
    histories: NotRequired[HistoriesWaiting]
    failed_jobs: NotRequired[list[FailedJob]]
    """for the home's owner"""
    agents: NotRequired[dict[str, int]]
    """how many memories each agent has, by name; without a scope only"""
    incidents: NotRequired[list[str]]
    """drifts of MEMORY.md from its baseline that a person should look at, for the home's owner"""
    requests: Requests


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


class TenantImport(TypedDict):
    """What an import did, or would do, to one tenant's memories.

    ``trust`` is kept, or the most that the memories are believed. ``blocked``: forgotten here. ``forgotten``: memories
    of this home that the export has as forgotten. ``deleted``: the export has their ids alone. ``conflict``: another
    text has the id here. ``refused``: a secret in an id, or nothing to store. ``new_refs``: they have another ref here.
    """

    tenant: str
    journal: str
    trust: str
    new: int
    known: int
    blocked: int
    forgotten: int
    deleted: int
    conflict: int
    refused: int
    new_refs: int


class ImportReport(TypedDict):
    """``missing`` says what a partial export lacks; ``faults`` has the first lines that were left out, with reasons."""

    dry_run: bool
    created_at: str
    program: str
    tenants: list[TenantImport]
    missing: list[str]
    broken: int
    faults: list[str]


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
    state: NotRequired[dict[str, Any]]
    """the fields of its state that differ from a new memory's: confidence, ended_at, ended, merged_into, trust, …"""


class StateChanged(TypedDict):
    """One memory that a decision changed, with the changed fields before and after."""

    ref: str
    before: dict[str, Any]
    after: dict[str, Any]


class Decision(TypedDict):
    """One change of the states of memories: when, by whom and why.

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


class StateReply(TypedDict):
    """The decision that a request made; null if the state was so already."""

    decision: Decision | None


class DecisionUndone(StateReply):
    """The decision that took one back, null for a whole run; ``undone`` is the number of decisions taken back."""

    undone: int


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
    },
)
"""A page of a document. ``text`` has ``lines`` lines (or turns, see ``unit``) from ``from`` on; the next page begins at
``next_from``. Forgotten lines are blank, and secrets are masked."""


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

    ``same_as``: it does not match itself, and goes with that memory because it has the same words.
    """

    ref: str
    text: str
    backends: list[str]
    at: str | None
    source: str | None
    same_as: NotRequired[str | None]


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
