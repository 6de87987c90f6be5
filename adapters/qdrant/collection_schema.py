"""The schema of a collection, and its validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fusion.errors import InvalidAnswer


@dataclass(frozen=True, slots=True)
class Dense:
    """A vector of a collection. ``dimensions`` and ``distance`` as it was made."""

    dimensions: int
    distance: str


@dataclass(frozen=True, slots=True)
class Shape:
    """Vectors by their names ("" is the one without); of each sparse one, whether Qdrant weighs its terms by idf."""

    dense: Mapping[str, Dense]
    sparse: Mapping[str, bool]

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> Shape:
        """Read Qdrant's reply to GET /collections/{name}. Raises InvalidAnswer for another form."""
        try:
            params = info["config"]["params"]
            vectors = params.get("vectors") or {}
            if "size" in vectors:
                vectors = {"": vectors}
            sparse = params.get("sparse_vectors") or {}
            return cls(
                {name: Dense(int(one["size"]), str(one["distance"])) for name, one in vectors.items()},
                {name: (one or {}).get("modifier") == "idf" for name, one in sparse.items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InvalidAnswer("the collection is described in another way than Qdrant's") from None

    def fault(self, vector: str | None, dimensions: int, distance: str, sparse: str) -> str | None:
        """The difference from the expected schema, with the fix. ``vector`` None and ``sparse`` "" are not checked."""
        if vector is not None:
            if (dense := self.dense.get(vector)) is None:
                return f"has no vector {vector!r}, only {_names(self.dense)}. Fix: vector = one of them"
            if dense.dimensions != dimensions:
                return (
                    f"has vectors of {dense.dimensions:,} dimensions, and [embedder] makes {dimensions:,}. "
                    "Fix: configure the model in [embedder] that the collection was made with"
                )
            if dense.distance != distance:
                return (
                    f"compares by {dense.distance}, not by {distance}. "
                    f'Fix: distance = "{dense.distance}", if its vectors were made for that'
                )
        if sparse and sparse not in self.sparse:
            return f"has no sparse vector {sparse!r}, only {_names(self.sparse)}. Fix: sparse = one of them, or empty"
        return None


def _names(vectors: Mapping[str, object]) -> str:
    return ", ".join(repr(name) for name in vectors) or "none"
