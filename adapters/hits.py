"""Reads the items of a JSON reply as hits, in the gateway's own form or any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any, TypeVar, get_args

from fusion.contract import DIMENSIONS, KINDS, Fact, Hit, Moment, PartialHits, Place, Precision, Scope, Unit
from fusion.errors import InvalidAnswer

T = TypeVar("T")
DEEPEST = 1000
"""the largest limit that a server is asked for if some of its items are left out"""
_PRECISIONS = frozenset(get_args(Precision))
_UNITS = frozenset(get_args(Unit))


def read_each(items: Sequence[Any], read: Callable[[Any], T], fault: str) -> tuple[list[T], int]:
    """What ``read`` makes of each item, and the number of items that it cannot read.

    Raises InvalidAnswer with ``fault``, in which ``{}`` is their number, if it can read none.
    """
    found: list[T] = []
    for item in items:
        try:
            found.append(read(item))
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            continue  # counted below
    if items and not found:
        raise InvalidAnswer(fault.format(len(items)))
    return found, len(items) - len(found)


def deeper(limit: int, found: int, answered: int, asked: int) -> int:
    """The next limit to request if hidden items used up the last one; 0 if all or enough were returned."""
    return 0 if found >= limit or answered < asked or asked >= DEEPEST else min(asked * 4, DEEPEST)


def admitted(hits: Iterable[Hit], scope: Scope, dropped: int) -> Sequence[Hit]:
    """The hits that ``scope`` admits, each once; ``dropped`` others could not be read."""
    found: dict[str, Hit] = {}
    for hit in hits:
        if scope.admits(hit.scope):
            found.setdefault(hit.native_id, hit)
    return PartialHits(found.values(), dropped) if dropped else list(found.values())


def hits_of(items: object, limit: int, read: Callable[[Any], Hit], server: str) -> Sequence[Hit]:
    """The first ``limit`` items of a reply as hits. Raises InvalidAnswer, which names ``server``."""
    if not isinstance(items, list):
        raise InvalidAnswer(f"{server}: the reply has no list of hits")
    hits, dropped = read_each(items[:limit], read, f"{server}: none of {{}} items is a hit")
    return PartialHits(hits, dropped) if dropped else hits


def hit_of(item: Any, assumed: Scope = Scope()) -> Hit:  # noqa: B008  # frozen
    """One item of a reply. Raises KeyError, TypeError, ValueError or OverflowError where it is no hit."""
    if not isinstance(item, dict):
        raise TypeError("a hit is an object")
    native_id = item["native_id"] if "native_id" in item else item["id"]
    text = item["text"]
    kind: Any = item.get("kind")
    if type(text) is not str or not isinstance(native_id, (str, int)) or isinstance(native_id, bool):
        raise TypeError("a hit has an id and a text")
    further = {} if _FURTHER.isdisjoint(item) else _further(item)  # most hits have none, and a hit is read for each
    if kind not in _KINDS:
        further["raw_kind"] = further.get("raw_kind") or kind
        kind = "note"
    return Hit(
        native_id=str(native_id),
        text=text,
        scope=_scope(item, assumed),
        score=item.get("score"),  # unchecked: the gather ignores, and counts, values that are not numbers
        kind=kind,
        at=_moment(item),
        place=_place(item),
        **further,
    )


_KINDS = frozenset(KINDS)
_FURTHER = frozenset(
    "event_id raw_kind speaker recorded_at valid_from valid_to trust origin derived_from path subject fact "
    "version_of".split()
)


def _further(item: Mapping[str, Any]) -> dict[str, Any]:
    get = item.get
    return {
        "event_id": get("event_id"),
        "raw_kind": get("raw_kind") or None,
        "speaker": get("speaker"),
        "recorded_at": _time(get("recorded_at")),
        "valid_from": _time(get("valid_from")),
        "valid_to": _time(get("valid_to")),
        "trust": get("trust") or "unknown",
        "origin": get("origin") or "owner",
        "derived_from": tuple(get("derived_from") or ()),
        "path": tuple(get("path") or ()),
        "fact": fact_in(fact if isinstance(fact := get("fact"), dict) else item),
        "version_of": get("version_of"),
    }


def fact_in(item: Mapping[str, Any]) -> Fact | None:
    """The triple in an item's fields subject, predicate (or attribute) and object (or value); None without one."""
    get = item.get
    parts = get("subject"), get("predicate", get("attribute")), get("object", get("value"))
    found = [part for part in parts if isinstance(part, str) and part]
    return Fact(*found) if len(found) == len(parts) else None


_SCOPE_FIELDS = ("tenant", *DIMENSIONS, "project", "audience")
_SCOPE_NAMES = frozenset(_SCOPE_FIELDS)


def _scope(item: Mapping[str, Any], assumed: Scope) -> Scope:
    source = item.get("scope", item)
    if _SCOPE_NAMES.isdisjoint(source):
        return assumed
    said = {name: source[name] for name in _SCOPE_FIELDS if name in source}
    if any(value is not None and type(value) is not str for value in said.values()):
        raise TypeError("a scope is made of strings")
    if said.get("audience", "group") not in ("private", "group"):
        raise ValueError("an audience is private or group")
    return Scope(**{name: said.get(name, getattr(assumed, name)) for name in _SCOPE_FIELDS})


def _moment(item: Mapping[str, Any]) -> Moment | None:
    at = item.get("at")
    if at is None:
        return None
    if isinstance(at, dict):
        return _moment_of(at["utc"], at.get("precision", "second"), at.get("zone"))
    return _moment_of(at, item.get("precision", "second"), item.get("zone"))


@lru_cache(maxsize=8192)
def _moment_of(at: str | datetime, precision: Any, zone: str | None) -> Moment:
    """Cached, as places are: the same memories are returned for many queries."""
    utc = _time(at)
    if utc is None or precision not in _PRECISIONS:
        raise ValueError("a moment has a time and a precision")
    return Moment(utc, precision, zone)


def _time(value: Any) -> datetime | None:
    return None if value is None else time_of(value)


def time_of(value: Any) -> datetime:
    """A time in UTC: a time or a day, ISO 8601, or a number since 1970 in seconds, milliseconds or microseconds,
    whichever makes it a time within a few hundred years. Raises TypeError, ValueError or OverflowError."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        size = abs(value)
        return datetime.fromtimestamp(value / (1e6 if size > 1e14 else 1e3 if size > 1e11 else 1), UTC)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, datetime):
        raise TypeError("a time is a text or a number")
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def time_or_none(value: Any) -> datetime | None:
    """The time, or None for an invalid one."""
    with suppress(TypeError, ValueError, OverflowError, OSError):
        return time_of(value)
    return None


def _place(item: Mapping[str, Any]) -> Place | None:
    source = item.get("place") or item
    document, start = source.get("document"), source.get("start")
    if document is None or start is None:
        return None
    return _place_of(document, start, source.get("end", start), source.get("unit", "turn"))


@lru_cache(maxsize=8192, typed=True)
def _place_of(document: str, start: int, end: int, unit: Any) -> Place:
    if unit not in _UNITS:
        raise ValueError("a place is counted in turns or lines")
    return Place(document, start, end, unit)
