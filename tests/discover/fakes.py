"""Servers on loopback that say what Memgraph, Qdrant and others say, and ones that only look like them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import orjson

Reply = tuple[int, object]

MEMGRAPH = "Neo4j/v5.11.0 compatible graph database server - Memgraph"
OPENAPI = {"openapi": "3.1.0", "info": {"title": "Cognee API", "version": "1.0.0"}, "paths": {}}


@asynccontextmanager
async def listening(serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]) -> AsyncIterator[int]:
    """A TCP server on a free port of loopback; yields the port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)  # type: ignore[arg-type]
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


class Http:
    """Answers by method and path; everything else is 404. ``asked`` is what came."""

    def __init__(self, replies: Mapping[str, Reply]) -> None:
        self.replies = replies
        self.asked: list[str] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:  # another protocol, whose client has gone
            writer.close()
            return
        request = " ".join(head.decode().split("\r\n")[0].split(" ")[:2])
        self.asked.append(request)
        status, content = self.replies.get(request, (404, {"detail": "Not Found"}))
        body = content if isinstance(content, bytes) else orjson.dumps(content)
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


class Bolt:
    """Agrees on a version, then answers HELLO as a server of that name; without a name it wants a password first."""

    def __init__(self, agent: str | None, version: tuple[int, int] = (5, 2)) -> None:
        self.agent = agent
        self.version = version
        self.hello = b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(4) == b"\x60\x60\xb0\x17"
        await reader.readexactly(16)
        major, minor = self.version
        writer.write(bytes([0, 0, minor, major]))
        if major:
            self.hello = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
            if self.agent is None:
                message = b"\xb1\x7f\xa1\x84code\xd0\x1aNeo.ClientError.Security.X"
            else:
                name = self.agent.encode()
                size = bytes([0x80 | len(name)]) if len(name) < 16 else bytes([0xD0, len(name)])
                message = b"\xb1\x70\xa2\x8dconnection_id\x86bolt-1\x86server" + size + name
            writer.write(len(message).to_bytes(2, "big") + message + b"\0\0")
            await writer.drain()
        writer.close()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes a connection and says nothing until the client goes."""
    await reader.read()
    writer.close()
