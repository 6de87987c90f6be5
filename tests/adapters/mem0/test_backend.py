"""Mem0 keeps every promise of the suite with the real library, and adds nothing to the network."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("mem0") is None:  # imported here, it would have its telemetry on
    pytest.skip("needs mem0ai: pip install '/path/to/checkout[mem0]'", allow_module_level=True)

from adapters.mem0 import BATCH, Bridge, Mem0, hit_of, payload_of
from adapters.mem0.local import FILE, open_client
from fusion.contract import (
    Backend,
    Describes,
    Embedder,
    FindsNeighbours,
    Forgets,
    Moment,
    Opening,
    Place,
    Remembers,
    Scope,
    Settles,
)
from fusion.errors import ModelMissing, SettingsError, StoreBusy, StoreDamaged
from tests.backend_contract import (
    NOW,
    BackendContract,
    event_id,
    make_event,
    make_extracted,
    make_query,
    make_samples,
    opening,
)
from tests.fakes import FakeEmbedder


async def opened(folder: Path, embedder: Embedder | None, **options: object) -> Mem0:
    return await Mem0.open(Opening("mem0", folder, options, embedder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mem0"


@pytest.fixture
async def backend(folder: Path) -> AsyncIterator[Mem0]:
    backend = await opened(folder, FakeEmbedder())
    yield backend
    await backend.close()


def run(program: str, home: Path) -> subprocess.CompletedProcess[str]:
    """A fresh Python, with nothing of this one's environment, whose user lives in ``home``."""
    root = Path(__file__).parents[2]
    environ = {"HOME": str(home), "PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=root, env=environ, capture_output=True, text=True, timeout=100, check=False
    )


class TestMem0(BackendContract):
    filters = True

    async def open_backend(self, folder: Path) -> Backend:
        return await Mem0.open(opening(folder))

    async def test_has_its_ports(self, backend: Backend) -> None:
        """It stores, forgets, expands, describes, and can be waited for."""
        for port in (Remembers, Forgets, FindsNeighbours, Describes, Settles):
            assert isinstance(backend, port)


class TestMem0ByWords(BackendContract):
    """Without an embedding model the whole suite holds all the same."""

    filters = True

    async def open_backend(self, folder: Path) -> Backend:
        return await opened(folder, None)

    async def test_describes_what_it_holds(self, backend: Backend) -> None:
        """Every item waits for its vector until there is a model."""
        assert isinstance(backend, Describes)
        await self.fill(backend, self.samples(backend))
        description = await backend.describe()
        assert description.items > 0
        assert description.vectors_pending == description.items


# What is stored is mem0's


def plain_mem0(folder: Path) -> Any:
    """The library as its own user would open it on the folder, with the fake embedder under its provider's name."""
    from mem0 import Memory

    client = open_client(folder)
    [collection] = [one.name for one in client.get_collections().collections]
    memory = Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {
                    "collection_name": collection,
                    "client": client,
                    "embedding_model_dims": 32,
                },
            },
            "embedder": {"provider": "langchain", "config": {}},
            "llm": {"provider": "langchain", "config": {}},
            "history_db_path": ":memory:",
        }
    )
    return memory


@pytest.mark.feature("Mem0: the plain library can read what was stored")
async def test_the_plain_library_reads_what_was_stored(folder: Path) -> None:
    """mem0's own ``get``, ``get_all``, ``search``, ``add`` and ``delete`` see the memories as their own."""
    backend = await opened(folder, FakeEmbedder())
    scope = Scope(user_id="ada", agent_id="bot", session_id="s1")
    await backend.remember(make_samples(scope))
    await backend.close()
    memory = plain_mem0(folder)
    query = "Quentin adopted a greyhound called Biscuit."
    try:
        memory.embedding_model.ready = dict.fromkeys(
            (query, "A new one.", "A new one, once."), (await FakeEmbedder().embed([query]))[0].tolist()
        )
        one = memory.get(event_id(4))
        assert (one["memory"], one["user_id"], one["agent_id"]) == (query, "ada", "bot")
        assert one["metadata"]["session_id"] == "s1"
        everything = memory.get_all(filters={"user_id": "ada"}, top_k=50)["results"]
        assert {item["id"] for item in everything} == {event_id(n) for n in range(1, 13)}
        found = memory.search(query, filters={"agent_id": "bot", "session_id": "s1"})["results"]
        assert (found[0]["id"], found[0]["memory"]) == (event_id(4), query)
        memory.delete(event_id(4))
        assert memory.get(event_id(4)) is None
        memory.add("A new one.", user_id="ada", metadata={"tenant": "default"}, infer=False)
        old = memory.add("A new one, once.", user_id="ada", metadata={"tenant": "default"}, infer=False)["results"][0]
        client, collection = memory.vector_store.client, memory.collection_name
        client.set_payload(collection, {"expiration_date": "2020-01-01"}, points=[old["id"]])
    finally:
        memory.close()
        memory.vector_store.client.close()
    again = await opened(folder, FakeEmbedder())
    hits = await again.search(make_query(query, Scope(user_id="ada")))  # what mem0 let expire is not in them
    assert event_id(4) not in {hit.native_id for hit in hits}
    [foreign] = [hit for hit in hits if hit.event_id is None]
    assert (foreign.text, foreign.scope.user_id) == ("A new one.", "ada")
    await again.close()


def test_payload_round_trip_of_awkward_ids() -> None:
    """Blanks, mem0's wildcard, our word for nobody and what looks encoded come back as they were."""
    for value in ("*", "_shared", "_", "", " a b ", "_%20", "%5F", "zoë", "a*b", "\t"):
        scope = Scope(tenant=value or "t", user_id=value, run_id=value, session_id=value, project=value)
        event = make_event(1, "x", scope)
        assert hit_of("1", payload_of(event)).scope == scope
    for scope in (Scope(), Scope(session_id="s"), Scope(agent_id="a")):
        assert hit_of("1", payload_of(make_event(1, "x", scope))).scope == scope


@pytest.mark.parametrize("name", ["*", "_shared", "a b"])
async def test_no_id_is_a_wildcard(backend: Mem0, name: str) -> None:
    """A user called ``*``, or as our word for nobody, sees their own memories and nobody else's."""
    scopes = [Scope(user_id=name), Scope(user_id="ben"), Scope()]
    await backend.remember([make_extracted(make_event(n, "The same words.", s)) for n, s in enumerate(scopes)])
    hits = await backend.search(make_query("The same words.", Scope(user_id=name)))
    assert [hit.event_id for hit in hits] == [event_id(0)]


async def test_depth_is_honoured(backend: Mem0) -> None:
    """A query gets as many hits as it asks for, not mem0's own 20, however far they are, down to a cosine of 0."""
    await backend.remember([make_extracted(make_event(n, f"Word number {n}")) for n in range(70)])
    assert len(await backend.search(make_query("Word number 3", limit=60))) == 60


async def test_another_time_does_not_use_up_the_limit(backend: Mem0) -> None:
    """What was not true or not recorded yet is left out, and the hits behind it come up."""
    late = [make_event(n, "The plan is green.", at=Moment(NOW)) for n in range(20, 60)]
    early = make_event(1, "The plan is red or so, they say.", at=Moment(NOW - timedelta(days=300)))
    ended = make_event(2, "The plan is green.", valid_to=NOW - timedelta(days=200), at=early.at)
    await backend.remember([make_extracted(event) for event in (*late, early, ended)])
    query = make_query("The plan is green.", limit=2)
    then = replace(query, as_of=NOW - timedelta(days=100))
    assert [hit.event_id for hit in await backend.search(then)] == [event_id(1)]
    assert [hit.event_id for hit in await backend.search(replace(query, known_at=early.recorded_at))] == [event_id(1)]
    assert len(await backend.search(query)) == 2


async def test_blank_memories_are_refused(backend: Mem0) -> None:
    """mem0 would store them and never show them."""
    assert not backend.accepts(make_event(1, " \n"))
    assert backend.accepts(make_event(1, "x"))


# Concurrency


async def test_soak(backend: Mem0) -> None:
    """100 adds and 50 searches at once: no error, and nothing is lost (the bare library loses one in twenty)."""
    batches = [[make_extracted(make_event(n, f"Fact {n} about topic {n % 7}"))] for n in range(100)]
    await asyncio.gather(
        *(backend.remember(batch) for batch in batches),
        *(backend.search(make_query(f"topic {n % 7}")) for n in range(50)),
    )
    assert (await backend.describe()).items == 100
    assert len(await backend.search(make_query("Fact about topic", limit=200))) >= 95  # a cosine below 0 is left out
    found = [(await backend.search(make_query(f"Fact {n} about topic {n % 7}")))[0].event_id for n in range(0, 100, 9)]
    assert found == [event_id(n) for n in range(0, 100, 9)]


async def test_one_delivery_twice_at_once(folder: Path) -> None:
    """Both were on their way when neither was stored: the memories are there once, as hits and as neighbours."""
    embedder = FakeEmbedder(gate=asyncio.Event())
    assert embedder.gate is not None
    backend = await opened(folder, embedder)
    batch = [make_extracted(make_event(n, f"Line {n}", place=Place("talk", n, n))) for n in range(1, 4)]
    deliveries = [asyncio.create_task(backend.remember(batch)) for _ in range(2)]
    await embedder.waiting.wait()
    embedder.gate.set()
    await asyncio.gather(*deliveries)
    assert (await backend.describe()).items == 3
    hits = await backend.search(make_query("Line 2"))
    [hit] = [hit for hit in hits if hit.text == "Line 2"]
    assert [[near.text for near in nears] for nears in await backend.neighbours([hit], 5)] == [["Line 1", "Line 3"]]
    await backend.close()


async def test_giving_up_a_search_harms_nothing(backend: Mem0) -> None:
    """A search that is cancelled, waiting or running, leaves the next one its turn."""
    await backend.remember(make_samples())
    tasks = [asyncio.create_task(backend.search(make_query("Julien"))) for _ in range(8)]
    await asyncio.sleep(0)
    for task in tasks[1:]:
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert answers[0]
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[1:])
    assert await backend.search(make_query("Julien"))


# The folder


async def test_the_folder_has_one_opener(folder: Path, backend: Mem0) -> None:
    """A second opener gets an error; closing releases the lock, and the stored memories are there."""
    await backend.remember(make_samples())
    with pytest.raises(StoreBusy):
        await opened(folder, FakeEmbedder())
    await backend.close()
    again = await opened(folder, FakeEmbedder())
    assert (await again.describe()).items == 12
    await again.close()
    assert folder.stat().st_mode & 0o777 == 0o700


async def test_the_forgotten_leaves_no_trace_on_disk(folder: Path) -> None:
    """Not in the store, not in its files' free pages, not in a history."""
    backend = await opened(folder, FakeEmbedder())
    await backend.remember([*make_samples(), make_extracted(make_event(50, "The canary is called Zerlina."))])
    assert await backend.forget(event_id(50), [event_id(50)]) == "deleted"
    await backend.close()
    assert not [path for path in folder.rglob("*") if path.is_file() and b"Zerlina" in path.read_bytes()]


@pytest.mark.feature("Mem0: a killed process loses nothing that it acknowledged")
async def test_a_killed_process_loses_nothing_it_acknowledged(folder: Path) -> None:
    """``remember`` returned, then SIGKILL: every memory is there, and the lock is not."""
    program = f"""
import asyncio, os, signal
from pathlib import Path
from adapters.mem0 import Mem0
from fusion.contract import Opening
from tests.backend_contract import make_samples
from tests.fakes import FakeEmbedder
async def main():
    backend = await Mem0.open(Opening("mem0", Path({str(folder)!r}), {{}}, FakeEmbedder()))
    await backend.remember(make_samples())
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    done = run(program, folder.parent)
    assert done.returncode == -signal.SIGKILL, done.stderr
    again = await opened(folder, FakeEmbedder())
    assert (await again.describe()).vectors == 12
    assert (await again.search(make_query("greyhound")))[0].event_id == event_id(4)
    await again.close()


async def test_what_was_moving_when_the_process_ended_is_there_once(folder: Path) -> None:
    """Stored with its vector and not yet gone from where it waited: the copy goes, and forgetting gets everything."""
    from qdrant_client.models import PointStruct

    backend = await opened(folder, FakeEmbedder())
    await backend.remember(make_samples())
    await backend.close()
    without = await opened(folder, None)
    await without.remember([make_extracted(make_event(50, "Waffle is another greyhound."))])
    await without.close()
    client = open_client(folder)
    [full] = [c.name for c in client.get_collections().collections if "fake" in c.name]
    copies = client.retrieve(full, [event_id(4)], with_payload=True)
    client.upsert("memories-unembedded", [PointStruct(id=p.id, vector=[1.0], payload=p.payload) for p in copies])
    client.close()
    again = await opened(folder, FakeEmbedder())
    await again.settle()
    description = await again.describe()
    assert (description.items, description.vectors) == (13, 13)
    assert await again.forget(event_id(4), []) == "deleted"
    await again.close()
    last = await opened(folder, None)
    assert event_id(4) not in {hit.event_id for hit in await last.search(make_query("greyhound"))}
    await last.close()


async def test_a_damaged_folder_is_named(folder: Path) -> None:
    """Never an empty store in its place: the error says where, and what to do."""
    backend = await opened(folder, FakeEmbedder())
    await backend.remember(make_samples())
    await backend.close()
    (folder / FILE).write_bytes((folder / FILE).read_bytes()[:5000])
    with pytest.raises(StoreDamaged, match="move it away"):
        await opened(folder, FakeEmbedder())


async def test_a_wrong_collection_name_is_refused(folder: Path) -> None:
    """The name becomes a folder's: no path gets in."""
    with pytest.raises(SettingsError):
        await opened(folder, None, collection="../elsewhere")


# Vectors


async def test_a_text_is_encoded_once_by_the_shared_embedder(folder: Path) -> None:
    """As it was said, with its speaker; storing again encodes nothing; the query leaves no trace in the cache."""
    embedder = FakeEmbedder()
    backend = await opened(folder, embedder)
    event = make_extracted(make_event(1, "I moved to Lisbon.", speaker="Marta"))
    await backend.remember([event])
    await backend.remember([event])
    [hit] = await backend.search(make_query("Where did Marta move?"))
    assert (hit.text, hit.speaker) == ("I moved to Lisbon.", "Marta")
    assert dict(embedder.encoded) == {"Marta: I moved to Lisbon.": 1, "Where did Marta move?": 1}
    await backend.close()


async def test_without_a_model_words_are_searched_and_it_says_so(folder: Path) -> None:
    """Lexically, loudly; and when the model comes, every memory gets its vector."""
    backend = await opened(folder, None)
    await backend.remember(make_samples())
    [hit] = await backend.search(make_query("greyhound"))
    assert hit.event_id == event_id(4)
    description = await backend.describe()
    assert (description.items, description.vectors, description.vectors_pending) == (12, 0, 12)
    assert "No embedding model" in description.notes[0]
    await backend.close()

    again = await opened(folder, FakeEmbedder(synonyms={"dog": "greyhound"}))
    await again.settle()
    description = await again.describe()
    assert (description.items, description.vectors, description.vectors_pending, description.notes) == (12, 12, 0, ())
    assert (await again.search(make_query("dog")))[0].event_id == event_id(4)
    await again.close()


async def test_a_model_that_is_away_for_a_while_loses_no_vectors(folder: Path) -> None:
    """Opened without it, then with it again: what had a vector keeps it, and only the new is encoded."""
    backend = await opened(folder, FakeEmbedder())
    await backend.remember(make_samples())
    await backend.close()
    without = await opened(folder, None)
    assert (await without.search(make_query("greyhound")))[0].event_id == event_id(4)
    await without.remember([make_extracted(make_event(50, "Waffle is another greyhound."))])
    await without.close()
    embedder = FakeEmbedder()
    again = await opened(folder, embedder)
    await again.settle()
    assert list(embedder.encoded) == ["Waffle is another greyhound."]
    assert (await again.describe()).vectors == 13
    await again.close()


async def test_another_model_is_never_mixed_with_the_first(folder: Path) -> None:
    """Its collection is new, all is encoded again behind, words find it meanwhile, and the old collection goes."""
    backend = await opened(folder, FakeEmbedder())
    await backend.remember(make_samples() + [make_extracted(make_event(n, f"Filler {n}")) for n in range(20, 60)])
    await backend.close()

    gate = asyncio.Event()
    other = FakeEmbedder(identity="other@2", dimensions=16, gate=gate)
    again = await opened(folder, other)
    await other.waiting.wait()
    description = await again.describe()
    assert (description.items, description.vectors, description.vectors_pending) == (52, 0, 52)
    gate.set()
    await again.settle()
    assert (await again.describe()).vectors == 52
    assert (await again.search(make_query("Quentin adopted a greyhound called Biscuit.")))[0].event_id == event_id(4)
    await again.close()
    client = open_client(folder)
    assert [one.name.rsplit("-", 1)[0] for one in client.get_collections().collections] == ["memories-other-2"]
    client.close()


async def test_while_vectors_fill_in_both_are_searched(folder: Path) -> None:
    """What has its vector is found by it, what waits by its words; the lists are merged by rank."""
    embedder = FakeEmbedder()
    backend = await opened(folder, embedder)
    await backend.remember(make_samples())
    embedder.failing = True
    await backend.remember([make_extracted(make_event(50, "Waffle is another greyhound."))])
    embedder.failing = False
    hits = await backend.search(make_query("Quentin adopted a greyhound called Biscuit."))
    assert {hit.event_id for hit in hits[:2]} == {event_id(4), event_id(50)}
    scores = [hit.score or 0.0 for hit in hits]
    assert scores == sorted(scores, reverse=True)
    await backend.settle()
    assert (await backend.describe()).vectors == 13
    await backend.close()


@pytest.mark.feature("mem0, the library in a folder: a model that fails", part="faults/adapters")
@pytest.mark.feature("… and Mem0's", of="the embedder is down: search")
async def test_a_failing_model_costs_no_memory(folder: Path) -> None:
    """The event is kept and found by its words; the description says why; ``settle`` raises what is in the way."""
    embedder = FakeEmbedder(failing=True)
    backend = await opened(folder, embedder)
    await backend.remember(make_samples())
    assert (await backend.search(make_query("greyhound")))[0].event_id == event_id(4)
    with pytest.raises(ModelMissing):
        await backend.settle()
    description = await backend.describe()
    assert description.vectors_pending == 12
    assert "12 memories wait" in description.notes[0]
    assert await backend.forget(event_id(4), []) == "deleted"
    embedder.failing = False
    await backend.settle()
    assert (await backend.describe()).vectors == 11
    await backend.close()


async def test_what_is_forgotten_while_it_is_encoded_stays_away(folder: Path) -> None:
    """The vector comes too late, and brings nothing back."""
    backend = await opened(folder, None)
    await backend.remember(make_samples()[: BATCH // 4])
    await backend.close()
    gate = asyncio.Event()
    embedder = FakeEmbedder(gate=gate)
    again = await opened(folder, embedder)
    await embedder.waiting.wait()
    assert await again.forget(event_id(4), []) == "deleted"
    gate.set()
    await again.settle()
    assert (await again.describe()).vectors == BATCH // 4 - 1
    assert event_id(4) not in {hit.event_id for hit in await again.search(make_query("greyhound"))}
    await again.close()


async def test_closing_while_vectors_fill_in(folder: Path) -> None:
    """Closing does not wait for the model; the next opening continues."""
    backend = await opened(folder, None)
    await backend.remember(make_samples())
    await backend.close()
    embedder = FakeEmbedder(gate=asyncio.Event())
    stuck = await opened(folder, embedder)
    await embedder.waiting.wait()
    await stuck.close()
    last = await opened(folder, FakeEmbedder())
    await last.settle()
    assert (await last.describe()).vectors == 12
    await last.close()


async def test_mem0_may_ask_for_a_vector_of_its_own(backend: Mem0) -> None:
    """The bridge then asks the embedder on its loop, from the library's thread."""
    bridge = Bridge()
    bridge.connect(FakeEmbedder(), asyncio.get_running_loop())
    [first, second] = await asyncio.to_thread(bridge.embed_batch, ["a", "b"])
    assert first != second
    assert len(first) == 32


async def test_neighbours_stay_in_their_scope(backend: Mem0) -> None:
    """The same document name in two people's memories is two documents."""
    events = [
        make_event(n, f"Line {n}", Scope(user_id="ada" if n % 2 else "ben"), place=Place("talk", n, n))
        for n in range(1, 9)
    ]
    await backend.remember([make_extracted(event) for event in events])
    [hit, *_] = [h for h in await backend.search(make_query("Line 5", Scope(user_id="ada"))) if h.text == "Line 5"]
    assert [[near.text for near in nears] for nears in await backend.neighbours([hit], 1)] == [["Line 3", "Line 7"]]


# The network


@pytest.mark.feature("Mem0: nothing is sent to the network, not even telemetry")
def test_nothing_goes_to_the_network(tmp_path: Path) -> None:
    """In a fresh process that may open no socket, mem0 is imported, stores, searches and forgets; nothing is written
    to the home folder of the user."""
    program = f"""
import asyncio, os, socket, sys
from pathlib import Path
tries = []
class Guard(socket.socket):
    def connect(self, address): tries.append(address); raise OSError("no network in this test")
    connect_ex = connect
socket.socket = Guard
def resolve(*a, **k): tries.append(a); raise OSError("no names in this test")
socket.getaddrinfo = resolve
from adapters.mem0 import Mem0
from fusion.contract import Opening
from tests.backend_contract import make_query, make_samples, event_id
from tests.fakes import FakeEmbedder
async def main():
    backend = await Mem0.open(Opening("mem0", Path({str(tmp_path / "folder")!r}), {{}}, FakeEmbedder()))
    await backend.remember(make_samples())
    assert await backend.search(make_query("greyhound last week"))
    await backend.forget(event_id(1), [])
    await backend.close()
asyncio.run(main())
assert not tries, tries
assert "openai" not in sys.modules
"""
    home = tmp_path / "home"
    home.mkdir()
    done = run(program, home)
    assert done.returncode == 0, done.stderr
    assert not list(home.iterdir())
