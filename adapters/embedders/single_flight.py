"""Single-flight embedding: requests for a text that is already being embedded wait for the same result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fusion.errors import ModelMissing

Value = TypeVar("Value")


@dataclass(slots=True)
class Flight(Generic[Value]):
    """A text that is being embedded; ``keep`` says whether the result is cached.

    One that is ``queued`` has not begun: to forget it, nobody needs to wait for it.
    """

    landed: asyncio.Future[Value]
    keep: bool = True
    queued: bool = False


Fly = Callable[[dict[str, Flight[Value]]], Coroutine[Any, Any, None]]
"""Embeds these texts and sets each result; an exception reaches all callers that still wait."""


class Flights(Generic[Value]):
    """The embeddings in progress of one event loop. With ``queued``, each says when it begins."""

    def __init__(self, *, queued: bool = False) -> None:
        self._queued = queued
        self._flying: dict[str, Flight[Value]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def board(self, texts: Sequence[str], fly: Fly[Value]) -> dict[str, Flight[Value]]:
        """Join the embeddings in progress of these texts, and start one task for all the others.

        The task belongs to no caller, so that cancelling one caller does not cancel the others.
        """
        mine: dict[str, Flight[Value]] = {}
        for text in texts:
            if text not in self._flying:
                mine[text] = self._flying[text] = Flight(
                    asyncio.get_running_loop().create_future(), queued=self._queued
                )
        joined = {text: self._flying[text] for text in texts}
        if mine:
            task = asyncio.create_task(self._guarded(mine, fly))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return joined

    def of(self, texts: Sequence[str]) -> list[Flight[Value]]:
        """Those of these texts that are being embedded."""
        return [flight for text in texts if (flight := self._flying.get(text)) is not None]

    def texts(self) -> list[str]:
        """All that are being embedded."""
        return list(self._flying)

    async def close(self) -> None:
        """Cancel the embeddings in progress; waiting callers get ModelMissing."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _guarded(self, mine: dict[str, Flight[Value]], fly: Fly[Value]) -> None:
        fault: BaseException = ModelMissing("the embedder was closed while it encoded")
        try:
            await fly(mine)
        except Exception as error:  # noqa: BLE001 - it is passed to all who wait for these texts
            fault = error
        finally:
            for text, flight in mine.items():
                if self._flying.get(text) is flight:
                    del self._flying[text]
                if not flight.landed.done():
                    flight.landed.set_exception(fault)
                    flight.landed.exception()  # retrieved, so that asyncio does not log it if no caller waits any more


async def landed(flights: Mapping[str, Flight[Value]]) -> dict[str, Value]:
    """The result of each; cancelling the caller does not cancel the embeddings."""
    return {text: await asyncio.shield(flight.landed) for text, flight in flights.items()}


async def let_go(flights: Sequence[Flight[Any]]) -> None:
    """Do not cache the results of these, and wait until those that have begun are done."""
    for flight in flights:
        flight.keep = False
    if begun := [flight.landed for flight in flights if not flight.queued]:
        await asyncio.wait(begun)
