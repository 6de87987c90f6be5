"""An event loop with virtual time: a wait of 0.2 s takes no real time and exactly 0.2 s of the loop's."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Skip(selectors.DefaultSelector):
    """Advances the time to the next timer instead of waiting for it."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            if timeout is None:
                raise RuntimeError("every task waits, and there is no timer")
            self.now += timeout
        return events


class VirtualTime(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skip = Skip()
        super().__init__(self._skip)

    def time(self) -> float:
        return self._skip.now

    def be_busy(self, seconds: float) -> None:
        """Advances the time as a blocking callback would."""
        self._skip.now += seconds


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in virtual time and returns its result; it must leave no task."""

    async def watched() -> T:
        result = await coroutine
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(watched())
