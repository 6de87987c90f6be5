"""The columns of an event: how every store of ours writes an event as a row, and reads an event or a hit from one.

`_FIELDS` is the only list of them. A store has a table with `EVENT_COLUMNS` and names it when it opens its
`fusion.store.sqlite.Database`, which adds the columns that an older file does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from json import dumps, loads
from operator import attrgetter, itemgetter
from sqlite3 import Connection, Row
from typing import Any, NamedTuple

from fusion.contract import Event, Hit, Moment, Place, Query, Scope

Fields = Row | Mapping[str, Any]
"""a row of ours, by column"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(time: datetime) -> int:
    """Since 1970 UTC; before it, negative."""
    return (time - _EPOCH) // _MICROSECOND


def time_of(since_1970: int) -> datetime:
    return _EPOCH + since_1970 * _MICROSECOND


def storable(text: str) -> str:
    """``text`` with lone surrogates, which are no characters and which SQLite refuses, as question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _written_time(time: datetime | None) -> tuple[int | None]:
    return (None if time is None else microseconds(time),)


def _read_time(since_1970: int | None) -> datetime | None:
    return None if since_1970 is None else _EPOCH + since_1970 * _MICROSECOND


def _written_moment(at: Moment | None) -> tuple[object, ...]:
    return (None, None, None) if at is None else (microseconds(at.utc), at.precision, at.zone)


def _read_moment(at: int | None, precision: Any, zone: str | None) -> Moment | None:
    return None if at is None else Moment(time_of(at), precision, zone)


def _written_place(place: Place | None) -> tuple[object, ...]:
    return (None,) * 4 if place is None else (place.document, place.start, place.end, place.unit)


def _read_place(document: str | None, start: int, end: int, unit: Any) -> Place | None:
    return None if document is None else Place(document, start, end, unit)


def _written_ids(ids: tuple[str, ...]) -> tuple[str]:
    return (dumps(ids),)


def _read_ids(written: str) -> tuple[str, ...]:
    return () if written == "[]" else tuple(loads(written))


_scope = lru_cache(1024)(Scope)
"""Memories are many, whose they are is few."""


class _Field(NamedTuple):
    """A field of an event: its columns with their types, and the two ways between them where the value itself is not
    what is stored."""

    name: str
    columns: Mapping[str, str]
    write: Callable[[Any], tuple[object, ...]] | None = None
    read: Callable[..., object] | None = None


_SCOPE = {
    "tenant": "text not null",
    "user_id": "text",
    "agent_id": "text",
    "run_id": "text",
    "session_id": "text",
    "project": "text",
    "audience": "text not null",
}
_MOMENT = {"at": "integer", "at_precision": "text", "at_zone": "text"}
_PLACE = {"document": "text", "place_start": "integer", "place_end": "integer", "place_unit": "text"}

# In the order of `Event`. Times are microseconds since 1970 UTC, so that they compare exactly. What is added is added
# to files that have rows already: its type allows null or has a default.
_FIELDS = (
    _Field("event_id", {"event_id": "text not null unique"}),
    _Field("text", {"text": "text not null"}),
    _Field("recorded_at", {"recorded_at": "integer not null"}, _written_time, _read_time),
    _Field("scope", _SCOPE, attrgetter(*_SCOPE), _scope),
    _Field("kind", {"kind": "text not null"}),
    _Field("raw_kind", {"raw_kind": "text"}),
    _Field("speaker", {"speaker": "text"}),
    _Field("at", _MOMENT, _written_moment, _read_moment),
    _Field("place", _PLACE, _written_place, _read_place),
    _Field("source", {"source": "text"}),
    _Field("revision", {"revision": "text not null"}),
    _Field("trust", {"trust": "text not null"}),
    _Field("origin", {"origin": "text not null"}),
    _Field("valid_from", {"valid_from": "integer"}, _written_time, _read_time),
    _Field("valid_to", {"valid_to": "integer"}, _written_time, _read_time),
    _Field("supersedes", {"supersedes": "text"}),
    _Field("derived_from", {"derived_from": "text not null"}, _written_ids, _read_ids),
)

_COLUMNS = {name: kind for field in _FIELDS for name, kind in field.columns.items()}
EVENT_NAMES = tuple(_COLUMNS)
EVENT_COLUMNS = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
"""every field of an Event but ``stated``, which only the journal keeps"""
INSERT_EVENT = f"insert into memory ({', '.join(_COLUMNS)}) values ({', '.join('?' * len(_COLUMNS))})"


def add_missing_columns(db: Connection, table: str) -> None:
    """Adds the columns to ``table`` that events have gained since it was made."""
    there = {row[1] for row in db.execute(f"pragma table_info({table})")}
    for name in EVENT_NAMES:
        if name not in there:
            db.execute(f"alter table {table} add column {name} {_COLUMNS[name]}")


def event_values(event: Event) -> list[Any]:
    """The values of ``EVENT_NAMES``, with texts as they are: SQLite takes `event_row`."""
    values: list[Any] = []
    for name, _, write, _ in _FIELDS:
        value = getattr(event, name)
        values += (value,) if write is None else write(value)
    return values


def event_row(event: Event) -> tuple[object, ...]:
    """The values of ``EVENT_COLUMNS``."""
    return tuple([storable(value) if isinstance(value, str) else value for value in event_values(event)])


def event_of(row: Fields) -> Event:
    """The event of a row."""
    return event_in(_columns_of(row))


def event_in(columns: Sequence[Any]) -> Event:
    """The event whose columns these are, in the order of ``EVENT_NAMES``: for a caller that reads a hundred."""
    return Event(*_values(columns))


def _values(columns: Sequence[Any]) -> list[Any]:
    """The fields of an event in their order, without ``stated``."""
    values = list(_FIRST(columns))
    for number, read, part in _READ:
        values[number] = read(*columns[part])
    return values


_columns_of = itemgetter(*EVENT_NAMES)
_STARTS = [EVENT_NAMES.index(next(iter(field.columns))) for field in _FIELDS]
_FIRST = itemgetter(*_STARTS)
_READ = [
    (number, field.read, slice(start, start + len(field.columns)))
    for number, (field, start) in enumerate(zip(_FIELDS, _STARTS, strict=True))
    if field.read is not None
]
_scope_columns = itemgetter(*_SCOPE)


def scope_of(row: Fields) -> Scope:
    return _scope(*_scope_columns(row))


Kept = tuple[Any, ...]
"""what a hit has of its event, whatever is asked"""


def kept_in(columns: Sequence[Any]) -> Kept:
    """What the hit of an event has whatever is asked, of the columns in the order of ``EVENT_NAMES``. It never changes,
    so that a caller may keep it."""
    kept: Kept = _KEPT(_values(columns))
    return kept


def hit_in(kept: Kept, score: float | None = None, path: tuple[str, ...] = (), graph_score: float | None = None) -> Hit:
    """The hit that echoes an event; its native id is the event's id."""
    # By place, which takes a sixth of the time that `replace` takes, a hundred times a question.
    values: tuple[Any, ...] = (*kept[:_SCORE_AT], score, *kept[_SCORE_AT:], path, graph_score)
    return Hit(*values)


def hit_of(row: Fields, score: float | None = None) -> Hit:
    """The hit that echoes the event of a row."""
    return hit_in(kept_in(_columns_of(row)), score)


_HIT_NAMES = [field.name for field in fields(Hit)]
_SCORE_AT = _HIT_NAMES.index("score")
_EVENT_FIELDS = [field.name for field in _FIELDS]
_KEPT = itemgetter(
    *(
        _EVENT_FIELDS.index("event_id" if name == "native_id" else name)
        for name in _HIT_NAMES[: _HIT_NAMES.index("path")]
        if name != "score"
    )
)


def visible(query: Query) -> tuple[str, dict[str, object]]:
    """The condition on a row ``m`` of ``memory`` under which ``query`` may see it, and its parameters.

    Its scope, never what is quarantined, and time: without ``as_of``, what is valid now and not superseded; with it,
    what had begun (valid_from, else when it happened, else when it was recorded), had not ended and was not yet
    superseded then; with ``known_at``, as far as it was recorded by then. A memory is superseded only by its owner's.
    """
    values: dict[str, object] = {"tenant": query.scope.tenant}
    terms = ["m.tenant = :tenant", "m.trust <> 'quarantined'"]
    for dimension, value in query.scope.named().items():
        terms.append(f"m.{dimension} = :{dimension}")
        values[dimension] = storable(value)
    if query.scope.audience != "private":
        terms.append("m.audience = 'group'")
    newer = ["s.supersedes = m.event_id", "s.tenant = m.tenant", "s.user_id is m.user_id"]
    if query.as_of is None:
        values["now"] = microseconds(query.now)
        terms.append("(m.valid_to is null or m.valid_to > :now)")
    else:
        values["as_of"] = microseconds(query.as_of)
        terms.append("(m.valid_to is null or m.valid_to > :as_of)")
        terms.append("coalesce(m.valid_from, m.at, m.recorded_at) <= :as_of")
        newer.append("coalesce(s.valid_from, s.at, s.recorded_at) <= :as_of")
    if query.known_at is not None:
        values["known_at"] = microseconds(query.known_at)
        terms.append("m.recorded_at <= :known_at")
        newer.append("s.recorded_at <= :known_at")
    terms.append(f"not exists (select 1 from memory s where {' and '.join(newer)})")
    return " and ".join(terms), values
