"""Three gateways at once on one journal and one store that is a server: each store takes, finds and forgets each once.

PostgreSQL, ArcadeDB and Neo4j are real. Qdrant, Mem0 and Cognee are servers of ours with their routes and shapes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest

from adapters.bolt.dialects import NEO4J
from adapters.bolt.driver import Bolt
from adapters.bolt.options import Server
from adapters.cortex import Cortex
from adapters.cortex.bolt import BoltGraph
from adapters.cortex.options import Options
from fusion.contract import Opening, Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from tests.adapters.mem0.test_server import Mem0Behind
from tests.bolt.servers import CONNECT_MS, ArcadeDB, arcade_at, empty
from tests.chaos import Chaos
from tests.cognee.server import Served
from tests.fakes import FakeEmbedder
from tests.faults.home import HOUR_MS
from tests.patience import load
from tests.postgres.servers import Database
from tests.qdrant_server import Qdrant

GATEWAYS = "abc"
ADA = Scope(user_id="ada", audience="group")
WORDS = "heron lantern copper meadow violin harbour saddle thimble quartz barley ferry gander".split()
TEXTS = [f"The {word} -> is_in -> room {number}" for number, word in enumerate(WORDS)]
"""in Cognee's server these are relations; each has a word of its own"""


@dataclass
class Store:
    """The settings of a store, and what its server has of our texts, each with how often."""

    table: Mapping[str, object]
    held: Callable[[], Awaitable[Counter[str]]]


class Fake:
    """Opens the embedder."""

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, object]) -> FakeEmbedder:
        return FakeEmbedder()


class CortexOnArcade(Cortex):
    """The cortex with ArcadeDB's dialect, which no setting names."""

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        server = arcade_at(str(opening.options["url"]), opening.folder)
        options = Options()
        return cls(BoltGraph(Bolt(server, ArcadeDB()), options, FakeEmbedder()), options)


@asynccontextmanager
async def qdrant(folder: Path, database: Database, arcade: str) -> AsyncIterator[Store]:
    async with Qdrant() as server:

        async def held() -> Counter[str]:
            (collection,) = server.client.get_collections().collections
            points, _ = server.client.scroll(collection.name, limit=1000)
            return texts_in(str(point.payload) for point in points)

        yield Store({"adapter": "adapters.qdrant:Qdrant", "url": server.url}, held)


@asynccontextmanager
async def postgres(folder: Path, database: Database, arcade: str) -> AsyncIterator[Store]:
    async def held() -> Counter[str]:
        async with await psycopg.AsyncConnection.connect(database.admin_url) as db:
            found = await db.execute(
                "select schemaname from pg_tables where tablename = 'memory' and schemaname not in "
                "(select schema from fusion.tenant)"
            )
            ((schema,),) = await found.fetchall()
            rows = await (await db.execute(f"select text from {schema}.memory")).fetchall()
        return texts_in(row[0] for row in rows)

    yield Store({"adapter": "adapters.postgres:Postgres", "url_env": "STORE_URL"}, held)


@asynccontextmanager
async def cortex(folder: Path, database: Database, arcade: str) -> AsyncIterator[Store]:
    async with over_bolt(Bolt(arcade_at(arcade, folder), ArcadeDB())) as held:
        yield Store({"adapter": "tests.gateway.test_shared_servers:CortexOnArcade", "url": arcade}, held)


@asynccontextmanager
async def over_bolt(bolt: Bolt) -> AsyncIterator[Callable[[], Awaitable[Counter[str]]]]:
    """What a graph database that is empty before and after has of our texts."""
    await empty(bolt)

    async def held() -> Counter[str]:
        rows = await bolt.read("MATCH (n) WHERE n.text IS NOT NULL RETURN n.text AS text", {}, 60.0)
        return texts_in(row["text"] for row in rows)

    yield held
    await empty(bolt)
    await bolt.close()


@asynccontextmanager
async def mem0(folder: Path, database: Database, arcade: str) -> AsyncIterator[Store]:
    async with Mem0Behind(folder / "library", "2") as server:

        async def held() -> Counter[str]:
            points, _ = server.client.scroll("mem0", limit=1000)
            return texts_in(str(point.payload) for point in points)

        yield Store({"adapter": "adapters.mem0:Mem0Server", "url": server.url}, held)


@asynccontextmanager
async def cognee(folder: Path, database: Database, arcade: str) -> AsyncIterator[Store]:
    served = Served()
    password = folder / "password"
    password.write_text(served.password, encoding="utf-8")
    async with Chaos(behaviour=served) as server:

        async def held() -> Counter[str]:
            return texts_in(document.text for documents in served.datasets.values() for document in documents.values())

        yield Store(
            {
                "adapter": "adapters.cognee:Cognee",
                "url": server.url,
                "dataset": "memory",
                "bound": {"user_id": "ada"},
                "user": served.user,
                "password_file": str(password),
            },
            held,
        )


def texts_in(said: Any) -> Counter[str]:
    """How many of these have each of our texts."""
    return Counter(text for one in said for text in TEXTS if text in one)


@pytest.mark.feature(
    "many gateways: three at once share PostgreSQL, Qdrant, a cortex over Bolt, Mem0's server and Cognee's, which hold "
    "each memory once"
)
@pytest.mark.parametrize("opened", [postgres, qdrant, cortex, mem0, cognee], ids=lambda opened: opened.__name__)
async def test_three_gateways_share_a_server(
    opened: Any, tmp_path: Path, postgres_database: Database, arcade: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They open an empty server together; one writes a memory, and another forgets it."""
    monkeypatch.setenv("STORE_URL", postgres_database.url)
    async with opened(tmp_path, postgres_database, arcade) as store:
        await three_gateways(store, tmp_path, postgres_database)


@pytest.mark.feature("many gateways: three at once share a cortex in a real Neo4j (`make test-neo4j`)")
@pytest.mark.neo4j
async def test_three_gateways_share_a_neo4j(tmp_path: Path, postgres_database: Database, neo4j_url: str) -> None:
    async with over_bolt(Bolt(Server(neo4j_url, connect_ms=CONNECT_MS), NEO4J)) as held:
        table = {"adapter": "adapters.cortex:Cortex", "url": neo4j_url, "store": "neo4j"}
        await three_gateways(Store(table, held), tmp_path, postgres_database)


async def three_gateways(store: Store, tmp_path: Path, postgres_database: Database) -> None:
    async with AsyncExitStack() as stack:
        table = {"deadline_ms": HOUR_MS, **store.table}

        def gateway(name: str) -> Any:
            settings = load(
                home=tmp_path / name,
                backends_only=True,
                embedder={"adapter": "tests.gateway.test_shared_servers:Fake"},
                database={"url": postgres_database.url},
                backends={"store": table},
            )
            return stack.enter_async_context(Gateway.open(settings))

        gateways: list[Gateway] = await asyncio.gather(*map(gateway, GATEWAYS))
        kept = await asyncio.gather(
            *(
                gateways[number % len(gateways)].remember([NewMemory(text, scope=ADA, kind="fact")])
                for number, text in enumerate(TEXTS)
            )
        )
        await asyncio.gather(*(one.settle() for one in gateways))
        assert [await one.deliverer.backlog() for one in gateways] == [{}] * 3, gateways[0].deliverer.faults
        assert await store.held() == Counter(TEXTS)
        for one in gateways:
            answers = [await one.fuse(text, scope=ADA) for text in TEXTS]
            assert [text for text, answer in zip(TEXTS, answers, strict=True) if text not in answer.block] == []

        refs = [one[0].ref for one in kept]
        forgotten, left = refs[::2], TEXTS[1::2]
        await asyncio.gather(
            *(gateways[(number + 1) % len(gateways)].forget(ref, ADA) for number, ref in enumerate(forgotten))
        )
        await asyncio.gather(*(one.settle() for one in gateways))
        assert await store.held() == Counter(left)
        for one in gateways:
            answers = [await one.fuse(text, scope=ADA) for text in TEXTS]
            assert not [text for answer in answers for text in TEXTS[::2] if text in answer.block]
