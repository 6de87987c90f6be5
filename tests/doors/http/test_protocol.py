"""The bounds of the HTTP protocol over real sockets: bytes, headers, pieces, turns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, ClassVar

import httpx
import pytest

from fusion.doors.http import protocol
from fusion.doors.http.protocol import LimitedProtocol
from tests.doors.fakes import FakeFusion, serving
from tests.doors.http.test_sockets import QUESTION, close, connect, request, status

LINE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


class Counting(LimitedProtocol):
    """Counts what the parser gets at once."""

    pieces: ClassVar[list[int]] = []
    most_unparsed: ClassVar[list[int]] = []

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.parser = _CountingParser(self.parser, self.pieces)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.most_unparsed.append(len(self._unparsed))


class _CountingParser:
    def __init__(self, parser: Any, pieces: list[int]) -> None:
        self._parser, self._pieces = parser, pieces

    def feed_data(self, data: bytes) -> None:
        self._pieces.append(len(data))
        self._parser.feed_data(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


@pytest.fixture(autouse=True)
def _forget_counts() -> None:
    Counting.pieces.clear()
    Counting.most_unparsed.clear()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[str, asyncio.StreamReader, asyncio.StreamWriter]]:
    async with serving(FakeFusion(), protocol=Counting) as url:
        reader, writer = await connect(url)
        try:
            yield url, reader, writer
        finally:
            await close(writer)


async def send_until_refused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, piece: bytes) -> int:
    """Sends a piece again and again until a reply comes; returns how many bytes were sent."""
    sent = 0
    reply = asyncio.create_task(reader.readexactly(1))
    with suppress(ConnectionError):
        while not reply.done() and sent < 50_000_000:
            writer.write(piece)
            sent += len(piece)
            await writer.drain()
    reader._buffer[:0] = await asyncio.wait_for(reply, 60)  # type: ignore[attr-defined]
    return sent


@pytest.mark.feature("an endless URL, header, trailer or chunk extension gets 414 or 431, or the connection is closed")
@pytest.mark.parametrize(
    ("begin", "endless", "refusal"),
    [
        pytest.param(b"GET /", b"a" * 1000, 414, id="a URL"),
        pytest.param(b"GET /healthz?q=", b"a" * 1000, 414, id="a query"),
        pytest.param(LINE + b"X-Long: ", b"a" * 1000, 431, id="the value of a header"),
        pytest.param(LINE, b"a" * 1000, 431, id="the name of a header"),
        pytest.param(LINE, b"X-More: a\r\n" * 20, 431, id="many headers"),
        pytest.param(LINE, (b"X-More: " + b"a" * 1000 + b"\r\n"), 431, id="long headers"),
        pytest.param(b"", b"\r\n" * 500, 431, id="blank lines before a request"),
        pytest.param(b"", b"G" * 1000, 400, id="a method"),
    ],
)
async def test_request_head_is_bounded(begin: bytes, endless: bytes, refusal: int) -> None:
    """The reply names the limit, the connection ends, and the parser has seen hardly more than the limit."""
    async with connected() as (url, reader, writer):
        writer.write(begin)
        await send_until_refused(reader, writer, endless)
        assert await status(reader) == refusal
        head, _, body = (await asyncio.wait_for(reader.read(), 10)).partition(b"\r\n\r\n")
        assert b"connection: close" in head
        assert json.loads(body)["status"] == refusal
        assert sum(Counting.pieces) <= protocol.MAX_HEAD_BYTES + 4 * protocol.PIECE_BYTES
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/healthz")).status_code == 200


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param(b"1;" + b"e" * 1000, id="an extension of a chunk"),
        pytest.param(b"0\r\nX-Trailer: " + b"t" * 1000, id="a trailer"),
        pytest.param(b"0\r\n" + b"X-Trailer: t\r\n" * 100, id="many trailers"),
    ],
)
async def test_chunk_headers_and_trailers_are_bounded(endless: bytes) -> None:
    """A request that is being read has no place for a reply of the protocol's: the connection is closed."""
    async with connected() as (url, reader, writer):
        writer.write(request(b"", "Transfer-Encoding: chunked"))
        writer.write(endless)
        with suppress(ConnectionError):
            for _ in range(50_000):
                writer.write(endless[-1000:])
                await writer.drain()
        with suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), 10)
        assert sum(Counting.pieces) <= 2 * protocol.MAX_HEAD_BYTES + 4 * protocol.PIECE_BYTES
        async with httpx.AsyncClient(base_url=url) as client:
            assert (await client.get("/healthz")).status_code == 200


async def test_request_at_the_limits_is_served() -> None:
    """100 headers of 32 KB together, and a URL of 8 KB."""
    async with connected() as (_, reader, writer):
        few = 98
        size = (protocol.MAX_HEAD_BYTES - len("Hostlocalhost")) // few - len("X-00")
        headers = b"".join(b"X-%02d: %s\r\n" % (number, b"v" * size) for number in range(few))
        path = b"/healthz?q=".ljust(protocol.MAX_URL_BYTES, b"a")
        writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n")
        assert await asyncio.wait_for(status(reader), 10) == 200


async def test_trailers_are_no_headers() -> None:
    """A Host that follows the body changes nothing."""
    async with connected() as (_, reader, writer):
        chunked = b"%x\r\n%s\r\n0\r\nHost: evil.example\r\n\r\n" % (len(QUESTION), QUESTION)
        writer.write(request(b"", "Transfer-Encoding: chunked") + chunked)
        assert await asyncio.wait_for(status(reader), 10) == 200


async def test_parser_gets_bounded_pieces() -> None:
    """A body of 256 KB in one write is parsed 4 KB at a time, and answered."""
    async with connected() as (_, reader, writer):
        writer.write(request(QUESTION.ljust(262_144)))
        assert await asyncio.wait_for(status(reader), 10) == 200
    assert max(Counting.pieces) <= protocol.PIECE_BYTES
    assert sum(Counting.pieces) > 262_144


async def test_pipelined_requests_are_not_parsed_ahead() -> None:
    """Two thousand requests in one connection: all are answered, and the parser stays some 4 KB ahead."""
    many = 2_000
    async with connected() as (_, reader, writer):
        one = LINE + b"\r\n"

        async def send() -> None:
            for _ in range(many // 100):
                writer.write(one * 100)
                await writer.drain()

        sending = asyncio.create_task(send())
        answered = 0
        while answered < many:
            if b"HTTP/1.1 200" in await asyncio.wait_for(reader.readline(), 20):
                answered += 1
        await sending
    assert max(Counting.pieces) <= protocol.PIECE_BYTES
    assert max(Counting.most_unparsed) <= 2 * 262_144  # the last read of a socket, and what was left of the one before


class Recording:
    """A connection as `ParseScheduler` sees it: so many bytes, in pieces of one size."""

    def __init__(self, name: str, pieces: int, done: list[str], size: int = protocol.PIECE_BYTES) -> None:
        self._name, self._left, self._done, self._size = name, pieces, done, size

    def parse_piece(self) -> int:
        self._left -= 1
        self._done.append(self._name)
        return self._size

    def has_more(self) -> bool:
        return self._left > 0


@pytest.mark.feature("connections share each turn of the event loop in bounded pieces")
async def test_connections_share_the_parsing_budget() -> None:
    """A flood gets eight pieces a turn; what comes later has its own within a round, not behind the whole flood."""
    done: list[str] = []
    turns = protocol.ParseScheduler(asyncio.get_running_loop())
    turns.join(Recording("flood", 100, done))  # type: ignore[arg-type]
    assert len(done) == protocol.LOOP_BYTES // protocol.PIECE_BYTES
    turns.join(Recording("question", 1, done))  # type: ignore[arg-type]
    assert "question" not in done
    await asyncio.sleep(0)
    assert "question" in done[: len(done) - protocol.LOOP_BYTES // protocol.PIECE_BYTES + 2]
    assert len(done) == 2 * protocol.LOOP_BYTES // protocol.PIECE_BYTES
    for _ in range(20):
        await asyncio.sleep(0)
    assert done.count("flood") == 100


async def test_short_requests_have_a_minimum_cost() -> None:
    """A thousand connections with 20 bytes each do not all begin in one turn."""
    done: list[str] = []
    turns = protocol.ParseScheduler(asyncio.get_running_loop())
    for _ in range(1000):
        turns.join(Recording("small", 1, done, size=20))  # type: ignore[arg-type]
    assert len(done) == protocol.LOOP_BYTES // protocol.MIN_PIECE_BYTES
