"""The fault matrix of HTTP adapters: no fault of a server costs more than its own answer.

An adapter joins by a `System` in `SYSTEMS`: its table, and the words in which its server tells a memory.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.lib.breaker import Breaker
from tests import chaos
from tests.chaos import Behaviour, Call, Chaos
from tests.fakes import FakeEmbedder
from tests.faults.home import HOUR_MS, door, settings_of, statuses
from tests.patience import PATIENT_MS

NADIA = Scope(user_id="nadia", audience="private")
DECIDED = "We decided to move the bookings database to Postgres"
THEIRS = "The bookings database moves to a cluster in Lyon"
SECRET = "The bookings database moves because omar was fired"
QUESTION = {"query": "where does the bookings database move?", "user_id": "nadia", "timeout_ms": 60_000}
CUT_MS = 300
"""the deadline of a server that never ends: reached for certain, and soon"""

Items = Sequence[object]


@dataclass(frozen=True)
class System:
    """A memory system behind HTTP. ``item`` is a memory as it tells it, of an id, a text and a score; ``reply`` what
    its search gives; ``other`` what it says at other routes; ``leaks`` an item of omar's, where items say whose they
    are."""

    options: Mapping[str, object]
    item: Callable[[str, str, object], object]
    reply: Callable[[Items], object]
    other: Mapping[str, object] = field(default_factory=dict)
    leak: object = None
    embedder: str = ""
    """which it cannot do without"""
    strict: bool = False
    """whether its own client refuses a whole reply for one item of it"""

    def saying(self, *items: object, other: Mapping[str, object] | None = None) -> Behaviour:
        """Healthy, with just these items; what JSON cannot say (NaN) is sent as Python's json does."""
        told = self.other if other is None else other

        async def behave(call: Call) -> None:
            said = next((reply for path, reply in told.items() if call.path == path), None)
            await call.reply(json.dumps(self.reply(items) if said is None else said).encode())

        return behave

    def table(self, url: str, deadline_ms: int) -> dict[str, object]:
        return {**self.options, "url": url, "connect_ms": PATIENT_MS, "deadline_ms": deadline_ms}


NADIAS = {"bound": {"user_id": "nadia"}}
WORDS = {"vectors": {}, "sparse_vectors": {"words": {"modifier": "idf"}}}
MADE = {
    "status": "green",
    "optimizer_status": "ok",
    "segments_count": 1,
    "config": {
        "params": {"vectors": {"size": 32, "distance": "Cosine"}},
        "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000},
        "optimizer_config": {
            "deleted_threshold": 0.2,
            "vacuum_min_vector_number": 1000,
            "default_segment_number": 0,
            "flush_interval_sec": 5,
        },
    },
    "payload_schema": {},
}
"""a collection of Qdrant's as its own client reads it"""


class Modelled(FakeEmbedder):
    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, object]) -> Modelled:
        return cls()


def ours(text: str, user_id: str, event_id: str) -> dict[str, object]:
    """A payload as the gateway writes it."""
    return {"data": text, "user_id": user_id, "event_id": event_id}


SYSTEMS = {
    "remote": System(
        {"adapter": "adapters.remote:Remote"},
        lambda id_, text, score: {"native_id": id_, "text": text, "score": score, "user_id": "nadia"},
        lambda items: {"hits": items},
        leak={"native_id": "omars", "text": SECRET, "user_id": "omar"},
    ),
    "http": System(
        {"adapter": "adapters.http:HttpMemory", **NADIAS},
        lambda id_, text, score: {"id": id_, "text": text, "score": score},
        lambda items: {"results": items},
    ),
    "http, Memory Cortex": System(
        {"adapter": "adapters.http:HttpMemory", "preset": "memory-cortex"},
        lambda id_, text, score: {"id": id_, "fact": text, "score": score, "user_id": "nadia"},
        lambda items: {"results": items},
        leak={"id": "omars", "fact": SECRET, "user_id": "omar"},
    ),
    "qmd": System(
        {"adapter": "adapters.qmd:Qmd", **NADIAS},
        lambda id_, text, score: {"file": f"notes/{id_}.md", "snippet": text, "score": score},
        lambda items: {"results": items},
    ),
    "qdrant": System(
        {"adapter": "adapters.qdrant:Collection", "collection": "facts", "sparse": "words"},
        lambda id_, text, score: {"id": id_, "score": score, "payload": {"data": text, "user_id": "nadia"}},
        lambda items: {"result": {"points": items}, "status": "ok"},
        {"/collections/facts": {"result": {"config": {"params": WORDS}}, "status": "ok"}},
        leak={"id": "omars", "score": 1.0, "payload": {"data": SECRET, "user_id": "omar"}},
    ),
    "qdrant, our own memories": System(
        {"adapter": "adapters.qdrant:Qdrant"},
        lambda id_, text, score: {"id": id_, "score": score, "payload": ours(text, "nadia", id_)},
        lambda items: {"result": {"points": items}, "status": "ok"},
        leak={"id": "omars", "score": 1.0, "payload": ours(SECRET, "omar", "omars")},
    ),
    "mem0": System(
        {"adapter": "adapters.mem0:Mem0Server"},
        lambda id_, text, score: {"id": id_, "memory": text, "score": score, "user_id": "nadia"},
        lambda items: {"results": items},
        leak={"id": "omars", "memory": SECRET, "score": 1.0, "user_id": "omar"},
    ),
    "mem0, the library on a Qdrant server": System(
        {"adapter": "adapters.mem0:Mem0", "collection": "facts"},
        lambda id_, text, score: {
            "id": str(UUID(int=int(id_) + 1)),
            "version": 1,
            "score": score,
            "payload": {"data": text, "user_id": "nadia"},
        },
        lambda items: {"result": {"points": items}, "status": "ok", "time": 0.001},
        {
            "/collections": {"result": {"collections": [{"name": "facts"}]}, "status": "ok", "time": 0.001},
            "/collections/facts": {"result": MADE, "status": "ok", "time": 0.001},
            "/collections/facts/exists": {"result": {"exists": True}, "status": "ok", "time": 0.001},
        },
        leak={"id": str(UUID(int=1)), "version": 1, "score": 1.0, "payload": {"data": SECRET, "user_id": "omar"}},
        embedder=f"{__name__}:Modelled",
        strict=True,
    ),
    "cognee": System(
        {"adapter": "adapters.cognee:Cognee", "search": ["CHUNKS"], **NADIAS},
        lambda id_, text, score: {"id": id_, "text": text, "score": score},
        lambda items: [{"dataset_id": "1", "dataset_name": "notes", "search_result": items}],
    ),
}

ENDLESS: dict[str, Behaviour] = {
    "hangs": chaos.hang,
    "hangs after its headers": chaos.hang_after_headers,
    "trickles": chaos.trickle,
}
FAULTS: dict[str, tuple[Behaviour, str]] = {
    "hangs up": (chaos.reset_at_once, "unreachable"),
    "promises more than comes": (chaos.cut_short, "invalid"),
    "HTML": (chaos.html, "invalid"),
    "JSON that ends in the middle": (chaos.truncated, "invalid"),
    "nothing": (chaos.body(b""), "invalid"),
    "another schema": (chaos.body(b'{"memories": {"1": "tea"}}'), "invalid"),
    "null": (chaos.body(b"null"), "invalid"),
    "an endless reply": (chaos.flood, "invalid"),
    "a gigabyte, announced": (chaos.announced_flood, "invalid"),
    "a bomb": (chaos.bomb(), "invalid"),
    "401": (chaos.status(401), "unauthorized"),
    "403": (chaos.status(403), "unauthorized"),
    "429": (chaos.status(429, Retry_After="7"), "rate_limited"),
    "500": (chaos.status(500), "http_error"),
    "503": (chaos.status(503, Retry_After="7"), "http_error"),
    "a redirect": (chaos.status(302, Location="http://127.0.0.1:9/"), "http_error"),
}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class House:
    """A home with a backend of its own, ``here``, and the faulty one, ``there``."""

    gateway: Gateway
    client: httpx.AsyncClient
    alone: list[str]
    """what is found without the faulty one"""

    async def ask(self, **fields: Any) -> dict[str, Any]:
        reply = await self.client.post("/fuse", json={**QUESTION, **fields})
        assert reply.status_code == 200
        assert "NaN" not in reply.text
        fused: dict[str, Any] = reply.json()
        return fused

    async def remember(self) -> None:
        await self.gateway.remember([NewMemory(DECIDED, scope=NADIA)])
        await self.gateway.settle()
        self.alone = texts(await self.ask(backends=["here"]))
        assert self.alone == [DECIDED]

    def breaker(self, clock: Callable[[], float], jitter: Callable[[], float] = lambda: 0.5) -> Breaker:
        """A new one: what came before is forgiven."""
        made = Breaker(clock, jitter)
        self.gateway.guarded["there"] = replace(self.gateway.guarded["there"], breaker=made)  # type: ignore[index]
        return made


def texts(fused: Mapping[str, Any]) -> list[str]:
    return [member["text"] for memory in fused["memories"] for member in memory["members"]]


def there(fused: Mapping[str, Any]) -> dict[str, Any]:
    [row] = [row for row in fused["backends"] if row["name"] == "there"]
    return dict(row)


def home_of(home: Path, system: System, url: str, deadline_ms: int = HOUR_MS) -> Any:
    if system.strict and find_spec("mem0") is None:
        pytest.skip("needs mem0ai: pip install '/path/to/checkout[mem0]'")
    there = system.table(url, deadline_ms)
    return door(settings_of(home, system.embedder, here="adapters.inmemory:InMemory", there=there))


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> System:
    return SYSTEMS[request.param]


@pytest.mark.row(
    "A153",
    "every adapter over HTTP (another gateway, any HTTP memory, QMD, Qdrant with others' memories and with our "
    "own, mem0's server, mem0's library on a Qdrant server, Cognee): each fault has its status, the others' "
    "memories are the same",
)
@pytest.mark.row(
    "A153",
    "… tried with: hangs up, promises more than comes, HTML, JSON that ends in the middle, nothing, "
    "another schema, null, an endless reply, a gigabyte, announced, a bomb, 401, 403, 429, 500, 503, "
    "a redirect",
    of="every adapter over HTTP",
)
async def test_each_fault_has_its_status_and_costs_nothing_else(home: Path, system: System) -> None:
    """Each fault has its own in backends[], and then the server answers again; the other's memories are the same."""
    well = system.saying(system.item("1", THEIRS, 0.9))
    async with Chaos(behaviour=well) as server, home_of(home, system, server.url) as (gateway, client):
        house = House(gateway, client, [])
        await house.remember()
        found: dict[str, str] = {}
        for name, (behaviour, _) in FAULTS.items():
            house.breaker(Clock())
            server.behaviour = behaviour
            fused = await house.ask()
            found[name] = statuses(fused)["there"]
            assert texts(fused) == house.alone, name
            assert (fused["degraded"], fused["coverage"]["ratio"]) == (True, 0.5), name
        house.breaker(Clock())
        server.behaviour = well
        again = await house.ask()
    assert found == {name: status for name, (_, status) in FAULTS.items()}
    assert statuses(again) == {"here": "ok", "there": "ok"}
    assert sorted(texts(again)) == sorted([DECIDED, THEIRS])


@pytest.mark.feature(
    "… one deadline cuts a reply that hangs, hangs after its headers, or trickles", of="every adapter over HTTP"
)
async def test_an_endless_reply_is_cut(home: Path, system: System) -> None:
    """Silent, silent after its headers, or a byte now and then: the whole exchange has one deadline."""
    async with Chaos() as server, home_of(home, system, server.url, CUT_MS) as (gateway, client):
        house = House(gateway, client, [])
        await house.remember()
        found = {}
        for name, behaviour in ENDLESS.items():
            house.breaker(Clock())
            server.behaviour = behaviour
            fused = await house.ask()
            found[name] = statuses(fused)["there"]
            assert texts(fused) == house.alone
    assert found == dict.fromkeys(ENDLESS, "timeout")


@pytest.mark.row("A153", "… unreachable", of="every adapter over HTTP")
async def test_an_unreachable_backend_is_reported(home: Path, system: System) -> None:
    """A port without a listener is unreachable."""
    with chaos.refusing() as url:
        async with home_of(home, system, url) as (gateway, client):
            house = House(gateway, client, [])
            await house.remember()
            fused = await house.ask()
    assert (statuses(fused)["there"], texts(fused)) == ("unreachable", house.alone)


@pytest.mark.feature(
    "… items are validated one by one, invalid scores ignored, ten thousand truncated; where a client "
    "library parses the reply (mem0), one invalid item makes the answer invalid",
    of="every adapter over HTTP",
)
async def test_items_are_judged_one_by_one(home: Path, system: System) -> None:
    """Items without sense are dropped and counted, scores without sense are ignored, and ten thousand are cut. Where
    its own client reads the reply, one item without sense is an answer without sense."""
    good = system.item("1", THEIRS, 0.9)
    async with Chaos() as server, home_of(home, system, server.url) as (gateway, client):
        house = House(gateway, client, [])
        await house.remember()
        server.behaviour = system.saying(5, good, {"id": "2"}, None)
        mixed = await house.ask()
        scores = (float("nan"), float("-inf"), "high", None, -3)
        server.behaviour = system.saying(
            *(system.item(str(n), f"{THEIRS}, rack {n} of five", one) for n, one in enumerate(scores))
        )
        odd = await house.ask()
        server.behaviour = system.saying(*(system.item(str(n), f"{THEIRS}, rack {n}", 0.5) for n in range(10_000)))
        many = await house.ask()
    if system.strict:
        assert [there(fused)["status"] for fused in (mixed, odd)] == ["invalid"] * 2
    else:
        assert there(mixed)["dropped"] == {"malformed": 3}
        assert sorted(texts(mixed)) == sorted([DECIDED, THEIRS])
        assert (there(odd)["status"], there(odd)["count"]) == ("ok", len(scores))
    assert there(many)["count"] <= 200  # the recipe's max_depth
    assert all(DECIDED in texts(fused) for fused in (mixed, odd, many))


@pytest.mark.feature("… another user's memory is never shown", of="every adapter over HTTP")
@pytest.mark.parametrize("name", [name for name, system in SYSTEMS.items() if system.leak])
async def test_another_users_memory_is_never_shown(home: Path, name: str) -> None:
    """Although its server returns it."""
    system = SYSTEMS[name]
    async with Chaos() as server, home_of(home, system, server.url) as (gateway, client):
        house = House(gateway, client, [])
        await house.remember()
        server.behaviour = system.saying(system.leak, system.item("1", THEIRS, 0.9))
        fused = await house.ask(explain=True)
    assert sorted(texts(fused)) == sorted([DECIDED, THEIRS])
    assert "omar was fired" not in json.dumps(fused)


@pytest.mark.row("A153", "… flapping: five failures, 5 s, 10 s, one probe each", of="every adapter over HTTP")
async def test_flapping_costs_no_request_anything(home: Path, system: System) -> None:
    """Down for five questions it is left alone, then probed once; every answer has the other's memory."""
    well = system.saying(system.item("1", THEIRS, 0.9))
    async with Chaos(behaviour=chaos.status(500)) as server, home_of(home, system, server.url) as (gateway, client):
        house = House(gateway, client, [])
        await house.remember()
        clock = Clock()
        house.breaker(clock)
        seen = []
        for clock.now, up in [*((0, False),) * 6, (4, True), (5, False), (14, True), (15, True), (16, True)]:
            server.behaviour = well if up else chaos.status(500)
            fused = await house.ask()
            assert DECIDED in texts(fused)
            seen.append(statuses(fused)["there"])
    # Five failures; 5 s alone; a probe that fails doubles them to 10 s; the next one answers.
    assert seen == [*["http_error"] * 5, "open", "open", "http_error", "open", "ok", "ok"]


@pytest.mark.feature("… doctor reports each, with its fix", of="every adapter over HTTP")
async def test_each_fault_is_reported_to_doctor_with_its_fix(home: Path, system: System) -> None:
    """What a backend says of itself meanwhile: what is wrong, then how to fix it."""
    well = system.saying(system.item("1", THEIRS, 0.9))
    async with Chaos(behaviour=well) as server, home_of(home, system, server.url) as (gateway, _):

        async def said() -> tuple[bool, str]:
            [row] = [row for row in (await gateway.status())["backends"] if row["name"] == "there"]
            return row["degraded"], " ".join(row["notes"])

        for fault, (server.behaviour, _) in FAULTS.items():
            degraded, note = await said()
            detail, _, fix = note.partition(". Fix: ")
            assert degraded, fault
            assert detail, fault
            assert fix, f"{fault}: {note}"


def test_every_fault_that_is_tried_is_listed() -> None:
    """The markers name each fault that every adapter over HTTP is tried with."""
    tests = (test_each_fault_has_its_status_and_costs_nothing_else, test_an_endless_reply_is_cut)
    sentences = " ".join(str(mark.args[-1]) for test in tests for mark in test.pytestmark)
    assert [fault for fault in (*ENDLESS, *FAULTS) if fault not in sentences] == []
