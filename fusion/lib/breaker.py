"""A circuit breaker for one backend or model: after five failures in a row no call goes to it for a while, then one.

    closed ──5 failures in a row──▶ open ──time is up──▶ half-open ──the probe succeeds──▶ closed
       │                             ▲                      │
       └──asked to wait: 429, 401 ───┴──the probe fails─────┘  (for twice as long)

M. Nygard, "Release It!", 2007. Four things that none of the published ones does: however many calls wait when the time
is up, exactly one goes; a Retry-After is honoured; being asked to wait is not a failure; and calls that
were under way together and end too late are one failure, because in a crowd they are late through one another.
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
SPREAD = 0.2  # …each time ± 20 %, lest many gateways come back to a server at one instant
RETRY_AFTER_CAP_S = 300.0  # no server may silence itself for longer
RATE_LIMITED_S = 5.0  # for a 429 that does not say how long
UNAUTHORIZED_S = 60.0  # a new credential takes somebody a minute


class Waits(NamedTuple):
    """Seconds that a breaker stays open."""

    first_s: float = FIRST_S
    cap_s: float = CAP_S
    spread: float = SPREAD
    rate_limited_s: float = RATE_LIMITED_S
    """after a 429 that does not say how long"""
    unauthorized_s: float = UNAUTHORIZED_S


class Permit:
    """The right to make one call. Report its outcome once; of a call that the client left, ``abandoned``."""

    __slots__ = ("_breaker", "_era", "_late", "_reported", "probe")

    def __init__(self, breaker: Breaker, era: int, probe: bool) -> None:
        self._breaker, self._era, self.probe = breaker, era, probe
        self._late = breaker._late
        self._reported = False

    def _first_report(self) -> bool:
        """Whether the outcome still matters: the first one, of a call from before no change of state."""
        first, self._reported = not self._reported, True
        return first and self._era == self._breaker._era

    def succeeded(self) -> None:
        if self._first_report():
            self._breaker._succeed(self.probe)

    def failed(self, *, retry_after_s: float | None = None, last: bool = False) -> None:
        """``last``: no other backend answers, so this one is not ejected, however often it fails."""
        if self._first_report():
            self._breaker._fail(self.probe, retry_after_s, last)

    def late(self, *, last: bool = False) -> None:
        """It failed by not ending in time. Counted only if it began after the latest one that was counted."""
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
        """It says nothing about the backend; a probe may be made again at once."""
        if self._first_report() and self.probe:
            self._breaker._open(self._breaker.reason, 0.0)


class Breaker:
    """``clock`` is monotonic seconds; ``draw`` a number from 0 to 1 for the spread."""

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
        """As a call would find it; half-open from the moment that the time is up."""
        if self._state == "open" and self._clock() >= self._until:
            return "half_open"
        return self._state

    @property
    def closed(self) -> bool:
        return self._state == "closed"

    @property
    def healthy(self) -> bool:
        """Closed, and not merely because it was the last: it answered within its latest few calls, or is new."""
        return self._state == "closed" and self._failures < self._limit

    @property
    def wait_s(self) -> float:
        """Seconds until the next call may be made; 0 when it may be made now, or a probe is under way."""
        return max(0.0, self._until - self._clock()) if self._state == "open" else 0.0

    def admit(self) -> Permit | None:
        """A permit for one call, or ``None``: then `reason` says why not."""
        if self._state == "closed":
            return Permit(self, self._era, probe=False)
        if self._state == "half_open" or self._clock() < self._until:
            return None
        self._turn("half_open")
        return Permit(self, self._era, probe=True)

    def _turn(self, state: State) -> None:
        # Calls that began in an earlier state report to nobody: their outcome is about the past.
        self._state = state
        self._era += 1

    def _succeed(self, probe: bool) -> None:
        self._failures = 0
        self._successes = min(self._limit, self._successes + 1)
        if self._successes == self._limit:
            self._openings = 0  # one good answer from a flapping server does not make it a steady one
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
    """A time that a server asked for, within what is bearable; nonsense (NaN, the past) is none."""
    return min(RETRY_AFTER_CAP_S, seconds) if seconds > 0 else 0.0
