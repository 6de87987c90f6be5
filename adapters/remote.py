"""Another server that speaks our ``POST /v1/search``: a second gateway, or anything that gives the same JSON.

    [backends.archive]
    adapter = "adapters.remote:Remote"
    url = "http://127.0.0.1:8765"
    backend = "markdown"                # which of its backends; leave out where there is but one
    api_key_env = "ARCHIVE_API_KEY"     # the environment variable with its key; or, for one that is renewed:
    api_key_file = "/run/keys/archive"  # the file with its key, read for each question
    filters = ["user_id"]               # what its search filters by; all four unless said otherwise
    bound = { agent_id = "librarian" }  # what it holds the memories of, where it cannot filter

It is asked with ``{query, limit, user_id…, audience}`` and answers ``{"hits": [{native_id, text, …}]}``. Further fields
of a hit are those of `Hit`, with ``at``, ``place`` and ``scope`` nested as in our own JSON or flat. Read only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, get_args

from adapters.http import Http
from fusion.contract import (
    DIMENSIONS,
    KINDS,
    Dimension,
    Features,
    Hit,
    Moment,
    Opening,
    Partial,
    Place,
    Precision,
    Query,
    Scope,
    Unit,
)
from fusion.errors import InvalidAnswer, SettingsError, Unauthorized

_PRECISIONS = frozenset(get_args(Precision))
_UNITS = frozenset(get_args(Unit))


class Remote:
    """Asks ``http``'s server; ``backend`` is the name that the server knows the memory system by."""

    def __init__(self, http: Http, features: Features, backend: str | None = None) -> None:
        self.features = features
        self._http, self._backend = http, backend

    @classmethod
    async def open(cls, opening: Opening) -> Self:
        """Does not connect: a server that is down now may be up at the first question."""
        options = dict(opening.options)
        url, backend = _text(options, "url"), _text(options, "backend")
        variable, file = _text(options, "api_key_env"), _text(options, "api_key_file")
        tenant = _text(options, "tenant")
        if variable and file:
            raise SettingsError(f"backends.{opening.name}: api_key_env or api_key_file, not both")
        if not url:
            raise SettingsError(f"backends.{opening.name}: url is missing; write the server's, http://host:port")
        features = Features(
            filters=frozenset(_dimensions(opening.name, options.pop("filters", DIMENSIONS))),
            bound=_bound(opening.name, options.pop("bound", {})),
            tenant=tenant or "default",
        )
        if options:
            raise SettingsError(f"backends.{opening.name}: unknown options {', '.join(sorted(options))}")

        def headers() -> Mapping[str, str]:
            key = os.environ.get(variable, "").strip() if variable else _key_in(file)
            return {"Authorization": f"Bearer {key}"} if key else {}

        return cls(Http(url, headers), features, backend)

    async def search(self, query: Query) -> Sequence[Hit]:
        body: dict[str, object] = {"query": query.text, "limit": query.limit, "audience": query.scope.audience}
        body.update((dimension, value) for dimension, value in query.scope.named().items())
        if query.scope.project is not None:
            body["project"] = query.scope.project
        if self._backend is not None:
            body["backend"] = self._backend
        reply = await self._http.post("/v1/search", body, query.deadline_s)
        items = reply.get("hits") if isinstance(reply, dict) else None
        if not isinstance(items, list):
            raise InvalidAnswer(f"{self._http.server}: the reply has no list of hits")
        # It was asked for this scope only: what an item does not say of itself is taken from the question. What it
        # does say stays, and the gateway's own filter drops what belongs to somebody else.
        assumed = Scope(self.features.tenant, **query.scope.named(), audience=query.scope.audience)
        hits: list[Hit] = []
        for item in items[: query.limit]:
            try:
                hits.append(hit_of(item, assumed))
            except (KeyError, TypeError, ValueError, OverflowError):
                continue  # counted below, as what is missing
        asked = min(len(items), query.limit)
        if asked and not hits:
            raise InvalidAnswer(f"{self._http.server}: none of {asked} items is a hit")
        return Partial(hits, asked - len(hits)) if len(hits) < asked else hits

    async def close(self) -> None:
        await self._http.close()


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
        score=item.get("score"),  # whatever it is: the gather ignores, and counts, what is not a number
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


def _key_in(file: str | None) -> str:
    """The key in a file. Raises Unauthorized where it cannot be read, which is no fault of the server's."""
    if file is None:
        return ""
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unauthorized(f"api_key_file cannot be read: {type(error).__name__}") from None


def _text(options: dict[str, object], name: str) -> str | None:
    value = options.pop(name, None)
    if value is not None and not isinstance(value, str):
        raise SettingsError(f"{name} must be a string")
    return value or None


def _dimensions(name: str, value: object) -> Sequence[Dimension]:
    if not isinstance(value, (list, tuple)) or not set(value) <= set(DIMENSIONS):
        raise SettingsError(f"backends.{name}: filters must be a list of {', '.join(DIMENSIONS)}")
    return value


def _bound(name: str, value: object) -> Mapping[Dimension, str]:
    if not isinstance(value, Mapping) or not set(value) <= set(DIMENSIONS):
        raise SettingsError(f"backends.{name}: bound must be a table of {', '.join(DIMENSIONS)}")
    return {dimension: str(bound) for dimension, bound in value.items()}
