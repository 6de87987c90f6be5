"""A home is moved from SQLite to PostgreSQL and back, on a real server, also by runs that are killed."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import SecretStr

from fusion.errors import (
    BackendUnreachable,
    BadInput,
    DatabaseUnreachable,
    HomeLocked,
    NotFound,
    SettingsError,
    StoreBusy,
    StoreDamaged,
)
from fusion.gateway.gateway import Gateway
from fusion.gateway.migrate import JOURNAL_TABLES, RECEIPT_TABLE, Migrated, Move, to_postgresql, to_sqlite
from fusion.home import HomeLock, tenant_folder
from fusion.journal import Journal, use
from fusion.journal.schema import OLDEST, STEPS
from fusion.recall.engine import Fused
from fusion.recall.receipt_store import ReceiptFile, ReceiptFilter, Stored
from fusion.settings_table import uses_database
from fusion.store import copies
from fusion.store.copies import SqliteTables
from fusion.store.sqlite import connect
from fusion.store.sqlite import migrate as apply_steps
from fusion.trust import allow, make_home, why_refused
from tests.gateway.helpers import ASKED, DECIDED, NADIA, remember
from tests.gateway.shelves import SharedShelf
from tests.journal.helpers import append
from tests.journal.test_both_databases import READS, fill, memory
from tests.patience import load
from tests.postgres.servers import Database, PostgreSQL
from tests.postgres.traps import set_traps, sprung

psycopg = pytest.importorskip("psycopg")

from fusion.store.postgres import Server, schema_of  # noqa: E402 – imported late, as its package is optional
from fusion.store.postgres_copy import has_tenant  # noqa: E402
from fusion.store.postgres_move import Migration  # noqa: E402

ACME = "acme"
MINE = "# mine\nbackends_only = true  # these alone\n"
OBSERVED = (
    "insert into observation(seq, key, event_id, type, lane, ts, recorded_at, tenant, audience, summary, origin, "
    "truncated, redacted)"
)
LABELLED = "insert into label(tenant, receipt_id, ref, useful, at, scope, body)"
Content = Mapping[str, list[tuple[Any, ...]]]


@pytest.fixture
def server(postgres_database: Database) -> Iterator[Server]:
    opened = Server(postgres_database.url)
    opened.open()
    yield opened
    opened.close()


async def fill_home(home: Path) -> None:
    """Two tenants with something in most tables, and receipts."""
    for tenant, folder in (("default", home), (ACME, tenant_folder(home, ACME))):
        folder.mkdir(mode=0o700, parents=True)
        journal = await Journal.open(folder / "journal.sqlite")
        await fill(journal)
        await journal.write(more)
        await journal.close()
        table = ReceiptFile(folder / "receipts.sqlite")
        row = orjson.dumps({"refs": ["m1"], "words": "Ånde"})
        table.write([Stored(n, f"r{n}", tenant, n / 7, "ana", None, None, row, b"\0\xff") for n in range(1, 9)], None)
        table.write([Stored(9, "r9", tenant, 9.5, None, None, None, None, b"")], None)
        table.close()
    (tenant_folder(home, ACME) / "tenant").write_text(json.dumps(ACME))
    (home / "fusion.toml").write_text(MINE)
    allow(home)


def more(db: Any) -> None:
    """Rows of tables that `fill` leaves empty, with keys of blobs, numbers that are gone, and odd values."""
    for statement in (
        f"{OBSERVED} values(7, x'00ff', 'o1', 'tool.result', 'l', 1, 2, 'default', 'private', 'a heron', 'tool', 0, 1)",
        "insert into observation_text(rowid, terms) values(7, 'a heron ånde')",
        "insert into observation_vector values(7, 'm', 'h', x'0001020300')",
        "insert into observation_forgotten values(x''), (x'000100')",
        "insert into episode values(99, -5, 9223372036854775807)",
        "insert into card values(12, 'default', 'zoe', 'private', 's', 1, 'd', 'b', 'rules-1', null)",
        "insert into card_source values('e1', 12)",
        f"{LABELLED} values('elsewhere', 'r1', 'm1', 1, 2, '', '')",
        f"{LABELLED} values('elsewhere', 'r2', 'm1', 1, 2, '', '')",
        "delete from label where id = 2",
        "insert into idempotency values('default', 'k', 'b', '{}', 5)",
        "insert into tombstone values('words' || char(0) || 't' || char(0) || 'ü😀', 'e30', null)",
        "insert into prefix_observation values(3, 1, 1, 0.1, 'x'), (4, 1, 1, -0.0, 'y'), (5, 1, 1, 1e300, '')",
    ):
        db.execute(statement)


def content_of(folder: Path, *, ending: str = "") -> Content:
    """All rows of a tenant's files."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for name, tables in (("journal.sqlite", JOURNAL_TABLES), ("receipts.sqlite", (RECEIPT_TABLE,))):
        with closing(sqlite3.connect(folder / f"{name}{ending}")) as db:
            for table in tables:
                found[table.name] = sorted(SqliteTables(db).rows(table), key=repr)
    return found


def move_of(home: Path, report: Callable[[str, int], None] = lambda step, rows: None, **more: Any) -> Move:
    settings = load(home=home, backends_only=True, embedder={"adapter": ""})
    chosen: dict[str, Any] = {"setting": {"url": "postgresql://ana@db/x", "url_env": ""}, **more}
    return Move(settings, home / "fusion.toml", report=report, **chosen)


BACK = {"url": "", "url_env": ""}
ROOT = Path(__file__).parents[2]


def to_server(home: Path, server: Server, **more: Any) -> Migrated:
    return to_postgresql(move_of(home, **more), server)


def to_files(home: Path, server: Server, **more: Any) -> Migrated:
    return to_sqlite(move_of(home, setting=BACK, **more), server)


def all_of(home: Path, *, ending: str = "") -> Mapping[str, Content]:
    """By tenant, the rows of a home."""
    return {name: content_of(folder, ending=ending) for name, folder in folders_of(home).items()}


def folders_of(home: Path) -> Mapping[str, Path]:
    return {"default": home, ACME: tenant_folder(home, ACME)}


def in_database(server: Server, *tenants: str) -> Mapping[str, Content]:
    """By tenant, the rows in PostgreSQL."""
    with closing(Migration(server, STEPS, OLDEST)) as there:
        found = {}
        for tenant in tenants or ("default", ACME):
            rows = there.read(tenant)
            tables = (*JOURNAL_TABLES, RECEIPT_TABLE)
            found[tenant] = {table.name: sorted(rows.rows(table), key=repr) for table in tables}
        return found


async def open_there(server: Server, tenant: str = "default") -> Journal:
    return await Journal.open_shared(server, tenant)


# Moves ----------------------------------------------------------------------------------------------------------------


@pytest.mark.feature("`fusion migrate` moves a home's journals from SQLite to PostgreSQL, row by row the same")
async def test_all_tables_of_all_tenants_are_moved_and_answer_the_same(home: Path, server: Server) -> None:
    await fill_home(home)
    before = all_of(home)
    before_asked = await answers_of(await Journal.open(home / "journal.sqlite"))
    done = to_server(home, server)
    assert in_database(server) == before
    assert {one.tenant: {t.table: t.rows for t in one.tables} for one in done.tenants} == {
        tenant: {name: len(rows) for name, rows in content.items()} for tenant, content in before.items()
    }
    assert await answers_of(await open_there(server)) == before_asked
    assert tomllib.loads((home / "fusion.toml").read_text()) == {
        "backends_only": True,
        "database": {"url": "postgresql://ana@db/x"},
    }
    assert (home / "fusion.toml").read_text().startswith(MINE)
    assert not why_refused(home, named=True)


@pytest.mark.feature("`fusion migrate` calls no operator or function that another role makes in `public`")
async def test_functions_of_another_role_are_not_called(
    home: Path, server: Server, postgres_database: Database
) -> None:
    """There and back, and counted: they would run as the gateways' role."""
    await fill_home(home)
    set_traps(postgres_database)
    to_server(home, server)
    to_sqlite(move_of(home, setting=BACK), server, dry_run=True)
    to_files(home, server)
    assert not sprung(postgres_database)


async def answers_of(journal: Journal) -> Mapping[str, str]:
    """What every reading function returns."""
    found = {name: repr(await journal.read(read)) for name, read in READS.items()}
    await journal.close()
    return found


async def test_the_source_is_kept_whole_under_another_name(home: Path, server: Server) -> None:
    await fill_home(home)
    before = all_of(home)
    now = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    done = to_server(home, server, now=lambda: now)
    assert all_of(home, ending=".moved-20260301T123000") == before
    assert len(done.kept_as) == 4
    assert not (home / "journal.sqlite").exists()
    assert not (home / "migration").exists()


@pytest.mark.feature("`fusion migrate --to sqlite` brings the journals back, equal to what they were")
async def test_there_and_back_gives_equal_tables(home: Path, server: Server) -> None:
    """Twice, since a database is filled again that journals were moved away from."""
    await fill_home(home)
    before = all_of(home)
    for day in (1, 2):
        at = datetime(2026, 3, day, tzinfo=UTC)
        to_server(home, server, now=lambda at=at: at)
        to_files(home, server, now=lambda at=at: at)
        assert all_of(home) == before
    assert "database" not in {**tomllib.loads((home / "fusion.toml").read_text()), "database": {}}["database"]
    journal = await Journal.open(home / "journal.sqlite")
    await journal.check()
    await journal.close()


async def test_new_rows_get_the_numbers_that_they_would_have_got(home: Path, server: Server) -> None:
    """Also those of tables whose numbers SQLite takes from the largest row."""
    await fill_home(home)
    to_server(home, server)
    journal = await open_there(server)
    labelled = f"{LABELLED} values('t', 'r', 'm', 1, 2, '', '')"
    carded = (
        "insert into card(tenant, user_id, audience, subject, at, digest, body) values('t', 'u', 'a', 's', 1, '', '')"
    )
    last = (await journal.watermark()).seq
    await append(journal, memory(99, "what is said after the move"))
    made = await journal.write(
        lambda db: [db.execute(f"{one} returning id").fetchone()["id"] for one in (labelled, carded)]
    )
    assert made == [3, 13]
    assert (await journal.watermark()).seq == last + 1
    await journal.close()


CATALOG = (
    (
        "select conrelid::regclass::text, conname, pg_get_constraintdef(oid), convalidated from pg_constraint "
        "where connamespace = to_regnamespace(%s) order by 1, 2"
    ),
    (
        "select tgrelid::regclass::text, tgname, tgenabled from pg_trigger t join pg_class c on c.oid = tgrelid "
        "where relnamespace = to_regnamespace(%s) and not tgisinternal order by 1, 2"
    ),
    (
        "select relname, relrowsecurity, relforcerowsecurity from pg_class where relnamespace = to_regnamespace(%s) "
        "and relkind = 'r' order by 1"
    ),
    "select tablename, policyname, replace(qual, %s, '') from pg_policies where schemaname = %s order by 1",
)


async def test_a_filled_schema_has_the_keys_triggers_and_locks_of_one_that_a_gateway_makes(
    home: Path, server: Server, postgres_database: Database
) -> None:
    await fill_home(home)
    to_server(home, server)
    for tenant in ("default", "other"):
        await (await open_there(server, tenant)).close()
    moved, made = schema_of("default"), schema_of("other")
    with psycopg.connect(postgres_database.admin_url) as db:
        for query in CATALOG:
            of = [
                repr(db.execute(query, (one,) * query.count("%s")).fetchall()).replace(one, "") for one in (moved, made)
            ]
            assert of[0] == of[1]
            assert len(of[0]) > 100


@pytest.mark.parametrize("version", [7, len(STEPS) - 1])
async def test_a_tenant_of_an_earlier_version_is_moved_from_a_copy(home: Path, server: Server, version: int) -> None:
    """A tenant that was not opened since an upgrade; its own file stays as it was. Up to version 7 it has no id, and a
    copy of each round would draw another one."""
    await fill_home(home)
    folder = tenant_folder(home, ACME)
    for file in folder.glob("journal.sqlite*"):
        file.unlink()
    with closing(connect(folder / "journal.sqlite")) as db:
        apply_steps(db, STEPS[:version])
        db.execute("insert into tombstone(key, event_id) values('k', 'e')")
    to_server(home, server)
    assert [row[:2] for row in in_database(server)[ACME]["tombstone"]] == [("k", "e")]
    (kept,) = folder.glob("journal.sqlite.moved-*")
    with closing(sqlite3.connect(kept)) as db:
        assert db.execute("pragma user_version").fetchone() == (version,)


async def test_a_log_that_cannot_be_cleaned_is_named_and_the_home_has_its_journals(home: Path, server: Server) -> None:
    """The database is closed by then."""
    await fill_home(home)
    to_server(home, server)
    (home / "observations" / "segment-000001.jsonl").mkdir(parents=True)
    notes = to_files(home, server).notes
    assert any("observations may have lines that other gateways forgot" in note for note in notes)
    assert "url" not in tomllib.loads((home / "fusion.toml").read_text()).get("database", {})
    assert (home / "journal.sqlite").exists()


# While it is served ---------------------------------------------------------------------------------------------------


@pytest.mark.feature(
    "… while the home is served and written to; the last step's length is printed", of="`fusion migrate` moves"
)
async def test_what_is_written_meanwhile_is_moved_too(home: Path, server: Server) -> None:
    """Rows that are added, changed and deleted between two rounds, and a tenant that is new."""
    await fill_home(home)
    rounds = 0

    def write(step: str, rows: int) -> None:
        nonlocal rounds
        if step == "default: receipt" and rounds < 2:
            rounds += 1
            with closing(sqlite3.connect(home / "journal.sqlite", isolation_level=None)) as db:
                db.execute("update event set natural = null where seq = 1")
                db.execute("update event set natural = 'moved' || ? where seq = 2", (rounds,))
                db.execute("delete from card_source")
                db.execute("delete from card")
                db.execute(
                    "insert into card values(?, 'default', 'ana', 'private', 's', 1, 'd', 'b', 'r', null)",
                    (20 + rounds,),
                )
                db.execute("insert into card_source values('e2', ?)", (20 + rounds,))
                db.execute("update mark set commits = commits + 1")
            shutil.copytree(tenant_folder(home, ACME), tenant_folder(home, f"new {rounds}"))
            (tenant_folder(home, f"new {rounds}") / "tenant").write_text(json.dumps(f"new {rounds}"))

    stopped = []
    done = to_server(home, server, report=write, stop=lambda: stopped.append(rounds))
    assert rounds
    assert stopped == [rounds]
    kept = datetime_of(done)
    assert in_database(server, "default")["default"] == content_of(home, ending=kept)
    assert {one.tenant for one in done.tenants} == {"default", ACME, *(f"new {n + 1}" for n in range(rounds))}
    assert done.fence_s is not None
    assert 0 < done.fence_s < done.took_s


def datetime_of(done: Migrated) -> str:
    return "." + done.kept_as[0].rpartition("sqlite.")[2]


async def test_a_gateway_that_runs_is_stopped_for_the_last_step_and_three_start_on_postgresql(
    home: Path, server: Server, postgres_database: Database
) -> None:
    """They answer the same, with the receipts of before; what one of them stores or forgets, all know."""
    make_home(home)
    shelf = {"shelf": {"adapter": "tests.gateway.shelves:SharedShelf", "address": secrets.token_hex(6)}}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=shelf)
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(Gateway.open(settings))
        await remember(gateway, DECIDED)
        asked = await gateway.fuse(ASKED, scope=NADIA)
        loop = asyncio.get_running_loop()

        def stop() -> None:
            asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result()

        done = await asyncio.to_thread(to_server, home, server, stop=stop)
    moved = settings.model_copy(
        update={"database": settings.database.model_copy(update={"url": SecretStr(postgres_database.url)})}
    )
    async with Gateway.open(moved) as gateway:
        again = await gateway.fuse(ASKED, scope=NADIA)
        assert texts_of(again) == [DECIDED]
        assert [m.ref for m in again.memories] == [m.ref for m in asked.memories]
        listed = await gateway.receipts.listed(ReceiptFilter("default"), 9)
        assert [one.row["receipt_id"] for one in listed] == [again.receipt_id, asked.receipt_id]
        assert gateway.journal.shared
        others = [moved.model_copy(update={"home": home.parent / name}) for name in ("b", "c")]
        async with Gateway.open(others[0]) as second, Gateway.open(others[1]) as third:
            assert [texts_of(await one.fuse(ASKED, scope=NADIA)) for one in (second, third)] == [[DECIDED]] * 2
            await third.forget(again.memories[0].ref, NADIA)
            await remember(second, f"{DECIDED} in May")
            for one in (gateway, second, third):
                assert texts_of(await one.fuse(ASKED, scope=NADIA)) == [f"{DECIDED} in May"]
    assert done.rows > 5
    SharedShelf.servers.clear()


def texts_of(answer: Fused) -> list[str]:
    return [one.text for memory in answer.memories for one in memory.members]


async def test_a_home_that_another_command_holds_is_left_alone(home: Path, server: Server) -> None:
    await fill_home(home)
    before = all_of(home)
    with HomeLock.take(home, "fusion ingest notes"), pytest.raises(HomeLocked, match="fusion ingest notes"):
        to_server(home, server)
    assert all_of(home) == before


async def test_on_the_way_back_other_gateways_cannot_write_and_then_are_refused(
    home: Path, server: Server, postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads go on meanwhile. A gateway that starts later, and one that runs, get a clear error; also for a tenant that
    is new, meanwhile and afterwards: what is acknowledged must not stay behind."""
    monkeypatch.setattr("fusion.store.postgres.MIGRATIONS", 2)  # a new tenant gives up after ten seconds, not a minute
    await fill_home(home)
    to_server(home, server)
    other = await open_there(server)
    busy = []

    async def try_to_write() -> None:
        with pytest.raises(StoreBusy, match="another gateway is writing"):
            await other.write(use.keep, {"e1": use.Use(2, datetime.now(UTC))}, {})
        with pytest.raises(StoreBusy, match="another gateway is writing"):
            await other.outbox.mark_sent("shelf", [1])
        assert (await other.watermark()).events
        with pytest.raises(StoreBusy, match="another gateway is writing"):
            await Journal.open_shared(server, "a tenant made meanwhile")
        busy.append(True)

    loop = asyncio.get_running_loop()

    def report(step: str, rows: int) -> None:
        if step == "verified":
            asyncio.run_coroutine_threadsafe(try_to_write(), loop).result()

    await asyncio.to_thread(to_files, home, server, report=report)
    assert busy
    with pytest.raises(BackendUnreachable, match="fusion migrate"):
        await other.watermark()
    await other.close()
    for opening in (open_there(server), Journal.open_shared(server, "a tenant made later")):
        with pytest.raises(DatabaseUnreachable, match="was moved to SQLite by `fusion migrate` on 20"):
            await opening
    with closing(Server(postgres_database.url)) as fresh, pytest.raises(SettingsError, match="was moved to SQLite"):
        await open_there(fresh)
    assert server.tenants() == []


# Killed ---------------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Ends a run as a signal does: nothing catches it."""


class Crash:
    """A report that ends the run: after so many steps, or at one with a name."""

    def __init__(self, after: int = 0, step: str = "") -> None:
        self.after, self.step = after, step
        self.steps: list[str] = []

    def __call__(self, step: str, rows: int) -> None:
        self.steps.append(step)
        if len(self.steps) == self.after or step == self.step:
            raise Killed(step)


@pytest.mark.feature(
    "… and goes on after it was killed at any step, without losing or doubling a row", of="`fusion migrate` moves"
)
@pytest.mark.parametrize("at", ["the first batch", "the middle", "verified", "switched", "kept"])
async def test_a_run_that_is_killed_is_finished_by_the_next(
    home: Path, server: Server, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Also when the next one is killed, too. Batches are small, so that there are many."""
    monkeypatch.setattr(copies, "BATCH_ROWS", 15)
    await fill_home(home)
    before = all_of(home)
    first = Crash(after={"the first batch": 1, "the middle": 25}.get(at, 0), step=at)
    with pytest.raises(Killed):
        to_server(home, server, report=first)
    if (home / "journal.sqlite").exists():
        assert all_of(home) == before
    with pytest.raises(SettingsError, match="being filled by `fusion migrate`"):
        await open_there(server)
    with suppress(Killed):
        to_server(home, server, report=Crash(after=2))
    done = to_server(home, server)
    assert done.rows == sum(len(rows) for content in before.values() for rows in content.values())
    assert in_database(server) == before
    await (await open_there(server)).close()
    assert tomllib.loads((home / "fusion.toml").read_text())["database"]["url"]
    assert not (home / "journal.sqlite").exists()
    assert len([one for one in home.rglob("*.sqlite.moved-*") if not one.name.endswith(("-wal", "-shm"))]) == 4


@pytest.mark.parametrize("at", ["the first batch", "the middle", "verified", "moved", "placed"])
async def test_on_the_way_back_a_killed_run_is_finished_by_the_next(
    home: Path, server: Server, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    monkeypatch.setattr(copies, "BATCH_ROWS", 15)
    await fill_home(home)
    before = all_of(home)
    to_server(home, server)
    with pytest.raises(Killed):
        to_files(home, server, report=Crash(after={"the first batch": 1, "the middle": 25}.get(at, 0), step=at))
    if at not in ("moved", "placed"):
        assert in_database(server) == before
    if at == "placed":
        assert uses_database(home)
    to_files(home, server)
    assert all_of(home) == before
    assert not uses_database(home)
    assert not (home / "migration").exists()


def opened(database: Database) -> Server:
    server = Server(database.url)
    server.open()
    return server


VICTIM = """
import os, signal, sys
from pathlib import Path
from tests.gateway.test_migrate import move_of, opened
from tests.postgres.servers import Database
from fusion.gateway.migrate import to_postgresql
home, url, left = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
def report(step, rows):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
to_postgresql(move_of(home, report), opened(Database("", "", url, "", "")))
"""


async def test_a_process_that_is_killed_leaves_the_source_whole(
    home: Path, server: Server, postgres_database: Database
) -> None:
    await fill_home(home)
    before = all_of(home)
    for left in (5, 30):
        victim = [sys.executable, "-c", VICTIM, str(home), postgres_database.url, str(left)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = await asyncio.to_thread(subprocess.run, victim, cwd=ROOT, env=environment, check=False)
        assert done.returncode == -signal.SIGKILL
        assert all_of(home) == before
        with pytest.raises(SettingsError, match="being filled by `fusion migrate`"):
            await open_there(server)
    to_server(home, server)
    assert in_database(server) == before


@pytest.mark.feature(
    "… and is given up as its message says: a gateway starts there, or the next run begins anew",
    of="`fusion migrate` moves",
)
@pytest.mark.parametrize("then", ["a gateway starts", "another run"])
async def test_a_run_that_is_killed_can_be_given_up_as_the_message_says(
    home: Path, server: Server, postgres_database: Database, then: str
) -> None:
    """Of both tenants, the schema and its row in `fusion.closed` are deleted, and nothing else."""
    await fill_home(home)
    before = all_of(home)
    with pytest.raises(Killed):
        to_server(home, server, report=Crash(step="verified"))
    with pytest.raises(SettingsError, match=r"to give it up, drop this schema and its row in fusion\.closed"):
        await open_there(server)
    with psycopg.connect(postgres_database.url, autocommit=True) as db:
        for schema in map(schema_of, before):
            db.execute(f"drop schema {schema} cascade")
            db.execute("delete from fusion.closed where schema = %s", (schema,))
    assert server.tenants() == []
    if then == "another run":
        to_server(home, server)
        assert in_database(server) == before
        return
    journal = await open_there(server)
    assert not (await journal.watermark()).events
    assert [await journal.read(has_tenant, name) for name in before] == [True, False]
    await journal.close()
    assert server.tenants() == ["default"]


# Refused --------------------------------------------------------------------------------------------------------------


async def test_a_copy_that_is_not_equal_is_not_switched_to(
    home: Path, server: Server, postgres_database: Database
) -> None:
    """Somebody changes a row of the copy behind the back of the run."""
    await fill_home(home)

    def tamper(step: str, rows: int) -> None:
        if step == "default: tombstone":
            with psycopg.connect(postgres_database.url, autocommit=True) as db:
                db.execute(f"update {schema_of('default')}.tombstone set event_id = 'other'")

    with pytest.raises(StoreDamaged, match=r"the copy of the table tombstone is not equal: it has 2 rows"):
        to_server(home, server, report=tamper)
    assert (home / "journal.sqlite").exists()
    assert (home / "fusion.toml").read_text() == MINE
    with pytest.raises(SettingsError, match="being filled"):
        await open_there(server)


async def test_a_text_that_postgresql_cannot_hold_is_named(home: Path, server: Server) -> None:
    """Earlier versions took the character that stands for a NUL there. Nothing is switched."""
    await fill_home(home)
    with closing(sqlite3.connect(home / "journal.sqlite")) as db:
        db.execute("update event set text = 'a heron' || char(1114111) where seq = 1")
        db.commit()
    with pytest.raises(BadInput, match=r"U\+10FFFF.*: remove it\. It is in table event, seq 1$"):
        to_server(home, server)
    assert (home / "journal.sqlite").exists()


async def test_a_database_with_other_journals_is_refused(home: Path, server: Server, tmp_path: Path) -> None:
    """Those of a gateway; and those of an unfinished migration of another home."""
    await fill_home(home)
    other = tmp_path / "other"
    await fill_home(other)
    with pytest.raises(Killed):
        to_server(other, server, report=Crash(after=30))
    with pytest.raises(BadInput, match="unfinished migration of another home"):
        to_server(home, server)
    to_server(other, server)
    with pytest.raises(BadInput, match="has the journals of a home already"):
        to_server(home, server)


@pytest.mark.feature("… and leaves what a gateway stores before the first table", of="`fusion migrate` moves")
async def test_what_a_gateway_stores_before_the_first_table_is_kept(server: Server) -> None:
    """The database was empty when the run looked. The gateway's rows are none of the home's, and would be deleted."""
    with closing(Migration(server, STEPS, OLDEST)) as there:
        there.lock()
        journal = await open_there(server)
        await append(journal, memory(1, "acknowledged meanwhile"))
        with pytest.raises(BadInput, match="has the journals of a home already, with the tenant 'default'"):
            there.fill("default", "of the home")
        assert (await journal.watermark()).events == 1
        await journal.close()
        there.fill(ACME, "of the home")
        there.fill(ACME, "of the home")
        with pytest.raises(BadInput, match="unfinished migration of another home"):
            there.fill(ACME, "of another home")


def test_a_home_without_a_journal_is_named(home: Path, server: Server) -> None:
    make_home(home)
    with pytest.raises(NotFound, match=r"has no journal.sqlite"):
        to_server(home, server)
    with pytest.raises(NotFound, match="has no journals to move"):
        to_files(home, server)


async def test_a_home_with_files_is_not_overwritten_on_the_way_back(home: Path, server: Server) -> None:
    await fill_home(home)
    to_server(home, server)
    (home / "journal.sqlite").write_text("mine")
    with pytest.raises(BadInput, match="is there already: move it aside"):
        to_files(home, server)


async def test_a_newer_journal_is_refused(home: Path, server: Server) -> None:
    await fill_home(home)
    with closing(sqlite3.connect(home / "journal.sqlite")) as db:
        db.execute("pragma user_version = 99")
    with pytest.raises(StoreDamaged, match=r"newer version of memory-fusion \(schema 99"):
        to_server(home, server)


async def test_a_server_that_cannot_have_journals_is_named(
    home: Path, postgres: PostgreSQL, postgres_database: Database, tmp_path: Path
) -> None:
    """Of another encoding; without the privilege to make a schema; read-only; and one that was moved by halves."""
    await fill_home(home)
    name = postgres_database.name
    postgres.execute(f"create database {name}_latin owner {name} encoding 'LATIN1' locale 'C' template template0")
    postgres.execute(f"create database {name}_others")
    cases = {
        f"{name}_latin": "stores text as LATIN1",
        f"{name}_others": "does not let the role make a schema",
    }
    try:
        for database, said in cases.items():
            url = f"{postgres_database.url.rpartition('/')[0]}/{database}"
            with (
                pytest.raises(SettingsError, match=said),
                closing(opened(replace(postgres_database, url=url))) as server,
            ):
                to_server(home, server)
    finally:
        for database in cases:
            postgres.execute(f"drop database {database}")
    postgres.execute(f"alter database {name} set default_transaction_read_only = on")
    with closing(opened(postgres_database)) as server, pytest.raises(BackendUnreachable, match="accepts no writes"):
        to_server(home, server)
    assert (home / "journal.sqlite").exists()


async def test_a_second_migration_waits_for_the_first(home: Path, server: Server) -> None:
    await fill_home(home)

    def again(step: str, rows: int) -> None:
        if step == "default: event":
            with pytest.raises(StoreBusy, match="another `fusion migrate` is at work"):
                to_server(home, server)

    to_server(home, server, report=again)


def test_a_migration_that_has_ended_holds_up_no_other(server: Server, postgres_database: Database) -> None:
    """PostgreSQL ends a connection a moment after its program; the lock is given back before."""
    held = "select count(*) from pg_locks where locktype = 'advisory'"
    with psycopg.connect(postgres_database.admin_url, autocommit=True) as admin:
        for _ in range(100):
            with closing(Migration(server, STEPS, OLDEST)) as one:
                one.lock()
            assert admin.execute(held).fetchone() == (0,)


async def test_settings_in_another_form_are_not_changed_and_the_owner_is_told(home: Path, server: Server) -> None:
    await fill_home(home)
    (home / "fusion.toml").write_text("database.connections = 4\n")
    allow(home)
    done = to_server(home, server)
    assert done.setting == ""
    assert 'write into it: [database] url = "postgresql://ana@db/x"' in done.notes[0]
    assert (home / "fusion.toml").read_text() == "database.connections = 4\n"


async def test_a_dry_run_counts_and_changes_nothing(home: Path, server: Server) -> None:
    await fill_home(home)
    files = sorted(path for path in home.rglob("*"))
    counted = to_postgresql(move_of(home), server, dry_run=True)
    assert (counted.dry_run, len(counted.tenants)) == (True, 2)
    assert counted.rows == sum(len(rows) for content in all_of(home).values() for rows in content.values())
    assert counted.bytes > 100_000
    assert server.tenants() == []
    assert sorted(path for path in home.rglob("*") if not path.name.endswith(("-wal", "-shm"))) == files
    to_server(home, server)
    back = to_sqlite(move_of(home, setting=BACK), server, dry_run=True)
    assert back.rows == counted.rows
