"""The second hop: a memory whose title one of the best memories names."""

from __future__ import annotations

import numpy as np
import pytest

from fusion.contract import Hit, Place
from fusion.recall.expand import Pooled
from fusion.recall.rerank import by_local_score
from fusion.recall.second_hop import named_by_best
from fusion.recall.signals import SignalTable
from fusion.recipe import RerankSettings
from tests.recall.helpers import pooled, turn

QUESTION = "Who leads the team that Ada joined?"


def note(ref: str, text: str, document: str, line: int = 1) -> Pooled:
    return pooled(ref, Hit(ref, text, place=Place(document, line, line, "line")))


JOINED = note("joined", "# Ada\nAda joined the team Heron in May.", "people/Ada.md")
HERON = note("heron", "# Heron\nLed by Farid since 2024.", "teams/Heron.md")
KILN = note("kiln", "# Kiln\nLed by Esther.", "teams/Kiln.md")


def named(pool: list[Pooled], question: str = QUESTION) -> dict[str, float]:
    """How strongly each memory is named; the scores fall in the order of the pool."""
    scores = np.linspace(0.8, 0.4, len(pool))
    found = named_by_best(question, pool, scores).strengths
    return {entry.ref: round(float(value), 3) for entry, value in zip(pool, found, strict=True)}


@pytest.mark.feature("a note that the best memory names by its title is raised, also without a word of the question")
def test_note_that_the_best_memory_names_is_raised() -> None:
    assert named([JOINED, KILN, HERON]) == {"joined": 0.0, "kiln": 0.0, "heron": 1.0}
    table = SignalTable.of([{"bm25": 0.6}, {"bm25": 0.32}, {"bm25": 0.3}])
    numbers = RerankSettings(signals={"bm25": 1.0}, named_boost=0.2)
    order = by_local_score([JOINED, KILN, HERON], table, numbers, QUESTION)
    assert [one.ref for one in order] == ["joined", "heron", "kiln"]
    assert order[1].signals["named"] == 1.0, "the receipt gives the reason"
    without = by_local_score([JOINED, KILN, HERON], table, RerankSettings(signals={"bm25": 1.0}), QUESTION)
    assert [one.ref for one in without] == ["joined", "kiln", "heron"]


def test_note_stays_below_the_memory_that_names_it() -> None:
    table = SignalTable.of([{"bm25": 0.6}, {"bm25": 0.59}])
    numbers = RerankSettings(signals={"bm25": 1.0}, named_boost=0.9)
    order = by_local_score([JOINED, HERON._replace(rrf=1.0)], table, numbers, QUESTION)
    assert [one.ref for one in order] == ["joined", "heron"]
    reversed_scores = SignalTable.of([{"bm25": 0.5}, {"bm25": 0.6}])
    order = by_local_score([JOINED, HERON], reversed_scores, numbers, QUESTION)
    assert [(one.ref, one.local) for one in order] == [("heron", 0.6), ("joined", 0.5)], "nor is it lowered"


@pytest.mark.parametrize(
    ("text", "document", "strength"),
    [
        ("She joined [[heron]].", "a.md", 1.0),
        ("she saw a heron in the reeds", "a.md", 0.0),  # a common noun, not the note's name
        ("She joined Herons United.", "a.md", 0.0),
    ],
)
def test_single_word_is_named_with_a_capital_or_a_link(text: str, document: str, strength: float) -> None:
    assert named([note("a", text, document), HERON])["heron"] == strength


def test_title_of_several_words_is_named_in_any_case() -> None:
    gateway = note("g", "Runs on port 7070.", "services/bug-gateway.md")
    assert named([note("a", "ask the owner of the Bug Gateway", "a.md"), gateway])["g"] == 1.0


def test_memory_without_a_file_has_the_title_that_its_text_opens_with() -> None:
    album = pooled("album", Hit("album", "Green Kiln (album). It was recorded in 1977."))
    assert named([pooled("a", Hit("a", "Their first record was Green Kiln.")), album])["album"] == 1.0


def test_title_in_the_question_counts_for_nothing() -> None:
    assert named([JOINED, HERON], "what does Ada say about Heron?")["heron"] == 0.0


def test_lower_ranks_and_sections_of_one_note_count_for_less() -> None:
    below = [KILN, JOINED, HERON, note("again", "Founded in 2020.", "teams/Heron.md", 9)]
    found = named(below)
    assert found["heron"] == found["again"]
    assert 0 < found["heron"] < 0.8 / 2**0.5 + 0.001


def test_turn_and_daily_note_have_no_title() -> None:
    pool = [
        pooled("a", Hit("a", "See 2026-03-04 and Talk.")),
        pooled("t", turn(1, "Talk. We talked.", document="Talk.md")),
        note("day", "rain", "diary/2026-03-04.md"),
    ]
    assert set(named(pool).values()) == {0.0}


@pytest.mark.parametrize("text", ["", "[[" * 2000, "[[a|" * 1000, "A" * 5000, "🙂\n\n"])
def test_any_text_has_names_or_none(text: str) -> None:
    assert named([note("a", text, "a.md"), HERON])["heron"] == 0.0
    assert named_by_best("", [], np.zeros(0)).strengths.size == 0
