"""The runner of jobs in virtual time: slots, catch-up, leases, budgets, pauses, and runs that are cut short."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.errors import JobRunning, LeaseLost, NotFound
from fusion.journal import Journal, jobs
from fusion.journal.jobs import JobRun
from fusion.upkeep.runner import LEASE, Runner
from fusion.upkeep.schedule import parse
from tests.upkeep.helpers import BEGAN, Clock, MemoryJournal, Recorded, in_virtual_time, runner

NIGHTLY = "0 3 * * *"


async def log_of(one: Runner) -> Sequence[JobRun]:
    """The runs, the first one first."""
    return (await one.log(None, 100)).runs[::-1]


async def for_hours(one: Runner, hours: float) -> None:
    """The time of an open server."""
    task = asyncio.create_task(one.run_regularly(60))
    await asyncio.sleep(hours * 3600)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.feature(
    "jobs run by cron expressions or intervals, in the user's time zone, and each run leaves a receipt"
)
def test_job_runs_once_in_each_slot() -> None:
    async def days() -> None:
        work = Recorded(("a", "b"))
        one = runner(work.job("every 6 hours"))
        await for_hours(one, 48)
        assert [began - BEGAN for began in work.began[::2]] == [timedelta(hours=h) for h in range(6, 48, 6)]
        first, *_ = await log_of(one)
        assert (first.status, first.started_by, first.slot) == ("done", "schedule", BEGAN + timedelta(hours=6))
        assert first.receipt == {
            "host": "a", "took_s": 2.0, "steps": {"done": 2, "total": 2}, "stopped": "", "faults": {},
            "result": {"steps": 2},
        }  # fmt: skip

    in_virtual_time(days())


@given(
    schedule=st.sampled_from([NIGHTLY, "*/20 * * * *", "every 45 min", "30 2 * * *"]),
    moves=st.lists(st.integers(-600, 3000), min_size=1, max_size=30),
)
@pytest.mark.feature("a job never runs twice for one slot, whatever the clock does; after a gap it runs once")
def test_no_slot_has_two_runs(schedule: str, moves: list[int]) -> None:
    """The clock is moved by minutes, back as well, and looked at twice after each move."""

    async def looks() -> None:
        work, clock = Recorded(takes_s=0), Clock()
        one = runner(work.job(parse(schedule, ZoneInfo("Europe/Berlin")) or "off"), clock=clock)
        planned = one.jobs[0].schedule
        assert planned is not None
        await one.run_due()
        furthest = clock()
        for minutes in moves:
            clock.ahead += timedelta(minutes=minutes)
            runs = await one.run_due()
            assert len(runs) <= 1
            assert await one.run_due() == []
            slot = planned.latest(clock())
            if slot is not None and slot > furthest:
                assert [run.slot for run in runs] == [slot]
            furthest = max(furthest, clock())
        slots = [run.slot for run in await log_of(one)]
        assert len(slots) == len(set(slots))

    in_virtual_time(looks())


@pytest.mark.parametrize("catch_up", [True, False])
@pytest.mark.feature("after nights without a server a job runs once at the next start, or waits if catch_up = false")
def test_job_catches_up_once_after_nights_off(catch_up: bool) -> None:
    async def nights() -> None:
        journal, clock, work = MemoryJournal(), Clock(), Recorded()
        one = runner(work.job(NIGHTLY, catch_up=catch_up), journal, clock)
        await for_hours(one, 24)
        clock.ahead += timedelta(days=5)
        await for_hours(runner(work.job(NIGHTLY, catch_up=catch_up), journal, clock, owner="b"), 2)
        assert len(work.began) == (2 if catch_up else 1)
        await for_hours(runner(work.job(NIGHTLY, catch_up=catch_up), journal, clock, owner="b"), 24)
        assert len(work.began) == (3 if catch_up else 2)

    in_virtual_time(nights())


def test_new_and_changed_schedules_are_not_due_for_the_past() -> None:
    async def changes() -> None:
        journal, work = MemoryJournal(), Recorded()
        assert await runner(work.job(NIGHTLY), journal).run_due() == []
        clock = Clock(timedelta(hours=20))  # after 03:00
        assert await runner(work.job("0 4 * * *"), journal, clock).run_due() == []
        assert len(await runner(work.job("0 4 * * *"), journal, Clock(timedelta(hours=44))).run_due()) == 1

    in_virtual_time(changes())


@pytest.mark.feature("two gateways with different schedules of one job each run it by their own")
def test_two_schedules_of_a_job_are_both_kept() -> None:
    """Each replaced the one that the other had recorded, which counted from that moment on, so few slots were due."""

    async def hours() -> None:
        journal, work = MemoryJournal(), Recorded(takes_s=0)
        ones = [runner(work.job(text), journal, owner=text) for text in ("every 20 min", "every 35 min")]
        tasks = [asyncio.create_task(one.run_regularly(60)) for one in ones]
        await asyncio.sleep(3 * 3600)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        minutes = [BEGAN + timedelta(minutes=n) for n in range(1, 180)]
        slots = [at for at in minutes if any(one.jobs[0].schedule.latest(at) == at for one in ones)]
        assert work.began == slots

    in_virtual_time(hours())


def test_clock_that_was_a_year_ahead_does_not_stop_a_job() -> None:
    async def year() -> None:
        work, clock = Recorded(), Clock()
        one = runner(work.job(NIGHTLY), clock=clock)
        await one.run_due()
        clock.ahead = timedelta(days=365)
        assert len(await one.run_due()) == 1
        clock.ahead = timedelta(days=1)
        assert len(await one.run_due()) == 1

    in_virtual_time(year())


def test_first_look_waits_until_the_server_has_started() -> None:
    """A server that is started for one question does not begin with what it missed."""

    async def start() -> None:
        journal, work, clock = MemoryJournal(), Recorded(), Clock()
        await runner(work.job(NIGHTLY), journal, clock).run_due()
        clock.ahead = timedelta(days=2)
        await for_hours(runner(work.job(NIGHTLY), journal, clock), 59 / 3600)
        assert work.began == []
        await for_hours(runner(work.job(NIGHTLY), journal, clock), 65 / 3600)
        assert work.done == ["one"]

    in_virtual_time(start())


@pytest.mark.feature("two runs of one job never overlap: the second is refused and says so")
def test_second_run_is_refused_while_one_is_under_way() -> None:
    async def both() -> None:
        journal, work = MemoryJournal(), Recorded(takes_s=100)
        one, other = runner(work.job(), journal), runner(work.job(), journal, owner="b")
        running = asyncio.create_task(one.run("tidy"))
        await asyncio.sleep(90)
        for asked in (one, other):
            with pytest.raises(JobRunning, match="tidy is under way; `fusion jobs` shows how far it is"):
                await asked.run("tidy")
        (view,) = await one.views()
        assert view.progress is not None
        assert (view.progress.done, view.progress.total, view.progress.note) == (0, 1, "one")
        assert (await running).status == "done"
        assert (await other.run("tidy")).status == "done"

    in_virtual_time(both())


@pytest.mark.feature("a run whose process is killed is lost; when its lease has run out, the next run continues there")
def test_run_continues_after_its_process_was_killed() -> None:
    async def killed() -> None:
        journal, clock, work = MemoryJournal(), Clock(), Recorded(("a", "b", "c"), takes_s=10)
        await runner(work.job(NIGHTLY), journal, clock).run_due()
        clock.ahead = timedelta(hours=16)
        dead = runner(work.job(NIGHTLY), journal, clock)
        dying = asyncio.create_task(dead.run_due())
        await asyncio.sleep(15)
        journal.db.execute("begin")  # it can write nothing any more
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)
        journal.db.execute("rollback")
        alive = runner(work.job(NIGHTLY), journal, clock, owner="b")
        assert await alive.run_due() == []
        await asyncio.sleep(LEASE.total_seconds())
        (run,) = await alive.run_due()
        assert work.done == ["a", "b", "c"]
        assert [(one.status, one.slot) for one in await log_of(alive)] == [("lost", run.slot), ("done", run.slot)]

    in_virtual_time(killed())


def test_slot_whose_runs_were_lost_twice_waits_for_the_next_one() -> None:
    """A job that ends its server must not do so at every start."""

    async def crashes() -> None:
        journal, clock, work = MemoryJournal(), Clock(), Recorded()
        one = runner(work.job(NIGHTLY), journal, clock)
        await one.run_due()
        clock.ahead = timedelta(hours=16)
        for _ in range(2):
            slot = one.jobs[0].schedule.latest(clock())  # type: ignore[union-attr]
            assert await journal.write(jobs.take, jobs.RunRequest("tidy", "dead", slot), clock(), LEASE)
            clock.ahead += timedelta(minutes=2)
        assert await one.run_due() == []
        clock.ahead += timedelta(days=1)
        assert len(await one.run_due()) == 1

    in_virtual_time(crashes())


class Asleep:
    """The sleep of a process that the system has suspended: it never returns."""

    async def __call__(self, seconds: float) -> None:
        await asyncio.get_running_loop().create_future()


@pytest.mark.feature("a run that was replaced because it gave no sign of life cannot write any more")
def test_late_writer_is_refused_by_its_token() -> None:
    async def late() -> None:
        journal, work = MemoryJournal(), Recorded(takes_s=100)
        suspended = runner(work.job(), journal, sleep=Asleep())
        first = asyncio.create_task(suspended.run("tidy"))
        await asyncio.sleep(LEASE.total_seconds() + 1)
        second = asyncio.create_task(runner(work.job(), journal, owner="b").run("tidy"))
        with pytest.raises(LeaseLost, match="another run has replaced it"):
            await first
        assert (await second).status == "done"
        assert [run.status for run in await log_of(suspended)] == ["lost", "done"]

    in_virtual_time(late())


def test_process_that_stood_still_does_not_replace_its_own_run() -> None:
    """Its lease has run out before it could renew it."""

    async def still() -> None:
        one = runner(Recorded(takes_s=100).job(), sleep=Asleep())
        first = asyncio.create_task(one.run("tidy"))
        await asyncio.sleep(LEASE.total_seconds() + 1)
        with pytest.raises(JobRunning):
            await one.run("tidy")
        assert (await first).status == "done"

    in_virtual_time(still())


def test_run_whose_lease_was_taken_stops_at_its_next_renewal() -> None:
    async def taken() -> None:
        journal, work = MemoryJournal(), Recorded(takes_s=1000)
        one = runner(work.job(), journal)
        running = asyncio.create_task(one.run("tidy"))
        await asyncio.sleep(5)
        journal.db.execute("update job set token = token + 1, owner = 'b'")
        with pytest.raises(LeaseLost):
            await running
        assert asyncio.get_running_loop().time() < 30
        assert work.done == []

    in_virtual_time(taken())


@pytest.mark.feature("a job stops between two steps when its budget is spent, and the next run continues there")
def test_budget_stops_between_steps_and_the_next_run_resumes() -> None:
    async def runs() -> None:
        work = Recorded(("a", "b", "c", "d", "e"), takes_s=10)
        one = runner(work.job(budget=timedelta(seconds=15)))
        first = await one.run("tidy")
        assert (first.status, first.receipt["stopped"], work.done) == ("stopped", "budget", ["a", "b"])
        assert first.receipt["steps"] == {"done": 2, "total": 5}
        await one.run("tidy", dry_run=True)
        work.done.clear()
        await one.run("tidy")
        assert work.done == ["c", "d"]
        assert (await one.run("tidy")).status == "done"
        assert work.done == ["c", "d", "e"]
        await one.run("tidy")
        assert work.done[3:] == ["a", "b"]

    in_virtual_time(runs())


def test_budget_allows_one_step_at_least() -> None:
    async def runs() -> None:
        work = Recorded(("a", "b"), takes_s=10)
        one = runner(work.job(budget=timedelta(microseconds=1)))
        assert [(await one.run("tidy")).status for _ in range(2)] == ["stopped", "done"]
        assert work.done == ["a", "b"]

    in_virtual_time(runs())


def test_step_that_fails_does_not_stop_the_others() -> None:
    async def runs() -> None:
        work = Recorded(("a", "b", "c"), fail=frozenset("b"))
        run = await runner(work.job()).run("tidy")
        assert (run.status, run.receipt["faults"]) == ("failed", {"b": "ValueError: b is broken"})
        assert work.done == ["a", "c"]

    in_virtual_time(runs())


class Unplanned(Recorded):
    """A job whose steps cannot be named."""

    async def steps(self) -> Sequence[str]:
        raise OSError("the folder of tenants cannot be read")


def test_job_without_steps_fails_and_the_schedule_goes_on() -> None:
    async def days() -> None:
        one = runner(Unplanned().job("every 6 hours"))
        await for_hours(one, 25)
        runs = await log_of(one)
        assert [run.status for run in runs] == ["failed"] * 4
        assert runs[0].receipt["faults"] == {"steps": "OSError: the folder of tenants cannot be read"}

    in_virtual_time(days())


class Broken(MemoryJournal):
    """A journal that cannot be read for a while."""

    broken = False

    async def read(self, query: Callable[..., Any], *args: Any, **named: Any) -> Any:
        if self.broken:
            raise sqlite3.OperationalError("disk I/O error")
        return await super().read(query, *args, **named)


def test_schedule_goes_on_after_the_journal_failed() -> None:
    async def days() -> None:
        journal, work = Broken(), Recorded()
        task = asyncio.create_task(runner(work.job("every 6 hours"), journal).run_regularly(60))
        await asyncio.sleep(3600)
        journal.broken = True
        await asyncio.sleep(24 * 3600)
        journal.broken = False
        await asyncio.sleep(3600)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert work.done == ["one"]

    in_virtual_time(days())


def test_budget_is_not_changed_by_a_clock_that_is_set() -> None:
    async def runs() -> None:
        work, clock = Recorded(("a", "b", "c"), takes_s=10), Clock()
        one = runner(work.job(budget=timedelta(seconds=15)), clock=clock)
        running = asyncio.create_task(one.run("tidy"))
        await asyncio.sleep(5)
        clock.ahead = timedelta(hours=-1)
        assert (await running).receipt["took_s"] == 20
        assert work.done == ["a", "b"]

    in_virtual_time(runs())


@pytest.mark.feature("a paused job runs on request only, until it is resumed")
def test_paused_job_runs_on_request_only() -> None:
    async def pause() -> None:
        work, clock = Recorded(), Clock()
        one = runner(work.job(NIGHTLY), clock=clock)
        await one.run_due()
        await one.set_paused("tidy", True)
        clock.ahead = timedelta(days=1)
        assert await one.run_due() == []
        assert await one.run_if_due("tidy") is None
        assert [(view.paused, view.next) for view in await one.views()] == [(True, None)]
        assert (await one.run("tidy")).slot is None
        await one.set_paused("tidy", False)
        assert [view.next for view in await one.views()] == [clock()]
        run = await one.run_if_due("tidy")
        assert run is not None
        assert run.slot is not None
        assert await one.run_if_due("tidy") is None

    in_virtual_time(pause())


def test_stopped_server_stops_its_jobs_and_the_next_one_continues() -> None:
    async def restart() -> None:
        journal, clock, work = MemoryJournal(), Clock(), Recorded(("a", "b"), takes_s=100)
        await runner(work.job(NIGHTLY), journal, clock).run_due()
        clock.ahead = timedelta(hours=16)
        await for_hours(runner(work.job(NIGHTLY), journal, clock), 200 / 3600)
        again = runner(work.job(NIGHTLY), journal, clock, owner="b")
        (stopped,) = await log_of(again)
        assert (stopped.status, stopped.receipt["stopped"]) == ("stopped", "the server stopped")
        (run,) = await again.run_due()
        assert (run.status, work.done) == ("done", ["a", "b"])

    in_virtual_time(restart())


def test_run_goes_on_without_the_caller_and_ends_with_the_runner() -> None:
    async def gone() -> None:
        work = Recorded(takes_s=100)
        one = runner(work.job())
        asked = asyncio.create_task(one.run("tidy"))
        await asyncio.sleep(1)
        asked.cancel()
        await one.finished()
        assert work.done == ["one"]
        asked = asyncio.create_task(one.run("tidy"))
        await asyncio.sleep(1)
        await one.close()
        assert [run.status for run in await log_of(one)] == ["done", "stopped"]
        await asyncio.gather(asked, return_exceptions=True)

    in_virtual_time(gone())


def test_dry_run_by_the_schedule() -> None:
    async def dry() -> None:
        clock, work = Clock(), Recorded()
        one = runner(work.job(NIGHTLY, dry_run=True), clock=clock)
        await one.run_due()
        clock.ahead = timedelta(days=1)
        assert [run.dry_run for run in await one.run_due()] == [True]

    in_virtual_time(dry())


async def test_unknown_job_names_those_that_exist() -> None:
    one = runner(Recorded().job())
    for asked in (one.run("tidyy"), one.log("tidyy", 10), one.set_paused("tidyy", True), one.run_if_due("tidyy")):
        with pytest.raises(NotFound, match="there is no job 'tidyy': there are tidy; did you mean tidy"):
            await asked


@given(ahead=st.integers(0, 200))
def test_lease_of_a_clock_that_was_ahead_does_not_hold_for_ever(ahead: int) -> None:
    async def days() -> None:
        journal, clock, work = MemoryJournal(), Clock(timedelta(days=ahead, minutes=3)), Recorded()
        await journal.write(jobs.take, jobs.RunRequest("tidy", "dead"), clock(), LEASE)
        clock.ahead = timedelta(minutes=5)
        assert (await runner(work.job(), journal, clock).run("tidy")).status == "done"

    in_virtual_time(days())


async def test_jobs_are_kept_in_the_journal_of_a_home(tmp_path: Path) -> None:
    """The tables, the log in pages, and the bound of the log, in a real journal."""
    work = Recorded(takes_s=0)
    journal = await Journal.open(tmp_path / "journal.sqlite")
    one = Runner((work.job(),), journal, "a")
    for _ in range(5):
        await one.run("tidy")
    page = await one.log("tidy", 3)
    assert [run.id for run in page.runs] == [5, 4, 3]
    assert [run.id for run in (await one.log("tidy", 3, page.next)).runs] == [2, 1]
    await journal.close()
    journal = await Journal.open(tmp_path / "journal.sqlite")
    assert len((await Runner((work.job(),), journal, "b").log(None, 10)).runs) == 5
    await journal.close()
