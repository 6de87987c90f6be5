"""Deliveries by gateways that share a journal and a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fusion.contract import State
from fusion.errors import BackendUnreachable
from fusion.ingest.deliver import Deliverer
from fusion.journal import Journal
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
