"""The cut of a block's tail: what adds too little goes, and what is needed stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusion.contract import Hit, Place
from fusion.lib.paraphrase import Kind
from fusion.lib.passages import SAID_CHARS, Span
from fusion.recall.calibration import with_probabilities
from fusion.recall.cut import cut
from fusion.recall.decision import Decision, sentence
from fusion.recall.dedup import Rival
from fusion.recall.pack import pack
from fusion.recall.query_dates import dates
from fusion.recall.rerank import Scored
from fusion.recall.signals import SignalTable
from fusion.recipe import PackSettings, RerankSettings
from tests.recall.helpers import MINILM, NOW, at, pooled

CUTS = PackSettings(fill=False, cut_price=0.03, cut_probability=0.05, cut_share=0.6)
FLOORS = RerankSettings(floor=0.3)


def notes(*scores: float, unit: str = "line", text: str = "words", calibrated: bool = True) -> list[Scored]:
    """Memories with these scores, best first, each in a document of its own."""
    table = SignalTable.of([{"bm25": 0.3, "length": 0.2, "speaker": 0.5, "fusion": 0.3} for _ in scores])
    hits = [Hit(f"n{i}", text, place=Place(f"d{i}", 1, 1, unit)) for i in range(len(scores))]  # type: ignore[arg-type]
    order = [Scored(pooled(f"n{i}", hits[i]), table, i, score) for i, score in enumerate(scores)]
    return list(with_probabilities(order, MINILM)) if calibrated else order


def cut_of(order: list[Scored], question: str = "who has the key?", numbers: PackSettings = CUTS) -> frozenset[str]:
    """The refs that are cut; those below .3 are in no block."""
    return cut(order, question, dates(question, NOW), numbers, FLOORS)


@pytest.mark.feature("a hook's block has what helps and no more; the receipt says what adds too little")
def test_notes_far_below_the_best_are_cut() -> None:
    """A knee: one note has the answer, five share a word with the question."""
    found = cut_of(notes(0.75, 0.33, 0.33, 0.32))
    assert found == {"n1", "n2", "n3"}
    assert sentence(Decision.ADDS_TOO_LITTLE) == "cut: adds too little"


def test_notes_as_good_as_the_best_stay() -> None:
    assert not cut_of(notes(0.6, 0.58, 0.57))


def test_recipe_that_fills_its_blocks_cuts_nothing() -> None:
    assert not cut_of(notes(0.75, 0.33), numbers=replace(CUTS, fill=True))


def test_turns_must_be_worth_their_characters() -> None:
    """Evidence that is scattered over a conversation stays longer than a note of the same score."""
    assert cut_of(notes(0.6, 0.4, 0.3, unit="turn", text="x" * 150)) == {"n2"}
    assert cut_of(notes(0.6, 0.4, 0.3, unit="turn", text="x" * 580)) == {"n1", "n2"}
    assert cut_of(notes(0.6, 0.4)) == {"n1"}


def test_price_holds_for_notes_if_the_question_asks_for_several() -> None:
    """The second note of two that a question needs is often unlike it."""
    question = "When was the institute founded that owned the newspaper?"
    order = notes(0.6, 0.4, 0.3, text="x" * 400)
    assert cut_of(order, question) == {"n2"}
    assert cut_of(order) == {"n1", "n2"}
    assert not cut_of(notes(0.75, 0.33), "what happened yesterday?")


@pytest.mark.feature("a model without a calibration: the raw scores decide, and the answer says so")
def test_share_of_the_best_score_decides_without_a_calibration() -> None:
    for unit in ("line", "turn"):
        assert cut_of(notes(0.6, 0.37, 0.35, unit=unit, calibrated=False)) == {"n2"}
    assert not cut_of(notes(0.7, 0.31, unit="turn", text="x" * (SAID_CHARS + 1), calibrated=False))


def test_turn_below_a_note_is_cut_as_a_note_is() -> None:
    note, turn = notes(0.75)[0], notes(0.75, 0.5, unit="turn")[1]
    assert cut_of([note, turn]) == {"n1"}


def test_passages_of_a_long_memory_are_cut_one_by_one() -> None:
    """The memory is in the block with its good passage."""
    for unit in ("line", "turn"):
        first, second = notes(0.75, 0.31, unit=unit)
        second = second._replace(pooled=first.pooled._replace(passage=Span(9, 12)), probability=0.0001)
        first = first._replace(pooled=first.pooled._replace(passage=Span(0, 3)))
        assert cut_of([first, second]) == {"n0:9"}


def test_memory_of_the_day_that_the_question_names_stays() -> None:
    order = notes(0.75, 0.33, 0.33)
    named = replace(order[1].pooled.candidate.hit, at=at("2026-02-27"))
    order[1] = order[1]._replace(pooled=pooled("n1", named))
    assert cut_of(order, "what did I buy on 27 February 2026?") == {"n2"}
    assert cut_of(order, "what did I buy in February 2026?") == {"n1", "n2"}


def test_rival_of_what_stays_and_judged_memory_stay() -> None:
    order = notes(0.75, 0.33, 0.33, 0.33)
    candidate = order[1].pooled.candidate._replace(rivals=(Rival("n0", Kind.CONFLICT),))
    order[1] = order[1]._replace(pooled=order[1].pooled._replace(candidate=candidate))
    order[2] = order[2]._replace(judge=6.0)
    assert cut_of(order) == {"n3"}


@pytest.mark.feature("a dated note that says what replaced something is shown with the older note that states it")
def test_what_replaced_a_note_that_stays_is_kept() -> None:
    """Without it the block would tell what no longer holds; neither an older note nor a turn replaces anything."""
    order = notes(0.75, 0.33, 0.33, 0.33)
    said = "We move the database from SQLite to Postgres."
    hits = [
        Hit("n0", "We use SQLite for the database.", place=Place("d0", 1, 1, "line"), at=at("2026-02-12")),
        Hit("n1", said, place=Place("d1", 1, 1, "line"), at=at("2026-04-21")),
        Hit("n2", said, place=Place("d2", 1, 1, "line"), at=at("2026-01-21")),
        Hit("n3", said, place=Place("d3", 1, 1, "turn"), at=at("2026-04-22")),
    ]
    order = [one._replace(pooled=pooled(hit.native_id, hit)) for one, hit in zip(order, hits, strict=True)]
    assert cut_of(order, "which database do we use?") == {"n2", "n3"}


def test_memory_that_a_judge_only_ordered_is_cut_like_any_other() -> None:
    order = [one._replace(judge=6.0, ordered_only=True) for one in notes(0.75, 0.33, 0.33)]
    assert cut_of(order) == {"n1", "n2"}


def test_best_memory_stays_and_what_is_below_the_floor_is_not_weighed() -> None:
    assert not cut_of(notes(0.31, 0.1))
    assert not cut_of([])


def test_block_leaves_out_what_was_cut_and_keeps_the_order() -> None:
    order = notes(0.75, 0.6, 0.33)
    tail = dict.fromkeys(cut_of(order), Decision.ADDS_TOO_LITTLE)
    block = pack(order, CUTS, RerankSettings(floor=0.3), "0123", left_out=tail)
    assert list(block.decisions.values()) == [Decision.PACKED, Decision.PACKED, Decision.ADDS_TOO_LITTLE]
    assert [excerpt.ref for excerpt in block.memories] == ["n0", "n1"]
