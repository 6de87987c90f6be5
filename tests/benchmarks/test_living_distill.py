"""The figures of the jobs that keep MEMORY.md, on a short year."""

from __future__ import annotations

import pytest

from benchmarks.datasets import Corpus, Item, Question
from benchmarks.living_distill import measure, protected_lines, talk, year
from benchmarks.living_year import year as turns_of_year

CHARS = 3_000


@pytest.mark.feature(
    "facts of a year of turns stay answerable from a curated MEMORY.md, compared with keeping the newest lines",
)
def test_the_rules_keep_facts_that_a_file_of_the_newest_has_lost() -> None:
    """Each file keeps to its size, and the same seed gives the same figures."""
    found = year(800, 30, max_chars=CHARS)
    distilled, turns, facts = (found["answered"][name] for name in ("distilled", "newest_turns", "newest_facts"))
    assert distilled["facts"] > max(turns["facts"], facts["facts"])
    assert max(one["characters"] for one in found["answered"].values()) <= CHARS
    assert found == year(800, 30, max_chars=CHARS)


def test_a_year_has_each_fact_once_and_asks_for_what_holds() -> None:
    found = turns_of_year(1200, 60, 3)
    assert len({one.key for one in found.holds}) == len(found.holds)
    assert {*found.questions[: -found.of_trivia]} <= {*found.holds}
    assert {turn.speaker for turn in found.turns} == {"user", "assistant"}
    last = {turn.about.key: turn.about for turn in found.turns if turn.about}
    assert all(last[one.key] == one for one in found.holds)
    assert all(last[one.key].value != one.value for one in found.outdated)


def test_the_evidence_of_a_talk_is_counted_by_the_turns_of_the_lines() -> None:
    """A tenth of this talk is one line: the fact, and not the last turn."""
    said = ["My daughter Mia is allergic to peanuts.", *[f"Haha, number {n}, thank you so much!" for n in range(20)]]
    turns = [Item(f"D1:{number}", text, "session_1", number, speaker="Ada") for number, text in enumerate(said)]
    found = talk([Corpus("one", tuple(turns), (Question(0, "What can Mia not eat?", "single", ("D1:0",)),))])
    assert found == {"evidence": 1, "share": {"distilled": 1.0, "newest_turns": 0.0, "newest_facts": 1.0}}


@pytest.mark.feature("no protected line is lost or changed after many rewrites by a bad model, with the shepherd")
def test_protected_lines_survive_a_bad_model() -> None:
    """With the shepherd, and where the model only names operations that are checked; without either some are gone."""
    found = protected_lines(40)
    assert found["without_shepherd"] > 0
    assert (found["with_shepherd"], found["with_checked_operations"]) == (0, 0)


def test_talk_is_measured_where_there_is_one() -> None:
    assert set(measure((), 40, 2, 1)) == {"distill", "protected_lines"}
