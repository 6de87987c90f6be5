"""Decisions: programs compare the value, people read the sentence, receipts of earlier versions have the sentence."""

from __future__ import annotations

import json
import time
from pathlib import Path

import orjson
import pytest

from adapters.inmemory import InMemory
from fusion.contract import Event, Extracted, Opening
from fusion.doors.cli import render
from fusion.recall.decision import OUT_OF_ROOM, TOO_WEAK, Decision, decision_of, sentence
from fusion.recall.engine import FuseRequest, explain, fuse
from fusion.recall.gather import GuardedBackend
from fusion.recall.io import JournalReads, Live
from fusion.recall.receipt import Receipt
from fusion.recall.receipt_store import ReceiptFile, ReceiptStore
from fusion.recipe import PackSettings, Recipe, RerankSettings
from tests.recall.helpers import NOW, StoredRecord
from tests.recall.test_engine import MemoryJournal


@pytest.mark.parametrize("decision", Decision)
def test_decision_sentences_map_back_to_their_decision(decision: Decision) -> None:
    assert " " in sentence(decision) or decision == Decision.PACKED
    assert decision_of(sentence(decision)) == decision_of(decision) == decision


def test_decisions_of_weak_scores_and_of_room_are_disjoint() -> None:
    assert {Decision.BEST_BELOW_FLOOR, Decision.BELOW_FLOOR, Decision.BELOW_JUDGE_FLOOR} == TOO_WEAK
    assert not TOO_WEAK & OUT_OF_ROOM
    assert Decision.PACKED not in TOO_WEAK | OUT_OF_ROOM


@pytest.mark.feature("a receipt names each decision by a constant value, and explains it in words")
async def test_a_receipt_names_decisions_by_their_values(tmp_path: Path) -> None:
    """Two memories, room for one: packed and excerpts_full, as JSON values, each with its words."""
    memory_journal, store = MemoryJournal(), await InMemory.open(Opening("one", tmp_path))
    for n, text in enumerate(("the pump is green", "the pump was sold")):
        said = Event(f"e{n}", text, NOW)
        memory_journal.kept[said.event_id] = StoredRecord(f"m{n}", said)
        await store.remember([Extracted(said)])
    journal = JournalReads(
        memory_journal.records, memory_journal.neighbours, memory_journal.frequencies, lambda backend, hits: hits
    )
    live = Live({"one": GuardedBackend("one", store)}, journal, lexical=True)
    recipe = Recipe(rerank=RerankSettings(judge="never"), pack=PackSettings(max_results=1, excerpts=False))
    outcome = await fuse(FuseRequest("is the pump green?"), recipe, live)
    assert {type(one) for one in outcome.receipt.reasons["decision"]} == {Decision}
    rows = json.loads(orjson.dumps(explain(outcome.receipt.body)))["candidates"]
    assert [(row["decision"], row["reason"]) for row in rows] == [
        ("packed", "packed"),
        ("excerpts_full", "the block has all its excerpts"),
    ]


@pytest.mark.feature(
    "… and a receipt of an earlier version is still shown, in its own words", of="a receipt names each decision"
)
async def test_a_receipt_of_an_earlier_version_is_still_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has sentences for decisions. They are shown as they were written, and read as today's values."""
    sentences = ["packed", "8 excerpts are in", "the best is under the floor", "a reason that nobody knows"]
    count = len(sentences)
    reasons = {
        "ref": [f"m{n}" for n in range(count)],
        "decision": sentences,
        "local": [0.5] * count,
        "rrf": [0.03] * count,
        "source_hits": [[["one", f"m{n}", f"e{n}", n + 1, "first seen"]] for n in range(count)],
        "signals": {"bm25": [0.5] * count},
    }
    receipts = ReceiptStore(ReceiptFile(tmp_path / "receipts.sqlite"), keep_days=7)
    receipts.keep(Receipt("r1", "default", time.time(), {"receipt_id": "r1"}, reasons))
    await receipts.flush()
    body = explain(await receipts.read("r1", "default"))
    await receipts.close()
    assert [row["decision"] for row in body["candidates"]] == [
        Decision.PACKED,
        Decision.EXCERPTS_FULL,
        Decision.BEST_BELOW_FLOOR,
        "a reason that nobody knows",
    ]
    render.receipt(body)
    printed = " ".join(capsys.readouterr().out.split())
    assert all(one in printed for one in sentences)
