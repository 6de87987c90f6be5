"""An event as a Qdrant payload, and back: mem0's keys, then the event's other columns, which only the gateway reads.

The payload follows `fusion.store.rows.EVENT_NAMES`, so a new column of an event needs no change here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import md5
from json import dumps, loads
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

from adapters.hits import fact_in, time_or_none
from fusion.contract import Event, Hit, Scope
from fusion.store.rows import EVENT_NAMES, event_in, event_values, hit_in, kept_in, microseconds, time_of

NOBODY = "_shared"
"""the user of a memory that belongs to nobody: mem0 needs at least one of user, agent and run"""

MATCHED = ("tenant", "user_id", "agent_id", "run_id", "session_id")
"""the columns that are ids: encoded in a payload, and compared by a search"""

_PLAIN = re.compile(r"[^\s*_]\S*")
_TIMES = frozenset({"recorded_at", "at", "at_until", "valid_from", "valid_to"})
_RENAMED = {
    "text": "data",
    "recorded_at": "created_at",
    "speaker": "actor_id",
    "place_start": "start",
    "place_end": "end",
    "place_unit": "unit",
}
"""the columns whose key in a payload is another than their name"""
_KEYS = {name: _RENAMED.get(name, name) for name in EVENT_NAMES}
_EMPTY = {"revision": "", "derived_from": "[]"}
"""values that a payload leaves out"""
_DEFAULTS = {
    **_EMPTY,
    "text": "",
    "tenant": "default",
    "audience": "group",
    "kind": "note",
    "at_precision": "second",
    "trust": "unknown",
    "origin": "owner",
}
"""values of columns whose key a payload does not have"""

_MEM0_KEYS = frozenset({"data", "user_id", "agent_id", "run_id", "actor_id", "created_at"})
"""the keys with a known meaning in a payload that the gateway did not write"""

Payload = Mapping[str, Any]


def conditions(scope: Scope) -> tuple[str, ...]:
    """The values that a search compares: the encoded ids in the order of ``MATCHED``, then the audience."""
    return (*(NOBODY if (id_ := getattr(scope, key)) is None else _encoded(id_) for key in MATCHED), scope.audience)


def payload_of(event: Event) -> dict[str, Any]:
    """An event as a payload, with the keys that mem0 derives: hash, updated_at, text_lemmatized."""
    values = zip(EVENT_NAMES, event_values(event), strict=True)
    payload = {
        _KEYS[name]: _written(name, value) for name, value in values if value is not None and value != _EMPTY.get(name)
    }
    if event.scope.user_id is event.scope.agent_id is event.scope.run_id is None:
        payload["user_id"] = NOBODY
    digest = md5(event.text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest()
    return payload | {"hash": digest, "updated_at": payload["created_at"], "text_lemmatized": event.text}


def hit_of(native_id: str, payload: Payload) -> Hit:
    """A payload as a hit without a score. Of a payload that the gateway did not write, only mem0's keys count, and the
    triple in its metadata if it has one.

    mem0 keeps the payload when another program updates a memory's text. Such a text was recorded at the update, and it
    is a version of the event: nothing but its owner, kind, trust and origin is the event's.
    """
    _, *kept = kept_in(_columns(payload))  # the first is the native id: the event's
    hit = hit_in((native_id, *kept))
    if hit.event_id is None:
        hit.fact = fact_in(payload)
    changed = payload.get("updated_at")
    if changed is None or changed == payload.get("created_at") or (at := time_or_none(changed)) is None:
        return hit
    if hit.recorded_at is not None and at <= hit.recorded_at:
        return hit
    hit.recorded_at = at
    if hit.event_id is not None:
        hit.event_id, hit.version_of = None, hit.event_id
        hit.at = hit.valid_from = hit.place = None
    return hit


def event_of(payload: Payload) -> Event | None:
    """The event of a payload that the gateway wrote; None for any other."""
    return event_in(_columns(payload)) if payload.get("event_id") is not None and payload.get("created_at") else None


def _columns(payload: Payload) -> list[Any]:
    """The columns of the event, in the order of ``EVENT_NAMES``."""
    get = payload.get
    if "event_id" not in payload:
        get = {key: payload[key] for key in _MEM0_KEYS & payload.keys()}.get
        columns = _OF_MEM0
    else:
        columns = _OURS
    # Without a call for each column: a question reads hundreds of hits of some thirty columns.
    return [
        default if (value := get(key)) is None or (read is not None and (value := read(value)) is None) else value
        for key, read, default in columns
    ]


def is_id(value: str) -> bool:
    """Whether Qdrant takes it for a point's id: those of the gateway and of mem0 are all UUIDs."""
    try:
        UUID(value)
    except ValueError:
        return False
    return True


def _written(name: str, value: Any) -> object:
    if name in MATCHED:
        return _encoded(value)
    if name in _TIMES:
        return time_of(value).isoformat()
    return loads(value) if name == "derived_from" else value


def _encoded(value: str) -> str:
    """An id in the form that mem0 accepts: without blanks, its wildcard, or the gateway's ``NOBODY``. Reversible."""
    return value if _PLAIN.fullmatch(value) else "_" + quote(value, safe="", errors="surrogatepass")


def _decoded(value: str) -> str | None:
    if value == NOBODY:
        return None
    return unquote(value[1:], errors="surrogatepass") if value.startswith("_") else value


@lru_cache(maxsize=8192)
def _microseconds(text: str) -> int | None:
    if not text:
        return None
    time = datetime.fromisoformat(text)
    return microseconds(time.replace(tzinfo=UTC) if time.tzinfo is None else time)


_READERS: Mapping[str, Callable[[Any], object]] = {**dict.fromkeys(_TIMES, _microseconds), "derived_from": dumps}
_OF_MEM0 = [(key, _READERS.get(name), _DEFAULTS.get(name)) for name, key in _KEYS.items()]
_OURS = [(key, _decoded if key in MATCHED else read, default) for key, read, default in _OF_MEM0]
"""by column: its key, how to read a value that is there, and the default"""
