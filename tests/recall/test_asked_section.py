"""The section of a document that a question asks for: found by its heading, packed early, and not cut."""

from __future__ import annotations

import pytest

from fusion.contract import Hit, Place
from fusion.recall.asked_section import AskedSections
from fusion.recall.calibration import with_probabilities
from fusion.recall.cut import cut
from fusion.recall.decision import Decision
from fusion.recall.pack import pack
from fusion.recall.query_dates import dates
from fusion.recall.rerank import Scored
from fusion.recall.signals import SignalTable
from fusion.recipe import PackSettings, RerankSettings
from tests.recall.helpers import MINILM, NOW, pooled

QUESTION = "Why Postgres?"
NOTE = (
    ("database.md", 1, "# Database\n\n" + "Postgres holds the bookings. " * 30, 0.70),
    ("database.md", 5, "## Setup\n\n" + "Postgres listens on 5433. " * 12, 0.50),
    ("till.md", 1, "# Till\n\nThe till writes to Postgres.", 0.48),
    ("database.md", 9, "## Why\n\nTwo writers block each other in SQLite.", 0.46),
)


def order_of(sections: tuple[tuple[str, int, str, float], ...] = NOTE) -> tuple[Scored, ...]:
    """Sections of notes with these scores, best first."""
    table = SignalTable.of([{"bm25": 0.3, "length": 0.2, "speaker": 0.5, "fusion": 0.3} for _ in sections])
    order = [
        Scored(pooled(f"s{i}", Hit(f"s{i}", text, place=Place(document, start, start + 3, "line"))), table, i, score)
        for i, (document, start, text, score) in enumerate(sections)
    ]
    return with_probabilities(order, MINILM)


@pytest.mark.parametrize(
    ("question", "heading"),
    [("Why Postgres?", "## Why"), ("what does it cost", "### Costs"), ("who made the last backup?", "## Last backup")],
)
def test_section_is_asked_for_by_all_words_of_its_heading(question: str, heading: str) -> None:
    hit = Hit("a", f"{heading}\n\nwords", place=Place("a.md", 1, 3, "line"))
    assert AskedSections(question).has(hit)


@pytest.mark.parametrize(
    "text", ["## Why not\n\nwords", "# Why\n\nwords", "why it is", "## \n\nwords", "## ??\n\nwords"]
)
def test_other_headings_and_texts_are_not_asked_for(text: str) -> None:
    assert not AskedSections("Why Postgres?").has(Hit("a", text, place=Place("a.md", 1, 3, "line")))
    assert not AskedSections("Why Postgres?").has(Hit("a", "## Why\n\nwords"))


def test_asked_section_follows_the_best_memory_of_its_document() -> None:
    order = AskedSections(QUESTION).first(order_of())
    assert [scored.ref for scored in order] == ["s0", "s3", "s1", "s2"]
    unchanged = order_of()
    assert AskedSections("Postgres").first(unchanged) is unchanged


def test_asked_section_that_is_the_best_stays_first() -> None:
    order = AskedSections(QUESTION).first(order_of((NOTE[3], NOTE[0])))
    assert [scored.ref for scored in order] == ["s0", "s1"]


@pytest.mark.feature("within a note the section that answers stays in a small block")
def test_section_that_answers_stays_in_a_block_of_1500_characters() -> None:
    """Before, the beginning of the note and its setup filled the block, and the reason was cut."""
    numbers = PackSettings(budget_chars=1500, fill=False)
    order = AskedSections(QUESTION).first(order_of())
    weak = cut(order, QUESTION, dates(QUESTION, NOW), numbers, RerankSettings())
    block = pack(order, numbers, RerankSettings(), "0123", left_out=dict.fromkeys(weak, Decision.ADDS_TOO_LITTLE))
    assert "Two writers block each other" in block.text
    assert "s3" not in weak


def test_section_of_a_document_that_is_not_shown_is_cut_like_any_other() -> None:
    others = (NOTE[0], ("till.md", 1, "# Till\n\nwords", 0.35), ("till.md", 5, "## Why\n\nwords", 0.33))
    order = AskedSections(QUESTION).first(order_of(others))
    assert cut(order, QUESTION, dates(QUESTION, NOW), PackSettings(fill=False), RerankSettings()) == {"s1", "s2"}
