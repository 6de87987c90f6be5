"""The nearest points of a collection, without all of its vectors and payloads in memory.

`adapters.index.vectors` has each vector once more, rounded to 8 bits a number, in a memory-mapped file. A search finds
there the best candidates in a scope; the caller compares these by the vectors as they were stored. The files are
derived: `Near.differences` says which points to write again, and they may be deleted at any time.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from qdrant_client import models as shapes

from adapters.index.vectors import Record, Vectors
from fusion.contract import Scope
from fusion.errors import StoreDamaged
from fusion.lib.words import content_hash

if TYPE_CHECKING:
    from adapters.index.matrix import Floats

log = logging.getLogger(__name__)

UNNAMED = ""
"""Qdrant's name of a collection's one vector"""
SCOPED = ("tenant", "user_id", "agent_id", "run_id", "session_id", "project", "audience")
"""the keys of a payload by which a filter narrows the search, instead of being checked on each payload"""
_ANALYSIS = ""
_HASH = "stored"
"""of every entry: a vector that is replaced is dropped first"""

PointId = int | str


def is_by_cosine(config: shapes.CreateCollection) -> bool:
    """Whether a collection has one vector a point, compared by cosine."""
    params = config.vectors
    if not isinstance(params, shapes.VectorParams):
        return False
    return params.multivector_config is None and params.distance == shapes.Distance.COSINE


def size_of(config: shapes.CreateCollection) -> int:
    """The dimensions of a collection's one vector. Raises TypeError for a collection of several."""
    if not isinstance(config.vectors, shapes.VectorParams):
        raise TypeError("the collection has several vectors a point")
    return config.vectors.size


def is_plain(*, query: object = None, query_filter: object = None, limit: int = 0, **more: object) -> bool:
    """Whether a question asks for the ids nearest to one vector, with any filter, and for no ``more``."""
    return (
        limit > 0
        and isinstance(query, shapes.NearestQuery)
        and query.mmr is None
        and isinstance(query.nearest, np.ndarray)
        and query.nearest.ndim == 1
        and more.pop("with_payload", True) is False
        and not any(more.values())
    )


def unit(vectors: Floats) -> Floats:
    """Vectors at unit length; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), np.float32)


def equalities(admitted: shapes.Filter | None) -> Mapping[str, str] | None:
    """By key, the values that a filter asks for, if that is all that it asks and the keys are among `SCOPED`."""
    if admitted is None:
        return {}
    if admitted.should or admitted.must_not or admitted.min_should:
        return None
    wanted: dict[str, str] = {}
    for one in [admitted.must] if isinstance(admitted.must, shapes.FieldCondition) else admitted.must or []:
        if not isinstance(one, shapes.FieldCondition) or one.key not in SCOPED or one.key in wanted:
            return None
        if not isinstance(one.match, shapes.MatchValue) or not isinstance(one.match.value, str):
            return None
        if any(getattr(one, other) is not None for other in shapes.FieldCondition.model_fields if other not in _EQUAL):
            return None
        wanted[one.key] = one.match.value
    return wanted


_EQUAL = ("key", "match")


class Near:
    """The rounded vectors of the points of one collection. Raises StoreFull."""

    def __init__(self, folder: Path, collection: str, size: int) -> None:
        self._identity = collection
        path = folder / f"near-{content_hash(collection)[:16]}" / "vectors.sqlite"
        if any(one.is_symlink() for one in (path.parent, path)):
            raise ValueError(f"{path} is a link")
        try:
            self._vectors = Vectors(path, _ANALYSIS, collection, size)
        except StoreDamaged as error:
            log.warning("the rounded vectors in %s are written again: %s", path.parent, error)
            shutil.rmtree(path.parent)
            self._vectors = Vectors(path, _ANALYSIS, collection, size)
        self._folder = path.parent
        self._tags: dict[tuple[tuple[str, str], ...], tuple[int, list[int]]] = {}

    @property
    def stamp(self) -> str:
        """A token that changes with every change."""
        return self._vectors.stamp

    def bare(self) -> list[PointId]:
        """The points whose vectors were lost, to be written again."""
        return [_id(key) for key, _ in self._vectors.bare()]

    def differences(self, ids: Sequence[PointId]) -> list[PointId]:
        """The points to write again or to drop, if ``ids`` are those of all points with a vector."""
        held, bare = self._vectors.keys(), set(self.bare())
        missing = [one for one in ids if str(one) not in held or one in bare]
        return [*missing, *map(_id, held.difference(map(str, ids)))]

    def put(self, points: Sequence[tuple[PointId, Mapping[str, Any], Floats]]) -> None:
        """Write points that are not there, with their payloads and vectors."""
        if points:
            units = unit(np.stack([vector for *_, vector in points]))
            tags = [self._vectors.tag(_scope(payload)) for _, payload, _ in points]
            ids = [str(one) for one, *_ in points]
            self._vectors.change({one: Record(tag, _HASH) for one, tag in zip(ids, tags, strict=True)}, ())
            self._vectors.add([(one, _HASH, [row]) for one, row in zip(ids, units, strict=True)], self._identity)

    def drop(self, ids: Sequence[PointId]) -> None:
        """Drop points; unknown ones are ignored."""
        if ids:
            self._vectors.change({}, [str(one) for one in ids])

    def candidates(self, query: Floats, wanted: Mapping[str, str], limit: int) -> list[PointId]:
        """The ``limit`` points nearest to a unit vector, best first, among those whose payload has these values."""
        found = self._vectors.search(query, self._admitted(wanted), limit, self._identity)
        return [_id(key) for key, _ in found or ()]

    def damaged(self) -> int:
        """The number of vectors that are not what was written. Raises StoreDamaged for a damaged record."""
        self._vectors.check()
        return self._vectors.damaged_rows()

    def close(self) -> None:
        self._vectors.close()

    def delete(self) -> None:
        """Close it and delete its files."""
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _admitted(self, wanted: Mapping[str, str]) -> list[int] | None:
        """The tags of the scopes with these values; None for all."""
        asked = tuple(sorted(wanted.items()))
        scopes = self._vectors.scopes
        seen, tags = self._tags.get(asked, (0, []))
        if seen < len(scopes):
            fields = [(SCOPED.index(key), value) for key, value in asked]
            more = [(tag, _values(scope)) for tag, scope in scopes[seen:]]
            tags = tags + [tag for tag, values in more if all(values[field] == value for field, value in fields)]
            if len(self._tags) >= _REMEMBERED:
                self._tags.clear()
            self._tags[asked] = len(scopes), tags
        return None if len(tags) == len(scopes) else tags


_REMEMBERED = 256
"""filters whose tags are kept"""


def _scope(payload: Mapping[str, Any]) -> Scope:
    """The values of a payload that a filter may ask for, as they are written there. One that mem0's user stored has no
    tenant and no audience: it has the defaults, as in `adapters.qdrant.payload.hit_of`."""
    return Scope(**{key: value for key in SCOPED if isinstance(value := payload.get(key), str)})  # type: ignore[arg-type]


def _values(scope: Scope) -> tuple[str | None, ...]:
    return tuple(getattr(scope, key) for key in SCOPED)


def _id(key: str) -> PointId:
    return int(key) if key.isdigit() else key
