"""Gateways whose journals are in PostgreSQL, on a real server."""

from __future__ import annotations

import asyncio
import logging
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fusion.contract import Scope
from fusion.doors.cli.doctor_stores import database_server
from fusion.errors import BadInput, SettingsError, Unauthorized
from fusion.gateway import tenants
from fusion.gateway.backup import back_up
from fusion.gateway.gateway import Gateway
from fusion.gateway.open_journal import connected
from fusion.ingest.intake import NewMemory
from fusion.journal import Journal, outbox
from fusion.journal.outbox import ClaimsOfOthers
from fusion.journal.schema import STEPS
from fusion.recall.receipt_store import ReceiptFilter
from fusion.recall.shared_receipts import GATEWAYS
from fusion.settings import Settings
from tests.fakes import Off
from tests.gateway.helpers import ASKED, DECIDED, NADIA, remember
from tests.gateway.shelves import SharedShelf
from tests.gateway.test_transfer import export_of, import_into, rows_of
from tests.ingest.helpers import event
from tests.patience import load
from tests.postgres.relay import Relay
from tests.postgres.serve import installed
from tests.postgres.servers import Database, PostgreSQL

GONE = "insert into fusion.tenant values('fusion_aaa_gone', 'aaa')"
END_CLAIMS = "update delivery set claimed_until = 1 where claimed_until > 0"

ACME = Scope(tenant="acme", user_id="nadia", audience="private")


class Cluster:
    """Gateways on one database, each with a home of its own, and with one store that they share."""

    def __init__(self, folder: Path, database: Database) -> None:
        self.folder, self.database = folder, database
        self.address = secrets.token_hex(6)

    def settings(self, name: str, **more: object) -> Settings:
        shelf = {"adapter": "tests.gateway.shelves:SharedShelf", "address": self.address}
        chosen = {"database": {"url": self.database.url}, "backends": {"shelf": shelf}, **more}
        return load(home=self.folder / name, backends_only=True, embedder={"adapter": ""}, **chosen)

    def gateway(self, name: str = "a") -> AbstractAsyncContextManager[Gateway]:
        return Gateway.open(self.settings(name))

    @property
    def shelf(self) -> SharedShelf:
        return SharedShelf.servers[f"{self.address} default"]


@pytest.fixture
def cluster(tmp_path: Path, postgres_database: Database) -> Iterator[Cluster]:
    yield Cluster(tmp_path, postgres_database)
    SharedShelf.servers.clear()


async def answer(gateway: Gateway, text: str = ASKED, scope: Scope = NADIA) -> list[str]:
    return [hit.text for memory in (await gateway.fuse(text, scope=scope)).memories for hit in memory.members]


async def test_a_gateway_remembers_fuses_and_forgets_in_postgresql(cluster: Cluster) -> None:
    """Nothing of the journal is in the home; another gateway, with another home, goes on where this one ended."""
    async with cluster.gateway("a") as gateway:
        (ref,) = await remember(gateway, DECIDED)
        assert await answer(gateway) == [DECIDED]
    assert not (cluster.folder / "a" / "journal.sqlite").exists()
    async with cluster.gateway("b") as gateway:
        assert await answer(gateway) == [DECIDED]
        await gateway.forget(ref, NADIA)
        assert await answer(gateway) == []
    async with cluster.gateway("a") as gateway:
        assert await answer(gateway) == []
    assert max(cluster.shelf.delivered.values()) == 1


async def test_tenants_have_schemas_of_their_own(cluster: Cluster) -> None:
    async with cluster.gateway() as gateway:
        await gateway.remember([NewMemory(DECIDED, scope=ACME)], tenant="acme")
        await remember(gateway, "The heron is on the roof")
        assert gateway.tenants is not None
        assert await gateway.tenants.names() == ["acme"]
        assert await answer(gateway) == []
        assert await answer(gateway, scope=ACME) == [DECIDED]


async def test_embedded_backends_are_left_out_with_the_reason(cluster: Cluster) -> None:
    tables = {"own": {"adapter": "adapters.inmemory:InMemory"}}
    async with Gateway.open(cluster.settings("a", backends=tables)) as gateway:
        (state,) = await gateway.health.backends()
        assert "use a store that is a server" in str(state)


async def test_a_home_with_memories_is_not_hidden_by_an_empty_database(cluster: Cluster) -> None:
    home = cluster.folder / "a"
    async with Gateway.open(cluster.settings("a", database={})) as gateway:
        await remember(gateway, DECIDED)
    with pytest.raises(SettingsError, match=r"has memories, and PostgreSQL at .* has none"):
        async with cluster.gateway("a"):
            pass
    assert (home / "journal.sqlite").exists()


async def test_a_password_is_in_no_message(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    password = cluster.database.url.split(":")[2].split("@")[0]
    async with cluster.gateway() as gateway:
        await remember(gateway, DECIDED)
        shown = [str(gateway.settings), str(await gateway.health.backends()), gateway.journal.place]
    wrong = cluster.database.url.replace(password, "wr0ng-secret")
    with pytest.raises(Unauthorized) as refused:
        async with Gateway.open(cluster.settings("a", database={"url": wrong})):
            pass
    for text in (*shown, str(refused.value), caplog.text):
        assert password not in text
        assert "wr0ng-secret" not in text


async def test_what_needs_the_file_of_a_journal_names_the_other_way(cluster: Cluster, tmp_path: Path) -> None:
    async with cluster.gateway("a") as gateway:
        await remember(gateway, DECIDED)
        with pytest.raises(BadInput, match="not in a file"):
            _ = gateway.journal.file
    (cluster.folder / "a" / "fusion.toml").write_text(f'[database]\nurl = "{cluster.database.url}"\n')
    with pytest.raises(BadInput, match="pg_dump as a superuser or as a role with BYPASSRLS"):
        back_up(cluster.folder / "a", tmp_path / "backup")


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of PostgreSQL's programs."""
    command = [installed() / "pginstall18" / "bin" / program, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@contextmanager
def dumping_role(postgres: PostgreSQL, database: Database, kind: str) -> Iterator[str]:
    """The URL of a database for a role that may dump it."""
    if kind == "superuser":
        yield database.admin_url
        return
    role, password = f"backup_{secrets.token_hex(6)}", secrets.token_urlsafe(12)
    postgres.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{password}' BYPASSRLS IN ROLE pg_read_all_data")
    yield postgres.url(database.name, role, password)
    postgres.execute(f"DROP ROLE {role}")


@pytest.mark.feature(
    "a dump of PostgreSQL by a superuser, or by a role with BYPASSRLS, has the memories of all tenants"
)
@pytest.mark.parametrize("kind", ["superuser", "role with BYPASSRLS"])
async def test_a_dump_is_restored_into_another_database(
    cluster: Cluster, postgres: PostgreSQL, tmp_path: Path, kind: str
) -> None:
    """As `docs/operating.md` says it, with a new home."""
    async with cluster.gateway("a") as gateway:
        await remember(gateway, DECIDED)
    dump, restored = str(tmp_path / "fusion.dump"), f"{cluster.database.name}_restored"
    with dumping_role(postgres, cluster.database, kind) as url:
        done = await asyncio.to_thread(run, "pg_dump", "--format=custom", f"--file={dump}", url)
    assert (done.returncode, done.stderr) == (0, "")
    postgres.execute(f"CREATE DATABASE {restored} OWNER {cluster.database.role}")
    try:
        done = await asyncio.to_thread(run, "pg_restore", f"--dbname={postgres.url(restored)}", "--exit-on-error", dump)
        assert (done.returncode, done.stderr) == (0, "")
        url = cluster.database.url.removesuffix(cluster.database.name) + restored
        async with Gateway.open(cluster.settings("b", database={"url": url})) as gateway:
            assert await answer(gateway) == [DECIDED]
            (ref,) = await remember(gateway, "The heron is on the roof")
            await gateway.forget(ref, NADIA)
            assert await answer(gateway) == [DECIDED]
    finally:
        postgres.execute(f"DROP DATABASE {restored} WITH (FORCE)")


async def test_a_dump_by_the_gateways_role_has_no_memories(cluster: Cluster, tmp_path: Path) -> None:
    """The documentation warns of it: `pg_dump` fails, and with one option it succeeds with empty tables."""
    async with cluster.gateway("a") as gateway:
        await remember(gateway, DECIDED)
    done = await asyncio.to_thread(run, "pg_dump", cluster.database.url)
    assert done.returncode == 1
    assert "row-level security" in done.stderr
    done = await asyncio.to_thread(run, "pg_dump", "--enable-row-security", cluster.database.url)
    assert done.returncode == 0
    assert "CREATE TABLE" in done.stdout
    assert DECIDED not in done.stdout


async def test_a_dry_run_of_an_import_works_on_a_copy(cluster: Cluster) -> None:
    """As in a home: it counts what the import does, with what the tenants have, and makes and changes nothing."""
    async with cluster.gateway("a") as source:
        kept = await remember(source, DECIDED, "The heron is on the roof")
        await source.remember([NewMemory(DECIDED, scope=ACME)], tenant="acme")
        await source.forget(kept[1], NADIA)
        export = await export_of(source)
        await remember(source, "The rook is on the chimney")
        await source.remember([NewMemory("The owl is in the barn", scope=ACME)], tenant="acme")
        before = await export_of(source)
        same = await import_into(source, export, dry_run=True)
        assert {one.tenant: (one.known, one.new) for one in same.tenants} == {"default": (2, 0), "acme": (1, 0)}
        assert rows_of(await export_of(source)) == rows_of(before)
        assert not list((cluster.folder / "a").glob(".import-dry-run-*"))
    other = Cluster(cluster.folder / "other", cluster.database)
    async with Gateway.open(other.settings("b", database={})) as home:
        await remember(home, "The stork is on the church")
        await home.remember([NewMemory("It rains", scope=Scope(tenant="globex"))], tenant="globex")
        export = await export_of(home)
    async with cluster.gateway("a") as target:
        report = await import_into(target, export, dry_run=True)
        assert {one.tenant: one.new for one in report.tenants} == {"default": 1, "globex": 1}
        assert target.tenants is not None
        assert await target.tenants.names() == ["acme"]  # no schema for a tenant that is new


# Several gateways -----------------------------------------------------------------------------------------------------


async def test_three_gateways_answer_alike_at_once(cluster: Cluster) -> None:
    """What one acknowledged, the others answer with, and what one forgot, no other shows: without waiting."""
    async with cluster.gateway("a") as a, cluster.gateway("b") as b, cluster.gateway("c") as c:
        gateways = [a, b, c]
        for round_ in range(4):
            writer, others = gateways[round_ % 3], gateways
            text = f"{DECIDED}, in step {round_}"
            (ref,) = await remember(writer, text)
            assert all([text in await answer(one) for one in others])
            await gateways[(round_ + 1) % 3].forget(ref, NADIA)
            assert not any([text in await answer(one) for one in others])


@pytest.mark.feature("gateways of two versions share one PostgreSQL during an update, and both read and write")
async def test_gateways_of_two_versions_share_a_database(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newer one migrates while the older one runs, whose prepared statements then have other columns."""
    added = "alter table event add column mood text; alter table owner add column mood text default 'calm';"
    async with cluster.gateway("a") as before:
        for number in range(6):  # what is sent often is prepared
            await remember(before, f"{DECIDED}, on day {number}")
            assert await answer(before)
        monkeypatch.setattr(Journal, "schema", (*STEPS, f"{added} create table later(a text primary key)"))
        async with cluster.gateway("b") as after:
            monkeypatch.setattr(Journal, "schema", STEPS)
            await before_and_after(before, after)
            async with cluster.gateway("c") as started_again:
                await before_and_after(started_again, after)


async def before_and_after(before: Gateway, after: Gateway) -> None:
    """Each writes what the other one finds and forgets."""
    for round_ in range(4):
        writer, other = (before, after) if round_ % 2 else (after, before)
        text = f"{DECIDED}, in step {round_}"
        (ref,) = await remember(writer, text)
        assert text in await answer(other)
        await other.forget(ref, NADIA)
        assert text not in await answer(writer)


async def test_no_event_is_delivered_twice_by_gateways_that_share_a_store(cluster: Cluster) -> None:
    async with cluster.gateway("a") as a, cluster.gateway("b") as b:
        texts = [f"The heron of day {n} is on the roof" for n in range(40)]
        await asyncio.gather(*(remember((a, b)[n % 2], text) for n, text in enumerate(texts)))
        for one in (a, b):
            await one.settle()
        assert sorted(cluster.shelf.delivered.values()) == [1] * 40
        assert cluster.shelf.at_once == 1


async def test_a_gateway_that_dies_leaves_its_deliveries_to_the_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies while the store takes a delivery: once its lease ends, another gateway delivers."""
    monkeypatch.setattr(outbox, "POLL_S", 0.05)
    async with cluster.gateway("a") as a, AsyncExitStack() as stack:
        cluster.shelf.gate.clear()
        b = await stack.enter_async_context(cluster.gateway("b"))
        await b.remember([NewMemory(DECIDED, scope=NADIA)])
        await cluster.shelf.begun.wait()
        await b.deliverer.close()  # its task ends, and its claim stays
        assert not cluster.shelf.delivered
        cluster.shelf.gate.set()
        await a.journal.write(lambda db: db.execute(END_CLAIMS).rowcount)
        await cluster.shelf.taken.wait()
        assert cluster.shelf.delivered.total() == 1
        assert await answer(a) == [DECIDED]


@pytest.mark.feature("a backend that was added at one gateway gets what others stored meanwhile, after a restart, too")
async def test_a_backend_that_one_gateway_has_gets_what_another_stores(cluster: Cluster) -> None:
    """Both gateways have ended by then. The last memory is in both backends, so a start that looks behind the last one
    of the new backend finds nothing."""
    tables = {
        name: {"adapter": "tests.gateway.shelves:SharedShelf", "address": f"{cluster.address} {name}"}
        for name in ("shelf", "new")
    }
    server = connected(cluster.database.url)
    journal = await Journal.open_shared(server, "default")
    for text, stores in ((DECIDED, ("shelf",)), ("The heron is on the roof", ("shelf", "new"))):
        journal.outbox.stores = stores
        await journal.append([event(text)])
    await journal.close()
    server.close()
    async with Gateway.open(cluster.settings("a", backends=tables)):
        new = SharedShelf.servers[f"{cluster.address} new default"]
        while new.delivered.total() < 2:  # noqa: ASYNC110 — the first delivery has set its event
            await asyncio.sleep(0.05)
        assert set(new.delivered.values()) == {1}


@pytest.mark.feature(
    "a gateway that dies leaves the deliveries of all its tenants to the others; a tenant without tables stops none"
)
async def test_deliveries_of_a_tenant_that_no_gateway_has_open_are_made(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the tenants has no schema any more. The other one's memory was acknowledged by a gateway that died."""
    monkeypatch.setattr(tenants, "AGAIN_S", 0.05)
    async with cluster.gateway("a") as a:
        assert a.tenants is not None
        server = a.tenants.server
        assert server is not None
        await asyncio.to_thread(server.run, "default", lambda db: db.execute(GONE).rowcount)
        shelf = SharedShelf.servers[f"{cluster.address} acme"] = SharedShelf()
        died = await Journal.open_shared(server, "acme")
        await died.outbox.register(["shelf"])
        await died.append([event(DECIDED, scope=ACME)])
        await died.close()
        await shelf.taken.wait()
        assert shelf.delivered.total() == 1


@pytest.mark.feature("a write in one gateway wakes the others, which need not look for it")
async def test_a_write_wakes_the_other_gateways_without_polling(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One refreshes its caches, and delivers what the writer does not."""
    monkeypatch.setattr(outbox, "POLL_S", 1e6)
    async with cluster.gateway("a") as a, cluster.gateway("b") as b:
        await b.deliverer.close()
        before = a.journal.changes
        await b.remember([NewMemory(DECIDED, scope=NADIA)])
        await cluster.shelf.taken.wait()
        assert a.journal.changes > before


async def test_where_a_pooler_refuses_notifications_gateways_poll(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(outbox, "POLL_S", 0.05)
    async with Relay(cluster.database.url, (b"listen fusion", b"lissen fusion")) as url, AsyncExitStack() as stack:
        pooled = {"database": {"url": url}}
        a = await stack.enter_async_context(Gateway.open(cluster.settings("a", **pooled)))
        b = await stack.enter_async_context(Gateway.open(cluster.settings("b", **pooled)))
        await b.deliverer.close()
        await b.remember([NewMemory(DECIDED, scope=NADIA)])
        await cluster.shelf.taken.wait()
        assert await answer(a) == [DECIDED]
    assert caplog.text.count("sends no notifications now") == 2  # one line of each gateway


@asynccontextmanager
async def dead_gateways_claim(cluster: Cluster) -> AsyncIterator[Gateway]:
    """A gateway that runs, next to one that ended with a delivery claimed and not made."""
    async with cluster.gateway("b") as b:
        cluster.shelf.gate.clear()
        await b.remember([NewMemory(DECIDED, scope=NADIA)])
        await cluster.shelf.begun.wait()
        async with cluster.gateway("a") as a:
            await b.deliverer.close()  # its task ends, and its claim stays
            cluster.shelf.gate.set()
            yield a


async def test_settling_waits_for_what_another_gateway_has_claimed(cluster: Cluster) -> None:
    """A gateway that dies holds its claim until the lease ends; only then is everything delivered."""
    async with dead_gateways_claim(cluster) as a:
        settling = asyncio.ensure_future(a.settle())
        assert await a.journal.outbox.claims_of_others() == ClaimsOfOthers(held=True, ended=False)
        assert not settling.done()
        await a.journal.write(lambda db: db.execute(END_CLAIMS).rowcount)
        await settling
        assert cluster.shelf.delivered.total() == 1
        assert await a.journal.outbox.claims_of_others() == ClaimsOfOthers(held=False, ended=False)


async def test_settling_delivers_what_a_dead_gateway_s_ended_claim_left(cluster: Cluster) -> None:
    """The claim ended before anybody looked: nobody holds it, and yet nothing of it is delivered."""
    async with dead_gateways_claim(cluster) as a:
        await a.journal.write(lambda db: db.execute(END_CLAIMS).rowcount)
        assert await a.journal.outbox.claims_of_others() == ClaimsOfOthers(held=False, ended=True)
        await a.settle()
        assert cluster.shelf.delivered.total() == 1


@pytest.mark.feature("gateways on one PostgreSQL agree on the time, however wrong the clocks of their machines are")
async def test_clocks_that_differ_by_minutes(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """What one gateway dates, another one compares: retries of deliveries, kept keys, receipts, deletions, memories."""
    kept = {"journal": {"idempotency_keep_days": 30 / 1440}}  # shorter than the clocks differ
    began = datetime.now(UTC)
    async with (
        Gateway.open(cluster.settings("a", **kept), clock=Off(45)) as ahead,
        Gateway.open(cluster.settings("b", **kept), clock=Off(-45)) as behind,
    ):
        assert caplog.text.count("this machine's clock differs from the database's by 2700 s") == 2
        item = [NewMemory(DECIDED, scope=NADIA)]
        (first,) = await behind.remember(item, idempotency_key="k")
        await remember(ahead, "The heron is on the roof")  # removes the keys that are over
        (again,) = await behind.remember(item, idempotency_key="k")
        assert again.ref == first.ref
        await ahead.settle()
        assert await answer(behind) == [DECIDED]
        asked = [await one.fuse(ASKED, scope=NADIA) for one in (ahead, behind, ahead)]
        for one in (ahead, behind):
            await one.receipts.flush()
        listed = await behind.receipts.listed(ReceiptFilter("default"), 9)
        # In the order of the database's time, which each gateway knows to some milliseconds.
        assert {row.row["receipt_id"] for row in listed[: len(asked)]} == {one.receipt_id for one in asked}
        for one in (ahead, behind):
            assert abs(one.receipts.last / GATEWAYS / 1000 - datetime.now(UTC).timestamp()) < 60
        await ahead.deliverer.close()
        await behind.deliverer.close()
        await ahead.remember([NewMemory("The rook is on the chimney", scope=NADIA)])
        (due,) = await behind.journal.outbox.due("shelf", ahead.live.now(), 9)
        await ahead.journal.outbox.postpone("shelf", due.seq, "busy", ahead.live.now() + timedelta(seconds=10))
        assert await behind.journal.outbox.due("shelf", behind.live.now() + timedelta(seconds=12), 9)
        assert not await behind.journal.outbox.due("shelf", behind.live.now(), 9)
        await ahead.forget(first.ref, NADIA)
        (entry,) = (await behind.forgotten(NADIA))["forgotten"]
        for at in (entry.at, due.event.recorded_at):
            assert began - timedelta(seconds=5) < at < datetime.now(UTC) + timedelta(seconds=5)


async def test_a_shared_folder_of_notes_is_followed_by_one_gateway(cluster: Cluster, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text(DECIDED)
    followed = {"notes": {"paths": [str(notes)], "user_id": "nadia"}}
    async with (
        Gateway.open(cluster.settings("a", **followed)) as a,
        Gateway.open(cluster.settings("b", **followed)) as b,
    ):
        assert a.note_watcher is not None
        assert b.note_watcher is not None
        await a.note_watcher.first_round_done.wait()
        assert not b.note_watcher.first_round_done.is_set()
        await a.settle()
        assert await answer(b) == [DECIDED]


async def test_a_receipt_is_read_by_every_gateway(cluster: Cluster) -> None:
    """So a balancer may send each request elsewhere. The lists have the answers of all in one order, each gateway's
    latest first; gateways know the database's time up to the length of a call."""
    async with cluster.gateway("a") as a, cluster.gateway("b") as b:
        await remember(a, DECIDED)
        asked = [await one.fuse(ASKED, scope=NADIA) for one in (a, b, a)]
        for one in (a, b):
            await one.receipts.flush()
        for answered in asked:
            for one in (a, b):
                assert (await one.receipt(answered.receipt_id))["receipt_id"] == answered.receipt_id
        listed = [await one.receipts.listed(ReceiptFilter("default"), 9) for one in (a, b)]
        assert listed[0] == listed[1]
        order = [row.row["receipt_id"] for row in listed[0]]
        first, by_b, last = (one.receipt_id for one in asked)
        assert [receipt_id for receipt_id in order if receipt_id != by_b] == [last, first]
        assert sorted(order) == sorted([first, by_b, last])
        assert not (cluster.folder / "a" / "receipts.sqlite").exists()


def test_doctor_checks_the_server_and_its_role(cluster: Cluster) -> None:
    """It lets us in, may be written, and its role is bound by row-level security; no finding has the password."""
    url = cluster.database.url
    cases = {
        url: ("ok", "PostgreSQL at 127.0.0.1"),
        cluster.database.admin_url: ("warn", "superuser or has BYPASSRLS"),
        "postgresql://ana:wr0ng-secret@127.0.0.1:1/x": ("fail", "does not answer"),
    }
    for given, (level, said) in cases.items():
        (found,) = database_server(cluster.settings("a", database={"url": given}))
        assert found.status == level
        assert said in found.detail
        assert "wr0ng-secret" not in found.detail + found.fix
