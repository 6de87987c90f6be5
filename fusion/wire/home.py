"""The replies about a home: health, status of its backends, jobs, upkeep and imports."""

from __future__ import annotations

from typing import (
    Any,
    Literal,
    NotRequired,  # pydantic cannot read typing's own before Python 3.12
)

from typing_extensions import TypedDict


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


class Settled(TypedDict):
    """Whether everything remembered is delivered and its vectors are there."""

    settled: bool
    backends: list[BackendState]


class Steps(TypedDict):
    done: int
    total: int


class JobReceipt(TypedDict, total=False):
    """What a run did; empty while it is under way, and of a run that was lost."""

    host: str
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
    """A job. ``next`` is its next run; None while it is paused or off. ``last`` is its latest run.

    ``hosts`` has the latest run of each host on which this home was served.
    """

    name: str
    does: str
    schedule: str
    budget_s: float
    paused: bool
    next: str | None
    progress: JobProgress | None
    last: JobRun | None
    hosts: NotRequired[dict[str, JobRun]]


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
    archived: int
    archived_by: dict[str, dict[str, int]]
    """the archived ones by priority, trust and importance"""
    dry_run: bool
    run: str
    notes: list[str]


class GradeReport(TypedDict):
    """The receipt of a run of the grader over memories without an importance, in the fields of openclaw-mem.

    ``skipped_existing`` had one; ``skipped_disabled`` are of kinds that are not graded, or their grade was undone.
    ``label_counts`` are those of all memories after the run. ``run`` names the run in the log of decisions; it is empty
    if nothing was decided.
    """

    total_seen: int
    graded_filled: int
    skipped_existing: int
    skipped_disabled: int
    scorer_errors: int
    label_counts: dict[str, int]
    unfinished: bool
    dry_run: bool
    run: str


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


class PrefixCounts(TypedDict):
    """All stable prefixes of a home: how many, their turns and rewrites, and the mean hit rate of all turns."""

    windows: int
    turns: int
    rewrites: int
    prefix_hit_rate: float | None


class Caller(TypedDict):
    """Who makes a request: the name of its key ("owner" with the home's token), its role and its tenant.

    ``decides_on_proposals`` as `[proposals] decided_by` says.
    """

    name: str
    role: Literal["reader", "proposer", "writer", "operator"]
    tenant: str
    decides_on_proposals: bool


class ModelUse(TypedDict):
    """The use of a model since the server's start: by the tenant, or by all tenants for the home's operator.

    ``use`` is judge, or model for all else that asks `[model]`, whose tokens are estimated. ``calls`` are by their
    outcome. ``cost`` is by `[telemetry.prices]`, null for a model without a price.
    """

    model: str
    use: str
    calls: dict[str, int]
    tokens_read: int
    tokens_written: int
    cost: float | None


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
    prefixes: NotRequired[PrefixCounts]
    """the stable prefixes, without a scope only"""
    failed_jobs: NotRequired[list[FailedJob]]
    """for the home's owner"""
    agents: NotRequired[dict[str, int]]
    """how many memories each agent has, by name; without a scope only"""
    models: NotRequired[list[ModelUse]]
    """without a scope only"""
    incidents: NotRequired[list[str]]
    """drifts of MEMORY.md from its baseline that a person should look at, for the home's owner"""
    requests: Requests
    proposals: NotRequired[dict[str, int]]
    """how many proposals there are, by state"""
    caller: NotRequired[Caller]
    """whose key this request has"""


class InspectorLink(TypedDict):
    """A path of the server that signs a browser in to the inspector, once and within so many seconds."""

    path: str
    expires_s: float


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
    observations: int
    """observations that are new here"""
    proposals: int
    """proposals that are new here"""


class ImportReport(TypedDict):
    """``missing`` says what a partial export lacks; ``faults`` has the first lines that were left out, with reasons."""

    dry_run: bool
    created_at: str
    program: str
    tenants: list[TenantImport]
    missing: list[str]
    broken: int
    faults: list[str]
