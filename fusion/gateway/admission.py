"""How many questions are worked on at once: few while this process is what they wait for, more while others are.

A question makes this process compute (embedded backends, ranking) and wait (for servers). Where computing is what takes
the time, many at once are answered no sooner than few: they only end together, late, past the deadlines of backends
that did nothing wrong. Where waiting is, few at once would leave the process idle. So a few begin at once, and while
somebody waits for a turn, their number follows what the process computes: to `SHARE` of one core, for Python's lock
lets hardly more than one thread compute; doubled or halved at most, as in TCP's slow start (V. Jacobson, "Congestion
avoidance and control", 1988), and from the beginning again after a pause.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fusion.errors import Overloaded

FEW = 4
"""questions at once that keep two cores busy: with eight, each takes twice as long, and no more are answered"""
SHARE = 0.8
"""of a core: as much as may be computed before more at once would only be later"""
LOOK_S = 0.05
LATE_S = 0.025
"""a look that comes so much later than it was due: the machine is busy, though it may not be with us"""


class Admission:
    """At most ``most`` questions at once. ``cpu`` is what this process has computed so far, in seconds."""

    def __init__(self, most: int = 64, cpu: Callable[[], float] = time.process_time) -> None:
        self._most, self._few = most, min(FEW, most)
        self._cpu = cpu
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._next_look: asyncio.TimerHandle | None = None
        self.limit = self._few
        """how many may be under way now"""
        self.under_way = 0

    @asynccontextmanager
    async def one(self, patience_s: float) -> AsyncIterator[None]:
        """A turn; they are taken in the order of asking. Raises Overloaded when it did not come in ``patience_s``."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._let_in()
        if not turn.done():
            await self._wait(turn, patience_s)
        try:
            yield
        finally:
            self._leave()

    async def _wait(self, turn: asyncio.Future[None], patience_s: float) -> None:
        if self._next_look is None:
            self._look_later()
        try:
            async with asyncio.timeout(patience_s):
                await turn
        except BaseException as error:
            if not turn.cancelled():  # it came in the very moment in which nobody waited for it any more
                self._leave()
            if isinstance(error, TimeoutError):
                raise Overloaded(
                    f"Too many questions at once: its turn did not come in {patience_s:g} s. Try again in a second."
                ) from None
            raise

    def _let_in(self) -> None:
        while self._waiting and self.under_way < self.limit:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                self.under_way += 1
                turn.set_result(None)

    def _leave(self) -> None:
        self.under_way -= 1
        self._let_in()
        if self.under_way == 0:
            self.limit = self._few
            if self._next_look is not None:
                self._next_look.cancel()
                self._next_look = None

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._next_look = loop.call_later(LOOK_S, self._look, loop.time(), self._cpu())

    def _look(self, since: float, computed_s: float) -> None:
        took_s = asyncio.get_running_loop().time() - since
        share = max((self._cpu() - computed_s) / took_s, SHARE / 2)
        factor = 0.5 if took_s > LOOK_S + LATE_S else max(0.5, SHARE / share)
        if factor < 1 or self._waiting:
            self.limit = max(self._few, min(self._most, int(self.limit * factor)))
        self._let_in()
        self._look_later()
