"""The same promises of every real database: ArcadeDB always, Neo4j by `make test-neo4j`, Memgraph marked `live`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import replace
from math import sqrt
from pathlib import Path
from typing import ClassVar

import pytest

from adapters.bolt.dialects import MEMGRAPH, NEO4J, Dialect, Schema, TextIndex, VectorIndex, indexable, searchable
from adapters.bolt.driver import Bolt, Run
from adapters.bolt.options import Server
from fusion.errors import BackendError, BackendUnreachable, InvalidAnswer, SettingsError, Unauthorized
from tests.bolt.servers import CONNECT_MS, ArcadeDB, arcade_at, empty, memgraph_at_hand, start_arcade

LONG = 60.0
VECTORS = VectorIndex("thing_vector", "Thing", "embedding", 2)
TEXTS = TextIndex("thing_words", "Thing", "words")
SCHEMA = Schema([("Thing", "id")], [("Thing", "kind")], [("NEAR", "since")], vectors=[VECTORS], texts=[TEXTS])

HOSTILE = (
    '"]->(n) DETACH DELETE n //',
    "`) DETACH DELETE n //",
    "``Thing`` {id: 1}",
    "'; MATCH (n) DETACH DELETE n; //",
    "$id {{x}} ${jndi:x}",
    "\\u0060 \\' \\",
    "Zoë 東京 🤷‍♂️",
    "x" * 10_000,
)


class RealDatabase(ABC):
    dialect: ClassVar[Dialect]
    guards_reads: ClassVar[bool] = True
    """refuses to write in a read transaction"""

    @abstractmethod
    @pytest.fixture
    def server(self) -> Server: ...

    @pytest.fixture
    async def bolt(self, server: Server) -> AsyncIterator[Bolt]:
        opened = Bolt(server, self.dialect)
        await empty(opened)
        await opened.define(SCHEMA, LONG)
        yield opened
        await empty(opened)
        await opened.close()

    async def test_the_schema_can_be_defined_twice(self, bolt: Bolt) -> None:
        """Every start of a gateway does."""
        indexes = await bolt.indexes(LONG)
        await bolt.define(SCHEMA, LONG)
        assert await bolt.indexes(LONG) == indexes

    async def test_an_id_is_there_once(self, bolt: Bolt) -> None:
        """A second node of one id is refused, and merging finds the first."""
        await bolt.write("CREATE (:Thing {id: 'a'})", {}, LONG)
        with pytest.raises(InvalidAnswer, match="Constraint"):
            await bolt.write("CREATE (:Thing {id: 'a'})", {}, LONG)
        await bolt.write("UNWIND $rows AS row MERGE (t:Thing {id: row.id}) SET t += row.more", {
            "rows": [{"id": "a", "more": {"kind": "x"}}, {"id": "b", "more": {"kind": "y"}}],
        }, LONG)  # fmt: skip
        rows = await bolt.read("MATCH (t:Thing) RETURN t.id AS id, t.kind AS kind ORDER BY id", {}, LONG)
        assert rows == [{"id": "a", "kind": "x"}, {"id": "b", "kind": "y"}]

    @pytest.mark.feature("Bolt: Cypher, backticks and names of 10 kB are only text, on real databases")
    @pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name[:16]))
    async def test_a_hostile_name_is_only_text(self, bolt: Bolt, name: str) -> None:
        """Cypher, backticks, 10 kB: stored as they are and found again, by their words too; nothing else is touched."""
        await bolt.write("CREATE (:Thing {id: 'bystander', words: 'harbour'})", {}, LONG)
        values = {"id": indexable(name), "name": name}
        await bolt.write("MERGE (t:Thing {id: $id}) SET t.words = $name", values, LONG)
        assert await bolt.read("MATCH (t:Thing {id: $id}) RETURN t.words AS w", values, LONG) == [{"w": name}]
        if searchable(name):
            found = f"{self.dialect.matching(TEXTS)} RETURN node.id AS id"
            for beside in ("", " harbour", " NOT harbour"):  # a parser of operators would exclude it by NOT
                rows = await bolt.read(found, {"words": searchable(f"{name}{beside}"), "k": 5}, LONG)
                assert values["id"] in {row["id"] for row in rows}
                assert ("bystander" in {row["id"] for row in rows}) == bool(beside)
        assert await bolt.read("MATCH (t:Thing) RETURN count(t) AS n", {}, LONG) == [{"n": 2}]

    @pytest.mark.feature("Bolt: a transaction is applied completely or not at all")
    async def test_all_or_nothing(self, bolt: Bolt) -> None:
        """What fails in its second statement has not done its first."""

        async def work(run: Run) -> None:
            await run("CREATE (:Thing {id: 'a'})")
            await run("this is no Cypher")

        with pytest.raises(BackendError):
            await bolt.writing(work, LONG)
        assert await bolt.read("MATCH (t:Thing) RETURN t.id AS id", {}, LONG) == []

    @pytest.mark.feature("Bolt: managed transactions; in reads the server refuses writes")
    async def test_a_read_cannot_write(self, bolt: Bolt) -> None:
        """The server itself holds a query to what it was asked for."""
        if not self.guards_reads:
            pytest.skip("this server does not look at the mode of a transaction")
        with pytest.raises(BackendError):
            await bolt.read("CREATE (:Thing {id: 'a'})", {}, LONG)
        assert await bolt.read("MATCH (t:Thing) RETURN t.id AS id", {}, LONG) == []

    @pytest.mark.feature("Bolt: two conflicting writers retry until the deadline, and lose nothing")
    async def test_writers_that_meet_lose_nothing(self, bolt: Bolt) -> None:
        """20 at once add 1: conflicts are reported as transient, and each is retried until it succeeds."""
        await bolt.write("CREATE (:Thing {id: 'a', count: 0})", {}, LONG)
        await asyncio.gather(
            *(bolt.write("MATCH (t:Thing {id: 'a'}) SET t.count = t.count + 1", {}, LONG) for _ in range(20))
        )
        assert await bolt.read("MATCH (t:Thing {id: 'a'}) RETURN t.count AS n", {}, LONG) == [{"n": 20}]

    @pytest.mark.row("A003", "Bolt: a similarity is a cosine, whatever the database's scale")
    async def test_a_similarity_is_a_cosine(self, bolt: Bolt) -> None:
        """Whatever scale the database has: 1, .6, .1 (cos 84.26°), 0 and -1, to four digits."""
        around = {"same": 1.0, "near": 0.6, "far": 0.1, "apart": 0.0, "against": -1.0}
        rows = [{"id": name, "v": [cos, sqrt(1 - cos * cos)]} for name, cos in around.items()]
        await bolt.write("UNWIND $rows AS row CREATE (:Thing {id: row.id, embedding: row.v})", {"rows": rows}, LONG)
        found = await bolt.read(
            f"{self.dialect.nearest(VECTORS)} RETURN node.id AS id, similarity ORDER BY similarity DESC",
            {"vector": [1.0, 0.0], "k": 5},
            LONG,
        )
        assert {row["id"]: round(row["similarity"], 4) for row in found} == around
        assert [row["id"] for row in found] == list(around)
        exact = await bolt.read(
            f"MATCH (t:Thing) WHERE t.id IN $ids RETURN t.id AS id, {self.dialect.cosine('t', VECTORS)} AS cosine",
            {"ids": ["near"], "vector": [1.0, 0.0]},
            LONG,
        )
        assert [(row["id"], round(row["cosine"], 4)) for row in exact] == [("near", 0.6)]

    async def test_the_nearest_only(self, bolt: Bolt) -> None:
        """`$k` bounds what is looked at."""
        rows = [{"id": str(n), "v": [1.0, n / 10]} for n in range(10)]
        await bolt.write("UNWIND $rows AS row CREATE (:Thing {id: row.id, embedding: row.v})", {"rows": rows}, LONG)
        values = {"vector": [1.0, 0.0], "k": 3}
        found = await bolt.read(f"{self.dialect.nearest(VECTORS)} RETURN node.id AS id ORDER BY id", values, LONG)
        assert [row["id"] for row in found] == ["0", "1", "2"]

    async def test_words_are_found(self, bolt: Bolt) -> None:
        """Any of the words, in any case; what has more of them comes first."""
        rows = [
            {"id": "both", "words": "Kestrel encrypts backups"},
            {"id": "one", "words": "Backups, every night, of everything that there is"},
            {"id": "none", "words": "Marta prefers peppermint"},
        ]
        await bolt.write("UNWIND $rows AS row CREATE (:Thing {id: row.id, words: row.words})", {"rows": rows}, LONG)
        found = await bolt.read(
            f"{self.dialect.matching(TEXTS)} RETURN node.id AS id, score ORDER BY score DESC",
            {"words": searchable("KESTREL AND backups) OR -x*"), "k": 5},
            LONG,
        )
        assert [row["id"] for row in found] == ["both", "one"]

    async def test_two_hops(self, bolt: Bolt) -> None:
        """The pattern that all of them know: from a thing to what is at most two edges away."""
        await bolt.write(
            "UNWIND $pairs AS pair MERGE (a:Thing {id: pair[0]}) MERGE (b:Thing {id: pair[1]}) MERGE (a)-[:NEAR]->(b)",
            {"pairs": [["a", "b"], ["c", "b"], ["c", "d"]]},
            LONG,
        )
        rows = await bolt.read(
            "MATCH p = (:Thing {id: 'a'})-[*1..2]-(t:Thing) RETURN t.id AS id, length(p) AS hops ORDER BY id", {}, LONG
        )
        assert rows == [{"id": "b", "hops": 1}, {"id": "c", "hops": 2}]


class TestArcadeDB(RealDatabase):
    dialect = ArcadeDB()
    guards_reads = False

    @pytest.fixture
    def server(self, arcade: str, tmp_path: Path) -> Server:
        return arcade_at(arcade, tmp_path)

    async def test_a_wrong_password(self, server: Server, tmp_path: Path) -> None:
        """Refused by a real server, and told as what it is."""
        (tmp_path / "wrong").write_text("wrong")
        bolt = Bolt(replace(server, password_file=str(tmp_path / "wrong")), self.dialect)
        with pytest.raises(Unauthorized):
            await bolt.read("RETURN 1", {}, LONG)
        await bolt.close()

    @pytest.mark.feature("Bolt: the pool recovers when the server restarts, and after `kill -9` of a real one")
    async def test_a_killed_server_comes_back(self, tmp_path: Path) -> None:
        """`kill -9` and a new start on the same port: the pool finds it, and what was acknowledged is there."""
        first = start_arcade(tmp_path / "server")
        bolt = Bolt(arcade_at(first.url, tmp_path), self.dialect)
        await bolt.define(SCHEMA, LONG)
        await asyncio.gather(*(bolt.write("CREATE (:Thing {id: $n})", {"n": str(n)}, LONG) for n in range(5)))
        first.kill()
        with pytest.raises(BackendUnreachable):
            await bolt.read("RETURN 1", {}, LONG)
        second = start_arcade(tmp_path / "server", int(first.url.rpartition(":")[2]))
        rows = await bolt.read("MATCH (t:Thing) RETURN count(t) AS n", {}, LONG)
        await bolt.close()
        second.stop()
        assert rows == [{"n": 5}]


@pytest.mark.feature("Bolt: Neo4j's vector and text indexes and constraints, on a real Neo4j (`make test-neo4j`)")
@pytest.mark.neo4j
class TestNeo4j(RealDatabase):
    dialect = NEO4J

    @pytest.fixture
    def server(self, neo4j_url: str) -> Server:
        return Server(neo4j_url, connect_ms=CONNECT_MS)

    @pytest.mark.row("A080", "Bolt: an index of another size is an error; vectors of two models are never mixed")
    async def test_an_index_of_another_size_is_reported(self, bolt: Bolt) -> None:
        """Vectors of two models are never mixed."""
        other = Schema(vectors=[replace(VECTORS, dimensions=3)])
        with pytest.raises(SettingsError, match="thing_vector holds 2 dimensions"):
            await bolt.define(other, LONG)

    async def test_no_such_database(self, server: Server) -> None:
        """A name that the server does not know is a matter of the configuration."""
        bolt = Bolt(replace(server, database="elsewhere"), self.dialect)
        with pytest.raises(SettingsError, match="option database"):
            await bolt.read("RETURN 1", {}, LONG)
        await bolt.close()


@pytest.mark.live
class TestMemgraph(RealDatabase):
    """MEMGRAPH_PASSWORD=… docker compose -f compose/memgraph.yaml up, then pytest -m live with the same variable."""

    dialect = MEMGRAPH

    @pytest.fixture
    def server(self) -> Server:
        return memgraph_at_hand()
