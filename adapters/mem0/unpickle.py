"""Brings a folder of qdrant-client's local mode over into `adapters.mem0.local`, once.

Its points are pickles. They are read by an unpickler that makes two of qdrant-client's data classes and plain values,
and nothing else; a folder in which a pickle asks for more is set aside unread, under a name that says so, and the
journal fills the store again.

A rename makes the complete new file visible before the old folder is removed. After an interruption, the next start
continues.
"""

from __future__ import annotations

import io
import json
import logging
import os
import pickle
import pickletools
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from qdrant_client import models as shapes
from qdrant_client.local.utils import normalize_point_id

from adapters.mem0.local import FILE, Points, opened
from fusion.store.sqlite import transaction

log = logging.getLogger(__name__)

OLD = "qdrant"
REFUSED = "qdrant.refused"
_NEW = f"{FILE}.new"
_CLASSES = {
    (module, name): getattr(shapes, name)
    for module in ("qdrant_client.http.models.models", "qdrant_client.http.models")
    for name in ("PointStruct", "SparseVector")
}
_MAX_DEPTH = 64
_MAX_VALUES = 1_000_000
"""maximum values in one point: references to one list can expand to more values than there are atoms"""


class Refused(ValueError):
    """Something in an old folder is not what qdrant-client writes there."""


def brought_over(folder: Path) -> None:
    """Makes ``folder/points.sqlite`` of ``folder/qdrant``, where that is there and the file is not.

    Raises OSError and sqlite3.Error where it cannot be written, with the old folder as it was.
    """
    old, new = folder / OLD, folder / FILE
    if not os.path.lexists(old):
        return
    if not new.exists():
        for part in ("", "-wal", "-shm", "-journal"):
            (folder / (_NEW + part)).unlink(missing_ok=True)
        try:
            _copy(old, folder / _NEW)
        except Refused as why:
            aside = _free(folder)
            old.rename(aside)
            log.error(
                "mem0's old points are not read, because %s: %s is set aside as %s, and the journal fills mem0 again",
                why,
                old,
                aside.name,
            )
            return
        (folder / _NEW).rename(new)
        _sync(folder)
    if old.is_symlink():
        old.unlink()
    else:
        shutil.rmtree(old)  # which follows no links


def _copy(old: Path, target: Path) -> None:
    """All collections of the old folder, in a new file, which is on the disk when this returns."""
    _require(old, stat.S_ISDIR)
    meta = old / "meta.json"
    if os.path.lexists(meta):
        _require(meta, stat.S_ISREG)
        collections = _collections(meta.read_bytes())
    else:
        collections = {}
    with closing(opened(target)) as db, transaction(db):
        for name, config in collections.items():
            values = (name, config.model_dump_json())
            db.execute("insert into collection (name, config) values (?, ?)", values)
            points = Points(db, name, config)
            try:
                for point in _points(old / "collection" / name):
                    points.persist(point)
                for _ in points.load():
                    pass  # read back, so that what would not open later is found now
            except (ValueError, TypeError, OverflowError) as error:
                raise error if isinstance(error, Refused) else Refused(str(error)) from None


def _collections(text: bytes) -> dict[str, shapes.CreateCollection]:
    try:
        found = json.loads(text)["collections"]
        for config in found.values():
            config.pop("init_from", None)  # as qdrant-client reads its own older files
        known = {str(name): shapes.CreateCollection.model_validate(config) for name, config in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"meta.json is not Qdrant's ({type(error).__name__})") from None
    for name in known:
        if not name or name in (".", "..") or any(character in name for character in "/\\\0"):
            raise Refused(f"meta.json names a collection {name!r}, which is no name of a folder")
    return known


def _points(folder: Path) -> Iterator[shapes.PointStruct]:
    """The points of a collection as qdrant-client loads them: the last written first, each id once."""
    for path in (folder.parent, folder):
        _require(path, stat.S_ISDIR)
    file = folder / "storage.sqlite"
    for part in ("-wal", "-shm", "-journal"):
        if os.path.lexists(f"{file}{part}"):
            _require(Path(f"{file}{part}"), stat.S_ISREG)
    _require(file, stat.S_ISREG)
    seen = set()
    with closing(sqlite3.connect(file)) as db:
        try:
            values = db.execute("select point from points order by rowid desc").fetchall()
        except sqlite3.DatabaseError as error:
            raise Refused(f"{file} is damaged ({error})") from None
        for (value,) in values:
            point = point_of(value)
            if point.id not in seen:
                seen.add(point.id)
                yield point


def point_of(value: object) -> shapes.PointStruct:
    """A pickled point, checked. Raises Refused for a pickle that asks for anything but a point."""
    if not isinstance(value, bytes):
        raise Refused("a point is no pickle")
    try:
        _require_small_memo(value)
        found = _Restricted(io.BytesIO(value)).load()
    except Refused:
        raise
    except Exception as error:  # noqa: BLE001 — a pickle may raise any exception
        raise Refused(f"a point's pickle is damaged ({type(error).__name__})") from None
    if type(found) is not shapes.PointStruct:
        raise Refused("a pickle is no point")
    try:
        plain = {name: _plain(getattr(found, name, None), [_MAX_VALUES]) for name in ("id", "vector", "payload")}
        point = shapes.PointStruct.model_validate(plain)
    except ValueError as error:
        raise error if isinstance(error, Refused) else Refused("a point is damaged") from None
    point.id = normalize_point_id(point.id)
    return point


_MEMO = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
"""the opcodes that number what may be referred to later; the unpickler makes room for as many as the number says"""


def _require_small_memo(value: bytes) -> None:
    """Raises Refused for a number no honest pickle of that length has: a few bytes could take gigabytes of memory."""
    for opcode, argument, _ in pickletools.genops(value):
        if opcode.name in _MEMO and isinstance(argument, int) and argument > len(value):
            raise Refused("a pickle numbers more objects than it has bytes")


class _Restricted(pickle.Unpickler):
    """Makes the classes of a point and plain values. Every other name, and so every function, is refused."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _CLASSES[module, name]
        except KeyError:
            raise Refused(f"a pickle asks for {module}.{name}"[:200]) from None

    def persistent_load(self, pid: object) -> Any:
        raise Refused("a pickle asks for an object outside")


def _plain(value: Any, left: list[int], depth: int = 0) -> Any:
    """A copy of JSON-like values, with nothing else in it; ``left`` is how many more there may be."""
    left[0] -= 1
    if left[0] < 0 or depth > _MAX_DEPTH:
        raise Refused("a point is too large")
    if type(value) is shapes.SparseVector:
        value = {"indices": getattr(value, "indices", None), "values": getattr(value, "values", None)}
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple):
        return [_plain(one, left, depth + 1) for one in value]
    if type(value) is dict and all(type(key) is str for key in value):
        return {key: _plain(one, left, depth + 1) for key, one in value.items()}
    raise Refused(f"a point has a {type(value).__name__}")


def _require(path: Path, kind: Any) -> None:
    """Raises Refused unless ``path`` itself, and no link in its place, is of this kind."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        raise Refused(f"{path.name} is missing") from None
    if not kind(mode):
        raise Refused(f"{path.name} is a link or of another kind than Qdrant makes")


def refused_in(folder: Path) -> list[str]:
    """The names of the old folders that were not read and are kept aside."""
    return sorted(path.name for path in folder.glob(f"{REFUSED}*"))


def _free(folder: Path) -> Path:
    names = (folder / (REFUSED + (f".{number}" if number else "")) for number in range(10_000))
    return next(path for path in names if not os.path.lexists(path))


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
