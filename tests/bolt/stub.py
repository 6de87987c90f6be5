"""A Bolt server that says what a test tells it to: Memgraph's own words, and every fault on order.

    async with Stub() as stub:
        stub.answers["MATCH (n) RETURN n.id AS id"] = Rows(["id"], [["a"]])
        stub.schedule.append(Failure("Memgraph.TransientError.MemgraphError.MemgraphError", "conflict"))

A ``schedule`` gives the answers to the next statements, one each; then ``answers`` by statement, then ``otherwise``.
What was asked stands in ``asked`` (``heard`` is set each time), who logged on in ``log_ons``. Nothing sleeps: what
hangs, hangs until it is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from tests.bolt.packstream import Structure, pack, unpack

HELLO, GOODBYE, RESET, RUN, BEGIN, COMMIT, ROLLBACK = 0x01, 0x02, 0x0F, 0x10, 0x11, 0x12, 0x13
DISCARD, PULL, TELEMETRY, LOGON, LOGOFF = 0x2F, 0x3F, 0x54, 0x6A, 0x6B
SUCCESS, RECORD, IGNORED, FAILURE = 0x70, 0x71, 0x7E, 0x7F


@dataclass(frozen=True, slots=True)
class Rows:
    fields: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    code: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """``rows`` of a result, and then the connection is gone; none: before anything is answered."""

    fields: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer until the stub is closed."""


@dataclass(frozen=True, slots=True)
class Garbage:
    """Bytes that are no Bolt, and the end."""

    data: bytes = b"HTTP/1.1 400 Bad Request\r\n\r\n"


Answer = Rows | Failure | Lost | Hang | Garbage


@dataclass(frozen=True, slots=True)
class Asked:
    statement: str
    values: Mapping[str, Any]
    mode: str
    """"r" in a read transaction, else "w"; "auto" outside of one"""


@dataclass
class Stub:
    """``agent`` is how the server names itself; ``refuses`` what it says to who logs on, ``commits`` to who commits."""

    agent: str = "Neo4j/v5.11.0 compatible graph database server - Memgraph"
    otherwise: Answer = field(default_factory=Rows)
    answers: dict[str, Answer] = field(default_factory=dict)
    schedule: deque[Answer] = field(default_factory=deque)
    refuses: Failure | None = None
    commits: deque[Answer] = field(default_factory=deque)
    greeting: Garbage | None = None
    asked: list[Asked] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    log_ons: list[tuple[str, str]] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    async def __aenter__(self) -> Self:
        self._closing = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens: on the port of the last time, if there was one."""
        self._closing.clear()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Closes every connection; as a server that dies."""
        self._closing.set()
        self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"bolt://127.0.0.1:{self.port}"

    @property
    def statements(self) -> list[str]:
        return [asked.statement for asked in self.asked]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self.greeting is not None:
                writer.write(self.greeting.data)
                return
            await _Conversation(self, reader, writer).hold()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the other side is gone, or this server is
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    def _answer(self, statement: str) -> Answer:
        return self.schedule.popleft() if self.schedule else self.answers.get(statement, self.otherwise)


class _Conversation:
    """One connection: Bolt 5.2, a message at a time."""

    def __init__(self, stub: Stub, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._stub, self._reader, self._writer = stub, reader, writer
        self._mode = "auto"
        self._pending: Rows | Lost | None = None
        self._failed = False

    async def hold(self) -> None:
        await self._reader.readexactly(20)  # the magic number and four versions to choose from
        self._writer.write(bytes([0, 0, 2, 5]))
        while True:
            message = await self._receive()
            if message.tag == GOODBYE:
                return
            if message.tag == RESET:
                self._failed, self._mode, self._pending = False, "auto", None
                self._say(SUCCESS, {})
            elif self._failed:
                self._say(IGNORED)
            elif not await self._react(message):
                return
            await self._writer.drain()

    async def _react(self, message: Structure) -> bool:
        """Answers a message; False when the connection ends here."""
        match message.tag:
            case tag if tag == HELLO:
                self._say(SUCCESS, {"server": self._stub.agent, "connection_id": "bolt-1"})
            case tag if tag == LOGON:
                given = message.fields[0]
                self._stub.log_ons.append((given.get("principal", ""), given.get("credentials", "")))
                return await self._give(self._stub.refuses or Rows())
            case tag if tag == BEGIN:
                self._mode = message.fields[0].get("mode", "w")
                self._say(SUCCESS, {})
            case tag if tag == RUN:
                statement, values = message.fields[:2]
                self._stub.asked.append(Asked(statement, values, self._mode))
                self._stub.heard.set()
                return await self._give(self._stub._answer(statement), opens=True)
            case tag if tag in (PULL, DISCARD):
                return self._rows()
            case tag if tag == COMMIT:
                self._mode = "auto"
                return await self._give(self._stub.commits.popleft() if self._stub.commits else Rows())
            case tag if tag in (ROLLBACK, TELEMETRY, LOGOFF):
                self._mode = "auto"
                self._say(SUCCESS, {})
            case _:
                self._fail(Failure("Neo.ClientError.Request.Invalid", f"message {message.tag:#x}"))
        return True

    async def _give(self, answer: Answer, *, opens: bool = False) -> bool:
        match answer:
            case Failure():
                self._fail(answer)
            case Hang():
                await self._stub._closing.wait()
                return False
            case Garbage():
                self._writer.write(answer.data)
                with contextlib.suppress(ConnectionError):
                    await self._writer.drain()
                return False
            case Lost() if not answer.rows:
                return False
            case _ if opens:
                self._pending = answer
                self._say(SUCCESS, {"fields": list(answer.fields), "t_first": 0})
            case _:
                self._say(SUCCESS, {})
        return True

    def _rows(self) -> bool:
        pending, self._pending = self._pending, None
        for row in pending.rows if pending else ():
            self._say(RECORD, list(row))
        if isinstance(pending, Lost):
            return False
        self._say(SUCCESS, {"type": "r", "t_last": 0})
        return True

    def _fail(self, failure: Failure) -> None:
        self._failed = True
        self._say(FAILURE, {"code": failure.code, "message": failure.message})

    def _say(self, tag: int, *fields: object) -> None:
        data = pack(Structure(tag, fields))
        for start in range(0, len(data), 0xFFFF):
            chunk = data[start : start + 0xFFFF]
            self._writer.write(struct.pack(">H", len(chunk)) + chunk)
        self._writer.write(b"\x00\x00")

    async def _receive(self) -> Structure:
        data = b""
        while True:
            (size,) = struct.unpack(">H", await self._reader.readexactly(2))
            if size:
                data += await self._reader.readexactly(size)
            elif data:
                message = unpack(data)
                assert isinstance(message, Structure)
                return message
