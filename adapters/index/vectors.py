"""What an index knows of each entry, in one SQLite file: scope, content hash, and its vector as soon as it has one.

The vectors also lie in memory as one int8 matrix, and a search looks at all of them: exact, and at 100,000 entries
still 7 ms. An approximate index would be faster from about a million on, but could not filter by scope.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

import numpy as np

from fusion.contract import Scope
from fusion.errors import StoreDamaged, StoreFull

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

_SCHEMA = """
create table if not exists meta(name text primary key, value text not null) without rowid;
create table if not exists scope(tag integer primary key, value text not null unique);
create table if not exists entry(
    key text primary key,
    tag integer not null,
    hash text not null,
    written integer not null,
    vector blob
);
"""
_KNOWN = "select key, tag, case when written then hash else '' end from entry"
_BLOCK = 2048
# Rows upcast from int8 at a time: 2048 × 384 floats are 3 MB, which stays in the cache.
_AT_ONCE = 500
_REMEMBERED_SCOPES = 256


@dataclass(frozen=True, slots=True)
class Known:
    """What is on record of an entry: the tag of its scope, the hash of its text.

    The hash is empty while the entry is being changed elsewhere, so that it equals none if that was cut short.
    """

    tag: int
    hash: str


class Vectors:
    """Opens the file, checking all of it; raises ``StoreDamaged``. May be used from several threads.

    ``analysis`` names how texts become terms, ``identity`` the model that the vectors are of (``None``: there is no
    model now, and the vectors are left as they are). Where the file was written under another identity, its vectors are
    dropped; ``same_analysis`` says whether it was written under this analysis, and ``analysed`` that it is now.
    """

    def __init__(self, path: Path, analysis: str, identity: str | None, dimensions: int) -> None:
        self._lock = RLock()
        self._scopes: list[tuple[int, Scope]] = []
        self._tags: dict[Scope, int] = {}
        self._admitted: dict[Scope, tuple[int, list[int]]] = {}
        self._matrix = _Matrix(dimensions)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with _named_errors():
            self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
            try:
                self._load(analysis, identity, dimensions)
            except BaseException:
                self._database.close()
                raise

    def _load(self, analysis: str, identity: str | None, dimensions: int) -> None:
        run = self._database.execute
        for pragma in ("page_size = 16384", "journal_mode = wal", "synchronous = normal", "secure_delete = on"):
            run(f"pragma {pragma}")
        self._check()
        self._database.executescript(_SCHEMA)
        self.same_analysis = self._meta("analysis") in {None, analysis}
        if identity is not None:
            if self._meta("embedder") not in {None, identity}:
                run("update entry set vector = null")
            self._set_meta("embedder", identity)
            # Vectors of another length cannot be of this model, whatever the file says.
            run("update entry set vector = null where length(vector) <> ?", (dimensions,))
            rows = run("select key, tag, vector from entry where vector is not null order by key").fetchall()
            vectors = np.frombuffer(b"".join(row[2] for row in rows), np.int8).reshape(-1, dimensions)
            self._matrix.extend([row[0] for row in rows], [row[1] for row in rows], vectors)
        for tag, value in run("select tag, value from scope order by tag"):
            self._add_scope(tag, Scope(**json.loads(value)))
        self.size: int = run("select count(*) from entry").fetchone()[0]

    def check(self) -> None:
        """Raises ``StoreDamaged`` when the file is not what was written."""
        with self._lock, _named_errors():
            self._check()

    def _check(self) -> None:
        self._database.execute("pragma shrink_memory")  # the file is to be looked at, not what was read of it before
        if [row[0] for row in self._database.execute("pragma quick_check(1)")] != ["ok"]:
            raise StoreDamaged("the vector file fails SQLite's quick_check")

    @property
    def count(self) -> int:
        """How many entries have a vector."""
        return self._matrix.count

    def known(self) -> dict[str, Known]:
        """All that is on record, by key."""
        with self._lock, _named_errors():
            rows = self._database.execute(_KNOWN).fetchall()
        return {key: Known(tag, digest) for key, tag, digest in rows}

    def known_of(self, keys: Sequence[str]) -> dict[str, Known]:
        found: dict[str, Known] = {}
        with self._lock, _named_errors():
            for low in range(0, len(keys), _AT_ONCE):
                some = keys[low : low + _AT_ONCE]
                marks = ",".join("?" * len(some))
                for key, tag, digest in self._database.execute(f"{_KNOWN} where key in ({marks})", some):
                    found[key] = Known(tag, digest)
        return found

    def with_vector(self, keys: Iterable[str]) -> set[str]:
        """Those of ``keys`` that have one."""
        with self._lock:
            return {key for key in keys if key in self._matrix}

    def tag(self, scope: Scope) -> int:
        """The number that stands for exactly this scope."""
        with self._lock, _named_errors():
            if (tag := self._tags.get(scope)) is None:
                tag = len(self._scopes) + 1
                value = json.dumps(asdict(scope), sort_keys=True)
                self._database.execute("insert into scope values (?, ?)", (tag, value))
                self._add_scope(tag, scope)
            return tag

    def tags(self, scope: Scope) -> list[int] | None:
        """The tags of what a query in ``scope`` may see; ``None`` when that is everything."""
        with self._lock:
            if len(self._admitted) > _REMEMBERED_SCOPES:
                self._admitted.clear()
            seen, tags = self._admitted.get(scope, (0, []))
            if seen < len(self._scopes):
                tags = [*tags, *(tag for tag, item in self._scopes[seen:] if scope.admits(item))]
                self._admitted[scope] = (len(self._scopes), tags)
            return None if len(tags) == len(self._scopes) else tags

    def analysed(self, analysis: str) -> None:
        """Records that all terms are of this analysis."""
        with self._lock, _named_errors():
            self._set_meta("analysis", analysis)

    def changing(self, keys: Sequence[str]) -> None:
        """Records that these are about to change elsewhere. ``change`` takes that back, and nothing else does."""
        with self._lock, _named_errors(), self._transaction() as run:
            for key in keys:
                run("update entry set written = 0 where key = ?", (key,))

    def change(self, put: Mapping[str, Known], drop: Sequence[str]) -> None:
        """Records entries, replacing what the key had, and drops others; in one transaction.

        A vector stays where the text is the same, and is dropped where it is not.
        """
        with self._lock, _named_errors():
            bare: list[str] = []
            with self._transaction() as run:
                for key in drop:
                    run("delete from entry where key = ?", (key,))
                for key, known in put.items():
                    (is_bare,) = run(
                        "insert into entry(key, tag, hash, written) values (?, ?, ?, 1) on conflict(key) do update set "
                        "vector = case when hash = excluded.hash then vector end, "
                        "tag = excluded.tag, hash = excluded.hash, written = 1 returning vector is null",
                        (key, known.tag, known.hash),
                    ).fetchone()
                    if is_bare:
                        bare.append(key)
                (size,) = run("select count(*) from entry").fetchone()
            self.size = int(size)
            for key in (*drop, *bare):
                self._matrix.remove(key)
            for key, known in put.items():
                self._matrix.retag(key, known.tag)

    def add(self, vectors: Sequence[tuple[str, str, Floats]]) -> None:
        """Gives entries their vectors: (key, hash of the text it is of, vector). One that changed since is left."""
        with self._lock, _named_errors():
            added: list[tuple[str, int, NDArray[np.int8]]] = []
            with self._transaction() as run:
                for key, digest, vector in vectors:
                    small = _quantised(vector)
                    row = run(
                        "update entry set vector = ? where key = ? and hash = ? returning tag",
                        (small.tobytes(), key, digest),
                    ).fetchone()
                    if row is not None:
                        added.append((key, row[0], small))
            for key, _, _ in added:
                self._matrix.remove(key)
            if added:
                self._matrix.extend([a[0] for a in added], [a[1] for a in added], np.stack([a[2] for a in added]))

    def search(self, query: Floats, tags: Sequence[int] | None, limit: int) -> list[tuple[str, float]]:
        """The best ``limit`` keys with their cosines, among these tags (``None``: all). Equal cosines: by key."""
        with self._lock:
            return self._matrix.search(query, tags, limit)

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def _add_scope(self, tag: int, scope: Scope) -> None:
        self._scopes.append((tag, scope))
        self._tags[scope] = tag

    def _meta(self, name: str) -> str | None:
        row = self._database.execute("select value from meta where name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _set_meta(self, name: str, value: str) -> None:
        if self._meta(name) != value:
            self._database.execute("insert or replace into meta values (?, ?)", (name, value))

    @contextmanager
    def _transaction(self) -> Iterator[Callable[..., sqlite3.Cursor]]:
        run = self._database.execute
        run("begin immediate")
        try:
            yield run
        except BaseException:
            if self._database.in_transaction:  # a full disk has rolled it back already
                run("rollback")
            raise
        run("commit")


class _Matrix:
    """Unit vectors in int8, with their keys and tags, row by row; the last row fills the gap of a removed one."""

    def __init__(self, dimensions: int) -> None:
        self._rows = np.empty((0, dimensions), np.int8)
        self._scales = np.empty(0, np.float32)
        self._tags = np.empty(0, np.int64)
        self._keys: list[str] = []
        self._row_of: dict[str, int] = {}

    @property
    def count(self) -> int:
        return len(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._row_of

    def extend(self, keys: Sequence[str], tags: Sequence[int], vectors: NDArray[np.int8]) -> None:
        """Adds rows; none of ``keys`` may be there."""
        start, end = self.count, self.count + len(keys)
        if end > len(self._rows):
            room = max(1024, 2 * end)
            self._rows, self._scales, self._tags = (
                np.concatenate([old[:start], np.empty((room - start, *old.shape[1:]), old.dtype)])
                for old in (self._rows, self._scales, self._tags)
            )
        self._rows[start:end] = vectors
        # The scale that restores unit length, exactly: rounding to int8 has changed it a little.
        self._scales[start:end] = 1.0 / np.maximum(np.linalg.norm(vectors.astype(np.float32), axis=1), 1.0)
        self._tags[start:end] = tags
        self._row_of.update(zip(keys, range(start, end), strict=True))
        self._keys.extend(keys)

    def remove(self, key: str) -> None:
        if (row := self._row_of.pop(key, None)) is None:
            return
        last = self._keys.pop()
        if last != key:
            end = len(self._keys)
            for array in (self._rows, self._scales, self._tags):
                array[row] = array[end]
            self._keys[row] = last
            self._row_of[last] = row

    def retag(self, key: str, tag: int) -> None:
        if (row := self._row_of.get(key)) is not None:
            self._tags[row] = tag

    def search(self, query: Floats, tags: Sequence[int] | None, limit: int) -> list[tuple[str, float]]:
        rows, scales, chosen = self._rows[: self.count], self._scales[: self.count], None
        if tags is not None:
            chosen = np.flatnonzero(np.isin(self._tags[: self.count], tags))
            rows, scales = rows[chosen], scales[chosen]
        if not len(rows) or limit < 1:
            return []
        cosines = np.empty(len(rows), np.float32)
        for low in range(0, len(rows), _BLOCK):
            np.dot(rows[low : low + _BLOCK].astype(np.float32), query, out=cosines[low : low + _BLOCK])
        # Rounded, so that two entries of the same text have the same cosine in whichever block they lie.
        cosines = np.round(cosines * scales, 5)
        best = np.arange(len(rows))
        if len(rows) > limit:
            edge = np.partition(cosines, len(rows) - limit)[len(rows) - limit]
            best = np.flatnonzero(cosines >= edge)
        at = best if chosen is None else chosen[best]
        found = [(self._keys[row], float(cosine)) for row, cosine in zip(at, cosines[best], strict=True)]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))[:limit]


def _quantised(vector: Floats) -> NDArray[np.int8]:
    peak = float(np.abs(vector).max(initial=0.0)) or 1.0
    return np.asarray(np.rint(vector * (127 / peak)), np.int8)


@contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise StoreFull(f"no space left for the vectors: {error}") from error
        raise StoreDamaged(f"the vector file does not work: {error}") from error
