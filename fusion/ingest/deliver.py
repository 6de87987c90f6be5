"""Brings each event, with what capture learnt from it, to every backend that accepts it, until it is acknowledged.

One task a backend, so that a slow or dead one holds up nobody. Deliveries are idempotent by event id, so a crash
between a store and the mark that it stored is harmless: it is told again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence

from fusion.contract import Backend, Captured, Event, Extraction, Forgets, Remembers
from fusion.errors import BackendError, InvalidAnswer, StoreBusy, StoreFull
from fusion.ingest.capture import capture
from fusion.ingest.journal import Due, Journal

log = logging.getLogger(__name__)

BATCH = 200
"""events told at once: stores commit once a batch"""
ATTEMPTS = 3
"""after which an event that a backend takes for nonsense is given up; a backend that is down is tried for ever"""
FIRST_S, CAP_S = 0.5, 60.0
"""between tries while a backend fails: half a second, doubled up to a minute, ± 20 %"""
CAPTURED = 4096
"""extractions kept in memory, so that capture runs once an event however many backends there are"""


class Deliverer:
    """The deliveries of one home, to ``stores`` by name. ``sleep`` is asyncio's, or a test's own."""

    def __init__(
        self,
        journal: Journal,
        stores: Mapping[str, Backend],
        *,
        learn: Callable[[Event], Extraction] = capture,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._journal = journal
        self._stores = {name: store for name, store in stores.items() if isinstance(store, Remembers)}
        self._learn = learn
        self._sleep = sleep
        self._news = {name: asyncio.Event() for name in self._stores}
        self._quiet = {name: asyncio.Event() for name in self._stores}
        self._captured: OrderedDict[str, Extraction] = OrderedDict()
        self._tasks: list[asyncio.Task[None]] = []
        self.faults: dict[str, str] = {}
        """by backend, why the last try failed; empty when it did not"""

    async def start(self) -> None:
        """Lists what is due, also to a backend that is new, and begins."""
        await self._journal.enlist(list(self._stores))
        self._tasks = [asyncio.create_task(self._serve(name), name=f"deliver to {name}") for name in self._stores]
        self.wake()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def wake(self) -> None:
        """There is something new."""
        for name in self._stores:
            self._quiet[name].clear()
            self._news[name].set()

    async def settle(self) -> None:
        """Returns when every backend has everything, or is failing and will be tried again later."""
        await asyncio.gather(*(quiet.wait() for quiet in self._quiet.values()))

    async def backlog(self) -> Mapping[str, int]:
        """By backend, how many deliveries it has not acknowledged."""
        return await self._journal.backlog()

    @property
    def stores(self) -> Mapping[str, Backend]:
        return self._stores

    async def _serve(self, name: str) -> None:
        failures = 0
        while True:
            self._news[name].clear()
            try:
                busy = await self._round(name)
                self.faults.pop(name, None)
                failures = 0
            except (BackendError, StoreBusy, StoreFull, OSError, TimeoutError) as error:
                failures += 1
                self.faults[name] = f"{type(error).__name__}: {error}"
                log.warning("backend %s did not take a delivery (try %d): %s", name, failures, type(error).__name__)
                self._quiet[name].set()
                pause = min(CAP_S, FIRST_S * 2 ** (failures - 1)) * random.uniform(0.8, 1.2)
                await self._sleep(pause)
                continue
            if not busy:
                if not self._news[name].is_set():
                    self._quiet[name].set()
                await self._news[name].wait()

    async def _round(self, name: str) -> bool:
        """Tells one batch and has one batch forgotten; whether there was anything to do."""
        store = self._stores[name]
        due = await self._journal.due(name, BATCH)
        if due:
            assert isinstance(store, Remembers)  # noqa: S101 — only those are in _stores
            wanted = [d for d in due if store.accepts(d.event)]
            chosen = {d.seq for d in wanted}
            if declined := [d.seq for d in due if d.seq not in chosen]:
                await self._journal.close_deliveries(name, declined, "declined")
            if wanted:
                await self._tell(name, wanted)
        buried = await self._journal.due_to_forget(name, BATCH)
        for one in buried:
            await self.forget(name, one.seq, one.event.event_id, one.native_ids)
        return bool(due or buried)

    async def _tell(self, name: str, wanted: Sequence[Due]) -> None:
        """Tells a batch; where the backend takes it for nonsense, halves it until the one that is to blame is alone."""
        store = self._stores[name]
        assert isinstance(store, Remembers)  # noqa: S101
        try:
            told = await store.remember([Captured(d.event, self._extraction(d.event)) for d in wanted])
            if len(told) != len(wanted):
                raise InvalidAnswer(f"{name} acknowledged {len(told)} of {len(wanted)} events")
        except (InvalidAnswer, ValueError, TypeError, KeyError) as error:
            if len(wanted) > 1:
                middle = len(wanted) // 2
                await self._tell(name, wanted[:middle])
                await self._tell(name, wanted[middle:])
                return
            (one,) = wanted
            reason = f"{type(error).__name__}: {error}"
            if one.attempts + 1 < ATTEMPTS:
                await self._journal.attempted(name, [one.seq], reason)
                raise BackendError(f"{name} does not take an event: {type(error).__name__}") from error
            log.error("backend %s never took event %s: %s", name, one.event.event_id, type(error).__name__)
            await self._journal.close_deliveries(name, [one.seq], "failed", reason)
            return
        await self._journal.delivered(name, [(d.seq, ids) for d, ids in zip(wanted, told, strict=True)])

    async def forget(self, name: str, seq: int, event_id: str, native_ids: Sequence[str]) -> str:
        """Has one backend forget one event, and marks it. Raises what the backend raises: then it stays due."""
        store = self._stores[name]
        outcome = await store.forget(event_id, native_ids) if isinstance(store, Forgets) else "hidden"
        await self._journal.close_deliveries(name, [seq], "hidden" if outcome == "hidden" else "forgotten")
        return outcome

    def _extraction(self, event: Event) -> Extraction:
        found = self._captured.get(event.event_id)
        if found is None:
            found = self._captured[event.event_id] = self._learn(event)
            while len(self._captured) > CAPTURED:
                self._captured.popitem(last=False)
        return found
