"""A relay in front of a server of PostgreSQL, as a pooler is, which changes what clients send."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit, urlunsplit


class Relay:
    """A pooler in front of a server: it passes bytes on, those of a client with ``replaced`` in them changed."""

    def __init__(self, url: str, replaced: tuple[bytes, bytes] = (b"", b"")) -> None:
        self._to, self._replaced = urlsplit(url), replaced
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> str:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._listener.sockets[0].getsockname()[1]
        name = f"{self._to.username}:{self._to.password}@127.0.0.1:{port}"
        return urlunsplit(("postgresql", name, self._to.path, "", ""))

    async def __aexit__(self, *raised: object) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reads, there_writes = await asyncio.open_connection(self._to.hostname, self._to.port)
        for pipe in (self._pass(reader, there_writes, *self._replaced), self._pass(there_reads, writer, b"", b"")):
            task = asyncio.create_task(pipe)
            self._tasks.add(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wanted: bytes, given: bytes
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data.replace(wanted, given) if wanted else data)
                await writer.drain()
        finally:
            writer.close()
