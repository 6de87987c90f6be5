"""PostgreSQL as a backend, on a real server: the suite, several gateways at once, and what goes wrong."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if find_spec("psycopg") is None:
    pytest.skip("needs psycopg: pip install '/path/to/checkout[postgres]'", allow_module_level=True)

import psycopg
from psycopg import errors

from adapters.index.lexical import terms
from adapters.options import read
from adapters.postgres import Postgres, schema
from adapters.postgres import query as sql
from adapters.postgres.backend import WRITE_S
from adapters.postgres.connections import Connection, Connections
from adapters.postgres.errors import as_backend_error
from adapters.postgres.options import Options
from adapters.postgres.query import Asked, Statistics
from fusion.contract import (
    Backend,
    CountsEvents,
    Describes,
    Embedder,
    FindsNeighbours,
    Forgets,
    ForgetsMany,
    ListsEvents,
    Opening,
    Place,
    Remembers,
    Scope,
    Settles,
    State,
    StoresState,
    Where,
)
from fusion.errors import (
    BackendTimeout,
    BackendUnreachable,
    FusionError,
    InvalidAnswer,
    SettingsError,
    StoreDamaged,
    StoreFull,
    Unauthorized,
)
from fusion.store.postgres_connections import IDLE_S
from tests.backend_contract import (
    NOW,
    BackendContract,
    event_id,
    make_event,
    make_extracted,
    make_query,
    make_samples,
)
from tests.fakes import FakeEmbedder
from tests.patience import PATIENT_MS
from tests.postgres.servers import Database, PostgreSQL
from tests.postgres.traps import set_traps, sprung, step_into_a_trap

if TYPE_CHECKING:
    from fusion.contract import Floats


def options_of(database: Database, folder: Path, **options: object) -> dict[str, object]:
    """The options for a database, whose password is in a file as a user's is."""
    parts = urlsplit(database.url)
    assert parts.password
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "password"
    file.write_text(parts.password)
    url = database.url.replace(f":{parts.password}@", "@")
    return {"url": url, "password_file": str(file), "connect_ms": PATIENT_MS, **options}


async def opened(
    database: Database, folder: Path, embedder: Embedder | None = None, tenant: str = "default", **options: object
) -> Postgres:
    chosen = options_of(database, folder, **options)
    return await Postgres.open(Opening("postgres", folder, chosen, embedder, tenant=tenant))


@asynccontextmanager
async def gateway(
    database: Database,
    folder: Path,
    embedder: Embedder | None = None,
    tenant: str = "default",
    **options: object,
) -> AsyncIterator[Postgres]:
    """The backend of one gateway among others, with a model of its own."""
    backend = await opened(database, folder, embedder or FakeEmbedder(), tenant, **options)
    try:
        yield backend
    finally:
        await backend.close()


def until_waiting(database: Database) -> None:
    """Return once a connection to the database waits for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'"
    with psycopg.connect(database.admin_url, autocommit=True) as admin:
        while admin.execute(waiting, (database.name,)).fetchone() == (0,):
            time.sleep(0.01)


@pytest.mark.feature("PostgreSQL: the gateway's memories by pgvector and words pass the suite on a real server")
class TestPostgres(BackendContract):
    """The gateway's own memories, by vectors and words."""

    filters = True

    @pytest.fixture(autouse=True)
    def served(self, postgres_database: Database) -> None:
        self.database = postgres_database

    async def open_backend(self, folder: Path) -> Backend:
        return await opened(self.database, folder, FakeEmbedder())

    async def test_has_its_ports(self, backend: Backend) -> None:
        """It stores, forgets, finds neighbours, lists, counts, describes, keeps states, and can be waited for."""
        for port in (
            Remembers, Forgets, ForgetsMany, FindsNeighbours, ListsEvents, CountsEvents, Describes, StoresState,
            Settles,
        ):  # fmt: skip
            assert isinstance(backend, port)


@pytest.mark.feature("PostgreSQL: without a model, it searches by words alone")
class TestPostgresByWords(TestPostgres):
    """Without an embedding model the suite holds all the same."""

    async def open_backend(self, folder: Path) -> Backend:
        return await opened(self.database, folder)

    async def test_describes_what_it_holds(self, backend: Backend) -> None:
        """Every item waits for its vector until there is a model."""
        assert isinstance(backend, Describes)
        assert (await backend.describe()).items == 0
        await self.fill(backend, self.samples(backend))
        description = await backend.describe()
        assert description.items == description.vectors_pending == 12
        assert "configure [embedder]" in description.notes[0]


# What is stored -------------------------------------------------------------------------------------------------------


async def test_any_text_and_any_owner_come_back_as_they_were(postgres_database: Database, tmp_path: Path) -> None:
    """PostgreSQL stores no NUL; two names that differ in it alone stay two users."""
    async with gateway(postgres_database, tmp_path) as backend:
        names = ["ada\0", "ada\x1b0", "ada\x1b", "ada\x1b1", "ada"]
        texts = [f"quinces\0 and \x1b[31mpears{number}" for number in range(len(names))]
        await backend.remember(
            [
                make_extracted(make_event(number, text, Scope(user_id=name), speaker="B\0b", place=Place("d\0", 1, 1)))
                for number, (name, text) in enumerate(zip(names, texts, strict=True), start=1)
            ]
        )
        for number, (name, text) in enumerate(zip(names, texts, strict=True), start=1):
            [hit] = await backend.search(make_query("quinces and pears", Scope(user_id=name)))
            assert (hit.event_id, hit.text, hit.scope.user_id) == (event_id(number), text, name)
            assert (hit.speaker, hit.place) == ("B\0b", Place("d\0", 1, 1))
        assert [event.text for event, _ in await backend.events("", 100)] == texts
        assert [event.event_id for event, _ in await backend.events(event_id(2), 2)] == [event_id(3), event_id(4)]


@pytest.mark.feature("PostgreSQL: a memory whose state hides it takes no place in an answer")
async def test_what_a_state_hides_does_not_use_up_the_limit(postgres_database: Database, tmp_path: Path) -> None:
    async with gateway(postgres_database, tmp_path) as backend:
        text = "Orchard stores invoices inside PostgreSQL."
        lasting = make_extracted(make_event(1, f"{text} Also pears, plums and quinces."))
        hidden = [make_extracted(make_event(number, text)) for number in range(10, 40)]
        ended = State(ended_at=NOW, ended="archived")
        await backend.remember([lasting, *(replace(one, state=ended) for one in hidden[:10]), *hidden[10:]])
        states = {one.event.event_id: ended for one in hidden[10:20]}
        states |= {one.event.event_id: State(merged_into=event_id(1)) for one in hidden[20:]}
        await backend.set_states(states)
        await backend.set_states({**states, event_id(999): ended})
        query = make_query(text, limit=2)
        assert [hit.event_id for hit in await backend.search(query)] == [event_id(1)]
        archived = await backend.search(replace(query, archived=True, limit=100))
        assert {hit.event_id for hit in archived} == {event_id(1), *(event_id(n) for n in range(10, 30))}
        assert len(await backend.search(replace(query, as_of=NOW - timedelta(days=1), limit=100))) == 31
        await backend.set_states(dict.fromkeys(states, State()))
        assert len(await backend.search(replace(query, limit=100))) == 21


@pytest.mark.feature("PostgreSQL: vectors of another model are made anew and never compared, and the old ones stay")
async def test_another_model_has_vectors_of_its_own(postgres_database: Database, tmp_path: Path) -> None:
    first = FakeEmbedder(dimensions=32, identity="first@1")
    async with gateway(postgres_database, tmp_path, first) as backend:
        await backend.remember(make_samples())
    second = FakeEmbedder(dimensions=48, identity="second@1", synonyms={"dog": "greyhound"})
    async with gateway(postgres_database, tmp_path, second) as backend:
        await backend.settle()
        assert (await backend.describe()).vectors == 12
        assert (await backend.search(make_query("dog", limit=1)))[0].event_id == event_id(4)
    async with gateway(postgres_database, tmp_path, first) as backend:
        assert (await backend.describe()).vectors_pending == 0


@pytest.mark.feature("PostgreSQL: while the model fails, words are searched and vectors are filled in later")
async def test_vectors_follow_when_the_model_works_again(postgres_database: Database, tmp_path: Path) -> None:
    model = FakeEmbedder(failing=True, synonyms={"dog": "greyhound"})
    async with gateway(postgres_database, tmp_path, model) as backend:
        await backend.remember(make_samples())
        assert (await backend.search(make_query("greyhound", limit=1)))[0].event_id == event_id(4)
        description = await backend.describe()
        assert (description.vectors_pending, description.degraded) == (12, True)
        model.failing = False
        await backend.settle()
        assert (await backend.search(make_query("dog", limit=1)))[0].event_id == event_id(4)
        assert (await backend.describe()).vectors_pending == 0


async def test_too_many_dimensions_name_the_setting(postgres_database: Database, tmp_path: Path) -> None:
    async with gateway(postgres_database, tmp_path, FakeEmbedder(dimensions=4001)) as backend:
        with pytest.raises(SettingsError, match=r"4001 numbers.*Fix: set dimensions in \[embedder\]"):
            await backend.remember(make_samples())


class SmallScans(Postgres):
    """Takes every scope for one that the vector index may give up on."""

    scanned = 0


@pytest.mark.feature("PostgreSQL: if the vector index gives up on a filter, all vectors in the filter are compared")
async def test_a_user_far_from_the_question_is_found(postgres_database: Database, tmp_path: Path) -> None:
    """The index may look at 20 vectors only, and is the only plan that is allowed; the nearest 300 are another's."""
    scans = {"hnsw.max_scan_tuples": 20, "enable_sort": "off", "enable_seqscan": "off", "enable_bitmapscan": "off"}
    with psycopg.connect(postgres_database.admin_url, autocommit=True) as admin:
        for name, value in scans.items():
            admin.execute(f"ALTER ROLE {postgres_database.role} SET {name} = {value}")
    model = FakeEmbedder(synonyms={"dog": "greyhound"})
    theirs = [make_extracted(make_event(n, f"greyhound {n}", Scope(user_id="ben"))) for n in range(100, 400)]
    mine = make_samples(Scope(user_id="ada"))
    chosen = options_of(postgres_database, tmp_path, ef_search=10)
    backend = await SmallScans.open(Opening("postgres", tmp_path, chosen, model))
    try:
        await backend.remember([*theirs, *mine])
        found = await backend.search(make_query("dog", Scope(user_id="ada")))
        assert {hit.event_id for hit in found} == {one.event.event_id for one in mine}
        assert found[0].event_id == event_id(4)
    finally:
        await backend.close()


async def test_a_store_that_was_just_filled_is_not_read_whole_for_each_row(
    postgres_database: Database, tmp_path: Path
) -> None:
    """It has no statistics yet. 300 memories with one word: reading them all for each of them would be 90,000 rows."""
    async with gateway(postgres_database, tmp_path) as backend:
        await backend.remember(
            [make_extracted(make_event(n, f"The heron of day {n} is here.")) for n in range(100, 400)]
        )
    before = rows_read(postgres_database, 0)
    async with gateway(postgres_database, tmp_path) as backend:
        assert await backend.search(make_query("heron"))
    assert rows_read(postgres_database, before[0] + 1)[1] - before[1] < 10 * 300


@pytest.mark.feature(
    "PostgreSQL: what it plans with is counted once the memories have doubled, also without its autovacuum"
)
async def test_what_postgresql_plans_with_is_counted_as_memories_double(
    postgres_database: Database, tmp_path: Path
) -> None:
    """Nothing of a few; after 600, and again after 1,800, by the first question of a gateway, or at the end of filling
    in vectors; not again for 100 more."""

    async def remember(backend: Postgres, numbers: range) -> None:
        await backend.remember([make_extracted(make_event(n, f"The heron of day {n}. {'x ' * 600}")) for n in numbers])

    async with gateway(postgres_database, tmp_path) as backend:
        await remember(backend, range(100, 200))
        await backend.settle()
        assert counted(postgres_database) == -1
        await remember(backend, range(200, 700))
        assert await backend.search(make_query("heron"))
        await backend.settle()
        assert counted(postgres_database) == 600
        await remember(backend, range(700, 800))
        await backend.settle()
        assert counted(postgres_database) == 600
        await remember(backend, range(800, 1900))
        await backend.settle()
        assert counted(postgres_database) == 1800


def counted(database: Database) -> int:
    """The number of memories that PostgreSQL plans with; -1 if it never counted them."""
    with psycopg.connect(database.admin_url, autocommit=True) as admin:
        return int((admin.execute("SELECT reltuples FROM pg_class WHERE relname = 'memory'").fetchone() or (0,))[0])


def rows_read(database: Database, least: int) -> tuple[int, int]:
    """How often an index was used, once that is ``least`` times, and how many rows were read without one."""
    counted = "SELECT idx_scan, seq_tup_read FROM pg_stat_user_tables WHERE relname = 'memory'"
    with psycopg.connect(database.admin_url, autocommit=True) as admin:
        while (found := admin.execute(counted).fetchone()) is None or found[0] < least:
            time.sleep(0.01)
    return found[0], found[1]


@pytest.mark.feature("PostgreSQL: a scope with few memories is read once for words and vectors")
async def test_a_small_scope_is_read_once_and_finds_what_two_searches_find(
    postgres_database: Database, tmp_path: Path
) -> None:
    """The same memories with the same scores, also of words that no memory has."""
    texts = ["harbour opens", "harbour closes at dusk", "quinces ripen", "harbour quinces", "plums"]
    async with gateway(postgres_database, tmp_path) as backend:
        await backend.remember([make_extracted(make_event(n, text)) for n, text in enumerate(texts, start=1)])
        for text in ("harbour quinces", "zebra"):
            (vector,) = await FakeEmbedder().embed([text])
            asked = Asked.of(text, vector)
            found = []
            for common in ({}, {"another": 0.0}):  # only a large scope has common terms
                known = Statistics(sql.FEW, 2.0, common)
                statement = sql.search(make_query(text), asked, known, backend._vectors, 10, pgvector=backend._pgvector)
                assert statement is not None
                assert statement[0].count("(m.ended_at IS NULL)") == (2 if common else 1)
                rows = await backend._connections.run(lambda c, one=statement: c.rows(*one), 60.0)
                found.append([(which, number, round(score, 3)) for which, number, _, score in rows])
            assert found[0] == found[1]


async def test_fields_are_kept_until_a_memory_is_forgotten_anywhere(
    postgres_database: Database, tmp_path: Path
) -> None:
    """A memory that was found is not read again; what another gateway forgets is not found again."""
    async with gateway(postgres_database, tmp_path / "a") as one, gateway(postgres_database, tmp_path / "b") as other:
        await one.remember([make_extracted(make_event(1, "harbour")), make_extracted(make_event(2, "harbour quay"))])
        query = make_query("harbour")
        assert {hit.text for hit in await one.search(query)} == {"harbour", "harbour quay"}
        with psycopg.connect(postgres_database.admin_url, autocommit=True) as admin:
            (name,) = admin.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'memory'").fetchone() or ("",)
            admin.execute(f"UPDATE {name}.memory SET text = 'another'")
        assert {hit.text for hit in await one.search(query)} == {"harbour", "harbour quay"}
        await other.forget(event_id(1), ())
        assert {hit.text for hit in await one.search(query)} == {"harbour quay"}


async def test_a_common_term_scores_what_others_find(postgres_database: Database, tmp_path: Path) -> None:
    """A term of half of all memories is not searched for, unless there is no other."""
    async with gateway(postgres_database, tmp_path) as backend:
        texts = ["harbour opens", "harbour closes", "quinces ripen", "harbour quinces", "plums"]
        await backend.remember([make_extracted(make_event(n, text)) for n, text in enumerate(texts, start=1)])
        known = Statistics(1_000_000, 2.0, dict.fromkeys(terms("harbour opens"), 0.5))

        async def found(text: str) -> list[int]:
            statement = sql.search(make_query(text), Asked.of(text, None), known, "", 10, pgvector="")
            assert statement is not None
            return [number for _, number, *_ in await backend._connections.run(lambda c: c.rows(*statement), 60.0)]

        assert await found("harbour quinces") == [4, 3]
        assert await found("harbour opens") == [1]
        # 3,000 memories with each: the rarer one's are read, as both together are more than 5,000.
        shares = dict.fromkeys(terms("harbour quinces"), 0.003) | dict.fromkeys(terms("harbour"), 0.00301)
        known = Statistics(1_000_000, 2.0, shares)
        assert await found("harbour quinces") == [4, 3]
        known = Statistics(500_000, 2.0, shares)
        assert await found("harbour quinces") == [4, 3, 1, 2]
        assert sql.search(make_query("the of"), Asked.of("the of", None), known, "", 10, pgvector="") is None


@pytest.mark.parametrize(
    ("text", "question", "searched"),
    [
        ("東京タワーで会う", "東", ["東"]),
        ("El puerto abre a las seis", "¿dónde está el puerto?", ["puerto"]),
        ("getUserById fails", "user by id", ["user", "id"]),
        ("Wir treffen uns am Brückentor", "wo ist das bruckentor?", None),
    ],
)
async def test_words_of_many_languages_are_found(
    postgres_database: Database, tmp_path: Path, text: str, question: str, searched: list[str] | None
) -> None:
    """The terms are those of our own lexical index, whose tests say more."""
    assert searched is None or Asked.of(question, None).terms == searched
    backend = await opened(postgres_database, tmp_path)
    try:
        await backend.remember([*make_samples(), make_extracted(make_event(50, text))])
        assert (await backend.search(make_query(question)))[0].event_id == event_id(50)
    finally:
        await backend.close()


@pytest.mark.feature("PostgreSQL: a tenant's tables are looked for in its own schema alone")
async def test_tables_in_public_are_nobodys(postgres_database: Database, tmp_path: Path) -> None:
    """Tables of the same names in `public`, into which every tenant's connection looks, with another user's memory.
    Before the tenant has tables of its own, and with them: it is neither found, counted nor deleted."""
    model = FakeEmbedder()
    filled = await opened(postgres_database, tmp_path / "other", model, schema="another")
    await filled.remember(make_samples()[:1])
    await filled.close()
    with psycopg.connect(postgres_database.admin_url, autocommit=True) as admin:
        for name in ("memory", "model", "version", schema.vectors_of(model)):
            admin.execute(f"ALTER TABLE another.{name} SET SCHEMA public")
    backend = await opened(postgres_database, tmp_path, model)
    try:
        for mine in ([], make_samples()[1:2]):
            await backend.remember(mine)
            found = await backend.search(make_query(make_samples()[0].event.text))
            assert [hit.event_id for hit in found] == [one.event.event_id for one in mine]
            assert (await backend.describe()).items == (await backend.describe()).vectors == len(mine)
            assert [event.event_id for event, _ in await backend.events("", 10)] == [one.event.event_id for one in mine]
            assert await backend.forget(event_id(1), ()) == "absent"
    finally:
        await backend.close()
    with psycopg.connect(postgres_database.admin_url) as admin:
        assert admin.execute("SELECT count(*) FROM public.memory").fetchone() == (1,)


@pytest.mark.feature("PostgreSQL: operators and functions that another role makes in `public` are not called")
@pytest.mark.parametrize("where", ["public", "memory_fusion"])
@pytest.mark.parametrize("few", [sql.FEW, 0], ids=["a small scope", "a large scope"])
async def test_operators_of_another_role_are_not_called(
    postgres_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, few: int
) -> None:
    """They would run as the gateways' role, which may read every memory. The second lock: not even those in the schema
    of the tables are, since each statement fits an operator of PostgreSQL exactly."""
    monkeypatch.setattr(sql, "FEW", few)
    if not few:
        monkeypatch.setattr(sql, "COMMON", 1)
    if where == "public":
        set_traps(postgres_database)
    async with gateway(postgres_database, tmp_path / "a") as backend:
        await backend.remember(make_samples())
    if where != "public":
        set_traps(postgres_database, where)
    monkeypatch.setattr(Postgres, "scanned", 0)
    async with gateway(postgres_database, tmp_path / "b") as backend:
        await backend.remember([make_extracted(make_event(100, "A greyhound", speaker="Bo", place=Place("d/a", 1, 1)))])
        await backend.remember([make_extracted(make_event(101, "A whippet", place=Place("d/a", 2, 2)))])
        plain = make_query("greyhound")
        narrow = Where(kind=("fact", "event"), after=NOW - timedelta(days=9), folder=("d",), speaker=("Bo",))
        for query in (
            plain,
            make_query("greyhound", Scope(user_id="ada", audience="group")),
            replace(plain, as_of=NOW, known_at=NOW, archived=True),
            replace(plain, where=narrow),
        ):
            await backend.search(query)
        found = await backend.search(plain)
        assert {hit.event_id for hit in found} >= {event_id(4), event_id(100), event_id(101)}
        near = await backend.neighbours([hit for hit in found if hit.event_id == event_id(100)], 1)
        assert [[hit.event_id for hit in hits] for hits in near] == [[event_id(101)]]
        await backend.set_states({event_id(4): State(ended_at=NOW, ended="archived")})
        assert len(await backend.events(event_id(2), 100)) == 12
        assert await backend.forget(event_id(5), ()) == "deleted"
        await backend._fill()
        assert (await backend.describe()).vectors == 13
    assert not sprung(postgres_database)
    if where == "public":
        step_into_a_trap(postgres_database)
        assert sprung(postgres_database)


async def test_a_search_uses_the_indexes_of_words_and_of_vectors(postgres_database: Database, tmp_path: Path) -> None:
    """The index of terms and HNSW, in PostgreSQL's plan. Of so few memories it would sort all vectors."""
    with psycopg.connect(postgres_database.admin_url, autocommit=True) as admin:
        admin.execute(f"ALTER ROLE {postgres_database.role} SET enable_sort = off")
    async with gateway(postgres_database, tmp_path) as backend:
        await backend.remember([make_extracted(make_event(n, f"The heron of day {n}.")) for n in range(100, 700)])
        (vector,) = await FakeEmbedder().embed(["heron"])
        known = Statistics(1_000_000, 5.0)
        asked = Asked.of("heron", vector)
        made = sql.search(make_query("heron"), asked, known, backend._vectors, 10, pgvector=backend._pgvector)
        assert made is not None
        plan = await backend._connections.run(lambda c: c.rows(f"EXPLAIN {made[0]}", made[1]), 60.0)
        text = " ".join(line for (line,) in plan)
        assert "Index Scan on memory_terms" in text
        assert f"Index Scan using {backend._vectors}_hnsw" in text


@pytest.mark.feature("PostgreSQL: pgvector may be in any schema")
async def test_pgvector_may_be_in_any_schema(postgres: PostgreSQL, postgres_database: Database, tmp_path: Path) -> None:
    """One with a name that needs quotes, also for tables that are there; and a move is noticed by a running gateway."""
    move = (
        'CREATE SCHEMA "Vector types"; GRANT USAGE ON SCHEMA "Vector types" TO PUBLIC; '
        'ALTER EXTENSION vector SET SCHEMA "Vector types"'
    )
    async with gateway(postgres_database, tmp_path) as backend:
        await backend.remember(make_samples()[:6])
        assert len(await backend.search(make_query("greyhound"))) == 6
        postgres.execute(move, database=postgres_database.name)
        assert isinstance(await fault_of(backend), InvalidAnswer)
        assert len(await backend.search(make_query("greyhound"))) == 6
        await backend.remember(make_samples())
        assert (await backend.describe()).vectors == 12
    async with gateway(postgres_database, tmp_path, tenant="acme") as acme:
        await acme.remember(make_samples(Scope("acme")))
        assert len(await acme.search(make_query("greyhound", Scope("acme")))) == 12
    async with gateway(postgres_database, tmp_path) as backend:
        first = await asyncio.gather(*(backend.search(make_query("greyhound")) for _ in range(8)))
        assert [len(hits) for hits in first] == [12] * 8


class Held(FakeEmbedder):
    """Says in `computing` that vectors of memories are wanted, and computes them once `released`."""

    def __init__(self, synonyms: Mapping[str, str]) -> None:
        super().__init__(synonyms=synonyms)
        self.computing, self.released = asyncio.Event(), asyncio.Event()

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        if keep:
            self.computing.set()
            await self.released.wait()
        return await super().embed(texts, keep=keep)


LOST = {
    "pgvector": "DROP EXTENSION vector CASCADE; CREATE EXTENSION vector",
    "table": f"DROP TABLE memory_fusion.{schema.vectors_of(FakeEmbedder())}",
    "index": f"DROP INDEX memory_fusion.{schema.vectors_of(FakeEmbedder())}_hnsw",
}


@pytest.mark.feature("PostgreSQL: once pgvector was dropped and made again, words answer while vectors are computed")
@pytest.mark.parametrize(
    ("lost", "noticed_by"),
    [
        ("pgvector", "a question"),
        ("pgvector", "the state"),
        ("pgvector", "a restart"),
        ("table", "a question"),
        ("index", "the state"),
    ],
)
async def test_lost_vectors_are_made_again(
    postgres: PostgreSQL, postgres_database: Database, tmp_path: Path, lost: str, noticed_by: str
) -> None:
    """One question fails at most, also where the driver has prepared its statement."""
    model = Held({"dog": "greyhound"})
    model.released.set()

    async def best(backend: Postgres, text: str) -> str | None:
        return (await backend.search(make_query(text, limit=1)))[0].event_id

    async with gateway(postgres_database, tmp_path / "a", model, connections=1) as backend:
        await backend.remember(make_samples())
        for _ in range(8):  # the driver prepares a statement that it has seen five times
            assert await best(backend, "dog") == event_id(4)
        await backend.settle()
        model.computing.clear()
        model.released.clear()
        postgres.execute(*LOST[lost].split("; "), database=postgres_database.name)
        async with AsyncExitStack() as stack:
            if noticed_by == "a restart":
                await backend.close()
                backend = await stack.enter_async_context(gateway(postgres_database, tmp_path / "b", model))
            elif noticed_by == "the state":
                description = await backend.describe()
                assert description.degraded
                (note,) = description.notes
                assert note.startswith("12 memories wait for their vectors and are found by their words only: ")
                assert note.endswith("their table or its index is missing, and is made")
            else:
                assert isinstance(await fault_of(backend), InvalidAnswer | BackendUnreachable)
                assert await best(backend, "greyhound") == event_id(4)
            await model.computing.wait()
            assert await best(backend, "greyhound") == event_id(4)
            description = await backend.describe()
            assert (description.items, description.vectors, description.vectors_pending) == (12, 0, 12)
            model.released.set()
            await backend.settle()
            assert (await backend.describe()).vectors_pending == 0
            assert await best(backend, "dog") == event_id(4)


async def test_a_schema_of_pgvector_that_may_not_be_used_is_named(
    postgres: PostgreSQL, postgres_database: Database, tmp_path: Path
) -> None:
    postgres.execute("CREATE SCHEMA hidden; ALTER EXTENSION vector SET SCHEMA hidden", database=postgres_database.name)
    async with gateway(postgres_database, tmp_path) as backend:
        with pytest.raises(SettingsError, match="GRANT USAGE ON SCHEMA hidden"):
            await backend.remember(make_samples())


async def test_pgvector_is_made_outside_of_the_schema_of_the_tables(postgres: PostgreSQL, tmp_path: Path) -> None:
    """Which may be dropped, and other tenants need it as well."""
    with postgres.database(template="template0") as bare:
        postgres.execute("CREATE SCHEMA memory_fusion", database=bare.name)
        admin = replace(bare, url=bare.admin_url)
        async with gateway(admin, tmp_path) as backend:
            await backend.remember(make_samples())
            assert len(await backend.search(make_query("greyhound"))) == 12
            assert backend._pgvector == "public"


@pytest.mark.parametrize("name", ["public", "extensions", "fusion", "information_schema", "pg_temp"])
def test_a_schema_of_all_tenants_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match=f'schema = "{name}" is of all tenants: name one of your own'):
        Options(url="postgresql://fusion@db/memories", schema=name)


# Many gateways --------------------------------------------------------------------------------------------------------


@pytest.mark.feature("PostgreSQL: three gateways that start at once, and store the same memories, do not meet")
async def test_gateways_that_store_the_same_at_once(postgres_database: Database, tmp_path: Path) -> None:
    """The tables are made once, each memory is stored once, in any order of a batch."""
    async with (
        gateway(postgres_database, tmp_path / "a") as a,
        gateway(postgres_database, tmp_path / "b") as b,
        gateway(postgres_database, tmp_path / "c") as c,
    ):
        batch = make_samples()
        ids = [(one.event.event_id,) for one in batch]
        for _ in range(5):
            stored = await asyncio.gather(
                a.remember(batch), b.remember(batch[::-1]), c.remember(batch), a.remember(batch[6:])
            )
            assert stored == [ids, ids[::-1], ids, ids[6:]]
            for backend in (a, b, c):
                assert len(await backend.search(make_query(batch[0].event.text))) == 12
                description = await backend.describe()
                assert (description.items, description.vectors_pending) == (12, 0)
            forgotten = await asyncio.gather(*(x.forget_all([(i, ()) for (i,) in ids]) for x in (a, b, c)))
            assert sorted(each.count("deleted") for each in zip(*forgotten, strict=True)) == [1] * 12


@pytest.mark.feature("PostgreSQL: a memory that is forgotten while another gateway stores it is gone")
async def test_forgetting_waits_for_a_delivery_that_is_under_way(postgres_database: Database, tmp_path: Path) -> None:
    async with gateway(postgres_database, tmp_path / "a") as a, gateway(postgres_database, tmp_path / "b") as b:
        await a.remember(make_samples()[:1])
        with psycopg.connect(postgres_database.url) as slow:
            # A delivery of a third gateway: its transaction has stored the memory and is not committed.
            slow.execute("SET search_path = memory_fusion, public")
            slow.execute("SELECT pg_advisory_xact_lock_shared(%s)", (schema.locks("memory_fusion")[1],))
            slow.execute("UPDATE memory SET event_id = %s", (event_id(2),))
            forgetting = asyncio.create_task(b.forget(event_id(2), ()))
            await asyncio.to_thread(until_waiting, postgres_database)
            assert not forgetting.done()
            slow.commit()
        assert await forgetting == "deleted"
        assert (await a.describe()).items == 0


@pytest.mark.feature("PostgreSQL: each tenant has its own schema, so its vectors and word statistics are its own")
async def test_tenants_have_schemas_of_their_own(postgres_database: Database, tmp_path: Path) -> None:
    async with (
        gateway(postgres_database, tmp_path / "a") as default,
        gateway(postgres_database, tmp_path / "b", tenant="acme") as acme,
    ):
        await acme.remember(make_samples(Scope("acme")))
        assert await default.search(make_query("greyhound")) == []
        assert (await default.describe()).items == 0
        assert len(await acme.search(make_query("greyhound", Scope("acme")))) == 12
        await default.remember(make_samples()[:1])
        assert await default.forget(event_id(2), ()) == "absent"
        assert (await acme.describe()).items == 12


@pytest.mark.feature("PostgreSQL: memories of a gateway without a model get their vectors at the next look of another")
async def test_the_state_starts_to_compute_what_another_gateway_could_not(
    postgres_database: Database, tmp_path: Path
) -> None:
    model = Held({"dog": "greyhound"})
    async with gateway(postgres_database, tmp_path / "a", model) as backend:
        model.released.set()
        await backend.remember(make_samples()[:1])
        await backend.settle()
        model.computing.clear()
        model.released.clear()
        without = await opened(postgres_database, tmp_path / "b")
        await without.remember(make_samples())
        await without.close()
        assert (await backend.describe()).vectors_pending == 11
        await model.computing.wait()
        model.released.set()
        await backend.settle()
        assert (await backend.describe()).vectors_pending == 0
        assert (await backend.search(make_query("dog", limit=1)))[0].event_id == event_id(4)


# What goes wrong ------------------------------------------------------------------------------------------------------


async def fault_of(backend: Postgres, deadline_s: float = 60.0) -> Exception:
    """The error of a question, whose text and that of the description have no password."""
    with pytest.raises(FusionError) as raised:
        await backend.search(make_query("greyhound", deadline_s=deadline_s))
    return raised.value


async def test_a_refused_connection_is_unreachable(postgres_database: Database, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, never listening: the port stays ours, and refuses
        url = f"postgresql://ada@127.0.0.1:{taken.getsockname()[1]}/memories"
        async with gateway(postgres_database, tmp_path, url=url) as backend:
            error = await fault_of(backend)
            assert isinstance(error, BackendUnreachable)
            assert "connection refused" in str(error)
            description = await backend.describe()
            assert description.degraded
            assert "Fix: start PostgreSQL, or correct url" in description.notes[0]


@pytest.mark.feature("PostgreSQL: wrong password, no database, no pgvector, no TLS: errors with the fix, no secret")
async def test_errors_name_the_fix_and_no_secret(
    postgres: PostgreSQL, postgres_database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    password = str(urlsplit(postgres_database.url).password)
    (tmp_path / "wrong").write_text("s3cret-and-wrong")
    url = postgres_database.url.replace(f":{password}@", "@")
    errors = []
    for options, kind, text in (
        ({"password_file": str(tmp_path / "wrong")}, Unauthorized, "does not accept user and password"),
        ({"password_file": str(tmp_path / "missing")}, Unauthorized, "cannot read password_file"),
        ({"url": f"{url}2"}, SettingsError, "no database of that name. Fix: create it"),
        ({"url": f"{url}?sslmode=require"}, BackendUnreachable, "TLS"),
        ({"url": "postgresql://ada@nowhere.invalid/m"}, BackendUnreachable, "no such host"),
    ):
        async with gateway(postgres_database, tmp_path, **options) as backend:
            error = await fault_of(backend)
            assert isinstance(error, kind), error
            assert text in str(error)
            description = await backend.describe()
            assert description.degraded
            assert "Fix: " in description.notes[0] or "password_file" in description.notes[0]
            errors.append(f"{error!r} {description}")
    with postgres.database(template="template0") as bare:
        async with gateway(bare, tmp_path / "bare") as backend:
            with pytest.raises(SettingsError, match=r"no pgvector\. Fix: let an administrator of it run CREATE"):
                await backend.remember(make_samples())
    assert password not in f"{errors} {caplog.text}"
    assert "s3cret" not in f"{errors} {caplog.text}"


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({}, "needs url or url_env"),
        ({"url": "postgresql://a/b", "url_env": "DATABASE_URL"}, "needs url or url_env"),
        ({"url": "postgresql://ada:s3cret@db/m"}, "url must have no password"),
        ({"url": "postgresql://db/m?password=s3cret"}, "url must have no password"),
        ({"url": "mysql://ada@db/s3cret"}, "url is no address of PostgreSQL"),
        ({"url": "postgresql://ada@db/m?sslmod=s3cret"}, "url is no address of PostgreSQL"),
        ({"url": "postgresql://ada@db/m", "password_env": "A", "password_file": "b"}, "not both"),
        ({"url": "postgresql://ada@db/m", "schema": "a; drop"}, "schema is a name"),
        ({"url": "postgresql://ada@db/m", "connections": 0}, "connections = 0"),
        ({"url_env": "NOT_SET_ANYWHERE"}, "the environment has no NOT_SET_ANYWHERE"),
        (
            {"url": "postgresql://ada@db/m", "password_env": "NOT_SET_ANYWHERE"},
            "the environment has no NOT_SET_ANYWHERE",
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)
def test_wrong_options_are_refused_with_the_fix(options: dict[str, object], fault: str) -> None:
    with pytest.raises(FusionError, match=fault) as raised:
        Postgres.verify(options)
    assert "s3cret" not in str(raised.value)


def test_verify_names_the_address() -> None:
    assert Postgres.verify({"url": "postgresql://ada@a,b:6000/m"}) == "a:5432,b:6000/m, without a password"
    assert Postgres.verify({"url": "postgresql:///m?host=/run/pg"}) == "/run/pg:5432/m, without a password"


@pytest.mark.feature("PostgreSQL: connections that a restart or a failover ended are replaced within the question")
async def test_a_restart_is_not_noticed_by_the_next_question(tmp_path: Path) -> None:
    with PostgreSQL(tmp_path / "primary") as server, server.database() as database:
        async with gateway(database, tmp_path) as backend:
            await backend.remember(make_samples())
            assert len(await backend.search(make_query("greyhound"))) == 12
            server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE 'test%'")
            assert len(await backend.search(make_query("greyhound"))) == 12
            for end in ("stop", "crash"):
                server.command(end)
                assert isinstance(await fault_of(backend), BackendUnreachable)
                server.command("start")
                assert len(await backend.search(make_query("greyhound"))) == 12
                assert await backend.forget(event_id(1), ()) == "deleted"
                await backend.remember(make_samples()[:1])


@pytest.mark.feature("PostgreSQL: a read-only replica answers questions, and refuses memories with the fix")
async def test_a_replica_answers_and_does_not_store(tmp_path: Path) -> None:
    with PostgreSQL(tmp_path / "primary") as server, server.database() as database:
        async with gateway(database, tmp_path) as backend:
            await backend.remember(make_samples())
        with PostgreSQL(tmp_path / "standby", primary=server) as standby:
            port, other = urlsplit(database.url).port, urlsplit(standby.admin_url).port
            replica = replace(database, url=database.url.replace(f":{port}/", f":{other}/"))
            async with gateway(replica, tmp_path) as backend:
                assert len(await backend.search(make_query("greyhound"))) == 12
                with pytest.raises(BackendUnreachable, match=r"a replica that only reads\. Fix: name the primary"):
                    await backend.remember(make_samples(first=100))
            hosts = f"127.0.0.1:{other},127.0.0.1:{port}"
            url = options_of(database, tmp_path)["url"]
            both = str(url).replace(f"127.0.0.1:{port}", hosts) + "?target_session_attrs=read-write"
            async with gateway(database, tmp_path, url=both) as backend:
                await backend.remember(make_samples(first=100))
                assert (await backend.describe()).items == 24


async def test_all_connections_in_use_name_the_option(postgres_database: Database, tmp_path: Path) -> None:
    async with gateway(postgres_database, tmp_path, connections=1) as backend:
        await backend.remember(make_samples())
        lent, give_back = asyncio.Event(), asyncio.Event()

        async def hold(_: Connection) -> None:
            lent.set()
            await give_back.wait()

        holding = asyncio.create_task(backend._connections.run(hold, 60.0))
        await lent.wait()
        error = await fault_of(backend, deadline_s=0.05)
        assert isinstance(error, BackendTimeout)
        assert "all 1 connections were in use" in str(error)
        assert "Fix: raise connections" in str(error)
        give_back.set()
        await holding
        assert len(await backend.search(make_query("greyhound"))) == 12


class Ahead(asyncio.SelectorEventLoop):
    """A loop whose time can be put ahead."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s

    async def pass_s(self, seconds: float) -> None:
        """Put the time ahead, and let the others have some turns."""
        self.ahead_s += seconds
        for _ in range(10):
            await asyncio.sleep(0)


@pytest.mark.parametrize("default", ["client_encoding = 'LATIN1'", "default_transaction_isolation = 'serializable'"])
async def test_defaults_of_the_role_change_nothing(
    postgres: PostgreSQL, postgres_database: Database, tmp_path: Path, default: str
) -> None:
    postgres.execute(f"alter role {postgres_database.role} set {default}")
    connections = Connections(read(Options, Opening("postgres", tmp_path, options_of(postgres_database, tmp_path))))
    shown = "select current_setting('client_encoding'), current_setting('transaction_isolation')"
    assert await connections.run(lambda one: one.rows(shown), 60.0) == [("UTF8", "read committed")]
    await connections.close()


@pytest.mark.feature("PostgreSQL: connections that nobody has used for two minutes are closed")
def test_unused_connections_are_closed(postgres_database: Database, tmp_path: Path) -> None:
    """The one that is used again stays for as long again, and after all are closed there is a new one."""

    async def check(loop: Ahead) -> None:
        connections = Connections(read(Options, Opening("postgres", tmp_path, options_of(postgres_database, tmp_path))))
        both = asyncio.Barrier(2)

        async def at_once(connection: Connection) -> Connection:
            await both.wait()
            return connection

        async def alone(connection: Connection) -> Connection:
            return connection

        two = await asyncio.gather(*(connections.run(at_once, 60.0) for _ in range(2)))
        await loop.pass_s(IDLE_S - 30)
        used = await connections.run(alone, 60.0)
        assert used in two
        assert not any(one.raw.closed for one in two)
        await loop.pass_s(60)
        assert [one.raw.closed for one in two] == [one is not used for one in two]
        await loop.pass_s(IDLE_S - 30)
        assert all(one.raw.closed for one in two)
        assert (new := await connections.run(alone, 60.0)) not in two
        await connections.close()
        assert new.raw.closed
        assert asyncio.all_tasks() == {asyncio.current_task()}

    loop = Ahead()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(check(loop))


async def until_ended(database: Database, pid: int) -> None:
    """Return once the server has ended this session."""
    async with asyncio.timeout(20), await psycopg.AsyncConnection.connect(database.admin_url, autocommit=True) as admin:
        there = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
        while True:
            if await (await admin.execute(there, (pid,))).fetchone() == (0,):
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("over", ["TCP", "a socket"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.feature("PostgreSQL: a gateway that stands still while it stores loses its locks, and the others go on")
async def test_a_gateway_that_stands_still_keeps_no_lock(
    postgres_database: Database, tmp_path: Path, over: str, rows: int
) -> None:
    """Whether it has stored one row or several: after a pipeline the server counts no time by itself."""
    async with gateway(postgres_database, tmp_path) as backend:
        await backend.remember(make_samples())
    chosen = options_of(postgres_database, tmp_path)
    if over == "a socket":
        chosen["url"] = re.sub(":[^:@/]+@", "@", postgres_database.socket_url)
    connections = Connections(read(Options, Opening("postgres", tmp_path, chosen)), stalled_s=0.5)
    stood: list[int] = []

    async def store(connection: Connection) -> None:
        async with connection.transaction():
            await connection.rows("SELECT pg_advisory_xact_lock_shared(1)")
            await connection.many("INSERT INTO model VALUES (%s, 'x', 1)", [(str(n),) for n in range(rows)])
            if not stood:
                stood.append(connection.raw.info.backend_pid)
                await until_ended(postgres_database, stood[0])

    try:
        await connections.run(store, 60.0)
        stored = await connections.run(lambda one: one.rows("SELECT count(*) FROM model WHERE identity = 'x'"), 60.0)
        assert stored == [(rows,)]
    finally:
        await connections.close()


@pytest.mark.feature("PostgreSQL: from version 17 on, no transaction of a gateway is longer than its work may take")
async def test_a_transaction_that_never_ends_is_ended(postgres_database: Database, tmp_path: Path) -> None:
    """Also one in which no time is counted as idle. What works for as long as it may is not ended."""
    connections = Connections(read(Options, Opening("postgres", tmp_path, options_of(postgres_database, tmp_path))))
    limits = "SELECT current_setting('statement_timeout'), current_setting('transaction_timeout')"
    assert await connections.run(lambda one: one.rows(limits), WRITE_S) == [("32s", "62s")]
    assert await connections.run(lambda one: one.rows(limits), 60.0) == [("64s", "94s")]
    kept = "SELECT current_setting('tcp_keepalives_idle'), current_setting('idle_in_transaction_session_timeout')"
    assert await connections.run(lambda one: one.rows(kept), 60.0) == [("15", "30s")]
    await connections.close()


@pytest.mark.feature("PostgreSQL: a slow query ends at its deadline, here and in the server, and the next one works")
async def test_a_slow_query_ends_at_the_deadline(postgres_database: Database, tmp_path: Path) -> None:
    async with gateway(postgres_database, tmp_path, connections=1) as backend:
        await backend.remember(make_samples())
        with psycopg.connect(postgres_database.url) as locking:
            locking.execute("LOCK TABLE memory_fusion.memory IN ACCESS EXCLUSIVE MODE")
            assert isinstance(await fault_of(backend, deadline_s=0.1), BackendTimeout)
            locking.rollback()
        assert len(await backend.search(make_query("greyhound"))) == 12


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no process can be stopped here")
async def test_a_server_that_hangs_does_not_hold_up_the_answer(postgres_database: Database, tmp_path: Path) -> None:
    """Its processes are stopped, so that they do not even read that the query is cancelled."""
    async with gateway(postgres_database, tmp_path) as backend:
        await backend.remember(make_samples())
        with psycopg.connect(postgres_database.admin_url, autocommit=True) as admin:
            pids = admin.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()",
                (postgres_database.name,),
            ).fetchall()
        try:
            for (pid,) in pids:
                os.kill(pid, signal.SIGSTOP)
            assert isinstance(await fault_of(backend, deadline_s=0.2), BackendTimeout)
            assert backend._connections._running  # the work still waits to be cancelled
        finally:
            for (pid,) in pids:
                os.kill(pid, signal.SIGCONT)
        assert len(await backend.search(make_query("greyhound"))) == 12


async def test_what_is_not_postgres_is_an_error_of_ours(postgres_database: Database, tmp_path: Path) -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(8)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(other, "127.0.0.1", 0)
    url = f"postgresql://ada@127.0.0.1:{server.sockets[0].getsockname()[1]}/m"
    try:
        async with gateway(postgres_database, tmp_path, url=url) as backend:
            assert isinstance(await fault_of(backend), BackendUnreachable | InvalidAnswer)
    finally:
        server.close()


async def test_tables_of_a_newer_version_are_left_alone(postgres_database: Database, tmp_path: Path) -> None:
    async with gateway(postgres_database, tmp_path) as backend:
        await backend.remember(make_samples())
        with psycopg.connect(postgres_database.url) as newer:
            newer.execute("UPDATE memory_fusion.version SET number = 99")
        async with gateway(postgres_database, tmp_path) as older:
            with pytest.raises(StoreDamaged, match="newer version of memory-fusion"):
                await older.remember(make_samples(first=100))


async def test_a_dropped_schema_is_made_again_by_the_next_delivery(postgres_database: Database, tmp_path: Path) -> None:
    """`count` then says that it is empty, which makes a gateway deliver everything again."""
    async with gateway(postgres_database, tmp_path) as backend:
        assert await backend.count() == 0
        await backend.remember(make_samples())
        assert await backend.count() == 12
        assert len(await backend.search(make_query("greyhound"))) == 12
        with psycopg.connect(postgres_database.url) as other:
            other.execute("DROP SCHEMA memory_fusion CASCADE")
        for _ in range(2):
            assert "tables are gone" in str(await fault_of(backend))
            assert (await backend.describe()).degraded
        assert await backend.count() == 0
        await backend.remember(make_samples())
        assert (await backend.describe()).items == 12


@pytest.mark.parametrize("lost", ["memory", "memory, model", "memory, vectors"])
@pytest.mark.feature(
    "PostgreSQL: a missing table of memories is a fault until a delivery makes it, and never an answer"
)
async def test_a_missing_table_is_a_fault_until_it_is_made(
    postgres_database: Database, tmp_path: Path, lost: str
) -> None:
    """By three gateways: one that looks, a new one, and one that stores, which has to find out. Vectors that are left
    are not those of the new memories with the same numbers."""
    async with gateway(postgres_database, tmp_path) as looking, gateway(postgres_database, tmp_path) as storing:
        await looking.remember(make_samples())
        await storing.remember(make_samples())
        with psycopg.connect(postgres_database.url) as other:
            names = lost.replace("vectors", looking._vectors).split(", ")
            for name in names:
                other.execute(f"DROP TABLE memory_fusion.{name} CASCADE")
        async with gateway(postgres_database, tmp_path) as new:
            for backend in (looking, new, looking, new):
                error = await fault_of(backend)
                assert isinstance(error, BackendUnreachable)
                assert "the tables are gone" in str(error)
                description = await backend.describe()
                assert description.degraded
                assert "the tables are gone" in description.notes[0]
                assert await backend.count() == 0
            one = make_extracted(make_event(100, "The greyhound sleeps."))
            with pytest.raises(BackendUnreachable, match="the tables are gone"):
                await storing.remember([one])
            await storing.remember([one])
            for backend in (looking, new, storing):
                description = await backend.describe()
                assert (description.items, description.vectors, description.degraded) == (1, 1, False)
                assert [hit.event_id for hit in await backend.search(make_query("greyhound"))] == [event_id(100)]


async def test_a_missing_table_of_models_is_made_again(postgres_database: Database, tmp_path: Path) -> None:
    async with gateway(postgres_database, tmp_path) as backend:
        await backend.remember(make_samples())
    with psycopg.connect(postgres_database.url) as other:
        other.execute("DROP TABLE memory_fusion.model")
    async with gateway(postgres_database, tmp_path, FakeEmbedder(identity="other@1")) as backend:
        await backend.remember(make_samples(first=100))
        await backend.settle()
        assert (await backend.describe()).vectors == 24


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (errors.DiskFull("secret text"), StoreFull, "no space left"),
        (errors.TooManyConnections("secret text"), BackendUnreachable, "raise its max_connections"),
        (errors.InsufficientPrivilege("secret text"), Unauthorized, "GRANT CREATE"),
        (errors.QueryCanceled("secret text"), BackendTimeout, "time limit"),
        (errors.DeadlockDetected("secret text"), BackendTimeout, "busy"),
        (errors.IndexCorrupted("secret text"), BackendUnreachable, "damaged"),
        (errors.UniqueViolation("secret text"), InvalidAnswer, "23505"),
        (errors.IdleInTransactionSessionTimeout("secret text"), BackendUnreachable, "25P03"),
        (psycopg.OperationalError("secret text"), BackendUnreachable, "the connection was lost"),
        (psycopg.OperationalError('certificate file "secret" does not exist'), SettingsError, "correct sslrootcert"),
        (errors.UndefinedTable("secret text"), BackendUnreachable, "tables are gone"),
        (ValueError("secret text"), InvalidAnswer, "not PostgreSQL's"),
    ],
)
def test_an_error_says_what_and_not_which_data(error: Exception, kind: type[Exception], text: str) -> None:
    made = as_backend_error(error, "db:5432/m")
    assert isinstance(made, kind)
    assert text in str(made)
    assert "db:5432/m" in str(made)
    assert "secret" not in str(made)
