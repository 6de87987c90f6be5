"""Requests that store, read, change and forget memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from fusion import wire
from fusion.client.calls.call import Call, not_none, quoted
from fusion.trust.token import READER_HEADER

if TYPE_CHECKING:
    from datetime import datetime

FORGET_S = 300.0
"""seconds to delete 500 memories in every backend and to verify it"""


def remember(
    memories: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    idempotency_key: str | None = None,
    batch: str | None = None,
    reader: str | None = None,
) -> Call[wire.RememberReply]:
    """Keep one memory or up to 100. Acknowledged is kept, also if the server is killed next.

    They reach the backends in the background, usually within 100 ms: a question asked right after this may not find
    them yet. `settle` waits until they are delivered.

    ``batch`` names a run that `undo` can take back. ``reader`` is the key in ``home/reader.key``: without it, a source
    of a kind that only readers of files and sessions name is kept as a claim.
    """
    headers = {"idempotency-key": idempotency_key, "ingest-batch": batch, READER_HEADER: reader}
    return Call("POST", "/v1/memories", memories, headers=not_none(headers))


def memory(ref: str, **scope: str | None) -> Call[wire.StoredMemory]:
    """One memory by its ref."""
    return Call.get(f"/v1/memories/{quoted(ref)}", scope)


def memories(
    *,
    limit: int = 20,
    cursor: str | None = None,
    document: str | None = None,
    source: str | None = None,
    kind: str | None = None,
    trust: str | None = None,
    origin: str | None = None,
    state: str | None = None,
    in_project: str | None = None,
    tag: str | None = None,
    after: str | None = None,
    before: str | None = None,
    min_importance: float | None = None,
    backend: str | None = None,
    q: str | None = None,
    order: Literal["recorded", "newest", "oldest", "importance"] = "recorded",
    **scope: str | None,
) -> Call[wire.Memories]:
    """A page of what is remembered that fits, newest first; ``next_cursor`` of one page is ``cursor`` of the next."""
    return Call.get("/v1/memories", locals())


def document(
    path: str,
    *,
    start: int = 1,
    lines: int | None = None,
    summaries: Literal["rules", "model"] | None = None,
    versions: int | None = None,
    **scope: str | None,
) -> Call[wire.Document]:
    """A page of a document that a hit named, from line or turn ``start``; with ``summaries`` of its sections.

    ``versions`` asks for so many earlier versions of its file, if that is in a git repository.
    """
    asked = {"path": path, "from": start, "lines": lines, "summaries": summaries, "versions": versions}
    return Call.get("/v1/documents", {**asked, **scope})


def update(
    ref: str,
    text: str | None = None,
    *,
    kind: str | None = None,
    valid_from: datetime | str | None = None,
    valid_to: datetime | str | None = None,
    origin: str | None = None,
    idempotency_key: str | None = None,
    **scope: str | None,
) -> Call[wire.UpdateReply]:
    """Replace a memory by a new version; what is None stays as it is. `undo` with the reply's ``batch`` takes it back.

    Raises AlreadyReplaced for a memory that was replaced since.
    """
    said = {"text": text, "kind": kind, "valid_from": valid_from, "valid_to": valid_to, "origin": origin, **scope}
    headers = not_none({"idempotency-key": idempotency_key})
    return Call("PATCH", f"/v1/memories/{quoted(ref)}", not_none(said), headers=headers)


def set_state(
    ref: str,
    *,
    archived: bool | None = None,
    trust: str | None = None,
    lifetime: str | None = None,
    confidence: float | None = None,
    importance: float | str | None = None,
    provenance: str | Mapping[str, str] | None = None,
    priority: str | None = None,
    due: str | None = None,
    for_project: str | None = None,
    tags: Sequence[str] | None = None,
    why: str = "",
    **scope: str | None,
) -> Call[wire.StateReply]:
    """Archive or restore a memory, or change its trust, lifetime and so on; what is None stays."""
    return Call.post("/v1/state", locals())


def set_states(
    refs: Sequence[str],
    *,
    archived: bool | None = None,
    trust: str | None = None,
    lifetime: str | None = None,
    confidence: float | None = None,
    importance: float | str | None = None,
    provenance: str | Mapping[str, str] | None = None,
    priority: str | None = None,
    due: str | None = None,
    for_project: str | None = None,
    tags: Sequence[str] | None = None,
    why: str = "",
    dry_run: bool = False,
    **scope: str | None,
) -> Call[wire.StatesReply]:
    """Change the state of several memories of one owner as one decision, or only show what would change."""
    return Call.post("/v1/states", locals())


def trust(ref: str, **scope: str | None) -> Call[wire.TrustReport]:
    """The trust of a memory: where it comes from, each change of it, and its use."""
    return Call.get(f"/v1/trust/{quoted(ref)}", not_none(scope))


def plans(*, everything: bool = False, limit: int = 20, **scope: str | None) -> Call[wire.Plans]:
    """The plans that are due or overdue, the earliest first; with ``everything`` the others as well."""
    asked = {"everything": "true" if everything else None, "limit": limit, **scope}
    return Call.get("/v1/plans", not_none(asked))


def decisions(
    *, ref: str | None = None, limit: int = 20, cursor: str | None = None, **scope: str | None
) -> Call[wire.Decisions]:
    """A page of the decisions on memories, or on the memory ``ref``, newest first."""
    return Call.get("/v1/decisions", locals())


def undo_decision(
    decision: str | None = None, *, run: str | None = None, dry_run: bool = False, **scope: str | None
) -> Call[wire.DecisionUndone]:
    """Take one decision back by its id, or all decisions, or changes of files, of the ``run`` of a job."""
    return Call.post("/v1/decisions/undo", locals())


def undo(
    batch: str | None = None, *, limit: int = 1000, dry_run: bool = False, **scope: str | None
) -> Call[wire.Undone]:
    """Take back what an ingest added, by default the last one. Call again while ``left`` is not 0."""
    return Call.post("/v1/undo", locals(), timeout_s=FORGET_S)


def batches(*, limit: int = 20, **scope: str | None) -> Call[wire.Batches]:
    """The ingests that can be undone, latest first."""
    return Call.get("/v1/batches", locals())


def sources(
    *, prefix: str | None = None, after: str | None = None, limit: int = 100, **scope: str | None
) -> Call[wire.Sources]:
    """The sources of memories, by name, from the one after ``after``."""
    return Call.get("/v1/sources", locals())


def retire(
    files: Sequence[Mapping[str, Any]], *, dry_run: bool = False, reader: str | None = None, **scope: str | None
) -> Call[wire.Retired]:
    """Retire what came from files and is no longer in them; ``files`` are {source, keep: revisions} of whole files.

    ``reader`` is the key in ``home/reader.key``; only a dry run works without it.
    """
    headers = not_none({READER_HEADER: reader})
    return Call.post("/v1/retire", {"files": files, "dry_run": dry_run, **scope}, headers=headers)


def forget(ref: str, **scope: str | None) -> Call[wire.Forgotten]:
    """Forget one memory everywhere; the reply says what each backend did."""
    return Call("DELETE", f"/v1/memories/{quoted(ref)}", parameters=not_none(scope))


def forget_many(
    *,
    refs: Sequence[str] | None = None,
    query: str | None = None,
    source: str | None = None,
    document: str | None = None,
    after: datetime | str | None = None,
    before: datetime | str | None = None,
    time: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
    dry_run: bool = False,
    all_users: bool | None = None,
    **scope: str | None,
) -> Call[wire.ForgetReply]:
    """Forget by refs, or everything that matches all criteria, at most ``limit`` at once; ``dry_run`` only shows it.

    Call again while ``more`` is true.
    """
    return Call.post("/v1/forget", locals(), timeout_s=FORGET_S)


def forgotten(*, limit: int = 20, cursor: str | None = None, **scope: str | None) -> Call[wire.ForgottenPage]:
    """A page of the audit of forgotten memories, newest first: when, and what each backend did."""
    return Call.get("/v1/forgotten", locals())
