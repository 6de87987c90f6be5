"""Forgetting: here at once, in every backend in the end, and for good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fusion.contract import Place, Scope
from fusion.errors import BackendUnreachable, NotFound
from fusion.ingest.deliver import Deliverer
from fusion.ingest.forget import Forgetter
from fusion.ingest.intake import Intake, NewMemory
from fusion.ingest.journal import Journal
from tests.ingest.stores import ME, Shelf, Time, event


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    opened = await Journal.open(tmp_path / "journal.sqlite")
    yield opened
    await opened.close()


@asynccontextmanager
async def forgetting(journal, time=None, purge=None, **stores):
    time = time or Time()
    deliverer = Deliverer(journal, stores, clock=time.now, sleep=time.sleep)
    await deliverer.start()
    try:
        await deliverer.settle()
        yield Forgetter(journal, deliverer, purge), deliverer
    finally:
        await deliverer.close()


class Keeping:
    """A store that cannot delete."""

    features = Shelf.features

    def __init__(self) -> None:
        self.shelf = Shelf()

    open = Shelf.open
    search = Shelf.search
    close = Shelf.close

    def accepts(self, event):
        return True

    async def remember(self, batch):
        return await self.shelf.remember(batch)


async def test_the_receipt_says_what_became_of_it_in_each_backend(journal):
    """Deleted; absent, where somebody else had deleted it; hidden, where nothing can; nothing where it was declined."""
    (stored,) = await journal.append([event("The code is 4711.", 1)])
    shelves = {"has": Shelf(), "lost": Shelf(), "keeps": Keeping(), "declined": Shelf(declines=["note"])}
    async with forgetting(journal, **shelves) as (forgetter, _):
        shelves["lost"].kept.clear()
        receipt = await forgetter.forget(stored.ref, ME)
    assert receipt.ref == stored.ref
    assert receipt.event_id == stored.event.event_id
    assert receipt.backends == {"has": "deleted", "lost": "absent", "keeps": "hidden"}
    assert receipt.done
    assert not shelves["declined"].asked_to_forget


async def test_the_texts_leave_the_embedders_caches(journal):
    """As they were said and with their speaker: that is what was encoded. Versions and derivatives, too."""
    purged: list[str] = []

    async def purge(texts):
        purged.extend(texts)

    stored = await journal.append([event("a first version", 1, speaker="Ana"), event("a second version", 1)])
    async with forgetting(journal, purge=purge) as (forgetter, _):
        receipt = await forgetter.forget(stored[1].ref, ME)
    assert receipt.also == (stored[0].ref,)
    assert {"a first version", "Ana: a first version", "a second version"} <= set(purged)


async def test_a_backend_that_is_down_is_asked_until_it_has_forgotten(journal):
    """The receipt says pending; the memory is gone here at once, and there when the backend is back, restart or not."""
    time, up, down = Time(), Shelf(), Shelf()
    (stored,) = await journal.append([event("The code is 4711.", 1)])
    async with forgetting(journal, time, up=up, down=down) as (forgetter, deliverer):
        down.fault = BackendUnreachable("refused")
        receipt = await forgetter.forget(stored.ref, ME)
        assert receipt.backends == {"up": "deleted", "down": "pending"}
        assert not receipt.done
        assert (await journal.records([stored.event.event_id]))[stored.event.event_id].forgotten
        await time.asleep(1)
        assert await deliverer.backlog() == {"down": 1}
    down.fault = None
    async with forgetting(journal, time, up=up, down=down) as (_, deliverer):
        assert await deliverer.backlog() == {}
        assert down.kept == {}
        assert up.asked_to_forget == {stored.event.event_id: 1}


async def test_a_bug_in_one_backend_does_not_stop_forgetting_in_the_others(journal):
    """An exception that nobody thought of is pending, and is tried again later."""
    time, good, broken = Time(), Shelf(), Shelf()
    (stored,) = await journal.append([event("gone", 1)])
    async with forgetting(journal, time, good=good, broken=broken) as (forgetter, _):
        broken.fault = KeyError("x")
        receipt = await forgetter.forget(stored.ref, ME)
        assert receipt.backends == {"good": "deleted", "broken": "pending"}
        await time.asleep(1)
        broken.fault = None
        time.pass_by(time.slept[-1])
        await broken.until([])


async def test_a_crash_after_the_tombstone_is_finished_by_the_next_start(journal):
    """The tombstone is what decides: the backends are asked by whoever runs next."""
    shelf = Shelf()
    (stored,) = await journal.append([event("gone", 1)])
    async with forgetting(journal, shelf=shelf):
        pass
    await journal.bury(stored.ref, ME)
    assert shelf.texts == ["gone"]
    async with forgetting(journal, shelf=shelf):
        assert shelf.texts == []


async def test_a_backend_that_is_not_configured_now_stays_pending(journal):
    """It had the memory; when it is configured again, it is told."""
    shelf = Shelf()
    (stored,) = await journal.append([event("gone", 1)])
    async with forgetting(journal, shelf=shelf):
        pass
    async with forgetting(journal) as (forgetter, _):
        assert (await forgetter.forget(stored.ref, ME)).backends == {"shelf": "pending"}
    async with forgetting(journal, shelf=shelf):
        assert shelf.texts == []


async def test_what_is_being_told_is_forgotten_after_it_not_beside_it(journal):
    """A backend in the middle of storing it is not told "absent" a moment before it is there: it waits its turn."""
    shelf = Shelf()
    async with forgetting(journal, shelf=shelf) as (forgetter, deliverer):
        shelf.gate = asyncio.Event()
        (stored,) = await journal.append([event("in flight", 1)])
        deliverer.wake()
        await shelf.reached.wait()
        asked = asyncio.create_task(forgetter.forget(stored.ref, ME))
        shelf.gate.set()
        assert (await asked).backends == {"shelf": "deleted"}
        await deliverer.settle()
        assert shelf.kept == {}
        assert await deliverer.backlog() == {}


async def test_nobody_forgets_for_another(journal):
    """Another user's, another tenant's, an unknown and a forgotten memory are all the same: not found."""
    (stored,) = await journal.append([event("mine", 1)])
    async with forgetting(journal) as (forgetter, _):
        for ref, scope in [(stored.ref, Scope(user_id="eve")), (stored.ref, Scope(tenant="acme")), ("m99", ME)]:
            with pytest.raises(NotFound):
                await forgetter.forget(ref, scope)
        await forgetter.forget(stored.ref, ME)
        with pytest.raises(NotFound):
            await forgetter.forget(stored.ref, ME)


TEXTS = ["The key is under the third flower pot.", "yes", "We moved the office to Lund in May.", "no, not yet"]


class NeverAgain(RuleBasedStateMachine):
    """Remember, forget, deliver, fail, restart and ingest again, in any order: what was forgotten stays away.

    The model knows which (position, text) were forgotten, and which events.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.shelf = Shelf()
        self.sent: list[NewMemory] = []
        self.live: set[str] = set()
        self.gone: set[str] = set()
        self.barred: set[tuple[int, str]] = set()
        self.open()

    def open(self) -> None:
        async def begin() -> None:
            self.journal = await Journal.open(Path(self.folder.name) / "journal.sqlite")
            time = Time()
            self.deliverer = Deliverer(self.journal, {"shelf": self.shelf}, clock=time.now, sleep=time.sleep)
            self.intake = Intake(self.journal, self.deliverer)
            self.forgetter = Forgetter(self.journal, self.deliverer)
            await self.deliverer.start()

        self.runner.run(begin())

    def close(self) -> None:
        async def end() -> None:
            await self.deliverer.close()
            await self.journal.close()

        self.runner.run(end())

    def send(self, item: NewMemory) -> None:
        (answer,) = self.runner.run(self.intake.remember([item]))
        if item.place is not None and (item.place.start, item.text) in self.barred:
            assert answer.status in ("blocked", "duplicate")
        if answer.status in ("stored", "superseded"):
            assert answer.event_id not in self.gone
            self.live.add(answer.event_id)

    @rule(text=st.sampled_from(TEXTS), position=st.integers(0, 2))
    def ingest(self, text: str, position: int) -> None:
        item = NewMemory(text, Scope(user_id="ana"), place=Place("chat", position, position))
        self.sent.append(item)
        self.send(item)

    @rule(text=st.sampled_from(TEXTS))
    def remember(self, text: str) -> None:
        """An explicit wish: the same may be ingested again, wherever it was said."""
        self.send(NewMemory(text, Scope(user_id="ana")))
        self.barred = {(place, said) for place, said in self.barred if said != text}

    @rule()
    def ingest_everything_again(self) -> None:
        for item in self.sent:
            self.send(item)

    @precondition(lambda self: self.live)
    @rule(which=st.integers(0, 100))
    def forget(self, which: int) -> None:
        event_id = sorted(self.live)[which % len(self.live)]
        before = self.runner.run(self.journal.records(sorted(self.live)))
        self.runner.run(self.forgetter.forget(event_id, ME))
        for i, record in self.runner.run(self.journal.records(sorted(self.live))).items():
            if record.forgotten:
                self.live.discard(i)
                self.gone.add(i)
                if (place := before[i].event.place) is not None:
                    self.barred.add((place.start, before[i].event.text))
        assert event_id in self.gone

    @rule()
    def go_down(self) -> None:
        self.shelf.fault = BackendUnreachable("down")

    @rule()
    def crash_and_come_back(self) -> None:
        self.close()
        self.shelf.fault = None
        self.open()
        self.runner.run(self.deliverer.settle())
        assert not self.gone & self.shelf.kept.keys()
        assert self.live == self.shelf.kept.keys()

    @invariant()
    def what_is_gone_is_known_as_gone(self) -> None:
        records = self.runner.run(self.journal.records(sorted(self.gone)))
        assert len(records) == len(self.gone)
        assert all(r.forgotten and not r.event.text for r in records.values())

    def teardown(self) -> None:
        self.crash_and_come_back()
        self.close()
        self.runner.close()
        self.folder.cleanup()


NeverAgain.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
test_what_was_forgotten_never_comes_back = NeverAgain.TestCase
