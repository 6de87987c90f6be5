"""Faults of the PostgreSQL that has the journals, on real servers: each is answered with 503 or 507, and passes."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import httpx
import pytest

from fusion.contract import Hit, Query, Scope
from fusion.errors import SettingsError, StoreBusy
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.journal.schema import STEPS
from fusion.recall.engine import FuseRequest
from fusion.settings import Settings
from tests.faults.home import door
from tests.faults.test_stores import NAMESPACE
from tests.gateway.shelves import SharedShelf
from tests.patience import load
from tests.postgres.proxy import CuttingProxy
from tests.postgres.serve import unprivileged
from tests.postgres.servers import Database, PostgreSQL

psycopg = pytest.importorskip("psycopg")

from fusion.store import postgres as store  # noqa: E402 – imported late, as its package is optional
from fusion.store import postgres_connections as connections  # noqa: E402
from fusion.store.postgres import schema_of  # noqa: E402

POLL_S = 0.05
ANA = {"user_id": "ana"}
SCHEMA = schema_of("default")
SMALL_DISK = 'mount -t tmpfs -o "size=40m,mode=0700,uid=$2" none "$1" && shift 2 && exec "$@"'
"""a disk of 40 MB that only the server sees"""


@pytest.fixture(autouse=True)
def _shelves() -> Iterator[None]:
    yield
    SharedShelf.servers.clear()


def settings_for(
    home: Path, url: str, shelf: str = "tests.gateway.shelves:SharedShelf", **database: object
) -> Settings:
    chosen = {"database": {"url": url, **database}, "backends": {"shelf": {"adapter": shelf, "address": "one"}}}
    return load(home=home, backends_only=True, embedder={"adapter": ""}, **chosen)


@asynccontextmanager
async def served(home: Path, url: str, **database: object) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway whose journals are in a database."""
    async with door(settings_for(home, url, **database)) as (_, client):
        yield client


async def remember(client: httpx.AsyncClient, text: str, key: str = "") -> httpx.Response:
    headers = {"Idempotency-Key": key or secrets.token_hex(8)}
    return await client.post("/v1/memories", json={"text": text, **ANA}, headers=headers)


async def ask(client: httpx.AsyncClient, text: str, **more: object) -> httpx.Response:
    return await client.post("/v1/fuse", json={"query": text, **ANA, **more})


def passes(reply: httpx.Response, status: int = 503) -> None:
    """It is the answer to a fault that passes: the status, when to try again, and no more than that is said."""
    assert reply.status_code == status, reply.text
    assert int(reply.headers["retry-after"]) >= 1
    assert "Traceback" not in reply.text


def stored(url: str) -> Counter[str]:
    """How often each text is in the journal, asked as the superuser."""
    with psycopg.connect(url, autocommit=True) as db:
        return Counter(text for (text,) in db.execute(f"select text from {SCHEMA}.event"))


async def until_synchronous(primary: PostgreSQL) -> None:
    """Let each commit wait for the standby, and wait until that holds."""
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
    with psycopg.connect(primary.admin_url, autocommit=True) as db:
        state = "select 1 from pg_stat_replication where sync_state = 'sync'"
        while db.execute(state).fetchone() is None:  # noqa: ASYNC110 — the server has no event
            await asyncio.sleep(POLL_S)


def both(database: Database, standby: PostgreSQL, more: str = "") -> str:
    """A URL that names the primary and its standby."""
    parts, other = urlsplit(database.url), urlsplit(standby.admin_url)
    who = f"{parts.username}:{parts.password}"
    return f"postgresql://{who}@127.0.0.1:{parts.port},127.0.0.1:{other.port}/{database.name}{more}"


# Put right by its administrator ---------------------------------------------------------------------------------------


@pytest.mark.feature("PostgreSQL: a password, role or database that is wrong for a while is answered with 503")
@pytest.mark.parametrize(
    ("wrong", "right", "why"),
    [
        ("alter role {role} password 'another'", "alter role {role} password '{password}'", "user or the password"),
        ("alter role {role} nologin", "alter role {role} login", "the role may not log in"),
        ("alter database {name} rename to elsewhere", "alter database elsewhere rename to {name}", "no such database"),
        ("alter database {name} allow_connections false", "alter database {name} allow_connections true", "accepts no"),
    ],
)
async def test_what_an_administrator_takes_away_is_expected_back(
    postgres: PostgreSQL, postgres_database: Database, tmp_path: Path, wrong: str, right: str, why: str
) -> None:
    """It was right when the gateway started, so nothing of the gateway's settings has to change."""
    parts = urlsplit(postgres_database.url)
    known = {"role": postgres_database.role, "name": postgres_database.name, "password": parts.password}
    async with served(tmp_path / "home", postgres_database.url) as client:
        assert (await remember(client, "The heron is on the roof")).status_code == 201
        ended = f"select pg_terminate_backend(pid) from pg_stat_activity where usename = '{postgres_database.role}'"
        # Before, as a database in use cannot be renamed; and after, as those that are logged on stay so.
        postgres.execute(ended, wrong.format(**known), ended)
        for reply in (await remember(client, "The crow is on the fence"), await ask(client, "where is the heron?")):
            passes(reply)
            assert why in reply.text
        assert (await client.get("/readyz")).status_code == 503
        postgres.execute(right.format(**known))
        assert (await remember(client, "The crow is on the fence")).status_code == 201
        assert (await ask(client, "where is the heron?")).status_code == 200


# Failover -------------------------------------------------------------------------------------------------------------


@pytest.mark.feature(
    "PostgreSQL fails over: gateways go on with the promoted standby, and nothing acknowledged is lost"
)
async def test_a_primary_that_crashes_is_replaced_by_its_standby(tmp_path: Path) -> None:
    """Until the standby is promoted, every answer is 503; all that was acknowledged is on it, once."""
    statuses: Counter[int] = Counter()
    acknowledged: list[str] = []
    with (
        PostgreSQL(tmp_path / "primary") as primary,
        PostgreSQL(tmp_path / "standby", primary) as standby,
    ):
        database = primary.new_database()
        await until_synchronous(primary)
        async with served(tmp_path / "home", both(database, standby)) as client:
            promoted = asyncio.Event()

            async def write(number: int) -> None:
                text = f"The note of step {number}"
                while True:
                    over = promoted.is_set()
                    reply = await remember(client, text, f"k{number}")
                    statuses[reply.status_code] += 1
                    if reply.is_success:
                        acknowledged.append(text)
                        return
                    passes(reply)
                    assert not over, "the new primary is used by the first request after its promotion"
                    await asyncio.sleep(POLL_S)

            await asyncio.gather(*(write(number) for number in range(6)))
            writing = asyncio.gather(*(write(number) for number in range(6, 12)))
            await asyncio.to_thread(primary.command, "crash")
            passes(await remember(client, "A note of the gap"))
            passes(await ask(client, "The note of step 1"))
            passes(await client.get("/readyz"))  # so a balancer sends nothing here
            assert (await client.get("/healthz")).status_code == 200
            await asyncio.to_thread(standby.execute, "SELECT pg_promote(true, 60)")
            promoted.set()
            await writing
            assert (await client.post("/v1/settle", json={})).is_success
            assert "The note of step 3" in (await ask(client, "The note of step 3")).text
        kept = stored(standby.url(database.name))
    assert set(statuses) <= {201, 503}
    assert {text: kept[text] for text in acknowledged} == {f"The note of step {n}": 1 for n in range(12)}
    assert set(kept) - set(acknowledged) <= {"A note of the gap"}


@pytest.mark.feature("a PostgreSQL that hangs is left for its promoted standby")
async def test_a_primary_that_hangs_is_left_for_its_standby(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers nothing and closes nothing. The connections to it are cut, and the promoted standby is used."""
    monkeypatch.setattr(connections, "SILENT_S", 0.2)
    monkeypatch.setattr(connections, "LOOK_S", POLL_S)
    with (
        PostgreSQL(tmp_path / "primary") as primary,
        PostgreSQL(tmp_path / "standby", primary) as standby,
    ):
        database = primary.new_database()
        await until_synchronous(primary)
        async with served(tmp_path / "home", both(database, standby, "?connect_timeout=2")) as client:
            assert (await remember(client, "The heron is on the roof")).status_code == 201
            primary.command("freeze")
            passes(await ask(client, "where is the heron?", timeout_ms=300))
            waiting = asyncio.ensure_future(remember(client, "The crane is in the yard", "k"))
            await asyncio.to_thread(standby.execute, "SELECT pg_promote(true, 60)")
            reply = await waiting
            while not reply.is_success:
                passes(reply)
                reply = await remember(client, "The crane is in the yard", "k")
            assert (await client.post("/v1/settle", json={})).is_success
            assert "The heron is on the roof" in (await ask(client, "where is the heron?")).text
            primary.command("thaw")
        assert stored(standby.url(database.name)) == {"The heron is on the roof": 1, "The crane is in the yard": 1}


# Read-only ------------------------------------------------------------------------------------------------------------


@pytest.mark.feature("a read-only replica as `[database] url` is refused at the start with the fix")
async def test_a_replica_is_refused_at_the_start_with_the_fix(tmp_path: Path) -> None:
    with PostgreSQL(tmp_path / "primary") as primary, primary.database() as database:
        async with served(tmp_path / "a", database.url):
            pass
        with PostgreSQL(tmp_path / "standby", primary) as standby:
            password = str(urlsplit(database.url).password)
            url = standby.url(database.name, database.role, password)
            with pytest.raises(
                SettingsError, match=r"accepts no writes, .*: name the primary in \[database\] url"
            ) as no:
                async with Gateway.open(settings_for(tmp_path / "b", url)):
                    pass
            assert password not in str(no.value)
            async with served(tmp_path / "b", both(database, standby)) as client:
                assert (await remember(client, "The heron is on the roof")).status_code == 201


@pytest.mark.feature("a PostgreSQL that turns read-only is still read, and writes get 503 until it accepts them")
async def test_a_server_that_turns_read_only_is_read_and_written_again_later(tmp_path: Path) -> None:
    """As when its disk is nearly full, or it was demoted: memories are found meanwhile, and nothing is stored."""
    with PostgreSQL(tmp_path / "postgres") as server, server.database() as database:
        async with served(tmp_path / "home", database.url) as client:
            assert (await remember(client, "The heron is on the roof")).status_code == 201
            await client.post("/v1/settle", json={})
            await turn(server, database, "on")
            refused = await remember(client, "The crane is in the yard", "k")
            passes(refused)
            assert "name the primary" in refused.json()["detail"]
            found = await ask(client, "where is the heron?")
            assert found.status_code == 200
            assert "The heron is on the roof" in found.text
            await turn(server, database, "off")
            assert (await remember(client, "The crane is in the yard", "k")).status_code == 201
        assert stored(database.admin_url) == {"The heron is on the roof": 1, "The crane is in the yard": 1}


async def turn(server: PostgreSQL, database: Database, read_only: str) -> None:
    """Let the server accept no writes, or accept them again, and wait until that holds for open connections."""
    with psycopg.connect(database.url, autocommit=True) as db:
        server.execute(f"ALTER SYSTEM SET default_transaction_read_only = {read_only}", "SELECT pg_reload_conf()")
        state = "show default_transaction_read_only"
        while db.execute(state).fetchone() != (read_only,):  # noqa: ASYNC110 — the server has no event
            await asyncio.sleep(POLL_S)


# A full disk ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A folder that other users reach, unlike those below pytest's own."""
    with TemporaryDirectory(prefix="pg-disk-") as folder:
        yield Path(folder)


@pytest.mark.feature("a full disk of PostgreSQL is 507, and nothing is stored in part")
@pytest.mark.skipif("-m" not in NAMESPACE, reason="only root mounts a tmpfs for another user's server")
async def test_a_full_disk_of_the_server_stores_nothing_in_part(tmp_path: Path, small_disk: Path) -> None:
    """507, as with a full disk of a home; memories are found meanwhile, and stored again once there is room."""
    inside = [*NAMESPACE, "sh", "-c", SMALL_DISK, "sh", str(small_disk), str(unprivileged().get("user", 0))]
    with PostgreSQL(tmp_path / "postgres", inside=inside) as server:
        server.execute(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
        database = server.new_database(more="TABLESPACE small")
        async with served(tmp_path / "home", database.url) as client:
            assert (await remember(client, "The heron is on the roof")).status_code == 201
            await client.post("/v1/settle", json={})
            fill(database)
            texts = [f"Page {number} of the ledger: {words()}" for number in range(30)]
            replies = [await remember(client, text, f"k{number}") for number, text in enumerate(texts)]
            assert {reply.status_code for reply in replies} <= {201, 507}, {reply.text for reply in replies}
            full = [reply for reply in replies if reply.status_code == 507]
            assert "no space left" in full[-1].json()["detail"]
            kept = stored(database.admin_url)
            assert kept == {
                "The heron is on the roof": 1,
                **{text: 1 for text, reply in zip(texts, replies, strict=True) if reply.is_success},
            }
            assert "The heron is on the roof" in (await ask(client, "where is the heron?")).text
            with psycopg.connect(database.url, autocommit=True) as db:
                db.execute("drop table ballast")
            for number, text in enumerate(texts):
                assert (await remember(client, text, f"k{number}")).is_success
        assert stored(database.admin_url) == {"The heron is on the roof": 1, **dict.fromkeys(texts, 1)}


def words() -> str:
    """Words that are in no other text, so that each has rows of its own."""
    return " ".join(secrets.token_hex(6) for _ in range(400))


def fill(database: Database) -> None:
    """Fill the disk of a database with a table."""
    with psycopg.connect(database.url, autocommit=True) as db:
        db.execute("create table ballast(a text)")
        db.execute("alter table ballast alter column a set storage plain")
        for rows in (100, 10, 1):
            with suppress(psycopg.errors.DiskFull):
                while True:
                    db.execute("insert into ballast select repeat('x', 7000) from generate_series(1, %s)", (rows,))


# Connections and statements -------------------------------------------------------------------------------------------


@pytest.mark.feature("when all connections to PostgreSQL are in use, requests get 503 in time")
async def test_when_all_connections_are_in_use_requests_are_busy_and_none_is_lost(
    tmp_path: Path, postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table is locked, so each request keeps its connection: all get 503 in time, and later all are answered."""
    monkeypatch.setattr(store, "BUSY_S", 1)
    async with served(tmp_path / "home", postgres_database.url, connections=2) as client:
        assert (await remember(client, "The heron is on the roof")).status_code == 201
        await client.post("/v1/settle", json={})
        with psycopg.connect(postgres_database.url) as other:
            locked = ", ".join(f"{SCHEMA}.{table}" for table in ("change", "tombstone", "receipt"))
            other.execute(f"lock table {locked} in access exclusive mode")
            held = await asyncio.gather(*(ask(client, "where is the heron?") for _ in range(6)), remember(client, "x"))
            receipts = await client.get("/v1/receipts")
        for reply in (*held, receipts):
            passes(reply)
        answers = await asyncio.gather(*(ask(client, "where is the heron?") for _ in range(8)))
        assert all("The heron is on the roof" in reply.text for reply in answers)
        with psycopg.connect(postgres_database.admin_url) as db:
            open_now = "select count(*) from pg_stat_activity where usename = %s"
            (count,) = db.execute(open_now, (postgres_database.role,)).fetchone()
        assert count <= 3  # one more listens to other gateways


async def test_a_statement_that_takes_too_long_is_stopped_and_its_connection_is_clean(
    tmp_path: Path, postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction is rolled back, and the next request on that connection begins another."""
    monkeypatch.setattr(store, "SLOW_S", 1)
    async with served(tmp_path / "home", postgres_database.url, connections=2) as client:
        with psycopg.connect(postgres_database.admin_url, autocommit=True) as db:
            db.execute(
                f"create function {SCHEMA}.slow() returns trigger language plpgsql as "
                "$$ begin if new.text like 'Slow%' then perform pg_sleep(3600); end if; return new; end $$"
            )
            db.execute(
                f"create trigger slow before insert on {SCHEMA}.event for each row execute function {SCHEMA}.slow()"
            )
            passes(await remember(client, "Slow is the heron"))
            assert (await remember(client, "The heron is on the roof")).status_code == 201
            idle = "select state from pg_stat_activity where usename = %s and state <> 'active'"
            assert {state for (state,) in db.execute(idle, (postgres_database.role,))} == {"idle"}
        assert stored(postgres_database.admin_url) == {"The heron is on the roof": 1}


@pytest.mark.feature("a question to a PostgreSQL that hangs is answered with 503 within its time limit")
async def test_a_question_to_a_server_that_hangs_keeps_its_time_limit(tmp_path: Path) -> None:
    """It is answered while the server hangs; once that goes on, so does the gateway."""
    with PostgreSQL(tmp_path / "postgres") as server, server.database() as database:
        async with served(tmp_path / "home", database.url) as client:
            assert (await remember(client, "The heron is on the roof")).status_code == 201
            await client.post("/v1/settle", json={})
            server.command("freeze")
            for reply in await asyncio.gather(*(ask(client, "where is the heron?", timeout_ms=200) for _ in range(6))):
                passes(reply)
            server.command("thaw")
            assert "The heron is on the roof" in (await ask(client, "where is the heron?")).text


class HeldShelf(SharedShelf):
    """Its answers wait, so that the server can hang in the middle of a question."""

    asked = asyncio.Event()
    answering = asyncio.Event()

    async def search(self, query: Query) -> Sequence[Hit]:
        found = await super().search(query)
        self.asked.set()
        await self.answering.wait()
        return found


async def test_a_server_that_hangs_in_the_middle_of_a_question_ends_it(tmp_path: Path) -> None:
    """The backends have answered, and what the journal knows of their hits does not come."""
    HeldShelf.asked, HeldShelf.answering = asyncio.Event(), asyncio.Event()
    with PostgreSQL(tmp_path / "postgres") as server, server.database() as database:
        settings = settings_for(tmp_path / "home", database.url, shelf=f"{__name__}:HeldShelf")
        async with Gateway.open(settings) as gateway:
            await gateway.remember([NewMemory("The heron is on the roof", scope=Scope(user_id="ana"))])
            await gateway.settle()
            question = FuseRequest("where is the heron?", Scope(user_id="ana"), timeout_ms=4_000)
            asking = asyncio.ensure_future(gateway.fuse(question))
            await HeldShelf.asked.wait()
            server.command("freeze")
            HeldShelf.answering.set()
            with pytest.raises(StoreBusy, match="has not answered within 9 s"):
                await asking
            server.command("thaw")
            assert "The heron is on the roof" in (await gateway.fuse("where is the heron?", scope=question.scope)).block


@pytest.mark.feature("a gateway that hangs in a transaction does not stop the others")
@pytest.mark.parametrize("where", ["in a write", "in a claim", "after many rows", "among many rows"])
async def test_a_gateway_that_hangs_in_a_transaction_does_not_stop_the_others(
    tmp_path: Path, postgres_database: Database, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """It holds the tenant's lock, or that of deliveries, and sends nothing more: its session ends, and others write.

    The server ends it. It does not where rows were sent together, so there the gateway does that waits.
    """
    monkeypatch.setattr(store, "STALLED_S", 1)
    async with served(tmp_path / "home", postgres_database.url) as client:
        server = store.Server(postgres_database.url)
        hanging = await store.Database.open(server, "default", STEPS)
        begin = hanging._begin_unqueued if where == "in a claim" else hanging._begin_write
        with server.errors(), server.transaction(begin) as (raw, _):
            if where == "in a claim":
                raw.execute("lock table delivery")
            elif where == "after many rows":
                store.Connection(raw).executemany("delete from job where name = ?", [("one",), ("other",)])
            elif where == "among many rows":
                raw.pgconn.enter_pipeline_mode()
                raw.pgconn.send_query_params(b"delete from job", None)
                raw.pgconn.send_flush_request()
                raw.pgconn.flush()
            assert (await remember(client, "The heron is on the roof")).status_code == 201
        await hanging.close()
        server.close()


async def test_a_start_does_not_wait_for_a_gateway_that_hangs(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start migrates under the same lock, for which it waits as long as somebody works under it."""
    monkeypatch.setattr(store, "STALLED_S", 1)
    server = store.Server(postgres_database.url)
    hanging = await store.Database.open(server, "default", STEPS)
    with server.errors(), server.transaction(hanging._begin_write) as (raw, _):
        store.Connection(raw).executemany("delete from job where name = ?", [("one",), ("other",)])
        await (await store.Database.open(server, "default", STEPS)).close()
    await hanging.close()
    server.close()


async def test_a_migration_that_works_on_files_is_not_taken_for_one_that_hangs(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fusion migrate` holds the locks of all tenants in a session of its own, and sends nothing for a while."""
    monkeypatch.setattr(store, "STALLED_S", 0)
    server = store.Server(postgres_database.url)
    database = await store.Database.open(server, "default", STEPS)
    with closing(server.connect(application_name=store.MOVES)) as moving:
        moving.execute("begin")
        moving.execute("select pg_advisory_xact_lock(%s)", (store.lock_number(database.name),))
        with pytest.raises(StoreBusy, match="another gateway is writing"):
            await database.write(lambda db: db.execute("select 1").fetchone())
        moving.execute("commit")
    await database.close()
    server.close()


# A connection that breaks during the commit ---------------------------------------------------------------------------


@pytest.mark.feature("a commit whose answer is lost leaves one memory, however often the client repeats it")
@pytest.mark.parametrize("committed", [True, False], ids=["after it", "before it"])
@pytest.mark.parametrize("reachable", [True, False], ids=["and comes back", "and stays away"])
async def test_a_commit_whose_answer_is_lost_leaves_one_memory(
    tmp_path: Path, postgres_database: Database, monkeypatch: pytest.MonkeyPatch, committed: bool, reachable: bool
) -> None:
    """The connection breaks at the commit: the gateway looks it up, or the client asks again; never two, never none."""
    async with CuttingProxy(postgres_database.url) as proxy:
        async with served(tmp_path / "home", f"{proxy.url}?sslmode=disable&gssencmode=disable") as client:
            proxy.cut("The heron is on the roof", committed=committed, come_back=reachable)
            first = await remember(client, "The heron is on the roof", "k")
            assert proxy.cuts == 1
            if committed and reachable:
                assert first.status_code == 201
            else:
                passes(first)
            proxy.come_back()
            again = await remember(client, "The heron is on the roof", "k")
            assert again.is_success
        assert stored(postgres_database.admin_url) == {"The heron is on the roof": 1}
