"""Reads the items of a JSON reply as hits, in the gateway's own form or any other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, get_args

from fusion.contract import DIMENSIONS, KINDS, Hit, Moment, PartialHits, Place, Precision, Scope, Unit
from fusion.errors import InvalidAnswer

_PRECISIONS = frozenset(get_args(Precision))
_UNITS = frozenset(get_args(Unit))


def hits_of(items: object, limit: int, read: Callable[[Any], Hit], server: str) -> Sequence[Hit]:
    """The first ``limit`` items, each read by ``read``; those that it cannot read are left out and counted.

    Raises InvalidAnswer, which names ``server``, where there is no list of items, or none of them is a hit.
    """
    if not isinstance(items, list):
        raise InvalidAnswer(f"{server}: the reply has no list of hits")
    hits: list[Hit] = []
    asked = items[:limit]
    for item in asked:
        try:
            hits.append(read(item))
        except (KeyError, TypeError, ValueError, OverflowError):
            continue  # counted below as missing
    if asked and not hits:
        raise InvalidAnswer(f"{server}: none of {len(asked)} items is a hit")
    return PartialHits(hits, len(asked) - len(hits)) if len(hits) < len(asked) else hits


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
_FURTHER = frozenset("event_id raw_kind speaker recorded_at valid_from valid_to trust origin derived_from path".split())


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
    }


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
def _moment_of(at: str, precision: Any, zone: str | None) -> Moment:
    """Remembered, as places are: the same memories come back query after query."""
    utc = _time(at)
    if utc is None or precision not in _PRECISIONS:
        raise ValueError("a moment has a time and a precision")
    return Moment(utc, precision, zone)


def _time(value: str | None) -> datetime | None:
    if value is None:
        return None
    time = datetime.fromisoformat(value)
    if time.tzinfo is UTC:
        return time
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


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
