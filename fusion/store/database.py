"""The port of a database: what SQLite and PostgreSQL have in common, for modules of functions of a connection.

A statement is written once, in the SQL that both know, with ``?``, ``?1`` or ``:name`` for values and `VALUES` for a
list of them. `Database` runs such functions in threads: writes one after another, with waiting ones in one commit,
and reads next to them, each over one snapshot.
"""

from __future__ import annotations

import asyncio
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

from fusion.errors import BackendUnreachable, FusionError, StoreDamaged

T = TypeVar("T")

READERS = 2
"""reading threads: queries are short and in memory, so more threads would only contend"""

VALUES = "(select value from json_each(?))"
"""any number of values as one parameter, which `listed` makes"""

Values = Sequence[object] | Mapping[str, object]
"""of the parameters of a statement"""


class LastChange(NamedTuple):
    """The last commit that changed what callers may cache."""

    number: int = 0
    history: str = ""
    """of the database that counts the commits; a replica that is promoted begins another, and uses numbers again"""


class Row(Protocol):
    """A row: its values by column name, by number, and in order."""

    def __getitem__(self, column: Any, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection inside of a transaction."""

    def execute(self, sql: str, values: Any = ..., /) -> Cursor: ...

    def executemany(self, sql: str, rows: Iterable[Any], /) -> Cursor: ...


@runtime_checkable
class KeepsTime(Protocol):
    """A connection to a database that several processes share, whose time decides between them."""

    def time(self) -> datetime: ...


def deciding_time(db: Connection, now: datetime) -> datetime:
    """The time by which leases end: the database's if several processes share it, else ``now``, the only one's."""
    return db.time() if isinstance(db, KeepsTime) else now


@dataclass(eq=False, slots=True)
class Fence:
    """The lease under which the calls of a task write: what they write after its end is refused.

    ``table`` has its name, its token and the time until which it holds.
    """

    schema: str
    table: str
    name: str
    token: int
    is_over: bool = False
    """whether the lease was given back in order, so that what a task left in the background is no part of it"""


FENCE: ContextVar[Fence | None] = ContextVar("fence", default=None)
"""the lease of this task, and of those that it starts"""


def listed(values: Iterable[object]) -> tuple[str]:
    """The parameter of `VALUES`: a list in JSON. Text that is not Unicode is refused, as it is as a plain parameter."""
    return (json.dumps(list(values), ensure_ascii=False),)


def replacing(table: str, key: str, others: str, given: str = "") -> str:
    """The statement that inserts a row, in place of one with the same key. ``given`` is a query instead of values."""
    columns = [*key.split(", "), *others.split(", ")]
    values = given or f"values({', '.join('?' * len(columns))})"
    kept = ", ".join(f"{name} = excluded.{name}" for name in others.split(", "))
    return f"insert into {table}({', '.join(columns)}) {values} on conflict({key}) do update set {kept}"


def number_from(db: Connection, table: str, last: int) -> None:
    """Let the next number of a table with numbers of its own be beyond ``last``.

    SQLite does so itself after an insert under a given number; PostgreSQL has to get the number.
    """
    changed = db.execute("update sqlite_sequence set seq = max(seq, ?) where name = ?", (last, table))
    if not changed.rowcount:
        db.execute("insert into sqlite_sequence(name, seq) values(?, ?)", (table, last))


Work = Callable[[Any], Any]
Waiting = tuple[Work, "Future[Any]"]
Outcome = tuple["Future[Any]", Any, Exception | None]
"""of a work: its future, and its value or its error"""


class Database(ABC):
    """One database. ``write`` and ``read`` run a function of a connection in a thread, ``look`` in the caller's.

    Raises ``StoreBusy`` when others hold it, ``StoreFull`` when there is no space (nothing is half written),
    ``StoreDamaged`` when it is corrupt or newer than this program, ``BackendUnreachable`` once closed.
    """

    shared: ClassVar[bool] = False
    """whether other processes write to it, too"""

    def __init__(self, name: str, place: str) -> None:
        self.name = name
        self.place = place
        """where it is, for messages"""
        self._waiting: list[Waiting] = []
        self._lock = threading.Lock()
        self._looks = 0
        self._looks_changed = threading.Condition()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"write-{name}")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix=f"read-{name}")
        self._closed = False
        self.refusal = ""
        """why writes are refused; empty if they are not"""
        self.refused: type[FusionError] = StoreDamaged
        """the error that a refused write raises"""
        self.news = asyncio.Event()
        """set once another process has changed what callers may cache, or may have; never where no other writes"""

    async def write(self, work: Callable[[Any], T]) -> T:
        """Run ``work`` in a transaction; durable when it returns.

        Waiting works share one commit, each in its savepoint: an error undoes only the work that raised it.
        """
        self._refuse_when_closed()
        if self.refusal:
            raise self.refused(self.refusal)
        done: Future[T] = Future()
        with self._lock:
            self._waiting.append((work, done))
        self._writer.submit(self._commit_waiting)
        return await asyncio.wrap_future(done)

    async def write_unqueued(self, work: Callable[[Any], T]) -> T:
        """As ``write``. Where several processes write, ``work`` does not wait for the others' transactions: it locks
        the rows that it changes, and nobody caches these."""
        return await self.write(work)

    async def read(self, work: Callable[[Any], T]) -> T:
        """Run ``work``, which must not write, over one snapshot, concurrently with the writer."""
        self._refuse_when_closed()
        self.require_reachable()
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._look, work)

    async def rows(self, sql: str, values: Values = ()) -> list[Any]:
        """All rows of one query."""
        return await self.read(lambda db: db.execute(sql, values).fetchall())

    @contextmanager
    def fenced(self, table: str, name: str, token: int) -> Iterator[Fence]:
        """Within the block, refuse writes once a lease has ended; where several processes share the database."""
        fence = Fence(self.name, table, name, token)
        before = FENCE.set(fence if self.shared else None)
        try:
            yield fence
        finally:
            FENCE.reset(before)

    async def execute_many(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        """Run one statement with each of ``rows``, in one transaction."""
        await self.write(lambda db: db.executemany(sql, rows))

    def look(self, work: Callable[[Any], T]) -> T:
        """As ``read``, in the caller's thread, which may block; closing waits for it."""
        with self._looks_changed:
            self._refuse_when_closed()
            self._looks += 1
        try:
            return self._look(work)
        finally:
            with self._looks_changed:
                self._looks -= 1
                self._looks_changed.notify_all()

    @abstractmethod
    def require_reachable(self) -> None:
        """Raises HomeGone when a guarded file is no longer at its path; takes some microseconds."""

    async def last_change(self) -> LastChange:
        """The last commit that changed what callers may cache; always the same where no other process writes."""
        return LastChange()

    @abstractmethod
    async def compare_with_files(self) -> None:
        """Raises HomeGone when another process wrote to a guarded file and its content is not what was committed."""

    @abstractmethod
    async def check(self) -> None:
        """Check the whole database, concurrently with the writer. Raises StoreDamaged when it is corrupt."""

    @abstractmethod
    async def checkpoint(self) -> None:
        """Remove overwritten content from the database's log as far as readers allow."""

    async def close(self) -> None:
        """Finish waiting work, then close. Idempotent."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._shut)

    # In the threads

    def _commit_waiting(self) -> None:
        """Commit what waits in one transaction, and give each work its value or its error."""
        with self._lock:
            taken, self._waiting = self._waiting, []
        group = [(work, done) for work, done in taken if done.set_running_or_notify_cancel()]
        if not group:
            return
        try:
            outcomes = self._commit(group)
        except Exception as error:  # noqa: BLE001 – nothing of the group is committed, and every work gets the error
            outcomes = [(done, None, error) for _, done in group]
        for done, value, failure in outcomes:
            if failure is None:
                done.set_result(value)
            else:
                done.set_exception(self._translated(failure))

    def _shut(self) -> None:
        self._readers.shutdown(wait=True)
        self._writer.shutdown(wait=True)
        with self._looks_changed:
            self._looks_changed.wait_for(lambda: not self._looks)
            self._disconnect()

    @abstractmethod
    def _commit(self, group: Sequence[Waiting]) -> list[Outcome]:
        """Run works in one transaction, each in its savepoint. An error that it raises is that of all."""

    @abstractmethod
    def _look(self, work: Callable[[Any], T]) -> T:
        """Run ``work`` over one snapshot."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close every connection."""

    @abstractmethod
    def _translated(self, error: Exception) -> Exception:
        """The `fusion.errors` error for an error of the database; any other unchanged."""

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise BackendUnreachable(f"{self.name} is closed")
