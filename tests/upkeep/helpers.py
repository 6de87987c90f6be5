"""A journal in memory, jobs that record their steps, and virtual days for tests of jobs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from fusion.journal import Journal, jobs
from fusion.store.database import Fence
from fusion.upkeep.job import Job, JobContext
from fusion.upkeep.runner import Runner
from fusion.upkeep.schedule import Schedule, parse
from tests import virtual_time

BEGAN = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)


class MemoryJournal:
    """The tables of jobs in SQLite's memory, without threads, so that tests can run in virtual time."""

    def __init__(self) -> None:
        self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.db.row_factory = sqlite3.Row
        self.db.executescript(jobs.SCHEMA)

    def fenced(self, table: str, name: str, token: int) -> AbstractContextManager[Fence]:
        """No other process writes."""
        return nullcontext(Fence("", table, name, token))

    async def read(self, query: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return query(self.db, *args, **named)

    async def write(self, work: Callable[..., Any], *args: Any, **named: Any) -> Any:
        self.db.execute("begin")
        try:
            result = work(self.db, *args, **named)
        except BaseException:
            self.db.execute("rollback")
            raise
        self.db.execute("commit")
        return result


@dataclass
class Clock:
    """The loop's time as a time of day; ``ahead`` is how far the clock was set forward, or back if it is negative."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        return BEGAN + timedelta(seconds=asyncio.get_running_loop().time()) + self.ahead


@dataclass
class Recorded:
    """A job's steps, which record their names and the time at which they begin.

    They take ``takes_s`` seconds each, or wait for ``hold``.
    """

    names: Sequence[str] = ("one",)
    takes_s: float = 1.0
    hold: asyncio.Event | None = None
    fail: frozenset[str] = frozenset()
    done: list[str] = field(default_factory=list)
    began: list[datetime] = field(default_factory=list)

    async def steps(self) -> Sequence[str]:
        return self.names

    async def step(self, context: JobContext, name: str) -> None:
        self.began.append(context.now + timedelta(seconds=context.took_s))
        await (asyncio.sleep(self.takes_s) if self.hold is None else self.hold.wait())
        if name in self.fail:
            raise ValueError(f"{name} is broken")
        self.done.append(name)
        context.add({"steps": 1})

    def job(self, schedule: str | Schedule = "off", **options: Any) -> Job:
        planned = parse(schedule) if isinstance(schedule, str) else schedule
        return Job("tidy", "Tidy up.", self.steps, self.step, planned, **options)


def runner(job: Job, journal: MemoryJournal | None = None, clock: Clock | None = None, **options: Any) -> Runner:
    return Runner(
        (job,),
        cast("Journal", journal or MemoryJournal()),
        options.pop("owner", "a"),
        clock=clock or Clock(),
        **options,
    )


def in_virtual_time(work: Coroutine[Any, Any, None]) -> None:
    virtual_time.run(work)
