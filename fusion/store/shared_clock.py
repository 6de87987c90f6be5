"""The clock of gateways that share a database: the database's, so that gateways whose machines disagree do not.

Times that one gateway writes and another compares are all by it: when a delivery is tried again, what a receipt and a
tombstone say, when a key, a session or a history expires.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NoReturn

from fusion.errors import FusionError
from fusion.lib.clock import Clock

log = logging.getLogger(__name__)

EVERY_S = 15.0
"""seconds between two comparisons, for a machine whose clock is set meanwhile or drifts"""
WORTH_SAYING = timedelta(seconds=5)
"""a difference of this machine's clock that the log names"""


class SharedClock:
    """The time of a database, by this machine's clock and the difference that was found last.

    ``ask`` returns the database's time; it blocks. The difference is off by half of a round trip at most.
    """

    def __init__(self, local: Clock, ask: Callable[[], datetime]) -> None:
        self._local, self._ask = local, ask
        self.ahead = timedelta()
        """how far the database's clock is ahead of this machine's"""

    def __call__(self) -> datetime:
        return self._local() + self.ahead

    async def compare(self) -> None:
        """Find the difference anew. Raises the errors of ``ask``."""
        before = self._local()
        there = await asyncio.to_thread(self._ask)
        after = self._local()
        found = there - (before + (after - before) / 2)
        if abs(found - self.ahead) > WORTH_SAYING:
            log.warning(
                "this machine's clock differs from the database's by %.0f s, so the database's is used: set the clock",
                abs(found).total_seconds(),
            )
        self.ahead = found

    async def follow(self) -> NoReturn:
        """Compare regularly, until it is cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.compare()
            except FusionError as error:
                log.debug("the clocks were not compared: %s", type(error).__name__)
