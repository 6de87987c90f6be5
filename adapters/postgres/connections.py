"""Connections to PostgreSQL that survive its restarts. Every failure is raised as an error of `fusion.errors`.

A deadline covers everything: waiting for a free connection, logging on, the statements, every repetition. Work is
repeated within it after failures that pass (two writers met, the server is starting), with a growing pause; and once,
on a new connection, after one was lost, because a restart or a failover ends all of them. So all work must be
idempotent: a commit that was not confirmed may have happened.

psycopg's own pool is not used: it connects in the background, so a caller who waits never learns why it fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from math import ceil
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from adapters.postgres.errors import as_backend_error, is_connection_lost, is_transient
from adapters.postgres.options import Options
from adapters.postgres.values import adapters
from fusion.errors import BackendTimeout, BackendUnreachable, FusionError
from fusion.lib.backoff import backoff_s
from fusion.store.postgres_connections import IDLE_S

T = TypeVar("T")
Row = tuple[Any, ...]

PAUSE_S, LONGEST_PAUSE_S, PAUSE_SPREAD = 0.01, 1.0, 0.5
"""seconds before a failure that passes is tried again: doubled up to a second, ± 50 %, so that two writers part"""
LEAST_LIMIT_MS = 250
"""of a statement: the server's limit is this, doubled until it is no less than the deadline, so it rarely changes"""
MOST_MS = 2**31 - 1
"""of any limit of the server"""
STALLED_S = 30.0
"""seconds after which the server ends a transaction that a gateway stands still in: others wait for its locks"""
LIMITED_TRANSACTIONS = 17_00_00
"""the first version that limits a whole transaction"""
_SETTINGS = {
    "default_transaction_isolation": r"read\ committed",  # what waits for a lock reads what others wrote meanwhile
    "plan_cache_mode": "force_custom_plan",  # a plan for any values of a filter is a bad one for most
    "jit": "off",  # compiling takes longer than any of the queries
    "random_page_cost": "1.1",  # of caches and solid-state disks: at 4, all vectors are read for those of a user
    # A table that was just filled has no statistics, so PostgreSQL takes it for empty and reads it whole for each row.
    "enable_seqscan": "off",
    "max_parallel_workers_per_gather": "0",  # a question gets one core: others ask at the same time
    "hnsw.iterative_scan": "relaxed_order",  # look on while filters leave out what the vector index finds
    # A machine without power says no goodbye. The server's own settings ask after two hours. No matter on a socket.
    "tcp_keepalives_idle": "15",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}

_driver_log = logging.getLogger("psycopg")


class Connection:
    """A connection that is lent to one piece of work."""

    def __init__(self, raw: AsyncConnection[Row], stalled_s: float = STALLED_S) -> None:
        self.raw = raw
        self.limit_ms = 0
        self._stalled_ms = round(stalled_s * 1000)

    async def rows(self, statement: str, values: Any = None) -> list[Row]:
        """All rows of a statement, which limits their number."""
        cursor = await self.raw.execute(statement, values)
        return await cursor.fetchall() if cursor.pgresult is not None and cursor.pgresult.nfields else []

    async def many(self, statement: str, values: Sequence[Any]) -> None:
        """Run a statement for each of ``values``, together."""
        if len(values) == 1:
            await self.raw.execute(statement, values[0])
            return
        async with self.raw.cursor() as cursor:
            await cursor.executemany(statement, values)
        if self.raw.info.transaction_status == TransactionStatus.INTRANS:
            # A pipeline ends with a flush. PostgreSQL takes that for the next statement, and does not begin to count
            # the time for which the transaction is idle. A statement that is no part of a pipeline lets it.
            await self.raw.execute("SELECT 1")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        async with self.raw.transaction():
            yield

    async def limited(self, deadline_s: float) -> None:
        """Let the server stop statements that nobody waits for any more, as it cannot notice that by itself.

        It ends a transaction, too, that takes longer than all work may: a gateway can also stand still within a
        pipeline, where no time is counted as idle.
        """
        limit = LEAST_LIMIT_MS
        while limit < deadline_s * 1000:
            limit *= 2
        if limit != self.limit_ms:
            limits = f"SET statement_timeout = {min(limit, MOST_MS)}"
            if self.raw.info.server_version >= LIMITED_TRANSACTIONS:
                limits += f"; SET transaction_timeout = {min(limit + self._stalled_ms, MOST_MS)}"
            await self.raw.execute(limits)
            self.limit_ms = limit


class Connections:
    """At most ``options.connections`` connections, made when they are needed; unused ones are closed after `IDLE_S`."""

    def __init__(self, options: Options, stalled_s: float = STALLED_S) -> None:
        """``stalled_s`` is for tests."""
        self.shown = options.shown
        self._options = options
        self._stalled_s = stalled_s
        self._adapters = adapters()
        self._idle: deque[tuple[float, Connection]] = deque()
        """with the loop's time since which it is idle; the last one was used last"""
        self._closing: asyncio.Task[None] | None = None
        self._free = asyncio.Semaphore(options.connections)
        self._running: set[asyncio.Task[Any]] = set()
        self._closed = False
        # It logs addresses, and texts of the server, which may quote stored data.
        _driver_log.setLevel(logging.CRITICAL)

    async def run(self, work: Callable[[Connection], Awaitable[T]], deadline_s: float) -> T:
        """The result of ``work`` with a connection. It may be repeated from its start.

        Raises at the deadline, also if the server hangs and does not even stop the work.
        """
        if self._closed:
            raise BackendUnreachable(f"{self.shown}: the connections were closed")
        task = asyncio.create_task(self._repeated(work, deadline_s), name="postgres")
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait({task}, timeout=deadline_s)
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            raise BackendTimeout(f"{self.shown}: {self._why_late(deadline_s)}")
        return task.result()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # it was raised, or nobody waits for it any more

    def _why_late(self, deadline_s: float) -> str:
        if self._free.locked():
            return (
                f"all {self._options.connections} connections were in use for {deadline_s * 1000:.0f} ms. Fix: raise "
                "connections of the backend"
            )
        return f"no answer within {deadline_s * 1000:.0f} ms"

    async def _repeated(self, work: Callable[[Connection], Awaitable[T]], deadline_s: float) -> T:
        attempt, again = 0, True
        while True:
            try:
                async with self._lent(deadline_s) as connection:
                    return await work(connection)
            except FusionError:
                raise
            except Exception as error:  # noqa: BLE001 – bytes that are not PostgreSQL's come out as errors of any kind
                if is_transient(error):
                    attempt += 1
                    await asyncio.sleep(backoff_s(attempt, PAUSE_S, LONGEST_PAUSE_S, spread=PAUSE_SPREAD))
                elif again and is_connection_lost(error):
                    again = False
                    await self._drop_idle()
                else:
                    raise as_backend_error(error, self.shown) from None

    @asynccontextmanager
    async def _lent(self, deadline_s: float) -> AsyncIterator[Connection]:
        async with self._free:
            connection = self._idle.pop()[1] if self._idle else await self._connected()
            try:
                await connection.limited(deadline_s)
                yield connection
            finally:
                usable = not connection.raw.closed and connection.raw.info.transaction_status == TransactionStatus.IDLE
                if usable and not self._closed:
                    self._keep(connection)
                else:
                    await _closed(connection)

    async def _connected(self) -> Connection:
        options = self._options
        settings = {
            **_SETTINGS,
            "hnsw.ef_search": options.ef_search,
            "idle_in_transaction_session_timeout": f"{self._stalled_s * 1000:.0f}",
            # PostgreSQL looks into its own pg_catalog before these. Others may create in public: an operator there
            # that takes the types of a statement exactly would be preferred, and would run as this role.
            "search_path": f"{options.schema},pg_temp",
        }
        given = options.parameters()
        chosen = " ".join(f"-c {name}={value}" for name, value in settings.items())
        connect_s = options.connect_ms / 1000
        try:
            async with asyncio.timeout(connect_s * options.hosts):
                raw = await self._log_on(given, chosen, connect_s)
        except TimeoutError:
            raise BackendUnreachable(f"{self.shown}: no connection within {options.connect_ms} ms") from None
        return Connection(raw, self._stalled_s)

    async def _log_on(self, given: Mapping[str, Any], chosen: str, connect_s: float) -> AsyncConnection[Row]:
        return await AsyncConnection.connect(
            **{
                "application_name": "memory-fusion",
                "connect_timeout": max(2, ceil(connect_s)),  # in whole seconds: to go on to the next host
                **given,
                "client_encoding": "utf8",
                "options": f"{given.get('options') or ''} {chosen}".strip(),
            },
            autocommit=True,
            context=_Context(self._adapters),
        )

    def _keep(self, connection: Connection) -> None:
        self._idle.append((asyncio.get_running_loop().time(), connection))
        if self._closing is None or self._closing.done():
            self._closing = asyncio.create_task(self._close_unused(), name="idle connections to postgres")

    async def _close_unused(self) -> None:
        while self._idle:
            await asyncio.sleep(self._idle[0][0] + IDLE_S - asyncio.get_running_loop().time())
            await self._drop_idle(IDLE_S)

    async def _drop_idle(self, older_s: float = 0.0) -> None:
        """Close the connections that were idle for so long."""
        before = asyncio.get_running_loop().time() - older_s
        while self._idle and self._idle[0][0] <= before:
            await _closed(self._idle.popleft()[1])

    async def close(self) -> None:
        self._closed = True
        running = [*self._running, *([self._closing] if self._closing else [])]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._drop_idle()


class _Context:
    """How values are converted on a connection."""

    connection = None

    def __init__(self, adapters: Any) -> None:
        self.adapters = adapters


async def _closed(connection: Connection) -> None:
    with suppress(psycopg.Error, OSError):
        await connection.raw.close()
