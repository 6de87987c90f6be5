"""After a deletion, each backend is searched for the memory."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from fusion.contract import Event, Hit, Place, Scope
from fusion.errors import BackendUnreachable
from fusion.ingest.forget import Forgetter
from fusion.journal import Journal
from fusion.journal.tombstones import Tombstones
from fusion.store.sqlite import Database
from tests.ingest.helpers import (
    ME,
    START,
    FakeClock,
    FakeStore,
    event,
    forgetting,
    store_external,
)
from tests.journal.helpers import hides


@pytest.mark.row(
    "A162",
    "a backend that reports a deletion but still returns the memory is detected, and asked until it has deleted it",
)
async def test_forget_detects_a_backend_that_still_returns_the_memory(journal):
    """It says deleted and still returns it: the receipt says still_there, and it is asked again, later each time."""
    time, honest, liar = FakeClock(), FakeStore(), FakeStore()
    (stored,) = await journal.append([event("The code is 4711.", 1)])
    async with forgetting(journal, time, honest=honest, liar=liar) as (forgetter, deliverer):
        liar.lies = True
        receipt = await forgetter.forget(stored.ref, ME)
        assert receipt.backends == {"honest": "deleted", "liar": "still_there"}
        assert not receipt.done
        assert await deliverer.backlog() == {"liar": 1}
        await time.asleep(1)
        liar.lies = False
        time.pass_by(time.slept[-1])
        await liar.until([])
        await deliverer.settle()
        assert await deliverer.backlog() == {}


async def test_forget_verifies_in_the_memorys_scope_before_any_filter(journal):
    """By its text and its owner, as a reader asks: a tombstone of ours does not hide that it is still there."""
    store = FakeStore()
    (stored,) = await journal.append([event("The code is 4711.", 1, speaker="Ana")])
    async with forgetting(journal, store=store) as (forgetter, _):
        await forgetter.forget(stored.ref, ME)
    [asked] = store.asked
    assert asked.text == "Ana: The code is 4711."
    # This store says that it cannot filter by user, so it is asked without one.
    assert asked.scope == Scope(audience="private")


async def test_forget_verifies_absent_too(journal):
    """Under another id it is still there: who says that he never had it is not believed either."""
    store = FakeStore()
    (stored,) = await journal.append([event("The code is 4711.", 1)])
    async with forgetting(journal, store=store) as (forgetter, _):
        captured = store.kept.pop(stored.event.event_id)
        store.own["copy"] = Hit.of(captured.event, "copy")
        assert (await forgetter.forget(stored.ref, ME)).backends == {"store": "still_there"}


class EagerJournal:
    """A journal whose deliverer wakes as soon as it has forgotten something, and is the first to ask the store."""

    def __init__(self, journal, deliverer):
        self._journal, self._deliverer = journal, deliverer

    def __getattr__(self, name):
        return getattr(self._journal, name)

    async def forget(self, *asked, **how):
        forgotten = await self._journal.forget(*asked, **how)
        for one in await self._journal.outbox.due_deletions("store", START + timedelta(hours=1), 10):
            await self._deliverer.delete("store", [one])
        return forgotten


async def test_forget_verifies_by_the_text_also_in_the_background(journal):
    """The journal has no text once it has forgotten: by ids alone a copy under another id would count as absent."""
    store = FakeStore()
    (stored,) = await journal.append([event("The code is 4711.", 1)])
    async with forgetting(journal, store=store) as (_, deliverer):
        captured = store.kept.pop(stored.event.event_id)
        store.own["copy"] = Hit.of(captured.event, "copy")
        forgetter = Forgetter(EagerJournal(journal, deliverer), deliverer)
        assert (await forgetter.forget(stored.ref, ME)).backends == {"store": "still_there"}


class SlowDatabase:
    """A database that returns the tombstones it has read when a test lets it."""

    def __init__(self, database):
        self._database = database
        self.holding, self.reached, self.go = False, asyncio.Event(), asyncio.Event()

    def __getattr__(self, name):
        return getattr(self._database, name)

    async def read(self, work):
        found = await self._database.read(work)
        if self.holding and isinstance(found, Tombstones):
            self.reached.set()
            await self.go.wait()
        return found


async def test_forget_during_a_reload_of_tombstones_keeps_them(tmp_path):
    """A wish to remember has them read again; what is forgotten meanwhile must not be lost with the older reading."""
    file = tmp_path / "journal.sqlite"
    database = SlowDatabase(await Database.open(file, Journal.schema, fix=Journal.fix_for(file)))
    journal = Journal(database)
    await journal.load()
    places = [Place("notes/a.md", line, line, "line") for line in (3, 7)]
    lines = ["- the old code is 1188", "- the code of the door is 4711"]
    old, secret = await journal.append([event(line, place=place) for line, place in zip(lines, places, strict=True)])
    await journal.forget([old.ref], ME)
    database.holding = True
    remembering = asyncio.ensure_future(journal.append([Event("e9", "Tea at four.", START, scope=ME)]))
    await database.reached.wait()
    burying = asyncio.ensure_future(journal.forget([secret.ref], ME))
    await asyncio.wait([burying], timeout=0.2)  # it may have to wait for the reading, and then it is late, not lost
    database.go.set()
    await asyncio.gather(remembering, burying)
    assert hides(journal, "markdown", Hit("a.md#L7", lines[1], Scope(user_id="ana"), place=places[1]))
    await journal.close()


@pytest.mark.feature(
    "… what a user's own file still contains is hidden, not deleted", of="a backend that reports a deletion"
)
async def test_forget_hides_a_text_of_a_users_own_file(journal):
    """The note is deleted, and the user's file has the same words: hidden, not deleted."""
    store = FakeStore()
    (stored,) = await journal.append([event("The spare key is under the third flower pot.", 1)])
    async with forgetting(journal, store=store) as (forgetter, _):
        store.own["a.md#L1"] = Hit("a.md#L1", "The spare key is under the third flower pot.", Scope(user_id="ana"))
        receipt = await forgetter.forget(stored.ref, ME)
    assert receipt.backends == {"store": "hidden"}
    assert hides(journal, "store", Hit("a.md#L9", "The spare key is under the third flower pot.", Scope(user_id="ana")))


@pytest.mark.feature("… what was extracted from it alone must be gone as well", of="a backend that reports a deletion")
async def test_forget_reports_a_fact_without_other_sources_as_still_there(journal):
    """A returned fact derived from it alone is still there; one that another memory also states is hidden."""
    store = FakeStore()
    one, two = await journal.append(
        [event("Julien likes pizza a lot.", 1), event("Everybody knows Julien's taste.", 2)]
    )
    fact = Hit("fact:1", "julien likes pizza", derived_from=(one.event.event_id,), scope=Scope(user_id="ana"))
    async with forgetting(journal, store=store) as (forgetter, _):
        store.own["fact:1"] = replace(fact, derived_from=(one.event.event_id, two.event.event_id))
        assert (await forgetter.forget(one.ref, ME)).backends == {"store": "deleted"}
        assert (await forgetter.forget(two.ref, ME)).backends == {"store": "still_there"}
        del store.own["fact:1"]


async def test_forget_reports_a_fact_with_other_sources_as_hidden(journal):
    """Cited and forgotten by itself: no backend can delete what its memories still say, so it is not asked for ever."""
    store = FakeStore()
    (stored,) = await journal.append([event("Julien likes pizza a lot.", 1)])
    fact = Hit("fact:1", "julien likes pizza", derived_from=(stored.event.event_id,), scope=Scope(user_id="ana"))

    async def keep_it(event_id, native_ids):
        return "absent"

    async with forgetting(journal, store=store) as (forgetter, deliverer):
        store.own["fact:1"], store.forget = fact, keep_it
        ref = await store_external(journal, fact)
        assert (await forgetter.forget(ref, ME)).backends == {"store": "hidden"}
        assert await deliverer.backlog() == {}
    assert hides(journal, "store", fact)


@pytest.mark.feature(
    "… a backend that was down is verified when it is back, with or without a restart",
    of="a backend that reports a deletion",
)
async def test_forget_verifies_a_backend_that_was_down_when_it_is_back(journal):
    """In the same process by its text; after a restart, when the text is unknown, by a second deletion of its ids.

    A backend by the contract finds nothing the second time: one that deletes twice had it still.
    """
    time, store = FakeClock(), FakeStore()
    first, second = await journal.append([event("The code is 4711.", 1), event("The code is 4712.", 2)])
    async with forgetting(journal, time, store=store) as (forgetter, deliverer):
        store.fault = BackendUnreachable("refused")
        assert (await forgetter.forget(first.ref, ME)).backends == {"store": "pending"}
        await time.asleep(1)
        store.fault, store.lies = None, True
        time.pass_by(time.slept[-1])
        await time.asleep(2)
        assert (await journal.backlog()) == {"store": 1}
        assert store.asked[-1].text == "The code is 4711."
        store.fault = BackendUnreachable("refused")
        await forgetter.forget(second.ref, ME)
    store.fault, store.asked = None, []
    async with forgetting(journal, store=store) as (_, deliverer):
        assert (await journal.backlog()) == {"store": 2}
        assert store.asked == []
    store.lies = False
    late = FakeClock()
    late.pass_by(86_400)
    async with forgetting(journal, late, store=store) as (_, deliverer):
        assert await deliverer.backlog() == {}
        assert store.kept == {}
