"""Stores receipts in one SQLite file of the home, or in another table, and drops the oldest."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import orjson
import zstandard

from fusion.errors import FusionError, NotFound
from fusion.lib.background_writer import BackgroundWriter
from fusion.lib.clock import Clock, utc_now
from fusion.recall.receipt import Receipt, rows_of, with_current_keys
from fusion.recall.receipt_row import row_of_earlier

log = logging.getLogger(__name__)

SCHEMA = 4
"""version of the file; receipts of other versions than this and the one before are dropped: they explain old answers"""
_WITHOUT_ROWS = 3
"""the version before, whose receipts had no row for lists"""
MAX_ROWS_MADE = 1000
"""the latest receipts of a file of that version that get a row; older ones are read by id only"""
MAX_BYTES = 64_000_000
KEPT_SHARE = 0.8
"""share of the allowed bytes that is left when the oldest receipts are dropped, so that not every write drops some"""
WAL_BYTES = 4_000_000
MAX_WAITING_RECEIPTS = 1000
"""receipts waiting to be written; beyond it the oldest is lost"""
_INCREMENTAL = 2
"""SQLite's auto_vacuum mode in which single pages can be freed"""


class Stored(NamedTuple):
    """A receipt as it is stored, with its columns in their order: what a list reads comes before the large body."""

    seq: int
    """in the order of the answers; never used again, since it begins at the time in milliseconds"""
    receipt_id: str
    tenant: str
    at: float
    user_id: str | None
    agent_id: str | None
    session_id: str | None
    row: bytes | None
    """what a list shows, as JSON"""
    body: bytes


class Listed(NamedTuple):
    """One row of a list of receipts, and its place in the order of the answers."""

    seq: int
    row: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReceiptFilter:
    """Which receipts a list has: those with these values, between two places in the order of the answers."""

    tenant: str
    user_id: str | None = None
    agent_id: str | None = None
    session_id: str | None = None
    before: int | None = None
    after: int | None = None

    @property
    def equal(self) -> dict[str, str]:
        """The columns that must have a value."""
        names = ("user_id", "agent_id", "session_id")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    def admits(self, one: Stored) -> bool:
        """Whether a list has this receipt."""
        return (
            one.tenant == self.tenant
            and one.row is not None
            and all(getattr(one, name) == value for name, value in self.equal.items())
            and (self.before is None or one.seq < self.before)
            and (self.after is None or one.seq > self.after)
        )


MAX_SEQ = (1 << 63) - 1
_TABLE = (
    "create table if not exists receipt"
    "(seq integer primary key, receipt_id text not null unique, tenant text not null, at real not null, "
    "user_id text, agent_id text, session_id text, row blob, body blob not null)"
)
_INSERT = f"insert or replace into receipt values({', '.join('?' for _ in Stored._fields)})"


class ReceiptTable(Protocol):
    """The table of a tenant's receipts, in a file or in a database that gateways share; used from several threads."""

    @property
    def day(self) -> str:
        """SQL for the day of a receipt since 1970, UTC."""

    def next_seq(self, last: int, now_s: float) -> int:
        """The place of the next answer in the order of the answers; ``last`` is that of the one before, ``now_s`` the
        seconds since 1970."""

    def write(self, rows: Sequence[Stored], before: float | None) -> None:
        """Store receipts, and drop those from ``before`` that time if one is given, and the oldest beyond the bound."""

    def rows(self, query: str, values: Sequence[object]) -> Sequence[Sequence[Any]]:
        """All rows of a query."""

    def drop(self, before: float) -> int:
        """Drop what is from before a time; returns how many."""

    def close(self) -> None: ...


class ReceiptStore(BackgroundWriter):
    """A tenant's receipts, kept for a configured time.

    A receipt can be read as soon as its request is answered: new ones wait in memory for the next write, at most
    `LINGER_S` later and outside of any request. A crash may lose these few.
    """

    LINGER_S = 0.25

    def __init__(self, table: ReceiptTable, keep_days: float, clock: Clock = utc_now) -> None:
        super().__init__()
        self._table = table
        self._clock = clock
        self._keep_s = keep_days * 86_400
        self._waiting: dict[str, Stored] = {}
        self._swept = 0.0
        self._failing = False
        self.last = int((self._first("select max(seq) from receipt", ()) or (0,))[0] or 0)
        """the place of the latest receipt in the order of the answers; 0 before the first"""

    def keep(self, receipt: Receipt) -> None:
        """Queues a receipt for writing; returns at once."""
        if len(self._waiting) >= MAX_WAITING_RECEIPTS:  # the disk is full, or slower than the questions
            self._waiting.pop(next(iter(self._waiting)))
        # Serialised at once, while its thousands of small values are still in the processor's cache.
        body = orjson.dumps({**receipt.summary, "candidates": receipt.reasons}, option=orjson.OPT_NON_STR_KEYS)
        self.last = self._table.next_seq(self.last, self._now_s())
        row = receipt.row
        self._waiting[receipt.receipt_id] = Stored(
            self.last,
            receipt.receipt_id,
            receipt.tenant,
            receipt.at,
            row.get("user_id"),
            row.get("agent_id"),
            row.get("session_id"),
            orjson.dumps(row) if row else None,
            body,
        )
        self._write_soon()

    def _now_s(self) -> float:
        return self._clock().timestamp()

    async def _write_waiting(self) -> None:
        """Writes the waiting receipts. If that fails they keep waiting, and the log has one warning."""
        batch = list(self._waiting.values())
        if not batch:
            return
        try:
            await asyncio.to_thread(self._write, batch)
        except (sqlite3.Error, FusionError) as error:
            if not self._failing:
                log.warning("receipts cannot be written: %s", error)
            self._failing = True
            return
        self._failing = False
        for one in batch:
            self._waiting.pop(one.receipt_id, None)

    def _write(self, batch: Sequence[Stored]) -> None:
        compress = zstandard.ZstdCompressor(level=1).compress
        rows = [
            one._replace(body=compress(one.body)) for one in batch
        ]  # to a sixth, in less time than it saves in writing
        now = self._now_s()
        sweeps = now - self._swept > 60  # sweeping costs a scan of the index; once a minute is often enough
        self._table.write(rows, now - self._keep_s if sweeps else None)
        if sweeps:
            self._swept = now

    async def read(self, receipt_id: str, tenant: str) -> Mapping[str, Any]:
        """One receipt. Raises NotFound, also for another tenant's and for an expired one."""
        waiting = self._waiting.get(receipt_id)
        if waiting is not None and waiting.tenant == tenant:
            stored: bytes | None = waiting.body
        else:
            stored = await asyncio.to_thread(self._body, receipt_id, tenant)
        if stored is None:
            raise self._not_found(receipt_id)
        body: dict[str, Any] = orjson.loads(stored)
        return with_current_keys({**body, "candidates": rows_of(body["candidates"])})

    def _not_found(self, receipt_id: str) -> NotFound:
        return NotFound(f"there is no receipt {receipt_id}; receipts are kept for {self._keep_s / 86_400:g} days")

    async def seq_of(self, receipt_id: str, tenant: str) -> int:
        """The place of a receipt in the order of the answers. Raises NotFound as `read`."""
        waiting = self._waiting.get(receipt_id)
        if waiting is not None and waiting.tenant == tenant:
            return waiting.seq
        query = "select seq from receipt where receipt_id = ? and tenant = ? and at >= ?"
        values = (receipt_id, tenant, self._now_s() - self._keep_s)
        if (found := await asyncio.to_thread(self._first, query, values)) is None:
            raise self._not_found(receipt_id)
        return int(found[0])

    async def listed(self, chosen: ReceiptFilter, limit: int) -> list[Listed]:
        """The latest ``limit`` receipts that a list has, the newest first, also those that wait to be written."""
        waiting = [
            Listed(one.seq, orjson.loads(one.row or b"{}")) for one in self._waiting.values() if chosen.admits(one)
        ]
        written = await asyncio.to_thread(self._listed, chosen, limit)
        # One that was written meanwhile is in both.
        found = {one.seq: one for one in (*written, *waiting)}
        return sorted(found.values(), key=lambda one: one.seq, reverse=True)[:limit]

    def _listed(self, chosen: ReceiptFilter, limit: int) -> list[Listed]:
        equal = "".join(f" and {name} = ?" for name in chosen.equal)
        # The sign keeps SQLite from the index on the time, by which it would have to sort.
        query = (
            "select seq, row from receipt where tenant = ? and +at >= ? and row is not null and seq < ? and seq > ?"
            f"{equal} order by seq desc limit ?"
        )
        since = self._now_s() - self._keep_s
        before = MAX_SEQ if chosen.before is None else chosen.before
        values = (chosen.tenant, since, before, chosen.after or 0, *chosen.equal.values(), limit)
        return [Listed(seq, orjson.loads(row)) for seq, row in self._table.rows(query, values)]

    async def naming(self, ref: str, tenant: str) -> tuple[str, ...]:
        """The ids of the receipts of answers with this memory in their block."""
        await self.flush()
        return await asyncio.to_thread(self._naming, ref, tenant)

    def _naming(self, ref: str, tenant: str) -> tuple[str, ...]:
        query = (
            "select receipt_id from receipt where tenant = ? and at >= ? and row is not null "
            "and instr(cast(row as text), ?) > 0 "
            "and exists(select 1 from json_each(cast(row as text), '$.refs') where value = ?)"
        )
        quoted = orjson.dumps(ref.encode("utf-8", "replace").decode()).decode()
        found = self._table.rows(query, (tenant, self._now_s() - self._keep_s, quoted, ref))
        return tuple(receipt_id for (receipt_id,) in found)

    async def by_day(self, chosen: ReceiptFilter, since: float) -> Counter[date]:
        """The number of receipts of a list by the day of the question, UTC, since a time in seconds since 1970."""
        await self.flush()
        return await asyncio.to_thread(self._by_day, chosen, max(since, self._now_s() - self._keep_s))

    def _by_day(self, chosen: ReceiptFilter, since: float) -> Counter[date]:
        equal = "".join(f" and {name} = ?" for name in chosen.equal)
        query = f"select {self._table.day}, count(*) from receipt where tenant = ? and at >= ?{equal} group by 1"
        values = (chosen.tenant, since, *chosen.equal.values())
        found = self._table.rows(query, values)
        return Counter({datetime.fromtimestamp(day * 86_400, UTC).date(): n for day, n in found})

    def _body(self, receipt_id: str, tenant: str) -> bytes | None:
        query = "select body from receipt where receipt_id = ? and tenant = ? and at >= ?"
        found = self._first(query, (receipt_id, tenant, self._now_s() - self._keep_s))
        return zstandard.ZstdDecompressor().decompress(found[0]) if found else None

    async def kept(self, tenant: str) -> int:
        """The number of a tenant's receipts that can be read."""
        async with self._writing:  # a write moves receipts from one number to the other
            waiting = sum(one.tenant == tenant for one in self._waiting.values())
            return waiting + await asyncio.to_thread(self._count, tenant)

    def _count(self, tenant: str) -> int:
        query = "select count(*) from receipt where tenant = ? and at >= ?"
        found = self._first(query, (tenant, self._now_s() - self._keep_s))
        return int(found[0]) if found else 0

    async def prune(self, *, dry_run: bool = False) -> int:
        """Delete the receipts that are too old, and return their number; with ``dry_run`` only count them."""
        return await asyncio.to_thread(self._prune, dry_run)

    def _prune(self, dry_run: bool) -> int:
        before = self._now_s() - self._keep_s
        if dry_run:
            return int(self._table.rows("select count(*) from receipt where at < ?", (before,))[0][0])
        return self._table.drop(before)

    def _first(self, query: str, values: Sequence[object]) -> Sequence[Any] | None:
        return next(iter(self._table.rows(query, values)), None)

    async def close(self) -> None:
        await super().close()
        await asyncio.to_thread(self._table.close)


class ReceiptFile:
    """The receipts of a home in one SQLite file, which is bounded in bytes."""

    day = "cast(at / 86400 as integer)"

    def __init__(self, file: Path, max_bytes: float = MAX_BYTES) -> None:
        """``max_bytes`` limits the file; beyond it the oldest receipts are dropped early."""
        self._max_bytes = max_bytes
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.Lock()
        """held by each use of the database, which several threads share"""
        try:
            self._database = open_receipts(file)
        except sqlite3.DatabaseError:
            # The gateway must start without its old receipts.
            file.replace(file.with_suffix(".damaged"))
            log.error("%s was damaged; it is set aside as %s", file, file.with_suffix(".damaged").name)
            self._database = open_receipts(file)

    def next_seq(self, last: int, now_s: float) -> int:
        return max(last + 1, int(now_s * 1000))

    def write(self, rows: Sequence[Stored], before: float | None) -> None:
        with self._lock:
            self._database.execute("begin immediate")
            try:
                self._database.executemany(_INSERT, rows)
                if before is not None:
                    self._database.execute("delete from receipt where at < ?", (before,))
                self._database.execute("commit")
                self._bound()
            except sqlite3.Error:
                if self._database.in_transaction:
                    self._database.execute("rollback")
                raise

    def _bound(self) -> None:
        """Drops the oldest receipts of a file that is too large, and frees its pages."""
        pages, free, size = (self._number(name) for name in ("page_count", "freelist_count", "page_size"))
        if pages * size <= self._max_bytes:
            return
        used = max(1, (pages - free) * size)
        share = max(0.0, 1 - KEPT_SHARE * self._max_bytes / used)
        (rows,) = self._database.execute("select count(*) from receipt").fetchone()
        self._database.execute(
            "delete from receipt where seq in (select seq from receipt order by at limit ?)",
            (int(rows * share) + 1,),
        )
        if self._number("auto_vacuum") == _INCREMENTAL:
            self._database.executescript("pragma incremental_vacuum")  # execute would free one page alone
        else:  # a file of an earlier version
            self._database.execute(f"pragma auto_vacuum = {_INCREMENTAL}")
            self._database.execute("vacuum")
        self._database.execute("pragma wal_checkpoint(truncate)").fetchall()

    def _number(self, pragma: str) -> int:
        return int(self._database.execute(f"pragma {pragma}").fetchone()[0])

    def rows(self, query: str, values: Sequence[object]) -> list[Sequence[Any]]:
        with self._lock:
            return self._database.execute(query, values).fetchall()

    def drop(self, before: float) -> int:
        with self._lock:
            dropped = self._database.execute("delete from receipt where at < ?", (before,)).rowcount
            self._bound()
            return dropped

    def close(self) -> None:
        with self._lock:
            self._database.close()


def open_receipts(file: Path) -> sqlite3.Connection:
    """Open or make a file of receipts; one of an earlier version is migrated."""
    database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    try:
        file.chmod(0o600)
        database.execute(f"pragma auto_vacuum = {_INCREMENTAL}")
        database.execute("pragma journal_mode=wal")
        database.execute(f"pragma journal_size_limit = {WAL_BYTES}")
        database.execute("pragma synchronous=normal")
        version = database.execute("pragma user_version").fetchone()[0]
        if version not in (SCHEMA, _WITHOUT_ROWS):
            database.execute("drop table if exists receipt")
        if version == _WITHOUT_ROWS:
            _add_rows(database)
        # With numbers as keys, so that large rows are appended and not spread over the tree.
        database.execute(_TABLE)
        database.execute("create index if not exists receipt_at on receipt(at)")
        for name in ("user_id", "agent_id", "session_id"):
            database.execute(f"create index if not exists receipt_{name} on receipt({name})")
        if version != SCHEMA:
            database.execute(f"pragma user_version = {SCHEMA}")
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


def _add_rows(database: sqlite3.Connection) -> None:
    """Moves the receipts of the version before into a table with rows for lists."""
    database.execute("begin immediate")
    try:
        database.execute("alter table receipt rename to earlier")
        database.execute("drop index if exists receipt_at")
        database.execute(_TABLE)
        database.execute(
            "insert into receipt(seq, receipt_id, tenant, at, body) select rowid, receipt_id, tenant, at, body "
            "from earlier order by rowid"
        )
        database.execute("drop table earlier")
        latest = database.execute(
            "select seq, body from receipt order by seq desc limit ?", (MAX_ROWS_MADE,)
        ).fetchall()
        for seq, body in latest:
            if (row := _row_of_earlier(body)) is not None:
                owner = (row["user_id"], row["agent_id"], row["session_id"])
                database.execute(
                    "update receipt set user_id = ?, agent_id = ?, session_id = ?, row = ? where seq = ?",
                    (*owner, orjson.dumps(row), seq),
                )
        database.execute("commit")
    except sqlite3.DatabaseError:
        if database.in_transaction:
            database.execute("rollback")
        raise


def _row_of_earlier(body: bytes) -> dict[str, Any] | None:
    """The row of a stored receipt; None where an early version stored other fields."""
    try:
        return row_of_earlier(orjson.loads(zstandard.ZstdDecompressor().decompress(body)))
    except (KeyError, ValueError, TypeError, zstandard.ZstdError):
        return None


def move_receipts(file: Path, tenant: str, target: Path) -> None:
    """Moves a tenant's receipts out of a file that tenants shared; a damaged file stays as it is."""
    if not file.exists():
        return
    try:
        open_receipts(target).close()
        with closing(open_receipts(file)) as db:
            db.execute("attach ? as own", (str(target),))
            moved = ", ".join(Stored._fields[1:])  # in the order of the answers, under numbers of the own file
            db.execute(
                f"insert or ignore into own.receipt({moved}) select {moved} from main.receipt where tenant = ? "
                "order by seq",
                (tenant,),
            )
            db.execute("delete from main.receipt where tenant = ?", (tenant,))
    except sqlite3.DatabaseError as error:
        log.warning("receipts of a tenant were not moved: %s", error)
