"""Makes Python's cyclic garbage collector run rarely, and not over all objects, in a process with a large heap."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (20_000, 50, 50)
"""for `gc.set_threshold`; with the default of 700 allocations, collections take a tenth of a request's time and find
nothing, since a request makes thousands of values and no cycles"""


@contextmanager
def settled_heap() -> Iterator[None]:
    """Exclude all present objects from garbage collection until the end of the block, and collect rarely."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
