"""A pool of Bolt connections that survives restarts of its server and raises every failure as a `BackendError`.

One `Bolt` a backend. Work runs in managed transactions: reads in read transactions, which a replica may serve and in
which the server refuses to write; writes in write transactions. Each has a deadline, which covers everything: waiting
for a connection, logging on, the queries, every repetition.

Repeated within the deadline: failures that the server calls transient (two writers met, a leader is being elected),
after a growing pause; and a lost connection, once and at once, because after a restart all connections of the pool are
dead, and the first failure empties the pool. A commit without confirmation is not repeated, because it may have
happened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from adapters.bolt.dialects import Dialect, Schema, TextIndex, VectorIndex
from adapters.bolt.errors import as_backend_error, is_connection_lost, is_transient
from adapters.bolt.options import Server
from fusion.errors import BackendTimeout, BackendUnreachable, FusionError, SettingsError
from fusion.lib.backoff import backoff_s

if TYPE_CHECKING:
    from neo4j import AsyncDriver, AsyncManagedTransaction, AsyncResult, AsyncSession

T = TypeVar("T")
_NO_VALUES: Mapping[str, object] = {}
Row = Mapping[str, Any]
Values = Mapping[str, object]

CONNECTIONS = 64
"""maximum concurrent searches of one backend"""

PLAN_S = 30.0
"""seconds for the second run of a query that was cut off"""

PAUSE_S, LONGEST_PAUSE_S, PAUSE_SPREAD = 0.01, 1.0, 0.5
"""seconds before a transient failure is tried again: doubled up to a second, ± 50 % so that two writers do not meet"""


class Run(Protocol):
    """Runs a statement in the current transaction and returns all its rows; the statement limits their number."""

    async def __call__(self, statement: str, values: Values = ...) -> list[Row]: ...


class Bolt:
    """A pool that connects at the first query, so a server that is down now may come up later."""

    def __init__(self, server: Server, dialect: Dialect) -> None:
        self.dialect = dialect
        self.shown = server.shown
        self.describe_s = server.describe_s
        self._server = server
        self._driver: AsyncDriver | None = None
        self._session: dict[str, Any] = {}
        self._closed = False
        self._planning: asyncio.Task[Any] | None = None

    async def read(self, statement: str, values: Values, deadline_s: float) -> list[Row]:
        """The rows of one query, in a read transaction."""
        return await self.reading(lambda run: run(statement, values), deadline_s)

    async def reading(self, work: Callable[[Run], Awaitable[T]], deadline_s: float) -> T:
        """Run several queries on one snapshot. ``work`` may be repeated from its start."""
        return await self._managed(work, deadline_s, write=False)

    async def reading_once_more(self, work: Callable[[Run], Awaitable[T]], deadline_s: float) -> T:
        """As ``reading``; work that is cut off runs once more in the background.

        A cold Neo4j takes longer to plan a query than a question has, and discards the plan when it is cut off. So the
        next question finds the plans cached, and reports any failure.
        """
        try:
            return await self.reading(work, deadline_s)
        except (BackendTimeout, asyncio.CancelledError):
            # One at a time, so that cancelled queries do not pile up on a database that hangs.
            if not self._closed and (self._planning is None or self._planning.done()):
                self._planning = asyncio.create_task(self.reading(work, PLAN_S), name="plan")
                self._planning.add_done_callback(lambda task: task.cancelled() or task.exception())
            raise

    async def write(self, statement: str, values: Values, deadline_s: float) -> list[Row]:
        """The rows of one statement that writes; durable when it returns."""
        return await self.writing(lambda run: run(statement, values), deadline_s)

    async def writing(self, work: Callable[[Run], Awaitable[T]], deadline_s: float) -> T:
        """Run several statements in one transaction. ``work`` may be repeated from its start; then nothing of it was
        committed."""
        return await self._managed(work, deadline_s, write=True)

    async def define(self, schema: Schema, deadline_s: float) -> None:
        """Create the missing parts of ``schema``. Raises ``SettingsError`` if a vector index of that name has
        another size: it was made for another model."""

        async def define(session: AsyncSession) -> None:
            existing = await self._existing(session)
            for index in schema.vectors:
                size = existing.get(index.name)
                if size is not None and size != index.dimensions:
                    raise SettingsError(
                        f"{self.shown}: the vector index {index.name} holds {size} dimensions, and the embedding model "
                        f"has {index.dimensions}; drop the index or choose another database"
                    )
            for statement in self.dialect.ddl(schema, existing):
                await _run(session.run, statement)

        # Statements about the schema run in transactions of their own: neither database mixes them with data.
        await self._repeated(define, deadline_s)

    async def drop(self, index: VectorIndex | TextIndex, deadline_s: float) -> None:
        """Removes an index, if it is there."""

        async def drop(session: AsyncSession) -> None:
            if index.name in await self._existing(session):
                await _run(session.run, self.dialect.drop(index))

        await self._repeated(drop, deadline_s)

    async def indexes(self, deadline_s: float) -> Mapping[str, int | None]:
        """The names of the existing indexes, with the dimensions of vector indexes."""
        return await self._repeated(self._existing, deadline_s, write=False)

    async def _existing(self, session: AsyncSession) -> Mapping[str, int | None]:
        # Memgraph shows its schema only outside of multi-statement transactions.
        existing: dict[str, int | None] = {}
        for statement in self.dialect.existing:
            existing.update(self.dialect.names_of(await _run(session.run, statement)))
        return existing

    async def close(self) -> None:
        self._closed = True
        if self._planning is not None:
            self._planning.cancel()
            await asyncio.gather(self._planning, return_exceptions=True)
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.close()

    async def _managed(self, work: Callable[[Run], Awaitable[T]], deadline_s: float, *, write: bool) -> T:
        async def transaction(tx: AsyncManagedTransaction) -> T:
            return await work(partial(_run, tx.run))

        async def once(session: AsyncSession) -> T:
            return await (session.execute_write if write else session.execute_read)(transaction)

        return await self._repeated(once, deadline_s, write=write)

    async def _repeated(
        self, once: Callable[[AsyncSession], Awaitable[T]], deadline_s: float, *, write: bool = True
    ) -> T:
        from neo4j import READ_ACCESS, WRITE_ACCESS
        from neo4j.exceptions import DriverError, Neo4jError

        driver = self._opened()
        mode = WRITE_ACCESS if write else READ_ACCESS
        last: Exception | None = None
        again = True
        attempt = 0
        # Driver errors may quote query values, so they are not chained.
        try:
            async with asyncio.timeout(deadline_s):
                while True:
                    try:
                        async with driver.session(default_access_mode=mode, **self._session) as session:
                            return await once(session)
                    except (DriverError, Neo4jError) as error:
                        last = error
                        if is_transient(error):
                            attempt += 1
                            await asyncio.sleep(backoff_s(attempt, PAUSE_S, LONGEST_PAUSE_S, spread=PAUSE_SPREAD))
                        elif again and is_connection_lost(error):
                            again = False
                        else:
                            raise
        except TimeoutError:
            if last is not None:
                raise as_backend_error(last, self.shown) from None
            raise BackendTimeout(f"{self.shown}: no answer within {deadline_s * 1000:.0f} ms") from None
        except FusionError:
            raise
        except Exception as error:  # noqa: BLE001 – bytes that are no Bolt come out of the driver as errors of any kind
            raise as_backend_error(error, self.shown) from None

    def _opened(self) -> AsyncDriver:
        """The driver, made at the first question: it belongs to the running loop, and its package is imported late."""
        if self._closed:
            raise BackendUnreachable(f"{self.shown}: the connection was closed")
        if self._driver is None:
            from neo4j import AsyncGraphDatabase
            from neo4j.exceptions import ConfigurationError

            from adapters.bolt.auth import LogOn

            # It logs whole queries and their values at DEBUG, and what it repeats as warnings.
            logging.getLogger("neo4j").setLevel(logging.ERROR)
            try:
                self._driver = AsyncGraphDatabase.driver(
                    self._server.url,
                    auth=LogOn(self._server),
                    max_connection_pool_size=CONNECTIONS,
                    connection_timeout=self._server.connect_ms / 1000,
                    # Repeating is done here, under the question's own deadline.
                    max_transaction_retry_time=-1,
                    telemetry_disabled=True,
                )
            except (ConfigurationError, ValueError) as error:
                raise SettingsError(f"{self.shown}: {error}") from None
            self._session = {"database": self._server.database or self.dialect.database, "fetch_size": 1000}
            if self._server.clustered:
                # What was written has to be seen by the next reader, whichever member of the cluster serves it.
                self._session["bookmark_manager"] = AsyncGraphDatabase.bookmark_manager()
        return self._driver


async def _run(run: Callable[..., Awaitable[AsyncResult]], statement: str, values: Values = _NO_VALUES) -> list[Row]:
    result = await run(statement, values)
    return [dict(zip(record.keys(), record.values(), strict=True)) async for record in result]
