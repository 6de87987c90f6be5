"""The columns of an event: how every store of ours writes an event as a row, and reads an event or a hit from one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from json import dumps, loads
from operator import itemgetter
from sqlite3 import Row
from typing import Any

from fusion.contract import Event, Hit, Moment, Place, Query, Scope

Fields = Row | Mapping[str, Any]
"""a row of ours, by column"""

_COLUMNS = {
    "event_id": "text not null unique",
    "text": "text not null",
    "recorded_at": "integer not null",
    "tenant": "text not null",
    "user_id": "text",
    "agent_id": "text",
    "run_id": "text",
    "session_id": "text",
    "project": "text",
    "audience": "text not null",
    "kind": "text not null",
    "raw_kind": "text",
    "speaker": "text",
    "at": "integer",
    "at_precision": "text",
    "at_zone": "text",
    "document": "text",
    "place_start": "integer",
    "place_end": "integer",
    "place_unit": "text",
    "source": "text",
    "revision": "text not null",
    "trust": "text not null",
    "origin": "text not null",
    "valid_from": "integer",
    "valid_to": "integer",
    "supersedes": "text",
    "derived_from": "text not null",
}

EVENT_COLUMNS = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
"""every field of an Event; times are microseconds since 1970 UTC, so that they compare exactly"""

INSERT_EVENT = f"insert into memory ({', '.join(_COLUMNS)}) values ({', '.join('?' * len(_COLUMNS))})"
EVENT_NAMES = tuple(_COLUMNS)

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


def event_row(event: Event) -> tuple[object, ...]:
    """The values of ``EVENT_COLUMNS``."""
    scope, at, place = event.scope, event.at, event.place
    values = (
        event.event_id,
        event.text,
        microseconds(event.recorded_at),
        scope.tenant,
        scope.user_id,
        scope.agent_id,
        scope.run_id,
        scope.session_id,
        scope.project,
        scope.audience,
        event.kind,
        event.raw_kind,
        event.speaker,
        at and microseconds(at.utc),
        at and at.precision,
        at and at.zone,
        place and place.document,
        place and place.start,
        place and place.end,
        place and place.unit,
        event.source,
        event.revision,
        event.trust,
        event.origin,
        event.valid_from and microseconds(event.valid_from),
        event.valid_to and microseconds(event.valid_to),
        event.supersedes,
        dumps(event.derived_from),
    )
    return tuple(storable(value) if isinstance(value, str) else value for value in values)


_scope = lru_cache(1024)(Scope)
"""Memories are many, whose they are is few."""


def scope_of(row: Fields) -> Scope:
    return _scope(
        row["tenant"],
        row["user_id"],
        row["agent_id"],
        row["run_id"],
        row["session_id"],
        row["project"],
        row["audience"],
    )


def event_of(row: Fields) -> Event:
    """The event of a row."""
    return event_in(_columns_of(row))


_columns_of = itemgetter(*EVENT_NAMES)


def event_in(columns: Sequence[Any]) -> Event:
    """The event whose columns these are, in the order of ``EVENT_NAMES``: for whoever reads a hundred."""
    id_, text, recorded_at, *scope = columns[:_SCOPE_END]
    kind, raw_kind, speaker, at, precision, zone, document, start, end, unit, *others = columns[_SCOPE_END:]
    source, revision, trust, origin, valid_from, valid_to, supersedes, derived_from = others
    return Event(
        id_,
        text,
        time_of(recorded_at),
        _scope(*scope),
        kind,
        raw_kind,
        speaker,
        None if at is None else Moment(time_of(at), precision, zone),
        None if document is None else Place(document, start, end, unit),
        source,
        revision,
        trust,
        origin,
        _time_of(valid_from),
        _time_of(valid_to),
        supersedes,
        _ids_of(derived_from),
    )


_SCOPE_END = EVENT_NAMES.index("audience") + 1


def kept_in(columns: Sequence[Any]) -> tuple[Any, ...]:
    """Of the event whose columns these are what its hit has whatever is asked: the fields of a `Hit` in their order,
    but for ``score``, ``path`` and ``linked``. A fifth of what it takes to make the event first."""
    id_, text, recorded_at, tenant, user_id, agent_id, run_id, session_id, project, audience, *others = columns
    kind, raw_kind, speaker, at, precision, zone, document, start, end, unit, *others = others
    _, _, trust, origin, valid_from, valid_to, _, derived_from = others
    return (
        id_,
        text,
        _scope(tenant, user_id, agent_id, run_id, session_id, project, audience),
        id_,
        kind,
        raw_kind,
        speaker,
        None if at is None else Moment(time_of(at), precision, zone),
        time_of(recorded_at),
        _time_of(valid_from),
        _time_of(valid_to),
        None if document is None else Place(document, start, end, unit),
        trust,
        origin,
        _ids_of(derived_from),
    )


def _moment_of(row: Fields) -> Moment | None:
    return None if row["at"] is None else Moment(time_of(row["at"]), row["at_precision"], row["at_zone"])


def _place_of(row: Fields) -> Place | None:
    if row["document"] is None:
        return None
    return Place(row["document"], row["place_start"], row["place_end"], row["place_unit"])


def _time_of(since_1970: int | None) -> datetime | None:
    return None if since_1970 is None else time_of(since_1970)


def _ids_of(written: str) -> tuple[str, ...]:
    return () if written == "[]" else tuple(loads(written))


def hit_of(row: Row, score: float | None = None, path: tuple[str, ...] = (), linked: float | None = None) -> Hit:
    """The hit that echoes the event of a row; its native id is the event's id."""
    return Hit(
        native_id=row["event_id"],
        text=row["text"],
        scope=scope_of(row),
        event_id=row["event_id"],
        score=score,
        kind=row["kind"],
        raw_kind=row["raw_kind"],
        speaker=row["speaker"],
        at=_moment_of(row),
        recorded_at=time_of(row["recorded_at"]),
        valid_from=_time_of(row["valid_from"]),
        valid_to=_time_of(row["valid_to"]),
        place=_place_of(row),
        trust=row["trust"],
        origin=row["origin"],
        derived_from=_ids_of(row["derived_from"]),
        path=path,
        linked=linked,
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
