"""The vectors of observations, each with the identity of its model: vectors of two models are never compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fusion.journal.observations import Wanted, text_of
from fusion.lib.words import content_hash
from fusion.store.database import Connection, Row, replacing

MAX_COMPARED = 20_000
"""vectors that one search compares, those of the newest observations"""

_PUT = replacing("observation_vector", "seq", "model, text_hash, vector")


class Stored(NamedTuple):
    """The vector of an observation, as bytes of 32-bit numbers."""

    seq: int
    vector: bytes


def without_vector(db: Connection, wanted: Wanted, model: str, limit: int) -> list[Row]:
    """Up to ``limit`` observations that have no vector of this model, newest first."""
    condition, values = wanted.terms()
    return db.execute(
        f"select * from observation where {condition} and not exists (select 1 from observation_vector v "
        "where v.seq = observation.seq and v.model = ?) order by ts desc, seq desc limit ?",
        (*values, model, limit),
    ).fetchall()


def count_without(db: Connection, wanted: Wanted, model: str) -> int:
    """How many observations have no vector of this model."""
    condition, values = wanted.terms()
    (count,) = db.execute(
        f"select count(*) from observation where {condition} and not exists (select 1 from observation_vector v "
        "where v.seq = observation.seq and v.model = ?)",
        (*values, model),
    ).fetchone()
    return int(count)


def put(db: Connection, model: str, rows: Sequence[Row], vectors: Sequence[bytes]) -> int:
    """Store vectors of these rows, in place of those of another model; how many.

    A row that was forgotten or changed since it was read gets none.
    """
    stored = 0
    for row, vector in zip(rows, vectors, strict=True):
        now = db.execute("select * from observation where seq = ?", (row["seq"],)).fetchone()
        if now is None or text_of(now) != text_of(row):
            continue
        digest = content_hash(text_of(row))
        db.execute(_PUT, (row["seq"], model, digest, vector))
        stored += 1
    return stored


def of(db: Connection, wanted: Wanted, model: str) -> list[Stored]:
    """The vectors of this model, of the newest observations."""
    condition, values = wanted.terms()
    rows = db.execute(
        "select v.seq, v.vector from observation join observation_vector v using (seq) "
        f"where {condition} and v.model = ? order by ts desc, seq desc limit ?",
        (*values, model, MAX_COMPARED),
    )
    return [Stored(row["seq"], row["vector"]) for row in rows]


def drop(db: Connection, seqs: Sequence[int]) -> None:
    """Delete the vectors of observations."""
    db.executemany("delete from observation_vector where seq = ?", [(seq,) for seq in seqs])
