"""Each tenant of a home has a journal, receipts and stores of its own, opened when it is asked, closed when idle."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from adapters.inmemory import InMemory
from fusion.contract import Scope
from fusion.errors import BadInput, InvalidAnswer, NotFound, StoreDamaged, StoreFull
from fusion.gateway.answering import Answering
from fusion.gateway.gateway import Gateway
from fusion.gateway.tenants import Tenants
from fusion.home import tenant_folder
from fusion.ingest.intake import NewMemory
from fusion.journal import Journal, external_refs, split_tenants
from fusion.journal.external_refs import ExternalItem
from fusion.journal.split_tenants import copy
from fusion.settings import Settings, load
from fusion.trust import allow
from tests.ingest.helpers import event

ACME, GLOBEX = Scope("acme", audience="private"), Scope("globex", audience="private")
PATIENT = {"deadline_ms": 60_000}
STORES = ("cortex", "markdown", "mem0", "triples")


def four(home: Path, **more: Any) -> Settings:
    """The embedded backends without a model, with all the time that they may need."""
    backends = dict.fromkeys(STORES, PATIENT)
    return load(home=home, embedder={"adapter": ""}, backends=backends, **more)


async def remember(gateway: Gateway, tenant: str, *texts: str) -> list[str]:
    kept = await gateway.remember([NewMemory(text) for text in texts], tenant=tenant)
    await gateway.settle(tenant)
    return [one.ref for one in kept]


class TestRefs:
    @pytest.mark.feature(
        "each tenant has its own journal, receipts and stores; its refs begin at `m1` and count only its own memories"
    )
    async def test_refs_are_numbered_per_tenant(self, home: Path) -> None:
        """However much others write, a tenant's refs are m1, m2, …; the same ref is another memory to each."""
        async with Gateway.open(four(home)) as gateway:
            assert await remember(gateway, "acme", "the harbour opens at six") == ["m1"]
            await remember(gateway, "globex", *(f"bees of hive {n}" for n in range(5)))
            assert await remember(gateway, "default", "tea at four") == ["m1"]
            assert await remember(gateway, "acme", "the bridge is closed") == ["m2"]
            assert (await gateway.memory("m2", ACME))["text"] == "the bridge is closed"
            assert (await gateway.memory("m2", GLOBEX))["text"] == "bees of hive 1"
            with pytest.raises(NotFound):
                await gateway.memory("m3", ACME)

    async def test_pages_and_audits_are_numbered_per_tenant(self, home: Path) -> None:
        """The cursor of a page, and of what was forgotten, is the same whether others write and forget or not."""
        cursors = []
        for others in (False, True):
            async with Gateway.open(four(home / str(others))) as gateway:
                if others:
                    for ref in await remember(gateway, "globex", "one", "two", "three"):
                        await gateway.forget(ref, GLOBEX)
                refs = await remember(gateway, "acme", "the first note", "the second note", "the third note")
                page = await gateway.memories(ACME, 2)
                for ref in refs:
                    await gateway.forget(ref, ACME)
                cursors.append((page["next_cursor"], (await gateway.forgotten(ACME, 2))["next_cursor"]))
        assert cursors[0] == cursors[1]

    async def test_gateway_of_a_tenant_refuses_calls_for_another(self, home: Path) -> None:
        """Nothing that was opened for one tenant answers for another."""
        async with Gateway.open(four(home)) as gateway:
            assert gateway.tenants is not None
            async with gateway.tenants.at("acme") as parts:
                with pytest.raises(BadInput, match="another tenant"):
                    await parts.fuse("bees?", scope=GLOBEX)


class TestMoving:
    """A home from before has the memories of all tenants in one journal."""

    async def shared_journal(self, home: Path) -> dict[str, list[Any]]:
        """Three memories of each of three tenants in turn, the second one forgotten, one item of a backend noted."""
        journal = await Journal.open(home / "journal.sqlite")
        journal.outbox.stores = STORES
        kept: dict[str, list[Any]] = {"default": [], "acme": [], "globex": []}
        for n, text in enumerate(("the harbour opens at six", "a word that is taken back again", "the bridge is shut")):
            for tenant, found in kept.items():
                sent = event(f"{tenant}mark: {text}", n, scope=Scope(tenant, "ana"), speaker=f"{tenant}mark")
                stored = await journal.append([sent])
                assert not isinstance(stored, str)
                found.append(stored[0])
        for tenant, found in kept.items():
            scope = Scope(tenant, "ana", audience="private")
            await journal.forget([found[1].ref], scope)
            hit = (await journal.records([found[0].event.event_id]))[found[0].event.event_id].hit
            item = ExternalItem("x0123456789", "mem0", replace(hit, native_id=f"of {tenant}"), scope)
            await journal.write(external_refs.store_items, [item], sent.recorded_at)
        await journal.close()
        allow(home)
        return kept

    @pytest.mark.feature(
        "… a home of an earlier version is split: refs, tombstones and the audit stay, and each "
        "tenant gets only its own",
        of="each tenant has its own journal",
    )
    async def test_shared_journal_is_split_with_refs_and_tombstones(self, home: Path) -> None:
        """Every ref, every tombstone and the audit stay as they were; new refs continue the tenant's own."""
        kept = await self.shared_journal(home)
        for _ in ("parted", "opened again"):
            async with Gateway.open(four(home)) as gateway:
                for tenant, (first, second, third) in kept.items():
                    await gateway.settle(tenant)
                    scope = Scope(tenant, "ana", audience="private")
                    for one in (first, third):
                        assert (await gateway.memory(one.ref, scope))["event_id"] == one.event.event_id
                        assert (await gateway.memory(one.ref, scope))["backends"] == list(STORES)
                    with pytest.raises(NotFound):
                        await gateway.memory(second.ref, scope)
                    assert [row.ref for row in (await gateway.forgotten(scope))["forgotten"]] == [second.ref]
                    fused = await gateway.fuse("when does the harbour open?", scope=scope)
                    assert fused.memories[0].ref == first.ref
        async with Gateway.open(four(home)) as gateway:
            assert await remember(gateway, "acme", "a new note of acme") == ["m9"]  # m8 was its last

    async def test_split_journal_has_nothing_of_other_tenants(self, home: Path) -> None:
        """Neither in a row nor in a free page of any file; and what backends stored of them is to be deleted."""
        kept = await self.shared_journal(home)
        async with Gateway.open(four(home)) as gateway:
            await gateway.settle()
            await gateway.settle("acme")
        folders = {"acme": tenant_folder(home, "acme"), "globex": tenant_folder(home, "globex")}
        for tenant, folder in folders.items():
            for file in folder.rglob("*"):
                content = file.read_bytes() if file.is_file() else b""
                assert [other for other in kept if other != tenant and f"{other}mark".encode() in content] == []
        for file in home.glob("journal.sqlite*"):
            assert b"acmemark" not in file.read_bytes()
        with closing(sqlite3.connect(home / "journal.sqlite")) as db:
            states = "select distinct delivery.state from delivery join event using(seq) where tenant <> 'default'"
            assert {state for (state,) in db.execute(states)} <= {"absent", "deleted", "declined", "hidden"}

    async def test_split_journal_has_its_rows_of_every_table(self, home: Path) -> None:
        """Three tenants did the same, so each has a third of the rows, in tables that come later, too."""
        await self.shared_journal(home)
        before = rows(home / "journal.sqlite")
        copy(home / "journal.sqlite", "acme", home / "acme.sqlite")
        assert {name: 3 * count for name, count in rows(home / "acme.sqlite").items()} == before

    @pytest.mark.feature(
        "… an interrupted split continues, and what a tenant's journal does not have yet is not deleted",
        of="each tenant has its own journal",
    )
    async def test_interrupted_split_is_continued(self, home: Path) -> None:
        """Killed when the new journal was there and the old one had everything still: nothing is lost or doubled."""
        kept = await self.shared_journal(home)
        copy(home / "journal.sqlite", "acme", tenant_folder(home, "acme") / "journal.sqlite")
        async with Gateway.open(four(home)) as gateway:
            assert await gateway.journal.read(split_tenants.others, "default") == []
            found = await gateway.memories(ACME)
        assert [row["ref"] for row in found["memories"]] == [kept["acme"][2].ref, kept["acme"][0].ref]
        assert b"acmemark" not in (home / "journal.sqlite").read_bytes()

    async def test_shared_journal_keeps_rows_that_were_not_copied(self, home: Path) -> None:
        """An older journal was put back: its memories are not deleted because the tenant has a journal already."""
        await (await Journal.open(tenant_folder(home, "acme") / "journal.sqlite")).close()
        kept = await self.shared_journal(home)
        async with Gateway.open(four(home)) as gateway:
            assert await gateway.journal.read(split_tenants.others, "default") == ["acme"]
            first = kept["acme"][0].event
            assert (await gateway.journal.records([first.event_id]))[first.event_id].event.text == first.text

    async def test_damaged_journal_is_not_split(self, home: Path) -> None:
        """What may be in the damaged one is not replaced by nothing: the tenant is refused, with the fix."""
        await self.shared_journal(home)
        file = home / "journal.sqlite"
        content = bytearray(file.read_bytes())
        content[8192:12288] = b"\xff" * 4096
        file.write_bytes(content)
        try:
            async with Gateway.open(four(home)) as gateway:
                with pytest.raises(StoreDamaged):
                    await gateway.fuse("bees?", scope=ACME)
        except StoreDamaged:
            pass  # nothing of it can be read: the home does not open at all
        assert not (tenant_folder(home, "acme") / "journal.sqlite").exists()


class OfAcme(InMemory):
    """A server of somebody's that keeps no tenants apart: it is acme's alone."""

    features = replace(InMemory.features, tenants=False, tenant="acme")


@pytest.mark.feature(
    "… a backend that cannot separate tenants is opened for its own tenant only", of="each tenant has its own journal"
)
async def test_backend_of_one_tenant_is_opened_for_it_alone(home: Path) -> None:
    """Others learn that it serves another tenant, nothing of theirs is stored there, and its count is not shown."""
    backends = {"theirs": {"adapter": f"{__name__}:OfAcme", **PATIENT}}
    settings = load(home=home, embedder={"adapter": ""}, backends_only=True, backends=backends)
    async with Gateway.open(settings) as gateway:
        for tenant, status, items in (("acme", "ok", 1), ("globex", "skipped", 0), ("default", "skipped", 0)):
            await remember(gateway, tenant, "the harbour opens at six")
            answer = await gateway.search("theirs", "harbour", Scope(tenant, audience="private"))
            assert (answer.status, [state["items"] for state in await gateway.backends(tenant)]) == (status, [items])


@dataclass
class Parts:
    """A fake open tenant."""

    name: str
    log: list[str]

    async def settle(self) -> None:
        self.log.append(f"settle {self.name}")


@dataclass
class Opener:
    """Opens `Parts`, and notes it."""

    log: list[str] = field(default_factory=list)
    faults: dict[str, Exception] = field(default_factory=dict)

    @asynccontextmanager
    async def __call__(self, tenant: str) -> AsyncIterator[Parts]:
        if tenant in self.faults:
            raise self.faults.pop(tenant)
        self.log.append(f"open {tenant}")
        yield Parts(tenant, self.log)
        self.log.append(f"close {tenant}")


class Waiting:
    """A database in which two tenants have something left, at so many looks; then ``seen`` is set."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.seen = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def tenants(self) -> list[str]:
        self.looks -= 1
        if self.looks >= 0:
            return ["a", "b", "gone", "default"]
        self._loop.call_soon_threadsafe(self.seen.set)
        return []

    def run(self, tenant: str, work: object) -> bool:
        if tenant == "gone":
            raise ValueError("it has no tables")
        return True


class TestOpening:
    @pytest.mark.parametrize(("looks", "opened"), [(1, 1), (2, 2), (3, 2), (4, 3), (6, 3), (7, 4), (100, 8)])
    async def test_what_stays_left_is_tried_after_ever_longer_pauses(
        self, home: Path, monkeypatch: pytest.MonkeyPatch, looks: int, opened: int
    ) -> None:
        """At the first look and the second, and then 1, 2, 4, 8, 16 and 32 looks are passed: a backend may be away."""
        monkeypatch.setattr("fusion.gateway.tenants.AGAIN_S", 0)
        opener, database = Opener(), Waiting(looks)
        tenants = Tenants(home, opener, 0, database)  # type: ignore[arg-type]
        delivering = asyncio.create_task(tenants.deliver())
        await database.seen.wait()
        delivering.cancel()
        await asyncio.gather(delivering, return_exceptions=True)
        await tenants.close()
        assert [opener.log.count(f"open {name}") for name in ("a", "b", "gone")] == [opened, opened, 0]

    @pytest.mark.feature(
        "… a tenant is opened on its first request, and the latest ones stay open", of="each tenant has its own journal"
    )
    async def test_only_the_latest_tenants_stay_open(self, home: Path) -> None:
        """With room for two, the third closes the one that was asked longest ago, after its deliveries."""
        opener = Opener()
        tenants = Tenants(home, opener, 2)
        for name in ("a", "b", "a", "c"):
            async with tenants.at(name) as parts:
                assert parts.name == name
        async with tenants.at("b"):  # it was closing: it is opened anew when that is done
            assert opener.log == ["open a", "open b", "open c", "settle b", "close b", "open b"]
        await tenants.close()
        assert opener.log.count("close a") == opener.log.count("close c") == 1

    async def test_tenant_in_use_is_not_closed(self, home: Path) -> None:
        """With room for one, both that are in use stay open."""
        opener = Opener()
        tenants = Tenants(home, opener, 1)
        async with tenants.at("a"), tenants.at("b"), tenants.at("a"):
            await asyncio.sleep(0)
            assert opener.log == ["open a", "open b"]
        await tenants.close()

    async def test_tenant_that_failed_to_open_is_tried_again(self, home: Path) -> None:
        """A fault is its callers', and not remembered."""
        opener = Opener(faults={"a": InvalidAnswer("not now")})
        tenants = Tenants(home, opener, 1)
        with pytest.raises(InvalidAnswer):
            async with tenants.at("a"):
                pass
        async with tenants.at("a") as parts:
            assert parts.name == "a"
        await tenants.close()

    @pytest.mark.feature(
        "… a tenant whose folder cannot be created is refused with the reason, and tried again",
        of="each tenant has its own journal",
    )
    async def test_folder_of_a_tenant_that_cannot_be_made_is_named(self, home: Path) -> None:
        """Where the disk takes no folder, the error says which one; when it does, the next call goes through."""
        home.mkdir()
        (home / "tenants").write_text("in the way")
        tenants = Tenants(home, Opener(), 1)
        with pytest.raises(StoreFull, match=r"acme.*make room"):
            async with tenants.at("acme"):
                pass
        (home / "tenants").unlink()
        async with tenants.at("acme") as parts:
            assert parts.name == "acme"
        await tenants.close()

    async def test_cancelled_caller_does_not_stop_the_opening(self, home: Path) -> None:
        """Cancelled while a tenant is opened: the next one gets what was opened."""
        opened = asyncio.Event()
        opener = Opener()

        @asynccontextmanager
        async def slowly(tenant: str) -> AsyncIterator[Parts]:
            await opened.wait()
            async with opener(tenant) as parts:
                yield parts

        tenants = Tenants(home, slowly, 1)

        async def call() -> str:
            async with tenants.at("a") as parts:
                return parts.name

        first = asyncio.create_task(call())
        await asyncio.sleep(0)
        first.cancel()
        second = asyncio.create_task(call())
        await asyncio.sleep(0)
        opened.set()
        assert await second == "a"
        assert opener.log == ["open a"]
        await tenants.close()

    async def test_open_deliveries_of_tenants_are_made_at_the_start(self, home: Path) -> None:
        """A memory that was acknowledged and not delivered reaches the stores without anybody asking for the tenant."""
        journal = await Journal.open(tenant_folder(home, "acme") / "journal.sqlite")
        journal.outbox.stores = ("cortex",)
        await journal.append([event("the harbour opens at six", scope=Scope("acme"))])
        await journal.close()
        (tenant_folder(home, "acme") / "tenant").write_text('"acme"')
        allow(home)
        async with Gateway.open(four(home)), asyncio.timeout(60):
            while states(tenant_folder(home, "acme")) != {"done"}:  # noqa: ASYNC110 - no event is set then
                await asyncio.sleep(0.005)

    async def test_every_tenant_name_has_its_own_folder(self, home: Path) -> None:
        """Two tenants never share a folder, and none is outside the home's."""
        names = ["acme", "ACME", "a/../b", "..", "", "ä", "æ", "x" * 500, "default"]
        folders = {tenant_folder(home, name) for name in names}
        assert len(folders) == len(names)
        assert {folder.parent for folder in folders} == {home / "tenants"}


def rows(file: Path) -> dict[str, int]:
    """The number of rows of each table of a journal, but of those that a journal has one row of.

    The tables in which SQLite keeps a full-text index are left out: their rows are its own, also of an empty index.
    """
    with closing(sqlite3.connect(file)) as db:
        names = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
        counted = {name: db.execute(f"select count(*) from {name}").fetchone()[0] for name in names}
    own = ("mark", "sqlite_sequence", "observation_text_config", "observation_text_data")
    return {name: count for name, count in counted.items() if name not in own}


def states(folder: Path) -> set[str]:
    """The states of all deliveries in a tenant's journal."""
    with closing(sqlite3.connect(folder / "journal.sqlite")) as db:
        return {state for (state,) in db.execute("select state from delivery where state <> 'declined'")}


def test_every_method_dispatches_to_its_tenant() -> None:
    """A method that is asked for somebody is answered by that tenant's parts; what is not is for the whole home."""
    for_the_home = {"open", "jobs", "require_home", "look_at_home", "verb", "routes", "retry_after_s"}
    for_the_home |= {"export", "import_export", "spool"}  # these open the tenants that their caller may use
    for_the_home |= {"note_backends", "note_sizes"}  # an open tenant notes its own
    assert {"fuse", "compare"} <= vars(Answering).keys()
    undecided = {
        name
        for name, method in {**vars(Answering), **vars(Gateway)}.items()
        if not name.startswith("_") and (inspect.isfunction(method) or isinstance(method, classmethod))
        if name not in for_the_home and not hasattr(method, "__wrapped__")
    }
    assert undecided == set()
