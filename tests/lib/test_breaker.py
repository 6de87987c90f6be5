"""The breaker opens after five failures in a row, waits longer each time, and lets exactly one probe through."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from fusion.lib.breaker import CAP_S, FAILURES, FIRST_S, RETRY_AFTER_CAP_S, SPREAD, Breaker, Permit


class Clock:
    """Monotonic seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def middle() -> float:
    """A draw without spread: 1 − 0.2 + 2 × 0.2 × 0.5 = 1."""
    return 0.5


def permit(breaker: Breaker) -> Permit:
    admitted = breaker.admit()
    assert admitted is not None
    return admitted


def state(breaker: Breaker) -> str:
    return breaker.state


def fail(breaker: Breaker, times: int = 1) -> None:
    for _ in range(times):
        permit(breaker).failed()


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(clock, middle)
    fail(breaker, FAILURES)
    return breaker


def test_opens_after_five_failures_in_a_row() -> None:
    """Four are noise; the fifth opens. A success in between starts the count anew."""
    breaker = Breaker(Clock(), middle)
    fail(breaker, 4)
    permit(breaker).succeeded()
    fail(breaker, 4)
    assert state(breaker) == "closed"
    fail(breaker)
    assert state(breaker) == "open"
    assert breaker.admit() is None
    assert breaker.reason == "open"


def test_one_probe_however_many_ask() -> None:
    """When the time is up, one of a hundred goes; the others are refused until its outcome is known."""
    clock = Clock()
    breaker = opened(clock)
    clock.now += FIRST_S
    assert state(breaker) == "half_open"
    admitted = [p for p in (breaker.admit() for _ in range(100)) if p]
    assert [p.probe for p in admitted] == [True]
    admitted[0].succeeded()
    assert state(breaker) == "closed"
    assert all(breaker.admit() for _ in range(100))


def test_waits_twice_as_long_after_each_failed_probe() -> None:
    """5, 10, 20, 40, 80, then 120 s for good."""
    clock = Clock()
    breaker = opened(clock)
    waits = []
    for _ in range(8):
        waits.append(breaker.wait_s)
        clock.now += breaker.wait_s
        permit(breaker).failed()
    assert waits == [5, 10, 20, 40, 80, 120, 120, 120]


def test_a_flapping_backend_waits_longer_too() -> None:
    """One good answer does not reset the wait, five in a row do: 5 s, probe well, five failures, 10 s."""
    clock = Clock()
    breaker = opened(clock)
    clock.now += 5
    permit(breaker).succeeded()
    fail(breaker, FAILURES)
    assert breaker.wait_s == 10
    clock.now += 10
    for _ in range(FAILURES):
        permit(breaker).succeeded()
    fail(breaker, FAILURES)
    assert breaker.wait_s == 5


def test_spread_is_a_fifth() -> None:
    """The draw moves the wait between 80 % and 120 %: 4 to 6 s at first."""
    low, high = Breaker(Clock(), lambda: 0.0), Breaker(Clock(), lambda: 1.0)
    fail(low, FAILURES)
    fail(high, FAILURES)
    assert (round(low.wait_s, 9), round(high.wait_s, 9)) == (4, 6)


def test_retry_after_is_honoured_up_to_five_minutes() -> None:
    """A 503 that names a time is left alone for that time, and still counts as a failure."""
    clock = Clock()
    breaker = Breaker(clock, middle)
    permit(breaker).failed(retry_after_s=30)
    assert breaker.wait_s == 30
    clock.now += 30
    permit(breaker).failed(retry_after_s=86_400)
    assert breaker.wait_s == RETRY_AFTER_CAP_S
    for nonsense in (float("nan"), -5.0, 0.0):
        other = Breaker(clock, middle)
        permit(other).failed(retry_after_s=nonsense)
        assert other.state == "closed"


def test_rate_limiting_suspends_and_is_no_failure() -> None:
    """After the time that it asked for it is probed, and four failures still do not open it."""
    clock = Clock()
    breaker = Breaker(clock, middle)
    permit(breaker).rate_limited(7)
    assert (breaker.admit(), breaker.reason, breaker.wait_s) == (None, "rate_limited", 7)
    clock.now += 7
    permit(breaker).succeeded()
    fail(breaker, 4)
    assert state(breaker) == "closed"
    permit(breaker).rate_limited(None)
    assert breaker.wait_s == 5


def test_unauthorized_suspends_for_a_minute() -> None:
    """A wrong credential is not tried again for 60 s, then once."""
    clock = Clock()
    breaker = Breaker(clock, middle)
    permit(breaker).unauthorized()
    clock.now += 59
    assert breaker.admit() is None
    assert breaker.reason == "unauthorized"
    clock.now += 1
    assert permit(breaker).probe
    assert breaker.admit() is None


def test_a_cancelled_call_is_not_counted() -> None:
    """The client left: four failures stay four, and an abandoned probe may be made again at once."""
    clock = Clock()
    breaker = Breaker(clock, middle)
    fail(breaker, 4)
    permit(breaker).abandoned()
    assert state(breaker) == "closed"
    fail(breaker)
    clock.now += 5
    permit(breaker).abandoned()
    assert permit(breaker).probe
    assert breaker.admit() is None


@pytest.mark.feature(
    "a healthy backend that is late because of many questions at once is not blamed; one that answers none is"
)
def test_calls_that_are_late_together_are_one_failure() -> None:
    """A crowd is late because of itself. What begins after a late call was noticed, and is late, is another failure."""
    breaker = Breaker(Clock(), middle)
    for _ in range(4):
        for one in [permit(breaker) for _ in range(64)]:
            one.late()
    assert state(breaker) == "closed"
    permit(breaker).late()
    assert state(breaker) == "open"


def test_one_answer_of_a_crowd_begins_the_count_anew() -> None:
    """Sixty-three late and one in time, however often: it answers, so it is asked."""
    breaker = Breaker(Clock(), middle)
    for _ in range(20):
        first, *others = [permit(breaker) for _ in range(64)]
        first.succeeded()
        for one in others:
            one.late()
    assert state(breaker) == "closed"


def test_a_late_probe_fails() -> None:
    """It was alone: it is left alone for twice as long."""
    clock = Clock()
    breaker = Breaker(clock, middle)
    early = [permit(breaker) for _ in range(2)]
    fail(breaker, FAILURES)
    early[0].late()
    clock.now += FIRST_S
    probe = permit(breaker)
    early[1].late()
    probe.late()
    assert breaker.wait_s == 2 * FIRST_S


def test_the_last_one_is_not_ejected() -> None:
    """Failures of the last backend that answers are counted, but open nothing until another answers again."""
    breaker = Breaker(Clock(), middle)
    for _ in range(20):
        permit(breaker).failed(last=True)
    assert state(breaker) == "closed"
    fail(breaker)
    assert state(breaker) == "open"


def test_late_outcomes_are_about_the_past() -> None:
    """A call that was under way when it opened neither closes nor prolongs it; an outcome counts once."""
    clock = Clock()
    breaker = Breaker(clock, middle)
    slow = [permit(breaker) for _ in range(3)]
    fail(breaker, FAILURES)
    slow[0].succeeded()
    slow[1].failed()
    slow[2].rate_limited(300)
    assert (breaker.state, breaker.wait_s) == ("open", 5)
    clock.now += 5
    probe = permit(breaker)
    probe.succeeded()
    probe.failed()
    assert state(breaker) == "closed"


@pytest.mark.feature("the breaker agrees with a model of it in every sequence")
class BreakerModel(RuleBasedStateMachine):
    """Any order of calls, outcomes and pauses, against a model that is a handful of numbers."""

    permits = Bundle("permits")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.breaker = Breaker(self.clock, middle)
        self.failures = 0
        self.closed = True
        self.refused_until = 0.0
        self.probe: Permit | None = None
        self.current: set[Permit] = set()  # permits whose outcome still matters
        self.together: set[Permit] = set()  # those of them that were under way when one was late

    @rule(target=permits, calls=st.integers(1, 4))
    def call(self, calls: int) -> Permit:
        admitted = [self.breaker.admit() for _ in range(calls)]
        got = [p for p in admitted if p is not None]
        if self.closed:
            assert len(got) == calls
        elif self.probe is not None or self.clock.now < self.refused_until:
            assert got == []
        else:
            assert [p.probe for p in got] == [True]
            self.probe = got[0]
        self.current.update(got)
        return got[0] if got else Permit(self.breaker, -1, probe=False)

    def opens(self, at_least_s: float, at_most_s: float) -> None:
        assert not self.breaker.closed
        assert at_least_s <= self.breaker.wait_s <= at_most_s
        self.closed, self.probe = False, None
        self.refused_until = self.clock.now + self.breaker.wait_s
        self.current.clear()

    @rule(permit=consumes(permits))
    def succeed(self, permit: Permit) -> None:
        permit.succeeded()
        if permit in self.current:
            self.current.discard(permit)
            self.failures = 0
            if permit is self.probe:
                self.closed, self.probe = True, None
                self.current.clear()

    @rule(permit=consumes(permits), last=st.booleans())
    def fail(self, permit: Permit, last: bool) -> None:
        permit.failed(last=last)
        if permit in self.current:
            self.current.discard(permit)
            self.failures += 1
            if permit is self.probe or (self.failures >= FAILURES and not last):
                self.opens(FIRST_S * (1 - SPREAD), CAP_S * (1 + SPREAD))

    @rule(permit=consumes(permits), last=st.booleans())
    def be_late(self, permit: Permit, last: bool) -> None:
        permit.late(last=last)
        if permit in self.current:
            self.current.discard(permit)
            if permit not in self.together:
                self.together = set(self.current)
                self.failures += 1
                if permit is self.probe or (self.failures >= FAILURES and not last):
                    self.opens(FIRST_S * (1 - SPREAD), CAP_S * (1 + SPREAD))

    @rule(permit=consumes(permits), retry_after_s=st.floats(0.1, 1000))
    def rate_limit(self, permit: Permit, retry_after_s: float) -> None:
        permit.rate_limited(retry_after_s)
        if permit in self.current:
            self.opens(min(RETRY_AFTER_CAP_S, retry_after_s) - 1e-6, RETRY_AFTER_CAP_S + 1e-6)

    @rule(permit=consumes(permits))
    def leave(self, permit: Permit) -> None:
        permit.abandoned()
        if permit in self.current:
            self.current.discard(permit)
            if permit is self.probe:
                self.opens(0, 0)

    @rule(seconds=st.floats(0.1, 200))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @precondition(lambda self: not self.closed and self.probe is None)
    @rule()
    def wait_until_due(self) -> None:
        self.clock.now = max(self.clock.now, self.refused_until)

    @invariant()
    def agrees(self) -> None:
        assert self.breaker.closed == self.closed
        if not self.closed and self.probe is None and self.clock.now < self.refused_until:
            assert self.breaker.state == "open"


BreakerModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestBreakerModel = BreakerModel.TestCase
