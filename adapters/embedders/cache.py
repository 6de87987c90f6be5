"""Caches embeddings by content hash: in memory up to a number of bytes, and in one SQLite file per model.

The file is named by provider, model and dimensions. All of it is derived: deleting the file costs only time.
"""

from __future__ import annotations

import logging
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from fusion.contract import Encoded, TokenVectors
from fusion.lib.in_context import parts_of
from fusion.lib.words import content_hash
from fusion.store.database import VALUES, listed
from fusion.store.sqlite import WAL_BYTES, transaction

if TYPE_CHECKING:
    from numpy.typing import NDArray


_log = logging.getLogger(__name__)
Value = TypeVar("Value")

_SCHEMA = """
create table if not exists text(
    id integer primary key,
    hash text not null unique,
    dense blob not null,
    used integer not null,
    bytes integer not null
);
create index if not exists text_by_use on text(used, id, bytes) where bytes > 0;
create table if not exists tokens(id integer primary key, scale real not null, vectors blob not null);
"""
_PARTS_SCHEMA = """
create table if not exists part(id integer not null, hash text not null, primary key(id, hash)) without rowid;
create index if not exists part_by_hash on part(hash);
create trigger if not exists text_gone after delete on text begin delete from part where id = old.id; end;
"""
# Token vectors are a hundred times larger than the rest, so they have their own table, and lookups read small rows.
# A text in its context also has the hashes of its parts, so that it goes when one of these is forgotten.
_VERSION = 1
_MOST_NOTED = 100_000
# Reads remembered until the next write; then they become the order of eviction.
_PAGE_BYTES = 16384
_ROW_BYTES = 200
# The size of a row without its vector: the hash, the hash in its index, and numbers.


class ByteLru(Generic[Value]):
    """A cache of the most recently used values, up to ``max_bytes``. Not thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self._held: OrderedDict[str, tuple[Value, int]] = OrderedDict()

    def get(self, key: str) -> Value | None:
        found = self._held.get(key)
        if found is None:
            return None
        self._held.move_to_end(key)
        return found[0]

    def held(self, keys: Iterable[str]) -> dict[str, Value]:
        """The values of those keys that it has."""
        found: dict[str, Value] = {}
        used, every = self._held.move_to_end, self._held
        for key in keys:
            if (one := every.get(key)) is not None:
                used(key)
                found[key] = one[0]
        return found

    def put(self, key: str, value: Value, size: int) -> None:
        self.drop(key)
        if size > self.max_bytes:
            return
        self._held[key] = (value, size)
        self.bytes += size
        while self.bytes > self.max_bytes:
            _, (_, freed) = self._held.popitem(last=False)
            self.bytes -= freed

    def keys(self) -> list[str]:
        return list(self._held)

    def drop(self, key: str) -> None:
        if (held := self._held.pop(key, None)) is not None:
            self.bytes -= held[1]

    def __len__(self) -> int:
        return len(self._held)


class VectorStore:
    """Vectors by the content hash of their text. Safe to use from several threads.

    Token vectors beyond ``max_token_bytes`` are evicted, least recently read first. Beyond ``max_dense_bytes`` of dense
    vectors, all vectors of a text are evicted in the same order, or oldest first if there are no token vectors. The
    file is a few per cent larger, for its own structure. A damaged file is renamed to ``….damaged`` and begun anew. A
    full disk or a file that cannot be written is logged, and the text is encoded again next time.
    """

    def __init__(self, path: Path, dimensions: int, max_token_bytes: int, max_dense_bytes: int = 1 << 30) -> None:
        self._path = path
        self._dimensions = dimensions
        self._max_token_bytes = max_token_bytes
        self._max_texts = max(1, max_dense_bytes // _bytes_of_row(dimensions))
        self._texts: int | None = None
        """an upper bound of the number of rows; None until counted"""
        self._lock = Lock()
        self._noted: set[int] = set()
        self._database: sqlite3.Connection | None = None
        with self._lock:
            self._open_or_begin()

    def dense(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The cached dense vectors, by text."""
        found: dict[str, NDArray[np.float32]] = {}
        by_hash = {content_hash(text): text for text in texts}

        def read(database: sqlite3.Connection) -> None:
            rows = database.execute(f"select hash, dense from text where hash in {VALUES}", listed(by_hash))
            for name, blob in rows:
                if len(blob) == 4 * self._dimensions:
                    found[by_hash[name]] = np.frombuffer(blob, np.float32)

        self._attempt("read", read)
        return found

    def tokens(self, texts: Sequence[str]) -> dict[str, TokenVectors]:
        """The cached token vectors, by text."""
        found: dict[str, TokenVectors] = {}
        by_hash = {content_hash(text): text for text in texts}
        query = f"select id, hash, scale, vectors from text join tokens using (id) where hash in {VALUES}"

        def read(database: sqlite3.Connection) -> None:
            for number, name, scale, blob in database.execute(query, listed(by_hash)):
                if len(blob) % self._dimensions == 0:
                    rows = np.frombuffer(blob, np.int8).reshape(-1, self._dimensions)
                    found[by_hash[name]] = TokenVectors(rows, scale)
                    self._noted.add(number)
            if len(self._noted) > _MOST_NOTED:
                self._noted.clear()

        self._attempt("read", read)
        return found

    def put(self, encoded: Mapping[str, Encoded]) -> None:
        """Store these in one transaction."""

        def write(database: sqlite3.Connection) -> None:
            with transaction(database):
                (now,) = database.execute("select coalesce(max(used), 0) + 1 from text where bytes > 0").fetchone()
                database.executemany("update text set used = ? where id = ?", [(now, i) for i in self._noted])
                self._noted.clear()
                self._make_room(database, len(encoded))
                for text, one in encoded.items():
                    vectors = one.tokens.vectors
                    row = content_hash(text), one.dense.tobytes(), now, vectors.nbytes
                    (number,) = database.execute(
                        "insert into text(hash, dense, used, bytes) values (?, ?, ?, ?) on conflict(hash) do update "
                        "set dense = excluded.dense, used = excluded.used, bytes = excluded.bytes returning id",
                        row,
                    ).fetchone()
                    database.execute(
                        "insert or replace into tokens values (?, ?, ?)", (number, one.tokens.scale, vectors.tobytes())
                    )
                    hashes = {content_hash(part) for part in parts_of(text) or () if part}
                    database.executemany("insert or ignore into part values (?, ?)", [(number, h) for h in hashes])
                self._evict(database)

        self._attempt("write", write)

    def put_dense(self, vectors: Mapping[str, NDArray[np.float32]]) -> None:
        """Store dense vectors of texts without token vectors, in one transaction."""

        def write(database: sqlite3.Connection) -> None:
            with transaction(database):
                self._make_room(database, len(vectors))
                database.executemany(
                    "insert into text(hash, dense, used, bytes) values (?, ?, 0, 0) "
                    "on conflict(hash) do update set dense = excluded.dense",
                    [(content_hash(text), vector.tobytes()) for text, vector in vectors.items()],
                )

        self._attempt("write", write)

    def forget(self, texts: Sequence[str]) -> None:
        """Delete these from the file: the space is overwritten and the write-ahead log emptied.

        They are deleted from the files of other models too, even unused ones.
        """
        hashes = [content_hash(text) for text in texts]
        self._attempt("forget", lambda database: _forget(database, hashes))
        for path in self._path.parent.glob("*.sqlite"):
            if path != self._path:
                _forget_in_other_model(path, hashes)

    def close(self) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _evict(self, database: sqlite3.Connection) -> None:
        excess = _token_bytes(database) - self._max_token_bytes
        if excess <= 0:
            return
        # A tenth more than must go, so that this is done once for many writes.
        excess += self._max_token_bytes // 10
        gone: list[tuple[int]] = []
        for number, size in database.execute("select id, bytes from text where bytes > 0 order by used, id"):
            if excess <= 0:
                break
            gone.append((number,))
            excess -= size
        database.executemany("delete from tokens where id = ?", gone)
        database.executemany("update text set bytes = 0 where id = ?", gone)

    def _make_room(self, database: sqlite3.Connection, added: int) -> None:
        """Delete texts so that ``added`` more fit; those that never had token vectors first.

        Rows are counted only if the bound may be reached, because many texts are not new.
        """
        count = "select count(*) from text"
        if self._texts is None or self._texts + added > self._max_texts:
            (self._texts,) = database.execute(count).fetchone()
        self._texts += added
        excess = self._texts - self._max_texts
        if excess <= 0:
            return
        # A tenth more must go, so that this is done once for many writes.
        wanted = excess + self._max_texts // 10
        gone = database.execute("select id from text order by used, id limit ?", (wanted,)).fetchall()
        database.executemany("delete from tokens where id = ?", gone)
        database.executemany("delete from text where id = ?", gone)
        self._texts -= len(gone)

    def _attempt(self, what: str, work: Callable[[sqlite3.Connection], None]) -> None:
        with self._lock:
            if self._database is None:
                return
            try:
                work(self._database)
            except sqlite3.OperationalError as error:
                _log.warning("the embedding cache %s could not %s: %s", self._path, what, error)
            except sqlite3.DatabaseError as error:
                _log.warning("the embedding cache %s is damaged (%s): set aside, begun anew", self._path, error)
                self._database.close()
                self._set_aside()
                self._open_or_begin()

    def _open_or_begin(self) -> None:
        self._texts = None
        try:
            self._database = self._connect()
        except sqlite3.OperationalError as error:
            self._database = None
            _log.warning("the embedding cache %s cannot be opened, so texts are encoded anew: %s", self._path, error)
        except sqlite3.DatabaseError as error:
            _log.warning("the embedding cache %s is damaged (%s): set aside, begun anew", self._path, error)
            self._set_aside()
            self._database = self._connect()

    def _connect(self) -> sqlite3.Connection:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.touch(mode=0o600)
        database = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=5.0)
        try:
            for pragma in (f"page_size = {_PAGE_BYTES}", "journal_mode = wal", "synchronous = normal"):
                database.execute(f"pragma {pragma}")
            database.execute("pragma secure_delete = on")
            database.execute(f"pragma journal_size_limit = {WAL_BYTES}")
            (version,) = database.execute("pragma user_version").fetchone()
            if version not in {0, _VERSION}:
                raise sqlite3.DatabaseError(f"it has schema {version}, not {_VERSION}")
            database.executescript(_SCHEMA + _PARTS_SCHEMA)
            database.execute(f"pragma user_version = {_VERSION}")
        except BaseException:
            database.close()
            raise
        return database

    def _set_aside(self) -> None:
        for ending in ("-wal", "-shm"):
            self._path.with_name(self._path.name + ending).unlink(missing_ok=True)
        self._path.replace(self._path.with_name(self._path.name + ".damaged"))


def _forget(database: sqlite3.Connection, hashes: Sequence[str]) -> None:
    some = listed(hashes)
    with transaction(database):
        for selected in (
            f"select id from part where hash in {VALUES}",
            f"select id from text where hash in {VALUES}",
        ):
            database.execute(f"delete from tokens where id in ({selected})", some)
            database.execute(f"delete from text where id in ({selected})", some)
    database.execute("pragma wal_checkpoint(truncate)")


def _forget_in_other_model(path: Path, hashes: Sequence[str]) -> None:
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=5.0)) as database:
            database.execute("pragma secure_delete = on")
            database.executescript(_PARTS_SCHEMA)
            _forget(database, hashes)
    except sqlite3.Error as error:
        _log.warning("the embedding cache %s could not forget: %s", path, error)


def _bytes_of_row(dimensions: int) -> int:
    """Bytes of a text in the file: an even share of a page, because a row that fits one page is not split."""
    row = 4 * dimensions + _ROW_BYTES
    return row if row > _PAGE_BYTES else _PAGE_BYTES // (_PAGE_BYTES // row)


def _token_bytes(database: sqlite3.Connection) -> int:
    (total,) = database.execute("select coalesce(sum(bytes), 0) from text where bytes > 0").fetchone()
    return int(total)
