"""Admission: few questions at once while this process computes, more while it waits; each one gets a result."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.errors import Overloaded
from fusion.gateway.admission import INTERVAL_S, LATE_S, START_LIMIT, Admission
from tests.virtual_time import VirtualTime, run

MINUTE = 60.0


class Crowd:
    """Questions that each hold their slot for the same time; ``at_once`` is the largest number under way."""

    def __init__(self, turns: Admission) -> None:
        self.admission = turns
        self.order: list[int] = []
        self.at_once = self._now = 0

    async def ask(self, number: int, takes_s: float, patience_s: float = MINUTE) -> None:
        async with self.admission.slot(patience_s):
            self.order.append(number)
            self._now += 1
            self.at_once = max(self.at_once, self._now)
            try:
                await asyncio.sleep(takes_s)
            finally:
                self._now -= 1

    async def come(self, count: int, takes_s: float) -> None:
        await asyncio.gather(*(self.ask(n, takes_s) for n in range(count)))


def computing(share: float) -> Callable[[], float]:
    """A process that computes this share of the time."""
    return lambda: share * asyncio.get_running_loop().time()


def at_rest() -> float:
    return 0.0


@pytest.mark.feature("few questions compute at once, more may wait for servers; each gets its turn")
def test_limit_stays_at_start_while_cpu_bound() -> None:
    """192 questions of 0.1 s over a busy core: 4 at a time, so the last one ends after 192 / 4 × 0.1 = 4.8 s."""

    async def work() -> float:
        crowd = Crowd(Admission(64, computing(0.99)))
        await crowd.come(192, 0.1)
        assert crowd.order == list(range(192))
        assert crowd.at_once == START_LIMIT
        return asyncio.get_running_loop().time()

    assert run(work()) == pytest.approx(4.8)


@pytest.mark.feature("few questions compute at once, more may wait for servers; each gets its turn")
def test_limit_rises_to_the_maximum_while_waiting() -> None:
    """Slow servers and an idle process: the limit doubles at each adjustment (4, 8, 16, 32, 64) up to the maximum."""

    async def work() -> None:
        crowd = Crowd(Admission(64, at_rest))
        coming = asyncio.ensure_future(crowd.come(192, 1.0))
        seen = []
        for _ in range(6):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            seen.append(crowd.at_once)
            await asyncio.sleep(INTERVAL_S)
        await coming
        assert seen == [4, 8, 16, 32, 64, 64]

    run(work())


def test_limit_follows_cpu_time() -> None:
    """Each question uses 4 % of a core, so that about 20 of them are under way: 80 %."""

    async def work() -> int:
        loop = asyncio.get_running_loop()
        computed, since = 0.0, loop.time()

        def cpu() -> float:
            nonlocal computed, since
            computed, since = computed + 0.04 * turns.under_way * (loop.time() - since), loop.time()
            return computed

        turns = Admission(64, cpu)
        coming = asyncio.ensure_future(Crowd(turns).come(400, 1.0))
        await asyncio.sleep(10)
        under_way = turns.under_way
        await coming
        return under_way

    assert 18 <= run(work()) <= 22


def test_late_adjustment_halves_the_limit() -> None:
    """Other programs keep the machine busy; more questions at once would only be slower."""

    async def work() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTime)
        turns = Admission(64, at_rest)
        coming = asyncio.ensure_future(Crowd(turns).come(400, 1.0))
        await asyncio.sleep(5 * INTERVAL_S)
        before = turns.limit
        loop.call_later(INTERVAL_S / 2, loop.be_busy, INTERVAL_S + LATE_S)
        await asyncio.sleep(INTERVAL_S)
        after = turns.limit
        await coming
        return before, after

    assert run(work()) == (64, 32)


def test_limit_returns_to_start_after_a_pause() -> None:
    """The next questions may need more CPU time than the last ones."""

    async def work() -> None:
        turns = Admission(64, at_rest)
        await Crowd(turns).come(64, 1.0)
        assert (turns.under_way, turns.limit) == (0, START_LIMIT)

    run(work())


def test_slot_wait_ends_with_overloaded() -> None:
    """The error has the time to retry, and the other questions are not affected."""

    async def work() -> list[int]:
        crowd = Crowd(Admission(1, at_rest))
        coming = asyncio.ensure_future(crowd.come(2, 1.0))
        await asyncio.sleep(0.5)
        with pytest.raises(Overloaded, match=r"was free within 0\.2 s") as refused:
            await crowd.ask(7, 1.0, patience_s=0.2)
        assert refused.value.retry_after_s == 1
        assert asyncio.get_running_loop().time() == pytest.approx(0.7)
        await coming
        assert crowd.admission.under_way == 0
        return crowd.order

    assert run(work()) == [0, 1]


def test_slot_of_a_cancelled_question_goes_to_the_next() -> None:
    """The slot is assigned and its question is cancelled at the same moment."""

    async def work() -> list[int]:
        crowd = Crowd(Admission(1, at_rest))
        async with crowd.admission.slot(MINUTE):
            left, last = (asyncio.ensure_future(crowd.ask(n, 1.0)) for n in (1, 2))
            await asyncio.sleep(0.5)
        left.cancel()
        await last
        assert left.cancelled()
        assert crowd.admission.under_way == 0
        return crowd.order

    assert run(work()) == [2]


@pytest.mark.feature("few questions compute at once, more may wait for servers; each gets its turn")
@given(
    questions=st.lists(st.tuples(st.floats(0, 0.3), st.floats(0, 0.3), st.floats(0, 0.5)), max_size=40),
    most=st.integers(1, 12),
    share=st.floats(0, 2),
)
def test_every_question_gets_a_slot_or_an_error(
    questions: list[tuple[float, float, float]], most: int, share: float
) -> None:
    """For any arrival times, durations and time limits; in the end all slots are free."""

    async def work() -> None:
        crowd = Crowd(Admission(most, computing(share)))

        async def one(comes_s: float, takes_s: float, patience_s: float) -> None:
            await asyncio.sleep(comes_s)
            await crowd.ask(0, takes_s, patience_s)

        ends = await asyncio.gather(*(one(*times) for times in questions), return_exceptions=True)
        assert {type(end) for end in ends} <= {type(None), Overloaded}
        assert len(crowd.order) == ends.count(None)
        assert crowd.at_once <= most
        assert crowd.admission.under_way == 0

    run(work())


@pytest.mark.feature("a tenant that floods the gateways does not keep others from being answered")
def test_a_tenant_that_floods_three_gateways_starves_nobody() -> None:
    """300 questions a gateway of one tenant, of 0.1 s each; each of another tenant's is answered within its 1.5 s."""

    async def work() -> None:
        gateways = [Admission(64, computing(0.99)) for _ in range(3)]
        answered: Counter[str] = Counter()

        async def ask(number: int, tenant: str) -> None:
            async with gateways[number % 3].slot(1.5, tenant):
                await asyncio.sleep(0.1)
                answered[tenant] += 1

        flood = [asyncio.create_task(ask(n, "flood")) for n in range(900)]
        await asyncio.sleep(0.5)
        await asyncio.gather(*(ask(n, "quiet") for n in range(30)))
        refused = [one for one in await asyncio.gather(*flood, return_exceptions=True) if one is not None]
        assert answered["quiet"] == 30
        assert refused
        assert all(isinstance(one, Overloaded) for one in refused)
        assert answered["flood"] + len(refused) == 900
        assert all(one.under_way == 0 for one in gateways)

    run(work())
