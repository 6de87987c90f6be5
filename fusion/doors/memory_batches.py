"""Memories and observations that were read from files, in batches as the requests that store them take them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson

from fusion.errors import FusionError, ServerUnreachable
from fusion.lib.batched import batched
from fusion.lib.stated_fields import entities_of, stated_values
from fusion.problem import NO_SUCH_FIELD

if TYPE_CHECKING:
    from fusion.contract import Place
    from fusion.ingest.intake import NewMemory
    from fusion.lib.observation import NewObservation

BATCH = 100
BATCH_BYTES = 200_000
"""maximum bytes of a request's body; by default the server accepts 262,144, and a refused batch is halved"""


def batches(memories: Iterable[NewMemory]) -> Iterator[list[NewMemory]]:
    """Batches for one request each.

    Reads one memory beyond each batch before it yields it, which bookmarks rely on.
    """
    return batched(memories, lambda one: len(orjson.dumps(wire_form(one))) + 1, most=BATCH, most_bytes=BATCH_BYTES)


def wire_form(memory: NewMemory) -> dict[str, Any]:
    """A memory as `POST /v1/memories` takes it."""
    found: dict[str, Any] = {
        "text": memory.text,
        **{str(dimension): value for dimension, value in memory.scope.named().items()},
        "project": memory.scope.project,
        "audience": memory.scope.audience,
        "kind": memory.kind,
        "raw_kind": memory.raw_kind,
        "speaker": memory.speaker,
        "at": None if memory.at is None else _set(asdict(memory.at)),
        "entities": list(entities_of(memory.stated)) or None,
        **stated_values(memory.stated),
        "trust": None if memory.trust == "unknown" else memory.trust,
        "source": memory.source,
        "revision": memory.revision,
        "origin": memory.origin,
        "valid_from": memory.valid_from,
        "valid_to": memory.valid_to,
        "supersedes": memory.supersedes,
        "read_from": memory.file,
        **_where(memory.place),
    }
    return _set(found)


def _set(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def check_version(refusal: FusionError) -> None:
    """Raises ServerUnreachable if the server does not know a field of `wire_form`: it is of another version.

    No part of the batch is wrong then, and none may be skipped.
    """
    if NO_SUCH_FIELD in str(refusal):
        raise ServerUnreachable(
            f"The running server is of another version than this program ({str(refusal).partition(';')[0]}). "
            "Stop it, and the next command starts one of this version: fusion stop (with the same --home)"
        ) from refusal


def _where(place: Place | None) -> dict[str, Any]:
    if place is None:
        return {}
    return {"document": place.document, "position": place.start, "end": place.end, "unit": place.unit}


def episode_form(observation: NewObservation) -> dict[str, Any]:
    """An observation as `POST /v1/episodes/append` takes it."""
    found: dict[str, Any] = {
        "type": observation.type,
        **{str(dimension): value for dimension, value in observation.scope.named().items()},
        "project": observation.scope.project,
        "audience": observation.scope.audience,
        "summary": observation.summary,
        "payload": observation.payload,
        "refs": observation.refs,
        "ts": None if observation.ts is None else observation.ts.isoformat(),
        "event_id": observation.event_id,
        "tool": observation.tool,
        "lane": observation.lane,
        "kind": observation.raw_kind,
        "source": observation.source,
    }
    return {name: value for name, value in found.items() if value is not None}


def episode_batches(observations: Iterable[NewObservation]) -> Iterator[list[NewObservation]]:
    """Batches of observations for one request each."""
    return batched(
        observations, lambda one: len(orjson.dumps(episode_form(one))) + 1, most=BATCH, most_bytes=BATCH_BYTES
    )
