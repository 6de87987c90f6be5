"""How often Python's collector looks through the heap, and its threads take turns, while a home is served."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from fusion.gateway.interpreter import SWITCH_S, THRESHOLDS, quick_turns, settled_heap


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """The suite has excluded the heap of all tests from collection; what is new since then stays in."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_settled_heap_is_excluded_from_collection(nothing_frozen: None):
    """It is set aside (frozen) while the block runs, and the collector comes 28 times as seldom: 20,000 against 700."""
    before = gc.get_threshold(), gc.get_freeze_count()
    with settled_heap():
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > before[1]
    assert gc.get_threshold() == before[0]
    assert gc.get_freeze_count() == 0


def test_heap_that_was_settled_before_stays_so(nothing_frozen: None):
    """A program that serves a home in its own process may have excluded its objects itself."""
    gc.freeze()
    with settled_heap():
        pass
    assert gc.get_freeze_count() > 0


def test_later_garbage_is_still_collected():
    """A cycle made while the heap is settled goes with the next look."""

    class Cycle:
        alive = 0

        def __init__(self):
            Cycle.alive += 1
            self.self = self

        def __del__(self):
            Cycle.alive -= 1

    with settled_heap():
        Cycle()
        assert Cycle.alive == 1
        gc.collect()
        assert Cycle.alive == 0


def test_threads_take_turns_quickly_while_it_is_served():
    """Afterwards as before: by default ten times as seldom, every 5 ms."""
    before = sys.getswitchinterval()
    with quick_turns():
        assert abs(sys.getswitchinterval() - SWITCH_S) < 1e-6
    assert sys.getswitchinterval() == before
