"""The tables that a tenant has in both databases, and checksums of their rows that are equal in both.

A checksum does not depend on the order of the rows: it is the sum of their hashes. A row's hash is made of its values
in one form, by Python for SQLite and by the server for PostgreSQL.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

NUL, FOR_NUL = "\0", "\U0010ffff"
"""PostgreSQL stores no NUL, which separates the parts of the journal's keys; the other is no character of any text"""

_BITS = 64
NUMBERS = "sqlite_sequence"
"""the table of the last numbers that were given"""
_FULL_TEXT = ("_data", "_idx", "_content", "_docsize", "_config")
"""how the names of a full-text index's own tables end"""


class Sum(NamedTuple):
    """The number of rows of a table, and the sum of their hashes."""

    rows: int
    hashes: int

    @property
    def checksum(self) -> str:
        """16 hexadecimal digits."""
        return f"{self.hashes % (1 << _BITS):016x}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its columns and their types: integer, text, blob or real. ``key`` are those that identify a row."""

    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]
    condition: str = ""
    """which rows are copied; empty for all"""
    blobs: frozenset[str] = frozenset()
    """columns of text that SQLite stores as blobs"""
    in_postgres: str = ""
    """the query of its rows in PostgreSQL, if it is not the table itself"""

    @property
    def names(self) -> str:
        return ", ".join(f'"{name}"' for name in self.columns)

    @property
    def keys(self) -> str:
        return ", ".join(f'"{name}"' for name in self.key)

    @property
    def where(self) -> str:
        return f" where {self.condition}" if self.condition else ""


def tables_of(steps: Sequence[str]) -> tuple[Table, ...]:
    """The tables of a schema: those that hold what a program wrote. Indexes are made by each database itself."""
    with closing(sqlite3.connect(":memory:")) as db:
        for step in steps:
            db.executescript(step)
        made = dict(db.execute("select name, sql from sqlite_master where type = 'table'").fetchall())
        indexes = [name for name, sql in made.items() if "using fts5" in str(sql).lower()]
        own = {NUMBERS, *indexes, *(f"{name}{end}" for name in indexes for end in _FULL_TEXT)}
        found = []
        for name in made:
            if name in own or name.startswith("sqlite_"):
                continue
            about = db.execute(f'pragma table_info("{name}")').fetchall()
            columns = {column: kind.lower() for _, column, kind, *_ in about}
            keyed = sorted((at, column) for _, column, *_, at in about if at)
            found.append(Table(name, columns, tuple(column for _, column in keyed) or tuple(columns)))
        found += [Table(name, {"rowid": "integer", "terms": "text"}, ("rowid",)) for name in indexes]
        numbered = sorted(name for name, sql in made.items() if "autoincrement" in str(sql).lower())
    listed = ", ".join(f"'{name}'" for name in numbered)
    # Last: SQLite changes it with each row that is copied.
    return (*found, Table(NUMBERS, {"name": "text", "seq": "integer"}, ("name",), f"name in ({listed})"))


def _written(value: Any) -> bytes:
    """A value as it is hashed. Numbers of other types than their column's, which SQLite stores, are not equal."""
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, str):
        return value.replace(NUL, FOR_NUL).encode()
    if isinstance(value, float):
        return struct.pack(">d", value).hex().encode()
    return bytes(value).hex().encode()


def row_hash(values: Iterable[Any]) -> int:
    """The hash of a row: 64 bits with a sign."""
    parts = []
    for value in values:
        if value is None:
            parts.append(b"-")
        else:
            written = _written(value)
            parts.append(b"%d:%b" % (len(written), written))
    return int.from_bytes(sha256(b"".join(parts)).digest()[:8], "big", signed=True)


_IN_POSTGRES = {
    "integer": "coalesce(length(cast({0} as text)) || ':' || {0}, '-')",
    "text": "coalesce(octet_length({0}) || ':' || {0}, '-')",
    "real": "coalesce('16:' || encode(float8send({0}), 'hex'), '-')",
    "blob": "coalesce(2 * length({0}) || ':' || encode({0}, 'hex'), '-')",
}


def hash_in_postgres(table: Table) -> str:
    """SQL for `row_hash` of a row of PostgreSQL."""
    parts = " || ".join(_IN_POSTGRES[kind or "text"].format(f'"{name}"') for name, kind in table.columns.items())
    return f"cast(cast('x' || encode(substr(sha256(convert_to({parts}, 'UTF8')), 1, 8), 'hex') as bit(64)) as bigint)"
