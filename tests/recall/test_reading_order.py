"""Reading order: the current decision comes before the one that it replaced, whatever their ranks."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.gateway.gateway import Gateway
from fusion.home import config_root
from fusion.recall.reading_order import current_first
from tests.patience import load

SAMPLE = config_root() / "sample" / "workspace"

OLD = "Decision: we use SQLite for the database of the pilot."


def ordered(*said: tuple[int, str]) -> list[int]:
    """The days of texts in reading order; day 0 has no date."""
    return [
        day
        for day, _ in current_first(
            said,
            lambda one: one[1],
            lambda one: datetime(2026, 1, one[0], tzinfo=UTC) if one[0] else None,
        )
    ]


@pytest.mark.feature(
    "… recognised by dates and words of change about the same subject; nothing is left out for it",
    of="a block shows the current decision",
)
@pytest.mark.parametrize(
    "new",
    [
        "Decision: we move from SQLite to Postgres as our database.",
        "We moved the whole database from SQLite to Postgres.",
        "The database is Postgres instead of SQLite.",
        "Postgres replaced SQLite as the database.",
        "We no longer use SQLite; the database runs at Fjordbase.",
        "The database is Postgres. It was SQLite before.",
        "The team left SQLite for another database.",
        "Die database ist nun Postgres statt SQLite.",
    ],
)
def test_what_replaces_comes_before_what_it_replaces(new: str) -> None:
    """Worded in several ways; the rest keeps its order."""
    assert ordered((3, "Bread is baked on Mondays."), (1, OLD), (2, new), (4, "Tea is kept.")) == [3, 2, 1, 4]
    assert ordered((2, new), (1, OLD)) == [2, 1]


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ("We like Postgres as a database.", "nothing is replaced"),
        ("We moved from Malmö to the database room.", "something else is replaced"),
        ("The cake is from a bakery instead of SQLite.", "no further word in common"),
    ],
)
def test_what_does_not_replace_keeps_its_place(new: str, why: str) -> None:
    """The ranking knows better."""
    assert ordered((1, OLD), (2, new)) == [1, 2], why


def test_only_the_later_one_can_replace() -> None:
    """An older text that speaks of a change, and one without a date, stay where they are."""
    new = "We move from SQLite to Postgres as our database."
    assert ordered((2, OLD), (1, new)) == [2, 1]
    assert ordered((1, OLD), (0, new)) == [1, 0]


def test_a_chain_of_changes_is_read_from_its_end() -> None:
    """What holds today first, then what held before, then what held before that."""
    first, second = "The database is MySQL.", "We move the database from MySQL to SQLite."
    third = "We move the database from SQLite to Postgres."
    assert ordered((1, first), (2, second), (3, third)) == [3, 2, 1]


WORDS = st.sampled_from("we moved from SQLite to Postgres database instead of replaced no longer the a bakery".split())


@given(st.lists(st.tuples(st.integers(0, 28), st.lists(WORDS, max_size=12).map(" ".join)), max_size=8))
def test_nothing_is_lost_or_added(said: list[tuple[int, str]]) -> None:
    """Whatever the texts say."""
    assert sorted(ordered(*said)) == sorted(day for day, _ in said)


@pytest.mark.feature("a block shows the current decision before the one that it replaced")
@pytest.mark.parametrize(
    "question",
    [
        "which database do we use?",
        "database decision",
        "why did we choose our database?",
        "SQLite",
        "the database in February",
    ],
)
async def test_the_sample_tells_the_current_decision_first(home: Path, question: str) -> None:
    """Both decisions are in the block, and the one that holds today is read first, however it is asked."""
    block = await of_sample(home, question)
    assert 0 < block.find("we move from SQLite to Postgres 16") < block.find("we use SQLite for the pilot")


async def test_the_sample_tells_what_was_decided(home: Path) -> None:
    """The note of the database has the answer, which neither day's log says in the question's words."""
    block = await of_sample(home, "what did we decide about the database?")
    assert 0 < block.find("stores its data in Postgres 16") < block.find("12 February 2026: SQLite")


async def of_sample(home: Path, question: str) -> str:
    """The block for a question to the sample, whose notes are found by their words."""
    notes = {"adapter": "adapters.markdown:Markdown", "paths": [str(SAMPLE)], "deadline_ms": 60_000}
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends={"markdown": notes})
    async with Gateway.open(settings) as gateway:
        await gateway.settle()
        return (await gateway.fuse(question, timeout_ms=60_000)).block
