"""A circuit breaker for one backend or model: after five failures in a row no call goes to it for a while, then one.

    closed ──5 failures in a row──▶ open ──time is up──▶ half-open ──the probe succeeds──▶ closed
       │                             ▲                      │
       └──asked to wait: 429, 401 ───┴──the probe fails─────┘  (for twice as long)

M. Nygard, "Release It!", 2007. In addition to the published ones: exactly one call is let through as a probe when the
time is up; a Retry-After is honoured; a request to wait is not a failure; and calls that were under way together and
time out count as one failure, since they may have delayed one another.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

from fusion.lib.backoff import backoff_s

State = Literal["closed", "open", "half_open"]
Reason = Literal["open", "rate_limited", "unauthorized"]

FAILURES = 5  # in a row; fewer would open on the noise of one busy second
FIRST_S, CAP_S = 5.0, 120.0  # how long it stays open: 5 s, doubled at each failed probe, at most two minutes…
SPREAD = 0.2  # …each time ± 20 %, so that many gateways do not return to a server at one instant
RETRY_AFTER_CAP_S = 300.0  # no server may silence itself for longer
RATE_LIMITED_S = 5.0  # for a 429 that does not say how long
UNAUTHORIZED_S = 60.0  # a new credential takes somebody a minute


class Waits(NamedTuple):
    """The times that a breaker stays open, in seconds."""

    first_s: float = FIRST_S
    cap_s: float = CAP_S
    spread: float = SPREAD
    rate_limited_s: float = RATE_LIMITED_S
    """after a 429 that does not say how long"""
    unauthorized_s: float = UNAUTHORIZED_S


class Permit:
    """Permission for one call. The caller reports its outcome once; ``abandoned`` if the client cancelled it."""

    __slots__ = ("_breaker", "_era", "_late", "_reported", "probe")

    def __init__(self, breaker: Breaker, era: int, probe: bool) -> None:
        self._breaker, self._era, self.probe = breaker, era, probe
        self._late = breaker._late
        self._reported = False

    def _first_report(self) -> bool:
        """Whether this is the first report, and the breaker's state has not changed since the call began."""
        first, self._reported = not self._reported, True
        return first and self._era == self._breaker._era

    def succeeded(self) -> None:
        if self._first_report():
            self._breaker._succeed(self.probe)

    def failed(self, *, retry_after_s: float | None = None, last: bool = False) -> None:
        """Report a failure. ``last``: no other backend answers, so the breaker stays closed."""
        if self._first_report():
            self._breaker._fail(self.probe, retry_after_s, last)

    def late(self, *, last: bool = False) -> None:
        """Report a timeout. It counts only if the call began after the last timeout that was counted."""
        if self._first_report() and self._late == self._breaker._late:
            self._breaker._late += 1
            self._breaker._fail(self.probe, None, last)

    def rate_limited(self, retry_after_s: float | None) -> None:
        if self._first_report():
            self._breaker._suspend(
                "rate_limited", self._breaker._waits.rate_limited_s if retry_after_s is None else retry_after_s
            )

    def unauthorized(self) -> None:
        if self._first_report():
            self._breaker._suspend("unauthorized", self._breaker._waits.unauthorized_s)

    def abandoned(self) -> None:
        """Report a cancelled call, which says nothing about the backend; a probe may be repeated immediately."""
        if self._first_report() and self.probe:
            self._breaker._open(self._breaker.reason, 0.0)


class Breaker:
    """A circuit breaker. ``clock`` returns monotonic seconds, ``draw`` a random number from 0 to 1 for the spread."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
        failures: int = FAILURES,
        waits: Waits | None = None,
    ) -> None:
        self._clock, self._draw, self._limit = clock, draw, failures
        self._waits = waits or Waits()
        self._state: State = "closed"
        self._era = 0
        self._until = 0.0
        self._failures = 0  # in a row
        self._late = 0  # calls that were too late, as counted
        self._successes = 0  # in a row, up to the limit
        self._openings = 0  # since it was last healthy for as long as it takes to open
        self.reason: Reason = "open"

    @property
    def state(self) -> State:
        """The state that the next call would find: half-open as soon as the time is up."""
        if self._state == "open" and self._clock() >= self._until:
            return "half_open"
        return self._state

    @property
    def closed(self) -> bool:
        return self._state == "closed"

    @property
    def healthy(self) -> bool:
        """Whether it is closed and has fewer failures in a row than the limit."""
        return self._state == "closed" and self._failures < self._limit

    @property
    def wait_s(self) -> float:
        """Seconds until the next call is allowed; 0 if it is allowed now, or while a probe is under way."""
        return max(0.0, self._until - self._clock()) if self._state == "open" else 0.0

    def admit(self) -> Permit | None:
        """A permit for one call, or ``None``; `reason` then has the reason."""
        if self._state == "closed":
            return Permit(self, self._era, probe=False)
        if self._state == "half_open" or self._clock() < self._until:
            return None
        self._turn("half_open")
        return Permit(self, self._era, probe=True)

    def _turn(self, state: State) -> None:
        # Reports of calls that began in an earlier state are ignored.
        self._state = state
        self._era += 1

    def _succeed(self, probe: bool) -> None:
        self._failures = 0
        self._successes = min(self._limit, self._successes + 1)
        if self._successes == self._limit:
            self._openings = 0  # only after several successes, since the server may be unstable
        if probe:
            self._turn("closed")

    def _fail(self, probe: bool, retry_after_s: float | None, last: bool) -> None:
        self._failures += 1
        self._successes = 0
        asked_s = 0.0 if retry_after_s is None else retry_after_s
        if probe or (self._failures >= self._limit and not last):
            self._open("open", max(self._backoff_s(), _bounded(asked_s)))
        elif asked_s > 0:
            self._open("open", _bounded(asked_s))

    def _suspend(self, reason: Reason, seconds: float) -> None:
        self._open(reason, _bounded(seconds))

    def _backoff_s(self) -> float:
        self._openings += 1
        waits = self._waits
        return backoff_s(self._openings, waits.first_s, waits.cap_s, spread=waits.spread, draw=self._draw)

    def _open(self, reason: Reason, seconds: float) -> None:
        self.reason = reason
        self._until = self._clock() + seconds
        self._turn("open")


def _bounded(seconds: float) -> float:
    """The seconds that a server asked for, at most the cap; 0 for NaN and negative numbers."""
    return min(RETRY_AFTER_CAP_S, seconds) if seconds > 0 else 0.0
