"""An event as a Qdrant payload, and back: the keys that mem0 uses, then those that only the gateway reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import md5
from typing import Any, cast
from urllib.parse import quote, unquote

from fusion.contract import (
    DIMENSIONS,
    Audience,
    Event,
    Hit,
    Kind,
    Moment,
    Origin,
    Place,
    Precision,
    Scope,
    Trust,
    Unit,
)

NOBODY = "_shared"
"""The user of a memory that belongs to nobody: mem0 wants at least one of user, agent and run."""

_PLAIN = re.compile(r"[^\s*_]\S*")
MATCHED = ("tenant", "user_id", "agent_id", "run_id", "session_id")

_THEIRS = frozenset({"data", "user_id", "agent_id", "run_id", "actor_id", "created_at"})
"""what mem0 itself says of a memory; all else in a payload that is not ours may mean anything"""

Payload = Mapping[str, Any]


def _encoded(value: str | None) -> str:
    """An id as mem0 takes it: no blanks, and neither its wildcard nor our own word for nobody. Reversible."""
    if value is None:
        return NOBODY
    return value if _PLAIN.fullmatch(value) else "_" + quote(value, safe="", errors="surrogatepass")


def _given(value: str | None) -> str | None:
    return None if value is None else _encoded(value)


def _decoded(value: str | None) -> str | None:
    if value is None or value == NOBODY:
        return None
    return unquote(value[1:], errors="surrogatepass") if value.startswith("_") else value


def conditions(scope: Scope) -> tuple[str, ...]:
    """What a search compares: the encoded ids in the order of ``MATCHED``, then the audience."""
    return (*(_encoded(getattr(scope, key)) for key in MATCHED), scope.audience)


def payload_of(event: Event) -> dict[str, Any]:
    """An event in mem0's payload: its own keys first, then what only the gateway reads."""
    recorded = event.recorded_at.isoformat()
    scope, at, place = event.scope, event.at, event.place
    nobody = scope.user_id is scope.agent_id is scope.run_id is None
    payload: dict[str, Any] = {
        "data": event.text,
        "hash": md5(event.text.encode("utf-8", "replace"), usedforsecurity=False).hexdigest(),
        "created_at": recorded,
        "updated_at": recorded,
        "text_lemmatized": event.text,
        "actor_id": event.speaker,
        "user_id": NOBODY if nobody else _given(scope.user_id),
        "agent_id": _given(scope.agent_id),
        "run_id": _given(scope.run_id),
        "event_id": event.event_id,
        "tenant": _encoded(scope.tenant),
        "session_id": _given(scope.session_id),
        "project": scope.project,
        "audience": scope.audience,
        "kind": event.kind,
        "raw_kind": event.raw_kind,
        "at": at and at.utc.isoformat(),
        "at_precision": at and at.precision,
        "at_zone": at and at.zone,
        "document": place and place.document,
        "start": place and place.start,
        "end": place and place.end,
        "unit": place and place.unit,
        "source": event.source,
        "revision": event.revision or None,
        "trust": event.trust,
        "origin": event.origin,
        "valid_from": event.valid_from and event.valid_from.isoformat(),
        "valid_to": event.valid_to and event.valid_to.isoformat(),
        "supersedes": event.supersedes,
        "derived_from": list(event.derived_from) or None,
    }
    return {key: value for key, value in payload.items() if value is not None}


def hit_of(native_id: str, payload: Payload) -> Hit:
    """A payload as the hit that it will be, without a score. What is not ours has mem0's own keys only."""
    ours = "event_id" in payload
    get = payload.get if ours else {key: payload[key] for key in _THEIRS & payload.keys()}.get
    ids = {key: _decoded(get(key)) if ours else get(key) for key in DIMENSIONS}
    at = _time(get("at"))
    return Hit(
        native_id=native_id,
        event_id=get("event_id"),
        text=get("data", ""),
        scope=Scope(
            **ids,
            tenant=_decoded(get("tenant")) or "default",
            project=get("project"),
            audience=cast("Audience", get("audience", "group")),
        ),
        kind=cast("Kind", get("kind", "note")),
        raw_kind=get("raw_kind"),
        speaker=get("actor_id"),
        at=Moment(at, cast("Precision", get("at_precision", "second")), get("at_zone")) if at else None,
        recorded_at=_time(get("created_at")),
        valid_from=_time(get("valid_from")),
        valid_to=_time(get("valid_to")),
        place=_place(payload) if ours and "document" in payload else None,
        trust=cast("Trust", get("trust", "unknown")),
        origin=cast("Origin", get("origin", "owner")),
        derived_from=tuple(get("derived_from", ())),
    )


def event_of(hit: Hit, payload: Payload) -> Event | None:
    """The event that a payload of ours was made of; None for what mem0 has from elsewhere."""
    if hit.event_id is None or hit.recorded_at is None:
        return None
    return Event(
        hit.event_id,
        hit.text,
        hit.recorded_at,
        hit.scope,
        kind=hit.kind,
        raw_kind=hit.raw_kind,
        speaker=hit.speaker,
        at=hit.at,
        place=hit.place,
        source=payload.get("source"),
        revision=payload.get("revision") or "",
        trust=hit.trust,
        origin=hit.origin,
        valid_from=hit.valid_from,
        valid_to=hit.valid_to,
        supersedes=payload.get("supersedes"),
        derived_from=hit.derived_from,
    )


def _place(payload: Payload) -> Place:
    return Place(payload["document"], payload["start"], payload["end"], cast("Unit", payload["unit"]))


def _time(text: str | None) -> datetime | None:
    if not text:
        return None
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
