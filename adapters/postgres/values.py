"""Values in the forms that PostgreSQL takes: texts without NUL, vectors of 16 bit, rows of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.adapt import AdaptersMap, Buffer, Dumper
from psycopg.pq import Format

if TYPE_CHECKING:
    from fusion.contract import Floats

_ESCAPE, _ESCAPED_ESCAPE, _ESCAPED_NUL = "\x1b", "\x1b1", "\x1b0"


def escaped(text: str) -> str:
    """A text without NUL, which PostgreSQL does not store. Two texts are never escaped to the same one."""
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, _ESCAPED_ESCAPE).replace("\0", _ESCAPED_NUL)


def unescaped(text: str) -> str:
    """The text that `escaped` was given."""
    if _ESCAPE not in text:
        return text
    return text.replace(_ESCAPED_NUL, "\0").replace(_ESCAPED_ESCAPE, _ESCAPE)


def written(values: Sequence[Any]) -> list[Any]:
    """Values with their texts escaped, and then whether any had to be."""
    made = [escaped(value) if isinstance(value, str) else value for value in values]
    return [*made, any(after is not before for after, before in zip(made, values, strict=True))]


def stored(row: Sequence[Any]) -> Sequence[Any]:
    """The values that `written` was given, from whether any was escaped and then the values."""
    values = row[1:]
    return [unescaped(value) if isinstance(value, str) else value for value in values] if row[0] else values


class HalfVector:
    """A vector at unit length in pgvector's binary form of ``halfvec``."""

    __slots__ = ("data",)

    def __init__(self, vector: Floats) -> None:
        import numpy as np

        length = float(np.linalg.norm(vector)) or 1.0
        header = len(vector).to_bytes(2, "big") + b"\0\0"
        self.data = header + (vector / length).astype(">f2").tobytes()


class _HalfVectorDumper(Dumper):
    format = Format.BINARY
    oid = 0  # the statement casts it: the number of the type differs from database to database

    def dump(self, obj: HalfVector) -> Buffer:
        return obj.data


def adapters() -> AdaptersMap:
    """The driver's conversions and that of `HalfVector`."""
    found = AdaptersMap(psycopg.adapters)
    found.register_dumper(HalfVector, _HalfVectorDumper)
    return found


def lexeme(term: str) -> str:
    """A term in quotes, as part of a tsquery."""
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"
