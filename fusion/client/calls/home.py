"""Requests to whoever runs the home: jobs, exports, backends, and whether it is well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from fusion import wire
from fusion.client.calls.call import Call, not_none, quoted

if TYPE_CHECKING:
    from datetime import datetime

VERB_S = 3600.0
"""seconds for a verb, which may read a whole store"""
SETTLE_EXTRA_S = 30.0
"""seconds that a client waits for `settle` longer than the server"""


def do(
    backend: str, verb: str, arguments: Mapping[str, Any] | None = None, **scope: str | None
) -> Call[dict[str, Any]]:
    """Run one of a backend's verbs; the reply is its result. `AsyncClient.stream` also yields its progress.

    A verb may go through a whole store, so the timeout is an hour.
    """
    path = f"/v1/backends/{quoted(backend)}/{quoted(verb)}"
    return Call("POST", path, {**(arguments or {}), **not_none(scope)}, timeout_s=VERB_S)


def lifecycle(
    *,
    dry_run: bool = False,
    ttl_hours: float | None = None,
    idle_hours: float | None = None,
    delete_expired: bool | None = None,
    archive_unused: bool | None = None,
    **scope: str | None,
) -> Call[wire.LifecycleReport]:
    """Expire, decay, retire and merge memories, and resolve conflicts; None: as the settings say.

    `AsyncClient.stream` also yields its progress.
    """
    more: dict[str, Any] = {"ttl_hours": ttl_hours, "idle_hours": idle_hours, "delete_expired": delete_expired}
    more |= {"archive_unused": archive_unused, **scope}
    return Call("POST", "/v1/lifecycle", {"dry_run": dry_run, **not_none(more)}, timeout_s=VERB_S)


def grade(*, dry_run: bool = False, scorer: str | None = None, **scope: str | None) -> Call[wire.GradeReport]:
    """Give memories without an importance one by rules. The scorer "off" only counts; None: as the settings say."""
    return Call("POST", "/v1/grade", {"dry_run": dry_run, **not_none({"scorer": scorer, **scope})}, timeout_s=VERB_S)


def jobs() -> Call[wire.Jobs]:
    """The jobs of the home: their schedules, their next and last runs, and how far those under way are."""
    return Call.get("/v1/jobs")


def run_job(name: str, *, dry_run: bool = False, due: bool = False) -> Call[wire.JobRan]:
    """Run a job now, with ``due`` only if its schedule says so. `AsyncClient.stream` also yields its progress.

    Raises JobRunning while a run of it is under way. The run goes on if the client hangs up.
    """
    return Call("POST", f"{_job(name)}/run", {"dry_run": dry_run, "due": due}, timeout_s=VERB_S)


def pause_job(name: str) -> Call[wire.Job]:
    """Stop running a job by its schedule. It still runs on request."""
    return Call("POST", f"{_job(name)}/pause", {})


def resume_job(name: str) -> Call[wire.Job]:
    """Run a paused job by its schedule again."""
    return Call("POST", f"{_job(name)}/resume", {})


def job_log(job: str | None = None, *, limit: int = 20, cursor: str | None = None) -> Call[wire.JobLog]:
    """A page of the runs of one job or of all, the latest first, each with its receipt."""
    return Call.get("/v1/jobs/log", locals())


def audit(
    *,
    action: str | None = None,
    since: datetime | str | None = None,
    user_id: str | None = None,
    ref: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Call[wire.Audit]:
    """A page of who read, changed and forgot memories, the newest first. It needs the role operator."""
    return Call.get("/v1/audit", locals())


def _job(name: str) -> str:
    return f"/v1/jobs/{quoted(name)}"


def export(*, tenant: str | None = None, user_id: str | None = None) -> Call[bytes]:
    """Memories with what was forgotten as hashes: the pieces of a file for `import_export`.

    The token of a home's owner exports every tenant. A client's method returns an iterator.
    """
    arguments = not_none({"tenant": tenant, "user_id": user_id})
    return Call("GET", "/v1/export", parameters=arguments, timeout_s=VERB_S)


def import_export(
    pieces: Callable[[], Iterable[bytes]],
    *,
    dry_run: bool = False,
    trust: Literal["auto", "keep", "unknown", "untrusted"] = "auto",
    partial: bool = False,
    refs: bool = False,
    tenant: str | None = None,
) -> Call[wire.ImportReport]:
    """Import an export, or only count what that would do; ``pieces`` returns an iterator over the bytes of the file.

    Imported twice it is imported once: call again after an interruption. ``trust="keep"`` is for exports of your own.
    """
    chosen = {"dry_run": dry_run, "trust": trust, "partial": partial, "refs": refs, "tenant": tenant}
    parameters = {name: str(value).lower() if isinstance(value, bool) else value for name, value in chosen.items()}
    return Call("POST", "/v1/import", parameters=not_none(parameters), timeout_s=VERB_S, pieces=pieces)


def backends() -> Call[wire.Backends]:
    """The state of every backend, and what it holds."""
    return Call.get("/v1/backends")


def inspector_link() -> Call[wire.InspectorLink]:
    """A link to the inspector that signs a browser in: it works once, and for a minute."""
    return Call("POST", "/v1/inspector/links", {})


def status(**scope: str | None) -> Call[wire.Status]:
    """The state of the home: backends, breakers, backlog, sizes, requests in flight.

    With a scope, ``memories`` counts those of that scope alone.
    """
    return Call.get("/v1/status", locals())


def ready() -> Call[dict[str, Any]]:
    """Readiness of the server. Raises Overloaded while it starts or stops."""
    return Call.get("/readyz")


def health() -> Call[wire.Health]:
    """Liveness of the server, with its process id."""
    return Call.get("/healthz")


def settle(wait_s: float = 30.0) -> Call[wire.Settled]:
    """Wait until everything remembered is delivered and has its vectors; ``settled`` says whether it was in time."""
    return Call("POST", "/v1/settle", {"timeout_s": wait_s}, timeout_s=wait_s + SETTLE_EXTRA_S)
