"""Neighbours join the pool."""

from __future__ import annotations

import pytest

from fusion.recall.expand import expand
from fusion.recall.rrf import Ranked
from fusion.recipe import DedupSettings, ExpandSettings
from tests.recall.helpers import admitted, found_by, standalone, turn


def ranked(ref: str, position: int, text: str) -> Ranked:
    return Ranked(found_by(ref, turn(position, text, event_id=ref), x=1), 1 / 61, {"x": 1 / 61})


@pytest.mark.feature("a hit's neighbours pass the same filter")
def test_expand_puts_candidates_first_then_new_neighbours() -> None:
    """A neighbour that two candidates share is added once, at the better one; a candidate is never a neighbour."""
    order = [ranked("e2", 2, "the second turn"), ranked("e4", 4, "the fourth turn of it")]
    third = turn(3, "what was said third", event_id="e3")
    neighbour_of = {
        "e2": admitted(turn(1, "how it all began", event_id="e1"), third, refs="ab"),
        "e4": admitted(third, turn(2, "the second turn", event_id="e2"), refs="bc"),
    }
    pool = expand(order, neighbour_of, ExpandSettings(), DedupSettings())
    assert [(p.ref, p.neighbour_of) for p in pool] == [("e2", None), ("e4", None), ("a", "e2"), ("b", "e2")]
    assert pool[2].rrf == 0.0


def test_expand_bounds_the_pool_and_keeps_candidates() -> None:
    """What is cut are neighbours, then the worst candidates."""
    order = [ranked(f"e{i}", 10 * i, f"text number {i}") for i in range(3)]
    neighbour_of = {"e0": admitted(standalone("n", "something else again"))}
    assert [p.ref for p in expand(order, neighbour_of, ExpandSettings(max_pool=3), DedupSettings())] == [
        "e0",
        "e1",
        "e2",
    ]
    assert [p.ref for p in expand(order, neighbour_of, ExpandSettings(max_pool=2), DedupSettings())] == ["e0", "e1"]
