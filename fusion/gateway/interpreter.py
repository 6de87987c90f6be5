"""Sets Python up for a server: its garbage collector runs rarely, and its threads take turns often."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (20_000, 50, 50)
"""for `gc.set_threshold`; with the default of 700 allocations, collections take a tenth of a request's time and find
nothing, since a request makes thousands of values and no cycles"""

SWITCH_S = 0.0005
"""seconds for which a thread computes while others wait; with Python's 0.005 the event loop waits so long for its turn
after each answer of a store, and a question among a million memories takes a tenth longer"""


@contextmanager
def quick_turns() -> Iterator[None]:
    """Let threads take turns every `SWITCH_S` until the end of the block."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def settled_heap() -> Iterator[None]:
    """Exclude all present objects from garbage collection until the end of the block, and collect rarely.

    A program that has excluded its own objects already keeps them so afterwards.
    """
    before, had_frozen = gc.get_threshold(), gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not had_frozen:
            gc.unfreeze()
