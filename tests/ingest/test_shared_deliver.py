"""Deliveries by gateways that share a journal and a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fusion.contract import Forgotten, State
from fusion.errors import BackendUnreachable
from fusion.ingest.deliver import DeletionState, Deliverer
from fusion.ingest.forget import Forgetter
from fusion.journal import Journal
from fusion.journal.outbox import Due
from tests.ingest.helpers import ME, FakeStore, event
from tests.journal.conftest import Journals
from tests.journal.helpers import append

if TYPE_CHECKING:
    from fusion.store.postgres import Server


@pytest.fixture
async def pair(journal_server: Server, tmp_path: Path) -> AsyncIterator[tuple[Journal, Journal]]:
    """The journals of two gateways."""
    journals = Journals(tmp_path, journal_server)
    yield await journals.open(), await journals.open()
    await journals.close()


class Shelf(FakeStore):
    """One gateway's way to a store that keeps states. With ``slow`` set, a state is on its way until that is set."""

    def __init__(self, states: dict[str, State]) -> None:
        super().__init__()
        self.states = states
        self.slow: asyncio.Event | None = None
        self.on_its_way = asyncio.Event()
        self.answer: Exception | None = None

    async def set_states(self, states: Mapping[str, State]) -> None:
        if self.slow is not None:
            self.on_its_way.set()
            await self.slow.wait()
        self.states |= states
        if self.answer is not None:
            raise self.answer


@pytest.mark.feature("a gateway that stood still while it sent a memory's state leaves the store with the newest one")
@pytest.mark.parametrize("answer", [None, BackendUnreachable("its answer was lost")])
async def test_an_old_state_that_arrives_last_is_replaced(
    pair: tuple[Journal, Journal], answer: Exception | None
) -> None:
    """A memory is archived, and revived at the other gateway before the store has the first of the two."""
    states: dict[str, State] = {}
    shelves = Shelf(states), Shelf(states)
    one, two = [Deliverer(journal, {"shelf": shelf}) for journal, shelf in zip(pair, shelves, strict=True)]
    await one.start()
    try:
        (stored,) = await append(pair[0], event("Ana keeps the spare key under the third pot"))
        known = stored.event.event_id
        one.wake()
        await one.settle()
        shelves[0].slow, shelves[0].answer = asyncio.Event(), answer
        archived = await pair[0].decide({known: {"ended_at": datetime.now(UTC), "ended": "archived"}}, "ana", "old")
        assert archived is not None
        one.wake()
        await shelves[0].on_its_way.wait()
        await two.start()  # not before: it could send the first state itself when it polls
        await pair[1].undo_decision(archived.name, ME, "ana")
        two.wake()
        await two.settle()
        assert states == {known: State()}
        shelves[0].slow.set()
        await one.settle()
        two.wake()
        await two.settle()
        assert states == {known: State()}
    finally:
        for deliverer in (one, two):
            await deliverer.close()


class SlowShelf(FakeStore):
    """A store whose deletions are on their way until ``slow`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.slow, self.on_its_way = asyncio.Event(), asyncio.Event()

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        self.on_its_way.set()
        await self.slow.wait()
        return await super().forget(event_id, native_ids)


class WaitingDeliverer(Deliverer):
    """Lets another gateway's deletion go on as soon as it waits for it."""

    def __init__(self, journal: Journal, store: FakeStore, goes_on: asyncio.Event) -> None:
        super().__init__(journal, {"shelf": store})
        self._goes_on = goes_on

    async def deleted_by_others(self, name: str, seqs: Sequence[int], wait_s: float) -> Mapping[int, DeletionState]:
        self._goes_on.set()
        return await super().deleted_by_others(name, seqs, wait_s)


@pytest.mark.feature("the answer to a deletion that another gateway was faster to make says that it is made")
async def test_a_deletion_that_another_gateway_makes_is_waited_for(pair: tuple[Journal, Journal]) -> None:
    """It said pending, which is what a store that does not answer gets."""
    slow, same = SlowShelf(), FakeStore()
    same.kept = slow.kept
    one, two = Deliverer(pair[0], {"shelf": slow}), WaitingDeliverer(pair[1], same, slow.slow)
    await one.start()
    try:
        (stored,) = await append(pair[0], event("Ana keeps the spare key under the third pot"))
        one.wake()
        await one.settle()
        (deleted,) = (await pair[1].forget([stored.ref], ME))[stored.ref]
        one.wake()
        await slow.on_its_way.wait()
        seq, native_ids = deleted.due["shelf"]
        due = [Due(seq, deleted.record.event, 0, native_ids)]
        assert await Forgetter(pair[1], two)._forget_in("shelf", due) == {seq: "deleted"}
        assert not same.asked_to_forget
    finally:
        for deliverer in (one, two):
            await deliverer.close()
