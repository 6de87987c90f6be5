"""The cortex's store over Bolt: every store's promises, on an ArcadeDB always and on a Neo4j by `make test-neo4j`."""

from __future__ import annotations

import asyncio
import re
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from adapters.bolt.dialects import MEMGRAPH, NEO4J, Dialect
from adapters.bolt.driver import Bolt
from adapters.bolt.options import Server
from adapters.cortex import Cortex
from adapters.cortex.bolt import BoltGraph
from adapters.cortex.bolt_vectors import BATCH_SIZE
from adapters.cortex.cli import Reembed
from adapters.cortex.lifecycle import Report, tend
from adapters.cortex.open_store import open_graph, verify
from adapters.cortex.options import Options
from adapters.cortex.port import Graph, State
from adapters.cortex.transfer import migrate_all
from adapters.graph.options import WalkOptions
from fusion.contract import Backend, Embedder, Opening
from fusion.errors import BackendUnreachable, InvalidAnswer, ModelMissing, SettingsError
from fusion.gateway.gateway import Gateway
from tests import chaos
from tests.adapters.cortex.store_contract import StoreContract, look, memory, numbers
from tests.backend_contract import NOW, BackendContract, event_id
from tests.bolt.servers import CONNECT_MS, ArcadeDB, arcade_at, empty, memgraph_at_hand, start_arcade
from tests.bolt.stub import Failure, Hang, Lost, Rows, Stub
from tests.fakes import FakeEmbedder
from tests.faults.home import HOUR_MS, settings_of

if TYPE_CHECKING:
    from fusion.contract import Floats


class Moving:
    """A gateway that opens one other embedder; while it settles on it, a question is answered by the old one."""

    def __init__(self, other: FakeEmbedder) -> None:
        self.other = other
        self.told: list[tuple[int, int | None]] = []
        self.settled: list[object] = []
        self.answered: list[str] = []
        self.graph: BoltGraph | None = None

    async def embedder(self, changes: object) -> Embedder:
        return self.other

    async def use_embedder(self, changes: object) -> None:
        self.settled.append(changes)
        assert self.graph is not None
        assert self.graph.embedder is not None
        (vector,) = await self.graph.embedder.embed(["alpha"])
        self.answered += [id_ for id_, _ in (await self.graph.find("", vector, look(), 1)).vectors]


class Failing(FakeEmbedder):
    """Encodes as many texts as are ``left``, then no more."""

    left = BATCH_SIZE

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        self.left -= len(texts)
        self.failing = self.left < 0
        return await super().embed(texts, keep=keep)


class BoltContract(StoreContract):
    dialect: ClassVar[Dialect]

    @abstractmethod
    @pytest.fixture
    def server(self) -> Server: ...

    @pytest.fixture(autouse=True)
    async def _emptied(self, server: Server) -> AsyncIterator[None]:
        """A database has no folder: each test finds it empty."""
        self.where = server
        bolt = Bolt(server, self.dialect)
        await empty(bolt)
        yield
        await empty(bolt)
        await bolt.close()

    async def open_store(self, folder: Path, embedder: Embedder | None) -> Graph:
        return BoltGraph(Bolt(self.where, self.dialect), WalkOptions(), embedder)

    @pytest.mark.feature(
        "Cortex: moving to another model in a database has no gap: the old vectors answer until the "
        "new ones are there, and are deleted then",
    )
    async def test_it_moves_to_another_model(self, tmp_path: Path) -> None:
        """The old vectors answer until the new ones are all there; then these do, and the old ones are gone."""
        first, second = FakeEmbedder(), FakeEmbedder(identity="fake@2", dimensions=16)
        graph = BoltGraph(Bolt(self.where, self.dialect), WalkOptions(), first)
        gateway = Moving(second)
        gateway.graph = graph
        call: Any = SimpleNamespace(gateway=gateway, progress=lambda done, total: gateway.told.append((done, total)))
        try:
            await graph.add([memory(n, text) for n, text in enumerate(("alpha", "beta", "gamma"), start=1)])
            await graph.settle()
            old = graph.index.of
            assert old is not None
            tried = await Reembed(model="other", dry_run=True)(SimpleNamespace(graph=graph), call)
            assert (tried["texts"], tried["characters"], tried["moved"]) == (3, len("alphabetagamma"), False)
            assert graph.embedder is first
            moved = await Reembed(model="other")(SimpleNamespace(graph=graph), call)
            assert (moved["from"], moved["to"], moved["moved"]) == ("fake@1", "fake@2", True)
            assert (gateway.told[-1], gateway.answered, gateway.settled) == (
                (3, 3),
                [event_id(1)],
                [{"model": "other"}],
            )
            assert graph.embedder is second
            await graph.add([memory(4, "delta")])
            await graph.settle()
            assert (await graph.stats()).vectors == 4
            (vector,) = await second.embed(["delta"])
            assert (await graph.find("", vector, look(), 1)).vectors[0][0] == event_id(4)
            left = f"MATCH (m:Memory) WHERE m.{old.property} IS NOT NULL RETURN count(m) AS n"
            reader = Bolt(self.where, self.dialect)
            assert await reader.read(left, {}, 30) == [{"n": 0}]
            assert old.name not in await reader.indexes(30)
            await reader.close()
            again = await Reembed(model="other")(SimpleNamespace(graph=graph), call)
            assert again["moved"] is False
        finally:
            await graph.close()

    @pytest.mark.feature("Cortex: the same command continues an interrupted move")
    async def test_a_move_that_was_cut_off_goes_on(self, tmp_path: Path) -> None:
        """The embedder fails after the first batch: what it built is not built again, and the old model answers on."""
        first, second = FakeEmbedder(), Failing(identity="fake@2", dimensions=16)
        graph = BoltGraph(Bolt(self.where, self.dialect), WalkOptions(), first)
        many = BATCH_SIZE + 3
        try:
            await graph.add([memory(n, f"text {n}") for n in range(1, many + 1)])
            await graph.settle()
            with pytest.raises(ModelMissing):
                await graph.index.build(second, lambda done, total: None)
            (vector,) = await first.embed(["text 7"])
            assert (await graph.find("", vector, look(), 1)).vectors[0][0] == event_id(7)
            assert (await graph.index.count_missing(second))[0] == 3
            second.left = many
            seen: list[tuple[int, int | None]] = []
            await graph.index.build(second, lambda done, total: seen.append((done, total)))
            assert seen == [(3, 3)]
            assert max(second.encoded.values()) == 1
        finally:
            await graph.close()

    async def test_it_is_tended_as_any_other(self, tmp_path: Path) -> None:
        """One of each phase, then nothing more to do."""
        conflict = State(conflict_group="g", conflict_status="active")
        graph = await self.open_store(tmp_path / "store", None)
        try:
            await graph.add(
                [
                    memory(1, "Lunch is at one.", state=State(lifetime="ttl")),
                    memory(2, "We talk about ferries.", state=State(lifetime="session")),
                    memory(3, "The stall is open.", valid_to=NOW),
                    memory(4, "Marta prefers peppermint.", kind="fact"),
                    memory(5, "Marta prefers peppermint!", kind="fact"),
                    memory(6, "The office is in Lisbon.", state=conflict),
                    memory(7, "The office is in Porto.", state=conflict),
                ]
            )
            later = NOW + timedelta(hours=720)
            assert await tend(graph, None, later) == Report(1, 1, 1, 1, 1, scanned=7)
            assert await tend(graph, None, later) == Report(scanned=7)
        finally:
            await graph.close()


@pytest.mark.feature(
    "Cortex: the store suite over Bolt: ArcadeDB in each run, Neo4j by `make test-neo4j`, Memgraph marked `live`",
)
class TestArcadeDB(BoltContract):
    dialect = ArcadeDB()

    @pytest.fixture
    def server(self, arcade: str, tmp_path: Path) -> Server:
        return arcade_at(arcade, tmp_path)


@pytest.mark.neo4j
class TestNeo4j(BoltContract):
    dialect = NEO4J

    @pytest.fixture
    def server(self, neo4j_url: str) -> Server:
        return Server(neo4j_url, connect_ms=CONNECT_MS)


@pytest.mark.live
class TestMemgraph(BoltContract):
    """MEMGRAPH_PASSWORD=… docker compose -f compose/memgraph.yaml up, then pytest -m live with the same variable."""

    dialect = MEMGRAPH

    @pytest.fixture
    def server(self) -> Server:
        return memgraph_at_hand()


# The whole backend on it


@pytest.mark.feature("Cortex: the whole backend's suite over Bolt")
class TestCortexOnArcadeDB(BackendContract):
    """What every backend promises, with the cortex in a database."""

    filters = True

    @pytest.fixture(autouse=True)
    async def _emptied(self, arcade: str, tmp_path: Path) -> AsyncIterator[None]:
        self.server = arcade_at(arcade, tmp_path)
        bolt = Bolt(self.server, ArcadeDB())
        await empty(bolt)
        yield
        await empty(bolt)
        await bolt.close()

    async def open_backend(self, folder: Path) -> Backend:
        return on(Bolt(self.server, ArcadeDB()), FakeEmbedder())


def on(bolt: Bolt, embedder: Embedder | None) -> Cortex:
    options = Options()
    return Cortex(BoltGraph(bolt, options, embedder), options)


# What only a server can go through


@pytest.mark.feature("Cortex: a killed database server loses nothing that was acknowledged")
async def test_a_killed_server_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """`kill -9`: questions fail as unreachable meanwhile; when it is back, what was acknowledged is there once, what
    is written again changes nothing, and what had no vector yet gets one."""
    gone = start_arcade(tmp_path / "server")
    bolt = Bolt(arcade_at(gone.url, tmp_path), ArcadeDB())
    graph = BoltGraph(bolt, WalkOptions(), FakeEmbedder())
    await graph.add([memory(n, f"office {n}", ("Office", "is", f"Room {n}")) for n in range(1, 6)])
    gone.kill()
    with pytest.raises(BackendUnreachable):
        await graph.get([event_id(1)])
    back = start_arcade(tmp_path / "server", int(gone.url.rpartition(":")[2]))
    await graph.add([memory(n, f"office {n}", ("Office", "is", f"Room {n}")) for n in range(1, 7)])
    await graph.settle()
    held = await graph.stats()
    known = await graph.entities(memory(1, "").event.scope)
    await graph.close()
    back.stop()
    assert (held.items, held.vectors, held.vectors_pending, held.faults) == (6, 6, 0, ())
    assert [(e.name, e.mentions) for e in known][:2] == [("Office", 6), ("Room 1", 1)]


async def test_a_server_that_is_down_when_it_is_opened() -> None:
    """Opening asks nobody; a question says that nobody answers, and the first one after it came up is answered."""
    async with Stub() as stub:
        options = {"store": "memgraph", "url": stub.url, "connect_ms": 30_000}
        await stub.stop()
        graph = await open_graph(Opening("cortex", Path("unused"), options), WalkOptions())
        with pytest.raises(BackendUnreachable, match="refused"):
            await graph.get([event_id(1)])
        await stub.start()
        assert await graph.get([event_id(1)]) == {}
        await graph.close()
        await graph.close()


@pytest.mark.feature("Cortex: a database that is down is degraded, and doctor names the fix")
async def test_describe_reports_an_unreachable_server_with_the_fix(home: Path) -> None:
    """To `status`, doctor and every answer: degraded, and the fix is said last."""
    with chaos.refusing() as url:
        table = {"adapter": "adapters.cortex:Cortex", "store": "neo4j", "url": url.replace("http", "bolt")}
        async with Gateway.open(settings_of(home, cortex={**table, "deadline_ms": HOUR_MS})) as fusion:
            [row] = (await fusion.status())["backends"]
            await fusion.health.look()
            degraded = fusion.health.degraded
    assert (row["degraded"], row["detail"], degraded) == (True, "", True)
    [note] = row["notes"]
    assert note.endswith("connection refused. Fix: start the database, or correct url of its table")


@pytest.mark.feature(
    "Cortex: a connection reset within a result leaves no partial result, and a read-only replica is reported"
)
@pytest.mark.feature("a Bolt reset within a result: repeated, no partial result", part="faults/cortex")
async def test_a_reset_in_mid_result_leaves_no_half() -> None:
    """The connection is lost after the first of two rows: both are there, each once."""
    async with Stub() as stub:
        graph = BoltGraph(Bolt(Server(stub.url, connect_ms=30_000), MEMGRAPH), WalkOptions(), None)
        await graph.check()
        fields = ["name", "type", "mentions"]
        rows = [["Alpha", "person", 2], ["Beta", "place", 1]]
        stub.schedule.extend([Lost(fields, rows[:1]), Rows(fields, rows)])
        assert [known.name for known in await graph.entities(memory(1, "").event.scope)] == ["Alpha", "Beta"]
        await graph.close()


@pytest.mark.feature(
    "Cortex: a query that the deadline cut off is repeated in the background, so that a cold database has its plans"
)
async def test_a_cancelled_query_runs_again_in_the_background() -> None:
    """A cold database drops the plan of a query that is cut off, and would be too slow for ever: of two questions that
    are, one is asked again, and the next one finds its plan."""
    async with Stub() as stub:
        graph = BoltGraph(Bolt(Server(stub.url, connect_ms=30_000), MEMGRAPH), WalkOptions(), None)
        await graph.check()
        stub.schedule.extend([Hang(), Hang()])
        asked = len(stub.asked)
        questions = [asyncio.create_task(graph.entities(memory(1, "").event.scope)) for _ in range(2)]
        while len(stub.asked) < asked + 2:
            await stub.heard.wait()
            stub.heard.clear()
        for question in questions:
            question.cancel()
        ends = await asyncio.gather(*questions, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ends)
        (behind,) = [task for task in asyncio.all_tasks() if task.get_name() == "plan"]
        await behind
        assert len(stub.asked) == asked + 3
        await graph.close()


@pytest.mark.feature(
    "a read-only replica: nothing partial is written; `url` should name the main instance", part="faults/cortex"
)
async def test_a_replica_that_only_reads_says_so() -> None:
    """Nothing is half written: the one transaction fails, and the error names the fix."""
    async with Stub() as stub:
        graph = BoltGraph(Bolt(Server(stub.url, connect_ms=30_000), MEMGRAPH), WalkOptions(), None)
        await graph.check()
        refused = "Write queries are forbidden on the replica instance."
        stub.schedule.extend([Rows(["id"]), Failure("Memgraph.ClientError.MemgraphError.MemgraphError", refused)])
        with pytest.raises(BackendUnreachable, match="name the main instance in url"):
            await graph.add([memory(1, "alpha")])
        await graph.close()


@pytest.mark.row(
    "A003",
    "Cortex: Memgraph is asked in read transactions, by its own indexes of words and vectors, with "
    "values as parameters",
)
async def test_memgraph_is_asked_in_read_transactions_by_its_own_indexes() -> None:
    """Words and vectors through Memgraph's procedures, everything a reader asks in read transactions, values apart."""
    evil = '"]->(n) DETACH DELETE n //'
    embedder = FakeEmbedder()
    async with Stub() as stub:
        graph = BoltGraph(Bolt(Server(stub.url, connect_ms=30_000), MEMGRAPH), WalkOptions(), embedder)
        vector = (await embedder.embed([evil]))[0]
        await graph.find(evil, vector, look(), 5)
        await graph.link(evil, look(), [], 5)
        await graph.cosines(vector, [event_id(1)])
        asked = [asked for asked in stub.asked if asked.mode != "auto"]
        await graph.close()
    assert {asked.mode for asked in asked} == {"r"}
    assert not [asked for asked in asked if evil in asked.statement]
    heads = [asked.statement.split(" YIELD")[0] for asked in asked if asked.statement.startswith("CALL")]
    assert heads[0] == 'CALL text_search.search_all("memory_words", $words, {limit: $k})'
    assert re.fullmatch(r'CALL vector_search\.search\("embedding_[0-9a-f]{8}", \$k, \$vector\)', heads[1])


class Broken(FakeEmbedder):
    """Gives vectors that are none: with NaN in them, for one text or for all, or of another size than it says."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        vectors = await super().embed(texts, keep=keep)
        if self.fault == "one":
            return np.stack(
                [row * np.float32("nan" if t == "alpha" else 1) for t, row in zip(texts, vectors, strict=True)]
            )
        return vectors[:, :7] if self.fault == "size" else vectors * np.float32("nan")


class TestVectors:
    @pytest.fixture
    async def bolt(self, arcade: str, tmp_path: Path) -> AsyncIterator[Bolt]:
        first = Bolt(arcade_at(arcade, tmp_path), ArcadeDB())
        await empty(first)
        yield Bolt(arcade_at(arcade, tmp_path), ArcadeDB())
        await empty(first)
        await first.close()

    @pytest.mark.feature("Cortex: a vector with NaN or of another size is dropped, its memory is stored")
    @pytest.mark.feature("… over Bolt: filled in by the next valid answer", of="an embedding of the wrong size")
    @pytest.mark.parametrize("fault", ["size", "nan"])
    async def test_a_vector_that_is_none_is_not_kept(self, bolt: Bolt, fault: str) -> None:
        """The memory is kept and found by its words; the fault is reported until a working embedder fills the gap."""
        broken = Broken(fault)
        graph = BoltGraph(bolt, WalkOptions(), broken)
        await graph.add([memory(1, "alpha")])
        await graph.settle()
        held = await graph.stats()
        assert (held.vectors, held.vectors_pending) == (0, 1)
        assert held.faults[0].startswith("vectors are not filled in: fake@1 gave vectors")
        assert numbers(i for i, _ in (await graph.find("alpha", None, look(), 5)).words) == [1]
        broken.fault = "none"
        broken.embed = FakeEmbedder().embed  # type: ignore[method-assign]
        await graph.settle()
        held = await graph.stats()
        await graph.close()
        assert (held.vectors, held.vectors_pending, held.faults) == (1, 0, ())

    @pytest.mark.feature("… over Bolt: one text without a vector delays no other", of="an embedding of the wrong size")
    async def test_a_text_without_a_vector_holds_up_no_other(self, bolt: Bolt) -> None:
        """It alone waits for its own, and the fault says why; a sound embedder fills it in."""
        broken = Broken("one")
        graph = BoltGraph(bolt, WalkOptions(), broken)
        await graph.add([memory(1, "alpha"), *(memory(n, f"room {n}") for n in range(2, 101))])
        await graph.settle()
        held = await graph.stats()
        assert (held.vectors, held.vectors_pending) == (99, 1)
        assert held.faults == ("vectors are not filled in: fake@1 gave vectors with NaN or infinity in them",)
        broken.embed = FakeEmbedder().embed  # type: ignore[method-assign]
        await graph.settle()
        held = await graph.stats()
        await graph.close()
        assert (held.vectors, held.vectors_pending, held.faults) == (100, 0, ())

    async def test_it_holds_up_no_move_either(self, bolt: Bolt) -> None:
        """The others are built, and the missing one is reported; a model that makes no vector at all is an error."""
        graph = BoltGraph(bolt, WalkOptions(), FakeEmbedder())
        await graph.add([memory(1, "alpha"), memory(2, "beta")])
        await graph.settle()
        broken = Broken("one")
        broken.identity = "fake@2"
        refused = await graph.index.build(broken, lambda done, total: None)
        assert refused.keys() == {event_id(1)}
        assert (await graph.index.count_missing(broken))[0] == 1
        broken.fault, broken.identity = "nan", "fake@3"
        with pytest.raises(InvalidAnswer, match="NaN"):
            await graph.index.build(broken, lambda done, total: None)
        await graph.close()

    @pytest.mark.row("A080", "Cortex: vectors of two models are never mixed")
    async def test_vectors_of_two_models_never_meet(self, bolt: Bolt) -> None:
        """Another model fills in its own, of its own size; what the first one found is untouched by it."""
        first, second = FakeEmbedder(), FakeEmbedder(identity="fake@2", dimensions=16)
        graph = BoltGraph(bolt, WalkOptions(), first)
        await graph.add([memory(1, "alpha"), memory(2, "beta")])
        await graph.settle()
        other = BoltGraph(bolt, WalkOptions(), second)
        await other.settle()
        assert (await other.stats()).vectors == 2
        for store, embedder in ((graph, first), (other, second)):
            vector = (await embedder.embed(["alpha"]))[0]
            found = (await store.find("", vector, look(), 1)).vectors
            assert [(id_, round(score, 3)) for id_, score in found] == [(event_id(1), 1.0)]
        await other.close()
        await graph.close()

    async def test_a_clock_that_jumps_back_takes_nothing_away(self, bolt: Bolt) -> None:
        """The latest use stays the latest."""
        graph = BoltGraph(bolt, WalkOptions(), None)
        await graph.add([memory(1, "alpha")])
        await graph.use([event_id(1)], NOW)
        await graph.use([event_id(1)], NOW.replace(year=1990))
        state = (await graph.get([event_id(1)]))[event_id(1)].state
        await graph.close()
        assert (state.access_count, state.last_accessed) == (2, NOW)


@pytest.mark.feature("Cortex: a move from SQLite to a database and back preserves every byte")
async def test_a_move_from_sqlite_and_back_keeps_every_byte(arcade: str, tmp_path: Path) -> None:
    """Migrated into a database and out of it again: the same lines, by count and checksum; a second run copies none."""
    bolt = Bolt(arcade_at(arcade, tmp_path), ArcadeDB())
    await empty(bolt)
    walking = WalkOptions()
    files = [await open_graph(Opening("cortex", tmp_path / name, {}, FakeEmbedder()), walking) for name in "ab"]
    server = BoltGraph(bolt, walking, FakeEmbedder())
    try:
        state = State("ttl", 0.9, ("naïve", "東京"), 3, NOW, 1, NOW, "group", "active", event_id(2), None, NOW)
        facts = ("Office", "is in", "Paris"), ("Paris", "is in", "France")
        await files[0].add([memory(n, f"office {n}", *facts, state=state, speaker="Zoë") for n in range(1, 30)])
        there = await migrate_all(files[0], server, lambda done, total: None)
        back = await migrate_all(server, files[1], lambda done, total: None)
        again = await migrate_all(files[0], server, lambda done, total: None)
        assert (there.memories, there.copied, back.copied, again.copied) == (29, 29, 29, 0)
        assert there.checksum == back.checksum == again.checksum
        for store in (files[0], server, files[1]):
            links = await store.link("Paris", look(history=True), [], 50)
            assert len(links) == 29
            assert [(e.name, e.mentions) for e in await store.entities(memory(1, "").event.scope)] == [
                ("France", 29), ("Office", 29), ("Paris", 29), ("Zoë", 29),
            ]  # fmt: skip
    finally:
        await empty(bolt)
        for store in (*files, server):
            await store.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"store": "postgres"}, "store = 'postgres' must be one of sqlite, memgraph, neo4j"),
        ({"store": "neo4j"}, "url is missing"),
        ({"store": "memgraph", "url": "http://h"}, "must start with one of bolt://"),
        ({"url": "bolt://h"}, 'url: only with store = "memgraph" or "neo4j"'),
        ({"store": "memgraph", "url": "bolt://h", "hobs": 2}, "has no option 'hobs'"),
    ],
)
async def test_wrong_options_name_the_fix(tmp_path: Path, options: dict[str, object], words: str) -> None:
    """Each says which table it is in."""
    with pytest.raises(SettingsError, match=re.escape(words)) as caught:
        await Cortex.open(Opening("cortex", tmp_path, options))
    assert "[backends.cortex]" in str(caught.value)


def test_what_is_needed_is_asked_for_before_anything_opens() -> None:
    """With the driver installed both are fine; a store that does not exist is not, nor one without an address."""
    verify({})
    verify({"store": "neo4j", "url": "bolt://127.0.0.1:7687"})
    for wrong in ({"store": "oracle"}, {"store": "neo4j"}, {"url": "bolt://127.0.0.1:7687"}):
        with pytest.raises(SettingsError):
            verify(wrong)
