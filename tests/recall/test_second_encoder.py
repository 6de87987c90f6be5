"""Recipes that compare a question with the pool by the second encoder of a home."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.inmemory import InMemory
from fusion.contract import CosineScale, Extracted, Opening
from fusion.lib.in_context import in_context
from fusion.lib.words import spoken
from fusion.recall.engine import FuseRequest, fuse
from fusion.recall.gather import GuardedBackend
from fusion.recall.io import JournalReads, Live
from fusion.recall.recording import Recorder, Replay
from fusion.recall.signals import contexts_of
from fusion.recipe import Recipe, RerankSettings
from tests.fakes import CrowdedEmbedder, FakeEmbedder
from tests.recall.helpers import pooled, standalone, turn
from tests.recall.test_engine import MemoryJournal, StoredRecord, event

TALK = [("Ann", "Where is the drill?"), ("Bo", "On the shelf."), ("Ann", "Which shelf?"), ("Bo", "The blue one.")]
SAID = [spoken(text, speaker) for speaker, text in TALK]
ASK = FuseRequest("where is the drill")
PLAIN = Recipe(rerank=RerankSettings(signals={"maxsim": 1, "dense": 1, "bm25": 1}, judge="never"))
PLUS = replace(PLAIN, rerank=replace(PLAIN.rerank, second_encoder=True))
CONTEXTS = {
    text: in_context(text, before, after)
    for before, text, after in zip(["", *SAID], SAID, [*SAID[1:], ""], strict=False)
}


@pytest.fixture
async def live(tmp_path: Path) -> AsyncIterator[Live]:
    """One store with a talk of four turns, which the first encoder has read."""
    journal, store = MemoryJournal(), await InMemory.open(Opening("one", tmp_path))
    for position, (speaker, text) in enumerate(TALK):
        said = event(position, speaker, text)
        journal.kept[said.event_id] = StoredRecord(f"m{position}", said)
        await store.remember([Extracted(said)])
    reads = JournalReads(journal.records, journal.neighbours, journal.frequencies, lambda backend, hits: hits)
    embedder = FakeEmbedder()
    await embedder.embed(SAID)
    yield Live({"one": GuardedBackend("one", store)}, reads, embedder)
    await store.close()


async def test_a_turn_is_compared_in_its_context(live: Live) -> None:
    """ "On the shelf." after "Where is the drill?" is like a question for the drill; read alone, it is not."""
    second = FakeEmbedder()
    await second.embed([*SAID, *CONTEXTS.values()])
    alone = (await fuse(ASK, PLAIN, live)).receipt.body["candidates"]
    read = (await fuse(ASK, PLUS, replace(live, second=second))).receipt.body["candidates"]
    dense = [{row["ref"]: row["signals"]["dense"] for row in rows} for rows in (alone, read)]
    assert dense[1]["m1"] > dense[0]["m1"]
    assert not second.put_off


async def test_without_the_recipe_the_second_encoder_changes_nothing(live: Live) -> None:
    second = FakeEmbedder(failing=True)
    before, after = await fuse(ASK, PLAIN, live), await fuse(ASK, PLAIN, replace(live, second=second))
    assert before.receipt.body["candidates"] == after.receipt.body["candidates"]
    assert "second_encoder" not in after.fused.rerank
    assert not second.encoded


@pytest.mark.feature("without the second encoder that a recipe asks for, the first one ranks, and the answer says so")
@pytest.mark.parametrize("second", [None, FakeEmbedder(failing=True)], ids=["none", "failing"])
async def test_a_missing_second_encoder_is_said(live: Live, second: FakeEmbedder | None) -> None:
    by_first = await fuse(ASK, PLAIN, live)
    outcome = await fuse(ASK, PLUS, replace(live, second=second))
    assert outcome.fused.rerank["second_encoder"] == "missing"
    assert outcome.receipt.body["candidates"] == by_first.receipt.body["candidates"]
    assert not outcome.fused.degraded


async def test_what_the_second_encoder_has_not_read_is_read_behind_the_answer(live: Live) -> None:
    """First by words, then in its context; a turn that was read alone only is compared alone."""
    second = FakeEmbedder()
    first = await fuse(ASK, PLUS, replace(live, second=second))
    assert first.fused.rerank["without_vectors"] == len(first.receipt.body["candidates"])
    assert {SAID[0], SAID[1], CONTEXTS[SAID[0]], CONTEXTS[SAID[1]]} <= set(second.encoded)
    again = await fuse(ASK, PLUS, replace(live, second=second))
    assert "without_vectors" not in again.fused.rerank
    only_alone = FakeEmbedder()
    await only_alone.embed(SAID)
    assert "without_vectors" not in (await fuse(ASK, PLUS, replace(live, second=only_alone))).fused.rerank


async def test_the_second_encoders_cosines_are_scaled(live: Live) -> None:
    """So that weights and floors hold for it. This one's are far above 0 for texts with nothing in common."""
    plain, scaled = CrowdedEmbedder(CosineScale()), CrowdedEmbedder(CosineScale(0.5, 0.25))
    tables = []
    for second in (plain, scaled):
        await second.embed([*SAID, *CONTEXTS.values()])
        rows = (await fuse(ASK, PLUS, replace(live, second=second))).receipt.body["candidates"]
        tables.append({row["ref"]: row["signals"] for row in rows})
    for ref, signals in tables[0].items():
        assert tables[1][ref]["dense"] == pytest.approx(0.5 * signals["dense"] + 0.25, abs=1e-3)
        assert 0 <= tables[1][ref]["maxsim"] <= 1


async def test_an_answer_by_the_second_encoder_is_replayed(live: Live) -> None:
    second = FakeEmbedder()
    await second.embed([*SAID, *CONTEXTS.values()])
    recorder = Recorder.of(replace(live, second=second))
    recorded = await fuse(ASK, PLUS, recorder)
    replayed = await fuse(ASK, PLUS, Replay(recorder.recording))
    assert replayed.fused.block == recorded.fused.block
    assert replayed.fused.rerank == recorded.fused.rerank


def test_contexts_are_those_of_turns_whose_neighbours_are_known() -> None:
    """A neighbour at the edge of the pool, notes and what stands alone have none."""
    pool = [
        pooled("b", turn(2, "two", "Bo"), 0.5),
        pooled("a", turn(1, "one", "Ann"))._replace(neighbour_of="b"),
        pooled("c", turn(3, "three"))._replace(neighbour_of="b"),
        pooled("d", turn(4, "four"))._replace(neighbour_of="b"),
        pooled("last", turn(9, "nine", document="other"), 0.4),
        pooled("before", turn(8, "eight", document="other"))._replace(neighbour_of="last"),
        pooled("alone", turn(1, "alone", document="third"), 0.3),
        pooled("note", standalone("note", "a note"), 0.2),
    ]
    assert contexts_of(pool) == {
        "Bo: two": in_context("Bo: two", "Ann: one", "three"),
        "three": in_context("three", "Bo: two", "four"),
        "nine": in_context("nine", "eight", ""),
    }
