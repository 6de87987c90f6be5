"""What the second encoder reads when memories are stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from fusion.contract import Place, Scope
from fusion.ingest.deliver import Deliverer
from fusion.ingest.intake import Intake, NewMemory
from fusion.ingest.read_in_context import PORTION, Portion, read_in_context, read_portion
from fusion.journal import Journal
from fusion.lib.in_context import in_context
from fusion.lib.passages import passage_texts
from tests.fakes import FakeEmbedder

ANA = Scope(user_id="ana")
LONG = "\n\n".join(f"Paragraph {n}. " + "It has some words about the harbour and its boats. " * 6 for n in range(4))


@pytest.fixture
def second() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
async def intake(tmp_path: Path, second: FakeEmbedder) -> AsyncIterator[Intake]:
    journal = await Journal.open(tmp_path / "journal.sqlite")
    yield Intake(journal, Deliverer(journal, {}), on_stored=partial(read_in_context, journal, second))
    await journal.close()


def turn(position: int, text: str, document: str = "talk") -> NewMemory:
    return NewMemory(text, ANA, kind="turn", speaker="Bo", place=Place(document, position, position))


@pytest.mark.feature("a second encoder reads each turn of a conversation with its neighbours when it is stored")
async def test_turns_are_read_alone_and_in_their_context(intake: Intake, second: FakeEmbedder) -> None:
    await intake.remember([turn(1, "one"), turn(2, "two"), turn(4, "four"), turn(1, "far", "other")])
    assert set(second.encoded) == {
        *(f"Bo: {text}" for text in ("one", "two", "four", "far")),
        in_context("Bo: one", "", "Bo: two"),
        in_context("Bo: two", "Bo: one", ""),
    }


async def test_a_new_turn_changes_the_context_of_those_next_to_it(intake: Intake, second: FakeEmbedder) -> None:
    """Also between two that were there; what is known already is not read again."""
    await intake.remember([turn(1, "one"), turn(2, "two"), turn(4, "four"), turn(5, "five")])
    before = set(second.encoded)
    await intake.remember([turn(3, "three")])
    assert set(second.encoded) - before == {
        "Bo: three",
        in_context("Bo: two", "Bo: one", "Bo: three"),
        in_context("Bo: three", "Bo: two", "Bo: four"),
        in_context("Bo: four", "Bo: three", "Bo: five"),
    }
    await intake.remember([turn(3, "three")])
    assert set(second.encoded.values()) == {1}


async def test_notes_are_read_alone_and_long_memories_by_passage(intake: Intake, second: FakeEmbedder) -> None:
    await intake.remember([NewMemory("a note", ANA), NewMemory(LONG, ANA)])
    assert set(second.encoded) == {"a note", *passage_texts(LONG, None)}


async def test_what_fails_keeps_nothing_from_being_stored(intake: Intake, second: FakeEmbedder) -> None:
    second.failing = True
    (kept,) = await intake.remember([NewMemory("a note", ANA)])
    assert kept.status == "stored"


async def test_portions_read_what_was_stored_before_newest_first(tmp_path: Path) -> None:
    """A memory that came before the encoder did; what a dry run counts, a run reads, and another one finds nothing."""
    journal, encoder = await Journal.open(tmp_path / "old.sqlite"), FakeEmbedder()
    intake = Intake(journal, Deliverer(journal, {}))
    await intake.remember([turn(n, f"turn {n}") for n in range(PORTION + 1)])
    whole = Scope(audience="private")
    assert await read_portion(journal, encoder, whole, None, dry_run=True) == Portion(PORTION, 401, 0, 2)
    assert not encoder.encoded
    first = await read_portion(journal, encoder, whole, None)
    assert first == Portion(PORTION, 401, 401, 2)
    assert "Bo: turn 200" in encoder.encoded
    assert "Bo: turn 0" not in encoder.encoded
    assert await read_portion(journal, encoder, whole, first.before) == Portion(1, 1, 1, None)
    assert await read_portion(journal, encoder, whole, None) == Portion(PORTION, 0, 0, 2)
    await journal.close()
