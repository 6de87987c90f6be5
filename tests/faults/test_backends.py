"""The fault matrix of backends as a caller sees it: a whole home, over HTTP on both sides.

`tests/recall/test_gather_faults.py` has the same rows one layer down, where each is tried in more variants.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.inmemory import InMemory
from fusion.contract import Features, Hit, Place, Query, Scope
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.lib.breaker import Breaker
from fusion.recall.filter import TEXT_CHARS
from tests import chaos
from tests.chaos import Behaviour, Chaos
from tests.faults.home import door, logged, remote, settings_of, statuses

ROOT = Path(__file__).resolve().parents[2]
NADIA = Scope(user_id="nadia", audience="private")
DECIDED = "We decided to move the bookings database to Postgres"
QUESTION = {"query": "where does the bookings database move?", "user_id": "nadia", "timeout_ms": 60_000}
MINE = {"native_id": "mine", "text": "The bookings database moves to a cluster in Lyon", "user_id": "nadia"}
SECRET = "The bookings database moves because omar was fired"
LOCAL = "adapters.inmemory:InMemory"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def remember(gateway: Gateway) -> None:
    await gateway.remember([NewMemory(DECIDED, scope=NADIA)])
    await gateway.settle()


# Somebody else's memories


LEAKS = {
    "another tenant's": {**MINE, "native_id": "theirs", "text": SECRET, "tenant": "red"},
    "another user's": {**MINE, "native_id": "theirs", "text": SECRET, "user_id": "omar"},
    "nobody's": {**MINE, "native_id": "theirs", "text": SECRET, "user_id": None},
}


@pytest.mark.row("A156", "a memory of another tenant or user is dropped, counted, and logged as a security event")
@pytest.mark.parametrize("leak", LEAKS)
async def test_item_of_another_tenant_returned(home: Path, leak: str) -> None:
    """Dropped from /fuse, its receipt and /v1/search; counted; a security event is logged."""
    async with Chaos([LEAKS[leak], MINE]) as server:
        settings = settings_of(home, there=remote(server.url))
        with logged() as lines:
            async with door(settings) as (_, client):
                fused = await client.post("/fuse", json={**QUESTION, "explain": True})
                receipt = await client.get(f"/v1/receipts/{fused.json()['receipt_id']}")
                found = await client.post(
                    "/v1/search", json={"backend": "there", "query": "bookings", "user_id": "nadia"}
                )
                [state] = (await client.get("/v1/backends")).json()["backends"]
    assert MINE["text"] in fused.json()["block"]
    assert [hit["native_id"] for hit in found.json()["hits"]] == ["mine"]
    for reply in (fused, receipt, found):
        assert reply.status_code == 200
        assert "omar was fired" not in reply.text
        assert "theirs" not in reply.text
    assert fused.json()["backends"][0]["refused"] == {"scope": 1}
    assert state["leaked"] == 2  # by /fuse and by /v1/search
    events = [line for line in lines if "fusion.security" in line]
    assert [line.partition("; ")[0] for line in events] == [
        "WARNING fusion.security: backend there answered with 1 memories of another scope"
    ] * 2
    assert "omar was fired" not in "".join(lines)


class Neighbourly(InMemory):
    """A backend that returns the right memory, and another user's memory as its neighbour."""

    features = Features(filters=frozenset({"user_id", "agent_id", "run_id", "session_id"}), tenants=True)

    async def search(self, query: Query) -> Sequence[Hit]:
        return [Hit("mine", str(MINE["text"]), scope=query.scope, place=Place("plan", 1, 1))]

    async def neighbours(self, hits: Sequence[Hit], span: int) -> Sequence[Sequence[Hit]]:
        beside = (Scope("red", "nadia"), Scope(user_id="omar"), Scope(user_id="nadia"))
        texts = (SECRET, SECRET, "The cluster in Lyon has three bookings database nodes")
        return [
            [Hit(f"n{i}", text, scope=scope, place=Place("plan", 2 + i, 2 + i)) for i, (scope, text) in enumerate(near)]
            for near in [list(zip(beside, texts, strict=True))] * len(hits)
        ]


@pytest.mark.feature("… also if a backend returns it as a neighbour", of="a memory of another tenant or")
async def test_neighbour_of_another_tenant_returned(home: Path) -> None:
    """Neighbours that a backend returns pass the same filter."""
    async with door(settings_of(home, there=f"{__name__}:Neighbourly")) as (_, client):
        fused = (await client.post("/fuse", json={**QUESTION, "fill": True})).text
    assert "cluster in Lyon" in fused
    assert "three bookings database nodes" in fused
    assert "omar was fired" not in fused


# Credentials


@pytest.mark.feature("… `/readyz` names it, and no log has the key", of="401 and 403: not asked for 60")
@pytest.mark.parametrize("code", [401, 403])
async def test_expired_credential_is_shown_by_readyz(home: Path, code: int) -> None:
    """/readyz and /v1/backends name it while it is left alone; the next probe has the new key; no log has either."""
    os.environ["THERE_KEY"] = "sk-canary-old"
    try:
        async with Chaos([MINE], chaos.status(code)) as server:
            settings = settings_of(home, here=LOCAL, there=remote(server.url, api_key_env="THERE_KEY"))
            with logged() as lines:
                async with door(settings) as (gateway, client):
                    await remember(gateway)
                    clock = Clock()
                    gateway.guarded["there"] = replace(gateway.guarded["there"], breaker=Breaker(clock))  # type: ignore[index]
                    replies = [await client.post("/fuse", json=QUESTION)]
                    ready = [await client.get("/readyz")]
                    replies.append(await client.get("/v1/backends"))
                    os.environ["THERE_KEY"], server.behaviour = "sk-canary-new", chaos.healthy
                    for clock.now in (59, 60):
                        replies.append(await client.post("/fuse", json=QUESTION))
                        ready.append(await client.get("/readyz"))
    finally:
        del os.environ["THERE_KEY"]
    assert [r.json()["backends"]["there"] for r in ready] == ["unauthorized", "unauthorized", "ready"]
    assert {r.status_code for r in ready} == {200}  # the other one answers
    assert statuses(replies[1].json())["there"] == "unauthorized"
    assert [statuses(replies[i].json())["there"] for i in (0, 2, 3)] == ["unauthorized", "unauthorized", "ok"]
    searched = [call.headers["authorization"] for call in server.calls if call.path == "/v1/search"]
    assert searched == ["Bearer sk-canary-old", "Bearer sk-canary-new"]
    assert "canary" not in "".join(lines) + "".join(r.text for r in [*replies, *ready])


def searches(server: Chaos) -> int:
    """How often it was searched; it is also asked, now and then, what it holds."""
    return sum(call.path == "/v1/search" for call in server.calls)


# Servers that come and go


@pytest.mark.feature("a flapping backend gets one probe for each wait, and every request is answered in full")
async def test_flapping_costs_no_request_anything(home: Path) -> None:
    """Up and down for 300 s: each of 300 requests has the healthy one's memory, and each wait has exactly one probe.

    It is down in every second of three: five failures, 5 s alone, and so on, doubled after a probe that fails.
    """
    async with Chaos([MINE]) as server:
        settings = settings_of(home, here=LOCAL, there=remote(server.url))
        async with door(settings) as (gateway, client):
            await remember(gateway)
            clock = Clock()
            breaker = Breaker(clock, lambda: 0.5)
            gateway.guarded["there"] = replace(gateway.guarded["there"], breaker=breaker)  # type: ignore[index]
            seen: list[str] = []
            for second in range(300):
                clock.now = float(second)
                server.behaviour = chaos.healthy if second % 3 else chaos.status(500)
                if second > 250:
                    server.behaviour = chaos.status(500)
                was, asked = breaker.state, searches(server)
                together = await asyncio.gather(*(client.post("/fuse", json=QUESTION) for _ in range(2)))
                assert [reply.status_code for reply in together] == [200, 200]
                assert all(DECIDED in reply.json()["block"] for reply in together)
                seen += [statuses(reply.json())["there"] for reply in together]
                if was == "half_open":
                    # One probe; where it closes the breaker at once, the second request is an ordinary one.
                    assert searches(server) - asked == 1 + (breaker.state == "closed" and seen[-2:] == ["ok", "ok"])
                elif was == "open":
                    assert searches(server) == asked
    assert set(seen) == {"ok", "http_error", "open"}


@pytest.mark.feature("all down: 503 with coverage and Retry-After, at once")
async def test_all_down_is_503_with_coverage(home: Path) -> None:
    """All refuse: a problem with the coverage and a time to come back, without waiting for any deadline."""
    with chaos.refusing() as url:
        settings = settings_of(home, one=remote(url), two=remote(url), three=remote(url))
        async with door(settings) as (_, client):
            replies = [await client.post("/fuse", json=QUESTION) for _ in range(7)]
            ready = await client.get("/readyz")
    for reply in replies:
        assert reply.status_code == 503
        assert reply.headers["content-type"] == "application/problem+json"
        assert int(reply.headers["retry-after"]) >= 1
        assert reply.json()["coverage"] == {"total": 3, "ok": 0, "failed": 3, "skipped": 0, "ratio": 0.0}
    assert set(statuses(replies[0].json()).values()) == {"unreachable"}
    # The last one is asked for ever, so that its return is noticed at once.
    assert sorted(statuses(replies[-1].json()).values()) == ["open", "open", "unreachable"]
    assert ready.status_code == 503
    assert ready.json()["ready"] is False


@pytest.mark.feature("the last backend that answers is never left alone")
async def test_the_last_one_that_answers_is_never_ejected(home: Path) -> None:
    """Two of three are dead, and the third fails ten times: it is asked the eleventh time as well, and answers."""
    async with Chaos([MINE]) as server:
        server.schedule.extend([chaos.status(500)] * 10)
        with chaos.refusing() as url:
            settings = settings_of(home, one=remote(url), two=remote(url), last=remote(server.url))
            async with door(settings) as (gateway, client):
                for name in ("one", "two"):
                    for _ in range(5):
                        permit = gateway.guarded[name].breaker.admit()
                        assert permit is not None
                        permit.failed()
                codes = [(await client.post("/fuse", json=QUESTION)).status_code for _ in range(11)]
    assert codes == [503] * 10 + [200]


SERVER = f"""
import asyncio
from tests.chaos import Chaos

async def main():
    async with Chaos([{MINE!r}]) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@asynccontextmanager
async def process(code: str, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A Python process that runs ``code`` until the end of the block."""
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, *arguments),
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


@pytest.mark.feature("a stopped process (SIGSTOP) whose kernel still accepts connections")
async def test_stopped_process_is_a_timeout(home: Path) -> None:
    """SIGSTOP: its kernel still accepts connections, and no reply comes. Cut at its budget; back with SIGCONT."""
    async with process(SERVER) as server:
        assert server.stdout is not None
        url = (await server.stdout.readline()).decode().strip()
        settings = settings_of(home, here=LOCAL, there=remote(url, deadline_ms=300))
        async with door(settings) as (gateway, client):
            await remember(gateway)
            patient = replace(gateway.guarded["there"], deadline_s=60.0)
            server.send_signal(signal.SIGSTOP)
            stopped = (await client.post("/fuse", json=QUESTION)).json()
            gateway.guarded["there"] = patient  # type: ignore[index]
            server.send_signal(signal.SIGCONT)
            again = (await client.post("/fuse", json=QUESTION)).json()
    assert statuses(stopped) == {"here": "ok", "there": "timeout"}
    assert DECIDED in stopped["block"]
    assert stopped["degraded"]
    assert stopped["coverage"]["ratio"] == 0.5
    assert statuses(again) == {"here": "ok", "there": "ok"}
    assert MINE["text"] in again["block"]


# Too much


ASK_TWICE = """
import asyncio, re, sys
from pathlib import Path
from adapters.http import Http
from adapters.remote import Options, Remote
from fusion.errors import InvalidAnswer
from tests.backend_contract import make_query

def kib(field):
    return int(re.search(field + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

async def main():
    backend = Remote(Http(sys.argv[1], connect_s=60.0), Options(url=sys.argv[1]))
    assert len(await backend.search(make_query("tea"))) == 1  # everything is imported and connected
    before = kib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    try:
        await backend.search(make_query("tea"))
        outcome = "an answer"
    except InvalidAnswer as error:
        outcome = str(error)
    print(kib("VmHWM") - before, outcome)
    await backend.close()

asyncio.run(main())
"""


@pytest.mark.feature("a gigabyte, announced or endless, or a gzip bomb uses less than 16 MiB of memory")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("behaviour", [chaos.flood, chaos.announced_flood, chaos.bomb()])
async def test_huge_body_in_resident_memory(behaviour: Behaviour) -> None:
    """A gigabyte, endless, announced or as a gzip bomb: what the asking process holds grows by less than 16 MiB."""
    async with Chaos([MINE]) as server:
        server.schedule.append(chaos.healthy)
        server.behaviour = behaviour
        async with process(ASK_TWICE, server.url) as asker:
            assert asker.stdout is not None
            grown_kib, _, outcome = (await asker.stdout.readline()).decode().partition(" ")
    assert "longer than 4,194,304 bytes" in outcome
    assert int(grown_kib) < 16 * 1024


class Flood(InMemory):
    """Ten thousand answers of ten thousand words each, hardly different from each other."""

    async def search(self, query: Query) -> Sequence[Hit]:
        words = "bookings database move " * 3_333
        return [Hit(str(n), f"{n} {words}{n}", scope=query.scope) for n in range(10_000)]


@pytest.mark.feature("a flood of near-duplicates of 10,000 words")
async def test_near_duplicate_flood_is_bounded(home: Path) -> None:
    """At most 200 candidates of 4,000 characters are compared, and the flood displaces no other memory of the block."""
    settings = settings_of(home, here=LOCAL, flood=f"{__name__}:Flood")
    async with door(settings) as (gateway, client):
        await remember(gateway)
        fused = (await client.post("/fuse", json={**QUESTION, "explain": True})).json()
    [flood] = [row for row in fused["backends"] if row["name"] == "flood"]
    assert flood["count"] <= 200  # the recipe's max_depth
    assert flood["dropped"] == {"over_limit": 10_000 - flood["count"], "cut_text": flood["count"]}
    assert len(fused["explain"]["candidates"]) <= 200
    assert all(len(member["text"]) <= TEXT_CHARS for memory in fused["memories"] for member in memory["members"])
    assert DECIDED in fused["block"]
    assert len(fused["block"]) <= 6000


@pytest.mark.feature("invalid UTF-8, surrogates, NUL, bidi, tags: the whole reply is cleaned")
@pytest.mark.feature("invisible characters in a block (S2)", part="secrets")
async def test_invisible_characters_are_removed_and_counted(home: Path) -> None:
    """S2: bidi, zero-width, tag and control characters and broken UTF-8 from a backend; the reply is valid UTF-8."""
    text = b"The bookings\xe2\x80\xae database\xe2\x80\x8b moves\xff\\u0000 to Lyon\\ud800" + "\U000e0049".encode()
    body = b'{"hits": [{"native_id": "1", "user_id": "nadia", "speaker": "A\xe2\x80\xaeda", "text": "' + text + b'"}]}'
    async with (
        Chaos(behaviour=chaos.body(body)) as server,
        door(settings_of(home, there=remote(server.url))) as (_, client),
    ):
        reply = await client.post("/fuse", json=QUESTION)
    said = reply.content.decode("utf-8")
    assert "Ada: The bookings database moves\ufffd to Lyon\ufffd" in reply.json()["block"]
    assert not set("\u202e\u200b\x00\U000e0049") & set(said)
    assert reply.json()["backends"][0]["dropped"] == {"invisible": 6}  # with the speaker's
