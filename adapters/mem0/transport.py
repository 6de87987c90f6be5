"""Runs Qdrant's own client over `adapters.http`, so that its requests have the same bounds and errors as all others.

The client itself has a time-out for each read only, reads replies of any length and compression, uses the environment's
proxies and keeps the key. It works in threads, the exchange on the event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx

from adapters.http import Http
from adapters.http.exchange import Request
from fusion.errors import BackendTimeout, BackendUnreachable

T = TypeVar("T")

AFTER_S = 5.0
"""seconds to wait for an exchange after its deadline: it ends without help, unless the loop has ended"""


class Through(httpx.BaseTransport):
    """Raises the `BackendError` that fits, which the client wraps. ``headers`` is called for each request."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        headers: Callable[[], Mapping[str, str]],
        timeout_s: float,
        connect_s: float,
    ) -> None:
        self._loop, self._headers, self._timeout_s, self._connect_s = loop, headers, timeout_s, connect_s
        self._own = threading.local()  # of each thread, for how long it may still ask
        self._opening = threading.Lock()
        self._http: Http | None = None
        self._is_shut = False

    @contextmanager
    def within(self, deadline_s: float) -> Iterator[None]:
        """Bound all requests of this thread in the block by one deadline."""
        self._own.until = self._loop.time() + deadline_s
        try:
            yield
        finally:
            del self._own.until

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        until = getattr(self._own, "until", None)
        left = self._timeout_s if until is None else min(self._timeout_s, max(0.001, until - self._loop.time()))
        http, body = self._server(request.url), request.read() or None
        path = request.url.raw_path.decode("ascii")
        status, reply = self._on_loop(lambda: http.fetch(Request(request.method, path, body), left), left)
        return httpx.Response(status, content=reply)

    def close(self) -> None:
        """Close the connection; a later request opens another one."""
        with self._opening:
            http, self._http = self._http, None
        if http is not None:
            self._on_loop(http.close, self._timeout_s)

    def shut(self) -> None:
        """Close permanently; pending requests fail."""
        self._is_shut = True
        self.close()

    def _server(self, url: httpx.URL) -> Http:
        """The one server that the client was made for, with the port that the client takes where none is named."""
        with self._opening:
            if self._is_shut:
                raise BackendUnreachable("the connection was closed")
            if self._http is None:
                server = f"{url.scheme}://{url.netloc.decode('ascii')}"
                self._http = Http(server, self._headers, connect_s=self._connect_s)
            return self._http

    def _on_loop(self, work: Callable[[], Coroutine[Any, Any, T]], timeout_s: float) -> T:
        """The result of ``work`` on the loop. It starts there, so that a loop that ends meanwhile leaves nothing
        started, and no thread waits for a loop that has ended."""
        outcome: Future[T] = Future()

        def begin() -> None:
            task = self._loop.create_task(work())
            task.add_done_callback(lambda done: _set_outcome(done, outcome))

        try:
            self._loop.call_soon_threadsafe(begin)
        except RuntimeError:
            raise BackendUnreachable("the gateway has closed") from None
        try:
            return outcome.result(timeout_s + AFTER_S)
        except TimeoutError:
            raise BackendTimeout("no answer of the exchange in time") from None


def _set_outcome(done: asyncio.Task[T], outcome: Future[T]) -> None:
    if done.cancelled():
        outcome.set_exception(BackendUnreachable("the gateway is closing"))
    elif (error := done.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(done.result())
