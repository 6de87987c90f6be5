"""A journal or store that loses rows while the server runs, or between two runs, is named within one comparison."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from fusion.contract import Forgotten, Place, Scope
from fusion.gateway.gateway import Gateway
from fusion.gateway.losses import Losses
from fusion.gateway.repair import repair
from fusion.ingest.intake import NewMemory
from fusion.journal import Journal
from fusion.journal.retire import CompleteFile
from fusion.journal.store_watermarks import read_count, write_count
from fusion.settings import Settings
from tests.faults.home import door, settings_of
from tests.faults.test_stores import NADIA, QUESTION, body
from tests.ingest.helpers import event

STORES = {
    "cortex": ("adapters.cortex:Cortex", "graph.sqlite", "memory"),
    "triples": ("adapters.triples:Triples", "graph.sqlite", "memory"),
    "mem0": ("adapters.mem0:Mem0", "points.sqlite", "point"),
    "vectors": ("adapters.vector_sqlite:VectorSqlite", "vectors.sqlite", "memory"),
}
"""by backend: its adapter, its file, and the table with its memories"""


def settings(home: Path, *names: str, compare_s: float = 0.01) -> Settings:
    found = settings_of(home, **{name: STORES[name][0] for name in names})
    return found.model_copy(update={"checks": found.checks.model_copy(update={"compare_s": compare_s})})


async def remember(gateway: Gateway, first: int, count: int) -> list[str]:
    texts = [NewMemory(f"Harbour {n} is in Lyon", scope=NADIA, kind="note") for n in range(first, first + count)]
    kept = await gateway.remember(texts)
    await gateway.settle()
    return [one.ref for one in kept]


def delete_rows(file: Path, table: str, count: int) -> None:
    """As another program does it that knows nothing of the gateway."""
    with closing(sqlite3.connect(file, timeout=60)) as db, db:
        db.execute(f"delete from {table} where rowid in (select rowid from {table} limit {count})")


def file_of(home: Path, name: str) -> tuple[Path, str]:
    _, file, table = STORES[name]
    (path,) = (home / "backends" / name).rglob(file)
    return path, table


async def noted(client: httpx.AsyncClient, words: str) -> Mapping[str, Any]:
    """What `/readyz` says as soon as one of its notes has these words."""
    async with asyncio.timeout(60):
        while True:
            ready: dict[str, Any] = (await client.get("/readyz")).json()
            if any(words in note for note in ready["notes"]):
                return ready
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("name", STORES)
@pytest.mark.feature("a store that loses memories while the server runs is reported, with how to fill it again")
async def test_a_store_that_loses_rows_is_named_while_the_server_runs(home: Path, name: str) -> None:
    """By `/readyz`, status and every answer, with what to do; also though memories were added since."""
    async with door(settings(home, name, compare_s=3600)) as (gateway, client):
        await remember(gateway, 0, 20)
        assert await gateway.health.compare() == {}
        delete_rows(*file_of(home, name), 7)
        await remember(gateway, 20, 2)
        found = await gateway.health.compare()
        assert set(found) == {name}
        ready = (await client.get("/readyz")).json()
        status = (await client.get("/v1/status")).json()
        fused = (await client.post("/fuse", json=QUESTION)).json()
    assert any(f"{name}: at least 7 of its memories are gone" in note for note in ready["notes"])
    assert f"move {home / 'backends' / name} away" in ready["notes"][-1]
    assert status["notes"][-1] == ready["notes"][-1]
    assert status["backends"][0]["degraded"]
    assert fused["degraded"]


async def test_the_comparison_runs_by_itself(home: Path) -> None:
    """Within its interval, without a question."""
    async with door(settings(home, "cortex")) as (gateway, client):
        await remember(gateway, 0, 20)
        await noted_count(home, "cortex", 20)
        delete_rows(*file_of(home, "cortex"), 3)
        ready = await noted(client, "cortex: at least 3 of its memories are gone")
    assert any("cortex: at least 3 of its memories are gone" in note for note in ready["notes"])


async def noted_count(home: Path, name: str, events: int) -> None:
    """Returns when a comparison has counted so many."""
    async with asyncio.timeout(60):
        while True:
            count = read_count(home / "backends" / name)
            if count is not None and count.events == events:
                return
            await asyncio.sleep(0.02)


@pytest.mark.feature("a store's loss is reported also after a restart, until the store is filled again")
async def test_a_loss_between_two_runs_is_named_until_the_store_is_filled_anew(home: Path) -> None:
    """It stays named over a restart; once its folder is moved away the store gets everything again."""
    chosen = settings(home, "cortex")
    async with Gateway.open(chosen) as gateway:
        await remember(gateway, 0, 20)
        await gateway.health.compare()
    delete_rows(*file_of(home, "cortex"), 4)
    for _ in range(2):
        async with door(chosen) as (_, client):
            await noted(client, "cortex: at least 4 of its memories are gone")
    (home / "backends" / "cortex").rename(home.parent / "cortex.lost")
    async with door(chosen) as (gateway, client):
        await gateway.settle()
        assert await gateway.health.compare() == {}
        assert [state["items"] for state in await gateway.backends()] == [20]
        assert not any("are gone" in note for note in (await client.get("/readyz")).json()["notes"])


@pytest.mark.feature("a memory that the gateway itself removes is not counted as a loss")
async def test_deletions_of_the_gateway_are_no_loss(home: Path) -> None:
    """Forgetting, superseding and undoing an ingest, with comparisons in between and a restart."""
    chosen = settings(home, *STORES, compare_s=3600)
    async with Gateway.open(chosen) as gateway:
        refs = await remember(gateway, 0, 20)
        await gateway.health.compare()
        for ref in refs[:5]:
            await gateway.forget(ref, NADIA)
        assert await gateway.health.compare() == {}
        await gateway.remember([NewMemory("Harbour 9 is in Brest", scope=NADIA, supersedes=refs[9])])
        await gateway.remember([NewMemory(f"Crane {n} is red", scope=NADIA) for n in range(9)], batch="run-1")
        await gateway.settle()
        assert await gateway.health.compare() == {}
        await gateway.undo(NADIA, "run-1")
        await gateway.settle()
        assert await gateway.health.compare() == {}
    async with Gateway.open(chosen) as gateway:
        await gateway.settle()
        assert await gateway.health.compare() == {}


@pytest.mark.feature("a journal that loses events while the server runs becomes read-only")
async def test_a_journal_that_loses_rows_is_only_read_and_repaired(home: Path) -> None:
    """Named though memories were added since; nothing more is written, and the stores give everything back."""
    chosen = settings(home, "cortex", compare_s=3600)
    async with door(chosen) as (gateway, client):
        await remember(gateway, 0, 20)
        delete_rows(home / "journal.sqlite", "event", 6)
        await remember(gateway, 20, 2)
        assert set(await gateway.health.compare()) == {"journal"}
        ready = (await client.get("/readyz")).json()
        refused = await client.post("/v1/memories", json=body("The lighthouse is in Brest"))
        fused = (await client.post("/fuse", json=QUESTION)).json()
    assert "another program deleted 6 events from it" in ready["notes"][-1]
    assert refused.status_code == 500
    assert "fusion repair" in refused.json()["detail"]
    assert fused["degraded"]
    async with door(chosen) as (_, client):  # the next start knows it, too
        assert "another program deleted memories from it" in (await client.get("/readyz")).json()["notes"][-1]
    (done,) = await repair(chosen, dry_run=False)
    assert done.recovered == 6
    async with door(chosen) as (gateway, client):
        assert len((await gateway.memories(NADIA, 100))["memories"]) == 22
        assert (await client.post("/v1/memories", json=body("The lighthouse is in Brest"))).status_code == 201


ANA = Scope(user_id="ana")
FILE = "file:/notes/a.md"


class Shelf:
    """A store's file with the events that it holds."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        """what happens while it counts"""

    async def count(self) -> int | None:
        if self.meanwhile is not None:
            await self.meanwhile()
        return len(self.held)


class Held:
    """A journal and one store; deliveries and deletions wait until the test makes them."""

    def __init__(self, journal: Journal, folder: Path, *, server: bool = False) -> None:
        self.journal, self.folder, self.shelf = journal, folder, Shelf()
        self.woken = 0
        servers = ["shelf"] if server else []
        self.losses = Losses(journal, {"shelf": self.shelf}, {"shelf": folder}, servers, self.wake)
        self.refs: dict[int, str] = {}

    def wake(self) -> None:
        self.woken += 1

    async def read(self, lines: Iterable[int], batch: str | None = None) -> None:
        """Read these lines of the file: they are new, or current again."""
        sections = [
            event(f"line {n}", place=Place("notes/a.md", n, n, "line"), source=FILE, revision=f"line {n}")
            for n in lines
        ]
        stored = await self.journal.append(sections, batch=batch)
        assert not isinstance(stored, str)
        self.refs |= {n: one.ref for n, one in zip(lines, stored, strict=True) if one.ref}

    async def keep(self, lines: Iterable[int]) -> None:
        """Retire the file's other lines."""
        await self.journal.retire(ANA, [CompleteFile(FILE, tuple(f"line {n}" for n in lines))])

    async def forget(self, lines: Iterable[int]) -> None:
        await self.journal.forget([self.refs[n] for n in lines if n in self.refs], ANA)

    async def deliver(self, *, acknowledged: bool = True) -> None:
        """Deliver everything; without ``acknowledged`` the journal does not learn that the store has it."""
        due = await self.journal.outbox.due("shelf", datetime.now(UTC), 1000)
        await self.journal.outbox.mark_sent("shelf", [one.seq for one in due])
        self.shelf.held |= {one.event.event_id for one in due}
        if acknowledged:
            await self.journal.outbox.mark_delivered("shelf", [(one.seq, [one.event.event_id]) for one in due])

    async def delete(self, *, acknowledged: bool = True) -> None:
        """Make every deletion; without ``acknowledged`` the next try finds nothing to delete."""
        for one in await self.journal.outbox.due_deletions("shelf", datetime.now(UTC), 1000):
            outcome: Forgotten = "deleted" if one.event.event_id in self.shelf.held else "absent"
            self.shelf.held.discard(one.event.event_id)
            if acknowledged:
                await self.journal.outbox.mark_forgotten("shelf", [(one.seq, outcome)])

    async def settle(self) -> None:
        await self.delete()
        await self.deliver()

    def lose(self, count: int) -> None:
        """As another program deletes."""
        self.shelf.held -= set(sorted(self.shelf.held)[:count])


@asynccontextmanager
async def held(folder: Path, *, server: bool = False) -> AsyncIterator[Held]:
    """A home whose store has nothing yet."""
    journal = await Journal.open(folder / "journal.sqlite")
    await journal.outbox.register(["shelf"])
    (folder / "shelf").mkdir()
    try:
        yield Held(journal, folder / "shelf", server=server)
    finally:
        await journal.close()


async def test_losses_ignore_memories_that_return_before_their_delivery(tmp_path: Path) -> None:
    """Ten lines return while ten others go, as after a switch of the branch: the store waits for deliveries."""
    async with held(tmp_path) as home:
        await home.read(range(30))
        await home.settle()
        await home.keep(range(10, 30))
        await home.settle()
        assert await home.losses.compare() == {}
        await home.keep(range(20, 30))
        await home.read(range(10))
        await home.delete()
        assert await home.losses.compare() == {}
        await home.deliver()
        assert await home.losses.compare() == {}


async def test_what_is_deleted_while_a_store_counts_is_no_loss(tmp_path: Path) -> None:
    """The deliveries are counted before that, and again because something was committed meanwhile."""
    async with held(tmp_path) as home:
        await home.read(range(30))
        await home.settle()
        assert await home.losses.compare() == {}

        async def retire() -> None:
            await home.keep(range(20))
            await home.delete()

        home.shelf.meanwhile = retire
        assert await home.losses.compare() == {}
        home.shelf.meanwhile = None
        assert await home.losses.compare() == {}
        home.lose(1)
        assert len(await home.losses.compare()) == 1


@pytest.mark.parametrize("dropped", ["undone", "absent"])
async def test_losses_are_not_hidden_by_deletions_of_what_was_never_delivered(tmp_path: Path, dropped: str) -> None:
    """Fifteen lines go before the store had them, while another program deletes fifteen that it had."""
    async with held(tmp_path) as home:
        await home.read(range(30))
        await home.settle()
        assert await home.losses.compare() == {}
        await home.read(range(30, 45), batch="run-1")
        if dropped == "undone":
            await home.journal.undo(ANA, "run-1", 1000)
        else:
            await home.keep(range(30))
        home.lose(15)
        await home.delete()
        (found,) = (await home.losses.compare()).values()
        assert "at least 15 of its memories are gone" in found


async def test_losses_withdraw_a_report_when_the_store_has_everything_again(tmp_path: Path) -> None:
    """Also one that an earlier version left in the store's folder; one that is true stays there."""
    async with held(tmp_path) as home:
        await home.read(range(30))
        await home.settle()
        await home.losses.compare()
        whole = set(home.shelf.held)
        home.lose(10)
        assert set(await home.losses.compare()) == {"shelf"}
        count = read_count(home.folder)
        assert count is not None
        earlier = json.loads((home.folder / "count.json").read_text()) | {"removed": 0}
        del earlier["surplus"]
        for _ in range(2):
            (home.folder / "count.json").write_text(json.dumps(earlier))
            (found,) = (await home.losses.compare()).values()
            assert "at least 10 of its memories are gone" in found
        home.shelf.held |= whole
        assert await home.losses.compare() == {}
        write_count(home.folder, replace(count, surplus=None))
        assert await home.losses.compare() == {}


@pytest.mark.feature("a store on a server that lost memories gets them again, and is degraded until it has them")
async def test_a_server_gets_again_what_it_lost(tmp_path: Path) -> None:
    """Each loss has everything delivered once, also if some of it never comes back, or the home cannot be written."""
    async with held(tmp_path, server=True) as home:
        home.folder.rmdir()
        home.folder.touch()  # no count is kept there
        await home.read(range(30))
        await home.settle()
        assert await home.losses.compare() == {}
        home.lose(10)
        for _ in range(2):
            (found,) = (await home.losses.compare()).values()
            assert "at least 10 of its memories are gone that nobody removed; it holds 20" in found
            assert found.endswith("and they are delivered to it again")
        await home.deliver()
        assert await home.losses.compare() == {}
        assert (len(home.shelf.held), home.woken) == (30, 1)
        home.lose(5)
        for _ in range(2):
            assert len(await home.losses.compare()) == 1
        whole = set(home.shelf.held)
        await home.deliver()
        home.shelf.held = whole
        for _ in range(3):
            assert await home.losses.compare() == {}
        assert home.woken == 2


async def test_a_server_is_compared_by_a_new_home_too(tmp_path: Path) -> None:
    """It has no count of before, and what was delivered must be there."""
    async with held(tmp_path, server=True) as home:
        await home.read(range(30))
        await home.settle()
        home.lose(10)
        assert len(await home.losses.compare()) == 1
        assert home.woken == 0  # gateways may have stored and deleted while it counted
        assert len(await home.losses.compare()) == 1
        await home.settle()
        assert await home.losses.compare() == {}
        assert (len(home.shelf.held), home.woken) == (30, 1)


async def test_what_the_journal_lacks_is_no_loss_of_a_server(tmp_path: Path) -> None:
    """As after the restore of a journal: it cannot deliver that again."""
    async with held(tmp_path, server=True) as home:
        await home.read(range(30))
        await home.settle()
        whole = set(home.shelf.held)
        home.shelf.held = {*whole, "one that the journal lacks", "another one"}
        assert await home.losses.compare() == {}
        home.shelf.held = whole
        for _ in range(2):
            assert await home.losses.compare() == {}
        assert home.woken == 0


LINES = st.sets(st.integers(0, 3))
STEPS = st.tuples(
    LINES,
    st.sampled_from(["", "", "", "undo", "forget"]),
    st.sampled_from(["done", "done", "unacknowledged", ""]),
    st.sampled_from(["done", "", "unacknowledged"]),
)
"""the lines that the file has now, what a user does next, and how far the deletions and the deliveries come"""


async def take(home: Held, lines: set[int], action: str, deletions: str, deliveries: str) -> None:
    await home.keep(lines)
    await home.read(sorted(lines), batch="run-1")
    if action == "undo":
        await home.journal.undo(ANA, "run-1", 1000)
    elif action == "forget":
        await home.forget(sorted(lines)[:1])
    if deletions:
        await home.delete(acknowledged=deletions == "done")
    if deliveries:
        await home.deliver(acknowledged=deliveries == "done")


@examples(max_examples=40, deadline=None)
@example(steps=[({0, 1}, "", "done", "done"), ({1}, "", "done", "done"), ({0}, "", "done", "")], lost=1)
@given(steps=st.lists(STEPS, min_size=3, max_size=8), lost=st.integers(1, 6))
@pytest.mark.feature("a loss is reported exactly while memories that another program deleted are missing from a store")
def test_losses_are_reported_only_and_always_for_deletions_of_others(
    steps: list[tuple[set[int], str, str, str]], lost: int
) -> None:
    """No order of the actions of the gateway is a loss; a deletion by another program while nothing waits is one."""

    async def run(folder: Path) -> None:
        async with held(folder) as home:
            await home.read([8, 9], batch="run-0")
            for step in steps:
                await take(home, *step)
                assert await home.losses.compare() == {}
            await home.settle()
            assert await home.losses.compare() == {}
            before = len(home.shelf.held)
            home.lose(lost)
            assert bool(await home.losses.compare()) == (before > 0)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
