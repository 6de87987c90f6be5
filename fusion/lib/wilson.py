"""The interval of a share that few counts give."""

from __future__ import annotations

from math import sqrt

Z = 1.959964
"""of the 95 % level"""


def interval(successes: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share, by Wilson's score (1927); 0 to 1 without a count."""
    if not of:
        return 0.0, 1.0
    share, z2 = successes / of, Z * Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z / (1 + z2 / of) * sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return max(0.0, middle - half), min(1.0, middle + half)
