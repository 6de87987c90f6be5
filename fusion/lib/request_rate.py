"""Limits the requests of each tenant in a minute, also where several gateways serve it.

The count is that of a sliding window made of two fixed minutes: those of this minute, and of the one before the share
that the window still covers. Each gateway counts its own requests and exchanges them with the others a second later, so
that no request waits for it; together they may pass the limit by what they admit in that second.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

EXCHANGE_S = 1.0
"""seconds between a request and the exchange that has it"""
WINDOW_S = 60.0
ROUNDING = 1e-9

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Counted:
    """Requests by tenant in the fixed minute of which ``passed_s`` seconds have passed, and in the one before."""

    passed_s: float
    this: Mapping[str, float]
    before: Mapping[str, float]

    def after(self, seconds: float) -> Counted:
        """The same requests, that many seconds later."""
        minutes, passed_s = divmod(self.passed_s + seconds, WINDOW_S)
        if not minutes:
            return Counted(passed_s, self.this, self.before)
        return Counted(passed_s, {}, self.this if minutes == 1 else {})

    def with_more(self, requests: Mapping[str, int]) -> Counted:
        """With requests of now."""
        every = {*self.this, *requests}
        more = {tenant: self.this.get(tenant, 0.0) + requests.get(tenant, 0) for tenant in every}
        return Counted(self.passed_s, more, self.before)

    def wait_s(self, tenant: str, most: int) -> float:
        """Seconds until the window has room for one more of ``most`` requests; 0.0 if it has."""
        this, before = self.this.get(tenant, 0.0), self.before.get(tenant, 0.0)
        room = most - 1
        if this <= room:
            leaves_at = WINDOW_S * (1 - (room - this) / before) if before else 0.0
            return leaves_at - self.passed_s if leaves_at - self.passed_s > ROUNDING else 0.0
        return WINDOW_S - self.passed_s + WINDOW_S * (1 - room / this)


Exchange = Callable[[Mapping[str, int]], Awaitable[Counted]]
"""adds requests by tenant to those of all gateways, and returns these"""


class RequestRates:
    """Admits at most ``most`` requests of a tenant in a minute. ``clock`` gives seconds that only grow."""

    def __init__(
        self,
        most: int,
        exchange: Exchange,
        clock: Callable[[], float] = time.monotonic,
        exchange_s: float = EXCHANGE_S,
    ) -> None:
        self._most = most
        self._exchange = exchange
        self._clock = clock
        self._exchange_s = exchange_s
        self._known = Counted(0.0, {}, {})
        """as of the last exchange"""
        self._known_at = clock()
        self._own: Counter[str] = Counter()
        """requests that were admitted since"""
        self.exchanging: asyncio.Task[None] | None = None
        """the exchange that is next or under way"""

    def take(self, tenant: str) -> float:
        """Count a request and return 0.0; or, over the limit, the seconds until one more may be admitted."""
        counted = self._known.after(self._clock() - self._known_at).with_more({tenant: self._own[tenant]})
        wait_s = counted.wait_s(tenant, self._most)
        if not wait_s:
            self._own[tenant] += 1
        if self.exchanging is None or self.exchanging.done():
            self.exchanging = asyncio.create_task(self._learn())
        return wait_s

    async def close(self) -> None:
        """End the exchange that is next or under way."""
        if self.exchanging is not None:
            self.exchanging.cancel()
            await asyncio.wait([self.exchanging])

    async def _learn(self) -> None:
        """Exchange the counts. Without an answer this gateway goes on with its own."""
        await asyncio.sleep(self._exchange_s)
        sent, at = +self._own, self._clock()
        known = self._known.after(at - self._known_at).with_more(sent)
        try:
            known = await self._exchange(sent)
        except Exception as error:  # noqa: BLE001 — requests are counted after any error of the database
            log.debug("the requests of other gateways are not known: %s", type(error).__name__)
        self._own -= sent
        self._known, self._known_at = known, at


class RequestCounts:
    """The requests of one process by tenant, for a gateway without a database."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = clock()
        self._counted = Counted(self._at % WINDOW_S, {}, {})

    async def exchange(self, requests: Mapping[str, int]) -> Counted:
        """As `Exchange`."""
        now = self._clock()
        self._counted, self._at = self._counted.after(now - self._at).with_more(requests), now
        return self._counted
