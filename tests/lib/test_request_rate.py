"""The requests of each tenant in a minute: the window, several gateways, and a database that does not answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.errors import DatabaseUnreachable
from fusion.lib.request_rate import Counted, RequestCounts, RequestRates


@dataclass
class Seconds:
    """A clock that stands until it is set."""

    now: float = 600.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


def limited(most: int, clock: Seconds, counts: RequestCounts | Failing | None = None) -> RequestRates:
    """Rates that exchange their counts at once."""
    return RequestRates(most, (counts or RequestCounts(clock)).exchange, clock, 0.0)


async def take(rates: RequestRates, tenant: str = "acme") -> float:
    """The wait that a request is given, after the exchange that it started."""
    wait_s = rates.take(tenant)
    if rates.exchanging is not None:
        await rates.exchanging
    return wait_s


async def admitted(rates: RequestRates, tries: int) -> int:
    return [await take(rates) for _ in range(tries)].count(0.0)


async def test_the_window_slides(clock: Seconds) -> None:
    """Ten in the last second of a minute leave it evenly in the next one: 14 s into it 10 × 46/60 = 7.7 are left, so
    two more fit; 30 s into it there are 10 × 30/60 + 2 = 7, so three."""
    rates = limited(10, clock)
    clock.now = 659.0
    assert await admitted(rates, 12) == 10
    clock.now = 674.0
    assert await admitted(rates, 4) == 2
    clock.now = 690.0
    assert await admitted(rates, 5) == 3


async def test_requests_of_a_minute_do_not_leave_it_before_its_end(clock: Seconds) -> None:
    """A tenant that is silent after its first request, and asks again 59 s later, has no more than the rest."""
    rates = limited(600, clock)
    assert await admitted(rates, 600) == 600
    clock.now += 59.0
    assert await admitted(rates, 10) == 0


@given(st.integers(1, 50), st.floats(0, 59.9), st.integers(1, 80), st.integers(0, 80))
def test_whoever_waits_as_long_as_was_said_is_admitted(most: int, passed_s: float, this: int, before: int) -> None:
    """And a tenth of a second earlier is not, unless nothing has to be waited for."""
    counted = Counted(passed_s, {"acme": this}, {"acme": before})
    wait_s = counted.wait_s("acme", most)
    assert 0 <= wait_s <= 120
    assert math.isclose(counted.after(wait_s + 1e-6).wait_s("acme", most), 0.0, abs_tol=1e-5)
    if wait_s > 0.1:
        assert counted.after(wait_s - 0.1).wait_s("acme", most) > 0.0


async def test_a_refused_request_says_when_the_next_is_admitted(clock: Seconds) -> None:
    """20 at the beginning of a minute: its end is 60 s away, and 3 s later the first of them has left. What is refused
    does not count."""
    rates = limited(20, clock)
    assert await admitted(rates, 20) == 20
    waits = {round(await take(rates), 6) for _ in range(50)}
    assert waits == {63.0}
    clock.now += 63.0
    assert await admitted(rates, 2) == 1


async def test_a_tenant_that_used_its_minute_up_takes_nothing_from_another(clock: Seconds) -> None:
    rates = limited(5, clock)
    assert await admitted(rates, 7) == 5
    assert [await take(rates, "globex") for _ in range(5)] == [0.0] * 5


async def test_gateways_share_the_requests_of_a_tenant(clock: Seconds) -> None:
    """Each learns by its next exchange what the other admitted: 6 here, so 4 there."""
    counts = RequestCounts(clock)
    here, there = (limited(10, clock, counts) for _ in range(2))
    assert await admitted(here, 6) == 6
    await take(there, "another")
    assert await admitted(there, 5) == 4


class Failing:
    """The counts of a database that does not answer."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def exchange(self, requests: Mapping[str, int]) -> Counted:
        raise self._error


@pytest.mark.parametrize("error", [DatabaseUnreachable("PostgreSQL does not answer"), ValueError("not known")])
async def test_without_the_others_a_gateway_goes_on_with_its_own_count(clock: Seconds, error: Exception) -> None:
    """Ten in a minute; half a minute after its end five are left of them."""
    rates = limited(10, clock, Failing(error))
    assert await admitted(rates, 12) == 10
    clock.now += 90.0
    assert await admitted(rates, 8) == 5
    clock.now += 200.0
    assert await admitted(rates, 12) == 10
