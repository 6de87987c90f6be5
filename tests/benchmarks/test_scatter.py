"""Scattered memories: who holds what."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

from benchmarks.datasets import Item
from benchmarks.scatter import edited, held_alone, scatter
from fusion.lib.words import words

STORES = ("a", "b", "c", "d")
TURNS = tuple(
    Item(
        id=f"D{session}:{position}",
        document=f"session_{session}",
        position=position,
        speaker="Ida",
        text=f"The really big oven number {session}-{position} broke again, Per!",
        at=datetime(2024, 1, session, tzinfo=UTC),
    )
    for session in range(1, 31)
    for position in range(20)
)


def test_the_same_seed_scatters_alike() -> None:
    """A draw can be repeated, and another seed draws otherwise."""
    assert scatter(TURNS, STORES, "1") == scatter(TURNS, STORES, "1")
    assert scatter(TURNS, STORES, "1") != scatter(TURNS, STORES, "2")


def test_every_turn_is_stored_once_verbatim() -> None:
    """Nothing is lost by scattering: one copy of each turn has its own words."""
    verbatim = [copy.turn for copy in scatter(TURNS, STORES, "1") if copy.verbatim]
    assert sorted(t.id for t in verbatim) == sorted(t.id for t in TURNS)


def test_a_session_lies_in_one_or_two_stores_and_about_a_third_of_turns_in_two() -> None:
    """Two thirds of the sessions, half of their turns: 600 / 3 = 200 second copies, give or take a bad draw."""
    copies = scatter(TURNS, STORES, "1")
    stores: dict[str, set[str]] = {}
    for copy in copies:
        stores.setdefault(copy.turn.document, set()).add(copy.store)
        assert copy.document == f"{copy.store}/{copy.turn.document}"
    assert {len(held) for held in stores.values()} == {1, 2}
    assert set().union(*stores.values()) == set(STORES)
    assert 130 <= len(copies) - len(TURNS) <= 270


def test_second_copies_are_edited_a_little() -> None:
    """Case, punctuation, a synonym or a prefix: never the same text, always most of its words."""
    draw = Random(3)
    for turn in TURNS[:100]:
        text = edited(turn, draw)
        assert text != turn.text
        assert len(words(text) & words(turn.text)) >= 0.7 * len(words(turn.text))


def test_the_only_store_of_a_turn() -> None:
    """A turn with a second copy is held by nobody alone."""
    copies = scatter(TURNS, STORES, "1")
    alone = held_alone(copies)
    twice = {copy.turn.id for copy in copies if not copy.verbatim}
    assert alone.keys() == {t.id for t in TURNS} - twice
    first = next(copy for copy in copies if copy.turn.id in alone)
    assert alone[first.turn.id] == first.store


def test_the_only_store_of_a_document() -> None:
    """A file of which another store has a part is held by nobody alone; of 30 about a third are in one store only."""
    copies = scatter(TURNS, STORES, "1")
    alone = held_alone(copies, by_document=True)
    shared = {copy.turn.document for copy in copies if not copy.verbatim}
    assert alone.keys() == {turn.document for turn in TURNS} - shared
    assert 3 <= len(alone) <= 20
