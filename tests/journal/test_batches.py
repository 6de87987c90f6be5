"""Undo of an ingest run: what it added is deleted, what was there before or came since stays."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from fusion.contract import Place, Scope
from fusion.errors import NotFound
from fusion.ingest.deliver import Deliverer
from fusion.ingest.forget import Forgetter
from fusion.ingest.intake import Acknowledged, Intake, NewMemory
from fusion.journal import Journal, audit, batches, outbox
from fusion.journal.schema import STEPS
from tests.ingest.helpers import ME, START, FakeClock, FakeStore

ANA = Scope(user_id="ana")


class Home:
    """A journal and one store, with what takes in and takes back."""

    def __init__(self, journal: Journal) -> None:
        self.journal, self.shelf, time = journal, FakeStore(), FakeClock()
        self.deliverer = Deliverer(journal, {"shelf": self.shelf}, clock=time.now, sleep=time.sleep)
        self.intake = Intake(journal, self.deliverer, time.now)
        self.purged: list[str] = []
        self.forgetter = Forgetter(journal, self.deliverer, self._purge)

    async def _purge(self, texts: Sequence[str]) -> None:
        self.purged += texts

    async def ingest(self, batch: str | None, *texts: str, file: str = "file:/a.md") -> Sequence[Acknowledged]:
        place = [Place("a.md", n, n, "line") for n in range(1, len(texts) + 1)]
        items = [NewMemory(t, ANA, place=p, source=file, origin="import") for t, p in zip(texts, place, strict=True)]
        return await self.intake.remember(items, batch=batch)

    async def current(self) -> set[str]:
        return {record.event.text for record in (await self.journal.page(ME, 1000)).records}

    async def undo(self, batch: str | None = None, *, dry_run: bool = False, limit: int = 1000):
        return await self.forgetter.undo(ANA, batch, limit=limit, dry_run=dry_run)


@pytest.fixture
async def home(journal: Journal) -> AsyncIterator[Home]:
    opened = Home(journal)
    await opened.deliverer.start()
    yield opened
    await opened.deliverer.close()


@pytest.mark.feature("undoing an ingest removes only what it added; its files can be ingested again")
async def test_an_undo_takes_back_what_the_run_added_and_nothing_else(home: Home, tmp_path: Path) -> None:
    """In the journal, in every store and in the caches; what an earlier run added, and what was said, stays."""
    await home.ingest("one", "The rake is behind the shed.")
    await home.intake.remember([NewMemory("Tea is at four.", ANA)])
    kept = await home.ingest("two", "The rake is behind the shed.", "The spade is lost.", "The hose leaks.")
    assert [one.status for one in kept] == ["duplicate", "stored", "stored"]
    preview = await home.undo("two", dry_run=True)
    assert (preview.left, [found.text for found in preview.found]) == (2, ["The spade is lost.", "The hose leaks."])
    done = await home.undo("two")
    assert (done.undone, done.left) == (2, 0)
    await home.deliverer.settle()
    assert await home.current() == {"The rake is behind the shed.", "Tea is at four."} == set(home.shelf.texts)
    assert {"The spade is lost.", "The hose leaks."} <= set(home.purged)
    assert all(b"spade" not in file.read_bytes() for file in tmp_path.iterdir())
    with pytest.raises(NotFound, match="nothing of it is left"):
        await home.undo("two")


async def test_undo_leaves_no_tombstones_so_files_can_be_ingested_again(home: Home) -> None:
    """An undo is no tombstone: what was taken back is not blocked, as what was forgotten is."""
    await home.ingest("one", "The spade was lent to Berit in May.")
    await home.undo()
    (again,) = await home.ingest("two", "The spade was lent to Berit in May.")
    assert again.status == "stored"
    await home.deliverer.settle()
    assert home.shelf.texts == ["The spade was lent to Berit in May."]


async def test_undo_keeps_newer_versions_of_a_memory(home: Home) -> None:
    """And so does what it replaced, as the earlier version of it."""
    (spade, _) = await home.ingest("one", "The spade is lost.", "The hose leaks.")
    await home.intake.remember([NewMemory("The spade is found.", ANA, supersedes=spade.ref)])
    assert (await home.undo()).undone == 1
    assert await home.current() == {"The spade is found."}
    assert (await home.journal.find(spade.ref, ME)).superseded_by is not None


async def test_undo_makes_replaced_memories_current_again(home: Home) -> None:
    """A later transcript changes a turn: without that transcript, the first version is current again."""
    turn = NewMemory("We meet on Monday.", ANA, kind="turn", place=Place("chat", 1, 1))
    await home.intake.remember([turn])
    edited = NewMemory("We meet on Friday.", ANA, kind="turn", place=Place("chat", 1, 1), origin="import")
    (kept,) = await home.intake.remember([edited], batch="one")
    assert kept.status == "superseded"
    await home.undo()
    assert await home.current() == {"We meet on Monday."}


async def test_undo_of_a_large_run_goes_in_pages(home: Home) -> None:
    """Each page says how much is left; the list of runs counts what is kept of each."""
    await home.ingest("one", *(f"Line number {n} of the log." for n in range(7)))
    await home.ingest("two", "Something else.", file="file:/b.md")
    runs = await home.journal.read(batches.batches, ANA, 9)
    assert [(run.id, run.memories, run.first) for run in runs] == [("two", 1, "file:/b.md"), ("one", 7, "file:/a.md")]
    assert [(await home.undo("one", limit=3)).left for _ in range(3)] == [4, 1, 0]
    assert [run.id for run in await home.journal.read(batches.batches, ANA, 9)] == ["two"]
    assert await home.journal.read(batches.batches, Scope(user_id="ben"), 9) == []


async def test_undo_of_another_users_run_is_not_found(home: Home) -> None:
    """A run is its owner's; the words are those for one that never was."""
    await home.ingest("one", "The spade is lost.")
    with pytest.raises(NotFound, match="there is no ingest 'one'"):
        await home.forgetter.undo(Scope(user_id="ben"), "one", limit=9, dry_run=False)
    with pytest.raises(NotFound, match="there is no ingest to undo"):
        await home.forgetter.undo(Scope(user_id="ben"), None, limit=9, dry_run=False)


@pytest.mark.feature("… deliveries that were not sent yet are dropped", of="undoing an ingest removes only")
async def test_undo_drops_deliveries_that_have_not_begun(home: Home) -> None:
    """A store that is still busy with the first memory gets none of the others, and is not asked to delete them."""
    home.shelf.gate = asyncio.Event()
    await home.ingest("one", "Memory 0.")
    await home.shelf.reached.wait()
    await home.ingest("one", *(f"Memory {n} of the log." for n in range(1, 6)), file="file:/b.md")
    await home.undo("one")
    assert await home.deliverer.backlog() == {"shelf": 1}
    home.shelf.gate.set()
    await home.deliverer.settle()
    assert home.shelf.received == [("Memory 0.",)]
    assert len(home.shelf.asked_to_forget) == 1
    assert home.shelf.texts == []


@pytest.mark.feature("… what a backend stored before a crash is deleted there", of="undoing an ingest removes only")
async def test_undo_deletes_what_a_store_took_before_a_crash(home: Home) -> None:
    """The delivery had begun, so the store may hold it although nothing says so."""
    home.shelf.gate = asyncio.Event()
    await home.ingest("one", "The spade is lost.")
    await home.shelf.reached.wait()
    await home.deliverer.close()  # as a kill does: the store has it, and no mark was made
    assert home.shelf.texts == ["The spade is lost."]
    home.shelf.gate = None
    undone = await home.journal.undo(ANA, "one", 10)
    assert undone.left == 0
    await home.deliverer.start()
    await home.deliverer.settle()
    assert home.shelf.texts == []


@pytest.fixture(params=[50, 5000])
def filled(request: pytest.FixtureRequest) -> Iterator[tuple[sqlite3.Connection, int]]:
    """A journal's tables with so many events delivered to three backends, and the number of the last event."""
    db = sqlite3.connect(":memory:")
    db.row_factory = sqlite3.Row
    for step in STEPS:
        db.executescript(step)
    for seq in range(1, request.param + 1):
        outbox.enter(db, seq, ["cortex", "markdown", "mem0"])
    yield db, request.param
    db.close()


@contextmanager
def at_most_steps(db: sqlite3.Connection, limit: int) -> Iterator[None]:
    """Asserts the number of steps of SQLite's virtual machine, which does not depend on the computer's speed."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    db.set_progress_handler(count, 1)
    yield
    db.set_progress_handler(None, 1)
    assert steps < limit


@pytest.mark.feature("… in a time that does not depend on the size of the home", of="undoing an ingest removes only")
def test_withdrawing_deliveries_does_not_read_those_of_other_events(filled: tuple[sqlite3.Connection, int]) -> None:
    """SQLite takes as many steps in a large outbox as in a small one; it read the whole of it for each memory."""
    db, last = filled
    with at_most_steps(db, 1500):
        outbox.withdraw(db, [last])
        assert set(outbox.backends_to_forget(db, last)) == {"cortex", "markdown", "mem0"}


@pytest.mark.feature(
    "… the time for a page does not depend on the number of deliveries",
    of="the audit of what was forgotten",
)
def test_a_page_of_the_audit_does_not_read_the_deliveries_of_other_events(
    filled: tuple[sqlite3.Connection, int],
) -> None:
    """As many steps in a large outbox as in a small one; a page read the whole of it."""
    db, last = filled
    audit.put(db, ME, "m1", last, "ref", START)
    outbox.withdraw(db, [last])
    with at_most_steps(db, 1500):
        [(_, entry)] = audit.page(db, ME, 10)
        assert entry.backends == {"cortex": "pending", "markdown": "pending", "mem0": "pending"}


def test_recovering_an_event_does_not_read_the_deliveries_of_others(filled: tuple[sqlite3.Connection, int]) -> None:
    """A repair removes the deliveries of one number by a search of the index."""
    db, last = filled
    with at_most_steps(db, 1500):
        outbox.drop(db, last)
    assert outbox.outcomes(db, [last]) == {}
    assert set(outbox.outcomes(db, [last - 1])) == {last - 1}
