"""Progressive recall over a whole gateway: an index of hits, what stands around one, and full texts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from fusion.contract import Place, Scope
from fusion.errors import BadInput
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.gateway.progressive import IndexRequest, RecordsRequest, TimelineRequest
from fusion.ingest.intake import NewMemory
from fusion.lib.budget import estimate_tokens
from fusion.lib.moment import moment
from tests.gateway.helpers import DECIDED, NADIA, OMAR, remember, small

TALK = ("The bees are loud.", DECIDED, "The replica stays in Bergen.", "Tea is at four.", "The boats are in.")


@pytest.fixture
async def gateway(home: Path) -> AsyncIterator[Gateway]:
    async with Gateway.open(small(home)) as opened:
        yield opened


async def talk(gateway: Gateway, scope: Scope = NADIA) -> list[str]:
    """The refs of the turns of one talk."""
    turns = [
        NewMemory(text, scope=scope, kind="turn", source=f"talk:{n}", place=Place("standup", n, n, "turn"))
        for n, text in enumerate(TALK, start=1)
    ]
    kept = await gateway.remember(turns)
    await gateway.settle()
    return [one.ref for one in kept]


@pytest.mark.row("A125", "the index lists hits one line each, with what each and the timeline of the best would cost")
async def test_an_index_lists_hits_and_what_the_next_step_costs(gateway: Gateway) -> None:
    refs = await talk(gateway)
    found = await gateway.index(IndexRequest("where does the bookings database move?", NADIA))
    best = found["hits"][0]
    assert (best["ref"], best["recordRef"], best["line"]) == (refs[1], f"obs:{refs[1]}", DECIDED)
    assert best["tokens"] == estimate_tokens(DECIDED)
    assert found["next"] is not None
    assert (found["next"]["step"], found["next"]["refs"]) == ("timeline", [refs[1]])
    around = await gateway.timeline(TimelineRequest((refs[1],), NADIA))
    assert found["next"]["tokens"] == around["tokens"]
    assert around["next"] is not None
    every = await gateway.records(RecordsRequest(tuple(around["next"]["refs"]), NADIA))
    assert around["next"]["tokens"] == every["tokens"]


@pytest.mark.row("A129", "a list of hits is no use of them: only what is in a block or a pack was included")
async def test_an_index_is_no_use(gateway: Gateway) -> None:
    (ref,) = await remember(gateway, DECIDED)
    found = await gateway.index(IndexRequest("bookings database", NADIA))
    assert [hit["ref"] for hit in found["hits"]] == [ref]
    assert (await gateway.memory(ref, NADIA))["included"] == 0
    receipt = await gateway.receipt(found["receipt_id"])
    assert [row["decision"] for row in receipt["candidates"]] == ["listed"]


async def test_an_index_stays_within_its_limits(gateway: Gateway) -> None:
    await remember(gateway, *(f"The bookings database has table number {n} for berth {n}." for n in range(30)))
    asked = IndexRequest("bookings database table", NADIA, limit=20, budget_tokens=100)
    found = await gateway.index(asked)
    assert 0 < found["tokens"] <= 100
    assert found["left_out"] > 0
    assert len((await gateway.index(replace(asked, budget_tokens=9_000)))["hits"]) == 20
    assert len((await gateway.index(replace(asked, budget_tokens=1)))["hits"]) == 1


@pytest.mark.row("A125", "the timeline shows what stands around a memory in its document, in reading order")
async def test_a_timeline_shows_the_document_around_a_memory(gateway: Gateway) -> None:
    refs = await talk(gateway)
    shown = await gateway.timeline(TimelineRequest((f"[obs:{refs[2].upper()}]",), NADIA, before=1, after=1))
    assert [row["ref"] for row in shown["entries"]] == refs[1:4]
    assert [row["anchor"] for row in shown["entries"]] == [False, True, False]
    assert {row["by"] for row in shown["entries"]} == {"document"}
    alone = await gateway.timeline(TimelineRequest((refs[2],), NADIA, before=0, after=0))
    assert [row["ref"] for row in alone["entries"]] == [refs[2]]
    small_window = await gateway.timeline(TimelineRequest((refs[2],), NADIA, budget_tokens=30))
    assert refs[2] in [row["ref"] for row in small_window["entries"]]
    assert small_window["left_out"] == len(refs) - len(small_window["entries"]) > 0


@pytest.mark.row(
    "A125", "the timeline of a memory without a document has what happened, or was recorded, before and after it"
)
async def test_a_timeline_without_a_document_goes_by_time(gateway: Gateway) -> None:
    days = ["2026-03-05", "2026-03-01", "2026-03-03"]
    dated = [NewMemory(f"The crew counted {n} boats.", scope=NADIA, at=moment(day)) for n, day in enumerate(days)]
    kept = [one.ref for one in await gateway.remember(dated)]
    undated = await remember(gateway, "Rope is in the shed.", "Paint is in the attic.", "Tar is on the quay.")
    await remember(gateway, "Omar has a boat.", scope=OMAR)
    by_day = await gateway.timeline(TimelineRequest((kept[2],), NADIA))
    assert [row["ref"] for row in by_day["entries"]] == [kept[1], kept[2], kept[0]]
    by_number = await gateway.timeline(TimelineRequest((undated[1],), NADIA, before=1, after=5))
    assert [row["ref"] for row in by_number["entries"]] == undated
    assert {row["by"] for row in by_number["entries"]} == {"time"}


async def test_a_timeline_hides_what_no_answer_may_show(gateway: Gateway) -> None:
    refs = await talk(gateway)
    await gateway.set_state(StateRequest(refs[1], NADIA, trust="quarantined"))
    await gateway.set_state(StateRequest(refs[3], NADIA, archived=True))
    await gateway.forget(refs[0], NADIA)
    shown = await gateway.timeline(TimelineRequest((refs[2], refs[0], "m7zzz"), NADIA))
    assert [row["ref"] for row in shown["entries"]] == [refs[2], refs[4]]
    assert shown["missing"] == [refs[0], "m7zzz"]
    other = await gateway.timeline(TimelineRequest(tuple(refs), OMAR))
    assert (other["entries"], other["missing"], other["next"]) == ([], refs, None)


@pytest.mark.row("A125", "timeline and get return nothing of a quarantined memory")
async def test_a_quarantined_memory_is_missing(gateway: Gateway) -> None:
    (ref,) = await remember(gateway, DECIDED)
    await gateway.set_state(StateRequest(ref, NADIA, trust="quarantined"))
    around = await gateway.timeline(TimelineRequest((ref,), NADIA))
    full = await gateway.records(RecordsRequest((ref,), NADIA))
    assert (around["entries"], around["missing"], full["records"], full["missing"]) == ([], [ref], [], [ref])


@pytest.mark.row("A125", "get returns full records within a budget, and says what the rest would cost")
async def test_records_are_bounded(gateway: Gateway) -> None:
    long = " ".join(f"Berth {n} has a yellow buoy." for n in range(200))
    refs = await remember(gateway, DECIDED, long, "Tea is at four.")
    found = await gateway.records(RecordsRequest((*refs, refs[0], "m7zzz"), NADIA, budget_tokens=200))
    assert [(one["ref"], one["truncated"]) for one in found["records"]] == [(refs[0], False), (refs[1], True)]
    assert found["tokens"] <= 200
    assert (found["left_out"], found["missing"]) == ([refs[2]], ["m7zzz"])
    assert found["next"] == {
        "step": "get",
        "refs": refs[1:],
        "tokens": estimate_tokens(long) + estimate_tokens("Tea is at four."),
    }
    whole = await gateway.records(RecordsRequest(tuple(refs), NADIA, budget_tokens=9_000))
    assert [one["text"] for one in whole["records"]] == [DECIDED, long, "Tea is at four."]
    assert whole["next"] is None


async def test_an_index_without_words_is_refused(gateway: Gateway) -> None:
    with pytest.raises(BadInput, match="query is empty"):
        await gateway.index(IndexRequest("  ", NADIA))
