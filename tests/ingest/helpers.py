"""Fakes for tests of the write path: stores with scripted faults, a clock that a test advances, and short events."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from fusion.contract import KINDS, Event, Extracted, Features, Forgotten, Hit, Moment, Opening, Place, Query, Scope
from fusion.errors import InvalidAnswer
from fusion.ingest.deliver import Deliverer
from fusion.ingest.forget import ForgetRequest, ForgetResult, Forgetter, Preview, Purge
from fusion.journal import Journal, external_refs
from fusion.journal.external_refs import ExternalItem
from fusion.journal.listing import Criteria
from fusion.lib.ids import uuid7

START = datetime(2026, 3, 4, 12, tzinfo=UTC)
ME = Scope(user_id="ana", audience="private")


def event(text: str, position: int | None = None, **fields: Any) -> Event:
    """An event of Ana's; with a position, a turn of the document "chat"."""
    if position is not None:
        fields.setdefault("place", Place("chat", position, position))
    if isinstance(fields.get("at"), datetime):
        fields["at"] = Moment(fields["at"])
    fields.setdefault("scope", Scope(user_id="ana"))
    return Event(event_id=str(uuid7()), text=text, recorded_at=START, **fields)


class FakeStore:
    """A backend that keeps events in a dict, with scripted faults.

    Every call raises ``fault``, if set. Texts in ``refuses`` are rejected, kinds in ``declines`` are not accepted. With
    ``gate`` set, `remember` sets ``reached`` after it kept the events and waits. With ``lies`` it reports deletions
    and keeps the events. ``own`` are external items by native id.
    """

    features = Features(kinds=frozenset(KINDS))

    def __init__(self, *, refuses: Sequence[str] = (), declines: Sequence[str] = ()) -> None:
        self.kept: dict[str, Extracted] = {}
        self.received: list[tuple[str, ...]] = []
        """the texts of each call of `remember`, also of a failed one"""
        self.asked_to_forget: Counter[str] = Counter()
        self.native_ids: dict[str, Sequence[str]] = {}
        self.refuses = set(refuses)
        self.declines = set(declines)
        self.fault: Exception | None = None
        self.lies = False
        self.own: dict[str, Hit] = {}
        self.asked: list[Query] = []
        self.gate: asyncio.Event | None = None
        self.reached = asyncio.Event()
        self._news = asyncio.Condition()

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        return cls()

    @property
    def texts(self) -> list[str]:
        return [extracted.event.text for extracted in self.kept.values()]

    async def search(self, query: Query) -> Sequence[Hit]:
        """Everything in scope, for any query."""
        self.asked.append(query)
        if self.fault is not None:
            raise self.fault
        kept = [Hit.of(extracted.event, f"store-{event_id}") for event_id, extracted in self.kept.items()]
        return [hit for hit in (*kept, *self.own.values()) if query.scope.admits(hit.scope)][: query.limit]

    def accepts(self, event: Event) -> bool:
        return event.kind not in self.declines

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        texts = tuple(extracted.event.text for extracted in batch)
        self.received.append(texts)
        if self.fault is not None:
            raise self.fault
        if self.refuses.intersection(texts):
            raise InvalidAnswer("cannot read this")
        async with self._news:
            self.kept.update({extracted.event.event_id: extracted for extracted in batch})
            self._news.notify_all()
        if self.gate is not None:
            self.reached.set()
            await self.gate.wait()
        return [(f"store-{extracted.event.event_id}",) for extracted in batch]

    async def forget(self, event_id: str, native_ids: Sequence[str]) -> Forgotten:
        self.asked_to_forget[event_id] += 1
        self.native_ids[event_id] = native_ids
        if self.fault is not None:
            raise self.fault
        if self.lies:
            return "deleted"
        async with self._news:
            gone = [self.kept.pop(event_id, None), *(self.own.pop(i, None) for i in native_ids)]
            self._news.notify_all()
        return "deleted" if any(gone) else "absent"

    async def until(self, texts: Sequence[str]) -> None:
        """Wait until exactly these texts are kept, in any order."""
        async with self._news:
            await self._news.wait_for(lambda: sorted(self.texts) == sorted(texts))

    async def close(self) -> None:
        """Nothing to release."""


class FakeBatchStore(FakeStore):
    """A backend that deletes many at once. It reports ``stays`` as deleted and keeps them."""

    has_files = False

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []
        """the number of deletions of each call"""
        self.stays: set[str] = set()

    async def forget_all(self, items: Sequence[tuple[str, Sequence[str]]]) -> Sequence[Forgotten]:
        self.batches.append(len(items))
        stay = {id_: self.kept[id_] for id_ in self.stays if id_ in self.kept}
        outcomes = [await self.forget(event_id, native_ids) for event_id, native_ids in items]
        self.kept.update(stay)
        return outcomes


class Reading:
    """A backend that can only be searched."""

    features = Features()

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        return cls()

    async def search(self, query: Query) -> Sequence[Hit]:
        return []

    async def close(self) -> None:
        """Nothing to release."""


class FakeClock:
    """A clock that a test advances. ``slept`` has every requested pause in seconds."""

    def __init__(self) -> None:
        self.time = START
        self.slept: list[float] = []
        self._sleepers: list[tuple[datetime, asyncio.Future[None]]] = []
        self._news = asyncio.Condition()

    def now(self) -> datetime:
        return self.time

    async def sleep(self, delay_s: float) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        async with self._news:
            self.slept.append(delay_s)
            self._sleepers.append((self.time + timedelta(seconds=delay_s), done))
            self._news.notify_all()
        await done

    async def asleep(self, times: int) -> None:
        """Returns when `sleep` has been called that often in all."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.slept) >= times)

    def pass_by(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)
        for until, done in self._sleepers:
            if until <= self.time and not done.done():
                done.set_result(None)


@asynccontextmanager
async def forgetting(
    journal: Journal, time: FakeClock | None = None, purge: Purge | None = None, **stores: Any
) -> AsyncIterator[tuple[Forgetter, Deliverer]]:
    """A forgetter and the deliverer of its stores, after everything in the journal was delivered."""
    time = time or FakeClock()
    deliverer = Deliverer(journal, stores, clock=time.now, sleep=time.sleep)
    await deliverer.start()
    try:
        await deliverer.settle()
        yield Forgetter(journal, deliverer, purge), deliverer
    finally:
        await deliverer.close()


class KeepingStore:
    """A store that cannot delete."""

    features = FakeStore.features

    def __init__(self) -> None:
        self.store = FakeStore()

    open = FakeStore.open
    search = FakeStore.search
    close = FakeStore.close

    def accepts(self, event: Event) -> bool:
        return True

    async def remember(self, batch: Sequence[Extracted]) -> Sequence[tuple[str, ...]]:
        return await self.store.remember(batch)


async def no_previews(query: str, scope: Scope) -> list[Preview]:
    """A recall that finds nothing."""
    return []


async def request(forgetter: Forgetter, recall: Any = no_previews, scope: Scope = ME, **fields: Any) -> ForgetResult:
    """Send a request to forget; ``fields`` are its fields and those of its criteria."""
    criteria = {k: fields.pop(k) for k in ("source", "document", "after", "before", "recorded") if k in fields}
    return await forgetter.request(ForgetRequest(scope, criteria=Criteria(**criteria), **fields), recall)


THEIRS = Hit("n7", "The spare key is under the third flower pot.", Scope(user_id="ana"))


async def store_external(
    journal: Journal, hit: Hit = THEIRS, backend: str = "store", ref: str = "xabcdefghij", scope: Scope = ME
) -> str:
    """Give an external item a ref, as an answer that showed it does."""
    await journal.write(external_refs.store_items, [ExternalItem(ref, backend, hit, scope)], START)
    return ref
