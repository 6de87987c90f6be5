"""Stores who read, changed and forgot memories of a tenant: refs and names, never a text.

The file is next to the journal and not in it: what was read is no truth about memories, and a full disk or a damaged
log must not keep anyone from reading. It outlives the memories that it names.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

from fusion.lib.background_writer import BackgroundWriter

log = logging.getLogger(__name__)

NAME = "access.sqlite"
"""the file in a tenant's folder"""
SCHEMA = 1
MAX_WAITING = 10_000
"""entries that wait for a full or slow disk; beyond it the oldest are lost, and counted"""
SWEEP_S = 60.0
WAL_BYTES = 4_000_000
GAP = "gap"
"""the action of an entry that says how many entries were lost before it"""
DAMAGED = "damaged"
"""its outcome when a damaged log was set aside"""

_TABLE = """
create table if not exists access(
    seq integer primary key autoincrement, at real not null, action text not null, call text not null,
    outcome text not null, key text not null, key_id text not null, role text not null, door text not null,
    user_id text, agent_id text, session_id text, refs text not null, total integer not null,
    receipt_id text, decision text, request_id text not null
);
create index if not exists access_at on access(at);
create trigger if not exists access_is_not_changed before update on access
begin select raise(abort, 'an entry is never changed'); end;
"""


class Access(NamedTuple):
    """One access, with the columns of the table in their order."""

    at: float
    action: str
    call: str
    outcome: str
    key: str
    key_id: str
    role: str
    door: str
    user_id: str | None
    agent_id: str | None
    session_id: str | None
    refs: tuple[str, ...]
    total: int
    """of the refs, of which the first are named"""
    receipt_id: str | None
    decision: str | None
    request_id: str


_COLUMNS = ", ".join(Access._fields)
_SHOWS = "action in ('ask', 'read', 'list', 'backend')"
"""the condition on an entry of a call that may have changed nothing: any reader can make as many as it likes"""
_INSERT = f"insert into access({_COLUMNS}) values({', '.join('?' for _ in Access._fields)})"


def gap(lost: int, at: float, outcome: str = "lost") -> Access:
    """The entry for what is missing."""
    return Access(at, GAP, GAP, outcome, "", "", "", "", None, None, None, (), lost, None, None, "")


@dataclass(frozen=True, slots=True)
class AccessFilter:
    """Which entries a list has. ``receipts`` are the ids of answers that count as accesses to ``ref``, too."""

    action: str | None = None
    since: float | None = None
    user_id: str | None = None
    ref: str | None = None
    receipts: tuple[str, ...] = ()
    before: int | None = None

    def condition(self) -> tuple[str, list[object]]:
        """The SQL condition, and its values."""
        parts, values = ["seq < ?"], [self.before if self.before is not None else 1 << 62]
        given: list[object] = [*values]
        for column, value in (("action = ?", self.action), ("at >= ?", self.since), ("user_id = ?", self.user_id)):
            if value is not None:
                parts.append(column)
                given.append(value)
        if self.ref is not None:
            # A ref is a string of the JSON in the column, so none is found in a part of another.
            parts.append("(instr(refs, ?) or receipt_id in (select value from json_each(?)))")
            given += [_json(self.ref), _json(self.receipts)]
        return " and ".join(parts), given


class AccessLog(BackgroundWriter):
    """The accesses to one tenant's memories, for so many days and entries.

    An entry waits in memory for the next write, `LINGER_S` later and outside of any request; a crash loses these few.
    """

    LINGER_S = 0.25

    def __init__(
        self, file: Path, keep_days: float, max_entries: int, clock: Callable[[], float] = time.time, fault: str = ""
    ) -> None:
        """``fault`` says why nothing is kept beyond the end of the process: the home cannot be written to."""
        super().__init__()
        self._file, self._keep_s, self._max_entries, self._clock = file, keep_days * 86_400, max_entries, clock
        self._waiting: deque[Access] = deque()
        self._lost = 0
        self._swept = 0.0
        self._standing_fault, self._failure = fault, ""
        self._lock = threading.Lock()
        """held by each use of the database, which several threads share"""
        self._database: sqlite3.Connection | None = None
        try:
            self._opened()
        except sqlite3.OperationalError as error:
            self._fail(error)

    @property
    def fault(self) -> str:
        """Why entries are not written now; empty if they are."""
        return self._standing_fault or self._failure

    @property
    def waiting(self) -> int:
        """Entries that are not on the disk yet."""
        return len(self._waiting)

    def note(self, access: Access) -> None:
        """Queue an entry for writing; returns at once."""
        if self._keep_s <= 0:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self._lost += 1
        self._waiting.append(access)
        self._write_soon()

    async def _write_waiting(self) -> None:
        batch, lost = list(self._waiting), self._lost
        if not batch:
            return
        try:
            await asyncio.to_thread(self._write, [gap(lost, batch[0].at), *batch] if lost else batch)
        except sqlite3.Error as error:
            self._fail(error)
            return
        self._failure = ""
        dropped = self._lost - lost  # meanwhile, for newer ones: those of the batch first, which are not lost
        for _ in range(len(batch) - dropped):
            self._waiting.popleft()
        self._lost = max(0, dropped - len(batch))
        if self._waiting:
            self._write_soon()

    def _fail(self, error: sqlite3.Error) -> None:
        if not self._failure:
            log.warning("accesses cannot be written to %s: %s; reads go on", self._file, error)
        self._failure = f"accesses cannot be written to {self._file.name}: {error}. Make room on its disk"

    def _write(self, batch: Sequence[Access]) -> None:
        with self._lock:
            database = self._opened()
            if self._clock() - self._swept > SWEEP_S:  # first, so that an entry is never written twice
                self._prune(dry_run=False)
                self._swept = self._clock()
            _insert(database, batch)

    async def listed(self, chosen: AccessFilter, limit: int) -> list[tuple[int, Access]]:
        """The latest entries that a list has, the newest first, each with its number."""
        await self.flush()
        return await asyncio.to_thread(self._listed, chosen, limit)

    def _listed(self, chosen: AccessFilter, limit: int) -> list[tuple[int, Access]]:
        condition, values = chosen.condition()
        query = f"select seq, {_COLUMNS} from access where {condition} order by seq desc limit ?"
        with self._lock:
            found = [] if self._database is None else self._database.execute(query, (*values, limit)).fetchall()
        return [(seq, Access(*row)._replace(refs=tuple(orjson.loads(row[11])))) for seq, *row in found]

    async def prune(self, *, dry_run: bool = False) -> int:
        """Delete the entries that are too old or too many, and return their number; with ``dry_run`` only count."""
        await self.flush()
        return await asyncio.to_thread(self._pruned, dry_run)

    def _pruned(self, dry_run: bool) -> int:
        with self._lock:
            return self._prune(dry_run=dry_run)

    def _prune(self, *, dry_run: bool) -> int:
        what = "select count(*)" if dry_run else "delete"
        # Each kind has its own room: a key that may only read cannot push out what was changed.
        bound = "at < :oldest or " + " or ".join(
            f"seq in (select seq from access where {kind} order by seq desc limit -1 offset :most)"
            for kind in (_SHOWS, f"not {_SHOWS}")
        )
        values = {"oldest": self._clock() - self._keep_s, "most": self._max_entries}
        cursor = self._opened().execute(f"{what} from access where {bound}", values)
        return int(cursor.fetchone()[0]) if dry_run else cursor.rowcount

    async def close(self) -> None:
        await super().close()
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()

    def _opened(self) -> sqlite3.Connection:
        """The open file; a damaged or newer one is set aside, and the new one says so.

        Raises sqlite3.OperationalError if it cannot be opened now.
        """
        if self._database is None:
            self._database = self._open_or_begin_anew()
        return self._database

    def _open_or_begin_anew(self) -> sqlite3.Connection:
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            return _open(self._file)
        except sqlite3.OperationalError:
            raise  # a full disk, or another process: the file is as it was
        except sqlite3.DatabaseError as error:
            aside = self._file.with_suffix(f".damaged-{int(self._clock())}")
            self._file.replace(aside)
            for end in ("-wal", "-shm"):
                self._file.with_name(self._file.name + end).unlink(missing_ok=True)
            log.error("%s cannot be read (%s); it is set aside as %s", self._file, error, aside.name)
            database = _open(self._file)
            _insert(database, [gap(0, self._clock(), DAMAGED)])
            return database


def append(file: Path, entries: Sequence[Access]) -> None:
    """Add entries to a log, which a server may have open. Raises sqlite3.Error."""
    database = _open(file)
    try:
        _insert(database, entries)
    finally:
        database.close()


def _insert(database: sqlite3.Connection, entries: Sequence[Access]) -> None:
    rows = [tuple(_storable(value) for value in one._replace(refs=())) for one in entries]
    filled = [(*row[:11], _json(one.refs), *row[12:]) for row, one in zip(rows, entries, strict=True)]
    database.execute("begin immediate")
    try:
        database.executemany(_INSERT, filled)
        database.execute("commit")
    except sqlite3.Error:
        if database.in_transaction:
            database.execute("rollback")
        raise


def _storable(value: object) -> object:
    """A value without what SQLite cannot encode: half of a surrogate pair."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _json(value: str | Sequence[str]) -> str:
    many = [_storable(one) for one in value] if not isinstance(value, str) else _storable(value)
    return orjson.dumps(many).decode()


def _open(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=5.0)
    try:
        if file.is_file():
            file.chmod(0o600)
        database.execute("pragma journal_mode=wal")
        database.execute(f"pragma journal_size_limit = {WAL_BYTES}")
        database.execute("pragma synchronous=normal")
        version = database.execute("pragma user_version").fetchone()[0]
        if version > SCHEMA:
            raise sqlite3.DatabaseError(f"a newer version wrote it: schema {version}, ours is {SCHEMA}")
        database.executescript(_TABLE)
        database.execute(f"pragma user_version = {SCHEMA}")
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database
