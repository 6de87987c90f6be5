"""Forgetting after a crash at any step, and in any order with other work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fusion.contract import Place, Scope
from fusion.errors import BackendUnreachable
from fusion.ingest.deliver import Deliverer
from fusion.ingest.forget import Forgetter
from fusion.ingest.intake import Intake, NewMemory
from fusion.journal import Journal, audit
from fusion.store.sqlite import Database
from tests.ingest.helpers import (
    ME,
    FakeClock,
    FakeStore,
    event,
    forgetting,
    request,
)


class Crash(BaseException):
    """The process ends here."""


class Mortal:
    """Counts the steps of a forgetting, and ends the process before the one that is next to be the ``last``."""

    def __init__(self, last: int) -> None:
        self.left = last

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash


class MortalDatabase(Database):
    mortal: Mortal | None = None

    async def write(self, work):
        if self.mortal is not None:
            self.mortal.step()
        return await super().write(work)

    async def checkpoint(self):
        if self.mortal is not None:
            self.mortal.step()
        await super().checkpoint()


class MortalStore(FakeStore):
    mortal: Mortal | None = None

    async def forget(self, event_id, native_ids):
        if self.mortal is not None:
            self.mortal.step()
        return await super().forget(event_id, native_ids)

    async def search(self, query):
        if self.mortal is not None:
            self.mortal.step()
        return await super().search(query)


@pytest.mark.feature("forgetting that crashed at any step is finished by the next run")
async def test_forget_after_a_crash_at_any_step_is_finished_by_a_repeat(tmp_path):
    """The process ends before the k-th write, checkpoint, deletion or question, for every k: the same request again
    leaves nothing anywhere, one line in the audit for each memory, and nothing to do."""
    steps = 0
    for k in range(100):
        file = tmp_path / str(k) / "journal.sqlite"
        one, two = MortalStore(), MortalStore()
        database = await MortalDatabase.open(file, Journal.schema)
        journal = Journal(database)
        await journal.append([event(f"The code of door {n} is 47{n}.", n, source="mail") for n in range(3)])
        crashed = False
        async with forgetting(journal, one=one, two=two) as (forgetter, _):
            database.mortal = one.mortal = two.mortal = Mortal(k)
            try:
                await request(forgetter, source="mail")
            except Crash:
                crashed = True
            database.mortal = one.mortal = two.mortal = None
        await journal.close()
        journal = await Journal.open(file)
        async with forgetting(journal, one=one, two=two) as (forgetter, deliverer):
            await request(forgetter, source="mail")
            await deliverer.settle()
            assert await deliverer.backlog() == {}
        assert (one.kept, two.kept) == ({}, {})
        assert len(await journal.read(audit.page, ME, 99)) == 3
        await journal._database.checkpoint()
        await journal.close()
        assert b"code of door" not in file.read_bytes()
        if not crashed:
            steps = k
            break
    assert steps > 10


async def test_forget_purges_caches_even_after_a_crash(tmp_path):
    """After it the text is unknown, so the caches are purged before the deletion, and once more at the end."""
    purged: list[str] = []

    async def purge(texts):
        purged.extend(texts)

    database = await MortalDatabase.open(tmp_path / "journal.sqlite", Journal.schema)
    journal = Journal(database)
    (stored,) = await journal.append([event("The code is 4711.", 1)])
    async with forgetting(journal, purge=purge) as (forgetter, _):
        database.mortal = Mortal(1)
        with pytest.raises(Crash):
            await forgetter.forget(stored.ref, ME)
        database.mortal = None
        assert purged == ["The code is 4711."] * 2
        assert (await journal.records([stored.event.event_id]))[stored.event.event_id].forgotten
    await journal.close()


TEXTS = ["The key is under the third flower pot.", "yes", "We moved the office to Lund in May.", "no, not yet"]


@pytest.mark.row("A165", "a tombstone keeps a forgotten memory away, whatever work is in flight")
class NeverAgain(RuleBasedStateMachine):
    """Remember, forget, deliver, fail, restart and ingest again, in any order: what was forgotten stays away.

    The model knows which (position, text) were forgotten, and which events.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.runner = asyncio.Runner()
        self.store = FakeStore()
        self.sent: list[NewMemory] = []
        self.live: set[str] = set()
        self.gone: set[str] = set()
        self.tombstones: set[tuple[int, str]] = set()
        self.open()

    def open(self) -> None:
        async def begin() -> None:
            self.journal = await Journal.open(Path(self.folder.name) / "journal.sqlite")
            time = FakeClock()
            self.deliverer = Deliverer(self.journal, {"store": self.store}, clock=time.now, sleep=time.sleep)
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
        if item.place is not None and (item.place.start, item.text) in self.tombstones:
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
        self.tombstones = {(place, other) for place, other in self.tombstones if other != text}

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
                    self.tombstones.add((place.start, before[i].event.text))
        assert event_id in self.gone

    @rule()
    def go_down(self) -> None:
        self.store.fault = BackendUnreachable("down")

    @rule()
    def crash_and_come_back(self) -> None:
        self.close()
        self.store.fault = None
        self.open()
        self.runner.run(self.deliverer.settle())
        assert not self.gone & self.store.kept.keys()
        assert self.live == self.store.kept.keys()

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
