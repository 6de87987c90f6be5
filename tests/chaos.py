"""A server that misbehaves on demand: what a backend's server does on a bad day, on loopback and without waiting.

    async with Chaos(hits) as server:
        server.behaviour = reset
        backend = await Remote.open(opening(folder, url=server.url))

A behaviour is an async function of one `Call`. ``schedule`` gives behaviours for the next calls, one each, before
``behaviour`` holds again. Nothing here sleeps: what hangs, hangs until the server is closed or an event is set.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import zlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Self

Behaviour = Callable[["Call"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Call:
    """One request, and the ways to answer it."""

    server: Chaos
    path: str
    headers: dict[str, str]
    body: bytes
    writer: asyncio.StreamWriter
    method: str = "POST"

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def head(self, status: int = 200, length: int | None = None, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Whatever", "Content-Type: application/json", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if length is not None:
            lines.append(f"Content-Length: {length}")
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def reply(self, body: bytes, status: int = 200, **headers: str) -> None:
        await self.head(status, len(body), **headers)
        await self.send(body)

    async def forever(self) -> None:
        """Until the server is closed."""
        await self.server.closing.wait()


class Chaos:
    """``hits`` are the items of a healthy answer, as JSON values; ``answer`` computes them from the request instead."""

    def __init__(
        self,
        hits: Sequence[object] = (),
        behaviour: Behaviour | None = None,
        answer: Callable[[dict[str, Any]], Awaitable[Sequence[object]]] | None = None,
    ) -> None:
        self.hits, self.answer = list(hits), answer
        self.behaviour: Behaviour = behaviour or healthy
        self.schedule: deque[Behaviour] = deque()
        self.calls: list[Call] = []
        self.called = asyncio.Event()
        self.closing = asyncio.Event()
        self.connections = 0
        self.all_gone = asyncio.Event()
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closing.set()
        self._server.close()
        if self.connections:
            await self.all_gone.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.all_gone.clear()
        gone = asyncio.ensure_future(self._talk(reader, writer))
        closing = asyncio.ensure_future(self.closing.wait())
        try:
            await asyncio.wait({gone, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (gone, closing):
                task.cancel()
            await asyncio.wait({gone, closing})
            if not gone.cancelled():
                gone.exception()  # a client that hangs up in the middle is what is being tried
            writer.transport.abort() if self.closing.is_set() else writer.close()
            self.connections -= 1
            if not self.connections:
                self.all_gone.set()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = lines[0].split(" ")
        call = Call(self, path, headers, body, writer, method)
        self.calls.append(call)
        self.called.set()
        behaviour = self.schedule.popleft() if self.schedule else self.behaviour
        working = asyncio.ensure_future(behaviour(call))
        hung_up = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({working, hung_up}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, hung_up):
                task.cancel()
            await asyncio.wait({working, hung_up})
        if not working.cancelled():
            working.result()


# What a server may do with one call


async def healthy(call: Call) -> None:
    hits = await call.server.answer(call.json) if call.server.answer else call.server.hits
    await call.reply(json.dumps({"hits": hits}).encode())


def after(event: asyncio.Event) -> Behaviour:
    """Slow: healthy once ``event`` is set."""

    async def behave(call: Call) -> None:
        await event.wait()
        await healthy(call)

    return behave


async def hang(call: Call) -> None:
    """Reads the request and says nothing."""
    await call.forever()


async def hang_after_headers(call: Call) -> None:
    await call.head(length=1000)
    await call.forever()


async def trickle(call: Call) -> None:
    """A byte now and then: a limit on each read would never cut it."""
    await call.head(length=1_000_000)
    while True:
        await call.send(b" ")
        await asyncio.sleep(0.005)


async def reset(call: Call) -> None:
    """Half a reply, then RST."""
    await call.head(length=1000)
    await call.send(b'{"hits": [')
    _linger_zero(call.writer)
    call.writer.transport.abort()


async def reset_at_once(call: Call) -> None:
    _linger_zero(call.writer)
    call.writer.transport.abort()


def _linger_zero(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def status(code: int, **headers: str) -> Behaviour:
    async def behave(call: Call) -> None:
        await call.reply(b'{"detail": "no"}', code, **headers)

    return behave


def body(content: bytes, **headers: str) -> Behaviour:
    """200 with just these bytes."""

    async def behave(call: Call) -> None:
        await call.reply(content, 200, **headers)

    return behave


def items(*values: object) -> Behaviour:
    """200 with these items; what JSON cannot say (NaN, lone surrogates) is sent as Python's json does."""
    return body(json.dumps({"hits": list(values)}).encode())


html = body(b"<!doctype html><html><body>502 Bad Gateway</body></html>")
truncated = body(b'{"hits": [{"native_id": "1", "text": "cut in the mid')


async def cut_short(call: Call) -> None:
    """Fewer bytes than announced."""
    await call.head(length=1000)
    await call.send(b'{"hits": []}')


async def flood(call: Call) -> None:
    """JSON without an end."""
    await call.head()
    while True:
        await call.send(b" " * 65_536)


async def announced_flood(call: Call) -> None:
    """A gigabyte, announced."""
    await call.head(length=1 << 30)
    await call.forever()


def bomb(megabytes: int = 1024) -> Behaviour:
    """Gzip that inflates to ``megabytes`` of blanks, a thousandth of it on the wire."""

    async def behave(call: Call) -> None:
        await call.head(Content_Encoding="gzip")
        press = zlib.compressobj(9, wbits=31)
        blank = b" " * (1 << 20)
        await call.send(press.compress(blank) + press.flush(zlib.Z_FULL_FLUSH))
        # After a full flush a block refers to nothing before it, so the second one may be sent any number of times.
        block = press.compress(blank) + press.flush(zlib.Z_FULL_FLUSH)
        for _ in range(megabytes):
            await call.send(block)

    return behave


async def zipped(call: Call) -> None:
    """A healthy answer, compressed though nobody asked for it."""
    await call.reply(gzip.compress(json.dumps({"hits": call.server.hits}).encode()), Content_Encoding="gzip")


async def unannounced(call: Call) -> None:
    """A healthy answer without a length: it ends with the connection."""
    await call.head()
    await call.send(json.dumps({"hits": call.server.hits}).encode())


# Servers that are not there


@contextmanager
def refusing() -> Iterator[str]:
    """An address where nobody listens: bound, so that nobody else takes it, and refusing."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def blackhole() -> Iterator[str]:
    """An address that does not answer a SYN: its queue of connections is full, and nobody accepts."""
    with socket.socket() as listening, ExitStack() as stack:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@asynccontextmanager
async def many(hits: Sequence[Sequence[object]]) -> AsyncIterator[list[Chaos]]:
    """A server for each list of hits."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(Chaos(each)) for each in hits]
