"""HTTP/1.1 with limits for each connection on bytes, time and parsing, for a server that untrusted clients can reach.

uvicorn's protocol parses all input at once and collects headers without limit, so one connection can block all others
before any authentication. Here the request line has at most `MAX_URL_BYTES`, and headers and trailers together at most
`MAX_HEAD_BYTES` and `MAX_HEADERS`; a request over a limit gets 414 or 431, and its connection is closed. Input is
parsed in pieces of `PIECE_BYTES`, round robin, at most `LOOP_BYTES` of all connections in one iteration of the event
loop. A connection is not read while its next request waits for an earlier one (pipelining).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import orjson
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fusion import problem
from fusion.doors.http.middleware import STREAMS_BODY
from fusion.errors import Overloaded

HEADERS_TIMEOUT_S = 10.0
"""seconds from the beginning of a connection or request to the end of its headers; uvicorn has no such limit"""
BODY_TIMEOUT_S = 20.0
"""seconds from there to the end of the body. The gate refuses a slow body sooner; this ends one that still goes on"""
SURPLUS_TIMEOUT_S = 1.0
"""seconds for a connection over the cap to send something before it is refused unasked"""
LINGER_S = 1.0
"""seconds for a refused client to read the reply: closing at once, with input unread, would reset the connection"""
MAX_URL_BYTES = 8_192
MAX_HEAD_BYTES = 32_768
"""maximum bytes of the names and values of a request's headers and trailers"""
MAX_HEADERS = 100
PIECE_BYTES = 4_096
"""bytes of input in one call of the parser: at most 230 requests, or 1,400 chunks of a body"""
LOOP_BYTES = 32_768
"""bytes that are parsed in one iteration of the event loop, over all connections: at worst 5 ms"""
MIN_PIECE_BYTES = 512
"""bytes that a piece counts at least, because a short request costs more than its bytes: 64 begin in one iteration"""

_REFUSALS = {
    400: "This is not an HTTP/1.1 request.",
    414: f"The URL has more than {MAX_URL_BYTES} bytes. Send a long question as JSON: POST /fuse.",
    431: f"The headers have more than {MAX_HEAD_BYTES} bytes, or are more than {MAX_HEADERS}. Send fewer.",
}


class ParseScheduler:
    """Shares the parsing in each iteration of an event loop among the connections with input, round robin."""

    _of: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, ParseScheduler]] = WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._call_soon = loop.call_soon
        self._waiting: deque[LimitedProtocol] = deque()
        self._left = LOOP_BYTES
        self._scheduled = False

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> ParseScheduler:
        """The scheduler of a loop, which all its connections share."""
        if loop not in cls._of:
            cls._of[loop] = cls(loop)
        return cls._of[loop]

    def join(self, connection: LimitedProtocol) -> None:
        """Parse a connection's input: now if this iteration has budget left, else in a later one."""
        self._waiting.append(connection)
        self._work()

    def _work(self) -> None:
        while self._waiting and self._left > 0:
            connection = self._waiting.popleft()
            self._left -= max(connection.parse_piece(), MIN_PIECE_BYTES)
            if connection.has_more():
                self._waiting.append(connection)
        if not self._scheduled and (self._waiting or self._left < LOOP_BYTES):
            self._scheduled = True
            self._call_soon(self._next)

    def _next(self) -> None:
        self._scheduled = False
        self._left = LOOP_BYTES
        self._work()


class _Flow(FlowControl):
    """Flow control that stops reading for uvicorn's reasons, and while input waits to be parsed (`hold`)."""

    held = False

    def hold(self) -> None:
        self._set(held=True, paused=self.read_paused)

    def release(self) -> None:
        self._set(held=False, paused=self.read_paused)

    def pause_reading(self) -> None:
        self._set(held=self.held, paused=True)

    def resume_reading(self) -> None:
        self._set(held=self.held, paused=False)

    def _set(self, *, held: bool, paused: bool) -> None:
        stopped, stop = self.held or self.read_paused, held or paused
        self.held, self.read_paused = held, paused
        if stop == stopped or self._transport.is_closing():
            return
        if stop:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


class _RefusedError(Exception):
    """Ends the parsing of a request over a limit."""


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 within limits: a connection over a limit gets a reply and is closed; a slow one is closed."""

    headers_timeout_s = HEADERS_TIMEOUT_S
    body_timeout_s = BODY_TIMEOUT_S
    linger_s = LINGER_S
    _timer: asyncio.TimerHandle | None = None
    _surplus = False
    _refused = False
    _refusal = 400
    _queued = False
    _head_is_read = False
    _head_bytes = 0
    _header_count = 0
    _since_progress = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._scheduler = ParseScheduler.of(self.loop)
        self._unparsed = bytearray()
        self.flow = self._flow = _Flow(transport)
        # uvicorn would count requests too, with a reply that says less.
        most, self.limit_concurrency = self.limit_concurrency, None
        self._surplus = most is not None and len(self.connections) > most
        if self._surplus:  # a busy client may need longer than that to send its request
            self._timer = self.loop.call_later(SURPLUS_TIMEOUT_S, self._reply_and_close, _too_many_connections())
        else:
            self._close_after(self.headers_timeout_s)

    # Input

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        if self._surplus:
            self.transport.write(_too_many_connections())
            self.transport.close()
            return
        self._unset_keepalive_if_required()
        self._unparsed += data
        self._parse_soon()

    def _parse_soon(self) -> None:
        """Join the scheduler, unless there is no input or an earlier request must be answered first."""
        if self._unparsed and not self.pipeline and not self._queued:
            self._queued = True
            self._scheduler.join(self)
        self._hold_or_release()

    def parse_piece(self) -> int:
        """Parse the next piece of input; returns its size in bytes."""
        if self.transport.is_closing() or self._refused:
            self._unparsed.clear()
            return 0
        piece = bytes(self._unparsed[:PIECE_BYTES])
        del self._unparsed[:PIECE_BYTES]
        self._since_progress += len(piece)
        super().data_received(piece)
        if self._since_progress + self._head_bytes > MAX_HEAD_BYTES + PIECE_BYTES and not self._refused:
            self._refuse(431)
        return len(piece)

    def has_more(self) -> bool:
        """Whether this connection has input for another piece."""
        self._queued = bool(self._unparsed) and not self.pipeline
        self._hold_or_release()
        return self._queued

    def _hold_or_release(self) -> None:
        if self._unparsed:
            self._flow.hold()
        else:
            self._flow.release()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._parse_soon()

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        self._since_progress = self._head_bytes = self._header_count = 0
        self._head_is_read = False
        super().on_message_begin()
        if self._timer is None:
            self._close_after(self.headers_timeout_s)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._since_progress = 0
        if len(self.url) > MAX_URL_BYTES:
            self._over(414)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._since_progress = 0
        self._header_count += 1
        self._head_bytes += len(name) + len(value)
        if self._header_count > MAX_HEADERS or self._head_bytes > MAX_HEAD_BYTES:
            self._over(431)
        # Trailers must not count as headers: they come after the request has been authorized.
        if not self._head_is_read:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._since_progress = 0
        self._head_is_read = True
        self._stop_timer()
        self._close_after(self.body_timeout_s)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._since_progress = 0
        if (
            self.scope.get(STREAMS_BODY) and not self.cycle.response_complete
        ):  # admitted: each piece has the time of a whole body
            self._stop_timer()
            self._close_after(self.body_timeout_s)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._since_progress = self._head_bytes = 0
        self._stop_timer()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._unparsed.clear()
        super().connection_lost(exc)

    # Refusals

    def _over(self, status: int) -> None:
        self._refusal = status
        raise _RefusedError

    def send_400_response(self, msg: str) -> None:
        self._refuse(self._refusal)

    def _refuse(self, status: int) -> None:
        """Close the connection, with a reply unless an earlier request is still being answered."""
        cycle: Any = self.cycle  # None before the first request, though its type denies it
        if cycle is None or cycle.response_complete:
            self._reply_and_close(_reply(problem.http_problem(status, _REFUSALS[status])))
        else:
            self._refused = True
            self.transport.close()

    def _reply_and_close(self, reply: bytes) -> None:
        """Send a reply, and discard input until the client has had time to read it."""
        self._refused = True
        self._unparsed.clear()
        self._stop_timer()
        self.transport.write(reply)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._close_after(self.linger_s)

    def _close_after(self, timeout_s: float) -> None:
        self._timer = self.loop.call_later(timeout_s, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _too_many_connections() -> bytes:
    """The whole reply for a connection over the cap."""
    error = Overloaded("Too many connections are open. Close some, or try again in a second.")
    return _reply(problem.problem_of(error), "retry-after: 1")


def _reply(body: dict[str, Any], *headers: str) -> bytes:
    """Problem details as a whole reply, the last of its connection."""
    content = orjson.dumps(body)
    head = f"HTTP/1.1 {body['status']} {body['title']}", f"content-type: {problem.MEDIA_TYPE}", *headers
    return "\r\n".join((*head, "connection: close", f"content-length: {len(content)}", "", "")).encode() + content
