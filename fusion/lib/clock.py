"""The time of day as a value that is passed in, so that a test or a demonstration can move it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""returns the time now, in UTC"""


def utc_now() -> datetime:
    """The time of the machine."""
    return datetime.now(UTC)
