"""Questions for the course of one's talks with an assistant, and what of them is packed first."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from adapters.inmemory import InMemory
from fusion.contract import Event, Extracted, Hit, Moment, Opening, Place
from fusion.recall.course_of_talks import asks_for_course, person_first
from fusion.recall.cut import cut
from fusion.recall.engine import FuseRequest, fuse
from fusion.recall.gather import GuardedBackend
from fusion.recall.io import JournalReads, Live
from fusion.recall.pack import pack
from fusion.recall.query_dates import Dates
from fusion.recall.rerank import Scored
from fusion.recall.signals import SignalTable
from fusion.recipe import ExpandSettings, PackSettings, Recipe, RerankSettings
from tests.recall.helpers import NOW, pooled, record
from tests.recall.test_engine import MemoryJournal

FLOORS = RerankSettings(floor=0.3)


def talk(*turns: tuple[float, float | None]) -> list[Scored]:
    """Memories with these scores and roles, 1 for the person and 0 for the assistant; one without a role is a note."""
    table = SignalTable.of([{"bm25": 0.3} if role is None else {"bm25": 0.3, "role": role} for _, role in turns])
    order = []
    for i, (score, role) in enumerate(turns):
        unit = "line" if role is None else "turn"
        hit = Hit(f"m{i}", f"text {i}", place=Place(f"d{i}", 1, 1, unit), at=Moment(NOW - timedelta(days=i)))  # type: ignore[arg-type]
        order.append(Scored(pooled(f"m{i}", hit), table, i, score))
    return order


def refs(order: list[Scored]) -> list[str]:
    return [scored.ref for scored in person_first(order)]


@pytest.mark.parametrize(
    "question",
    [
        "In which order did I bring up my plans for the flat?",
        "Can you give me a summary of how my application developed?",
        "Give me an overview of what we talked about",
        "How have my plans evolved?",
        "Fass zusammen, was ich zu dem Umzug gesagt habe",
        "Wie haben sich meine Pläne entwickelt?",
        "Dans quel ordre j'ai parlé de mes projets ?",
        "Résume mes projets",
        "¿En qué orden he mencionado mis planes?",
        "Riassumi come ho preparato il viaggio",
    ],
)
def test_question_for_the_course_of_talks_is_recognised(question: str) -> None:
    assert asks_for_course(question)


@pytest.mark.parametrize(
    "question",
    [
        "What did I buy in Lisbon?",
        "What do I need in order to deploy?",
        "Give me a summary of the OAuth specification",
        "Which app did I write?",
        "What was in the order that I placed?",
        "When did Ada and I meet?",
        "What did I change in my résumé?",
    ],
)
def test_other_questions_are_not(question: str) -> None:
    assert not asks_for_course(question)


@pytest.mark.feature(
    "a question about the course of talks with an assistant is answered with the person's turns, in order"
)
def test_what_the_person_said_is_packed_before_the_assistants_answers() -> None:
    order = talk((0.6, 0), (0.55, 0), (0.5, 1), (0.45, 1))
    assert refs(order) == ["m2", "m3", "m0", "m1"]
    block = pack(person_first(order), PackSettings(max_results=2), FLOORS, "0" * 12, chronological=True)
    assert block.text.index("text 3") < block.text.index("text 2")
    assert "text 0" not in block.text


def test_notes_keep_their_place_among_talks() -> None:
    assert refs(talk((0.6, 0), (0.55, None), (0.5, 1))) == ["m2", "m1", "m0"]


def test_order_stays_if_a_note_is_best() -> None:
    order = talk((0.6, None), (0.55, 0), (0.5, 1))
    assert person_first(order) is order
    assert not person_first([])


def test_what_the_person_said_needs_no_floor_and_is_not_cut_unless_it_is_far_below_the_best() -> None:
    order = person_first(talk((0.35, 0), (0.28, 1), (0.2, 1)))
    numbers = PackSettings(fill=False, cut_share=0.9)
    left_out = cut(order, "how have my plans evolved?", Dates(), numbers, FLOORS)
    assert left_out.isdisjoint({order[0].pooled.key})
    block = pack(order, numbers, FLOORS, "0" * 12)
    assert "text 1" in block.text
    assert "text 2" not in block.text


def test_scores_stay_as_they_are() -> None:
    order = talk((0.6, 0), (0.5, 1))
    assert {scored.ref: scored.local for scored in person_first(order)} == {"m0": 0.6, "m1": 0.5}


async def test_fuse_packs_what_the_person_said_first_if_the_recipe_weighs_roles(tmp_path: Path) -> None:
    """The assistant's turn has the question's words, and the block has room for one memory."""
    journal, store = MemoryJournal(), await InMemory.open(Opening("one", tmp_path))
    said = [("user", "My plan is Lisbon."), ("assistant", "How plans for a move develop: a plan evolved in steps.")]
    for n, (speaker, text) in enumerate(said):
        event = Event(f"e{n}", text, NOW, kind="turn", speaker=speaker, place=Place(f"talk {n}", 0, 0))
        journal.kept[event.event_id] = replace(record(event.event_id), ref=f"m{n}", event=event)
        await store.remember([Extracted(event)])
    reads = JournalReads(journal.records, journal.neighbours, journal.frequencies, lambda backend, hits: hits)
    live = Live({"one": GuardedBackend("one", store)}, reads, None, lexical=True)

    async def first_of(question: str, **weights: float) -> str:
        numbers = RerankSettings(signals={"bm25": 1, **weights}, judge="never")
        recipe = Recipe(rerank=numbers, expand=ExpandSettings(span=0), pack=PackSettings(max_items=1))
        outcome = await fuse(FuseRequest(question, backends=("one",)), recipe, live)
        scores = {row["ref"]: row["local"] for row in outcome.receipt.body["candidates"]}
        assert scores["m1"] > scores["m0"]
        return outcome.fused.memories[0].ref

    question = "How has my plan for the move evolved in steps?"
    assert await first_of(question, role=0.01) == "m0"
    assert await first_of(question) == "m1"
    assert await first_of("Which plan for a move evolved in steps?", role=0.01) == "m1"
    await store.close()
