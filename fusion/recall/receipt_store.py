"""Stores the receipts of a home in one SQLite file, and drops the oldest."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import zstandard

from fusion.errors import NotFound
from fusion.lib.background_writer import BackgroundWriter
from fusion.recall.receipt import Receipt, rows_of, with_current_keys

log = logging.getLogger(__name__)

SCHEMA = 3
"""version of the file; receipts of another version are dropped, since they explain old answers"""
MAX_BYTES = 64_000_000
KEPT_SHARE = 0.8
"""share of the allowed bytes that is left when the oldest receipts are dropped, so that not every write drops some"""
WAL_BYTES = 4_000_000
MAX_WAITING_RECEIPTS = 1000
"""receipts waiting to be written; beyond it the oldest is lost"""
_INCREMENTAL = 2
"""SQLite's auto_vacuum mode in which single pages can be freed"""

_Row = tuple[str, str, float, bytes]
"""a receipt as it is stored: id, tenant, time, body"""


class ReceiptStore(BackgroundWriter):
    """A home's receipts, kept for a configured time.

    A receipt can be read as soon as its request is answered: new ones wait in memory for the next write, at most
    `LINGER_S` later and outside of any request. A crash may lose these few.
    """

    LINGER_S = 0.25

    def __init__(self, file: Path, keep_days: float, max_bytes: float = MAX_BYTES) -> None:
        """``max_bytes`` limits the file; beyond it the oldest receipts are dropped early."""
        super().__init__()
        self._file = file
        self._max_bytes = max_bytes
        self._keep_s = keep_days * 86_400
        self._waiting: dict[str, _Row] = {}
        self._swept = 0.0
        self._failing = False
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.Lock()
        """held by each use of the database, which several threads share"""
        try:
            self._database = _opened(file)
        except sqlite3.DatabaseError:
            # The gateway must start without its old receipts.
            file.replace(file.with_suffix(".damaged"))
            log.error("%s was damaged; it is set aside as %s", file, file.with_suffix(".damaged").name)
            self._database = _opened(file)

    def keep(self, receipt: Receipt) -> None:
        """Queues a receipt for writing; returns at once."""
        if len(self._waiting) >= MAX_WAITING_RECEIPTS:  # the disk is full, or slower than the questions
            self._waiting.pop(next(iter(self._waiting)))
        # Serialised at once, while its thousands of small values are still in the processor's cache.
        body = orjson.dumps({**receipt.summary, "candidates": receipt.reasons}, option=orjson.OPT_NON_STR_KEYS)
        self._waiting[receipt.receipt_id] = (receipt.receipt_id, receipt.tenant, receipt.at, body)
        self._write_soon()

    async def _write_waiting(self) -> None:
        """Writes the waiting receipts. If that fails they keep waiting, and the log has one warning."""
        batch = list(self._waiting.values())
        if not batch:
            return
        try:
            await asyncio.to_thread(self._write, batch)
        except sqlite3.Error as error:
            if not self._failing:
                log.warning("receipts cannot be written: %s", error)
            self._failing = True
            return
        self._failing = False
        for receipt_id, *_ in batch:
            self._waiting.pop(receipt_id, None)

    def _write(self, batch: Sequence[_Row]) -> None:
        compress = zstandard.ZstdCompressor(level=1).compress
        rows = [(*row[:3], compress(row[3])) for row in batch]  # to a sixth, in less time than it saves in writing
        now = time.time()
        with self._lock:
            self._database.execute("begin immediate")
            try:
                self._database.executemany("insert or replace into receipt values(?, ?, ?, ?)", rows)
                if now - self._swept > 60:  # sweeping costs a scan of the index; once a minute is often enough
                    self._database.execute("delete from receipt where at < ?", (now - self._keep_s,))
                    self._swept = now
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
            "delete from receipt where rowid in (select rowid from receipt order by at limit ?)",
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

    async def read(self, receipt_id: str, tenant: str) -> Mapping[str, Any]:
        """One receipt. Raises NotFound, also for another tenant's and for an expired one."""
        waiting = self._waiting.get(receipt_id)
        if waiting is not None and waiting[1] == tenant:
            row: bytes | None = waiting[3]
        else:
            row = await asyncio.to_thread(self._row, receipt_id, tenant)
        if row is None:
            raise NotFound(f"there is no receipt {receipt_id}; receipts are kept for {self._keep_s / 86_400:g} days")
        body: dict[str, Any] = orjson.loads(row)
        return with_current_keys({**body, "candidates": rows_of(body["candidates"])})

    def _row(self, receipt_id: str, tenant: str) -> bytes | None:
        query = "select body from receipt where receipt_id = ? and tenant = ? and at >= ?"
        found = self._first(query, (receipt_id, tenant, time.time() - self._keep_s))
        return zstandard.ZstdDecompressor().decompress(found[0]) if found else None

    async def kept(self, tenant: str) -> int:
        """The number of a tenant's receipts that can be read."""
        async with self._writing:  # a write moves receipts from one number to the other
            waiting = sum(row[1] == tenant for row in self._waiting.values())
            return waiting + await asyncio.to_thread(self._count, tenant)

    def _count(self, tenant: str) -> int:
        query = "select count(*) from receipt where tenant = ? and at >= ?"
        found = self._first(query, (tenant, time.time() - self._keep_s))
        return int(found[0]) if found else 0

    async def prune(self, *, dry_run: bool = False) -> int:
        """Delete the receipts that are too old, and return their number; with ``dry_run`` only count them."""
        return await asyncio.to_thread(self._prune, dry_run)

    def _prune(self, dry_run: bool) -> int:
        query = "select count(*) from receipt" if dry_run else "delete from receipt"
        with self._lock:
            cursor = self._database.execute(f"{query} where at < ?", (time.time() - self._keep_s,))
            if dry_run:
                return int(cursor.fetchone()[0])
            self._bound()
            return cursor.rowcount

    def _first(self, query: str, values: Sequence[object]) -> tuple[Any, ...] | None:
        with self._lock:
            found: tuple[Any, ...] | None = self._database.execute(query, values).fetchone()
            return found

    async def close(self) -> None:
        await super().close()
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        with self._lock:
            self._database.close()


def _opened(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    try:
        file.chmod(0o600)
        database.execute(f"pragma auto_vacuum = {_INCREMENTAL}")
        database.execute("pragma journal_mode=wal")
        database.execute(f"pragma journal_size_limit = {WAL_BYTES}")
        database.execute("pragma synchronous=normal")
        if database.execute("pragma user_version").fetchone()[0] != SCHEMA:
            database.execute("drop table if exists receipt")
            database.execute(f"pragma user_version = {SCHEMA}")
        # With row ids, so that large rows are appended and not spread over the tree.
        database.execute(
            "create table if not exists receipt"
            "(receipt_id text not null unique, tenant text not null, at real not null, body blob not null)"
        )
        database.execute("create index if not exists receipt_at on receipt(at)")
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database


def move_receipts(file: Path, tenant: str, target: Path) -> None:
    """Moves a tenant's receipts out of a file that tenants shared; a damaged file stays as it is."""
    if not file.exists():
        return
    try:
        _opened(target).close()
        with closing(_opened(file)) as db:
            db.execute("attach ? as own", (str(target),))
            db.execute("insert or ignore into own.receipt select * from main.receipt where tenant = ?", (tenant,))
            db.execute("delete from main.receipt where tenant = ?", (tenant,))
    except sqlite3.DatabaseError as error:
        log.warning("receipts of a tenant were not moved: %s", error)
