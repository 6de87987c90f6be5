"""Mem0 where others use it too: the library on a Qdrant server, and mem0's own server, in the shapes of 1.x and 2.x.

Qdrant is `tests.qdrant_server`; mem0's server is the library itself behind its server's routes, and recorded replies.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import httpx
import orjson
import pytest

if find_spec("mem0") is None:  # imported here, it would have its telemetry on
    pytest.skip("needs mem0ai: pip install '/path/to/checkout[mem0]'", allow_module_level=True)

from qdrant_client import QdrantClient, models

from adapters.mem0 import Mem0, Mem0Server, library
from adapters.mem0.library import config
from adapters.mem0.shared_qdrant import asked_of
from adapters.mem0.transport import Through
from adapters.qdrant import Collection
from adapters.qdrant import Qdrant as QdrantMemories
from fusion.contract import (
    Backend,
    Describes,
    Embedder,
    Forgets,
    LanguageModel,
    Opening,
    PartialHits,
    Query,
    Remembers,
    Scope,
)
from fusion.errors import BackendUnreachable, HttpStatus, InvalidAnswer, NotFound, SettingsError, Unauthorized
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
from tests.chaos import Call, Chaos
from tests.fakes import FakeEmbedder, FakeModel
from tests.patience import PATIENT_MS, opening_at
from tests.qdrant_server import Qdrant

FACTS = '{"memory": [{"text": "Ada prefers peppermint tea"}, {"text": "Ada dislikes espresso"}]}'
"""as mem0 2.x asks a model to answer"""


async def on_qdrant(
    url: str, folder: Path, embedder: Embedder | None = None, model: LanguageModel | None = None, **options: object
) -> Mem0:
    options = {"collection": "facts", "timeout_ms": 60_000, **options}
    return await Mem0.open(opening_at(url, "mem0", folder, embedder or FakeEmbedder(), model, **options))


@pytest.fixture
async def qdrant() -> AsyncIterator[Qdrant]:
    async with Qdrant() as server:
        yield server


def made(server: Qdrant, size: int = 32, distance: str = "Cosine") -> None:
    """The collection of an earlier mem0: without the words of its third version."""
    server.client.create_collection(
        "facts", vectors_config=models.VectorParams(size=size, distance=models.Distance(distance))
    )


@pytest.mark.feature("Mem0: the library works on a Qdrant server that others also use")
class TestOnQdrant(RemoteBackendContract):
    """The library in process, on a Qdrant server."""

    filters = True

    @pytest.fixture(autouse=True)
    async def served(self, qdrant: Qdrant) -> None:
        self.url = qdrant.url

    async def open_backend(self, folder: Path) -> Backend:
        return await self.open_at(folder, self.url)

    async def open_at(self, folder: Path, url: str) -> Backend:
        return await on_qdrant(url, folder, create=True)

    async def test_has_its_ports(self, backend: Backend) -> None:
        """It stores, forgets and describes; what stands beside a memory nobody knows there."""
        for port in (Remembers, Forgets, Describes):
            assert isinstance(backend, port)


class Mem0Behind(Chaos):
    """Mem0's server of one of its versions: its routes in front of the library, which runs on a thread of its own."""

    def __init__(self, folder: Path, version: str, key: str = "") -> None:
        super().__init__(behaviour=self.answered)
        self.version, self.key = version, key
        self.worker = ThreadPoolExecutor(1)
        self.folder = folder
        self.client = QdrantClient(":memory:")

    async def __aenter__(self) -> Mem0Behind:
        loop = asyncio.get_running_loop()
        store = {"collection_name": "mem0", "client": self.client, "embedding_model_dims": 32}
        self.memory = await loop.run_in_executor(self.worker, lambda: library(self.folder).from_config(config(store)))
        self.memory.embedding_model.connect(FakeEmbedder(), loop)
        await super().__aenter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await super().__aexit__(*raised)
        self.worker.shutdown()
        self.memory.close()
        self.client.close()

    async def answered(self, call: Call) -> None:
        if call.headers.get("x-api-key", "") != self.key:
            return await call.reply(b'{"detail":"Invalid API key"}', 401)
        route = ROUTES.get((call.method, call.path if call.path.count("/") == 1 else "/memories/"))
        if route is None:
            return await call.reply(b'{"detail":"Not Found"}', 404)
        try:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self.worker, lambda: route(self, call))
        except ValueError as error:
            status = 500 if self.version == "1" else 404 if "not found" in str(error) else 400
            return await call.reply(orjson.dumps({"detail": str(error)}), status)
        return await call.reply(orjson.dumps(found, default=str))

    def search(self, call: Call) -> Any:
        asked = call.json
        if self.version == "2":
            return self.memory.search(
                asked["query"],
                filters=asked.get("filters"),
                top_k=asked.get("top_k", 20),
                threshold=asked.get("threshold", 0.1),
            )
        whose = {key: asked[key] for key in ("user_id", "agent_id", "run_id") if asked.get(key)}
        if not whose:
            raise ValueError("At least one of 'user_id', 'agent_id', or 'run_id' must be provided.")
        filters = {**(asked.get("filters") or {}), **whose}
        return self.memory.search(asked["query"], filters=filters, top_k=asked.get("limit", 100), threshold=0.0)[
            "results"
        ]

    def add(self, call: Call) -> Any:
        return self.memory.add(**call.json)

    def one(self, call: Call) -> Any:
        native_id, _, more = call.path.removeprefix("/memories/").partition("/")
        if more == "history":
            return self.memory.history(native_id)
        found = self.memory.get(native_id)
        if found is None and self.version == "2":
            raise ValueError("Memory not found")
        return found

    def delete(self, call: Call) -> Any:
        self.memory.delete(call.path.removeprefix("/memories/"))
        return {"message": "Memory deleted successfully"}


ROUTES: dict[tuple[str, str], Callable[[Mem0Behind, Call], Any]] = {
    ("POST", "/search"): Mem0Behind.search,
    ("POST", "/memories"): Mem0Behind.add,
    ("GET", "/memories/"): Mem0Behind.one,
    ("DELETE", "/memories/"): Mem0Behind.delete,
}


@pytest.mark.row("A113", "Mem0: its own server 2.x is asked with `filters`, `top_k`, `threshold`")
class TestMem0Server(RemoteBackendContract):
    """A server of 2.x."""

    filters = True

    version: ClassVar[str] = "2"
    bound: ClassVar[dict[str, str]] = {}

    @pytest.fixture(autouse=True)
    async def server(self, tmp_path: Path) -> AsyncIterator[Mem0Behind]:
        async with Mem0Behind(tmp_path / "library", self.version) as server:
            self.url = server.url
            yield server

    async def open_backend(self, folder: Path) -> Backend:
        return await self.open_at(folder, self.url)

    async def open_at(self, folder: Path, url: str) -> Backend:
        return await Mem0Server.open(opening_at(url, "mem0", folder, bound=self.bound))

    async def test_describes_what_it_holds(self, backend: Backend) -> None:
        """It cannot: mem0's server counts nothing."""
        assert isinstance(backend, Describes)
        assert not (await backend.describe()).degraded


@pytest.mark.row("A113", "Mem0: its own server 1.x is asked with identities next to the question")
class TestMem0ServerOfOne(TestMem0Server):
    """A server of 1.x, which has to be asked for somebody."""

    version = "1"
    bound: ClassVar[dict[str, str]] = {"user_id": "ada"}


# The library on a server


@pytest.mark.row("A120", "Instances (Max, Eva): each has its own collection or tenant, and each agent its own memories")
async def test_what_others_stored_is_found(qdrant: Qdrant, tmp_path: Path) -> None:
    """A memory of OpenClaw's plugin, stored while the gateway runs: of the backend's tenant, of its user alone."""
    made(qdrant)
    backend = await on_qdrant(qdrant.url, tmp_path, tenant="blue")
    ada = Scope("blue", user_id="ada")
    assert list(await backend.search(make_query("greyhound", ada))) == []
    vector = (await FakeEmbedder().embed(["Biscuit is a greyhound."]))[0].tolist()
    payload = {
        "data": "Biscuit is a greyhound.",
        "user_id": "ada",
        "created_at": "2026-02-01T10:00:00-08:00",
        "kind": 7,
    }
    qdrant.client.upsert("facts", [models.PointStruct(id=event_id(77), vector=vector, payload=payload)])
    [hit] = await backend.search(make_query("Who is a greyhound?", ada))
    assert (hit.text, hit.event_id, hit.scope, hit.kind) == ("Biscuit is a greyhound.", None, ada, "note")
    assert hit.recorded_at is not None
    assert hit.recorded_at.isoformat() == "2026-02-01T18:00:00+00:00"
    assert list(await backend.search(make_query("greyhound", Scope("blue", user_id="ben")))) == []
    assert await backend.forget(event_id(1), [hit.native_id]) == "deleted"
    await backend.close()


@pytest.mark.feature("mem0, the library on a Qdrant server: another tenant's memories", part="faults/adapters")
async def test_another_tenants_memories_stay_out_of_what_others_read(qdrant: Qdrant, tmp_path: Path) -> None:
    """A server is its tenant's own: memories of others do not go there."""
    served = await on_qdrant(qdrant.url, tmp_path, tenant="blue")
    server = await Mem0Server.open(Opening("mem0", tmp_path, {"tenant": "blue"}))
    for backend in (served, server):
        assert backend.accepts(make_event(1, "Blue's own.", Scope("blue")))
        assert not backend.accepts(make_event(2, "Red's secret.", Scope("red")))
        await backend.close()


@pytest.mark.row(
    "A112",
    "Mem0: the seed's preset `openclaw`: collection, 1,536 dimensions, cosine, five memories, the port (6334 or 6333)",
)
async def test_openclaws_preset(qdrant: Qdrant, tmp_path: Path) -> None:
    """Collection openclaw_mem0 on loopback, 1,536 dimensions, five memories; the port, and all else, may be others."""
    port = int(qdrant.url.rsplit(":", 1)[1])
    qdrant.client.create_collection(
        "openclaw_mem0", vectors_config=models.VectorParams(size=1536, distance=models.Distance.COSINE)
    )
    opening = Opening(
        "mem0", tmp_path, {"preset": "openclaw", "port": port, "connect_ms": PATIENT_MS}, FakeEmbedder(dimensions=1536)
    )
    backend = await Mem0.open(opening)
    await backend.remember(make_samples(Scope(user_id="ada")))
    assert len(await backend.search(make_query("Julien Marta Orchard", Scope(user_id="ada")))) == 5
    assert qdrant.client.count("openclaw_mem0").count == 12
    await backend.close()
    with pytest.raises(SettingsError, match=r"wants 1,536 dimensions, and \[embedder\] makes 32.*OpenAI"):
        await Mem0.open(Opening("mem0", tmp_path, {"preset": "openclaw"}, FakeEmbedder()))


async def found(backend: Mem0) -> str:
    """What a search raises, which the description tells as well."""
    with pytest.raises((HttpStatus, BackendUnreachable, Unauthorized)) as raised:
        await backend.search(make_query("greyhound"))
    description = await backend.describe()
    await backend.close()
    assert description.degraded
    assert "Fix: " in description.notes[0]
    return f"{type(raised.value).__name__} {description.notes[0]}"


@pytest.mark.feature(
    "Mem0: a wrong dimension or metric, a missing collection and an expired key are reported, each with its fix"
)
@pytest.mark.feature(
    "mem0, the library on a Qdrant server: a missing collection, another dimension, another metric",
    part="faults/adapters",
)
async def test_what_is_wrong_with_a_collection_is_named(qdrant: Qdrant, tmp_path: Path) -> None:
    """Missing, of another size, compared by another metric: said with the fix, and nothing of it is changed."""
    assert "is not there. Fix: collection = " in await found(await on_qdrant(qdrant.url, tmp_path))
    assert not qdrant.client.collection_exists("facts")
    made(qdrant, size=1536)
    assert "has vectors of 1,536 dimensions" in await found(await on_qdrant(qdrant.url, tmp_path))
    qdrant.client.delete_collection("facts")
    made(qdrant, distance="Euclid")
    assert "compares by Euclid" in await found(await on_qdrant(qdrant.url, tmp_path))


@pytest.mark.feature("mem0, the library on a Qdrant server: a Qdrant of an older version", part="faults/adapters")
async def test_an_older_qdrant_is_reported(qdrant: Qdrant, tmp_path: Path) -> None:
    """It has the collection, and no search of the form that the library asks by."""
    made(qdrant)

    async def older(call: Call) -> bool:
        if not call.path.endswith("/points/query"):
            return False
        await call.reply(b"", 404)
        return True

    qdrant.before = older
    assert "Fix: Qdrant 1.13 or newer" in await found(await on_qdrant(qdrant.url, tmp_path))


@pytest.mark.feature("mem0, the library on a Qdrant server: an expired key, a renewed one", part="faults/adapters")
async def test_an_expired_key_is_reported(tmp_path: Path) -> None:
    """Unauthorized; the next question reads the key again, also once the library is connected."""
    async with Qdrant(key="good") as server:
        made(server)
        os.environ["MEM0_TEST_KEY"] = "expired-secret"
        try:
            told_of = await found(await on_qdrant(server.url, tmp_path, api_key_env="MEM0_TEST_KEY"))
            assert told_of.startswith("Unauthorized")
            assert "expired-secret" not in told_of
            backend = await on_qdrant(server.url, tmp_path, api_key_env="MEM0_TEST_KEY")
            with pytest.raises(Unauthorized):
                await backend.search(make_query("greyhound"))
            os.environ["MEM0_TEST_KEY"] = "good"
            assert list(await backend.search(make_query("greyhound"))) == []
            server.key = "renewed"
            with pytest.raises(Unauthorized):
                await backend.search(make_query("greyhound"))
            os.environ["MEM0_TEST_KEY"] = "renewed"
            assert list(await backend.search(make_query("greyhound"))) == []
            await backend.close()
        finally:
            os.environ.pop("MEM0_TEST_KEY", None)


async def test_closing_waits_for_no_server(qdrant: Qdrant, tmp_path: Path) -> None:
    """Whoever still asks one that hangs is told that the connection was lost, an hour before the time is up."""
    made(qdrant)
    backend = await on_qdrant(qdrant.url, tmp_path, timeout_ms=600_000)
    assert list(await backend.search(make_query("greyhound"))) == []
    qdrant.faulty = chaos.hang
    qdrant.called.clear()
    asking = asyncio.create_task(backend.search(make_query("greyhound", deadline_s=3600.0)))
    await qdrant.called.wait()
    await backend.close()
    with pytest.raises(BackendUnreachable):
        await asking


def test_a_loop_that_has_ended_keeps_no_thread() -> None:
    """What the library asks then is refused at once, and nothing is begun that nobody would end."""
    loop = asyncio.new_event_loop()
    loop.close()
    through = Through(loop, dict, 3600.0, 1.0)
    with pytest.raises(BackendUnreachable):
        through.handle_request(httpx.Request("GET", "http://127.0.0.1:9/collections"))


@pytest.mark.feature("mem0, the library on a Qdrant server: no model", part="faults/adapters")
async def test_without_its_vector_nothing_is_stored_on_a_server(qdrant: Qdrant, tmp_path: Path) -> None:
    """The delivery fails, so that it comes again; somebody else's collection gets no half memories."""
    made(qdrant)
    embedder = FakeEmbedder(failing=True)
    backend = await on_qdrant(qdrant.url, tmp_path, embedder)
    with pytest.raises(BackendUnreachable, match="embedding model"):
        await backend.remember(make_samples())
    with pytest.raises(BackendUnreachable, match="embedding model"):
        await backend.search(make_query("greyhound"))
    embedder.failing = False
    await backend.remember(make_samples())
    assert qdrant.client.count("facts").count == 12
    await backend.close()


@pytest.mark.feature("Mem0: 300 adds during 100 searches lose nothing, local and on a server")
async def test_many_at_once_lose_nothing(qdrant: Qdrant, tmp_path: Path) -> None:
    """300 adds beside 100 searches, from several threads of the library."""
    backend = await on_qdrant(qdrant.url, tmp_path, create=True)
    batch = [make_extracted(make_event(n, f"Memory number {n}")) for n in range(300)]
    found = await asyncio.gather(
        *(backend.remember([one]) for one in batch), *(backend.search(make_query(f"number {n}")) for n in range(100))
    )
    assert len(found) == 400
    assert qdrant.client.count("facts").count == 300
    await backend.close()


# infer


@pytest.mark.row(
    "A112", "Mem0: `infer` extracts facts by the configured model, once, and they are deleted with their event"
)
@pytest.mark.parametrize("local", [True, False])
async def test_mem0_makes_facts_by_the_configured_model(qdrant: Qdrant, tmp_path: Path, local: bool) -> None:
    """It is asked once; a retried delivery finds what the first one made; forgetting the event takes its facts."""
    made(qdrant)
    model = FakeModel(FACTS)
    options: dict[str, object] = {"infer": True} if local else {"infer": True, "url": qdrant.url, "collection": "facts"}
    backend = await Mem0.open(Opening("mem0", tmp_path / "mem0", options, FakeEmbedder(), model))
    said = make_extracted(make_event(1, "Peppermint please, no espresso.", Scope(user_id="ada"), speaker="Ada"))
    [ids] = await backend.remember([said])
    [again] = await backend.remember([said])
    assert len(ids) == 2
    assert set(again) == set(ids)
    assert len(model.asked) == 1
    assert "Ada: Peppermint please, no espresso." in model.asked[0].user
    hits = await backend.search(make_query("peppermint tea", Scope(user_id="ada")))
    assert hits[0].text == "Ada prefers peppermint tea"
    assert {(hit.event_id, hit.derived_from) for hit in hits} == {(None, (event_id(1),))}
    assert list(await backend.search(make_query("peppermint tea", Scope(user_id="ben")))) == []
    assert await backend.forget(event_id(1), []) == "deleted"
    assert list(await backend.search(make_query("peppermint tea", Scope(user_id="ada")))) == []
    await backend.close()


@pytest.mark.feature("mem0, the library on a Qdrant server: a model that fails", part="faults/adapters")
async def test_a_model_that_fails_fails_the_delivery(tmp_path: Path) -> None:
    """Under its own name, so that the delivery comes again."""
    model = FakeModel(Unauthorized("the key has expired"))
    backend = await Mem0.open(Opening("mem0", tmp_path / "mem0", {"infer": True}, FakeEmbedder(), model))
    with pytest.raises(Unauthorized, match="expired"):
        await backend.remember(make_samples()[:1])
    await backend.close()


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        ({"infer": True}, r"configure \[model\]"),
        ({"preset": "claw"}, "preset = 'claw' must be one of openclaw"),
        ({"port": 70000}, "port"),
        ({"url": "qdrant"}, "http://"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"connect_ms": 0}, "connect_ms"),
        ({"top_k": 5}, "has no option 'top_k'"),
    ],
)
async def test_a_wrong_option_is_named(tmp_path: Path, options: dict[str, object], fix: str) -> None:
    """At the start, with what may stand there."""
    with pytest.raises(SettingsError, match=fix):
        await Mem0.open(Opening("mem0", tmp_path, options, FakeEmbedder()))


# The shapes of both versions


class LibraryOfOne:
    """``Memory`` as 1.x had it: whose memories beside the question, ``limit`` instead of ``top_k``."""

    vector_store = None

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    def search(
        self,
        query: str,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        limit: int = 100,
        filters: dict[str, Any] | None = None,
        threshold: float | None = None,
    ) -> dict[str, Any]:
        self.asked = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "limit": limit, "filters": filters}
        return {"results": [], "relations": []}


@pytest.mark.row("A113", "Mem0: a library of 1.x gets the arguments that it expects")
@pytest.mark.feature("mem0, the library on a Qdrant server: a library of 1.x", part="faults/adapters")
def test_a_library_of_one_is_called_as_it_wants() -> None:
    """Identities beside the question, the rest as filters; where nobody is named, whose memories are nobody's."""
    memory = LibraryOfOne()
    asked_of(memory, "tea?", {"user_id": "ada", "session_id": "s1"}, 7)
    assert memory.asked == {
        "user_id": "ada",
        "agent_id": None,
        "run_id": None,
        "limit": 7,
        "filters": {"session_id": "s1"},
    }
    asked_of(memory, "tea?", {"user_id": "*"}, 7)
    assert memory.asked["user_id"] == "_shared"


TWO = {
    "results": [
        {
            "id": "f4cbdb08-7062-4f3e-8eb2-9f5c80dfe64c",
            "memory": "Likes to play cricket on weekends",
            "hash": "285d07801ae42054732314853e9eadd7",
            "metadata": {"category": "hobbies"},
            "score": 0.35,
            "created_at": "2026-01-10T10:04:22.891281+00:00",
            "updated_at": None,
            "user_id": "alice",
            "role": "user",
            "score_details": {"semantic": 0.35},
        },
        {"memory": "no id"},
    ]
}
ONE = {
    "results": [
        {
            "id": "f4cbdb08-7062-4f3e-8eb2-9f5c80dfe64c",
            "memory": "Likes to play cricket on weekends",
            "hash": "285d07801ae42054732314853e9eadd7",
            "metadata": None,
            "score": 0.32116443111457704,
            "created_at": "2024-07-26T10:29:36.630547-07:00",
            "updated_at": None,
            "user_id": "alice",
        }
    ],
    "relations": [],
}
EARLIEST = [{"id": "m1", "memory": "Likes to play cricket on weekends", "score": 0.3}]


@pytest.mark.row("A113", "Mem0: recorded replies of 2.x, 1.x and its first list format are parsed")
@pytest.mark.feature("mem0: replies of 1.x and of its first list", part="faults/adapters")
@pytest.mark.parametrize(("reply", "dropped"), [(TWO, 1), (ONE, 0), (EARLIEST, 0)])
async def test_a_recorded_reply_is_read(reply: object, dropped: int) -> None:
    """Each of the documented shapes; what is no memory is counted; its owner is whom it was asked for."""

    async def recorded(call: Call) -> None:
        await call.reply(orjson.dumps(reply))

    async with Chaos(behaviour=recorded) as server:
        backend = await Mem0Server.open(opening_at(server.url, "mem0", tenant="blue"))
        hits = await backend.search(make_query("sport?", Scope("blue", user_id="alice"), limit=5))
        await backend.close()
        assert server.calls[0].json == {
            "query": "sport?",
            "filters": {"user_id": "alice"},
            "top_k": 5,
            "threshold": 0.0,
        }
    [hit] = hits
    assert (hit.text, hit.scope) == ("Likes to play cricket on weekends", Scope("blue", user_id="alice"))
    assert hit.event_id is None
    assert (hits.dropped if isinstance(hits, PartialHits) else 0) == dropped


@pytest.mark.row("A113", "Mem0: after an upgrade, a server gets the requests that it expects")
@pytest.mark.feature("mem0: a server upgraded from 1.x to 2.x", part="faults/adapters")
async def test_an_upgraded_server_is_asked_as_it_wants(tmp_path: Path) -> None:
    """The first question finds out; after an upgrade the next one does, and nobody sees an error."""
    async with Mem0Behind(tmp_path / "library", "1") as server:
        backend = await Mem0Server.open(opening_at(server.url, "mem0", tmp_path))
        ada = Scope(user_id="ada")
        await backend.remember(make_samples(ada))
        asked: list[Query] = [make_query("greyhound", ada)] * 2
        for query in asked:
            assert (await backend.search(query))[0].event_id == event_id(4)
        assert server.calls[-1].json["user_id"] == "ada"
        server.version = "2"
        assert (await backend.search(asked[0]))[0].event_id == event_id(4)
        await backend.close()


async def test_the_servers_key_goes_along(tmp_path: Path) -> None:
    """As X-API-Key; without it the note says what to do."""
    async with Mem0Behind(tmp_path / "library", "2", key="good") as server:
        os.environ["MEM0_TEST_KEY"] = "good"
        try:
            backend = await Mem0Server.open(opening_at(server.url, "mem0", tmp_path, api_key_env="MEM0_TEST_KEY"))
            assert list(await backend.search(make_query("tea"))) == []
            os.environ["MEM0_TEST_KEY"] = "expired-secret"
            with pytest.raises(Unauthorized):
                await backend.search(make_query("tea"))
            [note] = (await backend.describe()).notes
            await backend.close()
        finally:
            os.environ.pop("MEM0_TEST_KEY", None)
    assert "Fix: give it the key" in note
    assert "expired-secret" not in note


async def test_a_server_on_a_bad_day() -> None:
    """Each failure has its name; HTML is no answer of either version."""
    async with Chaos(behaviour=chaos.status(503)) as server:
        backend = await Mem0Server.open(opening_at(server.url, "mem0"))
        with pytest.raises(HttpStatus):
            await backend.search(make_query("tea"))
        server.behaviour = chaos.body(b'{"answer": []}')
        with pytest.raises(InvalidAnswer, match="no results"):
            await backend.search(make_query("tea"))
        await backend.close()


async def test_an_id_that_is_no_uuid_is_absent_where_the_server_answers_502(tmp_path: Path) -> None:
    """So does mem0's server over PostgreSQL. A server that answers 502 to everything says nothing about an id."""
    async with Mem0Behind(tmp_path / "library", "2") as server:
        backend = await Mem0Server.open(opening_at(server.url, "mem0", tmp_path, timeout_ms=60_000))
        well = server.behaviour

        async def over_postgres(call: Call) -> None:
            await (chaos.status(502)(call) if call.method == "GET" else well(call))

        server.behaviour = over_postgres
        assert await backend.forget(event_id(1), ["m1z"]) == "absent"
        with pytest.raises(NotFound):
            await backend.history("m1z", Scope())
        with pytest.raises(HttpStatus, match="502"):
            await backend.forget(event_id(1), ["0b5f3c0e-6a43-4d0a-9a53-8f1d3f0a7f11"])
        server.behaviour = chaos.status(502)
        with pytest.raises(HttpStatus, match="502"):
            await backend.forget(event_id(1), ["m1z"])
        await backend.close()


@pytest.mark.feature("Mem0's server: while it answers 500 to everything, nothing is reported as forgotten")
@pytest.mark.parametrize("version", ["1", "2"])
async def test_a_server_that_fails_has_not_forgotten(tmp_path: Path, version: str) -> None:
    """Only what a server in health does not know is absent: of one that answers 500 to everything nothing is known."""
    ada = Scope(user_id="ada")
    async with Mem0Behind(tmp_path / "library", version) as server:
        backend = await Mem0Server.open(opening_at(server.url, "mem0", tmp_path, timeout_ms=60_000))
        [native_ids] = await backend.remember([make_extracted(make_event(1, "Ada's kettle whistles.", scope=ada))])
        well, server.behaviour = server.behaviour, chaos.status(500)
        with pytest.raises(HttpStatus, match="500"):
            await backend.forget(event_id(1), native_ids)
        with pytest.raises(HttpStatus, match="500"):
            await backend.history(native_ids[0], ada)
        server.behaviour = well
        assert await backend.forget(event_id(1), native_ids) == "deleted"
        assert await backend.forget(event_id(1), native_ids) == "absent"

        async def one_by_one(call: Call) -> None:
            await (chaos.status(500)(call) if call.method == "GET" else well(call))

        server.behaviour = one_by_one
        if version == "1":  # which answers so for what is not there
            assert await backend.forget(event_id(1), native_ids) == "absent"
        else:
            with pytest.raises(HttpStatus, match="500"):
                await backend.forget(event_id(1), native_ids)
        await backend.close()


async def test_another_users_memory_is_never_shown() -> None:
    """Whatever a server answers: what belongs to somebody else is left out."""

    async def careless(call: Call) -> None:
        theirs = {"id": "1", "memory": "Ben's secret", "user_id": "ben"}
        await call.reply(orjson.dumps({"results": [theirs, {"id": "2", "memory": "Ada's own", "user_id": "ada"}]}))

    async with Chaos(behaviour=careless) as server:
        backend = await Mem0Server.open(opening_at(server.url, "mem0"))
        hits = await backend.search(Query("secret", Scope(user_id="ada"), NOW, deadline_s=30.0))
        await backend.close()
    assert [hit.text for hit in hits] == ["Ada's own"]


@pytest.mark.feature("doctor knows the addresses of Mem0 and Qdrant, and a missing key, before anything is opened")
def test_verify_returns_the_server_and_reports_a_missing_key() -> None:
    """Before anything is opened: the address without what is secret; a key that is not there, by its name."""
    assert Mem0.verify({}) is None
    assert Mem0.verify({"preset": "openclaw"}) == "the library, at http://127.0.0.1:6334, without a key"
    assert Mem0Server.verify({}) == "http://127.0.0.1:8888, without a key"
    assert Collection.verify({"collection": "facts"}) == "http://127.0.0.1:6333, without a key"
    for kind in (Mem0, Mem0Server, Collection, QdrantMemories):
        options = {"url": "http://127.0.0.1:1", "api_key_env": "NO_SUCH_KEY", "collection": "facts"}
        if kind is Mem0Server:
            del options["collection"]
        with pytest.raises(Unauthorized, match="the environment has no NO_SUCH_KEY"):
            kind.verify(options)
