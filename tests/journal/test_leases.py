"""Leases of a journal that gateways share: one holder at a time, and nothing of a holder whose lease has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextvars import Context
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fusion.errors import LeaseLost
from fusion.ingest.deliver import Deliverer
from fusion.ingest.distil import Distiller
from fusion.ingest.extract import extract
from fusion.journal import Journal, leases, statements
from fusion.upkeep.consolidator import Consolidator
from tests.fakes import FakeEmbedder, FakeModel
from tests.ingest.helpers import event
from tests.journal.conftest import Journals
from tests.journal.helpers import append

if TYPE_CHECKING:
    from fusion.store.postgres import Server

LONG = ("I moved to Lisbon last week, near the river.", "That is wonderful news, how is the new flat?")
ANSWER = '{"memories": [{"text": "Ana lives in Lisbon.", "kind": "fact", "confidence": 0.8, "from": [1]}]}'


@pytest.fixture
async def pair(journal_server: Server, tmp_path: Path) -> AsyncIterator[tuple[Journal, Journal]]:
    """The journals of two gateways."""
    journals = Journals(tmp_path, journal_server)
    yield await journals.open(), await journals.open()
    await journals.close()


async def die_with(journal: Journal, *names: str) -> None:
    """A gateway takes leases and dies."""
    await journal.write(lambda db: leases.take(db, names, "dead"))


async def end(journal: Journal) -> None:
    """Let every lease end, as time does."""
    await journal.write(lambda db: db.execute("update lease set until = 1").rowcount)


class Waits:
    """The sleep of a worker: it sets ``begun``, and ends when ``may_end`` is set."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    async def __call__(self, _seconds: float) -> None:
        self.begun.set()
        await self.may_end.wait()


async def test_a_lease_has_one_holder_and_a_token_that_grows(pair: tuple[Journal, Journal]) -> None:
    one, two = pair
    async with one.leases.held("distil") as first:
        assert first is not None
        async with two.leases.held("distil") as second, one.leases.held("distil") as again:
            assert (second, again) == (None, None)
        async with two.leases.held("consolidate") as other:
            assert other is not None
    async with two.leases.held("distil") as second:
        assert second is not None
        assert second.token == first.token + 1


async def test_of_several_leases_a_gateway_has_all_or_none(pair: tuple[Journal, Journal]) -> None:
    one, two = pair
    async with one.leases.held("notes /b"):
        async with two.leases.held("notes /a", "notes /b") as both:
            assert both is None
        async with two.leases.held("notes /a") as free:
            assert free is not None


async def end_and_take(journal: Journal, *, is_taken: bool) -> None:
    """The lease ends, and perhaps another gateway takes it."""
    await end(journal)
    if is_taken:
        await die_with(journal, "distil")


@pytest.mark.parametrize("is_taken", [False, True])
async def test_what_a_holder_writes_after_the_end_of_its_lease_is_refused(
    pair: tuple[Journal, Journal], is_taken: bool
) -> None:
    one, two = pair
    async with one.leases.held("distil"):
        await append(one, event("while it holds"))
        # By another process, so without this one's lease.
        await asyncio.create_task(end_and_take(two, is_taken=is_taken), context=Context())
        with pytest.raises(LeaseLost):
            await append(one, event("after its end"))
        with pytest.raises(LeaseLost):
            await asyncio.create_task(append(one, event("in a task")))
    await append(one, event("without a lease"))
    assert (await one.counts("default"))["current"] == 2


async def test_a_journal_in_a_file_needs_no_lease(file_journal: Journal) -> None:
    async with file_journal.leases.held("distil") as held, file_journal.leases.held("distil") as again:
        assert held is not None
        assert again is not None
    tables = await file_journal.read(lambda db: db.execute("select name from sqlite_master").fetchall())
    assert "lease" not in {name for (name,) in tables}


@pytest.mark.feature("a folder that several gateways see is followed by one of them at a time")
async def test_lasting_work_is_done_by_one_gateway_and_taken_over(
    pair: tuple[Journal, Journal], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LEASE_S", 0.05)  # between two renewals; it ends by the database's clock, later
    log: list[str] = []
    begun, ended = asyncio.Event(), asyncio.Event()

    async def follow(name: str) -> None:
        log.append(name)
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def soon(_seconds: float) -> None:
        await asyncio.sleep(0)

    never = Waits()
    first = asyncio.create_task(pair[0].leases.alone(["notes /a"], lambda: follow("a"), never))
    await begun.wait()
    begun.clear()
    second = asyncio.create_task(pair[1].leases.alone(["notes /a"], lambda: follow("b"), soon))
    await pair[1].read(lambda db: db.execute("select 1").fetchone())
    assert log == ["a"]
    await end(pair[1])
    await begun.wait()
    await ended.wait()  # the first one stops when it cannot renew
    assert log == ["a", "b"]
    for task in (first, second):
        task.cancel()
    await asyncio.gather(first, second, return_exceptions=True)


# Workers --------------------------------------------------------------------------------------------------------------


def distiller(journal: Journal, model: FakeModel, sleep: Waits) -> Distiller:
    return Distiller(journal, Deliverer(journal, {}), model, quiet_s=0, sleep=sleep)


async def say(journal: Journal) -> None:
    journal.enable_distillation()
    turns = [event(text, n, kind="turn", speaker=("Ana", "Tom")[n]) for n, text in enumerate(LONG)]
    await append(journal, *turns)


@pytest.mark.feature("turns are distilled by one of the gateways at a time, and by another one if it dies")
async def test_two_gateways_distil_no_turn_twice(pair: tuple[Journal, Journal]) -> None:
    gate, waits = asyncio.Event(), Waits()
    slow, other = FakeModel(ANSWER, gate=gate), FakeModel(ANSWER)
    one, two = distiller(pair[0], slow, Waits()), distiller(pair[1], other, waits)
    await say(pair[0])
    one.start()
    await slow.reached.wait()
    two.start()
    await waits.begun.wait()  # it looks again later, and is not idle meanwhile
    settled = asyncio.create_task(two.settle())
    assert not settled.done()
    gate.set()
    await one.settle()
    waits.may_end.set()
    await settled
    assert (len(slow.asked), len(other.asked)) == (1, 0)
    assert (await pair[1].counts("default"))["current"] == 3
    for worker in (one, two):
        await worker.close()


async def test_turns_of_a_gateway_that_died_are_distilled_by_another(pair: tuple[Journal, Journal]) -> None:
    waits, model = Waits(), FakeModel(ANSWER)
    await say(pair[0])
    await die_with(pair[0], "distil")
    worker = distiller(pair[1], model, waits)
    worker.start()
    await waits.begun.wait()
    assert not model.asked
    await end(pair[1])
    waits.may_end.set()
    await worker.settle()
    assert len(model.asked) == 1
    await worker.close()


@pytest.mark.feature("statements are compared by one of the gateways at a time, also with those of the others")
async def test_two_gateways_compare_statements_one_after_the_other(pair: tuple[Journal, Journal]) -> None:
    """A gateway whose vectors lack what another one has compared since would not find the repetition."""
    workers = [Consolidator(journal, FakeEmbedder(), extract, linger_s=0) for journal in pair]
    for worker in workers:
        worker.start()
    texts = (
        "The heron nests on the roof of the old mill",
        "Nadia prefers dark mode in every single editor",
        "In every single editor Nadia prefers dark mode",
    )
    stored = []
    for text, worker in zip(texts, (workers[0], workers[1], workers[0]), strict=True):
        stored += await append(pair[0], event(text, None, kind="fact", source=None, place=None))
        await worker.settle()
    await pair[1].refresh()
    records = await pair[1].records([one.event.event_id for one in stored])
    _, first, last = [records[one.event.event_id] for one in stored]
    assert last.state.merged_into == first.event.event_id or first.state.merged_into == last.event.event_id
    for worker in workers:
        await worker.close()


async def test_statements_of_a_gateway_that_died_are_compared_by_another(pair: tuple[Journal, Journal]) -> None:
    waits = Waits()
    await append(pair[0], event("Nadia prefers dark mode in every single editor", None, kind="fact", place=None))
    await die_with(pair[0], "consolidate")
    worker = Consolidator(pair[1], FakeEmbedder(), extract, linger_s=0, sleep=waits)
    worker.start()
    settled = asyncio.create_task(worker.settle())
    await waits.begun.wait()
    await end(pair[1])
    waits.may_end.set()
    await settled
    assert await pair[1].read(statements.waiting) == 0
    await worker.close()
