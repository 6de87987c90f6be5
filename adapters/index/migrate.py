"""Build the vectors of another model next to those in use, until they can replace them in one step.

They lie in a `Matrix` of their own, on the same slots; the record has the hash and the part of the text that each is
of, so that one whose text has changed since does not count. All of it survives a kill: the next run continues.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from adapters.index.matrix import Matrix, quantised
from fusion.lib.words import content_hash
from fusion.store.sqlite import transaction

if TYPE_CHECKING:
    from adapters.index.matrix import Floats

PORTION = 128
SCHEMA = """
create table if not exists moving(
    slot integer primary key, hash text not null, part integer not null, sum integer not null
);
"""
ADOPT = """
update entry set sum = (
    select moving.sum from moving
    where moving.slot = entry.slot and moving.hash = entry.hash and moving.part = entry.part
)
"""
_MISSING = """
select entry.slot, entry.key, entry.hash, entry.part from entry left join moving using (slot, hash, part)
where entry.slot > ? and entry.written and moving.slot is null order by entry.slot limit ?
"""
_COUNTS = """
select count(distinct entry.key), count(distinct case when moving.slot is null then entry.key end)
from entry left join moving using (slot, hash, part)
"""


class Row(NamedTuple):
    """A row of the record: a part of an entry's text, at its slot."""

    slot: int
    key: str
    hash: str
    part: int


def rows_file(identity: str) -> str:
    """The name of the file with the vectors of a model."""
    return f"vectors-{content_hash(identity)[:8]}.i8"


class Moving:
    """A move of the record at ``path`` to the model of this identity: begun, or taken up where it was left.

    Errors are SQLite's and the system's. Thread-safe: closing waits for a portion that a cancelled caller left.
    """

    def __init__(self, path: Path, identity: str, dimensions: int) -> None:
        file = path.with_name(rows_file(identity))
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30.0)
        run = self._database.execute
        if run("select value from meta where name = 'moving'").fetchone() != (identity,):
            with transaction(self._database):
                run("delete from moving")
                run("insert or replace into meta values ('moving', ?)", (identity,))
            file.unlink(missing_ok=True)
        self._matrix = Matrix(file, dimensions, identity)
        self._lock = Lock()
        self._slot = -1
        self._added = 0

    def portion(self) -> list[Row]:
        """The next rows without a new vector; empty if all have one, or the rest just failed."""
        with self._lock:
            found = self._database.execute(_MISSING, (self._slot, PORTION)).fetchall()
            if not found and self._added:
                # Entries that have changed since.
                self._slot, self._added = -1, 0
                found = self._database.execute(_MISSING, (self._slot, PORTION)).fetchall()
            if found:
                self._slot = found[-1][0]
            return [Row(*row) for row in found]

    def add(self, made: Sequence[tuple[Row, Floats]]) -> None:
        """Store the vectors that these rows have in the other model."""
        made = sorted(made, key=lambda one: one[0].slot)
        slots = [row.slot for row, _ in made]
        with self._lock:
            sums = self._matrix.write(slots, [1] * len(slots), [quantised(vector) for _, vector in made])
            with transaction(self._database):
                self._database.executemany(
                    "insert or replace into moving values (?, ?, ?, ?)",
                    [(row.slot, row.hash, row.part, sum_) for (row, _), sum_ in zip(made, sums, strict=True)],
                )
            self._added += len(made)

    def counts(self) -> tuple[int, int]:
        """The number of entries whose vectors are built, and of all."""
        with self._lock:
            total, missing = self._database.execute(_COUNTS).fetchone()
        return total - missing, total

    def close(self) -> None:
        with self._lock:
            self._database.close()
            self._matrix.close()
