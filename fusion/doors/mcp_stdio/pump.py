"""Reads a client's messages line by line, and writes the replies; calls of tools are answered by threads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from threading import Condition, Lock, Thread
from typing import Any
from typing import Protocol as Port

from fusion.doors.mcp_stdio.protocol import (
    BATCHES,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    MAX_BATCH,
    PARSE_ERROR,
    Cancelled,
    Protocol,
    Reply,
    RequestId,
    RpcError,
    ToolCall,
    error_reply,
)
from fusion.errors import BadInput, FusionError, NotFound

MAX_LINE_BYTES = 4 << 20
WORKERS = 8
"""calls that are passed on at once; more wait"""
DRAIN_S = 5.0
"""seconds that calls under way have after the client has closed its side"""


class Upstream(Port):
    """Who carries calls of tools out."""

    def call(self, call: ToolCall) -> dict[str, Any]:
        """The result of a tool. Raises RpcError and FusionErrors."""


class TooLong(Exception):
    """A line has more bytes than `MAX_LINE_BYTES`."""


def lines(read: Callable[[int], bytes]) -> Iterator[bytes | TooLong]:
    """The lines of a stream. In place of one that is too long comes TooLong; a last one without its end is dropped."""
    kept, dropping = bytearray(), False
    while chunk := read(1 << 16):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            line = bytes(kept) + part
            kept.clear()
            if not dropping:
                yield line if len(line) <= MAX_LINE_BYTES else TooLong()
            dropping = False
        if not dropping:
            kept += rest
        if len(kept) > MAX_LINE_BYTES:
            kept.clear()
            dropping = True
            yield TooLong()


class Pump:
    """One client's connection, from its first line to the end of its stdin."""

    def __init__(self, protocol: Protocol, upstream: Upstream, write: Callable[[bytes], None]) -> None:
        self._protocol = protocol
        self._upstream = upstream
        self._write = write
        self._writing = Lock()
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._workers = 0
        self._open: set[RequestId] = set()
        """the calls whose replies the client waits for"""
        self._under_way = 0
        self._changed = Condition()

    def run(self, read: Callable[[int], bytes]) -> None:
        """Answer every line until the end of the input, and then wait for the calls that are under way."""
        for line in lines(read):
            if isinstance(line, TooLong):
                self._send(error_reply(None, RpcError(INVALID_REQUEST, f"A line has over {MAX_LINE_BYTES:,} bytes")))
            elif line.strip():
                self._take(line)
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way, DRAIN_S)

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._send(error_reply(None, RpcError(PARSE_ERROR, "Parse error: the line is no JSON")))
            return
        if isinstance(message, list):
            self._take_batch(message)
            return
        answer = self._protocol.answer(message)
        if isinstance(answer, ToolCall):
            self._start(answer)
        elif isinstance(answer, Cancelled):
            with self._changed:
                self._open.discard(answer.id)
        elif answer is not None:
            self._send(answer)

    def _start(self, call: ToolCall) -> None:
        """Have a worker answer a call, unless the client has cancelled it by then."""
        with self._changed:
            if call.id in self._open:
                refused = error_reply(call.id, RpcError(INVALID_REQUEST, "Invalid request: a call with this id runs"))
                self._send(refused)
                return
            self._open.add(call.id)

        def work() -> None:
            reply = self._carried_out(call)
            with self._changed:
                wanted = call.id in self._open
                self._open.discard(call.id)
            if wanted:
                self._send(reply)

        self._have_done(work)

    def _take_batch(self, messages: list[object]) -> None:
        """Answer a list of messages by a list of replies, where the client's version has that."""
        if self._protocol.version not in BATCHES or not 0 < len(messages) <= MAX_BATCH:
            self._send(error_reply(None, RpcError(INVALID_REQUEST, "Invalid request: send one message a line")))
            return
        answers = [self._protocol.answer(message) for message in messages]

        def work() -> None:
            done = [self._carried_out(one) if isinstance(one, ToolCall) else one for one in answers]
            replies = [one for one in done if isinstance(one, dict)]
            if replies:
                self._send(replies)

        self._have_done(work)

    def _carried_out(self, call: ToolCall) -> Reply:
        """The reply to a call. What fails, fails as the tool does: a recall is empty and says why."""
        try:
            return self._protocol.completed(call, self._upstream.call(call))
        except RpcError as error:
            return error_reply(call.id, error)
        except (BadInput, NotFound) as error:
            refused = {"content": [{"type": "text", "text": str(error)}], "isError": True}
            return self._protocol.completed(call, refused)
        except FusionError as error:
            why = " ".join(str(error).split())
            return self._protocol.completed(call, self._protocol.listing.without_server(call.name, why))
        except Exception as error:  # noqa: BLE001 — a fault of ours costs one call, not the connection
            return error_reply(call.id, RpcError(INTERNAL_ERROR, f"Internal error: {type(error).__name__}"))

    def _have_done(self, work: Callable[[], None]) -> None:
        """Have a worker do something; another worker is started while there are fewer than `WORKERS`."""
        with self._changed:
            self._under_way += 1
            starts = self._workers < min(WORKERS, self._under_way)
            self._workers += starts
        self._waiting.put(work)
        if starts:
            Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while True:
            work = self._waiting.get()
            try:
                work()
            finally:
                with self._changed:
                    self._under_way -= 1
                    self._changed.notify_all()

    def _send(self, reply: Reply | list[Reply]) -> None:
        """Write one line. Without a reader there is nobody to tell, and the end of stdin follows."""
        data = json.dumps(reply, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        with self._writing, suppress(OSError):
            self._write(data)


def write_all(data: bytes) -> None:
    """Write to stdout without a buffer."""
    while data:
        data = data[os.write(1, data) :]
