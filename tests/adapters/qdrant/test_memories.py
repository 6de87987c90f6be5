"""Qdrant as a backend: the gateway's memories there, and anybody's collection; what goes wrong says how to fix it.

The server is one of our own on loopback, with Qdrant's REST shapes over qdrant-client's local mode. Against a real one:

    docker compose -f compose/qdrant.yaml up -d
    export FUSION_TEST_QDRANT=http://127.0.0.1:6333 QDRANT_API_KEY=…
    python -m pytest -m live tests/adapters/qdrant/test_memories.py
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest

if find_spec("qdrant_client") is None:
    pytest.skip("needs qdrant-client: pip install '/path/to/checkout[mem0]'", allow_module_level=True)

from adapters.qdrant import Collection, Qdrant, sparse
from adapters.qdrant.memories import INDEXED, collection_of
from adapters.qdrant.query import question
from fusion.contract import (
    Backend,
    Describes,
    Embedder,
    Extracted,
    FindsNeighbours,
    Forgets,
    Moment,
    PartialHits,
    Place,
    Remembers,
    Scope,
    Settles,
)
from fusion.errors import (
    BackendTimeout,
    BackendUnreachable,
    HttpStatus,
    InvalidAnswer,
    RateLimited,
    SettingsError,
    Unauthorized,
)
from tests import chaos
from tests.backend_contract import (
    NOW,
    RemoteBackendContract,
    event_id,
    make_event,
    make_extracted,
    make_query,
    make_samples,
)
from tests.chaos import Call
from tests.fakes import FakeEmbedder
from tests.patience import opening_at
from tests.qdrant_server import Qdrant as Server

FIELDS = {
    "text": "data",
    "user_id": "who.user",
    "agent_id": "who.agent",
    "run_id": "who.run",
    "session_id": "who.session",
    "tenant": "who.tenant",
    "project": "project",
    "audience": "audience",
    "kind": "type",
    "speaker": "said_by",
    "recorded_at": "created",
    "event_id": "event",
}


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server() as server:
        yield server


async def ours(url: str, embedder: Embedder | None = None, **options: object) -> Qdrant:
    return await Qdrant.open(opening_at(url, "qdrant", embedder=embedder, **options))


async def theirs(url: str, embedder: Embedder | None = None, **options: object) -> Collection:
    return await Collection.open(opening_at(url, "facts", embedder=embedder, **{"collection": "facts", **options}))


@pytest.mark.feature(
    "Qdrant: the gateway's own memories on a server, by vectors and words, pass the suite over Qdrant's REST shapes"
)
class TestQdrant(RemoteBackendContract):
    """The gateway's own memories, by vectors and words."""

    filters = True

    @pytest.fixture(autouse=True)
    async def served(self, server: Server) -> None:
        self.url = server.url

    async def open_backend(self, folder: Path) -> Backend:
        return await self.open_at(folder, self.url)

    async def open_at(self, folder: Path, url: str) -> Backend:
        return await ours(url, FakeEmbedder())

    async def test_has_its_ports(self, backend: Backend) -> None:
        """It stores, forgets, finds neighbours, describes, and can be waited for."""
        for port in (Remembers, Forgets, FindsNeighbours, Describes, Settles):
            assert isinstance(backend, port)


@pytest.mark.feature("Qdrant: without a model, it searches by words alone")
class TestQdrantByWords(TestQdrant):
    """Without an embedding model the suite holds all the same."""

    async def open_at(self, folder: Path, url: str) -> Backend:
        return await ours(url, None)

    async def test_describes_what_it_holds(self, backend: Backend) -> None:
        """Every item waits for its vector until there is a model."""
        assert isinstance(backend, Describes)
        await self.fill(backend, self.samples(backend))
        description = await backend.describe()
        assert description.items > 0
        assert description.vectors_pending == description.items


@pytest.mark.feature(
    "Qdrant: any collection can be read: payload fields, scope filters, named dense and sparse vectors"
)
class TestCollection(RemoteBackendContract):
    """Somebody else's collection, with a payload of their own and a named vector of each kind."""

    durable = False  # it is filled by others
    echoed = ("text", "scope", "speaker", "kind")  # what the fields of its payload say
    expires = False  # …which have no time at which a memory ends

    @pytest.fixture(autouse=True)
    async def filled(self, server: Server) -> None:
        from qdrant_client import models

        self.server = server
        server.client.create_collection(
            "facts",
            vectors_config={"text": models.VectorParams(size=32, distance=models.Distance.COSINE)},
            sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        )

    async def open_backend(self, folder: Path) -> Backend:
        return await self.open_at(folder, self.server.url)

    async def open_at(self, folder: Path, url: str) -> Backend:
        return await theirs(url, FakeEmbedder(), vector="text", sparse="bm25", fields=FIELDS)

    async def fill(self, backend: Backend, batch: Sequence[Extracted]) -> None:
        from qdrant_client import models

        embedder = FakeEmbedder()
        for extracted in batch:
            event, scope = extracted.event, extracted.event.scope
            who = {"user": scope.user_id, "agent": scope.agent_id, "run": scope.run_id}
            payload = {
                "data": event.text,
                "who": who | {"session": scope.session_id, "tenant": scope.tenant},
                "project": scope.project,
                "audience": scope.audience,
                "type": event.kind,
                "said_by": event.speaker,
                "created": event.recorded_at.isoformat(),
                "event": event.event_id,
            }
            vector: dict[str, Any] = {
                "text": (await embedder.embed([event.text]))[0].tolist(),
                "bm25": models.SparseVector.model_validate(sparse.of_memory(event.text)),
            }
            self.server.client.upsert("facts", [models.PointStruct(id=event.event_id, vector=vector, payload=payload)])


# What it is asked


@pytest.mark.feature("Qdrant: BM25 in sparse vectors numbers terms as fastembed does")
def test_words_are_numbered_as_fastembed_numbers_them() -> None:
    """MurmurHash3 of seed 0, signed as its Python binding has it, without the sign: "foo" is −156908512."""
    assert sparse.murmur3(b"foo") - 2**32 == -156_908_512
    assert sparse.number("foo") == 156_908_512
    assert sparse.murmur3(b"hello") == 613_153_351
    assert sparse.murmur3(b"") == 0


def test_a_memory_weighs_its_words_by_bm25() -> None:
    """One term of one: 1 · 2.2 / (1 + 1.2 · (.25 + .75 · 1/32)); twice it counts more, yet not twice as much."""
    [once] = sparse.of_memory("greyhound")["values"]
    [twice] = sparse.of_memory("greyhound greyhounds")["values"]
    assert once == pytest.approx(2.2 / (1 + 1.2 * (0.25 + 0.75 / 32)))
    assert once < twice < 2 * once
    assert sparse.of_question("the greyhound, and greyhounds")["values"] == [1.0]
    assert sparse.of_memory("the") == {"indices": [], "values": []}


@pytest.mark.feature("Qdrant: lists are merged by RRF or DBSF, with the filter in each search")
@pytest.mark.feature("SQL, Cypher, full-text and filter syntax", part="faults/clients")
def test_a_filter_stands_in_each_of_the_searches() -> None:
    """So that what is filtered out uses up no place; one search alone needs no merging, none asks nothing."""
    where = [{"key": "tenant", "match": {"value": "blue"}}]
    words = sparse.of_question("greyhound")
    both = question(("dense", [1.0]), ("bm25", words), where, 7, "dbsf")
    assert both is not None
    assert [one["filter"] for one in both["prefetch"]] == [{"must": where}] * 2
    assert (both["query"], both["limit"]) == ({"fusion": "dbsf"}, 7)
    alone = question(("", [1.0]), None, [], 7)
    assert alone == {"query": [1.0], "limit": 7, "with_payload": True}
    assert question(None, None, where, 7) is None


async def test_the_other_way_to_merge(server: Server) -> None:
    """By the distribution of scores: the quoted memory comes first all the same."""
    backend = await ours(server.url, FakeEmbedder(), merge="dbsf")
    await backend.remember(make_samples())
    assert (await backend.search(make_query("Quentin adopted a greyhound called Biscuit.")))[0].event_id == event_id(4)
    await backend.close()


@pytest.mark.feature(
    "Qdrant: replicas, read consistency and write ordering are configurable (`compose/qdrant-cluster.yaml`)"
)
async def test_consistency_and_ordering_go_along(server: Server) -> None:
    """Searches say how many replicas they ask, writes how they are ordered; a new collection how it is spread."""
    backend = await ours(
        server.url, FakeEmbedder(), consistency="majority", ordering="strong", replicas=2, shards=3, write_consistency=2
    )
    await backend.remember(make_samples())
    await backend.search(make_query("greyhound"))
    await backend.close()
    paths = [call.path for call in server.calls]
    assert any(path.endswith("/points/query?consistency=majority") for path in paths)
    assert any(path.endswith("/points?wait=true&ordering=strong") for path in paths)
    [made] = [call.json for call in server.calls if call.method == "PUT" and call.path.count("/") == 2]
    spread = {name: made[name] for name in ("shard_number", "replication_factor", "write_consistency_factor")}
    assert spread == {"shard_number": 3, "replication_factor": 2, "write_consistency_factor": 2}
    assert made["vectors"] == {"dense": {"size": 32, "distance": "Cosine", "on_disk": False}}
    assert made["sparse_vectors"] == {"bm25": {"modifier": "idf"}}


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ({"consistency": "some"}, "majority, quorum, all"),
        ({"merge": "sum"}, "one of rrf, dbsf"),
        ({"replicas": 2, "write_consistency": 3}, "number of replicas"),
        ({"ordering": "quick"}, "one of weak, medium, strong"),
        ({"collection": "../else"}, "letters, digits"),
        ({"api_key_env": "A", "api_key_file": "b"}, "not both"),
        ({"colection": "facts"}, "has no option 'colection'"),
        ({"replicas": "2"}, "whole number"),
        ({"connect_ms": 0}, "connect_ms"),
    ],
)
async def test_a_wrong_option_is_named(options: dict[str, object], fix: str) -> None:
    """At the start, with what may stand there."""
    with pytest.raises(SettingsError, match=fix):
        await ours("http://127.0.0.1:1", None, **options)


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ({"collection": ""}, "collection is missing"),
        ({"fields": {"user_id": "u"}}, "payload key of text"),
        ({"fields": {"text": "t", "colour": "c"}}, "for some of text, user_id"),
        ({"bound": {"planet": "mars"}}, "bound"),
        ({"distance": "cosine"}, "Cosine, Dot"),
        ({"limit": 2000}, "1000"),
    ],
)
async def test_a_wrong_option_of_a_collection_is_named(options: dict[str, object], fix: str) -> None:
    """…and so are those of a collection that is only read."""
    with pytest.raises(SettingsError, match=fix):
        await theirs("http://127.0.0.1:1", FakeEmbedder(), **options)


async def test_without_a_model_and_without_words_nothing_could_be_asked() -> None:
    """Said at the start, with the fix."""
    with pytest.raises(SettingsError, match=r"configure \[embedder\]"):
        await theirs("http://127.0.0.1:1", None)


# Recorded replies

FOUND = {
    "result": {
        "points": [
            {
                "id": "5c56c793-69f3-4fbf-87e6-c4bf54c28c26",
                "version": 3,
                "score": 0.8312,
                "payload": {
                    "userId": "ada",
                    "data": "Prefers tea in the morning",
                    "hash": "d41d8cd98f00b204e9800998ecf8427e",
                    "createdAt": "2026-02-11T08:15:00.000Z",
                },
            },
            {"id": 17, "version": 4, "score": 0.5, "payload": {"userId": "ben", "data": "Ben's own"}},
            {"id": 18, "version": 4, "score": 0.4, "payload": {"userId": "ada"}},
            {
                "id": 19,
                "version": 4,
                "score": None,
                "payload": {"userId": "ada", "data": "No time", "createdAt": 1770797700},
            },
        ]
    },
    "status": "ok",
    "time": 0.001,
}
"""as Qdrant answers POST /points/query; the payload is that of mem0's Node library, which OpenClaw's plugin uses"""
INFO = {
    "result": {
        "status": "green",
        "optimizer_status": "ok",
        "indexed_vectors_count": 0,
        "points_count": 4,
        "segments_count": 2,
        "config": {
            "params": {
                "vectors": {"size": 32, "distance": "Cosine"},
                "shard_number": 1,
                "replication_factor": 1,
                "write_consistency_factor": 1,
                "on_disk_payload": True,
            },
            "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
        },
        "payload_schema": {},
    },
    "status": "ok",
    "time": 0.0001,
}
"""as it answers GET /collections/{name}"""
NODE = {"text": "data", "user_id": "userId", "recorded_at": "createdAt"}


async def recorded(call: Call) -> None:
    reply = FOUND if call.path.split("?")[0].endswith("/points/query") else INFO
    await call.reply(orjson.dumps(reply))


@pytest.mark.row("A112", "Qdrant: OpenClaw's collection is read as mem0's Node library fills it, from a recording")
async def test_a_recorded_reply_is_read(server: Server) -> None:
    """Texts, owners, times in both ways of writing them; another user's is left out, one without a text is counted."""
    server.faulty = recorded
    backend = await theirs(server.url, FakeEmbedder(), fields=NODE, collection="openclaw_mem0", limit=5)
    hits = await backend.search(make_query("tea?", Scope(user_id="ada")))
    asked = server.calls[-1].json
    await backend.close()
    assert isinstance(hits, PartialHits)
    assert hits.dropped == 1
    assert [(hit.native_id, hit.text, hit.scope.user_id) for hit in hits] == [
        ("5c56c793-69f3-4fbf-87e6-c4bf54c28c26", "Prefers tea in the morning", "ada"),
        ("19", "No time", "ada"),
    ]
    assert [hit.recorded_at for hit in hits] == [
        datetime(2026, 2, 11, 8, 15, tzinfo=UTC),
        datetime(2026, 2, 11, 8, 15, tzinfo=UTC),
    ]
    assert asked["filter"] == {"must": [{"key": "userId", "match": {"value": "ada"}}]}
    assert asked["limit"] == 5


async def test_what_is_bound_is_nobody_elses(server: Server) -> None:
    """A collection without owners in its payload belongs to whom it is bound to; a filter of one's own goes along."""
    server.faulty = recorded
    kind = {"must": [{"key": "type", "match": {"value": "fact"}}]}
    backend = await theirs(
        server.url, FakeEmbedder(), fields={"text": "data"}, bound={"user_id": "ada"}, filter=kind, tenant="blue"
    )
    hits = await backend.search(make_query("tea?", Scope("blue", user_id="ada")))
    await backend.close()
    assert {hit.scope for hit in hits} == {Scope("blue", user_id="ada")}
    assert backend.features.bound == {"user_id": "ada"}
    assert not backend.features.filters
    assert server.calls[-1].json["filter"] == {"must": [kind]}


# What goes wrong


def made(server: Server, size: int = 32, distance: str = "Cosine", name: str = "") -> None:
    """A collection "facts" of that shape, with one memory."""
    from qdrant_client import models

    shape = models.VectorParams(size=size, distance=models.Distance(distance))
    server.client.create_collection("facts", vectors_config={name: shape} if name else shape)
    vector: Any = {name: [1.0] * size} if name else [1.0] * size
    payload = {"data": "Biscuit is a greyhound.", "user_id": "ada"}
    server.client.upsert("facts", [models.PointStruct(id=1, vector=vector, payload=payload)])


async def told(backend: Collection | Qdrant) -> str:
    """What a search raises, which its description tells as well, with the fix."""
    with pytest.raises(HttpStatus) as raised:
        await backend.search(make_query("greyhound"))
    description = await backend.describe()
    await backend.close()
    assert description.degraded
    assert str(raised.value) in description.notes[0]
    assert "Fix: " in description.notes[0]
    return f"{raised.value.status}: {raised.value}"


@pytest.mark.feature("qdrant: a missing collection", part="faults/adapters")
async def test_a_missing_collection_is_named(server: Server) -> None:
    """404, as Qdrant says, and how to fix it."""
    found = await told(await theirs(server.url, FakeEmbedder()))
    assert found.startswith("404: ")
    assert "the collection 'facts' is not there. Fix: collection =" in found


@pytest.mark.feature("Qdrant: a wrong dimension, metric, vector or collection has its status and fix")
@pytest.mark.feature("qdrant: vectors of another dimension", part="faults/adapters")
async def test_a_wrong_dimension_is_named(server: Server) -> None:
    """Both numbers, and that the model is the one to change."""
    made(server, size=1536)
    found = await told(await theirs(server.url, FakeEmbedder()))
    assert "400: " in found
    assert "has vectors of 1,536 dimensions, and [embedder] makes 32. Fix: configure the model" in found


@pytest.mark.feature("qdrant: another metric", part="faults/adapters")
async def test_a_wrong_metric_is_named_and_can_be_configured(server: Server) -> None:
    """Where distances are meant they are best when small: as scores they are below zero."""
    made(server, distance="Euclid")
    assert 'compares by Euclid, not by Cosine. Fix: distance = "Euclid"' in await told(
        await theirs(server.url, FakeEmbedder())
    )
    backend = await theirs(server.url, FakeEmbedder(), distance="Euclid")
    [hit] = await backend.search(make_query("greyhound"))
    await backend.close()
    assert hit.score is not None
    assert hit.score < 0


@pytest.mark.feature("qdrant: a vector of another name", part="faults/adapters")
async def test_a_vector_of_another_name_is_named(server: Server) -> None:
    """With the names that there are."""
    made(server, name="text")
    assert "has no vector '', only 'text'" in await told(await theirs(server.url, FakeEmbedder()))
    assert "has no sparse vector 'bm25', only none" in await told(
        await theirs(server.url, FakeEmbedder(), vector="text", sparse="bm25")
    )


@pytest.mark.feature("qdrant: a server of an older version", part="faults/adapters")
async def test_an_older_server_is_reported(server: Server) -> None:
    """One that has the collection and no search of this form, by the search and by the doctor, with the fix."""
    made(server)
    mine = await ours(server.url, FakeEmbedder())
    await mine.remember(make_samples()[:1])
    await mine.settle()

    async def older(call: Call) -> bool:
        if not call.path.endswith("/points/query"):
            return False
        await call.reply(b"", 404)
        return True

    server.before = older
    for backend in (await theirs(server.url, FakeEmbedder()), mine):
        assert (await told(backend)).endswith("Fix: Qdrant 1.13 or newer")


@pytest.mark.feature("qdrant: a collection that was recreated in another shape", part="faults/adapters")
async def test_a_collection_that_is_made_anew_is_looked_at_again(server: Server) -> None:
    """Its shape is remembered only as long as it holds."""
    made(server)
    backend = await theirs(server.url, FakeEmbedder())
    assert len(await backend.search(make_query("greyhound"))) == 1
    server.client.delete_collection("facts")
    made(server, size=8)
    assert "has vectors of 8 dimensions" in await told(backend)


@pytest.mark.feature("qdrant: a payload in another shape", part="faults/adapters")
async def test_a_missing_text_field_is_reported(server: Server) -> None:
    """No answer rather than an empty one, and which setting to correct."""
    made(server)
    backend = await theirs(server.url, FakeEmbedder(), fields={"text": "memory"})
    with pytest.raises(InvalidAnswer, match="correct fields"):
        await backend.search(make_query("greyhound"))
    await backend.close()


@pytest.mark.feature("Qdrant: an expired key is reported, a renewed one used")
@pytest.mark.feature("qdrant: an expired key", part="faults/adapters")
async def test_an_expired_key_is_reported_and_a_renewed_one_is_used() -> None:
    """401 and 403 are Unauthorized; the key is in no message; the next request reads it again."""
    async with Server(key="good") as server:
        made(server)
        os.environ["QDRANT_TEST_KEY"] = "expired-secret"
        try:
            backend = await theirs(server.url, FakeEmbedder(), api_key_env="QDRANT_TEST_KEY")
            with pytest.raises(Unauthorized) as raised:
                await backend.search(make_query("greyhound"))
            description = await backend.describe()
            assert "Fix: give it the key" in description.notes[0]
            assert "expired-secret" not in str(raised.value) + description.notes[0]
            os.environ["QDRANT_TEST_KEY"] = "good"
            assert len(await backend.search(make_query("greyhound"))) == 1
            del os.environ["QDRANT_TEST_KEY"]
            with pytest.raises(Unauthorized, match="the environment has no QDRANT_TEST_KEY"):
                await backend.search(make_query("greyhound"))
            await backend.close()
        finally:
            os.environ.pop("QDRANT_TEST_KEY", None)


@pytest.mark.row("A112", "Qdrant: port 6334 is distinguished from 6333")
@pytest.mark.feature("qdrant: gRPC's port", part="faults/adapters")
async def test_the_port_of_grpc_is_recognised() -> None:
    """Nobody speaks HTTP/1.1 at 6334: the note says where REST is."""
    backend = await theirs("http://127.0.0.1:6334", FakeEmbedder(), connect_ms=100)
    [note] = (await backend.describe()).notes
    await backend.close()
    assert "usually port 6333; 6334 is usually gRPC's" in note


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (chaos.reset_at_once, BackendUnreachable),
        (chaos.status(503), HttpStatus),
        (chaos.status(429, Retry_After="7"), RateLimited),
        (chaos.announced_flood, InvalidAnswer),
        (chaos.hang, BackendTimeout),
    ],
)
async def test_a_server_on_a_bad_day(server: Server, behaviour: chaos.Behaviour, error: type[Exception]) -> None:
    """Each failure has its name, in time."""
    made(server)
    backend = await theirs(server.url, FakeEmbedder())
    await backend.search(make_query("greyhound"))  # which looks at the collection
    server.faulty = behaviour
    with pytest.raises(error):
        await backend.search(make_query("greyhound", deadline_s=0.2 if behaviour is chaos.hang else 30.0))
    await backend.close()


@pytest.mark.feature("qdrant: our own collection, changed", part="faults/adapters")
async def test_a_changed_collection_of_ours_is_not_written_to(server: Server) -> None:
    """Somebody made it anew without the words: said, with the fix, and nothing is stored there."""
    from qdrant_client import models

    name = collection_of("memories", FakeEmbedder())
    server.client.create_collection(
        name, vectors_config={"dense": models.VectorParams(size=16, distance=models.Distance.COSINE)}
    )
    backend = await ours(server.url, FakeEmbedder())
    with pytest.raises(HttpStatus, match=r"16 dimensions.*Fix: collection = \"another name\""):
        await backend.remember(make_samples())
    description = await backend.describe()
    await backend.close()
    assert "16 dimensions" in description.notes[0]


# Vectors that come behind


@pytest.mark.feature("qdrant: no model", part="faults/adapters")
async def test_a_failing_model_costs_no_memory(server: Server) -> None:
    """Kept and found by its words; the description says why; when the model is back every memory has its vector."""
    embedder = FakeEmbedder(failing=True, synonyms={"dog": "greyhound"})
    backend = await ours(server.url, embedder)
    await backend.remember(make_samples())
    assert (await backend.search(make_query("greyhound")))[0].event_id == event_id(4)
    description = await backend.describe()
    assert (description.items, description.vectors_pending, description.degraded) == (12, 12, True)
    assert "12 memories wait for their vectors" in description.notes[0]
    embedder.failing = False
    await backend.settle()
    description = await backend.describe()
    assert (description.vectors, description.vectors_pending, description.notes) == (12, 0, ())
    assert (await backend.search(make_query("dog")))[0].event_id == event_id(4)
    await backend.close()


@pytest.mark.row(
    "A080",
    "Qdrant: another model gets another collection, into which the memories are copied; the old one "
    "is kept, and reported",
)
@pytest.mark.feature("qdrant: another model", part="faults/adapters")
async def test_another_model_is_never_mixed_with_the_first(server: Server) -> None:
    """Its collection is new; what the old one had is copied, and found by its words at once; that stays, as told."""
    backend = await ours(server.url, FakeEmbedder())
    await backend.remember([*make_samples(), *(make_extracted(make_event(n, f"Filler {n}")) for n in range(20, 120))])
    await backend.close()
    server.client.create_collection("memories-of-others.x.0123456789", vectors_config={})
    gate = asyncio.Event()
    other = FakeEmbedder(identity="other@2", dimensions=16, gate=gate)
    again = await ours(server.url, other)
    await other.waiting.wait()
    description = await again.describe()
    assert (description.items, description.vectors, description.vectors_pending) == (112, 0, 112)
    gate.set()
    await again.settle()
    description = await again.describe()
    assert (description.vectors, description.degraded) == (112, False)
    first = collection_of("memories", FakeEmbedder())
    assert f"left as it is: {first}. Fix: delete what no gateway uses" in description.notes[0]
    assert (await again.search(make_query("Quentin adopted a greyhound called Biscuit.")))[0].event_id == event_id(4)
    await again.close()
    names = {one.name for one in server.client.get_collections().collections}
    assert names == {first, collection_of("memories", other), "memories-of-others.x.0123456789"}


@pytest.mark.feature(
    "Qdrant: two gateways with two models keep each other's memories; what one forgets is deleted from both"
)
async def test_two_gateways_of_two_models_leave_each_other_their_memories(server: Server) -> None:
    """Both go on answering, whichever opens or stores; what one forgets is in neither collection, and stays away."""
    gateways = [await ours(server.url, FakeEmbedder())]
    await gateways[0].remember(make_samples())
    other = FakeEmbedder(identity="other@2", dimensions=16)
    gateways.append(await ours(server.url, other))
    await gateways[1].settle()
    greyhound = make_query("Quentin adopted a greyhound called Biscuit.")
    for n, one in enumerate(gateways):
        await one.remember([make_extracted(make_event(50 + n, f"The kettle of gateway {n} whistles."))])
        for each in gateways:
            assert (await each.search(greyhound))[0].event_id == event_id(4)
        assert (await one.search(make_query("kettle")))[0].event_id == event_id(50 + n)
    assert await gateways[1].forget(event_id(4), []) == "deleted"
    gateways.append(await ours(server.url, other))
    await gateways[2].settle()
    for one in gateways:
        assert event_id(4) not in {hit.event_id for hit in await one.search(greyhound)}
        assert not (await one.describe()).degraded
        await one.close()


@pytest.mark.feature("Qdrant: a missing collection is reported, with its fix")
async def test_a_deleted_collection_is_reported(server: Server) -> None:
    """Somebody deleted it: a search fails and the description says how to fix it, where memories were."""
    backend = await ours(server.url, FakeEmbedder())
    await backend.remember(make_samples())
    server.client.delete_collection(collection_of("memories", FakeEmbedder()))
    found = await told(backend)
    assert "is gone. Fix: collection" in found


async def test_what_is_forgotten_while_it_is_encoded_stays_away(server: Server) -> None:
    """The vector comes too late, and brings nothing back."""
    embedder = FakeEmbedder(failing=True)
    backend = await ours(server.url, embedder)
    await backend.remember(make_samples())
    await backend.close()
    gate = asyncio.Event()
    slow = FakeEmbedder(gate=gate)
    again = await ours(server.url, slow)
    await slow.waiting.wait()
    assert await again.forget(event_id(4), []) == "deleted"
    gate.set()
    await again.settle()
    assert (await again.describe()).vectors == 11
    assert event_id(4) not in {hit.event_id for hit in await again.search(make_query("greyhound"))}
    await again.close()


async def test_the_past_is_asked_of_qdrant(server: Server) -> None:
    """What began later, had ended, or was not known yet is filtered before the limit."""
    old = make_event(1, "The greyhound sleeps in the kitchen.", valid_to=NOW - timedelta(days=10))
    new = make_event(2, "The greyhound sleeps in the garden.", valid_from=NOW - timedelta(days=10))
    late = make_event(3, "The greyhound slept in the barn.", at=Moment(NOW - timedelta(days=40), "day"))
    late = replace(late, recorded_at=NOW - timedelta(days=1))
    backend = await ours(server.url, FakeEmbedder())
    await backend.remember([make_extracted(event) for event in (old, new, late)])

    async def found(**times: datetime) -> set[str | None]:
        query = replace(make_query("greyhound", limit=3), **times)  # type: ignore[arg-type]
        return {hit.event_id for hit in await backend.search(query)}

    assert await found() == {event_id(2), event_id(3)}
    assert await found(as_of=NOW - timedelta(days=20)) == {event_id(1), event_id(3)}
    assert await found(as_of=NOW) == {event_id(2), event_id(3)}
    assert await found(known_at=NOW - timedelta(days=2)) == {event_id(2)}
    await backend.close()


@pytest.mark.feature("Qdrant: 100 deliveries during 30 searches lose nothing")
async def test_many_at_once_lose_nothing(server: Server) -> None:
    """100 deliveries of one memory each and 30 searches at once: every memory is there once."""
    backend = await ours(server.url, FakeEmbedder())
    await backend.remember([make_extracted(make_event(1000, "The first."))])
    batch = [make_extracted(make_event(n, f"Memory number {n}")) for n in range(100)]
    await asyncio.gather(
        *(backend.remember([one]) for one in batch), *(backend.search(make_query(f"number {n}")) for n in range(30))
    )
    await backend.settle()
    description = await backend.describe()
    assert (description.items, description.vectors) == (101, 101)
    await backend.close()


# A real one


# What stands beside a memory


@pytest.mark.feature(
    "Qdrant: the neighbours of the gateway's own memories are fetched for all hits at once, within document and scope"
)
async def test_neighbours_stay_in_their_document_and_scope(server: Server) -> None:
    """Of eight lines of one name, those of Ada's own talk; not Ben's, not another document's, not another run's; and
    of nobody's only nobody's. Two that begin at one line stand by where they end. All are asked for at once."""
    ada = Scope(user_id="ada", run_id="r1")
    whose = {1: ada, 2: Scope(user_id="ben", run_id="r1"), 3: ada, 4: ada, 5: Scope(user_id="ada"), 6: Scope(), 7: ada}
    places = {n: Place("talk", n, n) for n in whose} | {4: Place("talk", 3, 9)}
    backend = await ours(server.url, FakeEmbedder())
    told = [make_extracted(make_event(n, f"line {n} of it", whose[n], place=places[n])) for n in whose]
    told.append(make_extracted(make_event(8, "line 8 of it", ada, place=Place("walk", 3, 3))))
    await backend.remember(told)
    await backend.settle()
    hits = {hit.event_id: hit for hit in await backend.search(make_query("line of it", Scope()))}
    server.calls.clear()
    asked = [hits[event_id(n)] for n in (3, 4, 6)] + [replace(hits[event_id(3)], place=None)]
    around = await backend.neighbours(asked, 2)
    assert [[near.event_id for near in nears] for nears in around] == [
        [event_id(n) for n in (1, 4, 7)],
        [event_id(n) for n in (1, 3, 7)],
        [],
        [],
    ]
    assert [call.path for call in server.calls] == [f"/collections/{backend._name}/points/query/batch"]
    await backend.close()


@pytest.mark.feature("Qdrant: a collection of an earlier version gets the payload indexes when it is opened")
async def test_an_older_collection_gets_the_indexes_that_it_lacks(server: Server) -> None:
    """Those that a server names are not made again; Qdrant orders by nothing without one."""
    first = await ours(server.url)
    await first.remember(make_samples()[:1])
    await first.close()
    info = server.client.get_collection(first._name).model_dump(mode="json")
    info["payload_schema"] = {field: {"data_type": "keyword", "points": 1} for field in INDEXED if field != "start"}

    async def older(call: Call) -> bool:
        if call.method != "GET" or call.path != f"/collections/{first._name}":
            return False
        await call.reply(orjson.dumps({"result": info, "status": "ok"}))
        return True

    server.before = older
    server.calls.clear()
    again = await ours(server.url)
    await again.remember(make_samples()[1:2])
    made = [call.json for call in server.calls if "/index" in call.path]
    assert made == [{"field_name": "start", "field_schema": "integer"}]
    await again.close()


@pytest.mark.feature("Qdrant: a real server (`live`, `compose/qdrant.yaml`)")
@pytest.mark.live
async def test_a_real_server_keeps_them() -> None:
    """Needs FUSION_TEST_QDRANT, the address of a server (compose/qdrant.yaml), and QDRANT_API_KEY where it has one."""
    url = os.environ["FUSION_TEST_QDRANT"]
    key = {"api_key_env": "QDRANT_API_KEY"} if "QDRANT_API_KEY" in os.environ else {}
    prefix = f"test-{uuid4().hex[:8]}"
    backend = await ours(url, FakeEmbedder(synonyms={"dog": "greyhound"}), collection=prefix, **key)
    try:
        await backend.remember(make_samples(Scope(user_id="ada")))
        mine = replace(make_query("greyhound", Scope(user_id="ada")), as_of=NOW)
        assert (await backend.search(mine))[0].event_id == event_id(4)
        assert (await backend.search(make_query("dog", Scope(user_id="ada"))))[0].event_id == event_id(4)
        assert list(await backend.search(make_query("greyhound", Scope(user_id="ben")))) == []
        assert (await backend.describe()).vectors == 12
        assert await backend.forget(event_id(4), []) == "deleted"
        assert (await backend.describe()).items == 11
    finally:
        name = collection_of(prefix, FakeEmbedder())
        await backend._client._http.delete(f"/collections/{name}", 30.0)
        await backend.close()
