"""Deliveries: every event to every backend that accepts it, until it is acknowledged."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import asynccontextmanager
from datetime import datetime

import pytest

from fusion.contract import Extraction, State
from fusion.errors import BackendUnreachable, DatabaseUnreachable, HttpStatus, RateLimited
from fusion.ingest.deliver import BATCH_EVENTS, FIRST_BACKOFF_S, MAX_ATTEMPTS, MAX_BACKOFF_S, Deliverer
from fusion.ingest.intake import Intake, NewMemory
from fusion.journal import Journal
from fusion.journal.outbox import Due, Outbox
from tests.ingest.helpers import ME, START, FakeClock, FakeStore, Reading, event


@asynccontextmanager
async def delivering(journal, time=None, extract=None, **stores):
    time = time or FakeClock()
    options = {} if extract is None else {"extract": extract}
    deliverer = Deliverer(journal, stores, clock=time.now, sleep=time.sleep, **options)
    await deliverer.start()
    try:
        yield deliverer
    finally:
        await deliverer.close()


async def append(journal, *texts, first=0, **fields):
    stored = await journal.append([event(text, first + n, **fields) for n, text in enumerate(texts)])
    return [one for one in stored if not isinstance(one, str)]


async def test_every_store_gets_every_event_in_order(journal):
    """In the order of the journal, in batches; a backend that does not remember is not bothered."""
    one, two = FakeStore(), FakeStore()
    texts = [f"turn {n}" for n in range(BATCH_EVENTS + 5)]
    await append(journal, *texts)
    async with delivering(journal, one=one, two=two, reading=Reading()) as deliverer:
        await deliverer.settle()
        assert one.texts == two.texts == texts
        assert [len(told) for told in one.received] == [BATCH_EVENTS, 5]
        await append(journal, "later", first=1000)
        deliverer.wake()
        await deliverer.settle()
        assert one.texts == two.texts == [*texts, "later"]
        assert await deliverer.backlog() == {}


async def test_stated_fields_reach_every_store_and_are_deleted_with_the_memory(journal, tmp_path):
    """Also after a restart, and on a later delivery; forgotten, nothing of it is left in the file."""
    said = (("lifetime", "session"), ("tag", "marzipan"))
    (kept,) = await append(journal, "tea", stated=said)
    await journal.close()
    journal = await Journal.open(tmp_path / "journal.sqlite")
    store = FakeStore()
    async with delivering(journal, store=store) as deliverer:
        await deliverer.settle()
    assert [one.event.stated for one in store.kept.values()] == [said]
    await journal.forget([kept.ref], kept.event.scope)
    await journal.close()
    assert all(b"marzipan" not in file.read_bytes() for file in tmp_path.glob("journal.sqlite*"))


@pytest.mark.feature("new statements are delivered before a folder that is being read in")
async def test_urgent_memories_are_delivered_before_an_ingested_folder(journal):
    """A thousand sections wait for a store; a memory that comes meanwhile is delivered next."""
    store = FakeStore()
    store.gate = asyncio.Event()
    async with delivering(journal, store=store) as deliverer:
        intake = Intake(journal, deliverer)
        sections = [
            NewMemory(f"Section {n}", ME, source="file:/a.md", origin="import") for n in range(5 * BATCH_EVENTS)
        ]
        for first in range(0, len(sections), BATCH_EVENTS):
            await intake.remember(sections[first : first + BATCH_EVENTS], batch="run")
        await store.reached.wait()
        await intake.remember([NewMemory("Tea is at four.", ME)])
        store.gate.set()
        await deliverer.settle()
    position = next(n for n, texts in enumerate(store.received) if "Tea is at four." in texts)
    assert (position, store.received[position]) == (1, ("Tea is at four.",))
    assert len(store.texts) == 5 * BATCH_EVENTS + 1


async def test_events_that_a_store_declines_are_not_delivered(journal):
    """A declined kind costs neither the others nor a second question."""
    store = FakeStore(declines=["turn"])
    await append(journal, "a note")
    await append(journal, "a turn", first=1, kind="turn")
    async with delivering(journal, store=store) as deliverer:
        await deliverer.settle()
        assert store.received == [("a note",)]
        assert await deliverer.backlog() == {}


@pytest.mark.row("A028", "the rules extract once from each event, for all stores")
async def test_the_rules_extract_once_per_event_for_all_stores(journal):
    """Three stores, one look at each event; all get what it found."""
    looks: Counter[str] = Counter()

    def extract(one):
        looks[one.text] += 1
        return Extraction(kind="decision")

    stores = {name: FakeStore() for name in ("one", "two", "three")}
    await append(journal, "a", "b")
    async with delivering(journal, extract=extract, **stores) as deliverer:
        await deliverer.settle()
    assert looks == {"a": 1, "b": 1}
    assert all(c.extraction.kind == "decision" for store in stores.values() for c in store.kept.values())


@pytest.mark.feature("what was delivered to all stores stays in the memory of no deliverer")
async def test_what_every_store_has_is_dropped(journal):
    """The text of a memory that is forgotten later would stay in the process."""
    await append(journal, "one", "two")
    async with delivering(journal, one=FakeStore(), two=FakeStore()) as deliverer:
        await deliverer.settle()
        assert journal.outbox._made == {}


class Interrupted:
    """An outbox whose database does not answer the first time that a store asks when it is needed again."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._was_away = False

    def __getattr__(self, name: str) -> object:
        return getattr(self._outbox, name)

    async def next_due(self, backend: str, now: datetime) -> datetime | None:
        if not self._was_away:
            self._was_away = True
            raise DatabaseUnreachable("PostgreSQL does not answer")
        return await self._outbox.next_due(backend, now)


@pytest.mark.feature(
    "a journal that is away for a moment ends no store's deliveries, and the log does not blame the store"
)
async def test_a_journal_that_is_away_while_a_store_waits_ends_no_deliveries(journal, caplog):
    """The store's task tries again as after any fault; it ended, and the store got nothing until the next start."""
    journal.outbox = Interrupted(journal.outbox)
    time, store = FakeClock(), FakeStore()
    async with delivering(journal, time, store=store) as deliverer:
        await time.asleep(1)
        time.pass_by(MAX_BACKOFF_S)
        await append(journal, "later")
        deliverer.wake()
        await deliverer.settle()
        assert store.texts == ["later"]
        assert deliverer.faults == {}
    assert [one.getMessage() for one in caplog.records] == [
        "the journal's database was away, so backend store got nothing (try 1): DatabaseUnreachable"
    ]


@pytest.mark.row("A044", "every backend gets every event, in order, until it acknowledges")
async def test_a_backend_that_was_down_catches_up_without_delaying_others(journal):
    """Tried after ½ s, 1 s, 2 s … at most a minute apart, ± 20 %; when it is back it gets everything, in order."""
    time, up, down = FakeClock(), FakeStore(), FakeStore()
    down.fault = BackendUnreachable("refused")
    async with delivering(journal, time, up=up, down=down) as deliverer:
        await append(journal, "one", "two")
        deliverer.wake()
        await up.until(["one", "two"])
        for tries in range(1, 12):
            await time.asleep(tries)
            assert 0.8 <= time.slept[-1] / min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2 ** (tries - 1)) <= 1.2
            assert "down" in deliverer.faults
            time.pass_by(time.slept[-1])
        await time.asleep(12)
        down.fault = None
        time.pass_by(time.slept[-1])
        await down.until(["one", "two"])
        await deliverer.settle()
        assert down.texts == ["one", "two"]
        assert deliverer.faults == {}
        assert await deliverer.backlog() == {}


async def test_delivery_waits_as_long_as_a_backend_asks(journal):
    """Retry-After of 90 s is longer than the pause that would be due (½ s), so it is what is slept."""
    time, store = FakeClock(), FakeStore()
    store.fault = RateLimited("slow down", retry_after_s=90)
    await append(journal, "one")
    async with delivering(journal, time, store=store):
        await time.asleep(1)
        assert time.slept == [90]


@pytest.mark.parametrize("fault", [BackendUnreachable("x"), HttpStatus("x", 503), OSError("x"), TimeoutError()])
async def test_a_fault_of_the_backend_does_not_count_against_an_event(journal, fault):
    """However often it fails, nothing is given up, and the batch is not taken apart."""
    time, store = FakeClock(), FakeStore()
    store.fault = fault
    await append(journal, "one", "two")
    async with delivering(journal, time, store=store) as deliverer:
        for tries in range(1, MAX_ATTEMPTS + 5):
            await time.asleep(tries)
            time.pass_by(time.slept[-1])
        assert set(store.received) == {("one", "two")}
        assert await deliverer.backlog() == {"store": 2}


@pytest.mark.feature("an event that one backend rejects delays no other")
async def test_a_rejected_event_does_not_delay_the_others(journal):
    """It rejects one of 16: 15 are there at once, in a few calls; later events are delivered at once, too."""
    time, store = FakeClock(), FakeStore(refuses=["turn 5"])
    texts = [f"turn {n}" for n in range(16)]
    await append(journal, *texts)
    async with delivering(journal, time, store=store) as deliverer:
        await deliverer.settle()
        assert sorted(store.texts) == sorted(set(texts) - {"turn 5"})
        # All 16, then two halves a level: 16 → 8 → 4 → 2 → 1.
        assert len(store.received) == 1 + 2 * 4
        await append(journal, "later", first=100)
        deliverer.wake()
        await deliverer.settle()
        assert "later" in store.texts
        assert await deliverer.backlog() == {"store": 1}


async def test_a_rejected_event_is_retried_then_given_up_until_the_next_start(journal):
    """24 tries, longer and longer apart, make a day; the next start, maybe of a better program, tries again."""
    time, store = FakeClock(), FakeStore(refuses=["bad"])
    await append(journal, "good", "bad")
    async with delivering(journal, time, store=store) as deliverer:
        for tries in range(1, MAX_ATTEMPTS):
            await time.asleep(tries)
            time.pass_by(time.slept[-1])
            await asyncio.sleep(0)
        while await deliverer.backlog():
            deliverer.wake()
            await deliverer.settle()
        assert sum(time.slept) > 0.8 * 20 * 3600
        assert store.received.count(("bad",)) == MAX_ATTEMPTS
    store.refuses.clear()
    async with delivering(journal, time, store=store) as deliverer:
        await deliverer.settle()
        assert store.texts == ["good", "bad"]


@pytest.mark.feature("a delivery that waits for its next try does not wait for a clock that went back since")
async def test_a_postponed_delivery_does_not_wait_for_a_clock_that_went_back(journal):
    """The machine believed for a while that it was a year later; deletions are postponed in the same way."""
    time, store, year_s = FakeClock(), FakeStore(refuses=["bad"]), 366 * 86_400
    await append(journal, "bad")
    time.pass_by(year_s)
    async with delivering(journal, time, store=store) as deliverer:
        await time.asleep(1)
        time.pass_by(-year_s)
        store.refuses.clear()
        deliverer.wake()
        await deliverer.settle()
        assert store.texts == ["bad"]


async def test_a_bug_in_one_adapter_ends_neither_its_deliveries_nor_anothers(journal):
    """An unexpected exception is survived; when the bug is gone the event arrives."""
    time, good, broken = FakeClock(), FakeStore(), FakeStore()
    broken.fault = AttributeError("'NoneType' object has no attribute 'x'")
    await append(journal, "one")
    async with delivering(journal, time, good=good, broken=broken) as deliverer:
        await good.until(["one"])
        await time.asleep(1)
        broken.fault = None
        time.pass_by(time.slept[-1])
        await broken.until(["one"])
        await deliverer.settle()
        assert await deliverer.backlog() == {}


class Miscounting(FakeStore):
    """Acknowledges one event too few."""

    async def remember(self, batch):
        return (await super().remember(batch))[:-1]


async def test_an_acknowledgement_of_wrong_length_is_invalid(journal):
    """A reply for fewer events than were delivered is invalid."""
    await append(journal, "one", "two")
    async with delivering(journal, store=Miscounting()) as deliverer:
        await deliverer.settle()
        assert await deliverer.backlog() == {"store": 2}


@pytest.mark.row("A044", "a crash between a delivery and its record is harmless")
async def test_a_crash_between_the_store_and_the_outbox_repeats_the_delivery(journal):
    """The event is delivered again after the restart, and is there once."""
    store = FakeStore()
    store.gate = asyncio.Event()
    await append(journal, "one", "two")
    async with delivering(journal, store=store):
        await store.reached.wait()
    assert await journal.backlog() == {"store": 2}
    store.gate = None
    async with delivering(journal, store=store) as deliverer:
        await deliverer.settle()
    assert store.received == [("one", "two")] * 2
    assert store.texts == ["one", "two"]
    assert await journal.backlog() == {}


async def test_a_backend_that_joins_later_gets_what_was_there_before(journal):
    """And one that was away for a while gets what it missed, not what it has."""
    old, new = FakeStore(), FakeStore()
    await append(journal, "one")
    async with delivering(journal, old=old) as deliverer:
        await deliverer.settle()
    async with delivering(journal, new=new) as deliverer:
        await append(journal, "two", first=1)
        deliverer.wake()
        await deliverer.settle()
        assert new.texts == ["one", "two"]
    async with delivering(journal, old=old, new=new) as deliverer:
        await deliverer.settle()
        assert old.received == [("one",), ("two",)]
        assert sorted(text for told in new.received for text in told) == ["one", "two"]


async def test_an_event_forgotten_during_its_delivery_is_deleted_in_the_backend(journal):
    """The mark in the outbox sees the tombstone: the store is asked to delete the native ids that it just returned."""
    store = FakeStore()
    store.gate = asyncio.Event()
    (stored,) = await append(journal, "in flight")
    async with delivering(journal, store=store) as deliverer:
        await store.reached.wait()
        await journal.forget([stored.ref], ME)
        gate, store.gate = store.gate, None
        gate.set()
        await store.until([])
        await deliverer.settle()
        assert await deliverer.backlog() == {}
        assert store.native_ids[stored.event.event_id] == (f"store-{stored.event.event_id}",)


@pytest.mark.feature(
    "an event that is delivered again after it was forgotten, with `kill -9` before the record", part="faults/stores"
)
async def test_an_event_forgotten_before_its_delivery_is_not_delivered(journal):
    """Read as due, forgotten everywhere, then delivered: after a crash before the mark the store would keep it."""
    store = FakeStore()
    deliverer = Deliverer(journal, {"store": store})
    await journal.outbox.register(["store"])
    one, two = await append(journal, "one", "two")
    due = await journal.outbox.due("store", START, 9)
    [deletion] = (await journal.forget([one.ref], ME))[one.ref]
    await deliverer.delete("store", [Due(due[0].seq, deletion.record.event, 0)])
    await deliverer._deliver("store", due)
    assert store.received == [("two",)]
    assert store.texts == ["two"]
    assert await journal.backlog() == {}
    assert (await journal.find(two.ref, ME)).event.text == "two"


class StatefulStore(FakeStore):
    """A store that keeps states as well."""

    def __init__(self) -> None:
        super().__init__()
        self.states: dict[str, State] = {}

    async def set_states(self, states: Mapping[str, State]) -> None:
        self.states |= states


async def test_a_decision_is_sent_to_backends_that_store_states(journal):
    """With the event if it was not delivered yet, else afterwards; and again after a change."""
    stateful, plain = StatefulStore(), FakeStore()
    (stored,) = await append(journal, "the launch is in May")
    known = stored.event.event_id
    async with delivering(journal, stateful=stateful, plain=plain) as deliverer:
        await deliverer.settle()
        for confidence in (0.8, 0.9):
            await journal.decide({known: {"confidence": confidence}}, "test", "to see it")
            deliverer.wake()
            await deliverer.settle()
            assert stateful.states == {known: State(confidence=confidence)}
