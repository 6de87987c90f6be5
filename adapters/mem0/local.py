"""Qdrant's engine in this process, over points that one SQLite file keeps as numbers and JSON.

qdrant-client's own local mode keeps each point as a pickle, and to read a pickle is to run what it says: a file that
somebody else wrote would run code. Here a point is its id, the bytes of its vector and JSON, each checked when it is
read. That mode also has all vectors and payloads in memory, which takes 5 kB for each memory and a minute at the start
with a million. `Engine` stores, finds and deletes points in the file itself, with `adapters.mem0.nearest` for the
vectors. Every other call is answered by qdrant-client's own collection, which is read for it.

`adapters.mem0.unpickle` brings a folder of qdrant-client's own over, once.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import numpy as np
from qdrant_client import QdrantClient
from qdrant_client import models as shapes
from qdrant_client.conversions.common_types import QueryResponse
from qdrant_client.local.local_collection import LocalCollection
from qdrant_client.local.payload_filters import check_filter
from qdrant_client.local.qdrant_local import QdrantLocal

from adapters.mem0.nearest import UNNAMED, Near, equalities, is_by_cosine, is_plain, size_of, unit
from fusion.errors import StoreBusy, StoreDamaged
from fusion.store.database import VALUES, listed
from fusion.store.sqlite import connect, transaction

if TYPE_CHECKING:
    from adapters.index.matrix import Floats

log = logging.getLogger(__name__)

FILE = "points.sqlite"
LOCK = "points.lock"
VERSION = 3
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
create table if not exists place (
    number integer primary key references point on delete cascade,
    document text not null, user_id text, start integer not null
);
create index if not exists place_document on place(document, user_id, start);
create table if not exists step (collection text primary key, stamp text not null) without rowid;
create table if not exists tally (collection text primary key, points integer not null) without rowid;
create trigger if not exists point_counted after insert on point begin
    insert into tally values (new.collection, 1) on conflict do update set points = points + 1;
end;
create trigger if not exists point_uncounted after delete on point begin
    update tally set points = points - 1 where collection = old.collection;
end;
"""
"""`tally` has the number of each collection's points, which is asked each second"""
_PLACES = """
insert into place select number, json_extract(payload, '$.document'), json_extract(payload, '$.user_id'),
    json_extract(payload, '$.start')
from point where json_type(payload, '$.document') = 'text' and json_type(payload, '$.start') = 'integer';
"""
"""brings version 1 to version 2"""
_TALLY = "insert or replace into tally select collection, count(*) from point group by collection;"
"""brings version 2 to version 3"""


def open_client(folder: Path) -> Client:
    """A client of the points in ``folder``, as mem0 takes one. Raises StoreBusy when another process has them, and
    ValueError or sqlite3.DatabaseError for a file that is not ours."""
    return Client(Engine(folder))


class Client(QdrantClient):
    """qdrant-client's own client, of our engine."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(location=":memory:")
        self._client = engine
        self.engine = engine


PointId = int | str


class _Read(NamedTuple):
    """A point that was read: its number in the order of insertion, its unnamed vector, its payload."""

    number: int
    vector: Floats | None
    payload: shapes.Payload


_MAX_READ = 4096
"""points in the cache; each takes some 4 kB"""
_PORTION = 1000
"""points whose vectors are rounded at a time"""
SPARE = 32
"""candidates beyond the limit: rounding to 8 bits swaps neighbours, and these are compared exactly"""
_DEEPER = 8
"""factor on the number of candidates where the filter admits too few"""


class Points:
    """The storage of one collection: the four methods of qdrant-client's ``CollectionPersistence``."""

    def __init__(
        self,
        db: sqlite3.Connection,
        collection: str,
        config: shapes.CreateCollection,
        changed: Callable[[PointId], None] = lambda point_id: None,
    ) -> None:
        self._db = db
        self._collection = collection
        self._changed = changed
        vectors = config.vectors
        self._size = vectors.size if isinstance(vectors, shapes.VectorParams) else None

    def persist(self, point: shapes.PointStruct) -> None:
        dense, named = _parts(point.vector)
        payload = point.payload or {}
        [(number,)] = self._db.execute(
            "insert into point (collection, id, vector, named, payload) values (?, ?, ?, ?, ?) "
            "on conflict (collection, id) do update "
            "set vector = excluded.vector, named = excluded.named, payload = excluded.payload returning number",
            (
                self._collection,
                point.id,
                None if dense is None else np.asarray(dense, dtype="<f4").tobytes(),
                json.dumps(named) if named else None,
                json.dumps(payload, ensure_ascii=False),
            ),
        ).fetchall()
        document, start = payload.get("document"), payload.get("start")
        if isinstance(document, str) and isinstance(start, int):
            user_id = payload.get("user_id")
            place = (number, document, user_id if isinstance(user_id, str) else None, start)
            self._db.execute("insert or replace into place values (?, ?, ?, ?)", place)
        else:
            self._db.execute("delete from place where number = ?", (number,))
        self._changed(_id(point.id))

    def delete(self, point_id: shapes.ExtendedPointId) -> None:
        self._db.execute("delete from point where collection = ? and id = ?", (self._collection, point_id))
        self._changed(_id(point_id))

    def load(self) -> Iterator[shapes.PointStruct]:
        """The points in their order of insertion. Raises ValueError for a damaged one."""
        sql = "select id, vector, named, payload from point where collection = ? order by number"
        cursor = self._db.cursor()
        cursor.row_factory = None
        for row in cursor.execute(sql, (self._collection,)):
            yield self.point(row)

    def point(self, row: Sequence[Any]) -> shapes.PointStruct:
        """The point of a row: id, vector, named vectors, payload. Raises ValueError for a damaged one."""
        point_id, vector, named, payload = row
        try:
            return shapes.PointStruct.model_construct(
                id=_id(point_id), vector=self._vectors(vector, named), payload=_object(payload)
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
    """qdrant-client's local mode, whose collections and points are in the SQLite file of a folder.

    A change of many points is one transaction. After a deletion the log is emptied. The folder's lock is held until
    `close`. `collections` has the collections without their points.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(location=":memory:")
        self._folder = folder
        self._deletes = False
        """whether the transaction that is open deletes something"""
        self._near: dict[str, Near] = {}
        self._changed: dict[str, dict[PointId, None]] = {}
        """the points that the open transaction changes, by collection"""
        self._late: dict[str, dict[PointId, None]] = {}
        """the points that were changed, and whose rounded vectors were not"""
        self._stepped = True
        """whether `step` may have an entry, which the next change deletes"""
        self._read: dict[tuple[str, PointId], _Read] = {}
        """a cache of the points that were read last"""
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

    # Collections

    def create_collection(self, collection_name: str, *args: Any, **kwargs: Any) -> bool:
        made = super().create_collection(collection_name, *args, **kwargs)
        collection = self.collections[collection_name]
        with self.together():
            values = (collection_name, collection.config.model_dump_json())
            self._db.execute("insert into collection (name, config) values (?, ?)", values)
        return made

    def delete_collection(self, collection_name: str, **kwargs: Any) -> bool:
        with self.together():
            self._deletes = True
            self._db.execute("delete from point where collection = ?", (collection_name,))
            self._db.execute("delete from collection where name = ?", (collection_name,))
            self._db.execute("delete from step where collection = ?", (collection_name,))
        self._read.clear()
        self._late.pop(collection_name, None)
        if (near := self._near.pop(collection_name, None)) is not None:
            near.delete()
        return super().delete_collection(collection_name, **kwargs)

    def get_collection(self, collection_name: str, **kwargs: Any) -> shapes.CollectionInfo:
        info = self._named(collection_name).info()
        info.points_count = self.count_in(collection_name)
        return info

    def collection_exists(self, collection_name: str, **kwargs: Any) -> bool:
        return collection_name in self.collections

    def create_payload_index(self, collection_name: str, field_name: str, *args: Any, **kwargs: Any) -> Any:
        """Nothing: local mode has no payload indexes, and would warn of that."""
        return self._default_update_result()

    # Writing

    def upsert(self, collection_name: str, points: Any, *args: Any, **kwargs: Any) -> Any:
        """Points as a list are written to the file; the local mode answers every other call."""
        with self.together():
            conditional = kwargs.get("update_filter") is not None or kwargs.get("update_mode") is not None
            if args or conditional or not isinstance(points, list):
                return super().upsert(collection_name, points, *args, **kwargs)
            storage = self._points(collection_name)
            ids = [point.id for point in points]
            self._forget_near(collection_name, self._having(collection_name, ids))
            for point in points:
                storage.persist(point)
            return self._default_update_result()

    def delete(self, collection_name: str, points_selector: Any, **kwargs: Any) -> Any:
        with self.together():
            self._deletes = True
            ids = getattr(points_selector, "points", points_selector)
            if not isinstance(ids, list):
                return super().delete(collection_name, points_selector, **kwargs)
            storage = self._points(collection_name)
            for point_id in ids:
                storage.delete(point_id)
            return self._default_update_result()

    def set_payload(self, *args: Any, **kwargs: Any) -> Any:
        with self.together():
            return super().set_payload(*args, **kwargs)

    def update_vectors(self, *args: Any, **kwargs: Any) -> Any:
        with self.together():
            return super().update_vectors(*args, **kwargs)

    # Reading

    def query_points(self, collection_name: str, *args: Any, **kwargs: Any) -> QueryResponse:
        """The ids nearest to a vector by cosine; the local mode answers every other question."""
        if args or not is_plain(**kwargs) or not is_by_cosine(self._named(collection_name).config):
            return super().query_points(collection_name, *args, **kwargs)
        query = kwargs["query"].nearest
        if np.isnan(query).any():
            raise ValueError("the query's vector has NaN")
        asked = unit(np.array(query, np.float32))
        found = self._nearest(collection_name, asked, kwargs.get("query_filter"), kwargs["limit"])
        points = [
            shapes.ScoredPoint.model_construct(id=point_id, version=0, score=score, payload=None, vector=None)
            for point_id, score in found
        ]
        return QueryResponse.model_construct(points=points)

    def retrieve(
        self, collection_name: str, ids: Sequence[Any], with_payload: Any = True, with_vectors: Any = False, **more: Any
    ) -> list[shapes.Record]:
        if with_payload not in (True, False) or with_vectors:
            return super().retrieve(collection_name, ids, with_payload, with_vectors, **more)
        self._named(collection_name)
        found = self.payloads(collection_name, ids)
        return [
            shapes.Record.model_construct(id=one, payload=found[one] if with_payload else None, vector=None)
            for one in ids
            if one in found
        ]

    def payloads(self, collection_name: str, ids: Iterable[PointId]) -> dict[PointId, shapes.Payload]:
        """The payloads of those of the points that exist. They are cached: the caller changes none."""
        return {point_id: one.payload for point_id, one in self._points_of(collection_name, ids).items()}

    def held(self, ids: Iterable[PointId]) -> dict[PointId, list[str]]:
        """The collections of those of the points that exist."""
        found: dict[PointId, list[str]] = {}
        wanted = list(ids)
        at = f"select id from point where collection = ? and id in {VALUES}"  # the index begins with the collection
        for name in self.collections:
            for (point_id,) in self._db.execute(at, (name, *listed(wanted))):
                found.setdefault(point_id, []).append(name)
        return found

    def ids(self, collection_name: str, after: PointId | None = None, limit: int = -1) -> list[PointId]:
        """The ids of a collection's points, in ascending order, beyond ``after``."""
        beyond = "" if after is None else "and id > ?"
        values = (collection_name, *(() if after is None else (after,)), limit)
        rows = self._db.execute(f"select id from point where collection = ? {beyond} order by id limit ?", values)
        return [row[0] for row in rows]

    def of_document(self, payload: Mapping[str, Any], *, before: bool) -> Iterator[tuple[PointId, shapes.Payload]]:
        """The points of a payload's document and user in all collections, from its place away, without an order among
        those of one place; the place itself is in both directions."""
        side, order = ("<=", "desc") if before else (">=", "asc")
        rows = self._db.execute(
            "select p.id, p.payload from place d join point p on p.number = d.number "
            f"where d.document = ? and d.user_id is ? and d.start {side} ? order by d.start {order}",
            (payload["document"], payload.get("user_id"), payload["start"]),
        )
        for point_id, text in rows:
            with self._damage_named():
                found = _object(text)
            yield point_id, found

    def count_in(self, collection_name: str) -> int:
        """The number of a collection's points."""
        row = self._db.execute("select points from tally where collection = ?", (collection_name,)).fetchone()
        return 0 if row is None else int(row[0])

    def count_points(self) -> int:
        """The number of distinct points in the file; one in two collections counts once."""
        if len(self.collections) <= 1:
            return int(self._db.execute("select coalesce(sum(points), 0) from tally").fetchone()[0])
        return int(self._db.execute("select count(distinct id) from point").fetchone()[0])

    @property
    def points_in_memory(self) -> int:
        """The number of points in the cache."""
        return len(self._read)

    def ready(self, collection_name: str) -> None:
        """Bring the rounded vectors of a collection into step with its points, if they are not."""
        self._near_of(collection_name)

    def check_some(self, after: int, limit: int) -> int | None:
        """Read the points whose numbers come after one, at most ``limit``; returns the last number, None at the end.

        Raises StoreDamaged for one that is not what was written.
        """
        sql = (
            "select number, collection, id, vector, named, payload from point where number > ? order by number limit ?"
        )
        with self._damage_named():
            rows = self._db.execute(sql, (after, limit)).fetchall()
            for _, name, *row in rows:
                if name in self.collections:
                    self._points(name).point(row)
        return int(rows[-1][0]) if rows else None

    def check_near(self) -> None:
        """Write rounded vectors again that are not what was written."""
        for name, near in list(self._near.items()):
            try:
                damaged = near.damaged()
            except StoreDamaged:
                damaged = 1
            if damaged:
                self._near.pop(name).delete()
                self._near_of(name)

    def close(self, **kwargs: Any) -> None:
        """Writes the log into the file, so that what was deleted is in neither."""
        if self.closed:
            return
        super().close(**kwargs)
        with self._at_end():
            for name, near in self._near.items():
                if name not in self._late:
                    self._db.execute("insert or replace into step values (?, ?)", (name, near.stamp))
        self._db.close()
        self._unlock()

    @contextmanager
    def together(self) -> Iterator[None]:
        """All changes of the block, or none."""
        if self._db.in_transaction:  # part of a larger one
            yield
            return
        try:
            with transaction(self._db):
                if self._stepped:
                    self._db.execute("delete from step")
                yield
            self._stepped = False
        except BaseException:
            self._deletes = False
            changed, self._changed = self._changed, {}
            self._read.clear()
            self._restore()
            self._follow(changed)  # what was dropped for the change is there again
            raise
        changed, self._changed = self._changed, {}
        self._follow(changed)
        if self._deletes:
            self._deletes = False
            # What was deleted must not be left in the write-ahead log until the store is closed.
            self._db.execute("pragma wal_checkpoint(truncate)").fetchall()

    # Points

    def _named(self, name: str) -> LocalCollection:
        """A collection without its points. Raises ValueError for an unknown one, as the local mode does."""
        return super()._get_collection(name)

    def _get_collection(self, collection_name: str) -> LocalCollection:
        """A collection with all its points, for a call that only the local mode answers."""
        named = self._named(collection_name)
        whole: Any = LocalCollection(named.config, location=None)
        whole.storage = self._points(collection_name)
        with self._damage_named():
            whole.load_vectors()
        if is_by_cosine(named.config):
            whole.vectors[UNNAMED] = unit(whole.vectors[UNNAMED])
        return whole  # type: ignore[no-any-return]

    def _points(self, name: str) -> Points:
        config = self._named(name).config

        def changed(point_id: PointId) -> None:
            self._read.pop((name, point_id), None)
            self._changed.setdefault(name, {})[point_id] = None
            if not self._db.in_transaction:
                changes, self._changed = self._changed, {}
                self._follow(changes)

        return Points(self._db, name, config, changed)

    def _points_of(self, name: str, ids: Iterable[PointId]) -> dict[PointId, _Read]:
        """Points by id, from the cache or the file."""
        wanted = list(ids)
        kept = self._read
        if len(kept) > _MAX_READ:
            kept.clear()
        if missing := [one for one in wanted if (name, one) not in kept]:
            storage = self._points(name)
            sql = f"select number, id, vector, named, payload from point where collection = ? and id in {VALUES}"
            with self._damage_named():
                for number, *row in self._db.execute(sql, (name, *listed(missing))).fetchall():
                    point = storage.point(row)
                    vector = point.vector.get(UNNAMED) if isinstance(point.vector, dict) else None
                    kept[name, _id(point.id)] = _Read(number, vector, point.payload or {})  # type: ignore[arg-type]
        return {one: read for one in wanted if (read := kept.get((name, one))) is not None}

    def _having(self, name: str, ids: Sequence[PointId]) -> list[PointId]:
        rows = self._db.execute(f"select id from point where collection = ? and id in {VALUES}", (name, *listed(ids)))
        return [row[0] for row in rows]

    # The rounded vectors

    def _nearest(
        self, name: str, asked: Floats, admitted: shapes.Filter | None, limit: int
    ) -> list[tuple[PointId, float]]:
        """At most ``limit`` points that a filter admits, best first; the newer ones of equals first."""
        near = self._near_of(name)
        fields = equalities(admitted)
        depth = limit + SPARE
        while True:
            ids = near.candidates(asked, fields or {}, depth)
            read = self._points_of(name, ids)
            if fields is None and admitted is not None:
                read = {one: p for one, p in read.items() if check_filter(admitted, p.payload, one, {UNNAMED: True})}
            if len(read) >= limit or len(ids) < depth:
                scored = [
                    (one, float(unit(p.vector) @ asked), p.number) for one, p in read.items() if p.vector is not None
                ]
                ranked = sorted(scored, key=lambda one: (-one[1], -one[2]))
                return [(point_id, score) for point_id, score, _ in ranked[:limit]]
            depth *= _DEEPER

    def _near_of(self, name: str) -> Near:
        """The rounded vectors of a collection by cosine, in step with its points."""
        if (near := self._near.get(name)) is None:
            near = self._near[name] = self._opened(name)
        if late := self._late.get(name):
            self._write_near(near, name, list(late))
            del self._late[name]
        return near

    def _opened(self, name: str) -> Near:
        near = Near(self._folder, name, size_of(self._named(name).config))
        try:
            row = self._db.execute("select stamp from step where collection = ?", (name,)).fetchone()
            if row is not None and row[0] == near.stamp:
                self._write_near(near, name, near.bare())
            else:
                sql = "select id from point where collection = ? and vector is not null"
                ids = [row[0] for row in self._db.execute(sql, (name,))]
                self._write_near(near, name, near.differences(ids))
        except BaseException:
            near.close()
            raise
        return near

    def _forget_near(self, name: str, ids: Sequence[PointId]) -> None:
        """Drop vectors that a transaction is about to replace: after a kill they are missing rather than wrong."""
        if ids and is_by_cosine(self._named(name).config):
            self._near_of(name).drop(ids)
            self._changed.setdefault(name, {}).update(dict.fromkeys(ids))

    def _follow(self, changes: Mapping[str, Mapping[PointId, None]]) -> None:
        """Bring the rounded vectors of changed points into step. The next search tries what fails again."""
        for name, ids in changes.items():
            if name in self.collections and is_by_cosine(self._named(name).config):
                self._late.setdefault(name, {}).update(ids)
                self._near_of(name)

    def _write_near(self, near: Near, name: str, ids: Sequence[PointId]) -> None:
        for start in range(0, len(ids), _PORTION):
            some = ids[start : start + _PORTION]
            near.drop(some)
            read = self._points_of(name, some)
            near.put([(one, p.payload, p.vector) for one, p in read.items() if p.vector is not None])

    def _restore(self) -> None:
        """The collections as they are in the file."""
        self.collections.clear()
        for name, text in self._db.execute("select name, config from collection order by name").fetchall():
            config = shapes.CreateCollection.model_validate_json(text)
            super().create_collection(name, vectors_config=config.vectors, sparse_vectors_config=config.sparse_vectors)

    @contextmanager
    def _damage_named(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, sqlite3.DatabaseError) as error:
            raise StoreDamaged(f"mem0's folder {self._folder} cannot be read; move it away: {error}") from error

    @contextmanager
    def _at_end(self) -> Iterator[None]:
        """Around what a closing writes: where it fails, the next opening compares. The rounded vectors are closed."""
        try:
            with transaction(self._db):
                yield
        except (sqlite3.Error, StoreDamaged):
            log.warning("mem0's points in %s are compared at the next start", self._folder, exc_info=True)
        for near in self._near.values():
            near.close()

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
        if version not in range(VERSION + 1):
            raise ValueError(f"{path} is of version {version}, and this program knows {VERSION}")
        steps = (_PLACES if version == 1 else "") + (_TALLY if version < VERSION else "")
        db.executescript(f"begin; {SCHEMA} {steps} pragma user_version = {VERSION}; commit;")
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
