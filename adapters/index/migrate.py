"""Build the vectors of another model next to those in use, until they can replace them in one step.

They lie in a `Matrix` of their own, on the same slots; the record has the hash of the text that each is of, so that one
whose text changed meanwhile does not count. All of it survives a kill: the next run continues.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from adapters.index.matrix import Matrix, quantised
from fusion.lib.words import content_hash
from fusion.store.sqlite import transaction

if TYPE_CHECKING:
    from adapters.index.matrix import Floats

PORTION = 128
SCHEMA = """
create table if not exists moving(slot integer primary key, hash text not null, sum integer not null);
"""
ADOPT = """
update entry set sum = (select moving.sum from moving where moving.slot = entry.slot and moving.hash = entry.hash)
"""
_MISSING = """
select entry.slot, entry.key, entry.hash from entry left join moving using (slot, hash)
where entry.slot > ? and entry.written and moving.slot is null order by entry.slot limit ?
"""
_COUNTS = "select count(*), count(moving.slot) from entry left join moving using (slot, hash)"


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

    def portion(self) -> list[tuple[int, str, str]]:
        """The next (slot, key, hash) without a new vector; empty if all have one, or the rest just failed."""
        with self._lock:
            found = self._database.execute(_MISSING, (self._slot, PORTION)).fetchall()
            if not found and self._added:
                # Entries that changed meanwhile.
                self._slot, self._added = -1, 0
                found = self._database.execute(_MISSING, (self._slot, PORTION)).fetchall()
            if found:
                self._slot = found[-1][0]
            return found

    def add(self, rows: Sequence[tuple[int, str, Floats]]) -> None:
        """Slot, hash of the text, and the vector that it has in the other model."""
        rows = sorted(rows, key=lambda row: row[0])
        slots = [slot for slot, _, _ in rows]
        with self._lock:
            sums = self._matrix.write(slots, [1] * len(slots), [quantised(vector) for _, _, vector in rows])
            with transaction(self._database):
                self._database.executemany(
                    "insert or replace into moving values (?, ?, ?)",
                    [(slot, digest, sum_) for (slot, digest, _), sum_ in zip(rows, sums, strict=True)],
                )
            self._added += len(rows)

    def counts(self) -> tuple[int, int]:
        """The number of vectors built, and of all."""
        with self._lock:
            total, done = self._database.execute(_COUNTS).fetchone()
        return done, total

    def close(self) -> None:
        with self._lock:
            self._database.close()
            self._matrix.close()
