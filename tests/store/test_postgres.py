"""A tenant's database in PostgreSQL, on a real server: transactions, tenants, migrations, faults of a server."""

from __future__ import annotations

import asyncio
import json
import re
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fusion.errors import (
    BackendUnreachable,
    BadInput,
    DatabaseUnreachable,
    FusionError,
    SettingsError,
    StoreBusy,
    Unauthorized,
    UpgradeRequired,
)
from fusion.journal import watermark
from fusion.journal.schema import OLDEST, STEPS
from fusion.store.rows import EVENT_COLUMNS
from fusion.store.tables import FOR_NUL, NUL
from tests.postgres.servers import Database as Place
from tests.postgres.servers import PostgreSQL
from tests.postgres.traps import set_traps, sprung, step_into_a_trap

psycopg = pytest.importorskip("psycopg")

from fusion.store import postgres as store  # noqa: E402 – imported late, as its package is optional
from fusion.store import postgres_connections as connections  # noqa: E402
from fusion.store.postgres import Database, Server, chosen, schema_of  # noqa: E402
from fusion.store.postgres_sql import step_statements  # noqa: E402


@pytest.fixture
def server(postgres_database: Place) -> Iterator[Server]:
    opened = Server(postgres_database.url)
    opened.open()
    yield opened
    opened.close()


async def open_tenant(server: Server, tenant: str = "default", steps: Any = STEPS) -> Database:
    return await Database.open(server, tenant, steps, count=watermark.COUNT, columns=EVENT_COLUMNS)


ISOLATIONS = ("repeatable read", "serializable")


def opened_server(url: str) -> Server:
    server = Server(url)
    server.open()
    return server


@pytest.fixture
async def database(server: Server) -> AsyncIterator[Database]:
    opened = await open_tenant(server)
    yield opened
    await opened.close()


def put(key: str, *, fail: bool = False) -> Any:
    def work(db: Any) -> str:
        db.execute("insert into tombstone values(?, ?, ?)", (key, "event", None))
        if fail:
            raise BadInput(key)
        return key

    return work


async def keys(database: Database) -> set[str]:
    return {row["key"] for row in await database.rows("select key from tombstone")}


# Schema ---------------------------------------------------------------------------------------------------------------


async def test_both_databases_have_the_same_tables_columns_and_keys(database: Database) -> None:
    """A table or a column of SQLite's migrations that PostgreSQL lacks might be missed by no other test."""
    made = await database.rows(
        "select table_name as t, column_name as c, data_type as kind, is_nullable as nullable "
        "from information_schema.columns where table_schema = ?",
        (database.name,),
    )
    unlike = {("observation_text", "lexemes"), ("observation_text", "rowid")}
    found = {
        (row["t"], row["c"], row["kind"], row["nullable"])
        for row in made
        if row["t"] not in ("version", "sqlite_sequence", "change", "receipt", "lease", "model_call", "request_count")
        and (row["t"], row["c"]) not in unlike
    }
    primary = await database.rows(
        "select c.relname as t, a.attname as c from pg_index i join pg_class c on c.oid = i.indrelid "
        "join pg_attribute a on a.attrelid = c.oid and a.attnum = any(i.indkey) "
        "where i.indisprimary and c.relnamespace = to_regnamespace(?)",
        (database.name,),
    )
    indexes = await database.rows("select indexname as name from pg_indexes where schemaname = ?", (database.name,))
    kinds = {"integer": "bigint", "text": "text", "blob": "bytea", "real": "double precision", "": "text"}
    with closing(sqlite3.connect(":memory:")) as db:
        for step in STEPS:
            db.executescript(step)
        tables = db.execute(
            "select name from sqlite_master where type = 'table' and name not like 'sqlite%' "
            "and name not like 'observation_text\\__%' escape '\\'"
        ).fetchall()
        columns, keyed = set(), set()
        for (table,) in tables:
            for _, name, kind, filled, _, key in db.execute(f"pragma table_info({table})"):
                columns.add((table, name, kinds[kind.lower()], "NO" if filled or key or not kind else "YES"))
                keyed |= {(table, name)} if key else set()
        named = {name for (name,) in db.execute("select name from sqlite_master where type = 'index' and sql <> ''")}
    assert found == columns
    ours = {
        ("version", "version"),
        ("sqlite_sequence", "name"),
        ("receipt", "receipt_id"),
        ("lease", "name"),
        ("model_call", "id"),
        ("request_count", "tenant"),
        ("request_count", "minute"),
        *unlike,
    }
    assert {(r["t"], r["c"]) for r in primary} - ours == keyed
    assert named <= {row["name"] for row in indexes}


async def test_a_schema_of_the_version_before_is_migrated_and_both_versions_write_it(server: Server) -> None:
    """N and N−1 at once, as during a rolling upgrade: a step adds, and the version before goes on."""
    step = "alter table card add column extra integer not null default 7; create table later(a text primary key);"
    before = await open_tenant(server)
    after = await open_tenant(server, steps=(*STEPS, step))
    again = await open_tenant(server)  # the version before starts once more
    await before.write(put("before"))
    await after.write(put("after"))
    await again.write(put("again"))
    assert await keys(after) == {"before", "after", "again"}
    assert await after.rows("select * from later") == []
    secured = await after.rows(
        "select relname as name from pg_class where relkind = 'r' and relnamespace = to_regnamespace(?) "
        "and not relforcerowsecurity",
        (after.name,),
    )
    assert secured == []
    for one in (before, after, again):
        await one.close()


async def test_a_schema_that_older_versions_cannot_use_is_refused(server: Server) -> None:
    """Also by a gateway that was running when a newer one migrated it; the newer one goes on."""
    running = await open_tenant(server)
    await running.write(put("before"))
    newer = await Database.open(server, "default", (*STEPS, "alter table card rename to cards"), oldest=len(STEPS) + 1)
    said = rf"needs schema {len(STEPS) + 1}, this one has {len(STEPS)}\): update this gateway"
    with pytest.raises(UpgradeRequired, match=said):
        await open_tenant(server)
    with pytest.raises(UpgradeRequired, match=said):
        await running.write(put("after"))
    with pytest.raises(UpgradeRequired, match=said):
        await running.last_change()
    await newer.write(put("newer"))
    assert await keys(newer) == {"before", "newer"}
    for one in (running, newer):
        await one.close()


async def test_a_database_that_a_newer_version_made_is_used_by_the_one_before(server: Server) -> None:
    """As when an update is taken back: what the newer one added is left out."""
    step = "alter table card add column extra integer not null default 7"
    newer = await Database.open(server, "default", (*STEPS, step), oldest=OLDEST, count=watermark.COUNT)
    before = await open_tenant(server)
    await before.write(put("before"))
    assert await keys(newer) == {"before"}
    for one in (before, newer):
        await one.close()


async def test_a_migration_that_is_killed_leaves_the_schema_as_it_was(server: Server, postgres_database: Place) -> None:
    """Its steps are one transaction. The next start makes them all, and a gateway of the version before goes on."""
    before = await open_tenant(server)
    await before.write(put("before"))
    steps = (
        *STEPS,
        "create table first(a text primary key)",
        "create table second as select 1 as a from pg_sleep(3600)",
    )
    migrating = asyncio.ensure_future(Database.open(server, "default", steps))
    with psycopg.connect(postgres_database.admin_url, autocommit=True) as db:
        asleep = "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep' and datname = %s"
        while db.execute(asleep, (postgres_database.name,)).fetchone() is None:  # noqa: ASYNC110 — the server has no event
            await asyncio.sleep(0.02)
        with pytest.raises(DatabaseUnreachable):
            await migrating
        made = db.execute("select to_regclass(%s), version from " + f"{before.name}.version", (f"{before.name}.first",))
        assert made.fetchone() == (None, len(STEPS))
    await before.write(put("between"))
    after = await Database.open(server, "default", (*steps[:-1], "create table second(a text primary key)"))
    assert await after.rows("select * from first join second using(a)") == []
    assert await keys(after) == {"before", "between"}
    for one in (before, after):
        await one.close()


async def test_of_two_gateways_with_a_newer_schema_one_migrates_and_the_other_waits(server: Server) -> None:
    """A step that was made twice would fail; one that counts rows counts those that were there."""
    await (await open_tenant(server)).close()
    steps = (*STEPS, "create table later(a text primary key); insert into later values('once')")
    gateways = await asyncio.gather(*(open_tenant(server, steps=steps) for _ in range(3)))
    for one in gateways:
        assert [row["a"] for row in await one.rows("select a from later")] == ["once"]
        await one.close()


async def test_a_migration_does_not_hold_up_gateways_behind_a_long_reader(
    server: Server, postgres_database: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An export reads the table that a step changes: the step gives up its place, tries again, and passes."""
    monkeypatch.setattr(store, "BUSY_S", 1)
    await (await open_tenant(server)).close()
    with psycopg.connect(postgres_database.admin_url) as reader:
        reader.execute(f"select count(*) from {schema_of('default')}.card")
        steps = (*STEPS, "alter table card add column extra integer")
        migrating = asyncio.ensure_future(open_tenant(server, steps=steps))
        with psycopg.connect(postgres_database.admin_url, autocommit=True) as db:
            waiting = "select virtualtransaction from pg_locks where not granted and locktype = 'relation'"
            tries: set[object] = set()
            while len(tries) < 2:  # it waits, gives up its place, and waits again in another transaction
                assert not migrating.done()
                tries.update(db.execute(waiting).fetchall())
                await asyncio.sleep(0.005)
    migrated = await migrating
    assert list(await migrated.rows("select extra from card")) == []
    await migrated.close()


def test_every_step_since_the_oldest_version_only_adds() -> None:
    """Gateways of two versions run at once during an update: a step that does more has to raise `OLDEST`."""
    assert 0 < OLDEST <= len(STEPS)
    # Without an index, an older gateway is slower, and no more.
    adds = re.compile(
        r"create (table|index)|drop index|alter table \w+ add column (?!.*\bnot null\b(?!.*\bdefault\b))", re.IGNORECASE
    )
    for number, step in enumerate(STEPS[OLDEST:], start=OLDEST + 1):
        for part in step_statements(step):
            assert adds.match(part.strip()), f"step {number} does more than add: let OLDEST be {number}, or add only"


async def test_two_gateways_make_one_schema(server: Server) -> None:
    """Both start on an empty database at once: one makes the schema, and the other finds it."""
    one, two = await asyncio.gather(open_tenant(server), open_tenant(server))
    await one.write(put("a"))
    assert await keys(two) == {"a"}
    assert len({(await db.read(watermark.read)).id for db in (one, two)}) == 1
    await one.close()
    await two.close()


# Transactions ---------------------------------------------------------------------------------------------------------


async def test_waiting_writes_share_a_commit_and_an_error_undoes_only_its_own(database: Database) -> None:
    outcomes = await asyncio.gather(
        *(database.write(put(str(n), fail=n % 3 == 0)) for n in range(12)), return_exceptions=True
    )
    assert [isinstance(one, BadInput) for one in outcomes] == [n % 3 == 0 for n in range(12)]
    assert await keys(database) == {str(n) for n in range(12) if n % 3}
    assert (await database.read(watermark.read)).commits < 8


async def test_an_error_of_the_server_undoes_only_its_own_work(database: Database) -> None:
    await database.write(put("a"))
    taken, new = await asyncio.gather(database.write(put("a")), database.write(put("b")), return_exceptions=True)
    assert isinstance(taken, psycopg.errors.UniqueViolation)
    assert new == "b"
    assert await keys(database) == {"a", "b"}


async def test_gateways_lose_no_update_and_numbers_follow_commits(server: Server) -> None:
    """Three writers read a count, add one and write it; each also takes the next number of a table."""
    gateways = [await open_tenant(server) for _ in range(3)]

    def count(db: Any) -> int:
        known = db.execute("select n from term where owner = 'o' and term = 't'").fetchone()
        n = 1 if known is None else known["n"] + 1
        db.execute("insert into term values('o', 't', ?) on conflict(owner, term) do update set n = excluded.n", (n,))
        put_one = "insert into audit(at, tenant, ref, seq, by) values(?, 't', 'm', 0, 'x') returning id"
        made = db.execute(put_one, (n,)).fetchone()
        return int(made["id"])

    numbers = await asyncio.gather(*(gateways[n % 3].write(count) for n in range(60)))
    assert sorted(numbers) == list(range(1, 61))
    rows = await gateways[0].rows("select id, at from audit order by id")
    assert [row["at"] for row in rows] == list(range(1, 61))
    for one in gateways:
        await one.close()


async def test_a_rollback_takes_its_number_back(database: Database) -> None:
    """As in SQLite, so that no number without a row looks like a memory that another program deleted."""
    made = "insert into audit(at, tenant, ref, seq, by) values(1, 't', 'm', 0, 'x') returning id"

    def failing(db: Any) -> None:
        db.execute(made)
        raise BadInput("no")

    with pytest.raises(BadInput):
        await database.write(failing)
    assert await database.write(lambda db: db.execute(made).fetchone()["id"]) == 1


async def test_the_audit_is_append_only(database: Database) -> None:
    await database.write(lambda db: db.execute("insert into audit(at, tenant, ref, seq, by) values(1,'t','m',0,'x')"))
    for change in ("update audit set at = 2", "delete from audit"):
        with pytest.raises(psycopg.Error, match="append-only"):
            await database.write(lambda db, change=change: db.execute(change))


async def test_a_read_writes_nothing_and_sees_one_snapshot(database: Database) -> None:
    with pytest.raises(BackendUnreachable, match="accepts no writes"):
        await database.read(put("a"))

    loop = asyncio.get_running_loop()

    def look(db: Any) -> list[int]:
        before = db.execute("select count(*) from tombstone").fetchone()[0]
        asyncio.run_coroutine_threadsafe(database.write(put("b")), loop).result()
        return [before, db.execute("select count(*) from tombstone").fetchone()[0]]

    assert await database.read(look) == [0, 0]
    assert await keys(database) == {"b"}


# Values ---------------------------------------------------------------------------------------------------------------


async def test_text_is_compared_bytewise_and_keys_keep_their_separators(database: Database) -> None:
    """As in SQLite, with any locale of the database; a NUL separates the parts of the journal's keys."""
    names = ["b", "B", "a", "é", "words\0t\0u", "Z\U0001f600"]
    for name in names:
        await database.write(put(name))
    rows = await database.rows("select key from tombstone order by key")
    assert [row["key"] for row in rows] == sorted(names)
    assert len(await database.rows("select 1 from tombstone where key = ?", ("words\0t\0u",))) == 1
    with pytest.raises(BadInput, match=r"U\+10FFFF"):
        await database.write(put("a\0\U0010ffff"))


async def test_truth_values_and_large_numbers_are_integers(database: Database) -> None:
    largest = 2**63 - 1
    stored = "insert into term values(?, ?, ?) returning n"
    assert await database.write(lambda db: db.execute(stored, ("a", "b", True)).fetchone()["n"]) == 1
    assert await database.write(lambda db: db.execute(stored, ("a", "c", largest)).fetchone()["n"]) == largest
    with pytest.raises(BadInput):
        await database.write(lambda db: db.execute(stored, ("a", "d", largest + 1)))
    (row,) = await database.rows("select sum(n) as n, count(*) filter (where n > 5) as m from term where term <> 'c'")
    assert (row["n"], row["m"], row[0], list(row), row.keys()) == (1, 0, 1, [1, 0], ["n", "m"])


# Tenants --------------------------------------------------------------------------------------------------------------


async def test_a_tenant_sees_nothing_of_another_by_a_qualified_name(server: Server) -> None:
    """The second lock: a wrong search path, or a name with a schema, shows nothing and writes nothing."""
    acme, best = await open_tenant(server, "acme"), await open_tenant(server, "best")
    await acme.write(put("secret"))
    there = f"{acme.name}.tombstone"
    assert await best.rows(f"select * from {there}") == []

    def elsewhere(db: Any) -> list[Any]:
        db.execute(f"set local search_path to {acme.name}")
        return list(db.execute("select * from tombstone").fetchall())

    assert await best.read(elsewhere) == []
    for change in (f"delete from {there}", f"update {there} set event_id = 'mine'"):
        assert (await best.write(lambda db, change=change: db.execute(change).rowcount)) == 0
    with pytest.raises(DatabaseUnreachable, match="does not allow that to the role"):
        await best.write(lambda db: db.execute(f"insert into {there} values('x', 'y', null)"))
    assert await keys(acme) == {"secret"}
    await acme.close()
    await best.close()


async def test_without_a_tenant_no_table_shows_a_row(server: Server, postgres_database: Place) -> None:
    acme = await open_tenant(server, "acme")
    await acme.write(put("secret"))
    with psycopg.connect(postgres_database.url, autocommit=True) as db:
        tables = db.execute("select tablename from pg_tables where schemaname = %s", (acme.name,)).fetchall()
        assert len(tables) > 40
        for (table,) in tables:
            assert db.execute(f"select count(*) from {acme.name}.{table}").fetchone() == (0,), table
    await acme.close()


@pytest.mark.feature(
    "journals in PostgreSQL: operators and functions that another role makes in `public` are not called"
)
async def test_functions_of_another_role_are_not_called(postgres_database: Place) -> None:
    """They would run as the gateways' role: at a start, as a tenant is made, in a write and in its notification."""
    set_traps(postgres_database)
    server = Server(postgres_database.url)
    server.open()
    database = await open_tenant(server)
    await database.write(put("a"))
    assert await keys(database) == {"a"}
    assert server.tenants() == ["default"]
    server.time()
    with server.transaction(database._begin_write) as (raw, begun):
        raw.execute("commit")
    assert server.committed(begun.rpartition(" ")[0])
    server.notifications._send(database.name)
    await database.close()
    server.close()
    assert not sprung(postgres_database)
    step_into_a_trap(postgres_database)
    assert sprung(postgres_database)


def test_names_of_tenants_make_different_schemas() -> None:
    names = ["Acme", "acme", "ac me", "ac-me", "'; drop schema x; --", "é" * 100, "", "\ud800"]
    made = [schema_of(name) for name in names]
    assert len(set(made)) == len(names)
    assert all(re.fullmatch(r"fusion_[a-z0-9_]{1,32}_[0-9a-f]{16}", one) for one in made)


POLICY = "select pg_get_expr(p.polqual, p.polrelid) as own from pg_policy p join pg_class c on c.oid = p.polrelid "
POLICY += "where c.relname = 'tombstone'"


async def test_row_security_leaves_the_planner_its_estimates(server: Server, postgres_database: Place) -> None:
    """Of a plain comparison PostgreSQL expects one row in 200. A start replaces the policies of a version before."""
    rows = 10_000
    database = await open_tenant(server)
    await database.close()
    (own,) = await ask(server, POLICY)
    with psycopg.connect(postgres_database.url, autocommit=True) as db:
        table = f"{database.name}.tombstone"
        plain = f"current_setting('fusion.tenant', true) = '{database.name}'"
        db.execute(f"alter policy tenant on {table} using ({plain})")
        db.execute(chosen(database.name).replace("local ", ""))
        db.execute(f"insert into {table} select n || '', 'event' from generate_series(1, {rows}) n")
        db.execute(f"analyze {table}")
        assert expected_rows(db, table) < rows / 100
        await (await open_tenant(server)).close()
        assert await ask(server, POLICY) == [own]
        assert expected_rows(db, table) > rows * 0.9
        assert db.execute(f"select count(*) from {table}").fetchone() == (rows,)
        db.execute("set fusion.tenant to 'another'")
        assert db.execute(f"select count(*) from {table}").fetchone() == (0,)


async def ask(server: Server, query: str) -> list[str]:
    with server.transaction("begin") as (raw, _):
        return [value for (value,) in raw.execute(query).fetchall()]


def expected_rows(db: psycopg.Connection[Any], table: str) -> int:
    (found,) = db.execute(f"explain (format json) select * from {table}").fetchone() or ([],)
    return int(found[0]["Plan"]["Plan Rows"])


def test_a_role_that_bypasses_row_security_is_known(postgres_database: Place) -> None:
    for url, bypasses in ((postgres_database.url, False), (postgres_database.admin_url, True)):
        server = Server(url)
        server.open()
        assert server.bypasses_row_security == bypasses
        server.close()


# Faults ---------------------------------------------------------------------------------------------------------------


def refused(url: str) -> FusionError:
    server = Server(url)
    with pytest.raises(FusionError) as raised:
        server.open()
    server.close()
    return raised.value


def test_a_server_that_does_not_let_us_in_is_named_without_the_password(postgres_database: Place) -> None:
    password = postgres_database.url.split(":")[2].split("@")[0]
    wrong = postgres_database.url.replace(password, "wr0ng-secret")
    nowhere = "postgresql://ana:wr0ng-secret@127.0.0.1"
    cases: list[tuple[str, type[FusionError], str]] = [
        (wrong, Unauthorized, "refuses the user or the password"),
        (f"{nowhere}:1/x", DatabaseUnreachable, "127.0.0.1:1/x does not answer (connection refused): start it"),
        (f"{nowhere}:99999/x", DatabaseUnreachable, "does not answer (no such port)"),
        (f"{postgres_database.url}?sslmode=require", DatabaseUnreachable, "(no TLS connection as sslmode asks for)"),
        (postgres_database.url.rpartition("/")[0] + "/nothing", SettingsError, "no such database"),
    ]
    for url, kind, said in cases:
        error = refused(url)
        assert type(error) is kind
        assert said in str(error)
        assert "wr0ng-secret" not in str(error)
        assert password not in str(error)
    for no_url in ("mysql://ana:wr0ng-secret@host/x", "postgresql://ana:wr0ng-secret@host/x?unknown=1"):
        with pytest.raises(SettingsError, match="no URL of PostgreSQL") as raised:
            Server(no_url)
        assert "wr0ng-secret" not in str(raised.value)
    for legal in ("/x?hostaddr=127.0.0.1,127.0.0.2&port=1,2", "/x?port=1,2"):  # PGHOST may have two
        Server(f"postgresql://{legal}")
    wrong_parts = {"a,b,c/x?port=1,2": "3 hosts and 2 ports", "a/x?sslmode=bogus": "there are disable, allow"}
    for no_url, said in wrong_parts.items():
        with pytest.raises(SettingsError, match=said):
            Server(f"postgresql://ana:wr0ng-secret@{no_url}")


def test_a_database_of_another_encoding_is_refused(postgres: PostgreSQL, postgres_database: Place) -> None:
    """SQL_ASCII is what `initdb` makes without a locale: it does not know characters from bytes."""
    for encoding in ("LATIN1", "SQL_ASCII"):
        name = f"{postgres_database.name}_{encoding.lower()}"
        owned = f"owner {postgres_database.role} encoding '{encoding}' locale 'C' template template0"
        postgres.execute(f"create database {name} {owned}")
        try:
            with pytest.raises(SettingsError, match=f"stores text as {encoding}: make a database with encoding 'UTF8'"):
                opened_server(f"{postgres_database.url.rpartition('/')[0]}/{name}")
        finally:
            postgres.execute(f"drop database {name} with (force)")


@pytest.mark.feature("journals in PostgreSQL: what a role has by default changes nothing: its encoding, its isolation")
@pytest.mark.parametrize(
    "default", ["client_encoding = 'LATIN1'", *(f"default_transaction_isolation = '{i}'" for i in ISOLATIONS)]
)
async def test_defaults_of_the_role_change_nothing(
    postgres: PostgreSQL, postgres_database: Place, default: str
) -> None:
    """In LATIN1 the stand-in for a NUL could not be sent. With a snapshot from before the tenant's lock, every third
    write of two gateways was refused."""
    postgres.execute(f"alter role {postgres_database.role} set {default}")
    server = opened_server(postgres_database.url)
    try:
        gateways = [await open_tenant(server) for _ in range(3)]
        odd = "日本 ü \0"
        await asyncio.gather(*(gateways[n % 3].write(put(f"{odd} {n}")) for n in range(30)))
        assert await keys(gateways[0]) == {f"{odd} {n}" for n in range(30)}
        isolation = "select current_setting('transaction_isolation')"  # receipts are written without the lock
        assert server.run("default", lambda db: db.execute(isolation).fetchone()) == ("read committed",)
        for one in gateways:
            await one.close()
    finally:
        server.close()


async def test_a_lock_that_is_held_too_long_is_busy(
    server: Server, database: Database, postgres_database: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another gateway's transaction hangs: writers get StoreBusy, nothing of theirs is stored, readers go on."""
    monkeypatch.setattr(store, "BUSY_S", 1)
    impatient = await open_tenant(server)
    with psycopg.connect(postgres_database.url) as other:
        other.execute("select pg_advisory_xact_lock(%s)", (impatient._lock_number,))
        with pytest.raises(StoreBusy, match="another gateway is writing"):
            await impatient.write(put("a"))
        assert await keys(database) == set()
    await impatient.write(put("b"))
    assert await keys(database) == {"b"}
    await impatient.close()


@pytest.mark.feature(
    "a write that PostgreSQL ends because its gateway stood still gets 503, and the next one is stored"
)
@pytest.mark.parametrize("together", [1, 2])
async def test_a_write_that_stands_still_is_busy(
    server: Server, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """As on a machine that is overloaded: the server ends the transaction. Nothing of it is stored, nor of a work that
    shares it."""
    monkeypatch.setattr(store, "STALLED_S", 1)
    database = await open_tenant(server)
    begun, queued = threading.Event(), threading.Event()

    def wait(db: Any) -> Any:
        begun.set()
        queued.wait()
        return put("before")(db)

    def stand_still(db: Any) -> Any:
        time.sleep(1.5)
        return put("a")(db)

    first = asyncio.ensure_future(database.write(wait))
    await asyncio.to_thread(begun.wait)
    works = [stand_still, put("b")][:together]
    writing = [asyncio.ensure_future(database.write(work)) for work in works]
    await asyncio.sleep(0)
    queued.set()
    outcomes = await asyncio.gather(*writing, return_exceptions=True)
    assert await first == "before"
    assert [type(one) for one in outcomes] == [StoreBusy] * together
    assert "ended a transaction of this gateway, which was too slow" in str(outcomes[0])
    assert await database.write(put("after")) == "after"
    assert await keys(database) == {"before", "after"}
    await database.close()


async def test_an_exhausted_pool_is_busy(postgres_database: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BUSY_S", 1)
    server = Server(postgres_database.url, connections=1)
    server.open()
    database = await open_tenant(server)
    with server.transaction("begin"), pytest.raises(StoreBusy, match=r"all connections .* are in use"):
        await database.read(watermark.read)
    assert (await database.read(watermark.read)).events == 0
    await database.close()
    server.close()


@pytest.mark.feature("a PostgreSQL that accepts no more connections is not taken for one that hangs: what runs goes on")
@pytest.mark.parametrize("local", [False, True], ids=["over TCP", "over the socket"])
async def test_a_server_that_is_full_does_not_lose_what_runs(
    postgres: PostgreSQL, postgres_database: Place, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    """The role has as many connections as it may, so the server refuses the one that asks whether it hangs."""
    monkeypatch.setattr(connections, "SILENT_S", 0.2)
    monkeypatch.setattr(connections, "LOOK_S", 0.05)
    server = Server(postgres_database.socket_url if local else postgres_database.url)
    server.open()
    database = await open_tenant(server)
    postgres.execute(f"alter role {postgres_database.role} connection limit 1")
    with pytest.raises(StoreBusy, match="takes no more connections"), server.errors():
        server.connect()
    assert len(await database.rows("select 1 as one from pg_sleep(1.5)")) == 1
    await database.close()
    server.close()


async def test_a_server_that_was_restarted_is_used_again(tmp_path: Path) -> None:
    """Down: BackendUnreachable within seconds. Up again: the next call succeeds, though all connections were cut."""
    with PostgreSQL(tmp_path / "postgres") as postgres, postgres.database() as place:
        server = Server(place.url)
        server.open()
        database = await open_tenant(server)
        await asyncio.gather(*(database.write(put(str(n))) for n in range(3)))
        postgres.command("crash")
        with pytest.raises((BackendUnreachable, StoreBusy)):
            await database.read(watermark.read)
        postgres.command("start")
        await database.write(put("after"))
        assert await keys(database) == {"0", "1", "2", "after"}
        postgres.command("stop")
        postgres.command("start")
        assert await keys(database) == {"0", "1", "2", "after"}
        await database.close()
        server.close()


async def test_a_replica_is_read_and_names_the_primary(tmp_path: Path) -> None:
    with PostgreSQL(tmp_path / "primary") as primary, primary.database() as place:
        server = Server(place.url)
        server.open()
        await (await open_tenant(server)).close()
        server.close()
        with PostgreSQL(tmp_path / "standby", primary) as standby:
            replica = Server(standby.url(place.name, place.role, place.url.split(":")[2].split("@")[0]))
            replica.open()
            assert replica.is_read_only
            reading = await open_tenant(replica)
            assert await keys(reading) == set()
            with pytest.raises(BackendUnreachable, match="accepts no writes, as a replica does: name the primary"):
                await reading.write(put("a"))
            await reading.close()
            replica.close()


class CutAtCommit(Database):
    """Loses its connection right after the commit, or right before it, as a network does."""

    before = False

    def _end(self, raw: Any) -> None:
        if not self.before:
            super()._end(raw)
        raw.close()
        raise psycopg.OperationalError("the connection is lost")


@pytest.mark.parametrize("before", [False, True])
async def test_a_commit_whose_answer_is_lost_is_looked_up(server: Server, database: Database, before: bool) -> None:
    """The number of the transaction says whether it was kept: acknowledged if so, else refused, to be sent again."""
    cut = await CutAtCommit.open(server, "default", STEPS, count=watermark.COUNT)
    cut.before = before
    if before:
        with pytest.raises(BackendUnreachable):
            await cut.write(put("a"))
    else:
        assert await cut.write(put("a")) == "a"
    assert await keys(database) == (set() if before else {"a"})
    await cut.close()


async def test_a_promoted_replica_does_not_know_a_transaction_that_it_lacks(tmp_path: Path) -> None:
    """It gives the number to another transaction, whose commit must not acknowledge the one that was lost."""
    with PostgreSQL(tmp_path / "primary") as primary, PostgreSQL(tmp_path / "standby", primary) as standby:
        place = primary.new_database()
        port, other = urlsplit(place.url).port, urlsplit(standby.admin_url).port
        server = Server(place.url.replace(f":{port}/", f":{port},127.0.0.1:{other}/"))
        server.open()
        database = await open_tenant(server)
        with psycopg.connect(standby.url(place.name), autocommit=True) as db:
            while db.execute("select to_regnamespace(%s)", (database.name,)).fetchone() == (None,):  # noqa: ASYNC110 — the server has no event
                await asyncio.sleep(0.02)
        with server.transaction(database._begin_write) as (_, begun):
            lost = begun.rpartition(" ")[0]
            primary.command("crash")
        standby.execute("SELECT pg_promote(true, 60)")
        number = int(lost.split()[0])
        await database.write(put("first"))
        with psycopg.connect(standby.url(place.name), autocommit=True) as db:
            while int(db.execute("select cast(pg_current_xact_id() as text)").fetchone()[0]) < number:
                pass
            assert db.execute("select pg_xact_status(cast(%s as xid8))", (str(number),)).fetchone() == ("committed",)
        with pytest.raises(DatabaseUnreachable, match="whether it was kept is unknown"):
            server.committed(lost)
        await database.close()
        server.close()


# JSON -----------------------------------------------------------------------------------------------------------------

VALUES_OF_JSON = [
    "a\0b",
    "\0\0",
    "\\u0000",
    "\\\0",
    "\\\\u0000",
    "\\\\\0",
    '"\0\\"',
    "\\u0000\0\\",
    "\\",
    "é \U0001f9ff",
]
READ_JSON = (
    "select json_extract(v, '$.v') as one, json_type(v, '$.v') as kind, "
    "(select string_agg(t.value, '|') from json_each(v, '$.all') t) as every from (select cast(? as text) as v) as j"
)


@pytest.mark.parametrize("value", VALUES_OF_JSON)
async def test_json_with_a_nul_is_read_with_its_stand_in(database: Database, value: str) -> None:
    """PostgreSQL reads nothing of a text that has the escape of a NUL; a backslash before ``u0000`` is none."""
    [row] = await database.rows(READ_JSON, (json.dumps({"v": value, "all": [value, "x"]}),))
    expected = value.replace(NUL, FOR_NUL)
    assert (row["one"], row["kind"], row["every"]) == (expected, "string", f"{expected}|x")


BEFORE_JSON_OF = """
create or replace function json_extract(text, text) returns text immutable parallel safe language sql as $$
    select cast($1 as json) #>> string_to_array(substr($2, 3), '.')
$$;
create or replace function json_type(text, text) returns text immutable parallel safe language sql as $$
    select json_typeof(cast($1 as json) #> string_to_array(substr($2, 3), '.'))
$$;
create or replace function json_each(text, text) returns table(value text) immutable parallel safe language sql as $$
    select json_array_elements_text(cast($1 as json) #> string_to_array(substr($2, 3), '.'))
$$;
drop function if exists json_of(text);
"""
"""the functions that the versions before made"""


async def test_a_schema_of_a_version_before_reads_a_nul_too(server: Server) -> None:
    """A start replaces its functions, and does so once. A gateway that runs already has the new ones at once."""
    before = await open_tenant(server)
    given = (json.dumps({"v": "a\0b", "all": []}),)
    await before.write(lambda db: db.raw.execute(BEFORE_JSON_OF))
    said = r"cannot take a value of this request, or read one that is stored \(unsupported Unicode"
    with pytest.raises(BadInput, match=said):  # a read stores nothing
        await before.rows(READ_JSON, given)
    after = await open_tenant(server)
    made = "select xmin from pg_proc where oid = to_regprocedure('json_of(text)')"
    [first] = await after.rows(made)
    again = await open_tenant(server)
    assert await again.rows(made) == [first]
    for one in (before, after, again):
        assert [row["one"] for row in await one.rows(READ_JSON, given)] == [f"a{FOR_NUL}b"]
        await one.close()


async def test_a_word_that_is_too_long_for_a_search_is_left_out_of_it(database: Database) -> None:
    """PostgreSQL refuses words of more than 2,046 bytes in a search as well as in a text."""
    long = "x1" * 2_000
    put_terms = "insert into observation_text(rowid, terms) values(1, ?) returning cast(lexemes as text) as found"
    kept = await database.write(lambda db: db.execute(put_terms, (f"heron {long} roof",)).fetchone()["found"])
    assert kept == "'heron' 'roof'"
    find = "select rowid from observation_text t where terms match ?"
    assert [len(await database.rows(find, (asked,))) for asked in ('"heron"', f'"heron" OR "{long}"', f'"{long}"')] == [
        1,
        1,
        0,
    ]
