"""The calls of a judge in the last minute: whether the next one fits the budget and the time that is left."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from adapters.judges.prompt import SYSTEM
from fusion.contract import Verdict
from fusion.lib.budget import estimate_tokens

MINUTE_S = 60.0
FIRST_GUESS_S = 0.3
"""expected seconds of the first call"""

TOKENS_A_SCORE = 24
"""tokens of one entry of the answer: an opaque id, a number and their JSON"""


def estimated_tokens(message: str, passages: int, max_tokens: int) -> int:
    """The tokens of a call that asks about this many passages, with its answer."""
    return estimate_tokens(SYSTEM + message) + min(max_tokens, TOKENS_A_SCORE * passages)


@dataclass(slots=True)
class Call:
    """One call of the last minute. ``tokens`` are estimated, and ``took_s`` is None, until the answer comes."""

    at: float
    tokens: int
    took_s: float | None = None


class RecentCalls:
    """The budget of a judge: calls and tokens a minute, and pauses that its server asked for. ``clock`` has seconds."""

    def __init__(self, calls_per_minute: int, tokens_per_minute: int, clock: Callable[[], float]) -> None:
        self._calls_per_minute, self._tokens_per_minute, self._clock = calls_per_minute, tokens_per_minute, clock
        self._calls: deque[Call] = deque()
        self._wait_until = -math.inf

    def refusal(self, tokens: int, deadline_s: float) -> Verdict | None:
        """The reason for making no call now, or None."""
        now = self._clock()
        if now < self._wait_until:
            return Verdict("cooldown", fault=f"asked to wait; {self._wait_until - now:.0f} s are left")
        while self._calls and self._calls[0].at <= now - MINUTE_S:
            self._calls.popleft()
        if len(self._calls) >= self._calls_per_minute:
            return Verdict("skipped_budget", fault=f"{self._calls_per_minute} calls a minute are spent")
        if sum(call.tokens for call in self._calls) + tokens > self._tokens_per_minute:
            return Verdict("skipped_budget", fault=f"{self._tokens_per_minute} tokens a minute are spent")
        usual = self._usual_s()
        if deadline_s < usual:
            return Verdict("skipped_budget", fault=f"{max(deadline_s, 0):.2f} s are left, a call takes {usual:.2f} s")
        return None

    def begin(self, tokens: int) -> Call:
        """Count a call, which begins now."""
        call = Call(self._clock(), tokens)
        self._calls.append(call)
        return call

    def end(self, call: Call) -> None:
        """Note how long a call took."""
        call.took_s = self._clock() - call.at

    def pause(self, seconds: float) -> None:
        """Make no call for that long."""
        self._wait_until = max(self._wait_until, self._clock() + seconds)

    def _usual_s(self) -> float:
        """The median of the last minute's calls; those cut by their deadline count with what they had.

        Older ones do not count, so a judge that was too slow is tried again after a minute.
        """
        took = [call.took_s for call in self._calls if call.took_s is not None]
        return median(took) if took else FIRST_GUESS_S
