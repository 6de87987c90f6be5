"""Jobs of gateways that share a journal in PostgreSQL: whose turn it is, and what a run may write, by one clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fusion.errors import JobRunning, LeaseLost
from fusion.journal import Journal, jobs
from fusion.upkeep.job import Job, JobContext
from fusion.upkeep.runner import Runner
from fusion.upkeep.schedule import parse
from tests.fakes import Off
from tests.ingest.helpers import event
from tests.journal.conftest import Journals
from tests.journal.helpers import append

if TYPE_CHECKING:
    from fusion.store.postgres import Server


class Step:
    """A job's only step: it waits until it may go on, and then does ``work``."""

    def __init__(self, work: Callable[[], Awaitable[object]] | None = None) -> None:
        self.begun, self.may_go_on = asyncio.Event(), asyncio.Event()
        self._work = work

    async def steps(self) -> list[str]:
        return ["one"]

    async def step(self, context: JobContext, name: str) -> None:
        self.begun.set()
        await self.may_go_on.wait()
        if self._work is not None:
            await self._work()
        context.add({"steps": 1})

    def job(self, schedule: str = "off") -> Job:
        return Job("tidy", "Tidy up.", self.steps, self.step, parse(schedule))


async def paused(_seconds: float) -> None:
    """The sleep of a process that is paused: nothing is renewed."""
    await asyncio.Event().wait()


def runner(journal: Journal, step: Step, host: str, minutes: float = 0, **options: Any) -> Runner:
    return Runner([step.job()], journal, f"{host}:1", clock=Off(minutes), sleep=paused, **options)


async def end_lease(journal: Journal) -> None:
    """Let the lease end, as time does."""
    await journal.write(lambda db: db.execute("update job set until = 1").rowcount)


@pytest.fixture
async def pair(journal_server: Server, tmp_path: Path) -> AsyncIterator[tuple[Journal, Journal]]:
    """The journals of two gateways."""
    journals = Journals(tmp_path, journal_server)
    yield await journals.open(), await journals.open()
    await journals.close()


@pytest.mark.parametrize("minutes", [-30, 30])
async def test_a_job_runs_in_one_gateway_at_a_time_with_clocks_that_differ_by_minutes(
    pair: tuple[Journal, Journal], minutes: float
) -> None:
    one, two = Step(), Step()
    first, second = runner(pair[0], one, "a", minutes), runner(pair[1], two, "b", -minutes)
    running = asyncio.create_task(first.run("tidy"))
    await one.begun.wait()
    with pytest.raises(JobRunning):
        await second.run("tidy")
    one.may_go_on.set()
    assert (await running).status == "done"
    two.may_go_on.set()
    assert (await second.run("tidy")).status == "done"
    assert (await second.log(None, 9)).runs[-1].receipt["host"] == "a"


async def test_a_lease_of_another_length_holds(pair: tuple[Journal, Journal]) -> None:
    """In a file, a lease that ends far later was written by a clock that was ahead. Here it is another gateway's."""
    one, two = Step(), Step()
    first = runner(pair[0], one, "a", lease=timedelta(minutes=10))
    running = asyncio.create_task(first.run("tidy"))
    await one.begun.wait()
    with pytest.raises(JobRunning):
        await runner(pair[1], two, "b", lease=timedelta(minutes=1)).run("tidy")
    one.may_go_on.set()
    assert (await running).status == "done"


@pytest.mark.parametrize("minutes", [-30, 30])
async def test_a_slot_has_one_run_with_clocks_that_differ_by_minutes(
    pair: tuple[Journal, Journal], minutes: float
) -> None:
    """Both gateways find it due; a slot is one and the same for both, since their clock is the database's."""
    slot = datetime(2026, 3, 14, tzinfo=UTC)
    for journal, off in zip(pair, (minutes, -minutes), strict=True):
        due = await journal.read(jobs.slot_is_due, "tidy", slot, Off(off)(), timedelta(minutes=1))
        taken = (
            await journal.write(
                jobs.take, jobs.RunRequest("tidy", "x", slot, started_by="schedule"), Off(off)(), timedelta(minutes=1)
            )
            if due
            else None
        )
        assert (taken is not None) == (journal is pair[0])


@pytest.mark.feature("a gateway whose lease of a job has ended writes nothing more of that run")
@pytest.mark.parametrize("is_taken", [False, True])
async def test_a_paused_gateway_whose_lease_ended_writes_nothing(pair: tuple[Journal, Journal], is_taken: bool) -> None:
    """Also before another one has taken the lease, and also in the schema of another tenant."""
    (stored,) = await append(pair[0], event("Ana keeps the spare key under the third pot"))

    async def archive() -> None:
        await pair[0].decide({stored.event.event_id: {"trust": "untrusted"}}, "tidy", "old")

    one, two = Step(archive), Step()
    two.may_go_on.set()
    first, second = runner(pair[0], one, "a"), runner(pair[1], two, "b")
    running = asyncio.create_task(first.run("tidy"))
    await one.begun.wait()
    await end_lease(pair[1])
    if is_taken:
        assert (await second.run("tidy")).status == "done"
    one.may_go_on.set()
    with pytest.raises(LeaseLost):
        await running
    assert (await pair[1].records([stored.event.event_id]))[stored.event.event_id].trust == stored.event.trust
    assert await second.run("tidy")
    statuses = [run.status for run in (await second.log(None, 9)).runs]
    assert statuses == (["done", "done", "lost"] if is_taken else ["done", "lost"])
    await archive()  # what is no part of a run is written


async def test_a_run_writes_to_another_tenants_schema_under_its_lease(journal_server: Server, tmp_path: Path) -> None:
    """The lease is in the owner's schema and the write in another one; row-level security shows one at a time."""
    journals = Journals(tmp_path, journal_server)
    owner, tenant = await journals.open("owner"), await journals.open("acme")
    (stored,) = await append(tenant, event("Ana keeps the spare key under the third pot"))

    async def distrust() -> None:
        await tenant.decide({stored.event.event_id: {"trust": "untrusted"}}, "tidy", "old")

    for ended in (False, True):
        step = Step(distrust)
        running = asyncio.create_task(runner(owner, step, "a").run("tidy"))
        await step.begun.wait()
        if ended:
            await tenant.decide({stored.event.event_id: {"trust": "unknown"}}, "ana", "fine")
            await end_lease(owner)
        step.may_go_on.set()
        (outcome,) = await asyncio.gather(running, return_exceptions=True)
        assert isinstance(outcome, LeaseLost) == ended
        found = (await tenant.records([stored.event.event_id]))[stored.event.event_id]
        assert found.trust == ("unknown" if ended else "untrusted")
    await journals.close()


async def test_a_dead_gateways_job_is_taken_over_after_its_lease(pair: tuple[Journal, Journal]) -> None:
    one, two = Step(), Step()
    two.may_go_on.set()
    request = jobs.RunRequest("tidy", "dead")
    assert await pair[0].write(jobs.take, request, Off(0)(), timedelta(seconds=60))
    second = runner(pair[1], two, "b")
    with pytest.raises(JobRunning):
        await second.run("tidy")
    await end_lease(pair[1])
    assert (await second.run("tidy")).status == "done"
    assert not one.begun.is_set()


async def test_what_a_run_leaves_in_the_background_is_written_after_its_end(pair: tuple[Journal, Journal]) -> None:
    later = asyncio.Event()
    written: list[asyncio.Task[object]] = []
    (stored,) = await append(pair[0], event("Ana keeps the spare key under the third pot"))

    async def leave() -> None:
        async def write() -> None:
            await later.wait()
            await pair[0].decide({stored.event.event_id: {"trust": "untrusted"}}, "ana", "odd")

        written.append(asyncio.create_task(write()))

    step = Step(leave)
    step.may_go_on.set()
    assert (await runner(pair[0], step, "a").run("tidy")).status == "done"
    later.set()
    await written[0]
    assert (await pair[0].records([stored.event.event_id]))[stored.event.event_id].trust == "untrusted"
