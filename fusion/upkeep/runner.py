"""Runs the jobs of a home: by their schedules and on request, one run of each at a time.

Each run takes a lease in the journal, renews it while it works, and leaves a receipt there. Where gateways share the
journal, all that its steps write there is refused once the lease has ended. A run that ends with its
process leaves a lease that runs out; the next run of the same slot continues where it was.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NoReturn, TypeVar

from fusion.errors import FusionError, JobRunning, LeaseLost, NotFound
from fusion.journal import Journal, jobs
from fusion.journal.jobs import JobRun, JobState, Lease, LogPage, RunRequest, Status
from fusion.lib import trace
from fusion.lib.clock import Clock, utc_now
from fusion.lib.did_you_mean import hint
from fusion.upkeep.job import Job, JobContext, Progress, no_progress
from fusion.upkeep.schedule import OFF

T = TypeVar("T")

log = logging.getLogger(__name__)

LOOK_S = 60.0
"""longest time between two looks at the schedules: a timer does not notice a clock that was set or a machine's sleep"""
LATE = timedelta(minutes=5)
"""how late a run may begin without `Job.catch_up`"""
LEASE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """How far a run is."""

    done: int
    total: int | None
    note: str


@dataclass(frozen=True, slots=True)
class JobView:
    """A job with its state, for people. ``next`` is its next run; None while it is paused or off."""

    name: str
    does: str
    schedule: str
    budget_s: float
    paused: bool
    next: datetime | None
    progress: JobProgress | None
    """of the run that is under way in this process"""
    last: JobRun | None
    """the latest run, which may be under way"""
    hosts: Mapping[str, JobRun]
    """the latest run of each host"""


@dataclass(slots=True, eq=False)
class Runner:
    """The jobs of one home. ``owner`` is the name of this process in leases."""

    jobs: Sequence[Job]
    journal: Journal
    owner: str
    lease: timedelta = LEASE
    clock: Clock = utc_now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _progress: dict[str, JobProgress] = field(default_factory=dict)
    """of the runs that are under way in this process, by job"""
    _noted: set[str] = field(default_factory=set)
    """the jobs whose schedule this process has recorded"""
    _asked: set[asyncio.Task[JobRun | None]] = field(default_factory=set)
    """runs on request, which go on when nobody waits for them any more"""

    @property
    def host(self) -> str:
        """The host of this process, with which its name begins."""
        return self.owner.partition(":")[0]

    async def finished(self) -> None:
        """Return once no run is under way in this process."""
        while self._progress:
            await self.sleep(1.0)

    async def views(self) -> list[JobView]:
        """Every job with its state and its next run."""
        states = await self.journal.read(jobs.states)
        hosts = await self.journal.read(jobs.by_host)
        return [await self._view(job, states.get(job.name, JobState()), hosts.get(job.name, {})) for job in self.jobs]

    async def _view(self, job: Job, state: JobState, hosts: Mapping[str, JobRun]) -> JobView:
        following = None
        if job.schedule is not None and not state.paused:
            now = self.clock()
            following = job.schedule.after(now) if await self._due_slot(job, state) is None else now
        return JobView(
            name=job.name,
            does=job.does,
            schedule=OFF if job.schedule is None else str(job.schedule),
            budget_s=job.budget.total_seconds(),
            paused=state.paused,
            next=following,
            progress=self._progress.get(job.name),
            last=state.last,
            hosts=hosts,
        )

    async def log(self, name: str | None, limit: int, before: int | None = None) -> LogPage:
        """A page of the log of runs, the latest first. Raises NotFound for an unknown job."""
        if name is not None:
            self.job(name)
        return await self.journal.read(jobs.log_page, name, limit, before)

    async def set_paused(self, name: str, paused: bool) -> JobView:
        """Pause a job's schedule, or let it continue. Raises NotFound."""
        job = self.job(name)
        await self.journal.write(jobs.set_paused, name, paused)
        states, hosts = await self.journal.read(jobs.states), await self.journal.read(jobs.by_host)
        return await self._view(job, states[name], hosts.get(name, {}))

    def job(self, name: str) -> Job:
        """The job of that name. Raises NotFound."""
        for job in self.jobs:
            if job.name == name:
                return job
        names = [job.name for job in self.jobs]
        raise NotFound(f"there is no job {name!r}: there are {', '.join(names)}{hint(name, names)}")

    async def run(self, name: str, *, dry_run: bool = False, progress: Progress = no_progress) -> JobRun:
        """Run a job now, also a paused one. The run goes on if the caller is cancelled.

        Raises NotFound, and JobRunning while a run of it is under way.
        """
        job = self.job(name)
        run = await self._in_own_task(self._run(job, RunRequest(name, self.owner, dry_run=dry_run), progress))
        if run is None:  # a run for a slot alone may find that there is nothing to do
            raise LeaseLost(f"{name} was not run")
        return run

    async def run_if_due(self, name: str, *, progress: Progress = no_progress) -> JobRun | None:
        """Run a job for its latest slot; None if that has had its run or has one under way, or the job is paused.

        Raises NotFound.
        """
        return await self._in_own_task(self._run_if_due(self.job(name), progress))

    async def _in_own_task(self, work: Coroutine[Any, Any, JobRun | None]) -> JobRun | None:
        task = asyncio.create_task(work)
        self._asked.add(task)
        task.add_done_callback(self._end_of_asked)
        return await asyncio.shield(task)

    def _end_of_asked(self, task: asyncio.Task[JobRun | None]) -> None:
        self._asked.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("a job ended with an error: %s", error)

    async def close(self) -> None:
        """Stop the runs that were asked for; each records that it continues with the next run."""
        for task in self._asked:
            task.cancel()
        await asyncio.gather(*self._asked, return_exceptions=True)

    async def run_regularly(self, start_after_s: float) -> None:
        """Run every job by its schedule, for good; the first look is ``start_after_s`` from now."""
        await self.sleep(start_after_s)
        failing = ""
        while True:
            try:
                await self.run_due()
                failing = ""
            except Exception as error:  # noqa: BLE001 — the journal may be writable again at the next look
                if str(error) != failing:
                    log.warning("the jobs wait: %s", error)
                failing = str(error)
            await self.sleep(self._pause_s())

    async def run_due(self) -> list[JobRun]:
        """Run the jobs that are due, one after the other."""
        runs = [await self._run_if_due(job) for job in self.jobs]
        return [run for run in runs if run is not None]

    async def _run_if_due(self, job: Job, progress: Progress = no_progress) -> JobRun | None:
        await self._note_schedule(job)
        slot = await self._due_slot(job, (await self.journal.read(jobs.states)).get(job.name, JobState()))
        if slot is None:
            return None
        request = RunRequest(job.name, self.owner, slot, job.dry_run, "schedule")
        with suppress(JobRunning, LeaseLost):  # another run does it
            return await self._run(job, request, progress)
        return None

    def _pause_s(self) -> float:
        """Seconds until the next look: until the next slot, at most `LOOK_S`."""
        now = self.clock()
        slots = (job.schedule.after(now) for job in self.jobs if job.schedule is not None)
        return min([LOOK_S, *(max(0.0, (slot - now).total_seconds()) for slot in slots if slot is not None)])

    async def _note_schedule(self, job: Job) -> None:
        """Record a new or changed schedule, so that it is not due for a time before it was set.

        Once in a process: of two gateways with different schedules each would find the other one's at every look, and
        no slot would ever be due.
        """
        if job.schedule is None:
            return
        recorded = (await self.journal.read(jobs.schedules)).get(job.name)
        if recorded is None or (recorded != str(job.schedule) and job.name not in self._noted):
            await self.journal.write(jobs.note_schedule, job.name, str(job.schedule), self.clock())
        self._noted.add(job.name)

    async def _due_slot(self, job: Job, state: JobState) -> datetime | None:
        """The slot for which a job has to run now, or None."""
        now = self.clock()
        if job.schedule is None or state.paused or state.since is None:
            return None
        slot = job.schedule.latest(now)
        if slot is None or slot <= state.since or (not job.catch_up and now - slot > LATE):
            return None
        return slot if await self.journal.read(jobs.slot_is_due, job.name, slot, now, self.lease) else None

    async def _run(self, job: Job, request: RunRequest, progress: Progress) -> JobRun | None:
        """One run from its lease to its receipt; None if its slot has had a run. Raises JobRunning and LeaseLost."""
        if job.name in self._progress:  # also if this process was suspended, and its lease ran out
            raise jobs.under_way(job.name)
        lease = await self.journal.write(jobs.take, request, self.clock(), self.lease)
        if lease is None:
            return None
        self._progress[job.name] = JobProgress(0, None, "")
        said: dict[str, trace.Value] = {
            "fusion.job": job.name,
            "fusion.job.started_by": request.started_by,
            "fusion.job.dry_run": request.dry_run,
        }
        try:
            with trace.span(f"job {job.name}", attributes=said) as span:
                run = await self._run_leased(job, lease, request.dry_run, progress)
                _trace_outcome(span, run)
                return run
        finally:
            del self._progress[job.name]

    async def _run_leased(self, job: Job, lease: Lease, dry_run: bool, progress: Progress) -> JobRun:
        context = JobContext(self.clock(), dry_run, job.budget.total_seconds(), job.budget_tokens)
        context.run = f"j{lease.run}"
        context.progress = self._shown(job.name, progress)
        faults: dict[str, str] = {}
        with self.journal.fenced("job", lease.job, lease.token) as fence:
            try:
                stopped = await self._while_leased(self._steps(job, context, lease, faults), lease)
            except asyncio.CancelledError:
                receipt = _receipt(context, self.host, faults, "the server stopped")
                await self.journal.write(
                    jobs.finish, lease, "stopped", receipt, self.clock(), keep_step=True, keep_slot=False
                )
                fence.is_over = True
                raise
            status: Status = "failed" if faults else "stopped" if stopped else "done"
            keep_step = bool(stopped) or dry_run  # a dry run leaves the step of the run before
            receipt = _receipt(context, self.host, faults, stopped)
            ended = await self.journal.write(jobs.finish, lease, status, receipt, self.clock(), keep_step=keep_step)
            fence.is_over = True
            return ended

    async def _steps(self, job: Job, context: JobContext, lease: Lease, faults: dict[str, str]) -> str:
        """Do the steps of a run; returns why it stopped early, or "". A step that fails does not stop the others.

        The budget never ends a run before its first step, so that every run gets on.
        """
        try:
            names = sorted(await job.steps())
        except Exception as error:  # noqa: BLE001 — the receipt reports it
            faults["steps"] = f"{type(error).__name__}: {error}"
            return ""
        if lease.resume is not None and not context.dry_run:
            names = [name for name in names if name >= lease.resume] or names
        context.total = len(names)
        for name in names:
            if not context.dry_run:
                await self.journal.write(jobs.save_step, lease, name)
            if context.done and not context.left_s:
                return "budget"
            context.current = name
            context.progress(context.done, context.total, name)
            try:
                await job.step(context, name)
            except Exception as error:  # noqa: BLE001 — the receipt reports it
                faults[name] = f"{type(error).__name__}: {error}"
                log.warning("the job %s failed at %s: %s", job.name, name, error)
            context.done += 1
        return ""

    def _shown(self, name: str, progress: Progress) -> Progress:
        """Progress that is reported to the caller, and shown to everybody who lists the jobs."""

        def report(done: int, total: int | None, note: str = "") -> None:
            if name in self._progress:  # not after the end of the run
                self._progress[name] = JobProgress(done, total, note)
            progress(done, total, note)

        return report

    async def _while_leased(self, work: Coroutine[Any, Any, T], lease: Lease) -> T:
        """The result of ``work``, with its lease renewed; cancels it and raises LeaseLost once the lease is lost."""
        tasks = working, renewing = asyncio.create_task(work), asyncio.create_task(self._renew(lease))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if renewing.done():
                renewing.result()
            return await working
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _renew(self, lease: Lease) -> NoReturn:
        while True:
            await self.sleep(self.lease.total_seconds() / 3)
            try:
                await self.journal.write(jobs.renew, lease, self.clock(), self.lease)
            except LeaseLost:
                log.warning("another run has replaced this one of the job %s", lease.job)
                raise
            except FusionError as error:  # it is tried again before the lease runs out
                log.debug("the lease of the job %s was not renewed: %s", lease.job, error)


def _trace_outcome(span: trace.Span, run: JobRun) -> None:
    """Put the outcome of a run into its span: numbers and names alone, since a fault's message may quote a memory."""
    span.set_attribute("fusion.status", run.status)
    span.set_attribute("fusion.job.steps", run.receipt["steps"]["done"])
    if faults := run.receipt["faults"]:
        span.set_attribute("fusion.job.failed_steps", len(faults))
        span.fail(next(iter(faults.values())).partition(":")[0])


def _receipt(context: JobContext, host: str, faults: Mapping[str, str], stopped: str) -> dict[str, Any]:
    """The receipt of a run, as the log shows it."""
    return {
        "host": host,
        "took_s": round(context.took_s, 3),
        "steps": {"done": context.done, "total": context.total},
        "stopped": stopped,
        "faults": faults,
        "result": context.result,
    }
