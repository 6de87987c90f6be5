"""Memory Cortex's routes over a whole gateway: a client that was written for it works unchanged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fusion.contract import Asker, Scope
from fusion.doors.cli import render
from fusion.doors.http.app import create_app
from fusion.doors.http.openapi import examples
from fusion.errors import Overloaded, StoreBusy, StoreFull
from fusion.gateway.gateway import Gateway
from fusion.lib.listing import SUMMARY
from fusion.recall.engine import FuseRequest
from fusion.settings import MemoryCortexSettings
from tests.doors.contract import Checked
from tests.doors.fakes import FakeFusion, app_over
from tests.gateway.helpers import small

MILL, NOTED = "The mill at the harbour is closed in March.", "I have noted that about the mill."
ANA = Scope(user_id="ana", audience="private")


def talk(*texts: str) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]


def history(*texts: str, **fields: object) -> dict[str, Any]:
    """A call of seed 002's client."""
    base = {"session_id": "agent:main:telegram:7", "channel": "telegram", "user_id": "ana", "debounce": True}
    return {"messages": talk(*texts), **base, **fields}


@pytest.fixture
async def gateway(home: Path) -> AsyncIterator[Gateway]:
    async with Gateway.open(small(home)) as opened:
        yield opened


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    transport = Checked(create_app(gateway, gateway.settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as opened:
        yield opened


async def texts(gateway: Gateway, scope: Scope = ANA, tenant: str = "default") -> list[str]:
    await gateway.settle(tenant)
    return sorted(one["text"] for one in (await gateway.memories(scope))["memories"])


@pytest.mark.row("A091", "`POST /ingest` keeps the whole history at once, and the session's turns come back by /fuse")
async def test_ingest_keeps_a_session_and_fuse_finds_it(client: httpx.AsyncClient, gateway: Gateway) -> None:
    reply = await client.post("/ingest", json=history(MILL, NOTED))
    assert reply.status_code == 202
    assert reply.json()["status"] == "accepted"
    assert reply.json()["due_at"]
    assert (await gateway.status())["histories"] == {"waiting": 1, "fault": ""}
    await client.post("/ingest", json=history(MILL, NOTED, debounce=False))
    assert await texts(gateway) == [NOTED, MILL]
    found = await client.post("/fuse", json={"query": "when is the mill closed?", "user_id": "ana"})
    assert MILL in found.json()["block"]
    (one, _) = (await gateway.memories(ANA))["memories"]
    assert (one["source"], one["document"]) == (
        "memory-cortex:agent:main:telegram:7",
        "memory-cortex/agent:main:telegram:7",
    )


# What waits for a session's next question ----------------------------------------------------------------------------

WHEN, WHEN_TOO = "When is the mill at the harbour closed?", "when is the mill at the harbour closed"
"""two questions in the same words"""


class Seconds:
    """A clock that a test advances."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def turn(client: httpx.AsyncClient, asked: str, *said: str) -> dict[str, Any]:
    """A turn of a host: auto-recall before the prompt, the whole history after the reply; the answer to the first."""
    asker = {"agent_id": "main", "session_id": "agent:main:telegram:7"}
    question = {"query": asked, "user_id": "ana", "recipe": "seed002", "timeout_ms": 60_000, "asker": asker}
    answer = await client.post("/v1/fuse", json=question)
    assert answer.status_code == 200, answer.text
    await client.post("/v1/settle", json={"timeout_s": 60})
    reply = await client.post("/ingest", json=history(*said, asked, "It is closed in March.", debounce=False))
    assert reply.json()["status"] == "accepted"
    await client.post("/v1/settle", json={"timeout_s": 60})
    return dict(answer.json())


@pytest.mark.row("A026", "A098", "after a history the session's next answer is prepared, over HTTP")
@pytest.mark.parametrize(
    ("asked", "later", "is_prepared", "has_synthesis"),
    [
        (WHEN_TOO, 0, True, True),
        ("and since when has it been closed?", 0, False, True),
        ("who repairs bicycles on Sundays?", 0, False, False),
        (WHEN_TOO, 301, False, False),
    ],
    ids=["the same", "follow-up", "another topic", "after five minutes"],
)
async def test_ingest_prepares_the_next_answer_of_its_session(
    client: httpx.AsyncClient, gateway: Gateway, asked: str, later: float, is_prepared: bool, has_synthesis: bool
) -> None:
    """And the synthesis of the turn before is above it, for a question about the same within five minutes."""
    clock = gateway.prepared.clock = gateway.syntheses.clock = Seconds()
    await client.post("/ingest", json=history(MILL, NOTED, debounce=False, session_id="agent:main:telegram:1"))
    await client.post("/v1/settle", json={"timeout_s": 60})
    first = await turn(client, WHEN)
    assert (MILL in first["block"], SUMMARY in first["block"], first["prepared"]) == (True, False, False)
    clock.now += later
    second = await turn(client, asked, WHEN, "It is closed in March.")
    assert (second["prepared"], SUMMARY in second["block"]) == (is_prepared, has_synthesis)
    assert (MILL in second["block"]) is (asked != "who repairs bicycles on Sundays?")


async def test_ingest_prepares_nothing_for_another_session_or_user(client: httpx.AsyncClient, gateway: Gateway) -> None:
    await client.post("/ingest", json=history(MILL, NOTED, debounce=False, session_id="agent:main:telegram:1"))
    asker = {"agent_id": "main", "session_id": "agent:main:telegram:7"}
    question = {"query": WHEN, "user_id": "ana", "timeout_ms": 60_000, "asker": asker}
    await client.post("/v1/fuse", json=question)
    for fields in ({"session_id": "agent:main:telegram:8"}, {"user_id": "omar"}):
        await client.post("/ingest", json=history(NOTED, debounce=False, **fields))
        await client.post("/v1/settle", json={"timeout_s": 60})
    assert not (await client.post("/v1/fuse", json=question)).json()["prepared"]


async def test_history_that_is_taken_in_at_closing_prepares_nothing(home: Path) -> None:
    """The session asked, and its history still waits when the home is closed."""
    scope = Scope(user_id="ana", agent_id="main", session_id="s")
    async with Gateway.open(small(home)) as gateway:
        await gateway.fuse(FuseRequest(WHEN, ANA, asker=Asker("main", "s"), timeout_ms=60_000))
        await gateway.ingest_history(scope, json.dumps({"messages": talk(MILL)}).encode())
        prepared = gateway.prepared
    assert prepared._worker is None
    async with Gateway.open(small(home)) as gateway:
        assert await texts(gateway) == [MILL]


async def test_ingest_takes_longer_bodies_than_other_routes(client: httpx.AsyncClient, gateway: Gateway) -> None:
    """Up to its own limit, which the refusal names."""
    long = history(*(f"{n}: {MILL * 10}" for n in range(2_000)), debounce=False)
    assert len(json.dumps(long)) > gateway.settings.server.max_body_bytes
    assert (await client.post("/ingest", json=long)).status_code == 202
    refused = await client.post("/ingest", content=b"x" * 17_000_000, headers={"content-type": "application/json"})
    assert refused.status_code == 413
    assert "16000000 bytes" in refused.json()["detail"]
    assert (await client.post("/fuse", json={"query": "x" * 300_000})).status_code == 413


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"messages": []}, "session_id: is missing"),
        ({"session_id": "s"}, "messages: is missing"),
        ({"messages": "all", "session_id": "s"}, "messages: Input should be a valid list"),
        ({"messages": [], "session_id": ""}, "session_id: is empty"),
        ({"messages": [], "session_id": "s\nt"}, "session_id: has a line break"),
        ({"messages": [0] * 50_001, "session_id": "s"}, "messages: "),
        ({"messages": [], "session_id": "sk-ant-api03-" + "a1B2" * 24}, "secret"),
    ],
)
async def test_ingest_refuses_what_it_could_not_take_in(
    client: httpx.AsyncClient, gateway: Gateway, body: dict[str, Any], detail: str
) -> None:
    """With 422 and the field, and nothing waits."""
    reply = await client.post("/ingest", json=body)
    assert (reply.status_code, detail in reply.json()["detail"]) == (422, True), reply.json()
    assert (await gateway.status())["histories"]["waiting"] == 0


async def test_fields_that_are_not_known_are_ignored(client: httpx.AsyncClient) -> None:
    """As Memory Cortex ignores them; a wrong value of a known field is an error."""
    assert (await client.post("/ingest", json=history(MILL, mode="full"))).status_code == 202
    for path in ("/hybrid-search", "/recall"):
        asked = {"query": WHEN, "user_id": "ana", "model": "qwen3-8b"}
        assert (await client.post(path, json=asked)).status_code == 200
        assert (await client.post(path, json={**asked, "user_id": 7})).status_code == 422


async def test_ingest_skips_sessions_of_programs(client: httpx.AsyncClient, gateway: Gateway) -> None:
    for fields in ({"channel": "heartbeat"}, {"session_id": "agent:main:cron:nightly"}):
        reply = await client.post("/ingest", json=history(MILL, **fields))
        assert (reply.status_code, reply.json()["status"]) == (202, "skipped")
    assert (await gateway.status())["histories"]["waiting"] == 0


@pytest.mark.row("A099", "enabled and autoIngest: with either off, histories are skipped")
@pytest.mark.parametrize("switch", ["enabled", "auto_ingest"])
async def test_ingest_that_is_switched_off_skips(home: Path, switch: str) -> None:
    settings = small(home).model_copy(update={"memory_cortex": MemoryCortexSettings(**{switch: False})})
    async with Gateway.open(settings) as gateway:
        kept = await gateway.ingest_history(Scope(session_id="s"), json.dumps(history(MILL)).encode())
        assert kept["status"] == "skipped"
        assert (await gateway.status())["histories"]["waiting"] == 0


async def test_ingest_of_one_tenant_is_not_read_by_another(home: Path) -> None:
    """The same user and session of two tenants; a tenant's waiting history is taken in when it is closed."""
    body = json.dumps({"messages": talk(MILL)}).encode()
    async with Gateway.open(small(home)) as gateway:
        for tenant in ("acme", "globex"):
            scope = Scope(tenant, "ana", session_id="s", audience="group")
            await gateway.ingest_history(scope, body.replace(b"mill", tenant.encode()))
    async with Gateway.open(small(home)) as gateway:
        for tenant in ("acme", "globex"):
            assert await texts(gateway, Scope(tenant, "ana", audience="private"), tenant) == [
                MILL.replace("mill", tenant)
            ]
        assert await texts(gateway) == []


@pytest.mark.parametrize(
    ("error", "status"),
    [(StoreFull("no space left"), 507), (StoreBusy("in a moment"), 503), (Overloaded("later"), 503)],
)
async def test_ingest_that_cannot_be_kept_is_not_acknowledged(error: Exception, status: int) -> None:
    """A full disk is 507, a locked database and too many waiting histories 503; each says so in words."""
    transport = Checked(app_over(FakeFusion(error=error)))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        reply = await client.post("/ingest", json=history(MILL))
    assert (reply.status_code, reply.json()["detail"]) == (status, str(error))


def test_status_shows_how_many_histories_wait(capsys: pytest.CaptureFixture[str]) -> None:
    found: Any = {**examples()["status"]["reply"], "histories": {"waiting": 2, "fault": "no space left"}}
    render.home.status(found, Path("/home/ana/.fusion"), None)
    assert "histories2 wait to be taken in; the last try failed: no space left" in capsys.readouterr().out
