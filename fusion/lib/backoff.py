"""Exponential backoff: the wait doubles after each failure in a row, up to a cap, with a random spread."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

_DOUBLINGS = 64
"""maximum doublings of a wait: 2.0 ** 1024 would overflow after a bad week"""


def backoff_s(
    failures: int,
    first_s: float,
    cap_s: float = math.inf,
    *,
    spread: float = 0.0,
    draw: Callable[[], float] = random.random,
) -> float:
    """Seconds to wait after ``failures`` failures in a row: ``first_s`` after one, doubled after each more, at most
    ``cap_s``.

    A ``spread`` of .2 makes it up to 20 % shorter or longer, so that clients that failed together do not retry
    together; ``draw`` returns a random number from 0 to 1.
    """
    steady_s = min(cap_s, first_s * 2.0 ** min(max(failures - 1, 0), _DOUBLINGS))
    return steady_s * (1 - spread + 2 * spread * draw()) if spread else steady_s
