"""Makes the tables of one database equal to those of another, by comparing them.

Nothing is remembered between two runs: what differs is found anew, so a run that was killed is continued by the next.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, Protocol

from fusion.errors import StoreDamaged
from fusion.store.tables import Sum, Table, row_hash

BATCH_ROWS = 2_000
BATCH_BYTES = 4_000_000
"""of one transaction: the larger a row, the fewer"""
LOOKED_UP = 200
"""rows that are read by their keys in one query"""

Values = tuple[Any, ...]
Report = Callable[[int], None]
"""is called with the number of rows that were just copied"""


class Tables(Protocol):
    """The tables of one tenant in one database."""

    def sum(self, table: Table) -> Sum:
        """The number of rows, and their checksum."""

    def count(self, table: Table) -> int:
        """The number of rows."""

    def hashes(self, table: Table) -> Iterator[Values]:
        """The key of each row, followed by its hash."""

    def rows(self, table: Table) -> Iterator[Values]:
        """Every row, with the columns in their order."""

    def found(self, table: Table, keys: Sequence[Values]) -> Iterable[Values]:
        """The rows with these keys."""

    def change(self, table: Table, gone: Sequence[Values], rows: Sequence[Values]) -> None:
        """Delete the rows with the keys ``gone`` and add rows, in one durable transaction."""


def equalise(table: Table, source: Tables, target: Tables, report: Report) -> tuple[Sum, int]:
    """Make a table of the target equal to the source's; its sum in both, and how many rows were changed.

    Nothing else may write to the target. Raises StoreDamaged if the target does not have what was written.
    """
    wanted, there = source.sum(table), target.sum(table)
    if wanted == there:
        return wanted, 0
    if not there.rows:
        changed = 0
        for batch in _batches(source.rows(table)):
            target.change(table, (), batch)
            changed += len(batch)
            report(len(batch))
    else:
        changed = _change_what_differs(table, source, target, report)
    if (copied := target.sum(table)) != wanted:
        raise StoreDamaged(
            f"the copy of the table {table.name} is not equal: it has {copied.rows} rows with the checksum "
            f"{copied.checksum}, not {wanted.rows} with {wanted.checksum}. Nothing was switched: migrate again"
        )
    return wanted, changed


def _change_what_differs(table: Table, source: Tables, target: Tables, report: Report) -> int:
    # On disk, since a large table has more keys than memory.
    with closing(sqlite3.connect("", isolation_level=None)) as db:
        db.execute("pragma synchronous = off")
        keys = [f"k{n}" for n in range(len(table.key))]
        listed = ", ".join(keys)
        for name, side in (("wanted", source), ("there", target)):
            db.execute(f"create table {name}({listed}, hash, primary key({listed})) without rowid")
            db.execute("begin")
            marks = ", ".join("?" * (len(keys) + 1))
            db.executemany(f"insert into {name} values({marks})", side.hashes(table))
            db.execute("commit")
        same = " and ".join(f"w.{key} = t.{key}" for key in keys)
        of = ", ".join(f"{{0}}.{key}" for key in keys)
        # Deleted first, also what is changed: a value that is unique may have moved from one row to another.
        gone = db.execute(
            f"select {of.format('t')} from there t left join wanted w on {same} "
            "where w.hash is null or w.hash <> t.hash"
        ).fetchall()
        changed = 0
        for batch in _sliced(gone, BATCH_ROWS):
            target.change(table, batch, ())
            changed += len(batch)
            report(0)
        missing = db.execute(
            f"select {of.format('w')} from wanted w left join there t on {same} "
            "where t.hash is null or w.hash <> t.hash"
        )
        found = (row for some in _sliced(missing, LOOKED_UP) for row in source.found(table, some))
        for rows in _batches(found):
            target.change(table, (), rows)
            changed += len(rows)
            report(len(rows))
    return changed


def _sliced(items: Iterable[Values], most: int) -> Iterator[list[Values]]:
    left = iter(items)
    while some := list(islice(left, most)):
        yield some


def _batches(rows: Iterable[Values]) -> Iterator[list[Values]]:
    """Rows for one transaction each, bounded in number and in bytes."""
    batch, size = list[Values](), 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


class SqliteTables:
    """The tables of a file. What is read is read within the caller's transaction, if there is one."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        db.row_factory = None

    def sum(self, table: Table) -> Sum:
        rows = hashes = 0
        for row in self.rows(table):
            rows += 1
            hashes += row_hash(row)
        return Sum(rows, hashes)

    def count(self, table: Table) -> int:
        (rows,) = self.db.execute(f'select count(*) from "{table.name}"{table.where}').fetchone()
        return int(rows)

    def hashes(self, table: Table) -> Iterator[Values]:
        at = [list(table.columns).index(name) for name in table.key]
        for row in self.rows(table):
            yield (*[row[n] for n in at], row_hash(row))

    def rows(self, table: Table) -> Iterator[Values]:
        return self.db.execute(f'select {self._columns(table)} from "{table.name}"{table.where}')

    def found(self, table: Table, keys: Sequence[Values]) -> Iterable[Values]:
        query = f'select {self._columns(table)} from "{table.name}" where {_is_key(table)}'
        return [row for key in keys for row in self.db.execute(query, key)]

    def change(self, table: Table, gone: Sequence[Values], rows: Sequence[Values]) -> None:
        marks = ", ".join("cast(? as blob)" if name in table.blobs else "?" for name in table.columns)
        self.db.execute("begin immediate")
        try:
            self.db.executemany(f'delete from "{table.name}" where {_is_key(table)}', gone)
            self.db.executemany(f'insert into "{table.name}"({table.names}) values({marks})', rows)
            self.db.execute("commit")
        except BaseException:
            if self.db.in_transaction:  # a full disk has rolled it back already
                self.db.execute("rollback")
            raise

    @staticmethod
    def _columns(table: Table) -> str:
        return ", ".join(f'cast("{name}" as text)' if name in table.blobs else f'"{name}"' for name in table.columns)


def _is_key(table: Table) -> str:
    return " and ".join(f'"{name}" = ?' for name in table.key)
