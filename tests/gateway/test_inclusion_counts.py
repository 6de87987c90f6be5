"""How often a memory was part of a block: counted durably, longer than receipts are kept."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from fusion.doors.cli import render
from fusion.doors.http.encode import encode
from fusion.gateway.gateway import Gateway
from fusion.journal import use
from fusion.recall.engine import FuseRequest
from tests.gateway.helpers import ASKED, DECIDED, NADIA, remember, small


@pytest.mark.feature("how often a memory was part of a block, and when last, outlives the receipts")
async def test_get_shows_how_often_a_memory_was_included(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At once, also after a start without the receipts; a measurement and a memory that was left out do not count."""
    async with Gateway.open(small(home)) as gateway:
        [used] = await remember(gateway, DECIDED)
        [other] = await remember(gateway, "Omar keeps bees")
        request = FuseRequest(ASKED, NADIA, timeout_ms=60_000, max_items=1)
        for _ in range(2):
            assert DECIDED in (await gateway.fuse(request)).block
        await gateway.record(request)
        assert (await gateway.memory(used, NADIA))["included"] == 2
        never = await gateway.memory(other, NADIA)
        assert (never["included"], never["last_included_at"]) == (0, None)
    for file in home.glob("receipts.sqlite*"):
        file.unlink()
    async with Gateway.open(small(home)) as gateway:
        await gateway.settle()
        await gateway.fuse(request)
        found = orjson.loads(encode(await gateway.memory(used, NADIA)))
        assert found["included"] == 3
        render.memory(found)
        assert f"included  in 3 blocks, the last time {found['last_included_at']}" in capsys.readouterr().out
        render.memory(orjson.loads(encode(never)))
        assert "included" not in capsys.readouterr().out


@pytest.mark.row("A130", "retrieval is counted apart from inclusion: `last_retrieved_at`, and `last_included_at`")
async def test_retrieved_and_included_are_two_things(home: Path) -> None:
    """What was found and not shown is retrieved; what a listing, the daily logs or a measurement show is neither."""
    async with Gateway.open(small(home)) as gateway:
        [used, left] = await remember(gateway, DECIDED, "The bookings desk moved to the second floor")
        request = FuseRequest(ASKED, NADIA, timeout_ms=60_000, max_items=1)
        assert DECIDED in (await gateway.fuse(request)).block
        one, other = [await gateway.memory(ref, NADIA) for ref in (used, left)]
        assert (one["retrieved"], one["included"]) == (1, 1)
        assert one["last_retrieved_at"] == one["last_included_at"]
        assert (other["retrieved"], other["included"], other["last_included_at"]) == (1, 0, None)
    async with Gateway.open(small(home)) as gateway:
        assert (await gateway.memory(left, NADIA))["retrieved"] == 1, "it is on the disk"
        await gateway.memories(NADIA)
        await gateway.daily_logs(NADIA)
        await gateway.record(request)
        assert (await gateway.memory(left, NADIA))["retrieved"] == 1, "nothing of that is a retrieval"
        assert (await gateway.memory(used, NADIA))["included"] == 1


@pytest.mark.row("A130", "forgetting a memory removes both counts")
async def test_forgetting_removes_the_counts(home: Path) -> None:
    async with Gateway.open(small(home)) as gateway:
        [used] = await remember(gateway, DECIDED)
        await gateway.fuse(FuseRequest(ASKED, NADIA, timeout_ms=60_000))
        event_id = (await gateway.memory(used, NADIA))["event_id"]
        await gateway.use.flush()
        await gateway.forget(used, NADIA)
        assert await gateway.journal.read(use.written, event_id) == (None, None)
