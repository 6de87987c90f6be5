"""Histories of sessions in a journal that gateways share: one of them takes each in, and another one if it dies."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fusion.contract import Scope
from fusion.ingest.deliver import Deliverer
from fusion.ingest.intake import Intake
from fusion.journal import Journal
from fusion.journal.histories import Backlog
from fusion.journal.leases import LEASE_S
from fusion.sources.histories import Histories, Rules
from tests.ingest.helpers import FakeClock
from tests.journal.conftest import Journals

if TYPE_CHECKING:
    from fusion.store.postgres import Server

SESSION = Scope(user_id="ana", session_id="s1")
ASKED = "When does the bakery at the harbour open these days?"
SEVEN, EIGHT = "It opens at seven in the morning.", "It opens at eight in the morning, I was wrong."
BOAT, FINE = "My boat is moored at the second pier.", "The second pier is a good place for it."


class SlowHistories(Histories):
    """A gateway that stands still in the middle of a history: it sets ``reached``, and goes on once ``may_go_on``."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.reached, self.may_go_on = threading.Event(), threading.Event()

    def _read(self, *given: Any) -> Any:
        read = super()._read(*given)
        self.reached.set()
        assert self.may_go_on.wait(60)
        return read


def histories(journal: Journal, kind: type[Histories] = Histories, **more: Any) -> Any:
    return kind(journal, Intake(journal, Deliverer(journal, {})), "default", Rules(timedelta()), **more)


async def send(to: Histories, texts: Sequence[str]) -> None:
    said = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    await to.put(SESSION, "", json.dumps({"messages": said}).encode())


async def current(journal: Journal) -> list[str]:
    rows = "select text from event where superseded_by is null and forgotten = 0 order by place_start"
    return [row["text"] for row in await journal.read(lambda db: db.execute(rows).fetchall())]


async def end(journal: Journal) -> None:
    """Let every lease and claim end, as time does."""
    for ended in ("update lease set until = 1", "update history set leased_until = 1 where leased_until > 0"):
        await journal.write(lambda db, ended=ended: db.execute(ended).rowcount)


@pytest.fixture
async def pair(journal_server: Server, tmp_path: Path) -> AsyncIterator[tuple[Journal, Journal]]:
    """The journals of two gateways."""
    journals = Journals(tmp_path, journal_server)
    yield await journals.open(), await journals.open()
    await journals.close()


STALE: Mapping[str, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
    "an answer": ([], [ASKED, SEVEN], [ASKED, EIGHT]),
    "a rewound talk": ([ASKED, SEVEN, BOAT, FINE], [ASKED, SEVEN], [ASKED, SEVEN, BOAT, FINE, EIGHT]),
    "nothing new": ([ASKED, SEVEN], [ASKED, SEVEN], [ASKED, SEVEN, BOAT]),
}
"""by what the first gateway would store: the turns before, those that it reads, and those that the other one reads"""


@pytest.mark.feature("a gateway that stood still while it took in a conversation leaves the newer turns as they are")
@pytest.mark.parametrize("what", STALE)
async def test_history_of_a_gateway_that_stood_still_replaces_nothing(pair: tuple[Journal, Journal], what: str) -> None:
    before, stale, newest = STALE[what]
    slow, other = histories(pair[0], SlowHistories), histories(pair[1])
    if before:
        await send(other, before)
        assert await other._take_next()
    await send(slow, stale)
    taking = asyncio.create_task(slow._take_next())
    assert await asyncio.to_thread(slow.reached.wait, 60)
    await end(pair[1])
    await send(other, newest)
    assert await other._take_next()
    slow.may_go_on.set()
    assert await taking
    assert await current(pair[1]) == list(newest)
    assert await other.backlog() == Backlog()
    await send(slow, [*newest, "and the end"])  # it knows which turns the other one has read
    assert await slow._take_next()
    assert await current(pair[1]) == [*newest, "and the end"]


@pytest.mark.feature("a conversation that a gateway acknowledged before it died is taken in by another one")
async def test_history_of_a_gateway_that_died_is_taken_in_by_another(pair: tuple[Journal, Journal]) -> None:
    """The other one had nothing to wait for when the conversation came."""
    time = FakeClock()
    other = histories(pair[1], sleep=time.sleep)
    other.start()
    try:
        await time.asleep(1)
        await send(histories(pair[0]), [ASKED, SEVEN])  # and it dies
        assert time.slept == [LEASE_S]
        time.pass_by(LEASE_S)
        await time.asleep(2)
        assert await current(pair[1]) == [ASKED, SEVEN]
        assert await other.backlog() == Backlog()
    finally:
        await other.close()


async def test_history_is_taken_in_by_one_gateway_at_a_time(pair: tuple[Journal, Journal]) -> None:
    """Also for longer than its claim, as long as the gateway renews its lease."""
    slow, other = histories(pair[0], SlowHistories), histories(pair[1])
    await send(slow, [ASKED, SEVEN])
    taking = asyncio.create_task(slow._take_next())
    assert await asyncio.to_thread(slow.reached.wait, 60)
    await pair[1].write(lambda db: db.execute("update history set leased_until = 1").rowcount)
    await send(other, [ASKED, EIGHT])
    assert not await other._take_next()
    slow.may_go_on.set()
    assert await taking
    assert await current(pair[1]) == [ASKED, SEVEN]
    assert await other._take_next()
    assert await current(pair[1]) == [ASKED, EIGHT]
