"""A histogram of times with fixed bounds: one observation is a search in fifteen numbers, and nothing is kept of it."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0)
"""upper bounds in seconds; what took longer is in the last bucket"""


@dataclass(slots=True)
class Histogram:
    """Numbers of times by bucket, not cumulative, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def cumulative(self) -> list[tuple[str, int]]:
        """Each bound, "+Inf" for the last, and the number of times up to it."""
        found, total = [], 0
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), self.counts, strict=True):
            total += count
            found.append((bound, total))
        return found
