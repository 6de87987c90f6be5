"""Counts of use are exact at every moment: while they wait, while they are written, and after a write that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from fusion.errors import StoreBusy
from fusion.journal import use
from fusion.journal.use import Counts, Retrieval, Use, UseLog
from tests.ingest.helpers import ME, event
from tests.journal.helpers import append

AT = datetime(2026, 3, 1, tzinfo=UTC)


class FakeJournal:
    """Counts in memory. With ``committed`` a write stays open after its commit, else before it, until ``gate`` opens.

    A write that finds it ``busy`` fails once the gate is open.
    """

    def __init__(self, committed: bool = False) -> None:
        self.committed = committed
        self.busy = False
        self.begun, self.gate = asyncio.Event(), asyncio.Event()
        self.gate.set()
        self.uses: dict[str, Use] = {}

    async def keep(self, uses: Mapping[str, Use], retrievals: Mapping[str, Retrieval]) -> None:
        if self.committed:
            self._commit(uses)
        self.begun.set()
        await self.gate.wait()
        if self.busy:
            raise StoreBusy("locked")
        if not self.committed:
            self._commit(uses)

    async def written(self, item: str) -> Counts:
        return self.uses.get(item), None

    def _commit(self, uses: Mapping[str, Use]) -> None:
        for item, one in uses.items():
            known = self.uses.get(item)
            self.uses[item] = Use(one.included + (known.included if known else 0), one.last_included_at)


async def included(log: UseLog, item: str = "e1") -> int:
    counted, _ = await log.counts(item)
    return counted.included if counted else 0


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.feature("counts of use are exact, also while they are being written")
async def test_counts_are_exact_while_a_write_is_open(committed: bool) -> None:
    """One use is being written, whether or not a reader of the journal sees it already, and another one waits."""
    journal = FakeJournal(committed)
    log = UseLog(journal.keep, journal.written)
    journal.gate.clear()
    log.note(["e1"], AT)
    write = asyncio.create_task(log.flush())
    await journal.begun.wait()
    log.note(["e1"], AT + timedelta(hours=1))
    count = asyncio.create_task(log.counts("e1"))
    journal.gate.set()
    assert await count == (Use(2, AT + timedelta(hours=1)), None)
    await write
    await log.close()
    assert journal.uses["e1"].included == await included(log) == 2


async def test_counts_of_a_failed_write_are_kept_and_written_once() -> None:
    journal = FakeJournal()
    log = UseLog(journal.keep, journal.written)
    journal.gate.clear()
    journal.busy = True
    log.note(["e1"], AT)
    write = asyncio.create_task(log.flush())
    await journal.begun.wait()
    log.note(["e1", "e2"], AT)
    count = asyncio.create_task(included(log))
    journal.gate.set()
    assert await count == 2
    await write
    journal.busy = False
    await log.close()
    assert [journal.uses[item].included for item in ("e1", "e2")] == [await included(log), 1] == [2, 1]


async def test_no_write_begins_while_counts_are_read() -> None:
    """A write between the reading of the journal and that of what waits would hide what it has taken."""
    journal = FakeJournal()
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def slowly_read(item: str) -> Counts:
        found = await journal.written(item)
        reading.set()
        await go_on.wait()
        return found

    log = UseLog(journal.keep, slowly_read)
    log.note(["e1"], AT)
    count = asyncio.create_task(included(log))
    await reading.wait()
    write = asyncio.create_task(log.flush())
    go_on.set()
    assert await count == 1
    await write
    await log.close()
    assert journal.uses["e1"].included == 1


async def test_a_use_that_is_written_after_its_memory_was_forgotten_is_not_counted(journal):
    """The count of another memory in the same write is kept."""
    gone, left = await append(journal, event("forgotten", 1), event("kept", 2))
    ids = [gone.event.event_id, left.event.event_id]
    await journal.forget([gone.ref], ME)
    await journal.write(use.keep, dict.fromkeys(ids, Use(1, AT)), dict.fromkeys(ids, Retrieval(1, AT)))
    counts = [await journal.read(use.written, event_id) for event_id in ids]
    assert counts == [(None, None), (Use(1, AT), Retrieval(1, AT))]
