"""Qdrant's own client over our exchange: what the library asks a server is bounded and named as all else that is asked.

The client would wait for each read anew, read a reply of any length and any compression, and go where the environment's
proxies lead; and it would keep the key that it was given. It works in threads, the exchange on the loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import httpx

from adapters.http import Http


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

    @contextmanager
    def within(self, deadline_s: float) -> Iterator[None]:
        """What this thread asks meanwhile ends by then, however many requests it takes."""
        self._own.until = self._loop.time() + deadline_s
        try:
            yield
        finally:
            del self._own.until

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        until = getattr(self._own, "until", None)
        left = self._timeout_s if until is None else min(self._timeout_s, max(0.001, until - self._loop.time()))
        asked = self._server(request.url).fetch(
            request.method, request.url.raw_path.decode("ascii"), left, request.read() or None
        )
        status, body = asyncio.run_coroutine_threadsafe(asked, self._loop).result()
        return httpx.Response(status, content=body)

    def close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            asyncio.run_coroutine_threadsafe(http.close(), self._loop).result()

    def _server(self, url: httpx.URL) -> Http:
        """The one server that the client was made for, with the port that the client takes where none is named."""
        with self._opening:
            if self._http is None:
                server = f"{url.scheme}://{url.netloc.decode('ascii')}"
                self._http = Http(server, self._headers, connect_s=self._connect_s)
            return self._http
