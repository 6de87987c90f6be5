"""An SQLite database off the event loop, with one writer and several readers.

It uses WAL with ``synchronous=FULL``, so acknowledged writes survive ``kill -9``. Waiting writers share one commit, a
read sees one snapshot, deleted content is overwritten, and SQLite's errors are raised as `fusion.errors` with a fix.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from fusion.errors import BackendUnreachable, FusionError, StoreBusy, StoreDamaged, StoreFull
from fusion.store import database
from fusion.store.database import Outcome, Waiting
from fusion.store.reachable import Reachable, same_content
from fusion.store.rows import add_missing_columns
from fusion.store.seal import Seal

T = TypeVar("T")
Connection = sqlite3.Connection
Row = sqlite3.Row

BUSY_S = 5.0
"""seconds that a writer waits for another process's lock before StoreBusy"""

WAL_BYTES = 16_000_000
"""size to which the write-ahead log is truncated after a checkpoint; a burst of writes lets it grow"""

_COMPARISONS = 3
"""comparisons of files that another process writes to, before StoreBusy"""

REFILL = (
    "Stop the gateway, restore its folder from a backup or move that away, and start again: an empty store is made, "
    "and the journal has every memory to fill it from"
)
"""the default fix, for a store that is derived from the journal"""

_PRAGMAS = """
pragma foreign_keys = on;
pragma secure_delete = on;
pragma trusted_schema = off;
pragma cell_size_check = on;
pragma temp_store = memory;
"""


def connect(path: Path, *, busy_s: float = BUSY_S) -> Connection:
    """A connection in WAL mode without implicit transactions; a new file gets mode 0600."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        path.touch(mode=0o600)
    db = sqlite3.connect(path, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        db.row_factory = sqlite3.Row
        db.execute("pragma journal_mode = wal")
        db.execute("pragma synchronous = full")
        db.execute(f"pragma journal_size_limit = {WAL_BYTES}")
        db.executescript(_PRAGMAS)
    except BaseException:
        db.close()
        raise
    return db


def migrate(db: Connection, steps: Sequence[str]) -> None:
    """Run those of ``steps`` that come after the version of the file: ``steps[n]`` leads from version n to n + 1."""
    version = db.execute("pragma user_version").fetchone()[0]
    for number, step in enumerate(steps[version:], start=version + 1):
        db.executescript(f"begin immediate; {step}; pragma user_version = {number}; commit;")


def read_only(path: Path, *, busy_s: float = BUSY_S) -> Connection:
    """A connection that cannot write, and that makes no files next to a database without a write-ahead log."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False)


def copy_of(path: Path, copy: Path) -> None:
    """Copy a database that another process may have open, as of one moment, and without writing next to it.

    Raises StoreDamaged if what can be copied is not sound.
    """
    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fault = ""
    for _ in range(_COMPARISONS):
        copy.unlink(missing_ok=True)
        copy.touch(mode=0o600)
        try:
            fault = _copied(path, copy)
        except sqlite3.Error as error:
            fault = str(error)
        if not fault:
            return
    raise StoreDamaged(f"{path} cannot be copied: {fault}. If it is damaged: fusion repair --home {path.parent}")


def _copied(path: Path, copy: Path) -> str:
    """Copy a database; returns what is wrong with the copy."""
    log, copied_log = Path(f"{path}-wal"), Path(f"{copy}-wal")
    if Path(f"{path}-shm").exists():
        with closing(read_only(path)) as source, closing(sqlite3.connect(copy)) as db:
            source.backup(db)
    else:  # nobody has it open: even a reader would make files next to it
        shutil.copyfile(path, copy)
        if log.exists():
            shutil.copyfile(log, copied_log)
    with closing(sqlite3.connect(copy)) as db:
        verdict = str(db.execute("pragma integrity_check(1)").fetchone()[0])
        db.execute("pragma journal_mode = delete")
    return "" if verdict == "ok" else verdict.splitlines()[-1]


def tuples(db: Connection, sql: str, values: Sequence[object] | Mapping[str, object] = ()) -> sqlite3.Cursor:
    """The rows of a query as tuples, in half the time that `sqlite3.Row` takes."""
    cursor = db.cursor()
    cursor.row_factory = None
    return cursor.execute(sql, values)


@contextmanager
def transaction(db: Connection) -> Iterator[None]:
    """A transaction on a connection of one's own: committed at the end, rolled back after an error."""
    db.execute("begin immediate")
    try:
        yield
        db.execute("commit")
    except BaseException:
        if db.in_transaction:  # a full disk has rolled it back already
            db.execute("rollback")
        raise


def _closed(value: T) -> T:
    """``value``; a cursor is closed first, in the connection's thread.

    ``executemany`` leaves its cursor with a cached statement. Freed in another thread, that cursor would reset the
    statement while the connection runs it again (sqlite3.InterfaceError: API misuse).
    """
    if isinstance(value, sqlite3.Cursor):
        value.close()
    return value


@dataclass(frozen=True, slots=True)
class Guard:
    """Protects a database that is the only copy.

    ``count`` is a statement that counts each transaction; ``state`` is the query for that count and for all else that
    an intact copy of the files must agree in.
    """

    reachable: Reachable
    count: str
    state: str


class Database(database.Database):
    """One SQLite file."""

    def __init__(self, path: Path, busy_s: float = BUSY_S, fix: str = REFILL) -> None:
        super().__init__(path.name, str(path))
        self.path = path
        self._fix = fix
        self._busy_s = busy_s
        self._writing: Connection | None = None
        self._reading: list[Connection] = []
        self._idle: list[Connection] = []
        self._guard: Guard | None = None
        self._wal_bytes = WAL_BYTES
        self._seal = Seal(path.with_name(f"{path.name}.seal"))
        self._sealable = False

    @classmethod
    async def open(
        cls,
        path: Path,
        steps: Sequence[str],
        *,
        busy_s: float = BUSY_S,
        fix: str = REFILL,
        guard: Guard | None = None,
        wal_bytes: int = WAL_BYTES,
        events: str = "",
    ) -> Self:
        """Open ``path``, check it for damage, and migrate it: ``steps[n]`` is the SQL from version n to n + 1.

        A large file that was closed in order and not touched since is not checked: see `Seal`. Version 0 is an empty
        file. ``fix`` says what to do if it is damaged. ``events`` names the table of events, if
        any, which gets missing event columns. With a ``guard`` every call raises HomeGone once the files are no longer
        at ``path``.
        """
        opened = cls(path, busy_s, fix)
        opened._guard, opened._wal_bytes = guard, wal_bytes
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(opened._writer, opened._prepare, tuple(steps), events)
        except BaseException:
            await opened.close()
            raise
        return opened

    @classmethod
    async def open_damaged(cls, path: Path, steps: Sequence[str], *, fix: str = REFILL) -> Self:
        """Open a damaged file for reading only. Raises StoreDamaged if it cannot be read, or has another schema."""
        opened = cls(path, fix=fix)
        opened.refusal = f"{path} is damaged, so it is only read. {fix}"
        try:
            version = await opened.read(lambda db: db.execute("pragma user_version").fetchone()[0])
            if version != len(steps):
                raise opened._damaged(f"its schema is {version}, ours {len(steps)}")
        except BaseException:
            await opened.close()
            raise
        return opened

    def require_reachable(self) -> None:
        if self._guard is not None:
            self._guard.reachable.require()

    async def compare_with_files(self) -> None:
        self._refuse_when_closed()
        if self._guard is not None:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._compare)

    async def check(self) -> None:
        def look(db: Connection) -> None:
            self._require_sound(db)

        await self.read(look)

    async def checkpoint(self) -> None:
        self._refuse_when_closed()
        await asyncio.get_running_loop().run_in_executor(self._writer, self._empty_log)

    # In the threads

    def _prepare(self, steps: Sequence[str], events: str) -> None:
        try:
            existed = self.path.exists() and self.path.stat().st_size > 0
            sealed = self._seal.take([self.path])
            db = self._writing = connect(self.path, busy_s=self._busy_s)
            db.execute(f"pragma journal_size_limit = {self._wal_bytes}")
            if existed and not sealed:
                self._require_sound(db)
            if (version := db.execute("pragma user_version").fetchone()[0]) > len(steps):
                raise StoreDamaged(
                    f"{self.path} was written by a newer version of memory-fusion (schema {version}, ours is "
                    f"{len(steps)}): install that version again, or a newer one"
                )
            migrate(db, steps)
            if events:
                add_missing_columns(db, events)
            if self._guard is not None:
                self._guard.reachable.hold()
            self._sealable = True
        except (sqlite3.Error, OSError) as error:
            raise self._translated(error) from error

    def _commit(self, group: Sequence[Waiting]) -> list[Outcome]:
        db = self._writing
        if db is None:
            raise BackendUnreachable(f"{self.name} is closed")
        outcomes: list[Outcome] = []
        try:
            self._compare()
            db.execute("begin immediate")
            for work, done in group:
                db.execute("savepoint work")
                try:
                    outcomes.append((done, _closed(work(db)), None))
                except Exception as error:
                    if not db.in_transaction:  # SQLite gave the whole transaction up: a full disk, an I/O error
                        raise
                    db.execute("rollback to work")
                    outcomes.append((done, None, error))
                db.execute("release work")
            if self._guard is not None:
                db.execute(self._guard.count)
            db.execute("commit")
            self._require_kept()
        except Exception:
            if db.in_transaction:
                db.execute("rollback")
            raise
        return outcomes

    def _compare(self) -> None:
        """Before a commit, check that the files are at their path and, if another process wrote to them, intact."""
        guard, db = self._guard, self._writing
        if guard is None or db is None:
            return
        guard.reachable.require()
        for _ in range(_COMPARISONS):
            if not guard.reachable.touched():
                return
            guard.reachable.seal()
            try:
                fault = self._difference(db, guard)
            except BaseException:
                guard.reachable.unseal()  # compare again before the next commit
                raise
            if fault is not None and not guard.reachable.touched():
                raise guard.reachable.give_up(f"{self.path} was written to by another process ({fault})")
        if guard.reachable.touched():
            raise StoreBusy(f"another process is writing to {self.path}; try again in a moment")

    @staticmethod
    def _difference(db: Connection, guard: Guard) -> str | None:
        db.execute("begin immediate")  # keeps other SQLite writers out meanwhile
        try:
            expected = tuple(db.execute(guard.state).fetchone())
            return same_content(guard.reachable, guard.state, expected)
        finally:
            db.execute("rollback")

    def _require_kept(self) -> None:
        """After a commit, check that it is in the files at the path, so it may be acknowledged."""
        if self._guard is not None:
            self._guard.reachable.require()
            if not self._guard.reachable.log_is_sound:
                raise self._guard.reachable.give_up(f"the write-ahead log of {self.path} was cut")
            self._guard.reachable.seal()

    def _empty_log(self) -> None:
        if self._writing is not None:
            try:
                self._compare()
                self._writing.execute("pragma wal_checkpoint(truncate)").fetchall()
                if self._guard is not None:
                    self._guard.reachable.seal()
            except sqlite3.Error as error:
                raise self._translated(error) from error

    def _look(self, work: Callable[[Connection], T]) -> T:
        try:
            db = self._taken() or self._another()
            try:
                db.execute("begin")
                return _closed(work(db))
            finally:
                if db.in_transaction:
                    db.execute("rollback")
                self._idle.append(db)
        except sqlite3.Error as error:
            raise self._translated(error) from error

    def _taken(self) -> Connection | None:
        """The idle connection that was used last, whose cache is warm."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _another(self) -> Connection:
        if self.refusal:
            db = read_only(self.path, busy_s=self._busy_s)
            db.row_factory = sqlite3.Row
        else:
            db = connect(self.path, busy_s=self._busy_s)
        with self._lock:
            self._reading.append(db)
        db.execute("pragma query_only = on")
        return db

    def _disconnect(self) -> None:
        for db in (*self._reading, self._writing):
            if db is not None:
                db.close()
        self._reading, self._writing = [], None
        if self._guard is not None:
            self._guard.reachable.close()
        if self._sealable and not Path(f"{self.path}-wal").exists():  # nobody else has it open
            self._seal.put([self.path])

    def _require_sound(self, db: Connection) -> None:
        db.execute("pragma shrink_memory")  # check the file rather than its cached pages
        verdict = db.execute("pragma quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise self._damaged(str(verdict).splitlines()[-1])

    def _damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(f"{self.path} is damaged ({what}). {self._fix}")

    def _translated(self, error: Exception) -> Exception:
        """The `fusion.errors` error for an error of SQLite or the file system; any other unchanged."""
        if isinstance(error, OSError):
            return StoreDamaged(f"{self.path} cannot be opened: {error.strerror}. Check that its folder is yours")
        if isinstance(error, FusionError) or not isinstance(error, sqlite3.Error):
            return error
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:  # the low byte is the primary code, the rest its variant
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return StoreBusy(f"another process is writing to {self.path}; try again in a moment")
            case sqlite3.SQLITE_FULL:
                return StoreFull(f"no space left for {self.path}; nothing was half written")
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                return self._damaged(str(error))
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_IOERR:
                return StoreDamaged(f"{self.path} cannot be read or written: {error}. Check the disk and who owns it")
        return error
