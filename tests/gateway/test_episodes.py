"""Episodes, from the doors to the answers: what happened when, and with whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from fusion.client import AsyncClient
from fusion.contract import Moment, Scope
from fusion.doors.mcp.server import tools_server
from fusion.doors.mcp.tools import Caller
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.recall.engine import FuseRequest, fuse
from fusion.recall.recording import Recorder, Replay
from tests.doors.contract import Checked
from tests.doors.fakes import app_over
from tests.gateway.helpers import NADIA, embedded, small

TRIP = "A trip to Lisbon, with rain on both evenings"
OTHERS = ("The bookings database moved to Postgres", "Invoices go out on the first of the month", "Tea, never coffee")


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with Gateway.open(small(tmp_path / "home")) as gateway:
        yield gateway


def day(*date: int) -> Moment:
    return Moment(datetime(date[0], date[1], date[2], tzinfo=UTC), "day")


def lasting(*begin: int, until: tuple[int, int, int]) -> Moment:
    """From the beginning of the one day to the end of the other."""
    return replace(day(*begin), until=datetime(*until, tzinfo=UTC) + timedelta(days=1))


def episode(text: str, at: Moment | None, *entities: str, **more: Any) -> NewMemory:
    stated = tuple(("entity", name) for name in entities)
    return NewMemory(text, **{"scope": NADIA, "kind": "episode", "at": at, "stated": stated, **more})


async def answer(gateway: Gateway, query: str, **more: Any) -> str:
    await gateway.settle()
    return (await gateway.fuse(query, scope=NADIA, **more)).block


@pytest.mark.row("A039", "an episode is stated over HTTP, and found by a question that names its time")
async def test_question_about_a_month_finds_the_episode_that_overlaps_it(gateway: Gateway) -> None:
    """From 28 February to 3 March is in both months. Its text shares no word with the question."""
    async with AsyncClient.over(Checked(app_over(gateway))) as client:  # type: ignore[arg-type]  # a gateway, not a fake
        await client.remember([{"text": text, "user_id": "nadia"} for text in OTHERS])
        given = {"at": "2026-02-28", "until": "2026-03-03", "entities": ["Ana", "Bob"], "user_id": "nadia"}
        kept = await client.remember({"text": TRIP, "kind": "episode", **given})
        await gateway.settle()
        ref = kept["memories"][0]["ref"]
        shown = await client.memory(ref, user_id="nadia")
        assert (shown["at"], shown["until"]) == ("2026-02-28T00:00:00Z", "2026-03-04T00:00:00Z")
        assert (shown["kind"], shown["entities"]) == ("episode", ["Ana", "Bob"])
        for asked in ("What happened in March 2026?", "what happened in February 2026?", "2026-03-03?"):
            fused = await client.fuse(asked, user_id="nadia", explain=True)
            assert [m["ref"] for m in fused["memories"]] == [ref], asked
            assert fused["explain"] is not None
            [row] = [row for row in fused["explain"]["candidates"] if row["ref"] == ref]
            assert row["signals"]["episode"] == 1
        for asked in ("What happened in April 2026?", "what happened in March 2025?", "2026-03-04?"):
            assert TRIP not in (await client.fuse(asked, user_id="nadia"))["block"], asked
        assert not (await client.fuse("What happened in March 2026?", user_id="omar"))["block"]


@pytest.mark.row("A039", "a question that names a person finds the episodes with that person, by the graph")
async def test_question_that_names_a_person_finds_the_episode_through_its_entities(tmp_path: Path) -> None:
    """The name is in no text: it is an entity of the episode, in the graph of the cortex and of the triples."""
    async with Gateway.open(embedded(tmp_path / "home")) as gateway:
        items = [NewMemory(text, scope=NADIA) for text in OTHERS]
        await gateway.remember([*items, episode(TRIP, lasting(2026, 2, 28, until=(2026, 3, 3)), "Anahita Rahimi")])
        for name in ("cortex", "triples"):
            assert TRIP in await answer(gateway, "What did I do with Anahita Rahimi?", backends=(name,)), name


@pytest.mark.row("A039", "an episode is stated with `memory_store`, and shown by `memory_get`")
async def test_episode_of_an_mcp_client_is_found_by_its_time(gateway: Gateway) -> None:
    client = AsyncClient.over(Checked(app_over(gateway)))  # type: ignore[arg-type]

    async def caller_of(context: Any) -> Caller:
        return Caller(client, {"user_id": "nadia"})

    async with client, Client(tools_server(caller_of)) as tools:
        given = {"at": "2026-02-28", "until": "2026-03-03", "entities": ["Ana"]}
        kept = await tools.call_tool("memory_store", {"text": TRIP, "kind": "episode", **given})
        assert kept.structured_content is not None
        await gateway.settle()
        read = await tools.call_tool("memory_get", {"ref": kept.structured_content["ref"]})
        assert "episode, 2026-02-28T00:00:00Z to 2026-03-04T00:00:00Z, with Ana" in str(read.content)
        found = await tools.call_tool("memory_fuse", {"query": "what happened in March 2026?"})
        assert TRIP in str(found.content)


async def test_question_of_a_time_alone_finds_every_memory_of_that_time(gateway: Gateway) -> None:
    """Turns and notes count by their own time. A question that says more is not answered with all of them."""
    then = datetime.now(UTC) - timedelta(days=1)
    notes = [NewMemory(text, scope=NADIA, at=Moment(then)) for text in OTHERS[:2]]
    await gateway.remember([*notes, NewMemory(OTHERS[2], scope=NADIA, at=Moment(then - timedelta(days=5)))])
    block = await answer(gateway, "what happened yesterday?")
    assert (OTHERS[0] in block, OTHERS[1] in block, OTHERS[2] in block) == (True, True, False)
    assert OTHERS[0] not in await answer(gateway, "which boat did we paint yesterday?")


async def test_episode_without_a_time_happened_when_it_was_recorded(gateway: Gateway) -> None:
    await gateway.remember([episode(TRIP, None)])
    assert TRIP in await answer(gateway, "what happened today?")
    assert TRIP not in await answer(gateway, "what happened yesterday?")


async def test_episodes_of_a_time_obey_the_filter(gateway: Gateway) -> None:
    """Forgotten, replaced and private ones are not shown; what was true at a time is."""
    at = day(2026, 3, 2)
    kept = await gateway.remember(
        [
            episode("The picnic at the quarry", at),
            episode("The regatta on the fjord", at),
            episode("The quiet evening", at, scope=Scope(user_id="nadia", audience="private")),
        ]
    )
    await gateway.remember([episode("The regatta was called off", at, supersedes=kept[1].ref)])
    await gateway.forget(kept[0].ref, NADIA)
    block = await answer(gateway, "what happened in March 2026?")
    assert [t in block for t in ("picnic", "on the fjord", "called off", "quiet")] == [False, False, True, True]
    group = await gateway.fuse("what happened in March 2026?", scope=Scope(user_id="nadia"))
    assert "quiet" not in group.block


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"until": "2026-03-03"}, "until needs at"),
        ({"at": "2026-03-02", "until": "2026-03-01"}, "until is before at"),
        ({"at": {"utc": "2026-03-03", "until": "2026-03-01"}}, "until is before utc"),
        ({"at": {"utc": "2026-03-03", "until": "2026-03-04"}, "until": "2026-03-05"}, "until is given twice"),
        ({"at": "2026-03-03", "until": "soon"}, "is no time"),
        ({"entities": ["Ana\nBob"]}, "line break"),
        ({"entities": [""]}, "is empty"),
        ({"entities": ["x"] * 33}, "at most 32"),
        ({"entities": ["sk-ant-api03-" + "x1Y2" * 20]}, "secret"),
    ],
)
async def test_invalid_episodes_are_refused_with_the_fix(gateway: Gateway, given: dict[str, Any], why: str) -> None:
    async with AsyncClient.over(Checked(app_over(gateway))) as client:  # type: ignore[arg-type]
        with pytest.raises(Exception, match=why):
            await client.remember({"text": TRIP, "kind": "episode", **given})


async def test_recording_of_a_question_about_a_time_replays_the_same_block(gateway: Gateway) -> None:
    """Also by a recipe that looks no episodes up, which then shows none."""
    await gateway.remember([episode(TRIP, day(2026, 3, 2)), *(NewMemory(text, scope=NADIA) for text in OTHERS)])
    await gateway.settle()
    recipe = gateway.recipes["default"]
    recorder = Recorder.of(gateway.live)
    request = FuseRequest("what happened in March 2026?", NADIA)
    live = await fuse(request, recipe, recorder)
    assert TRIP in live.fused.block
    assert (await fuse(request, recipe, Replay(recorder.recording))).fused.block == live.fused.block
    without = replace(recipe, rerank=replace(recipe.rerank, episode_boost=0.0))
    assert TRIP not in (await fuse(request, without, Replay(recorder.recording))).fused.block
