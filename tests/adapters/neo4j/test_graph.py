"""Somebody's knowledge graph as a backend: on a real ArcadeDB always, on a Neo4j by `make test-neo4j`, and on a server
that says Memgraph's words, and every fault, on order."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from adapters.bolt.dialects import MEMGRAPH, NEO4J, Dialect, Schema, TextIndex, VectorIndex
from adapters.bolt.driver import Bolt
from adapters.bolt.options import Server
from adapters.neo4j import Neo4j, Options
from adapters.neo4j.cypher import Cypher
from adapters.neo4j.graph import fused
from adapters.options import build
from fusion.contract import Backend, Extracted, Fact, Hit, Opening, PartialHits, Query, Scope, Where
from fusion.errors import (
    BackendTimeout,
    BackendUnreachable,
    FusionError,
    InvalidAnswer,
    SettingsError,
    Unauthorized,
)
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from tests.backend_contract import BackendContract, make_query, opening
from tests.bolt.servers import CONNECT_MS, ArcadeDB, arcade_at, empty, memgraph_at_hand, start_arcade
from tests.bolt.stub import Failure, Garbage, Hang, Lost, Stub
from tests.bolt.stub import Rows as Said
from tests.fakes import FakeEmbedder
from tests.patience import load

LONG = 60.0
NAMES, TEXTS = TextIndex("thing_names", "Thing", "name"), TextIndex("chunk_texts", "Chunk", "text")
VECTORS = VectorIndex("chunk_vectors", "Chunk", "embedding", FakeEmbedder().dimensions)
DEFINED: Mapping[str, TextIndex | VectorIndex] = {index.name: index for index in (NAMES, TEXTS, VECTORS)}


class Indexed(ArcadeDB):
    """ArcadeDB's dialect, which knows of the indexes that these tests pretend to have made."""

    existing: Sequence[str] = ("RETURN 1 AS one",)
    dimensions: int = VECTORS.dimensions

    def names_of(self, rows: Iterable[Mapping[str, object]]) -> Mapping[str, int | None]:
        return {name: self.dimensions if index is VECTORS else None for name, index in DEFINED.items()}


class OnArcade(Neo4j):
    dialects: ClassVar[Mapping[str, Dialect]] = {"neo4j": Indexed(), "memgraph": Indexed()}


class OfOtherSize(Indexed):
    dimensions = 1536


class OnOther(Neo4j):
    dialects: ClassVar[Mapping[str, Dialect]] = {"neo4j": OfOtherSize()}


# The contract, on real databases -----------------------------------------------------------------------------------


class GraphContract(BackendContract):
    """Events stand in the graph as somebody else would have put them there; the id of each is a property of theirs."""

    echoed = ("text", "scope")  # what a graph says of a fact
    dialect: ClassVar[Dialect]
    adapter: ClassVar[type[Neo4j]] = Neo4j
    options: ClassVar[Mapping[str, object]] = {
        "entities": ["Thing"],
        "id": "id",
        "valid_to": "ends",
        "scope": {
            name: name for name in ("tenant", "user_id", "agent_id", "run_id", "session_id", "audience")
        },
    }  # fmt: skip

    @abstractmethod
    @pytest.fixture
    def server(self) -> Server: ...

    @pytest.fixture(autouse=True)
    async def _database(self, server: Server) -> AsyncIterator[None]:
        self.bolt = Bolt(server, self.dialect)
        self.where: dict[str, object] = {
            name: value for name in ("url", "database", "user", "password_file") if (value := getattr(server, name))
        }
        self.where["connect_ms"] = CONNECT_MS
        await empty(self.bolt)
        await self.prepare()
        yield
        await empty(self.bolt)
        await self.bolt.close()

    async def prepare(self) -> None:
        """Indexes, where the options name some."""

    async def open_backend(self, folder: Path) -> Backend:
        adapter = self.adapter

        class Echoing(adapter):  # type: ignore[valid-type,misc]
            """A graph knows no events; here its ids are theirs."""

            async def search(self, query: Query) -> Sequence[Hit]:
                hits: Sequence[Hit] = await super().search(query)
                return [replace(hit, event_id=hit.native_id.partition("/")[2]) for hit in hits]

        return await Echoing.open(opening(folder, **self.where, **self.options))

    async def fill(self, backend: Backend, batch: Sequence[Extracted]) -> None:
        for extracted in batch:
            scope = extracted.event.scope
            owners = {k: v for k in ("tenant", "audience") if (v := getattr(scope, k))} | scope.named()
            await self.put(extracted, {str(k): str(v) for k, v in owners.items()})

    @abstractmethod
    async def put(self, extracted: Extracted, owners: Mapping[str, str]) -> None: ...


MERGE = (
    "MERGE (s:Thing {name: $subject, tenant: $tenant, audience: $audience, owner: $owner}) SET s += $owners "
    "MERGE (o:Thing {name: $object, tenant: $tenant, audience: $audience, owner: $owner}) SET o += $owners "
)


class Facts(GraphContract):
    """Events are relationships that say a sentence, as Graphiti keeps them; names are looked up as they are written."""

    options: ClassVar[Mapping[str, object]] = {**GraphContract.options, "facts": ["fact"]}

    async def put(self, extracted: Extracted, owners: Mapping[str, str]) -> None:
        (fact,) = extracted.extraction.facts
        values = {
            "subject": fact.subject,
            "object": fact.object,
            "fact": extracted.event.text,
            "id": extracted.event.event_id,
            "ends": extracted.event.valid_to and extracted.event.valid_to.isoformat(),
            "owners": owners,
            "owner": str(sorted(owners.items())),
            "tenant": owners["tenant"],
            "audience": owners["audience"],
        }
        await self.bolt.write(
            f"{MERGE} CREATE (s)-[r:SAYS {{fact: $fact, id: $id}}]->(o) SET r.ends = $ends", values, LONG
        )


class Passages(GraphContract):
    """Events are texts that mention entities; all three indexes are there."""

    options: ClassVar[Mapping[str, object]] = {
        **GraphContract.options,
        "passages": ["Chunk"],
        "name_index": NAMES.name,
        "text_index": TEXTS.name,
        "vector_index": VECTORS.name,
    }

    async def put(self, extracted: Extracted, owners: Mapping[str, str]) -> None:
        (fact,) = extracted.extraction.facts
        vector = (await FakeEmbedder().embed([extracted.event.text]))[0]
        values = {
            "subject": fact.subject,
            "object": fact.object,
            "text": extracted.event.text,
            "id": extracted.event.event_id,
            "ends": extracted.event.valid_to and extracted.event.valid_to.isoformat(),
            "vector": [float(value) for value in vector],
            "owners": owners,
            "owner": str(sorted(owners.items())),
            "tenant": owners["tenant"],
            "audience": owners["audience"],
        }
        await self.bolt.write(
            f"{MERGE} CREATE (c:Chunk {{text: $text, id: $id, embedding: $vector}}) SET c += $owners, c.ends = $ends "
            "CREATE (c)-[:MENTIONS]->(s) CREATE (c)-[:MENTIONS]->(o)",
            values,
            LONG,
        )


class Arcade(GraphContract):
    dialect = Indexed()
    adapter = OnArcade

    @pytest.fixture
    def server(self, arcade: str, tmp_path: Path) -> Server:
        return arcade_at(arcade, tmp_path)


@pytest.mark.feature(
    "neo4j: any graph in Neo4j or Memgraph is a read-only backend by configuration, with every "
    "backend's promises, as facts and as passages, on ArcadeDB in each run",
)
class TestFactsOnArcadeDB(Arcade, Facts): ...


class TestPassagesOnArcadeDB(Arcade, Passages): ...


class RealNeo4j(GraphContract):
    dialect = NEO4J

    @pytest.fixture
    def server(self, neo4j_url: str) -> Server:
        return Server(neo4j_url, connect_ms=CONNECT_MS)

    async def prepare(self) -> None:
        await self.bolt.define(Schema(vectors=[VECTORS], texts=[NAMES, TEXTS]), LONG)

    async def put(self, extracted: Extracted, owners: Mapping[str, str]) -> None:
        await super().put(extracted, owners)  # type: ignore[safe-super]  # the other base says how
        # Neo4j brings its full-text indexes up to date behind, unless told otherwise.
        await self.bolt.write("CALL db.index.fulltext.awaitEventuallyConsistentIndexRefresh()", {}, LONG)


@pytest.mark.neo4j
class TestFactsOnNeo4j(RealNeo4j, Facts): ...


@pytest.mark.feature(
    "… with its own full-text and vector indexes, on a real Neo4j by `make test-neo4j`, on Memgraph marked `live`",
    of="neo4j: any graph in Neo4j or",
)
@pytest.mark.neo4j
class TestPassagesOnNeo4j(RealNeo4j, Passages): ...


class RealMemgraph(GraphContract):
    """MEMGRAPH_PASSWORD=… docker compose -f compose/memgraph.yaml up, then pytest -m live with the same variable."""

    dialect = MEMGRAPH
    options: ClassVar[Mapping[str, object]] = {**GraphContract.options, "dialect": "memgraph"}

    @pytest.fixture
    def server(self) -> Server:
        return memgraph_at_hand()

    async def prepare(self) -> None:
        await self.bolt.define(Schema(vectors=[VECTORS], texts=[NAMES, TEXTS]), LONG)


@pytest.mark.live
class TestFactsOnMemgraph(RealMemgraph, Facts):
    options: ClassVar[Mapping[str, object]] = {**Facts.options, "dialect": "memgraph"}


@pytest.mark.live
class TestPassagesOnMemgraph(RealMemgraph, Passages):
    options: ClassVar[Mapping[str, object]] = {**Passages.options, "dialect": "memgraph"}


# A company's graph: paths, hubs, time, whose it is -------------------------------------------------------------------

COMPANY = """
CREATE (julien:Person {name: 'Julien', aliases: ['Jules'], id: 'julien'}),
    (mara:Person {name: 'Mara', id: 'mara', description: 'Mara keeps the build green.'}),
    (bug:Bug {name: 'bug gateway', id: 'bug'}),
    (acme:Company {name: 'Acme', id: 'acme'}),
    (lyon:City {name: 'Lyon', id: 'lyon'}), (oslo:City {name: 'Oslo', id: 'oslo'}),
    (bug)-[:CORRECTED_BY {id: 'corrected'}]->(julien),
    (julien)-[:WORKS_FOR {id: 'works'}]->(acme),
    (mara)-[:KNOWS {id: 'knows'}]->(julien),
    (julien)-[:LIVED_IN {id: 'lived', valid_at: '2019-01-01', invalid_at: '2021-06-01'}]->(lyon),
    (julien)-[:LIVED_IN {id: 'lives', valid_at: '2021-06-01'}]->(oslo),
    (julien)-[:SECRET_OF]->(:Person {name: 'Nobody'}),
    (:Chunk {id: 'chunk', text: 'The timeout was found on a Friday.'})-[:MENTIONS]->(bug),
    (:Batch {name: 'import 7'})-[:MADE]->(julien)
"""
TABLE: Mapping[str, object] = {
    "entities": ["Person", "Bug", "Company", "City"],
    "aliases": ["aliases"],
    "passages": ["Chunk"],
    "texts": ["text", "description"],
    "relationships": ["CORRECTED_BY", "WORKS_FOR", "KNOWS", "LIVED_IN", "MENTIONS", "MADE"],
    "facts": ["fact"],
    "id": "id",
}


@pytest.fixture
async def database(arcade: str, tmp_path: Path) -> AsyncIterator[Bolt]:
    bolt = Bolt(arcade_at(arcade, tmp_path), Indexed())
    await empty(bolt)
    await bolt.write(COMPANY, {}, LONG)
    yield bolt
    await empty(bolt)
    await bolt.close()


def located(arcade: str, tmp_path: Path) -> dict[str, object]:
    server = arcade_at(arcade, tmp_path)
    return {
        "url": server.url,
        "database": server.database,
        "user": server.user,
        "password_file": server.password_file,
        "connect_ms": CONNECT_MS,
    }


Opener = Callable[[type[Neo4j], Opening], Awaitable[Neo4j]]


@pytest.fixture
async def opened() -> AsyncIterator[Opener]:
    """Opens backends, which are closed after the test."""
    backends: list[Neo4j] = []

    async def open_one(kind: type[Neo4j], given: Opening) -> Neo4j:
        backends.append(await kind.open(given))
        return backends[-1]

    yield open_one
    for backend in backends:
        await backend.close()


@pytest.fixture
async def company(database: Bolt, arcade: str, tmp_path: Path, opened: Opener) -> Neo4j:
    return await opened(OnArcade, opening(tmp_path, **located(arcade, tmp_path), **TABLE))


async def paths(backend: Neo4j, text: str, **fields: Any) -> dict[str, tuple[str, ...]]:
    return {hit.native_id: hit.path for hit in await backend.search(replace(make_query(text), **fields))}


@pytest.mark.row(
    "A141",
    '… a hit carries the path that justifies it: ("bug gateway", "corrected_by", "Julien"), a chain with its '
    "inverse steps marked",
    of="neo4j: any graph in Neo4j or",
)
async def test_a_triplet_carries_its_path(company: Neo4j) -> None:
    """One relation reads as it is in the graph, whichever end was named; a chain marks the steps against it."""
    hits = {hit.native_id: hit for hit in await company.search(make_query("Who fixed bug gateway?"))}
    corrected, works = hits["edge/corrected"], hits["edge/works"]
    assert (corrected.path, corrected.text) == (
        ("bug gateway", "corrected_by", "Julien"),
        "bug gateway corrected by Julien",
    )
    assert (works.path, works.text) == (
        ("bug gateway", "corrected_by", "Julien", "works_for", "Acme"),
        "Julien works for Acme",
    )
    assert hits["edge/knows"].path == ("bug gateway", "corrected_by", "Julien", "^knows", "Mara")
    assert (corrected.kind, corrected.raw_kind) == ("fact", "corrected_by")
    assert corrected.fact == Fact("bug gateway", "corrected_by", "Julien")


@pytest.mark.feature(
    "… passages that mention an entity are returned with it, and an entity's own descriptions",
    of="neo4j: any graph in Neo4j or",
)
async def test_what_mentions_an_entity_is_shown(company: Neo4j) -> None:
    """A passage that shares no word with the question comes by the entity that it mentions; so does what an entity
    says of itself."""
    hits = {hit.native_id: hit for hit in await company.search(make_query("What of bug gateway?"))}
    assert (hits["node/chunk"].text, hits["node/chunk"].path) == (
        "The timeout was found on a Friday.",
        ("bug gateway",),
    )
    assert hits["node/mara"].path == ("bug gateway", "corrected_by", "Julien", "^knows", "Mara")


@pytest.mark.feature("… relationships and labels are restricted by allow-lists", of="neo4j: any graph in Neo4j or")
async def test_only_what_is_allowed_is_followed(company: Neo4j) -> None:
    """No relationship of another type, and no node of another label, whatever it is related to."""
    found = await paths(company, "Julien")
    assert not {"Nobody", "import 7"} & {name for path in found.values() for name in path}
    assert {"edge/corrected", "edge/works", "edge/knows", "edge/lives"} <= set(found)


async def test_an_alias_is_a_name(company: Neo4j) -> None:
    """ "Jules" leads where "Julien" does; case makes no difference."""
    assert await paths(company, "where does jules work") == await paths(company, "where does julien work")


async def test_both_ends_named_come_first(company: Neo4j) -> None:
    """What connects two entities of the question has activation from both."""
    for question in ("Julien and Acme", "Mara, Julien"):
        (first, *_) = await company.search(make_query(question))
        assert first.native_id == ("edge/works" if "Acme" in question else "edge/knows")


async def test_words_of_the_question_count(company: Neo4j) -> None:
    """Of five relations of one entity, that which says what is asked comes first."""
    assert next(hit.native_id for hit in await company.search(make_query("For whom does Julien work?"))) == "edge/works"


async def test_one_hop_is_one(database: Bolt, arcade: str, tmp_path: Path, opened: Opener) -> None:
    """``hops = 1``: nothing that is only related to something related."""
    backend = await opened(OnArcade, opening(tmp_path, **located(arcade, tmp_path), **TABLE, hops=1))
    assert set(await paths(backend, "bug gateway")) == {"edge/corrected", "node/chunk"}


@pytest.mark.feature(
    "… a question about a time gets what was true then, if the graph has times", of="neo4j: any graph in Neo4j or"
)
async def test_what_was_true_at_a_time(database: Bolt, arcade: str, tmp_path: Path, opened: Opener) -> None:
    """Where the graph says from when until when a relation holds, a question about another time gets what held then;
    one about now never gets what has ended."""
    backend = await opened(
        OnArcade, opening(tmp_path, **located(arcade, tmp_path), **TABLE, valid_from="valid_at", valid_to="invalid_at")
    )
    assert backend.features.as_of
    now = await paths(backend, "Where did Julien live?")
    then = await paths(backend, "Where did Julien live?", as_of=datetime(2020, 1, 1, tzinfo=UTC))
    before = await paths(backend, "Where did Julien live?", as_of=datetime(2018, 1, 1, tzinfo=UTC))
    lived = {"edge/lived", "edge/lives"}
    assert (lived & set(now), lived & set(then), lived & set(before)) == ({"edge/lives"}, {"edge/lived"}, set())


@pytest.mark.feature(
    "… a hub is bounded at its degree, never walked through, and reported", of="neo4j: any graph in Neo4j or"
)
async def test_a_truncated_hub_is_reported(database: Bolt, arcade: str, tmp_path: Path, opened: Opener) -> None:
    """Of 300 relations of one node 20 are followed when it is asked about, and none when it is only passed; the notes
    say so."""
    await database.write(
        "MATCH (acme:Company) UNWIND range(1, 300) AS n "
        "CREATE (acme)<-[:WORKS_FOR {id: 'w' + toString(n)}]-(:Person {name: 'Worker ' + toString(n)})",
        {},
        LONG,
    )
    backend = await opened(OnArcade, opening(tmp_path, **located(arcade, tmp_path), **TABLE, degree=20, limit=1000))
    assert not any("relationships" in note for note in (await backend.describe()).notes)
    about = await paths(backend, "Acme")
    assert sum(path[-1] == "Acme" for path in about.values()) == 20
    passed = await paths(backend, "Julien")
    assert "edge/works" in passed
    assert not any("Worker" in path[-1] for path in passed.values())
    described = await backend.describe()
    assert any("1 nodes with more than 20 relationships" in note for note in described.notes)
    assert not described.degraded


@pytest.mark.feature("neo4j: another user's memory", part="faults/adapters")
@pytest.mark.feature(
    "… the database filters nodes and relationships by owner, before any bound",
    of="neo4j: any graph in Neo4j or",
)
async def test_the_database_itself_filters_whose_it_is(
    database: Bolt, arcade: str, tmp_path: Path, opened: Opener
) -> None:
    """Twenty Orchards of somebody else's, of ten that a question is linked with, and none takes the place of one's own;
    nor do 200 relations of others take the place of one's own at a hub."""
    await database.write(
        "UNWIND range(1, 20) AS n CREATE (:Company {name: 'Orchard', id: 'a' + toString(n), owner: 'ben'})"
        "-[:WORKS_FOR {id: 'b' + toString(n)}]->(:City {name: 'Rome', owner: 'ben'})",
        {},
        LONG,
    )
    await database.write(
        "CREATE (o:Company {name: 'Orchard', id: 'z', owner: 'ada'}) WITH o UNWIND range(1, 200) AS n "
        "CREATE (o)-[:WORKS_FOR {id: 'c' + toString(n)}]->(:City {name: 'Rome', owner: 'ben'})",
        {},
        LONG,
    )
    await database.write(
        "MATCH (o:Company {id: 'z'}) CREATE (o)-[:WORKS_FOR {id: 'mine'}]->(:City {name: 'Oslo', owner: 'ada'})",
        {},
        LONG,
    )
    backend = await opened(
        OnArcade, opening(tmp_path, **located(arcade, tmp_path), **TABLE, degree=20, scope={"user_id": "owner"})
    )
    assert set(await paths(backend, "Orchard", scope=Scope(user_id="ada"))) == {"edge/mine"}


async def test_near_in_meaning_is_where_a_nameless_question_starts(
    database: Bolt, arcade: str, tmp_path: Path, opened: Opener
) -> None:
    """A question that names nobody starts from the passages that are nearest, and follows what they mention."""
    vector = (await FakeEmbedder().embed(["The timeout was found on a Friday."]))[0]
    await database.write(
        "MATCH (c:Chunk) SET c.embedding = $vector", {"vector": [float(value) for value in vector]}, LONG
    )
    backend = await opened(
        OnArcade,
        opening(tmp_path, **located(arcade, tmp_path), **TABLE, vector_index=VECTORS.name, text_index=TEXTS.name),
    )
    hits = await backend.search(make_query("the timeout on a friday"))
    assert hits[0].native_id == "node/chunk"  # first in all three lists
    assert {hit.native_id: hit.path for hit in hits}["edge/corrected"] == ("bug gateway", "corrected_by", "Julien")


@pytest.mark.feature("neo4j: vectors of another dimension", part="faults/adapters")
@pytest.mark.row(
    "A080",
    "… with vectors of another size, or a failing model, names and words are searched",
    of="neo4j: any graph in Neo4j or",
)
async def test_vectors_of_another_size_leave_words(database: Bolt, arcade: str, tmp_path: Path, opened: Opener) -> None:
    """An index of 1,536 dimensions is not asked with a vector of 32: words and names answer, and doctor's note says
    how to fix it."""
    options = {**TABLE, "vector_index": VECTORS.name, "text_index": TEXTS.name}
    backend = await opened(OnOther, opening(tmp_path, **located(arcade, tmp_path), **options))
    assert "node/chunk" in await paths(backend, "timeout")
    described = await backend.describe()
    assert described.degraded
    assert any("holds 1536 dimensions and the embedding model has 32" in note for note in described.notes)


async def test_a_failing_model_leaves_words(database: Bolt, arcade: str, tmp_path: Path, opened: Opener) -> None:
    """Without a vector the question is answered by names and words, and that is told."""
    options = {**located(arcade, tmp_path), **TABLE, "vector_index": VECTORS.name, "text_index": TEXTS.name}
    backend = await opened(OnArcade, Opening("company", tmp_path, options, FakeEmbedder(failing=True)))
    assert "node/chunk" in await paths(backend, "timeout")
    assert any("embedding model failed" in note for note in (await backend.describe()).notes)


async def test_nothing_is_changed(company: Neo4j, database: Bolt) -> None:
    """Whatever is asked, the graph is afterwards what it was."""
    count = "MATCH (n) OPTIONAL MATCH (n)-[r]->() RETURN count(DISTINCT n) AS nodes, count(r) AS edges"
    before = await database.read(count, {}, LONG)
    for text in ("Julien'}) DETACH DELETE n //", "CALL db.labels()", "Julien` SET n.x = 1", "bug gateway"):
        await company.search(make_query(text))
    await company.describe()
    assert await database.read(count, {}, LONG) == before


@pytest.mark.feature("neo4j: labels that are not there", part="faults/adapters")
async def test_labels_and_properties_that_the_graph_has_not(
    database: Bolt, arcade: str, tmp_path: Path, opened: Opener
) -> None:
    """A misspelt label or property finds nothing, which looks as if there were nothing: the note says which it is."""
    options = {**TABLE, "entities": ["Persn", "City"], "names": ["title"]}
    backend = await opened(OnArcade, opening(tmp_path, **located(arcade, tmp_path), **options))
    described = await backend.describe()
    assert described.degraded
    assert any("no node has the label Persn. Fix: correct entities" in note for note in described.notes)
    assert any("none of 2 nodes City has title. Fix: correct names" in note for note in described.notes)


@pytest.mark.feature("neo4j: flapping", part="faults/adapters")
async def test_a_server_that_comes_back_is_asked_again(tmp_path: Path, opened: Opener) -> None:
    """After a restart the first question is answered: the pool outlives its server."""
    process = start_arcade(tmp_path / "server")
    options = {**located(process.url, tmp_path), **TABLE}
    backend = await opened(OnArcade, opening(tmp_path, **options))
    seeded = Bolt(arcade_at(process.url, tmp_path), Indexed())
    await seeded.write(COMPANY, {}, LONG)
    assert "edge/corrected" in await paths(backend, "bug gateway")
    process.stop()
    with pytest.raises(BackendUnreachable):
        await backend.search(make_query("bug gateway"))
    described = await backend.describe()
    assert described.degraded
    assert "Fix: start the database, or correct url of [backends.subject]" in described.notes[0]
    again = start_arcade(tmp_path / "server", int(process.url.rpartition(":")[2]))
    try:
        assert "edge/corrected" in await paths(backend, "bug gateway")
    finally:
        await seeded.close()
        again.stop()


# Memgraph's words, and every fault, from a server that says what it is told ------------------------------------------

MEMGRAPH_TABLE: Mapping[str, object] = {
    "dialect": "memgraph",
    "entities": ["Person"],
    "passages": ["Chunk"],
    "name_index": "names",
    "text_index": "chunks",
    "vector_index": "meanings",
    "scope": {"user_id": "owner"},
    "hops": 1,
}
SCHEMA_ROWS = (
    Said(["index_name", "dimension"], [["meanings", 32]]),
    Said(["index type"], [["label_text (name: names)"], ["label_text (name: chunks)"]]),
)
JULIEN = [7, ["Person"], "Julien", None, None, None, None, None, "ada"]
BUG = [8, ["Person"], "bug gateway", None, None, None, None, None, "ada"]
RELATED = Said(
    ["origin", "forward", "edge", "node"], [[0, False, [3, "CORRECTED_BY", None, None, None, None, None, None], BUG]]
)


def scripted(stub: Stub, table: Mapping[str, object] = MEMGRAPH_TABLE) -> Opening:
    return Opening("graph", Path("unused"), {"url": stub.url, "connect_ms": CONNECT_MS, **table}, FakeEmbedder())


@pytest.mark.feature(
    "… Memgraph's and Neo4j's own procedures, in read transactions, by fixed statements that cannot write; values "
    "are parameters",
    of="neo4j: any graph in Neo4j or",
)
async def test_memgraph_is_asked_in_its_own_words(opened: Opener) -> None:
    """Its own procedures, its own ids; the schema outside of a transaction, all else in a read transaction; nothing
    of the question or of its scope in a statement."""
    async with Stub() as stub:
        found = Said(["node", "called", "score"], [[JULIEN, ["Julien"], 1.0]])
        nothing = Said(["node", "called", "score"])
        stub.schedule.extend([*SCHEMA_ROWS, found, found, nothing, nothing, nothing, nothing, RELATED])
        backend = await opened(Neo4j, scripted(stub))
        hits = await backend.search(make_query("Julien secretword", Scope(user_id="ada")))
    assert [(hit.native_id, hit.path, hit.scope.user_id) for hit in hits] == [
        ("edge/3", ("bug gateway", "corrected_by", "Julien"), "ada")
    ]
    shown = [(asked.mode, asked.statement) for asked in stub.asked]
    assert shown[:2] == [("auto", "SHOW VECTOR INDEX INFO"), ("auto", "SHOW INDEX INFO")]
    assert {mode for mode, _ in shown[2:]} == {"r"}
    heads = [statement.partition(" WHERE ")[0] for _, statement in shown[2:]]
    assert heads[0].startswith('CALL text_search.search_all("names", $words, {limit: $k}) YIELD node, score')
    assert heads[2].startswith('CALL text_search.search_all("chunks", $words, {limit: $k}) YIELD node, score')
    assert heads[4].startswith('CALL vector_search.search("meanings", $k, $vector) YIELD node, distance')
    assert [asked.values["k"] for asked in stub.asked[2:8]] == [64, 1024, 64, 1024, 64, 1024]
    assert shown[8][1].startswith("MATCH (a) WHERE id(a) = $from0")
    assert stub.asked[8].values["from0"] == 7
    assert all("secretword" not in statement and "ada" not in statement for _, statement in shown)
    assert stub.asked[2].values["words"] == "julien secretword"


async def test_database_is_not_asked_for_what_no_hit_of_a_graph_fits(opened: Opener) -> None:
    """Hits of a graph are notes and facts without a place, a speaker and properties."""
    async with Stub() as stub:
        backend = await opened(Neo4j, scripted(stub))
        for where in (
            Where(folder=("customers",)),
            Where(speaker=("Ada",)),
            Where(property=(("type", "customer"),)),
            Where(kind=("decision", "turn")),
        ):
            assert await backend.search(replace(make_query("Julien"), where=where)) == []
    assert not stub.asked


@pytest.mark.feature(
    "… no statement writes, and only index procedures are called (S18, CVE-2026-35402)",
    of="neo4j: any graph in Neo4j or",
)
@pytest.mark.parametrize("dialect", ["neo4j", "memgraph"])
@pytest.mark.parametrize("indexes", [True, False])
def test_no_statement_writes(dialect: str, indexes: bool) -> None:
    """Fixed statements without a word that writes; procedures are only those that ask an index."""
    table = {**TABLE, "dialect": dialect, "scope": {"user_id": "owner"}}
    if indexes:
        table |= {"name_index": "a", "text_index": "b", "vector_index": "c"}
    cypher = Cypher(build(Options, table, "t"), {"neo4j": NEO4J, "memgraph": MEMGRAPH}[dialect], 32)
    scope = Scope(user_id="ada")
    statements = [cypher.named(scope), cypher.related(["1", "2"], scope)[0], cypher.count(), cypher.sampled()]
    for index in (cypher.names, cypher.texts, cypher.vectors):
        statements += [cypher.found(index, scope)] if index else []
    assert len(statements) == (7 if indexes else 4)
    for statement in statements:
        assert not re.search(r"\b(CREATE|MERGE|SET|DELETE|REMOVE|DROP|LOAD|FOREACH|GRANT)\b", statement)
        assert re.findall(r"CALL ([\w.]+)", statement) in (
            [],
            ["db.index.fulltext.queryNodes"],
            ["db.index.vector.queryNodes"],
            ["text_search.search_all"],
            ["vector_search.search"],
        )


@pytest.mark.feature("neo4j: a missing index", part="faults/adapters")
@pytest.mark.feature(
    "… a missing index, labels and properties that the graph does not have: reported with the statement or option "
    "that fixes it",
    of="neo4j: any graph in Neo4j or",
)
async def test_a_missing_index_is_named_with_its_fix(opened: Opener) -> None:
    """The question's status and doctor's note say which option is wrong, what there is, and what would make it; once it
    is there the next question is answered."""
    async with Stub() as stub:
        stub.schedule.extend([Said(["index_name", "dimension"], []), SCHEMA_ROWS[1]] * 2)
        backend = await opened(Neo4j, scripted(stub))
        with pytest.raises(InvalidAnswer, match="has no index meanings, only chunks, names") as caught:
            await backend.search(make_query("Julien"))
        assert "Fix: correct vector_index of [backends.graph], or make it: " in str(caught.value)
        assert "CREATE VECTOR INDEX meanings ON :Chunk(embedding)" in str(caught.value)
        described = await backend.describe()
        assert described.degraded
        assert described.notes == (str(caught.value),)
        stub.schedule.extend(SCHEMA_ROWS)
        stub.otherwise = Said(["node", "called", "score"])
        assert await backend.search(make_query("Julien")) == []


@pytest.mark.feature("neo4j: an index that disappears", part="faults/adapters")
async def test_an_index_that_goes_is_noticed(opened: Opener) -> None:
    """What an engine says when an index has been dropped is an invalid answer; the next question looks for itself."""
    async with Stub() as stub:
        stub.schedule.extend(
            [*SCHEMA_ROWS, Failure("Memgraph.ClientError.MemgraphError.MemgraphError", "no such index")]
        )
        backend = await opened(Neo4j, scripted(stub))
        with pytest.raises(InvalidAnswer, match="failed on the gateway"):
            await backend.search(make_query("Julien"))
        stub.schedule.extend([SCHEMA_ROWS[0], Said(["index type"], [["label_text (name: names)"]])])
        with pytest.raises(InvalidAnswer, match="has no index chunks"):
            await backend.search(make_query("Julien"))


FAULTS = {
    "auth": (Failure("Neo.ClientError.Security.Unauthorized", "secret"), Unauthorized, "correct user and password_env"),
    "forbidden": (Failure("Neo.ClientError.Security.Forbidden", "secret"), Unauthorized, "let the user read"),
    "lost": (
        Lost(["origin", "forward", "edge", "node"], [[0, True, [], []]]), BackendUnreachable, "start the database",
    ),
    "garbage": (Garbage(), FusionError, ""),
    "unknown function": (
        Failure("Neo.ClientError.Statement.SyntaxError", "secret"), InvalidAnswer, "correct dialect",
    ),
    "timed out": (
        Failure("Neo.ClientError.Transaction.TransactionTimedOut", "secret"), BackendTimeout, "make an index",
    ),
    "no such database": (
        Failure("Neo.ClientError.Database.DatabaseNotFound", "secret"), SettingsError, "correct the option database",
    ),
}  # fmt: skip


@pytest.mark.feature("neo4j: each fault, its status and its fix", part="faults/adapters")
@pytest.mark.feature(
    "… a refused login, a lost connection, garbage, time-outs, a missing database: each has its "
    "status and fix, without any values",
    of="neo4j: any graph in Neo4j or",
)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_has_its_name_and_its_fix(fault: str, opened: Opener) -> None:
    """Each becomes the status of this backend's answer, and a note with what to do; none of their values is in it."""
    answer, error, fix = FAULTS[fault]
    async with Stub(otherwise=answer) as stub:
        backend = await opened(Neo4j, scripted(stub, {"entities": ["Person"]}))
        with pytest.raises(error) as caught:
            await backend.search(make_query("Julien"))
        described = await backend.describe()
    assert described.degraded
    assert fix in described.notes[0].partition(". Fix: ")[2]
    assert "secret" not in str(caught.value) + described.notes[0]


@pytest.mark.feature(
    "… an interrupted result is requested again; a server that comes back is asked again",
    of="neo4j: any graph in Neo4j or",
)
async def test_a_connection_lost_once_costs_nothing(opened: Opener) -> None:
    """A result that breaks off in its middle is asked for again on another connection."""
    async with Stub() as stub:
        found = Said(["node", "called"], [[JULIEN[:8], ["Julien"]]])
        related = [[0, False, [3, "CORRECTED_BY", None, None, None, None, None], BUG[:8]]]
        stub.schedule.extend([found, Lost(RELATED.fields, related), found, Said(RELATED.fields, related)])
        backend = await opened(Neo4j, scripted(stub, {"entities": ["Person"], "hops": 1}))
        hits = await backend.search(make_query("Julien"))
    assert [hit.text for hit in hits] == ["bug gateway corrected by Julien"]


@pytest.mark.feature("neo4j: hangs", part="faults/adapters")
async def test_a_server_that_hangs_costs_the_deadline(opened: Opener) -> None:
    """…and not more."""
    async with Stub(otherwise=Hang()) as stub:
        backend = await opened(Neo4j, scripted(stub, {"entities": ["Person"]}))
        with pytest.raises(BackendTimeout):
            await backend.search(make_query("Julien", deadline_s=0.05))


@pytest.mark.feature(
    "… a cold database prepares its plans in the background, and few plans are enough",
    of="neo4j: any graph in Neo4j or",
)
async def test_a_cancelled_query_runs_again_in_the_background(opened: Opener) -> None:
    """A cold database drops the plan of a query that is cut off, and would be too slow for ever: of two questions that
    are, one is asked again, and the next one finds its plan."""
    async with Stub() as stub:
        stub.schedule.extend([Hang(), Hang()])
        backend = await opened(Neo4j, scripted(stub, {"entities": ["Person"]}))
        questions = [asyncio.create_task(backend.search(make_query("Julien"))) for _ in range(2)]
        while len(stub.asked) < 2:
            await stub.heard.wait()
            stub.heard.clear()
        for question in questions:
            question.cancel()
        await asyncio.gather(*questions, return_exceptions=True)
        (behind,) = [task for task in asyncio.all_tasks() if task.get_name() == "plan"]
        await behind
        assert len(stub.asked) == 3


def test_few_plans_are_enough() -> None:
    """However many nodes are gone on from, there are three statements; what is left of their arms leads nowhere."""
    cypher = Cypher(Options(entities=("Person",)), MEMGRAPH)
    asked = [cypher.related(range(many), Scope()) for many in range(1, 17)]
    assert len({statement for statement, _ in asked}) == 3
    assert [sum(value is not None for value in values.values()) for _, values in asked] == list(range(1, 17))


MALFORMED: tuple[object, ...] = (
    None,
    1,
    "x",
    [],
    [1],
    [None] * 8,
    {},
    [7, "Person", "J", None, None, None, None, None],
)


@pytest.mark.feature("neo4j: invalid items", part="faults/adapters")
@pytest.mark.feature("… invalid rows are dropped and counted", of="neo4j: any graph in Neo4j or")
@pytest.mark.parametrize("row", MALFORMED, ids=lambda row: ascii(row)[:20])
async def test_rows_that_make_no_sense_are_dropped(row: object, opened: Opener) -> None:
    """One of two: the other is answered, and the loss is counted. All of them: an invalid answer."""
    async with Stub() as stub:
        found = Said(["node", "called"], [[JULIEN[:8], ["Julien"]]])
        good = [0, False, [3, "CORRECTED_BY", None, None, None, None, None], BUG[:8]]
        for rows in ([good, [0, True, row, BUG[:8]], [0, True, [4, "KNOWS"] + [None] * 5, row]], [[0, True, row, row]]):
            stub.schedule.extend([found, Said(RELATED.fields, rows)])
        backend = await opened(Neo4j, scripted(stub, {"entities": ["Person"], "hops": 1}))
        hits = await backend.search(make_query("Julien"))
        assert isinstance(hits, PartialHits)
        assert (len(hits), hits.dropped) == (1, 2)
        with pytest.raises(InvalidAnswer, match="none of 1 rows"):
            await backend.search(make_query("Julien"))


async def test_bound_to_one_user(opened: Opener) -> None:
    """A graph that says of nothing whose it is belongs to whom it is bound to; others do not ask it."""
    async with Stub() as stub:
        found = Said(["node", "called"], [[JULIEN[:8], ["Julien"]]])
        stub.schedule.extend([found, Said(RELATED.fields, [[0, False, RELATED.rows[0][2][:7], BUG[:8]]])])  # type: ignore[index]
        table = {
            "entities": ["Person"],
            "hops": 1,
            "bound": {"user_id": "ada"},
            "tenant": "blue",
            "audience": "private",
        }
        backend = await opened(Neo4j, scripted(stub, table))
        assert backend.features.bound == {"user_id": "ada"}
        scope = Scope("blue", user_id="ada", audience="private")
        (hit,) = await backend.search(make_query("Julien", scope))
    assert hit.scope == scope


# Through the gateway ------------------------------------------------------------------------------------------------


def test_fused_leaves_the_hits_of_its_lists_unchanged() -> None:
    """A hit is shared, so the fused ones are copies, scored 2/(60 + 1) and 1/(60 + 2)."""
    both, one = Hit("n1", "in both lists", score=0.9), Hit("n2", "in one list", score=0.8)
    found = fused([both, one], [both])
    assert [(hit.native_id, hit.score) for hit in found] == [("n1", 0.032787), ("n2", 0.016129)]
    assert (both.score, one.score) == (0.9, 0.8)


@pytest.mark.feature(
    "… it is fused with another backend; a wrong index costs only its own answer, and is reported",
    of="neo4j: any graph in Neo4j or",
)
async def test_fuse_includes_the_graph_and_reports_its_fault(
    home: Path, database: Bolt, arcade: str, tmp_path: Path
) -> None:
    """Its triplets stand in one block with what another backend remembers; an index that is not there costs its own
    answer alone, which says so in `backends[]` and in what doctor shows."""
    graph = {"adapter": f"{__name__}:OnArcade", **located(arcade, tmp_path), **TABLE, "deadline_ms": 30_000}
    broken = {**graph, "text_index": "chunk_txt"}
    tables = {"memory": {"adapter": "adapters.inmemory:InMemory"}, "graph": graph, "broken": broken}
    chosen = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=tables)
    async with Gateway.open(chosen) as fusion:
        await fusion.remember([NewMemory("The bug gateway was a timeout.")])
        await fusion.settle()
        fused = await fusion.fuse("Who corrected bug gateway?", timeout_ms=60_000)
        status = await fusion.status()
    assert "bug gateway corrected by Julien" in fused.block
    assert "The bug gateway was a timeout." in fused.block
    answers = {row["name"]: row for row in fused.backends}
    assert (answers["graph"]["status"], answers["broken"]["status"]) == ("ok", "invalid")
    assert "Fix: correct text_index of [backends.broken]" in answers["broken"]["detail"]
    notes = {row["name"]: row["notes"] for row in status["backends"]}
    assert any("has no index chunk_txt" in note for note in notes["broken"])
