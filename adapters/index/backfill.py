"""Computes missing vectors in the background: the loop and the queue of every store that has vectors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice
from typing import ClassVar, Generic, TypeVar

from fusion.errors import InvalidAnswer
from fusion.lib.backoff import backoff_s

log = logging.getLogger(__name__)


class Backfill:
    """Runs ``fill_some`` in a task while it returns True (there may be more), and again after a failure.

    ``error`` is the last failure, None once it has succeeded. ``again`` is called before a failure is tried again.
    """

    retry_s: ClassVar[float] = 1.0
    """the pause after a failure: doubled after each, up to ``longest_retry_s``"""
    longest_retry_s: ClassVar[float] = 60.0

    def __init__(
        self, name: str, fill_some: Callable[[], Awaitable[bool]], again: Callable[[], None] = lambda: None
    ) -> None:
        self.error: Exception | None = None
        self._name = name
        self._fill_some = fill_some
        self._again = again
        self._task: asyncio.Task[None] | None = None
        self._wanted = False
        self._running = False
        self._closed = False
        self._failures = 0
        self._retry = asyncio.Event()
        self._progress = asyncio.Condition()

    def start(self, *, retry: bool = True) -> None:
        """Start to fill the queue in. Without ``retry`` a pause after a failure continues."""
        if self._closed:
            return
        self._wanted = True
        if retry:
            self._retry.set()
        if not self._running:
            self._running = True
            self._task = asyncio.create_task(self._run(), name=f"vectors of {self._name}")

    async def settle(self) -> None:
        """Returns when there is nothing more to fill in, or it has failed once more."""
        failures = self._failures
        self._again()
        self.start()
        async with self._progress:
            await self._progress.wait_for(lambda: not self._running or self._failures > failures or self._closed)

    async def close(self) -> None:
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._tell()

    async def _run(self) -> None:
        pauses = 0
        while self._wanted:
            self._wanted = False  # reset first: work that arrives during this round starts another
            self._retry.clear()
            try:
                self._wanted = await self._fill_some() or self._wanted
                self.error, pauses = None, 0
            except Exception as error:  # noqa: BLE001 - words are still searched without vectors
                if str(error) != str(self.error):
                    log.warning("%s: vectors are not filled in: %s", self._name, error)
                self.error, self._wanted = error, True
                self._failures += 1
            self._running = self._wanted
            await self._tell()
            if self.error is not None:
                pauses += await self._pause(backoff_s(pauses + 1, self.retry_s, self.longest_retry_s))

    async def _pause(self, pause_s: float) -> bool:
        """Wait before the next attempt; True if the full time passed."""
        try:
            async with asyncio.timeout(pause_s):
                await self._retry.wait()
        except TimeoutError:
            self._again()
            return True
        return False

    async def _tell(self) -> None:
        async with self._progress:
            self._progress.notify_all()


Value = TypeVar("Value")


class Waiting(dict[str, Value], Generic[Value]):
    """The queue of texts without a vector, by key: the newest first, refused ones last.

    A key with a changed value is new: it is tried again.
    """

    def __init__(self) -> None:
        super().__init__()
        self._fresh: dict[str, None] = {}
        self._refused: dict[str, Value] = {}
        self._why: InvalidAnswer | None = None

    def add(self, items: Mapping[str, Value], *, fresh: bool) -> None:
        """``fresh``: these are new memories and go to the front of the queue."""
        self.update(items)
        if fresh:
            self._fresh.update(dict.fromkeys(items))

    @property
    def why(self) -> InvalidAnswer | None:
        """The model's reason for refusing a text in the queue."""
        return self._why if self._refused else None

    def try_refused(self) -> None:
        """Let refused texts be tried again."""
        self._refused = {}

    def some(self, limit: int) -> dict[str, Value]:
        """The next texts. Raises the reason if all texts in the queue were refused."""
        fresh = list(islice(self._fresh, limit))
        for key in fresh:
            del self._fresh[key]  # once: one that is refused waits with the rest
        some = {key: self[key] for key in fresh if key in self}
        some = some or dict(islice((one for one in self.items() if self._refused.get(one[0]) != one[1]), limit))
        if self and not some and self._why is not None:
            raise self._why
        return some

    def done(self, tried: Mapping[str, Value], refused: Mapping[str, InvalidAnswer]) -> None:
        """Remove texts that have their vector now and did not change. Raises the reason if all were refused."""
        for key, why in refused.items():
            self._refused[key], self._why = tried[key], why
        for key, value in tried.items():
            if key not in refused and self.get(key) == value:
                del self[key]
        if refused and len(refused) == len(tried):
            raise next(iter(refused.values()))

    def drop(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.pop(key, None)

    def clear(self) -> None:
        super().clear()
        self._fresh, self._refused = {}, {}
