"""A TCP proxy before PostgreSQL that loses a connection at a commit, as a network does.

It reads the messages of the protocol: a type of one byte and a length, except for the first ones of a connection.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

COMMITTED = b"COMMIT\0"
"""the end of the message of a transaction that was committed"""


@dataclass(eq=False)
class _Link:
    """One connection and its two ends."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    sent: bytearray = field(default_factory=bytearray)
    """what the client has sent in its transaction"""
    cut_at_answer: bool = False

    def break_off(self) -> None:
        for end in (self.client, self.server):
            end.transport.abort()


class CuttingProxy:
    """Passes everything on until `cut` names the transaction whose connection is to break."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._marker = b""
        self._committed = self._comes_back = self._away = False
        self._server: asyncio.Server | None = None
        self._links: list[_Link] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.cuts = 0
        """connections that were cut at a commit"""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *raised: object) -> None:
        assert self._server is not None
        self._server.close()
        for link in self._links:
            link.break_off()
        await asyncio.gather(*self._tasks)
        for link in self._links:
            for end in (link.client, link.server):
                with suppress(ConnectionError):
                    await end.wait_closed()

    @property
    def url(self) -> str:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return f"postgresql://{self._parts.username}:{self._parts.password}@127.0.0.1:{port}{self._parts.path}"

    def cut(self, text: str, *, committed: bool, come_back: bool) -> None:
        """Break the connection whose transaction has this text: after its commit, or with the commit not passed on.

        Without ``come_back`` all others break as well, and none is made until `come_back`.
        """
        self._marker, self._committed, self._comes_back = text.encode(), committed, come_back

    def come_back(self) -> None:
        self._away = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._away:
            writer.transport.abort()
            return
        from_server, server = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        link = _Link(writer, server)
        self._links.append(link)
        for passing in (self._pass_queries(reader, link), self._pass_answers(from_server, link)):
            self._tasks.append(asyncio.create_task(passing))

    async def _pass_queries(self, reader: asyncio.StreamReader, link: _Link) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            length = await reader.readexactly(4)  # the first message has no type
            link.server.write(length + await reader.readexactly(int.from_bytes(length) - 4))
            while True:
                message = await _message(reader)
                link.sent += message
                if self._marker and self._marker in link.sent and _asks(message, b"commit"):
                    self._marker, link.cut_at_answer = b"", self._committed
                    if not self._committed:
                        self._lose(link)
                        return
                if _asks(message, b"begin") or _asks(message, b"commit") or _asks(message, b"rollback"):
                    link.sent.clear()
                link.server.write(message)
        link.server.close()

    async def _pass_answers(self, reader: asyncio.StreamReader, link: _Link) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                message = await _message(reader)
                if link.cut_at_answer and message.endswith(COMMITTED):
                    self._lose(link)
                    return
                if not link.cut_at_answer:
                    link.client.write(message)
        link.client.close()

    def _lose(self, link: _Link) -> None:
        self.cuts += 1
        self._away = not self._comes_back
        for broken in self._links if self._away else [link]:
            broken.break_off()


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:]) - 4)


def _asks(message: bytes, word: bytes) -> bool:
    """Whether a message of a client is a query with this statement."""
    return message[:1] in (b"Q", b"P") and word in message
