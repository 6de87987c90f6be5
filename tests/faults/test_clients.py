"""The fault matrix of clients over a whole home: disconnects, and what is never logged."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from fusion.lib.breaker import FAILURES
from fusion.settings import KeySettings
from tests import chaos
from tests.chaos import Chaos
from tests.doors.fakes import until
from tests.faults.home import door, logged, remote, settings_of, statuses

MINE = {"native_id": "mine", "text": "The bookings database moves to a cluster in Lyon", "user_id": "nadia"}
QUESTION = {"query": "where does the bookings database move?", "user_id": "nadia", "timeout_ms": 60_000}


@pytest.mark.feature("a client that disconnects does not count against a backend")
@pytest.mark.feature("a client that disconnects: its searches are cancelled, and no breaker counts it")
async def test_a_client_that_disconnects_does_not_count_against_a_backend(home: Path) -> None:
    """More clients leave in the middle of a search than failures open a breaker: each search is cancelled, the
    backend stays trusted, and who comes next is answered."""
    async with (
        Chaos([MINE], chaos.hang) as server,
        door(settings_of(home, there=remote(server.url))) as (gateway, client),
    ):
        for _ in range(FAILURES + 1):
            async with httpx.AsyncClient(base_url=client.base_url) as leaving:
                server.called.clear()
                question = asyncio.create_task(leaving.post("/fuse", json=QUESTION))
                called = asyncio.create_task(server.called.wait())
                await asyncio.wait({question, called}, return_when=asyncio.FIRST_COMPLETED)
                assert called.done()  # the backend is asked, each time anew
                question.cancel()
                await asyncio.wait([question])
        await until(lambda: gateway.guarded["there"].bulkhead.under_way == 0)
        assert gateway.guarded["there"].breaker.healthy
        server.behaviour = chaos.healthy
        assert statuses((await client.post("/fuse", json=QUESTION)).json()) == {"there": "ok"}


@pytest.mark.feature("no keys and no texts are logged, at any level")
async def test_neither_keys_nor_texts_are_logged(home: Path) -> None:
    """Right keys and wrong ones, what is remembered, asked and refused: none of it in a log, at any level."""
    settings = settings_of(home, here="adapters.inmemory:InMemory")
    digest = sha256(b"canary-key").hexdigest()
    keys = (KeySettings(name="ours", sha256=digest, tenant="acme"),)
    settings = settings.model_copy(update={"server": settings.server.model_copy(update={"keys": keys})})
    with logged() as lines:
        async with door(settings) as (gateway, client):
            statuses_seen = []
            for key in ("canary-key", "canary-wrong"):
                client.headers["authorization"] = f"Bearer {key}"
                for path, body in (
                    ("/v1/memories", {"text": "canary text", "user_id": "canary-user"}),
                    ("/v1/memories", {"text": "canary text", "kind": "canary-kind"}),
                    ("/fuse", {"query": "canary question", "recipe": "canary-recipe"}),
                    ("/fuse", {"query": "canary question"}),
                    ("/v1/search", {"backend": "here", "query": "canary question"}),
                ):
                    response = await client.post(path, json=body, headers={"idempotency-key": "canary-idem"})
                    statuses_seen.append(response.status_code)
                await client.get("/v1/memories/canary-ref", params={"user_id": "canary-user"})
            await gateway.settle()
    assert statuses_seen == [201, 422, 422, 200, 200] + [401] * 5
    assert lines
    ours = [
        line for line in lines if line.split()[1].partition(".")[0] not in ("httpx:", "httpcore")
    ]  # the asking side
    assert [line for line in ours if "canary" in line] == []
