"""Limits the requests and tokens per minute sent to a provider."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

MINUTE_S = 60.0


class MinuteLimit:
    """A sliding window of one minute. 0 requests or tokens: no limit. ``clock`` is in seconds."""

    def __init__(self, requests: int, tokens: int, clock: Callable[[], float]) -> None:
        self._requests, self._tokens, self._clock = requests, tokens, clock
        self._asked: deque[tuple[float, int]] = deque()

    def wait_s(self, tokens: int) -> float:
        """Seconds until a request of so many tokens fits, 0 for now; one that never fits goes alone."""
        now = self._clock()
        while self._asked and self._asked[0][0] <= now - MINUTE_S:
            self._asked.popleft()
        requests, spent, wait_s = len(self._asked), sum(asked for _, asked in self._asked), 0.0
        for at, asked in self._asked:
            if (not self._requests or requests < self._requests) and (
                not self._tokens or spent + tokens <= self._tokens
            ):
                break
            requests, spent, wait_s = requests - 1, spent - asked, at + MINUTE_S - now
        return wait_s

    def spend(self, tokens: int) -> None:
        self._asked.append((self._clock(), tokens))
