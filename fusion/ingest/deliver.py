"""Brings each event, with what capture learnt from it, to every backend that accepts it, until it is acknowledged.

One task a backend, so that a slow or dead one holds up nobody. Deliveries are idempotent by event id, so a crash
between a store and the mark that it stored is harmless: it is acknowledged again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from fusion.contract import Backend, Captured, Event, Extraction, Forgets, ForgetsMany, Forgotten, Hit, Query, Remembers
from fusion.errors import FusionError, HttpStatus, InvalidAnswer, StillThere
from fusion.ingest.capture import capture
from fusion.ingest.verify import Ask, verify_deletion, verify_deletions
from fusion.ingest.wakeup import wait_for_news
from fusion.journal import Journal
from fusion.journal.outbox import Due
from fusion.lib.backoff import backoff_s

log = logging.getLogger(__name__)

BATCH_EVENTS = 200
"""events acknowledged at once: stores commit once a batch"""
DELIVERY_TIMEOUT_S = 300.0
"""for one batch; a store that takes longer hangs"""
FIRST_BACKOFF_S, MAX_BACKOFF_S, BACKOFF_SPREAD = 0.5, 60.0, 0.2
"""between tries while a backend fails: half a second, doubled up to a minute, ± 20 %"""
MAX_ATTEMPTS, MAX_ATTEMPT_BACKOFF_S = 24, 7200.0
"""of one event that a backend takes for nonsense; half a second apart at first, two hours at last: a day in all"""
MAX_CACHED_EXTRACTIONS = 4096
"""extractions kept in memory, so that capture runs once an event however many backends there are"""


MAX_SOUGHT_TEXTS = 10_000
"""memories whose text is kept in this process until their deletion is verified by it"""


class Deliverer:
    """The deliveries of one home, to ``stores`` by name. ``sleep`` is asyncio's, or a test's own, as is ``clock``.

    ``ask`` asks one of them as the read path does, to verify what it says it has forgotten.
    """

    def __init__(
        self,
        journal: Journal,
        stores: Mapping[str, Backend],
        *,
        extract: Callable[[Event], Extraction] = capture,
        ask: Ask | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_change: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """``on_change`` is called with a backend's name when something was delivered to it, or forgotten in it."""
        self._journal = journal
        self._on_change = on_change
        self._outbox = journal.outbox
        self._backends = stores
        self._stores = {name: s for name, s in stores.items() if isinstance(s, Remembers | Forgets)}
        self._extract = extract
        self._ask: Ask = ask or self._search
        self._clock = clock
        self._sleep = sleep
        self._busy = {name: asyncio.Lock() for name in self._stores}
        """one call that writes at a time: what is being acknowledged is not forgotten beside it, but after it"""
        self._wakeups = {name: asyncio.Event() for name in self._stores}
        self._idle = {name: asyncio.Event() for name in self._stores}
        self._captured: OrderedDict[str, Extraction] = OrderedDict()
        self._sought: OrderedDict[tuple[str, str], Event] = OrderedDict()
        """what a backend has not verifiably forgotten, as it was: the journal has its text no more"""
        self._tasks: list[asyncio.Task[None]] = []
        self.faults: dict[str, str] = {}
        """by backend, why the last try failed; empty when it did not"""

    async def start(self) -> None:
        """Lists what is due, also to a backend that is new, and begins."""
        await self._outbox.register([name for name, store in self._stores.items() if isinstance(store, Remembers)])
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
            self._idle[name].clear()
            self._wakeups[name].set()

    async def settle(self) -> None:
        """Returns when every backend has everything, or is failing and will be tried again later."""
        await asyncio.gather(*(quiet.wait() for quiet in self._idle.values()))

    async def backlog(self) -> Mapping[str, int]:
        """By backend, how many deliveries it has not acknowledged."""
        return await self._journal.backlog()

    async def _serve(self, name: str) -> None:
        failures = 0
        while True:
            self._wakeups[name].clear()
            try:
                busy = await self._deliver_round(name)
                if busy and self._on_change is not None:
                    await self._on_change(name)
            except Exception as error:  # noqa: BLE001 — whatever is wrong with one store must not end its deliveries
                failures += 1
                self.faults[name] = f"{type(error).__name__}: {error}"
                log.warning("backend %s did not take a delivery (try %d): %s", name, failures, type(error).__name__)
                self._idle[name].set()
                asked_s = getattr(error, "retry_after_s", None) or 0.0
                await self._sleep(
                    max(backoff_s(failures, FIRST_BACKOFF_S, MAX_BACKOFF_S, spread=BACKOFF_SPREAD), asked_s)
                )
                continue
            self.faults.pop(name, None)
            failures = 0
            if not busy:
                if not self._wakeups[name].is_set():
                    self._idle[name].set()
                await self._wait(name)

    async def _wait(self, name: str) -> None:
        """Until there is news, or it is time to try again what was refused."""
        next_at = await self._outbox.next_due(name)
        pause_s = None if next_at is None else (next_at - self._clock()).total_seconds()
        if pause_s is not None and pause_s <= 0:
            return
        await wait_for_news(self._wakeups[name], pause_s, self._sleep)

    async def _deliver_round(self, name: str) -> bool:
        """Tells what is urgent, or has one batch forgotten and tells one; whether there was anything to do."""
        if urgent := await self._outbox.due(name, self._clock(), BATCH_EVENTS, urgent=True):
            self._idle[name].clear()
            await self._deliver_accepted(name, urgent)
            return True
        forgotten = await self._outbox.due_deletions(name, self._clock(), BATCH_EVENTS)
        due = await self._outbox.due(name, self._clock(), BATCH_EVENTS)
        forgetting = bool(forgotten)
        if forgotten or due:
            self._idle[name].clear()
        if len(forgotten) > 1 and self.forgets_many(name):
            asked = [(one.seq, one.event, one.native_ids) for one in forgotten]
            attempts = {one.seq: one.attempts for one in forgotten}
            for seq, outcome in (await self.forget_all(name, asked)).items():
                if isinstance(outcome, StillThere):
                    await self.retry_later(name, seq, attempts[seq], outcome)
                    log.warning("backend %s has not forgotten an event: %s", name, outcome)
            forgotten = []
        for one in forgotten:
            try:
                await self.forget(name, one.seq, one.event, one.native_ids)
            except Exception as error:
                if not _is_rejection(error):
                    raise
                await self.retry_later(name, one.seq, one.attempts, error)  # never given up: it is to be gone
                log.warning("backend %s has not forgotten an event: %s", name, error)
        if due:
            await self._deliver_accepted(name, due)
        return bool(due or forgetting)

    async def _deliver_accepted(self, name: str, due: Sequence[Due]) -> None:
        """Tells those of a batch that the backend accepts, and marks the others as declined."""
        store = self._stores[name]
        assert isinstance(store, Remembers)  # noqa: S101 — only those have something due
        wanted = [d for d in due if store.accepts(d.event)]
        chosen = {d.seq for d in wanted}
        if declined := [d.seq for d in due if d.seq not in chosen]:
            await self._outbox.give_up(name, declined, "declined")
        if wanted:
            await self._deliver(name, wanted)

    async def _deliver(self, name: str, wanted: Sequence[Due]) -> None:
        """Tells a batch; where the backend takes it for nonsense, halves it until those to blame are alone.

        They are tried again later, each on its own; the others do not wait for them. Raises what ails the backend as a
        whole, also when it took nothing of many.
        """
        batches, taken, refused = deque([wanted]), 0, 0
        while batches:
            batch = batches.popleft()
            try:
                async with self._busy[name]:
                    # Deliver nothing that was forgotten since the batch was read: a crash before the next commit would
                    # leave it in the backend with nothing to delete it.
                    open_still = await self._outbox.mark_sent(name, [d.seq for d in batch])
                    batch = [d for d in batch if d.seq in open_still]
                    if not batch:
                        continue
                    acknowledged = await self._remember(name, batch)
                    await self._outbox.mark_delivered(
                        name, [(d.seq, ids) for d, ids in zip(batch, acknowledged, strict=True)]
                    )
                taken += len(batch)
            except Exception as error:
                if not _is_rejection(error):
                    raise
                if len(batch) > 1:
                    middle = len(batch) // 2
                    batches.extend((batch[:middle], batch[middle:]))
                    continue
                (one,) = batch
                refused += 1
                if one.attempts + 1 < MAX_ATTEMPTS:
                    await self.retry_later(name, one.seq, one.attempts, error)
                else:
                    log.error("backend %s never took event %s: %s", name, one.event.event_id, type(error).__name__)
                    await self._outbox.give_up(name, [one.seq], "failed", f"{type(error).__name__}: {error}")
        if refused > 1 and not taken:
            raise InvalidAnswer(f"{name} took none of {refused} events")

    async def _remember(self, name: str, batch: Sequence[Due]) -> Sequence[tuple[str, ...]]:
        store = self._stores[name]
        assert isinstance(store, Remembers)  # noqa: S101
        # What a model made of others is kept; everything else is the same whenever it is learnt.
        made = [d.event.event_id for d in batch if d.event.derived_from]
        learnt = await self._journal.extractions(made) if made else {}
        captured = [Captured(d.event, learnt.get(d.event.event_id) or self._extraction(d.event)) for d in batch]
        async with asyncio.timeout(DELIVERY_TIMEOUT_S):
            acknowledged = await store.remember(captured)
        if len(acknowledged) != len(batch):
            raise InvalidAnswer(f"{name} acknowledged {len(acknowledged)} of {len(batch)} events")
        return acknowledged

    async def retry_later(self, name: str, seq: int, attempts: int, error: Exception) -> None:
        """One more try of this failed, after so many; the next is later each time."""
        next_at = self._clock() + timedelta(
            seconds=backoff_s(attempts + 1, FIRST_BACKOFF_S, MAX_ATTEMPT_BACKOFF_S, spread=BACKOFF_SPREAD)
        )
        await self._outbox.postpone(name, seq, f"{type(error).__name__}: {error}", next_at)

    def keep_text(self, event: Event, names: Container[str] | None = None) -> None:
        """Has it verified by its text that the backends called ``names``, or all, forgot this, and no other, whenever
        that will be in the life of this process."""
        for name in self._backends:
            if names is None or name in names:
                self._sought[name, event.event_id] = event
            else:
                self._sought.pop((name, event.event_id), None)
        while len(self._sought) > MAX_SOUGHT_TEXTS:
            self._sought.popitem(last=False)

    def has_backend(self, name: str) -> bool:
        """Whether there is a backend of that name now."""
        return name in self._backends

    async def forget(self, name: str, seq: int, event: Event, native_ids: Sequence[str]) -> Forgotten:
        """Has one backend forget one event, asks it again, and marks it; what is done already is not asked again.

        Raises StillThere where it returns it nevertheless, and what the backend raises: then it stays due.
        """
        store = self._backends[name]
        if not isinstance(store, Forgets):
            await self._outbox.mark_forgotten(name, seq, "hidden")
            self._sought.pop((name, event.event_id), None)
            return "hidden"
        self._captured.pop(event.event_id, None)
        async with self._busy[name]:
            done = await self._outbox.deletion_outcome(name, seq)
            if done is None:
                done = await store.forget(event.event_id, native_ids)
                if done != "hidden":
                    known = self._sought.get((name, event.event_id), event)
                    done = await verify_deletion(
                        name,
                        store,
                        known,
                        native_ids,
                        done,
                        ask=self._ask,
                        records=self._journal.records,
                        now=self._clock(),
                    )
                await self._outbox.mark_forgotten(name, seq, done)
        self._sought.pop((name, event.event_id), None)
        return done

    async def _search(self, name: str, query: Query) -> Sequence[Hit]:
        return await self._backends[name].search(query)

    def forgets_many(self, name: str) -> bool:
        """Whether a backend deletes many at once."""
        return isinstance(self._backends.get(name), ForgetsMany)

    async def forget_all(
        self, name: str, items: Sequence[tuple[int, Event, Sequence[str]]]
    ) -> Mapping[int, Forgotten | StillThere]:
        """As `forget`, of many (number, event, native ids) in a backend that `forgets_many`, with one commit a store.

        By number, what became of each; StillThere, which stays due, where the backend still has it.
        """
        store = self._backends[name]
        assert isinstance(store, ForgetsMany)  # noqa: S101 — the caller has asked `forgets_many`
        for _, event, _ in items:
            self._captured.pop(event.event_id, None)
        found: dict[int, Forgotten | StillThere] = {}
        async with self._busy[name]:
            known = await self._outbox.deletion_outcomes(name, [seq for seq, *_ in items])
            found.update({seq: outcome for seq, outcome in known.items() if outcome is not None})
            asked = [one for one in items if known.get(one[0], "absent") is None]
            if asked:
                done = await store.forget_all([(event.event_id, native_ids) for _, event, native_ids in asked])
                outcomes = await verify_deletions(
                    name,
                    store,
                    [
                        (self._sought.get((name, event.event_id), event), native_ids, outcome)
                        for (_, event, native_ids), outcome in zip(asked, done, strict=True)
                    ],
                    ask=self._ask,
                    records=self._journal.records,
                    now=self._clock(),
                )
                ends = [(seq, outcome) for (seq, *_), outcome in zip(asked, outcomes, strict=True)]
                found.update(ends)
                kept = [(seq, outcome) for seq, outcome in ends if not isinstance(outcome, StillThere)]
                await self._outbox.mark_all_forgotten(name, kept)
        for seq, event, _ in items:
            if not isinstance(found.get(seq), StillThere):
                self._sought.pop((name, event.event_id), None)
        return found

    def _extraction(self, event: Event) -> Extraction:
        found = self._captured.get(event.event_id)
        if found is None:
            found = self._captured[event.event_id] = self._extract(event)
            while len(self._captured) > MAX_CACHED_EXTRACTIONS:
                self._captured.popitem(last=False)
        return found


def _is_rejection(error: Exception) -> bool:
    """Whether a fault is about what was said rather than about the backend that was acknowledged."""
    if isinstance(error, HttpStatus):
        return 400 <= error.status < 500 and error.status not in (408, 425, 429)
    return isinstance(error, InvalidAnswer | StillThere) or not isinstance(error, (FusionError, OSError, TimeoutError))
