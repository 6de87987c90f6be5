"""Python's cyclic collector in a process that answers from a large heap: looked through seldom, and not all of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (20_000, 50, 50)
"""a request makes thousands of values that die with it, none in cycles: a look every 700 costs a tenth of it"""


@contextmanager
def settled_heap() -> Iterator[None]:
    """What is here now stays, so that the collector need not look through all the modules again and again.

    Afterwards everything is looked through as before.
    """
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
