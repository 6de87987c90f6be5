"""Calls that run one after the other in the background, and hold up nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, Full, SimpleQueue
from typing import Any

MAX_WAITING = 200
"""calls that wait; further ones are refused"""


class CallQueue:
    """Runs calls one after the other, in a daemon thread that exists while there are any.

    The interpreter does not wait for that thread at its end, unlike for those of a ThreadPoolExecutor.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._running = False
        self.last: Future[Any] | None = None

    @property
    def is_busy(self) -> bool:
        return self.last is not None and not self.last.done()

    def run(self, call: Callable[[], Any]) -> Future[Any]:
        """The future of a call. Raises Full if too many wait."""
        future: Future[Any] = Future()
        with self._lock:
            if self._calls.qsize() >= MAX_WAITING:
                raise Full
            self._calls.put((future, call))
            self.last = future
            if not self._running:
                self._running = True
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            with self._lock:
                try:
                    future, call = self._calls.get_nowait()
                except Empty:
                    self._running = False
                    return
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - whoever waits gets it
                future.set_exception(error)
