"""A loop whose time is virtual: where a test says that something took 0.2 s, it took no time, and exactly 0.2 s."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Skip(selectors.DefaultSelector):
    """Instead of waiting for the time of the next timer, makes it that time."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            if timeout is None:
                raise RuntimeError("everybody waits, and nobody will come")
            self.now += timeout
        return events


class VirtualTime(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skip = Skip()
        super().__init__(self._skip)

    def time(self) -> float:
        return self._skip.now

    def be_busy(self, seconds: float) -> None:
        """As if a callback took so long."""
        self._skip.now += seconds


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine in virtual time; no task of it may be left."""

    async def watched() -> T:
        result = await coroutine
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(watched())
