"""Delivers each event with its extraction to every backend that accepts it, until the backend acknowledges it.

Each backend has its own task, so a slow or dead one does not delay the others. Deliveries are idempotent by event id: a
crash between the backend's commit and the mark in the outbox only repeats the delivery.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Literal

from fusion.contract import (
    Backend,
    Event,
    Extracted,
    Extraction,
    Forgets,
    ForgetsMany,
    Forgotten,
    Hit,
    Query,
    Remembers,
    StoresState,
)
from fusion.errors import DatabaseUnreachable, FusionError, HttpStatus, InvalidAnswer, StillThere
from fusion.ingest.extract import extract
from fusion.ingest.verify import Ask, Verifier
from fusion.journal import Journal, distil_queue
from fusion.journal.outbox import Due
from fusion.lib.backoff import backoff_s
from fusion.lib.clock import Clock, utc_now
from fusion.lib.text_cache import empty_text_caches
from fusion.lib.wakeup import wait_for_news

log = logging.getLogger(__name__)

BATCH_EVENTS = 200
"""events of one delivery: backends commit once per delivery"""
DELIVERY_TIMEOUT_S = 300.0
"""seconds for one delivery; a backend that takes longer hangs"""
FIRST_BACKOFF_S, MAX_BACKOFF_S, BACKOFF_SPREAD = 0.5, 60.0, 0.2
"""seconds between tries while a backend fails: doubled up to a minute, ± 20 %"""
OTHERS_S = 0.5
"""seconds between two looks at what other gateways have claimed"""
DELETED_S = 0.05
"""seconds until the second look at a deletion that another gateway makes; the pause doubles up to `OTHERS_S`"""
MAX_ATTEMPTS, MAX_ATTEMPT_BACKOFF_S = 24, 7200.0
"""tries of one event that a backend rejects, with at most two hours between them: a day in all"""
MAX_CACHED_EXTRACTIONS = 4096
"""extractions in memory, so that the rules run once per event for all backends"""
MAX_SOUGHT_TEXTS = 10_000
"""forgotten events whose text this process keeps until their deletion is verified"""

DeletionState = Forgotten | Literal["still_there", "pending"]
"""the state of a deletion in one backend; the last two stay due"""


class Deliverer:
    """Delivers the events of one home to ``stores`` by name, and deletes them there.

    ``ask`` searches a backend as the read path does, to verify its deletions. Tests replace ``sleep`` and ``clock``.
    """

    def __init__(
        self,
        journal: Journal,
        stores: Mapping[str, Backend],
        *,
        extract: Callable[[Event], Extraction] = extract,
        ask: Ask | None = None,
        clock: Clock = utc_now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_change: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """``on_change`` is called with a backend's name after a delivery or a deletion."""
        self._journal = journal
        self._on_change = on_change
        self._outbox = journal.outbox
        self._backends = stores
        self._stores = {name: s for name, s in stores.items() if isinstance(s, Remembers | Forgets)}
        self._extract = extract
        self._verifier = Verifier(ask or self._search, journal.records, clock)
        self._clock = clock
        self._sleep = sleep
        self._busy = {name: asyncio.Lock() for name in self._stores}
        """one writing call per backend at a time, so that an event is not deleted during its delivery"""
        self._wakeups = {name: asyncio.Event() for name in self._stores}
        self._idle = {name: asyncio.Event() for name in self._stores}
        self._extractions: OrderedDict[str, Extraction] = OrderedDict()
        self._sought: OrderedDict[tuple[str, str], Event] = OrderedDict()
        """by backend and event id, events with their text until their deletion is verified; the journal has no text"""
        self._tasks: list[asyncio.Task[None]] = []
        self.faults: dict[str, str] = {}
        """by backend, the error of the last try if it failed"""

    async def start(self) -> None:
        """Make missed deliveries due, also those of a new backend, and start the tasks."""
        await self._outbox.register([name for name, store in self._stores.items() if isinstance(store, Remembers)])
        self._tasks = [asyncio.create_task(self._serve(name), name=f"deliver to {name}") for name in self._stores]
        self.wake()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    def wake(self) -> None:
        """Signal that deliveries or deletions were added."""
        self._wake(self._stores)

    async def wake_for_unclaimed(self) -> None:
        """Wake the tasks of backends that have deliveries or deletions which no gateway is making.

        That includes deliveries that another gateway has left out, as it lacks the backend.
        """
        await self._outbox.enter_left_out()
        self._wake(await self._outbox.unclaimed([*self._stores]))

    def _wake(self, names: Iterable[str]) -> None:
        for name in names:
            self._idle[name].clear()
            self._wakeups[name].set()

    async def settle(self) -> None:
        """Wait until every backend has everything, or has failed and will be tried again later.

        So it waits for what other gateways have claimed, and for what one that died has left.
        """
        has_looked = False
        while True:
            await self._idle_everywhere()
            # Read after the wait: another gateway may have claimed meanwhile what this one was about to deliver.
            others = await self._outbox.claims_of_others()
            if others.held:
                has_looked = False
                await self._sleep(OTHERS_S)
            elif others.ended and not has_looked:
                has_looked = True
                self.wake()  # what a gateway that died had claimed is now due here
            else:
                return

    async def _idle_everywhere(self) -> None:
        await asyncio.gather(*(quiet.wait() for quiet in self._idle.values()))

    async def backlog(self) -> Mapping[str, int]:
        """By backend, how many deliveries and deletions are open."""
        return await self._journal.backlog()

    async def _serve(self, name: str) -> None:
        failures = 0
        while True:
            self._wakeups[name].clear()
            try:
                busy = await self._deliver_round(name)
                if busy and self._on_change is not None:
                    await self._on_change(name)
                self.faults.pop(name, None)
                failures = 0
                if not busy:
                    if not self._wakeups[name].is_set():
                        self._idle[name].set()
                    if all(quiet.is_set() for quiet in self._idle.values()):
                        self._outbox.drop_made()
                    await self._wait(name)
            except Exception as error:  # noqa: BLE001 — no fault of a backend or of the journal ends its task
                failures += 1
                self.faults[name] = f"{type(error).__name__}: {error}"
                said = "the journal's database was away, so backend %s got nothing (try %d): %s"
                if not isinstance(error, DatabaseUnreachable):
                    said = "backend %s did not take a delivery (try %d): %s"
                log.warning(said, name, failures, type(error).__name__)
                self._idle[name].set()
                asked_s = getattr(error, "retry_after_s", None) or 0.0
                await self._sleep(
                    max(backoff_s(failures, FIRST_BACKOFF_S, MAX_BACKOFF_S, spread=BACKOFF_SPREAD), asked_s)
                )

    async def _wait(self, name: str) -> None:
        """Wait for a wake-up, or for the next due delivery."""
        now = self._clock()
        next_at = await self._outbox.next_due(name, now)
        pause_s = None if next_at is None else (next_at - now).total_seconds()
        if pause_s is not None and pause_s <= 0:
            return
        pauses = [one for one in (pause_s, self._outbox.poll_s) if one is not None]
        await wait_for_news(self._wakeups[name], min(pauses, default=None), self._sleep)

    async def _deliver_round(self, name: str) -> bool:
        """Deliver urgent events, else delete one batch and deliver one; whether there was anything to do."""
        if urgent := await self._outbox.due(name, self._clock(), BATCH_EVENTS, urgent=True):
            self._idle[name].clear()
            await self._deliver_accepted(name, urgent)
            return True
        deletions = await self._outbox.due_deletions(name, self._clock(), BATCH_EVENTS)
        due = await self._outbox.due(name, self._clock(), BATCH_EVENTS)
        if deletions or due:
            self._idle[name].clear()
        for batch in self.deletion_batches(name, deletions):
            await self.delete(name, batch)
        if due:
            await self._deliver_accepted(name, due)
        return await self._deliver_states(name) or bool(due or deletions)

    async def _deliver_states(self, name: str) -> bool:
        """Send one batch of changed states to a backend that stores them; whether there was anything to send."""
        store = self._stores[name]
        if not isinstance(store, StoresState):
            return False
        due = await self._outbox.due_states(name, BATCH_EVENTS)
        if due:
            self._idle[name].clear()
            async with self._busy[name]:
                try:
                    async with asyncio.timeout(DELIVERY_TIMEOUT_S):
                        await store.set_states({one.event_id: one.state for one in due})
                except Exception:
                    await self._outbox.repeat_changed_states(name, due)
                    raise
                await self._outbox.mark_states_stored(name, due)
        return bool(due)

    async def _deliver_accepted(self, name: str, due: Sequence[Due]) -> None:
        """Deliver the events that the backend accepts, and mark the others as declined."""
        store = self._stores[name]
        assert isinstance(store, Remembers)  # noqa: S101 — only such backends have deliveries
        wanted = [d for d in due if store.accepts(d.event)]
        chosen = {d.seq for d in wanted}
        if declined := [d.seq for d in due if d.seq not in chosen]:
            await self._outbox.give_up(name, declined, "declined")
        if wanted:
            await self._deliver(name, wanted)

    async def _deliver(self, name: str, wanted: Sequence[Due]) -> None:
        """Deliver a batch; if the backend rejects it, halve it until each rejected event is alone.

        Rejected events are retried later one by one; the others do not wait for them. Raises errors of the backend as a
        whole, and InvalidAnswer when it rejected several events and accepted none.
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
                    await self._retry_later(name, one, error)
                else:
                    log.error("backend %s never took event %s: %s", name, one.event.event_id, type(error).__name__)
                    await self._outbox.give_up(name, [one.seq], "failed", f"{type(error).__name__}: {error}")
        if refused > 1 and not taken:
            raise InvalidAnswer(f"{name} took none of {refused} events")

    async def _remember(self, name: str, batch: Sequence[Due]) -> Sequence[tuple[str, ...]]:
        store = self._stores[name]
        assert isinstance(store, Remembers)  # noqa: S101
        # The extraction of a distilled memory is stored; all others are computed from the event.
        made = [d.event.event_id for d in batch if d.event.derived_from]
        distilled = await self._journal.read(distil_queue.extractions, made) if made else {}
        extracted = [
            Extracted(d.event, distilled.get(d.event.event_id) or self.extraction(d.event), d.state) for d in batch
        ]
        async with self._outbox.renewing(name), asyncio.timeout(DELIVERY_TIMEOUT_S):
            acknowledged = await store.remember(extracted)
        if len(acknowledged) != len(batch):
            raise InvalidAnswer(f"{name} acknowledged {len(acknowledged)} of {len(batch)} events")
        return acknowledged

    async def _retry_later(self, name: str, due: Due, error: Exception) -> None:
        """Count a failed try of one event, and postpone the next."""
        next_at = self._clock() + timedelta(
            seconds=backoff_s(due.attempts + 1, FIRST_BACKOFF_S, MAX_ATTEMPT_BACKOFF_S, spread=BACKOFF_SPREAD)
        )
        await self._outbox.postpone(name, due.seq, f"{type(error).__name__}: {error}", next_at)

    def keep_text(self, event: Event, names: Container[str] | None = None) -> None:
        """Keep an event's text to verify its deletion in the backends ``names``, or in all, and in no other."""
        for name in self._backends:
            if names is None or name in names:
                self._sought[name, event.event_id] = event
            else:
                self._sought.pop((name, event.event_id), None)
        while len(self._sought) > MAX_SOUGHT_TEXTS:
            self._sought.popitem(last=False)

    def deletion_batches(self, name: str, due: Sequence[Due]) -> list[Sequence[Due]]:
        """Deletions as `delete` takes them: all at once where a backend can do that, else one by one.

        None if no backend of that name is open: its deletions stay due.
        """
        store = self._backends.get(name)
        if store is None or not due:
            return []
        return [due] if isinstance(store, ForgetsMany) else [[one] for one in due]

    async def delete(self, name: str, batch: Sequence[Due]) -> Mapping[int, DeletionState]:
        """Delete events in one backend, verify that, and mark it; by event number the states, as far as known.

        A completed deletion is not repeated. One that the backend rejects stays due, however often, and is retried
        later. Raises the backend's errors that are about more than one event.
        """
        outcomes: Mapping[int, Forgotten | Exception]
        try:
            outcomes = await self._delete(name, batch)
        except Exception as error:
            if len(batch) > 1 or not _is_rejection(error):
                raise
            outcomes = {batch[0].seq: error}
        states: dict[int, DeletionState] = {}
        for one in batch:
            outcome = outcomes.get(one.seq)
            if isinstance(outcome, Exception):
                await self._retry_later(name, one, outcome)
                what = outcome if isinstance(outcome, StillThere) else type(outcome).__name__
                log.warning("backend %s has not forgotten an event: %s", name, what)
                states[one.seq] = "still_there" if isinstance(outcome, StillThere) else "pending"
            elif outcome is not None:
                self._sought.pop((name, one.event.event_id), None)
                states[one.seq] = outcome
        empty_text_caches()  # the verification has computed what the words are
        return states

    async def deleted_by_others(self, name: str, seqs: Sequence[int], wait_s: float) -> Mapping[int, DeletionState]:
        """By event number, the outcomes of deletions that other gateways are making, as soon as all have one; after
        ``wait_s`` of those that have one."""
        time, pause_s = asyncio.get_running_loop().time, DELETED_S
        end = time() + wait_s
        while True:
            known = await self._outbox.deletion_outcomes(name, seqs)
            if None not in known.values() or time() >= end:
                return {seq: outcome for seq, outcome in known.items() if outcome is not None}
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, OTHERS_S)

    async def _delete(self, name: str, batch: Sequence[Due]) -> Mapping[int, Forgotten | StillThere]:
        """By event number, the outcomes of deletions that were not completed before, and of those that were."""
        store = self._backends[name]
        if not isinstance(store, Forgets):
            claimed = await self._outbox.claim(name, [one.seq for one in batch], "forget")
            await self._outbox.mark_forgotten(name, [(seq, "hidden") for seq in claimed])
            return {one.seq: "hidden" for one in batch}
        for one in batch:
            self._extractions.pop(one.event.event_id, None)
        async with self._busy[name]:
            known = await self._outbox.deletion_outcomes(name, [one.seq for one in batch])
            found: dict[int, Forgotten | StillThere] = {seq: done for seq, done in known.items() if done is not None}
            texts = {one.seq: self._sought.get((name, one.event.event_id), one.event) for one in batch}
            wanted = [replace(one, event=texts[one.seq]) for one in batch if known.get(one.seq, "absent") is None]
            claimed = await self._outbox.claim(name, [one.seq for one in wanted], "forget") if wanted else set()
            wanted = [one for one in wanted if one.seq in claimed]
            if wanted:
                async with self._outbox.renewing(name):
                    outcomes = await self._verifier.delete(name, store, wanted)
                found |= {one.seq: outcome for one, outcome in zip(wanted, outcomes, strict=True)}
                done = [(one.seq, found[one.seq]) for one in wanted]
                await self._outbox.mark_forgotten(
                    name, [(seq, outcome) for seq, outcome in done if not isinstance(outcome, StillThere)]
                )
        return found

    async def _search(self, name: str, query: Query) -> Sequence[Hit]:
        return await self._backends[name].search(query)

    def extraction(self, event: Event) -> Extraction:
        """What the rules extract from an event; cached, since each backend is sent it."""
        found = self._extractions.get(event.event_id)
        if found is None:
            found = self._extractions[event.event_id] = self._extract(event)
            while len(self._extractions) > MAX_CACHED_EXTRACTIONS:
                self._extractions.popitem(last=False)
        return found


def _is_rejection(error: Exception) -> bool:
    """Whether an error is about the delivered content rather than the backend."""
    if isinstance(error, HttpStatus):
        return 400 <= error.status < 500 and error.status not in (408, 425, 429)
    return isinstance(error, InvalidAnswer | StillThere) or not isinstance(error, (FusionError, OSError, TimeoutError))
