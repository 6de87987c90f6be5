"""Qdrant's engine in this process, over points that one SQLite file keeps as numbers and JSON.

qdrant-client's own local mode keeps each point as a pickle, and to read a pickle is to run what it says: a file that
somebody else wrote would run code. Here a point is its id, the bytes of its vector and JSON, each checked when it is
read. The engine above, its filters and its answers are qdrant-client's: `Engine` is its `QdrantLocal` in memory, with
`Points` where a collection persists.

`adapters.mem0.unpickle` brings a folder of qdrant-client's own over, once.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
from qdrant_client import QdrantClient
from qdrant_client import models as shapes
from qdrant_client.local.qdrant_local import QdrantLocal

from fusion.errors import StoreBusy
from fusion.store.sqlite import connect, transaction

FILE = "points.sqlite"
LOCK = "points.lock"
VERSION = 1
SCHEMA = """
create table if not exists collection (name text primary key, config text not null) without rowid;
create table if not exists point (
    number integer primary key,
    collection text not null,
    id not null,
    vector blob,
    named text,
    payload text not null,
    unique (collection, id)
);
"""
UNNAMED = ""
"""Qdrant's name of a collection's one vector"""


def open_client(folder: Path) -> Client:
    """A client of the points in ``folder``, as mem0 takes one. Raises StoreBusy when another process has them, and
    ValueError or sqlite3.DatabaseError for a file that is not ours."""
    return Client(Engine(folder))


class Client(QdrantClient):
    """qdrant-client's own client, of our engine."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(location=":memory:")
        self._client = engine
        self.together = engine.together
        self.count_points = engine.count_points


class Points:
    """The storage of one collection: the four methods of qdrant-client's ``CollectionPersistence``."""

    def __init__(self, db: sqlite3.Connection, collection: str, config: shapes.CreateCollection) -> None:
        self._db = db
        self._collection = collection
        vectors = config.vectors
        self._size = vectors.size if isinstance(vectors, shapes.VectorParams) else None

    def persist(self, point: shapes.PointStruct) -> None:
        dense, named = _parts(point.vector)
        self._db.execute(
            "insert into point (collection, id, vector, named, payload) values (?, ?, ?, ?, ?) "
            "on conflict (collection, id) do update "
            "set vector = excluded.vector, named = excluded.named, payload = excluded.payload",
            (
                self._collection,
                point.id,
                None if dense is None else np.asarray(dense, dtype="<f4").tobytes(),
                json.dumps(named) if named else None,
                json.dumps(point.payload or {}, ensure_ascii=False),
            ),
        )

    def delete(self, point_id: shapes.ExtendedPointId) -> None:
        self._db.execute("delete from point where collection = ? and id = ?", (self._collection, point_id))

    def load(self) -> Iterator[shapes.PointStruct]:
        """The points in their order of insertion. Raises ValueError for a damaged one."""
        sql = "select id, vector, named, payload from point where collection = ? order by number"
        cursor = self._db.cursor()
        cursor.row_factory = None
        for point_id, vector, named, payload in cursor.execute(sql, (self._collection,)):
            try:
                yield shapes.PointStruct.model_construct(
                    id=_id(point_id),
                    vector=self._vectors(vector, named),
                    payload=_object(payload),
                )
            except (ValueError, TypeError) as error:
                raise ValueError(f"a point of {self._collection} is damaged: {error}") from None

    def close(self) -> None:
        """Nothing: the file is the engine's."""

    def _vectors(self, vector: object, named: object) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if vector is not None:
            if not isinstance(vector, bytes) or len(vector) % 4:
                raise ValueError("its vector is no vector")
            numbers = np.frombuffer(vector, dtype="<f4")
            if len(numbers) != self._size or not np.isfinite(numbers).all():
                raise ValueError("its vector has another size than the collection's, or is not finite")
            found[UNNAMED] = numbers
        for name, value in (_object(named) if named is not None else {}).items():
            if not isinstance(value, dict):
                raise ValueError(f"its vector {name!r} is no vector")
            found[name] = shapes.SparseVector(**value)
        return found


class Engine(QdrantLocal):
    """qdrant-client's local mode in memory, whose collections and points are in the SQLite file of a folder.

    A change of many points is one transaction, and what the engine knows is what was written: where that fails, it is
    read again. After a deletion the log is emptied. The folder's lock is held until `close`.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(location=":memory:")
        self._deletes = False
        """whether the transaction that is open deletes something"""
        self._lock: int | None = _locked(folder / LOCK)
        try:
            self._db = opened(folder / FILE)
            try:
                self._restore()
            except BaseException:
                self._db.close()
                raise
        except BaseException:
            self._unlock()
            raise

    def create_collection(self, collection_name: str, *args: Any, **kwargs: Any) -> bool:
        made = super().create_collection(collection_name, *args, **kwargs)
        collection = self.collections[collection_name]
        with self.together():
            values = (collection_name, collection.config.model_dump_json())
            self._db.execute("insert into collection (name, config) values (?, ?)", values)
        self._persist(collection_name)
        return made

    def delete_collection(self, collection_name: str, **kwargs: Any) -> bool:
        with self.together():
            self._deletes = True
            self._db.execute("delete from point where collection = ?", (collection_name,))
            self._db.execute("delete from collection where name = ?", (collection_name,))
        return super().delete_collection(collection_name, **kwargs)

    def create_payload_index(self, collection_name: str, field_name: str, *args: Any, **kwargs: Any) -> Any:
        """Nothing: local mode has no payload indexes, and would warn of that."""
        return self._default_update_result()

    def upsert(self, *args: Any, **kwargs: Any) -> Any:
        with self.together():
            return super().upsert(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        with self.together():
            self._deletes = True
            return super().delete(*args, **kwargs)

    def count_points(self) -> int:
        """The number of distinct points in the file; one in two collections counts once."""
        return int(self._db.execute("select count(distinct id) from point").fetchone()[0])

    def close(self, **kwargs: Any) -> None:
        """Writes the log into the file, so that what was deleted is in neither."""
        if self.closed:
            return
        super().close(**kwargs)
        self._db.close()
        self._unlock()

    def _restore(self) -> None:
        """The collections as they are in the file."""
        self.collections.clear()
        for name, text in self._db.execute("select name, config from collection order by name").fetchall():
            config = shapes.CreateCollection.model_validate_json(text)
            super().create_collection(name, vectors_config=config.vectors, sparse_vectors_config=config.sparse_vectors)
            self._persist(name)
            self.collections[name].load_vectors()

    def _persist(self, name: str) -> None:
        collection: Any = self.collections[name]
        collection.storage = Points(self._db, name, collection.config)

    @contextmanager
    def together(self) -> Iterator[None]:
        """All changes of the block, or none."""
        if self._db.in_transaction:  # part of a larger one
            yield
            return
        try:
            with transaction(self._db):
                yield
        except BaseException:
            self._deletes = False
            self._restore()
            raise
        if self._deletes:
            self._deletes = False
            # What was deleted must not be left in the write-ahead log until the store is closed.
            self._db.execute("pragma wal_checkpoint(truncate)").fetchall()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def opened(path: Path) -> sqlite3.Connection:
    """The database, created if missing. Raises ValueError for a link and for a newer version."""
    if path.is_symlink():
        raise ValueError(f"{path} is a link")
    db = connect(path)
    try:
        (version,) = db.execute("pragma user_version").fetchone()
        if version not in (0, VERSION):
            raise ValueError(f"{path} is of version {version}, and this program knows {VERSION}")
        db.executescript(f"{SCHEMA}pragma user_version = {VERSION};")
    except BaseException:
        db.close()
        raise
    return db


def _locked(path: Path) -> int:
    """The descriptor of the lock, which is ours until it is closed. Raises StoreBusy."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StoreBusy(f"mem0's folder {path.parent} is open in another process") from None
    return descriptor


def _parts(vector: Any) -> tuple[Sequence[float] | None, Mapping[str, object]]:
    """The unnamed vector, and the named ones as JSON: sparse ones only, for mem0 makes no others."""
    if not isinstance(vector, Mapping):
        return vector, {}
    named: dict[str, object] = {}
    for name, value in vector.items():
        if name != UNNAMED and value is not None:
            sparse = value if isinstance(value, shapes.SparseVector) else shapes.SparseVector.model_validate(value)
            named[name] = sparse.model_dump()
    return vector.get(UNNAMED), named


def _id(value: object) -> int | str:
    if isinstance(value, int) and value >= 0:
        return value
    if isinstance(value, str) and str(UUID(value)) == value:
        return value
    raise ValueError("its id is neither a UUID nor a number")


def _object(text: object) -> dict[str, Any]:
    found = json.loads(text, parse_constant=_no_number) if isinstance(text, str) else None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    return found


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number")
