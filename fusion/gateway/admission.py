"""Limits the number of questions that are answered at once, and adapts the limit to the CPU time of this process.

A question makes this process compute (embedded backends, ranking) and wait (for servers). If computing takes most of
the time, many questions at once finish no sooner than a few; they only end together, past the deadlines of backends
without a fault. If waiting does, a few questions would leave the process idle. So the limit starts at `START_LIMIT`;
while questions wait, it follows the CPU time of the process up to `CPU_SHARE` of one core (Python's lock allows hardly
more), at most doubled or halved at each step as in TCP's slow start (V. Jacobson, "Congestion avoidance and control",
1988). When no question is left, it returns to the start.

A free slot is for the tenant that has the fewest, so one that floods the gateway delays its own questions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fusion.errors import Overloaded
from fusion.lib.fair_queue import FairQueue

START_LIMIT = 4
"""questions at once that keep two cores busy: with eight, each takes twice as long, and no more are answered"""
CPU_SHARE = 0.8
"""share of one core that the process may use before more questions at once only take longer"""
INTERVAL_S = 0.05
"""seconds between two adjustments of the limit"""
LATE_S = 0.025
"""seconds by which an adjustment is late on a busy machine, perhaps busy with other processes: the limit is halved"""


class Admission:
    """Admits questions, those of one tenant in the order of arrival, at most ``most`` at once.

    ``cpu`` returns the CPU time of this process so far, in seconds.
    """

    def __init__(self, most: int = 64, cpu: Callable[[], float] = time.process_time) -> None:
        self._most, self._start = most, min(START_LIMIT, most)
        self._cpu = cpu
        self._queue = FairQueue()
        self._next_adjustment: asyncio.TimerHandle | None = None
        self.limit = self._start
        """number of questions that may be under way now"""
        self.under_way = 0

    @asynccontextmanager
    async def slot(self, max_wait_s: float, tenant: str = "") -> AsyncIterator[None]:
        """Hold a slot until the end of the block. Raises Overloaded if none is free within ``max_wait_s``."""
        slot = self._queue.join(tenant)
        self._admit()
        if not slot.done():
            await self._wait(slot, max_wait_s, tenant)
        try:
            yield
        finally:
            self._release(tenant)

    async def _wait(self, slot: asyncio.Future[None], max_wait_s: float, tenant: str) -> None:
        if self._next_adjustment is None:
            self._schedule_adjustment()
        try:
            async with asyncio.timeout(max_wait_s):
                await slot
        except BaseException as error:
            if self._queue.leave(tenant, slot):  # the slot became free at the moment of the timeout
                self._release(tenant)
            if isinstance(error, TimeoutError):
                raise Overloaded(
                    f"Too many questions at once: no slot was free within {max_wait_s:g} s. Try again in a second."
                ) from None
            raise

    def _admit(self) -> None:
        while self.under_way < self.limit and self._queue.admit():
            self.under_way += 1

    def _release(self, tenant: str) -> None:
        self.under_way -= 1
        self._queue.release(tenant)
        self._admit()
        if self.under_way == 0:
            self.limit = self._start
            if self._next_adjustment is not None:
                self._next_adjustment.cancel()
                self._next_adjustment = None

    def _schedule_adjustment(self) -> None:
        loop = asyncio.get_running_loop()
        self._next_adjustment = loop.call_later(INTERVAL_S, self._adjust, loop.time(), self._cpu())

    def _adjust(self, since: float, cpu_before_s: float) -> None:
        took_s = asyncio.get_running_loop().time() - since
        share = max((self._cpu() - cpu_before_s) / took_s, CPU_SHARE / 2)
        factor = 0.5 if took_s > INTERVAL_S + LATE_S else max(0.5, CPU_SHARE / share)
        if factor < 1 or len(self._queue):
            self.limit = max(self._start, min(self._most, int(self.limit * factor)))
        self._admit()
        self._schedule_adjustment()
