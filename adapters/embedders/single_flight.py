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
    """A text that is being encoded, and whether what comes of it is to be kept."""

    landed: asyncio.Future[Value]
    keep: bool = True


Fly = Callable[[dict[str, Flight[Value]]], Coroutine[Any, Any, None]]
"""Encodes these texts and lands each flight; an exception reaches all who wait for those that have not landed."""


class Flights(Generic[Value]):
    """One queue of flights, of one event loop."""

    def __init__(self) -> None:
        self._flying: dict[str, Flight[Value]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def board(self, texts: Sequence[str], fly: Fly[Value]) -> dict[str, Flight[Value]]:
        """The flights of these texts: those already under way, and one task for all the others.

        The task is nobody's own, so that a caller who gives up does not take the others' answer away.
        """
        mine: dict[str, Flight[Value]] = {}
        for text in texts:
            if text not in self._flying:
                mine[text] = self._flying[text] = Flight(asyncio.get_running_loop().create_future())
        joined = {text: self._flying[text] for text in texts}
        if mine:
            task = asyncio.create_task(self._guarded(mine, fly))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return joined

    def of(self, texts: Sequence[str]) -> list[Flight[Value]]:
        """The flights of those texts that are under way."""
        return [flight for text in texts if (flight := self._flying.get(text)) is not None]

    async def close(self) -> None:
        """Ends what is under way; those who wait hear of it."""
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
                    flight.landed.exception()  # looked at, so that nobody complains when nobody waits any more


async def landed(flights: Mapping[str, Flight[Value]]) -> dict[str, Value]:
    """What comes of each; a caller who is cancelled meanwhile leaves the flights alone."""
    return {text: await asyncio.shield(flight.landed) for text, flight in flights.items()}


async def let_go(flights: Sequence[Flight[Any]]) -> None:
    """Returns when these have landed; nothing of them is kept."""
    for flight in flights:
        flight.keep = False
    if flights:
        await asyncio.wait([flight.landed for flight in flights])
