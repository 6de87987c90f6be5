"""What was remembered, replaced in other words and remembered again: by the gateway with all embedded stores."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import orjson
import pytest

from benchmarks.fill_stores import BACKENDS, open_home, wait_until_stored
from fusion import Gateway
from fusion.contract import Scope
from fusion.doors.cli import render
from fusion.doors.http.encode import encode
from fusion.ingest.intake import Acknowledged, NewMemory
from fusion.recall.engine import FuseRequest

ADA = Scope(user_id="ada", audience="private")
OSLO, BERGEN = "Ada's main office is in Oslo.", "Ada's main office is in Bergen."


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with open_home(tmp_path / "home", BACKENDS) as gateway:
        yield gateway


async def remember(gateway: Gateway, *texts: str) -> list[Acknowledged]:
    """One after the other, each in every store."""
    kept = []
    for text in texts:
        kept += await gateway.remember([NewMemory(text, Scope(user_id="ada"), kind="fact")])
        await wait_until_stored(gateway)
    return kept


async def block(gateway: Gateway, **more: object) -> str:
    asked = FuseRequest("Where is Ada's main office?", ADA, timeout_ms=60_000, **more)  # type: ignore[arg-type]
    return (await gateway.fuse(asked)).block


@pytest.mark.feature("a statement that was made, replaced and made again is shown as the newer one")
async def test_repeated_statement_is_newer_than_its_contradiction(gateway: Gateway) -> None:
    """Oslo, Bergen, Oslo: one memory of Oslo, which is current."""
    first, bergen, again = await remember(gateway, OSLO, BERGEN, OSLO)
    assert (again.ref, again.status, again.said) == (first.ref, "duplicate", 2)
    shown = await block(gateway)
    assert OSLO in shown
    assert BERGEN in shown
    assert f"disagree: {first.ref} is newer" in shown
    assert f"{bergen.ref} is newer" not in shown


async def test_contradiction_repeated_later_is_newer_again(gateway: Gateway) -> None:
    _, bergen, _, _ = await remember(gateway, OSLO, BERGEN, OSLO, BERGEN)
    assert f"disagree: {bergen.ref} is newer" in await block(gateway)


async def test_repetition_after_the_asked_time_is_ignored(gateway: Gateway) -> None:
    """As of a moment between Bergen and the second Oslo, Bergen was the newer one; the first date of Oslo is kept."""
    first, bergen, _ = await remember(gateway, OSLO, BERGEN, OSLO)
    known = await gateway.memory(bergen.ref, ADA)
    between = known["recorded_at"] + timedelta(microseconds=1)
    assert (await gateway.memory(first.ref, ADA))["recorded_at"] < known["recorded_at"]
    assert f"disagree: {bergen.ref} is newer" in await block(gateway, as_of=between)
    assert f"disagree: {bergen.ref} is newer" in await block(gateway, known_at=between)


async def test_get_shows_first_and_last_time_of_a_repeated_statement(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """`fusion get` prints when a memory was recorded, and how often and when it was said since."""
    first, _, _ = await remember(gateway, OSLO, BERGEN, OSLO)
    found = orjson.loads(encode(await gateway.memory(first.ref, ADA)))
    assert found["recorded_at"] < found["said_at"]
    render.memory(found)
    printed = capsys.readouterr().out
    assert found["recorded_at"] in printed
    assert f"2 times, the last time {found['said_at']}" in printed
    [other] = await remember(gateway, "Ada's dog is called Bo.")
    assert (await gateway.memory(other.ref, ADA))["said_at"] is None


async def test_copy_by_an_agent_makes_a_memory_newer(gateway: Gateway) -> None:
    """The user said it first, and the agent after its rival: two events, shown as one memory."""
    await remember(gateway, OSLO)
    [bergen] = await remember(gateway, BERGEN)
    [copy] = await gateway.remember([NewMemory(OSLO, Scope(user_id="ada"), kind="fact", origin="agent")])
    await wait_until_stored(gateway)
    assert copy.status == "stored"
    shown = await block(gateway)
    assert shown.count(OSLO) == 1
    assert "disagree: " in shown
    assert f"disagree: {bergen.ref} is newer" not in shown
