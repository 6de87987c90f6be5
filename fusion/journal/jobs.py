"""The jobs of a home: whether each is paused, who runs it now (its lease), and the log of its runs.

A lease has an owner, a time at which it runs out, and a fencing token that grows with each lease. A lease that ran out
may be taken by another owner; everything that the earlier owner writes after that is refused by its old token.
Where gateways share the journal, the database's clock decides, and what a run writes anywhere carries its token.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from fusion import wire
from fusion.errors import JobRunning, LeaseLost
from fusion.store.database import Connection, KeepsTime, deciding_time
from fusion.store.rows import microseconds, time_of

SCHEMA = """
create table job(
    name text primary key, schedule text not null default '', since integer, paused integer not null default 0,
    owner text, token integer not null default 0, until integer, resume text
) without rowid;
create table job_run(
    id integer primary key autoincrement, job text not null, slot integer, began integer not null, ended integer,
    status text not null, dry_run integer not null, started_by text not null, receipt text not null default '{}'
);
create index job_run_job on job_run(job, id);
create index job_run_slot on job_run(job, slot) where slot is not null;
"""
KEPT_RUNS = 1000
"""of each job in the log; the oldest are deleted"""
LOST_RUNS_OF_SLOT = 2
"""runs of one slot that may end with their process; a job that ends the server must not do so at every start"""

Status = Literal["running", "done", "stopped", "failed", "lost"]
"""of a run: stopped between two steps, and the next run resumes; lost: its process ended, or its lease was taken"""
StartedBy = Literal["schedule", "request"]


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job. ``slot`` is the time in the schedule that it is for; None for a run that was asked for."""

    id: int
    job: str
    status: Status
    began: datetime
    ended: datetime | None
    slot: datetime | None
    dry_run: bool
    started_by: StartedBy
    receipt: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JobState:
    """What the journal knows of a job; ``since`` is when its present schedule was first seen."""

    paused: bool = False
    since: datetime | None = None
    last: JobRun | None = None
    """the latest run, which may be under way"""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to run a job until it runs out. ``resume`` is the step at which an interrupted run continues."""

    job: str
    owner: str
    token: int
    run: int
    resume: str | None = None


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run that is about to begin; its fields are those of `JobRun`."""

    job: str
    owner: str
    slot: datetime | None = None
    dry_run: bool = False
    started_by: StartedBy = "request"


@dataclass(frozen=True, slots=True)
class LogPage:
    """Runs, the latest first, and the number of the last one if there are more."""

    runs: tuple[JobRun, ...]
    next: int | None


def note_schedule(db: Connection, name: str, schedule: str, now: datetime) -> None:
    """Record the schedule of a job; a changed schedule counts from now, so that no earlier slot of it is due."""
    db.execute(
        "insert into job(name, schedule, since) values(?, ?, ?) on conflict(name) do update set "
        "schedule = excluded.schedule, since = excluded.since "
        "where job.schedule <> excluded.schedule or job.since is null",
        (name, schedule, microseconds(now)),
    )


def schedules(db: Connection) -> dict[str, str]:
    """The recorded schedule of each job."""
    return {
        row["name"]: row["schedule"] for row in db.execute("select name, schedule from job where since is not null")
    }


def states(db: Connection) -> dict[str, JobState]:
    """The state of each job that was scheduled, paused or run before."""
    last = {
        row["job"]: _run(row)
        for row in db.execute("select * from job_run where id in (select max(id) from job_run group by job)")
    }
    return {
        row["name"]: JobState(
            bool(row["paused"]), None if row["since"] is None else time_of(row["since"]), last.get(row["name"])
        )
        for row in db.execute("select * from job")
    }


def by_host(db: Connection) -> Mapping[str, Mapping[str, JobRun]]:
    """By job, the latest run of each host whose name is in a receipt: a home on a shared disk may have several."""
    found: defaultdict[str, dict[str, JobRun]] = defaultdict(dict)
    host = "json_extract(receipt, '$.host')"
    latest = f"select max(id) from job_run where {host} is not null group by job, {host}"
    for row in db.execute(f"select * from job_run where id in ({latest})"):
        run = _run(row)
        found[run.job][run.receipt["host"]] = run
    return found


def failed(db: Connection) -> list[wire.FailedJob]:
    """The jobs whose latest run failed or was lost, by name."""
    return [
        {"job": name, "began": run.began.isoformat(), "why": _why(run)}
        for name, state in sorted(states(db).items())
        if (run := state.last) is not None and run.status in ("failed", "lost")
    ]


def _why(run: JobRun) -> str:
    """Why a run failed, by step."""
    if run.status == "lost":
        return "the run ended with its process"
    return "; ".join(f"{step}: {fault}" for step, fault in run.receipt.get("faults", {}).items())


def set_paused(db: Connection, name: str, paused: bool) -> None:
    """Pause a job, or let it run by its schedule again."""
    db.execute(
        "insert into job(name, paused) values(?, ?) on conflict(name) do update set paused = excluded.paused",
        (name, paused),
    )


def slot_is_due(db: Connection, name: str, slot: datetime, now: datetime, length: timedelta) -> bool:
    """Whether a slot that has come still needs a run; False while a lease of the job holds."""
    row = db.execute("select * from job where name = ?", (name,)).fetchone()
    return not _holds(db, row, now, length) and _is_open(db, name, slot, now)


def _holds(db: Connection, row: Any, now: datetime, length: timedelta) -> bool:
    """Whether a lease in a row of ``job`` is valid.

    In a file, one that ends far later was written while the machine's clock was ahead. A shared database has one clock,
    and gateways with other lengths.
    """
    if row is None or row["owner"] is None:
        return False
    left = time_of(row["until"]) - deciding_time(db, now)
    return timedelta() < left and (isinstance(db, KeepsTime) or left <= 2 * length)


def _is_open(db: Connection, name: str, slot: datetime, now: datetime) -> bool:
    """Whether neither a slot nor a later one up to now has had a run that ended.

    Slots after ``now`` do not count: the clock was ahead when they ran. They are not run again when their time comes.
    """
    ended = db.execute(
        "select 1 from job_run where job = ? and slot between ? and ? and status not in ('running', 'lost')",
        (name, microseconds(slot), microseconds(now)),
    ).fetchone()
    (lost,) = db.execute(
        "select count(*) from job_run where job = ? and slot = ? and status in ('running', 'lost')",
        (name, microseconds(slot)),
    ).fetchone()
    return ended is None and lost < LOST_RUNS_OF_SLOT


def take(db: Connection, request: RunRequest, now: datetime, length: timedelta) -> Lease | None:
    """Take the lease of a job and begin its run; None if the run is for a slot that has had its run.

    A run whose lease ran out is lost. Raises JobRunning while a lease holds.
    """
    row = db.execute("select * from job where name = ?", (request.job,)).fetchone()
    if _holds(db, row, now, length):
        raise under_way(request.job)
    db.execute(
        "update job_run set status = 'lost', ended = ? where job = ? and status = 'running'",
        (microseconds(now), request.job),
    )
    if request.slot is not None and not _is_open(db, request.job, request.slot, now):
        return None
    token = 1 if row is None else row["token"] + 1
    db.execute(
        "insert into job(name, owner, token, until) values(?, ?, ?, ?) on conflict(name) do update set "
        "owner = excluded.owner, token = excluded.token, until = excluded.until",
        (request.job, request.owner, token, microseconds(deciding_time(db, now) + length)),
    )
    slot = None if request.slot is None else microseconds(request.slot)
    run = db.execute(
        "insert into job_run(job, slot, began, status, dry_run, started_by) values(?, ?, ?, 'running', ?, ?) "
        "returning id",
        (request.job, slot, microseconds(now), request.dry_run, request.started_by),
    ).fetchone()["id"]
    return Lease(request.job, request.owner, token, run, None if row is None else row["resume"])


def under_way(name: str) -> JobRunning:
    """The refusal of a second run of a job."""
    return JobRunning(f"{name} is under way; `fusion jobs` shows how far it is")


def renew(db: Connection, lease: Lease, now: datetime, length: timedelta) -> None:
    """Extend a lease. Raises LeaseLost."""
    _require(db, lease)
    until = deciding_time(db, now) + length
    db.execute("update job set until = ? where name = ?", (microseconds(until), lease.job))


def save_step(db: Connection, lease: Lease, step: str) -> None:
    """Record the step at which the next run continues if this one does not end. Raises LeaseLost."""
    _require(db, lease)
    db.execute("update job set resume = ? where name = ?", (step, lease.job))


def finish(
    db: Connection,
    lease: Lease,
    status: Status,
    receipt: Mapping[str, Any],
    now: datetime,
    *,
    keep_step: bool = False,
    keep_slot: bool = True,
) -> JobRun:
    """End a run and give its lease back. Raises LeaseLost.

    With ``keep_step`` the next run continues at the saved step; without ``keep_slot`` the slot is due again.
    """
    _require(db, lease)
    db.execute("update job set owner = null, until = null where name = ?", (lease.job,))
    if not keep_step:
        db.execute("update job set resume = null where name = ?", (lease.job,))
    if not keep_slot:
        db.execute("update job_run set slot = null where id = ?", (lease.run,))
    db.execute(
        "update job_run set status = ?, ended = ?, receipt = ? where id = ?",
        (status, microseconds(now), json.dumps(receipt, default=str), lease.run),
    )
    db.execute(
        "delete from job_run where job = ? and id <= "
        "(select id from job_run where job = ? order by id desc limit 1 offset ?)",
        (lease.job, lease.job, KEPT_RUNS),
    )
    return _run(db.execute("select * from job_run where id = ?", (lease.run,)).fetchone())


def log_page(db: Connection, name: str | None, limit: int, before: int | None = None) -> LogPage:
    """A page of the runs of one job or of all, the latest first."""
    of_job = "" if name is None else "job = ? and"
    rows = db.execute(
        f"select * from job_run where {of_job} id < ? order by id desc limit ?",
        (*([] if name is None else [name]), 1 << 62 if before is None else before, limit + 1),
    ).fetchall()
    return LogPage(tuple(map(_run, rows[:limit])), rows[limit - 1]["id"] if len(rows) > limit else None)


def _require(db: Connection, lease: Lease) -> None:
    """Raises LeaseLost unless the lease is the job's present one; in a shared journal, also once it has ended.

    A single gateway goes on after the sleep of its machine: nobody else can have begun.
    """
    row = db.execute("select owner, token, until from job where name = ?", (lease.job,)).fetchone()
    is_present = row is not None and (row["owner"], row["token"]) == (lease.owner, lease.token)
    if not is_present or (isinstance(db, KeepsTime) and time_of(row["until"]) <= db.time()):
        raise LeaseLost(f"this run of {lease.job} took too long without a sign of life: another run has replaced it")


def _run(row: Any) -> JobRun:
    return JobRun(
        id=row["id"],
        job=row["job"],
        status=row["status"],
        began=time_of(row["began"]),
        ended=None if row["ended"] is None else time_of(row["ended"]),
        slot=None if row["slot"] is None else time_of(row["slot"]),
        dry_run=bool(row["dry_run"]),
        started_by=row["started_by"],
        receipt=json.loads(row["receipt"]),
    )
