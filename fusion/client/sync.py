"""The blocking client, over the HTTP of the standard library."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from fusion.client import calls
from fusion.client.address import TIMEOUT_S, BaseClient, Endpoint, endpoint_of
from fusion.client.auto_recall import RECALL_S, question, skipped
from fusion.client.calls import Call, parse_reply
from fusion.errors import HomeGone
from fusion.local_server import CONNECT_S, Proven, Unsent

T = TypeVar("T")


class Client(BaseClient):
    """A blocking client. Any number of threads may share one. Close it, or use it in a ``with``."""

    _endpoint: Endpoint | None = None
    """where the server last answered"""

    def send(self, call: Call[T]) -> T:
        """Send one request; send it again only if the first cannot have arrived."""
        for last in (False, True):
            endpoint, proven = (self._endpoint, None) if self._endpoint else self._address.connect()
            self._endpoint = endpoint
            try:
                reply: T = parse_reply(*_exchange(endpoint, call, call.timeout_s or self._timeout_s, proven))
                return reply
            except HomeGone:
                self.close()
                if last or not self._address.wait_for_another():
                    raise
            except (Unsent, OSError, HTTPException) as error:
                self.close()
                self._address.give_up_or_retry(error, unsent=isinstance(error, Unsent), last=last)
        raise AssertionError("the last try returns or raises")

    def auto_recall(self, prompt: str, *, timeout_s: float = RECALL_S, **fields: Any) -> str:
        """The block of memories for a prompt, "" if there is none in time: it never raises and never waits longer.

        ``fields`` are those of `fuse`. The server is asked in a thread, which is left alone when the time is over.
        """
        found: Queue[str] = Queue()

        def ask() -> None:
            try:
                found.put(str(self.fuse(**question(prompt, timeout_s, fields))["block"]))
            except Exception as error:  # noqa: BLE001 — no failure of memory may hold up a prompt
                found.put(skipped(error))

        Thread(target=ask, name="auto-recall", daemon=True).start()
        try:
            return found.get(timeout=timeout_s)
        except Empty:
            return skipped("it took too long")

    def export(self, *, tenant: str | None = None, user_id: str | None = None) -> Iterator[bytes]:
        """Yield the pieces of an export (`fusion.client.calls.export`). Raises as `send`."""
        endpoint, proven = self._address.connect()
        call = calls.export(tenant=tenant, user_id=user_id)
        timeout_s = call.timeout_s or self._timeout_s
        try:
            with _asked(endpoint, call, timeout_s, proven) as (url, response):
                chunks = _chunks_until(time.monotonic() + timeout_s, response)
                if response.status != HTTPStatus.OK:
                    parse_reply(url, response.status, b"".join(chunks))
                yield from chunks
        except (Unsent, OSError, HTTPException) as error:
            self._address.give_up_or_retry(error, unsent=False, last=True)

    def close(self) -> None:
        """Forget where the server is. No connection is kept."""
        self._endpoint = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def client_of(home: Path, proven: Proven, *, timeout_s: float = TIMEOUT_S) -> Client:
    """A client of the home's server that has proved itself on a connection.

    Each of its connections must be proved with the same token, so a token that has gone since does not let it connect
    without a proof.
    """
    client = Client.of_home(home, start=False, timeout_s=timeout_s)
    client._endpoint = endpoint_of(proven.record, proven.token)
    return client


def _exchange(endpoint: Endpoint, call: Call[Any], timeout_s: float, proven: Proven | None) -> tuple[str, int, bytes]:
    """URL, status and body of the whole reply, over a connection for this request alone.

    ``proven`` is an open connection to a home's server; it is used instead of a new one.
    Raises Unsent, TimeoutError and other OSErrors, and HTTPException if the reply is not HTTP.
    """
    deadline = time.monotonic() + timeout_s
    with _asked(endpoint, call, timeout_s, proven) as (url, response):
        return url, response.status, b"".join(_chunks_until(deadline, response))


@contextmanager
def _asked(
    endpoint: Endpoint, call: Call[Any], timeout_s: float, proven: Proven | None
) -> Iterator[tuple[str, HTTPResponse]]:
    """The URL and the open reply of a request. Raises as `_exchange`."""
    url = call.target(endpoint.url)
    parts = urlsplit(url)
    with closing(_connection_to(endpoint, timeout_s, proven)) as connection:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        headers = call.all_headers({"connection": "close", **endpoint.headers})
        content = call.content() if call.pieces is None else call.pieces()
        connection.request(call.method, target, content, headers)
        with connection.getresponse() as response:
            yield url, response


def _connection_to(endpoint: Endpoint, timeout_s: float, proven: Proven | None) -> HTTPConnection:
    """An open connection that does not reconnect by itself; a home's server has proved itself on it.

    Raises Unsent, TimeoutError.
    """
    parts = urlsplit(endpoint.url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=min(timeout_s, CONNECT_S))
    if endpoint.record is not None and endpoint.token is not None:
        connection.sock = (proven or Proven.open(endpoint.record, endpoint.token, timeout_s)).detach()
    else:
        try:
            connection.connect()
        except TimeoutError:
            raise
        except OSError as error:
            raise Unsent(str(error)) from error
    connection.auto_open = 0
    connection.sock.settimeout(timeout_s)
    return connection


def _chunks_until(deadline: float, response: HTTPResponse) -> Iterator[bytes]:
    """The chunks of a reply until a deadline: the socket's timeout bounds each read, not their sum."""
    left = response.length  # None without Content-Length
    while left != 0 and (chunk := response.read1(1 << 16)):
        if time.monotonic() > deadline:
            raise TimeoutError("the reply trickles")
        left = None if left is None else left - len(chunk)
        yield chunk
    if left:
        raise IncompleteRead(b"", left)
