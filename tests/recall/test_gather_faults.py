"""The fault matrix of backends, a named test a row, over real loopback HTTP.

Each row puts one server with a fault beside three healthy ones and asks all four. Beside what the row says, every one
asserts that the healthy answers are just those of a run without the faulty one, and that afterwards no task and no
socket is left. Limits on elapsed time are generous: a test that would wait for a deadline has one of a minute.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import aiohttp.abc
import orjson
import pytest

from adapters.http import REPLY_BYTES, Http
from adapters.remote import Options, Remote
from fusion.lib.breaker import Breaker
from fusion.recall.filter import admit
from fusion.recall.gather import Answer, GuardedBackend, gather
from tests import chaos
from tests.backend_contract import SAMPLES, make_query
from tests.chaos import Behaviour, Chaos
from tests.patience import opening_at

MINUTE = 60.0
AT_ONCE_S = 20.0  # "did not wait for its deadline", with room for the slowest machine
QUERY = make_query("who corrected the bug?", limit=50)
GOOD = {"native_id": "good", "text": "Ada corrected it."}


def items(first: int, count: int = 4) -> list[dict[str, Any]]:
    return [
        {"native_id": f"n{n}", "text": text, "score": 1 / (1 + n), "speaker": "Ada", "at": "2025-05-08T13:56:00Z"}
        for n, (text, _) in enumerate(SAMPLES[first : first + count])
    ]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def open_sockets() -> int:
    return sum(entry.is_socket() for entry in Path("/dev/fd").iterdir())


class House:
    """Three healthy servers and their backends, and what they answer when nothing is wrong."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.clock = Clock()
        self.healthy: list[GuardedBackend] = []
        self.baseline: list[Any] = []

    async def build(self) -> None:
        for n, server in enumerate(await self._stack.enter_async_context(chaos.many([items(0), items(4), items(8)]))):
            self.healthy.append(await self.backend(f"healthy{n}", server.url))
        self.baseline = [answer.hits for answer in await gather(QUERY, self.healthy, MINUTE)]
        assert [len(hits) for hits in self.baseline] == [4, 4, 4]

    async def backend(
        self,
        name: str,
        url: str,
        deadline_s: float = MINUTE,
        connect_s: float = MINUTE,
        connector: Callable[[], aiohttp.BaseConnector] | None = None,
    ) -> GuardedBackend:
        backend = Remote(Http(url, connect_s=connect_s, connector=connector), Options(url=url))
        self._stack.push_async_callback(backend.close)
        return GuardedBackend(name, backend, deadline_s, Breaker(self.clock, lambda: 0.5))

    async def server(self, behaviour: Behaviour) -> Chaos:
        return await self._stack.enter_async_context(Chaos([GOOD], behaviour))

    async def ask(self, faulty: GuardedBackend) -> Answer:
        """The faulty one's answer; the healthy ones' are what they were, and nobody waited without need."""
        began = time.monotonic()
        *others, answer = await gather(QUERY, [*self.healthy, faulty], MINUTE)
        assert time.monotonic() - began < AT_ONCE_S
        assert [(other.status, other.hits) for other in others] == [("ok", hits) for hits in self.baseline]
        assert orjson.dumps([*others, answer]).decode()
        return answer

    async def fault(self, behaviour: Behaviour, deadline_s: float = MINUTE) -> Answer:
        """The answer of a server with this behaviour."""
        server = await self.server(behaviour)
        return await self.ask(await self.backend("faulty", server.url, deadline_s))


@pytest.fixture
async def house() -> AsyncIterator[House]:
    gc.collect()
    tasks, sockets = asyncio.all_tasks(), open_sockets()
    async with AsyncExitStack() as stack:
        house = House(stack)
        await house.build()
        yield house
    for _ in range(50):  # a closed transport closes its socket in one of the next turns of the loop
        if open_sockets() == sockets:
            break
        await asyncio.sleep(0)
    assert open_sockets() == sockets, "a socket was left open"
    assert not {t for t in asyncio.all_tasks() - tasks if t is not asyncio.current_task()}, "a task was left"


class NoNames(aiohttp.abc.AbstractResolver):
    """A name server that knows nobody."""

    async def resolve(self, *_: Any, **__: Any) -> list[Any]:
        raise OSError(-2, "Name or service not known")

    async def close(self) -> None:
        """Nothing to release."""


@pytest.mark.row("A153", "a dead host costs its connect timeout, then its breaker opens")
@pytest.mark.feature("host down or a black hole", part="faults/backends")
async def test_host_down_or_blackhole(house: House) -> None:
    """Connecting takes 250 ms at most; then it is unreachable; after five in a row its breaker is open."""
    with chaos.blackhole() as url:
        faulty = await house.backend("faulty", url, connect_s=0.25)
        answers = [await house.ask(faulty) for _ in range(6)]
    assert [answer.status for answer in answers] == ["unreachable"] * 5 + ["open"]
    assert answers[0].detail.endswith("no connection within 250 ms")
    assert answers[5].took_ms == 0


async def test_refused(house: House) -> None:
    """Unreachable without waiting for anything; its breaker opens after five requests, not after five tries."""
    with chaos.refusing() as url:
        faulty = await house.backend("faulty", url)
        answers = [await house.ask(faulty) for _ in range(6)]
    assert [answer.status for answer in answers] == ["unreachable"] * 5 + ["open"]
    assert answers[0].detail.endswith("connection refused")


@pytest.mark.feature("a refused connection is retried at most once")
async def test_refused_is_tried_once_more(house: House) -> None:
    """A connection lost at once is tried a second time, and not a third."""
    server = await house.server(chaos.reset_at_once)
    faulty = await house.backend("faulty", server.url)
    assert (await house.ask(faulty)).status == "unreachable"
    assert len(server.calls) == 2
    server.schedule.append(chaos.reset_at_once)
    server.behaviour = chaos.healthy
    assert (await house.ask(faulty)).status == "ok"


@pytest.mark.feature("a host name that does not resolve", part="faults/backends")
async def test_dns_fails(house: House) -> None:
    """A name that nobody knows is unreachable, and says so."""
    faulty = await house.backend(
        "faulty", "http://memory.invalid", connector=lambda: aiohttp.TCPConnector(resolver=NoNames())
    )
    answer = await house.ask(faulty)
    assert (answer.status, answer.detail) == ("unreachable", "http://memory.invalid: no such host")


@pytest.mark.row("A104", "a slow backend is cut at its budget, and its late answer is dropped")
@pytest.mark.feature("slow: its late answer is in no later request", part="faults/backends")
async def test_slow_is_cut_at_its_budget(house: House) -> None:
    """Over its 100 ms it is a time-out; the others' answers are kept; its late answer is in no later request."""
    late = asyncio.Event()
    server = await house.server(chaos.after(late))
    server.hits = [{"native_id": "late", "text": "late"}]
    faulty = await house.backend("faulty", server.url, 0.1)
    answer = await house.ask(faulty)
    assert (answer.status, answer.hits) == ("timeout", ())
    late.set()
    server.behaviour, server.hits = chaos.healthy, [GOOD]
    patient = GuardedBackend("faulty", faulty.backend, MINUTE, faulty.breaker)
    assert [hit.native_id for hit in (await house.ask(patient)).hits] == ["good"]


@pytest.mark.feature("hanging and trickling replies are cut by a total deadline")
@pytest.mark.feature("hangs after its headers, or trickles", part="faults/backends")
@pytest.mark.parametrize("behaviour", [chaos.hang, chaos.hang_after_headers, chaos.trickle])
async def test_hangs_after_headers_or_trickles(house: House, behaviour: Behaviour) -> None:
    """The deadline is for the whole exchange, so a byte now and then does not prolong it."""
    answer = await house.fault(behaviour, 0.1)
    assert (answer.status, answer.hits) == ("timeout", ())


@pytest.mark.parametrize("code", [400, 404, 500, 502, 503])
async def test_http_errors(house: House, code: int) -> None:
    """A failure status is named, and not tried again in the request."""
    server = await house.server(chaos.status(code))
    answer = await house.ask(await house.backend("faulty", server.url))
    assert (answer.status, answer.error_code) == ("http_error", f"http_{code}")
    assert len(server.calls) == 1


@pytest.mark.feature("HTTP errors are reported; Retry-After is honoured")
@pytest.mark.feature("4xx, 5xx; Retry-After up to 300 s", part="faults/backends")
@pytest.mark.parametrize(("named", "wait_s"), [("7", 7), ("86400", 300)])
async def test_503_with_retry_after(house: House, named: str, wait_s: float) -> None:
    """It is left alone for as long as it asked, at most 300 s, and asked again then."""
    server = await house.server(chaos.healthy)
    server.schedule.append(chaos.status(503, Retry_After=named))
    faulty = await house.backend("faulty", server.url)
    statuses = []
    for now in (0, wait_s - 1, wait_s):
        house.clock.now = now
        statuses.append((await house.ask(faulty)).status)
    assert statuses == ["http_error", "open", "ok"]
    assert len(server.calls) == 2


@pytest.mark.feature("a 200 with nonsense is an invalid answer")
@pytest.mark.feature("HTML, cut JSON, another schema", part="faults/backends")
@pytest.mark.parametrize(
    "behaviour",
    [
        chaos.html,
        chaos.truncated,
        chaos.cut_short,
        chaos.reset,
        chaos.body(b""),
        chaos.body(b"null"),
        chaos.body(b'{"results": []}'),
        chaos.body(b'{"hits": {"1": "tea"}}'),
        chaos.body(b'{"hits": [[], 5, {"id": "1"}]}'),
        chaos.body(b"[" * 100_000),
        chaos.body(b"1" * 10_000),
    ],
)
async def test_200_with_nonsense(house: House, behaviour: Behaviour) -> None:
    """HTML, cut JSON, another schema, a connection reset in the middle: its whole answer is dropped."""
    answer = await house.fault(behaviour)
    assert answer.status in ("invalid", "unreachable")  # a reset is either, as the kernel delivers it
    assert (answer.status == "invalid") or behaviour is chaos.reset
    assert answer.hits == ()


@pytest.mark.feature("… but valid items are kept", of="a 200 with nonsense is an invalid")
@pytest.mark.feature("some items valid, some not", part="faults/backends")
async def test_items_that_validate_are_kept(house: House) -> None:
    """Where items validate one by one, the valid ones stay and the others are counted."""
    answer = await house.fault(chaos.items({"native_id": "1"}, GOOD, 5, {"native_id": "2", "text": None}))
    assert (answer.status, [hit.native_id for hit in answer.hits]) == ("ok", ["good"])
    assert answer.dropped == {"malformed": 3}


@pytest.mark.feature("a huge body is not read to its end")
@pytest.mark.parametrize("behaviour", [chaos.flood, chaos.announced_flood, chaos.bomb()])
async def test_huge_body(house: House, behaviour: Behaviour) -> None:
    """Reading stops at 4 MiB, counted after decompression; memory grows by less than 16 MiB; the answer is invalid."""
    server = await house.server(behaviour)
    faulty = await house.backend("faulty", server.url)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        answer = await house.ask(faulty)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.status == "invalid"
    assert f"longer than {REPLY_BYTES:,} bytes" in answer.detail
    assert peak - before < 16 * 1024 * 1024


@pytest.mark.feature("ten thousand items are truncated before anything else")
@pytest.mark.feature("ten thousand items", part="faults/backends")
async def test_ten_thousand_items(house: House) -> None:
    """They are cut to the limit of the query before anything else is done with them."""
    answer = await house.fault(chaos.items(*({"native_id": str(n), "text": f"item {n}"} for n in range(10_000))))
    assert [hit.native_id for hit in answer.hits] == [str(n) for n in range(QUERY.limit)]


@pytest.mark.feature("scores that are not numbers are ignored")
@pytest.mark.feature("scores that are NaN, infinite, texts, missing", part="faults/backends")
async def test_scores_that_are_none(house: House) -> None:
    """NaN, infinite, missing, textual and negative scores: the order is the backend's, and no NaN is passed on."""
    scores = [float("nan"), float("inf"), float("-inf"), "0.9", None, -2.5]
    values = [{**GOOD, "native_id": str(n), "score": score} for n, score in enumerate(scores)]
    answer = await house.fault(chaos.items(*values, {"native_id": "6", "text": "no score at all"}))
    assert [hit.native_id for hit in answer.hits] == [str(n) for n in range(7)]
    assert [hit.score for hit in answer.hits] == [None] * 5 + [-2.5, None]
    assert answer.dropped == {"bad_score": 4}
    assert b"NaN" not in orjson.dumps(answer)


@pytest.mark.feature("an id twice in one answer", part="faults/backends")
async def test_duplicate_ids(house: House) -> None:
    """One id is one item: the first, at its rank."""
    answer = await house.fault(chaos.items(GOOD, {**GOOD, "text": "again"}, {**GOOD, "native_id": "other"}))
    assert [hit.native_id for hit in answer.hits] == ["good", "other"]
    assert answer.dropped == {"duplicate": 1}


async def test_broken_and_invisible_characters(house: House) -> None:
    """Invalid UTF-8, lone surrogates, NUL, bidi and tag characters are replaced or taken out, and counted."""
    text = b"a\xff\\ud800\\u0000\\u202e\xe2\x80\xaeb" + "\U000e0041".encode()
    answer = await house.fault(chaos.body(b'{"hits": [{"native_id": "1", "text": "' + text + b'"}]}'))
    assert [hit.text for hit in answer.hits] == ["a\ufffd\ufffdb"]
    assert answer.dropped == {"invisible": 5}  # a surrogate, NUL, bidi twice, a tag; \xff was none of ours to count
    assert "\ufffd".encode() in orjson.dumps(answer)


async def test_item_of_another_tenant(house: House) -> None:
    """What a server says of somebody else's memory stays said, and the filter behind drops it."""
    answer = await house.fault(chaos.items({**GOOD, "tenant": "red"}, {**GOOD, "native_id": "2"}))
    admitted, dropped = admit("faulty", answer.hits, QUERY, {})
    assert [item.hit.native_id for item in admitted] == ["2"]
    assert dropped == {"scope": 1}


@pytest.mark.feature("401 and 403: not asked for 60 s; the next probe has the new credential", part="faults/backends")
@pytest.mark.parametrize("code", [401, 403])
async def test_unauthorized(house: House, code: int) -> None:
    """No retry; left alone for 60 s; the next probe uses the credential of then; the key is in no answer."""
    os.environ["FAULTY_KEY"] = "sk-canary-old"
    try:
        server = await house.server(chaos.healthy)
        server.schedule.append(chaos.status(code))
        backend = await Remote.open(opening_at(server.url, "faulty", api_key_env="FAULTY_KEY"))
        faulty = GuardedBackend("faulty", backend, MINUTE, Breaker(house.clock, lambda: 0.5))
        answers = [await house.ask(faulty)]
        os.environ["FAULTY_KEY"] = "sk-canary-new"
        for now in (59, 60):
            house.clock.now = now
            answers.append(await house.ask(faulty))
        await backend.close()
    finally:
        del os.environ["FAULTY_KEY"]
    assert [answer.status for answer in answers] == ["unauthorized", "unauthorized", "ok"]
    assert [call.headers["authorization"] for call in server.calls] == ["Bearer sk-canary-old", "Bearer sk-canary-new"]
    assert "canary" not in str(answers)


@pytest.mark.feature("429: not asked for as long as it says, and not counted as a failure", part="faults/backends")
async def test_429(house: House) -> None:
    """Left alone for its Retry-After; ten of them in a row are no failure that would open the breaker."""
    server = await house.server(chaos.status(429, Retry_After="3"))
    faulty = await house.backend("faulty", server.url)
    for _ in range(10):
        assert (await house.ask(faulty)).status == "rate_limited"
        assert (await house.ask(faulty)).status == "rate_limited"
        house.clock.now += 3
    assert len(server.calls) == 10
    server.behaviour = chaos.healthy
    assert (await house.ask(faulty)).status == "ok"
    assert faulty.breaker.healthy


async def test_flaps(house: House) -> None:
    """Up and down: left alone for 5, 10, 20 s; exactly one probe each time; every request has the others' answers."""
    server = await house.server(chaos.status(500))
    faulty = await house.backend("faulty", server.url)
    waits = []
    for _ in range(3):
        while (await house.ask(faulty)).status != "open":
            assert len(server.calls) < 100
        waits.append(faulty.breaker.wait_s)
        house.clock.now += faulty.breaker.wait_s
        server.calls.clear()
        release = asyncio.Event()
        server.behaviour = chaos.after(release)
        server.called.clear()
        asking = [asyncio.ensure_future(house.ask(faulty)) for _ in range(8)]
        await server.called.wait()
        refused, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        assert {answer.result().status for answer in refused} == {"open"}
        release.set()
        assert sorted([(await answer).status for answer in asking]) == ["ok"] + ["open"] * 7
        assert len(server.calls) == 1
        server.behaviour = chaos.status(500)
    assert waits == [5, 10, 20]


@pytest.mark.feature("if all are down, the reply is a 503 with the same coverage")
async def test_all_down(house: House) -> None:
    """Nobody waits for a deadline when all refuse; the last one is asked for ever, so that its return is noticed."""
    began = time.monotonic()
    with chaos.refusing() as url:
        backends = [await house.backend(f"down{n}", url) for n in range(4)]
        rounds = [[answer.status for answer in await gather(QUERY, backends, MINUTE)] for _ in range(8)]
    assert time.monotonic() - began < AT_ONCE_S
    assert rounds[0] == ["unreachable"] * 4
    assert sorted(rounds[-1]) == ["open", "open", "open", "unreachable"]


@pytest.mark.feature("an open breaker costs no wait", part="faults/backends")
async def test_breaker_open_costs_no_wait(house: House) -> None:
    """A hung server that is known to hang is not asked: no call reaches it, and the request does not wait."""
    server = await house.server(chaos.hang)
    faulty = await house.backend("faulty", server.url, 0.05)
    while faulty.breaker.healthy:  # five times; more where this process itself is late, which no backend is blamed for
        assert (await house.ask(faulty)).status == "timeout"
    reached = len(server.calls)
    patient = GuardedBackend("faulty", faulty.backend, MINUTE, faulty.breaker)
    answer = await house.ask(patient)
    assert (answer.status, answer.took_ms) == ("open", 0)
    assert len(server.calls) == reached


async def test_the_client_leaves(house: House) -> None:
    """All searches are cancelled and their connections closed; the breaker counts nothing."""
    server = await house.server(chaos.hang)
    faulty = await house.backend("faulty", server.url)
    request = asyncio.ensure_future(gather(QUERY, [*house.healthy, faulty], MINUTE))
    await server.called.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    await server.all_gone.wait()
    assert faulty.breaker.healthy
    assert faulty.bulkhead.under_way == 0
