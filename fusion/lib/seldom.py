"""A filter for loggers: a message that each question would repeat is logged once a minute, with how often it came."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

EVERY_S = 60.0
MOST = 256
"""messages that are known at a time"""


class Seldom(logging.Filter):
    """Passes a message at most once in ``every_s`` seconds. The next one says how many were left out since.

    ``clock`` gives seconds that only grow.
    """

    def __init__(self, every_s: float = EVERY_S, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every_s, self._clock = every_s, clock
        self._known: dict[str, tuple[float, int]] = {}
        """by message, when it was passed last, and how many were left out since"""

    def filter(self, record: logging.LogRecord) -> bool:
        message, now = record.getMessage(), self._clock()
        passed_at, left_out = self._known.get(message, (None, 0))
        if passed_at is not None and now - passed_at < self._every_s:
            self._known[message] = passed_at, left_out + 1
            return False
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[message] = now, 0
        if left_out:
            record.msg, record.args = f"{message} ({left_out} more times since the last line)", ()
        return True
