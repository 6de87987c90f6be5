"""The columns of an event: conversion between events or hits and the rows of SQLite stores.

`_FIELDS` is the only list of the columns. A store has a table with `EVENT_COLUMNS` and names it when it opens its
`fusion.store.sqlite.Database`, which adds the columns that an older file lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from json import dumps, loads
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from fusion.contract import NO_USER, Event, Hit, Moment, Place, Query, Scope, Where
from fusion.store.database import Connection, Row

Fields = Row | Mapping[str, Any]
"""a row, by column name"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(time: datetime) -> int:
    """Microseconds since 1970 UTC; negative before it."""
    return (time - _EPOCH) // _MICROSECOND


def time_of(since_1970: int) -> datetime:
    """The time of microseconds since 1970 UTC."""
    return _EPOCH + since_1970 * _MICROSECOND


def storable(text: str) -> str:
    """``text`` with lone surrogates, which SQLite refuses, replaced by question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _written_time(time: datetime | None) -> tuple[int | None]:
    return (None if time is None else microseconds(time),)


def _read_time(since_1970: int | None) -> datetime | None:
    return None if since_1970 is None else _EPOCH + since_1970 * _MICROSECOND


def _written_moment(at: Moment | None) -> tuple[object, ...]:
    return (None,) * 4 if at is None else (microseconds(at.utc), at.precision, at.zone, *_written_time(at.until))


def _read_moment(at: int | None, precision: Any, zone: str | None, until: int | None) -> Moment | None:
    return None if at is None else Moment(time_of(at), precision, zone, _read_time(until))


def _written_place(place: Place | None) -> tuple[object, ...]:
    return (None,) * 4 if place is None else (place.document, place.start, place.end, place.unit)


def _read_place(document: str | None, start: int, end: int, unit: Any) -> Place | None:
    return None if document is None else Place(document, start, end, unit)


def _written_ids(ids: tuple[str, ...]) -> tuple[str]:
    return (dumps(ids),)


def _read_ids(written: str) -> tuple[str, ...]:
    return () if written == "[]" else tuple(loads(written))


_scope = lru_cache(1024)(Scope)
"""cached: there are many events of few scopes"""


class _Field(NamedTuple):
    """A field of an event: its columns with their types, and the conversions if the value is not stored as it is."""

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
_MOMENT = {"at": "integer", "at_precision": "text", "at_zone": "text", "at_until": "integer"}
_PLACE = {"document": "text", "place_start": "integer", "place_end": "integer", "place_unit": "text"}

# In the order of `Event`. Times are microseconds since 1970 UTC, so that they compare exactly. A new column is added to
# existing rows, so its type must allow null or have a default.
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
"""every field of an Event but ``stated``, which only the journal stores"""
INSERT_EVENT = f"insert into memory ({', '.join(_COLUMNS)}) values ({', '.join('?' * len(_COLUMNS))})"


def add_missing_columns(db: Connection, table: str) -> None:
    """Add the event columns that ``table`` lacks."""
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
    """The event of columns in the order of ``EVENT_NAMES``; faster than `event_of` for many rows."""
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
"""the fields of a hit that do not depend on the query"""


def kept_in(columns: Sequence[Any]) -> Kept:
    """The fields of an event's hit that do not depend on the query, from columns in the order of ``EVENT_NAMES``.

    Immutable, so a caller may cache them.
    """
    kept: Kept = _KEPT(_values(columns))
    return kept


def hit_in(kept: Kept, score: float | None = None, path: tuple[str, ...] = (), graph_score: float | None = None) -> Hit:
    """The hit of an event, whose native id is the event id."""
    # Positional arguments take a sixth of the time of `replace`, a hundred times per question.
    values: tuple[Any, ...] = (*kept[:_SCORE_AT], score, *kept[_SCORE_AT:], path, graph_score)
    return Hit(*values)


def hit_of(row: Fields, score: float | None = None) -> Hit:
    """The hit of a row's event."""
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


def admission(scope: Scope, mark: str = ":") -> tuple[list[str], dict[str, object]]:
    """The conditions on a memory ``m`` under which ``scope`` admits it, valid in SQL and in Cypher, and their values.

    ``mark`` begins the name of a parameter.
    """
    named: dict[str, str] = {"tenant": scope.tenant} | {str(name): value for name, value in scope.named().items()}
    terms = [f"m.{name} = {mark}{name}" if value != NO_USER else f"m.{name} IS NULL" for name, value in named.items()]
    if scope.audience != "private":
        terms.append("m.audience = 'group'")
    return terms, {name: storable(value) for name, value in named.items() if value != NO_USER}


CONTAINS = "instr(lower({}), {})"
"""SQL for a text that contains another in small letters; the case of letters beyond ASCII is not compared"""


def fits(where: Where, mark: str = ":", contains: str = CONTAINS) -> tuple[list[str], dict[str, object]]:
    """Conditions that a memory ``m`` meets if it fits a filter by kind, time, folder and speaker; their values.

    Valid in SQL, and in Cypher with its own ``contains``. They are not sufficient: `Where.admits` decides. A row has no
    properties, and of tags only those in its text, so neither is compared.
    """
    terms: list[str] = []
    values: dict[str, object] = {}

    def one_of(name: str, condition: str, among: Sequence[object]) -> None:
        values.update({f"{name}{n}": value for n, value in enumerate(among)})
        if among:
            terms.append(f"({' OR '.join(condition.format(f'{mark}{name}{n}') for n in range(len(among)))})")

    def within(name: str, column: str, among: Sequence[str]) -> None:
        if among:
            terms.append(f"m.{column} IS NOT NULL")
        if all(text.isascii() for text in among):
            one_of(name, contains.format(f"m.{column}", "{}"), [text.lower() for text in among])

    one_of("kind", "m.kind = {}", where.kind)
    one_of("after", "coalesce(m.at, m.recorded_at) >= {}", [] if where.after is None else [microseconds(where.after)])
    one_of("before", "coalesce(m.at, m.recorded_at) < {}", [] if where.before is None else [microseconds(where.before)])
    within("folder", "document", [f"{name.strip('/')}/" for name in where.folder])
    within("speaker", "speaker", where.speaker)
    return terms, values


def scope_terms(scope: Scope) -> tuple[list[str], list[object]]:
    """The conditions of a query's tenant and named dimensions on a row of events, and their values."""
    terms, values = ["tenant = ?"], list[object]([scope.tenant])
    for dimension, value in scope.named().items():
        if value == NO_USER:
            terms.append(f"{dimension} is null")
        else:
            terms.append(f"{dimension} = ?")
            values.append(storable(value))
    return terms, values


def visible(query: Query) -> tuple[str, dict[str, object]]:
    """The SQL condition on a row ``m`` of ``memory`` under which ``query`` may see it, and its parameters.

    It checks scope, trust (never quarantined), the filter (`fits`) and time. Without ``as_of`` a memory must be valid
    now and not superseded. With it, it must have begun (valid_from, else when it happened, else when it was recorded),
    not ended, and not yet been superseded then. With ``known_at`` only what was recorded by then counts. A memory is
    superseded only by one of the same owner.
    """
    terms, values = admission(query.scope)
    fitting, wanted = fits(query.where)
    terms += ["m.trust <> 'quarantined'", *fitting]
    values |= wanted
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
