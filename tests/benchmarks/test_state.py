"""The figures of state, measured small: nothing that was decided against is answered, and states cost a number."""

from __future__ import annotations

import pytest

from benchmarks.decided import BACKENDS, FATES, cases, decided
from benchmarks.state_cost import state_cost


@pytest.mark.feature("what was decided against is answered by no question, search or recall of a server")
@pytest.mark.model
async def test_nothing_that_was_decided_against_is_answered() -> None:
    """Each of the two memories of a conflict or a repetition is asked for; every way answers something."""
    figures = await decided(memories=40, questions=2 * len(FATES))
    assert (figures["decided_but_answered"], figures["faults"]) == (0, [])
    assert figures["decided_by_fate"] == dict.fromkeys(FATES, 2)
    assert (figures["memories"], figures["undecided"]) == (40, 0)
    ways = {"fuse default", "fuse hook", "cortex recall", *(f"search {name}" for name in BACKENDS)}
    assert {way for way, count in figures["memories_answered"].items() if count} == ways


def test_half_of_the_memories_get_a_fate() -> None:
    made = list(cases(100))
    assert [case.fate for case in made].count("current") == 50
    assert all([case.fate for case in made].count(fate) == 5 for fate in FATES)
    assert len({case.name for case in made}) == len(made)


@pytest.mark.model
async def test_cost_of_state_compares_two_arms() -> None:
    figures = await state_cost(memories=60, rounds=1)
    assert figures["cpu_ms_with_state"] > 0
    assert figures["cpu_ms_without_state"] > 0
    assert figures["state_candidates"] >= 40
