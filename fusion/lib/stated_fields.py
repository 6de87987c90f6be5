"""What a caller stated besides the text, as pairs in `Event.stated`, and back.

Lifetime, confidence, importance, provenance, priority, due time, project and tags become fields of a `State`; entities
are those that an episode involves. A time to live is when the memory ends after it was stored, and metadata is the
caller's own: it is kept and shown, and nothing searches it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from math import isfinite
from typing import Any, get_args

from fusion.contract import LIFETIMES, Event, Moment, Priority, Provenance, StateChange
from fusion.errors import BadInput
from fusion.lib.annotations import Annotations
from fusion.lib.clean import is_one_line
from fusion.lib.importance import parse_importance
from fusion.lib.moment import moment
from fusion.lib.provenance import parse_provenance

PRIORITIES: tuple[Priority, ...] = get_args(Priority)
MAX_TAGS = 64
MAX_TAG_CHARS = 128
MAX_TTL_S = 3_600_000_000.0
"""maximum seconds to live, a million hours as in the rules of the lifecycle"""
MAX_METADATA_CHARS = 4096
"""maximum characters of a memory's metadata as JSON"""
MAX_PROJECT_CHARS = 256


def to_stated(
    lifetime: str | None = None,
    confidence: float | None = None,
    tags: Sequence[str] = (),
    *,
    importance: Any = None,
    provenance: Any = None,
    priority: str | None = None,
    due: str | None = None,
    ttl_seconds: float | None = None,
    metadata: Mapping[str, Any] | None = None,
    lifetime_field: str = "lifetime",
) -> tuple[tuple[str, str], ...]:
    """The pairs of `Event.stated` for these values. Raises ``BadInput`` for a value out of range.

    ``ttl_seconds`` makes the lifetime "ttl". ``lifetime_field`` is the caller's name for the lifetime, for the error.
    """
    if ttl_seconds is not None:
        if not (isfinite(ttl_seconds) and 0 < ttl_seconds <= MAX_TTL_S):
            raise BadInput(f"ttl_seconds: give a number above 0 and of at most {MAX_TTL_S:.0f}")
        if lifetime not in (None, "ttl"):
            raise BadInput(f"ttl_seconds: it is for {lifetime_field} ttl, not {lifetime}")
        lifetime = "ttl"
    if lifetime is not None and lifetime not in LIFETIMES:
        raise BadInput(f"{lifetime_field}: give one of {', '.join(LIFETIMES)}")
    if confidence is not None and not (isfinite(confidence) and 0 <= confidence <= 1):
        raise BadInput("confidence: give a number from 0 to 1")
    if priority is not None and priority not in PRIORITIES:
        raise BadInput(f"priority: give one of {', '.join(PRIORITIES)}")
    if len(tags) > MAX_TAGS or any(not tag.strip() or len(tag) > MAX_TAG_CHARS for tag in tags):
        raise BadInput(f"tags: at most {MAX_TAGS}, each with 1 to {MAX_TAG_CHARS} characters")
    if not all(is_one_line(tag.strip()) for tag in tags):
        raise BadInput("tags: one has a line break, a tab or an invisible character; write each as one plain line")
    written = json.dumps(metadata, sort_keys=True) if metadata else ""
    if len(written) > MAX_METADATA_CHARS:
        raise BadInput(f"metadata: at most {MAX_METADATA_CHARS} characters of JSON")
    pairs = [("tag", tag.strip()) for tag in dict.fromkeys(tags)]
    if (score := parse_importance(importance)) is not None:
        pairs.append(("importance", repr(score)))
    if provenance is not None:
        found = parse_provenance(provenance)
        pairs.append(("provenance", f"{found.kind} {found.ref}".rstrip()))
    if priority is not None:
        pairs.append(("priority", priority))
    if due is not None:
        pairs.append(("due", due_as_written(due)))
    if ttl_seconds is not None:
        pairs.append(("ttl_seconds", repr(float(ttl_seconds))))
    if written:
        pairs.append(("metadata", written))
    if confidence is not None:
        pairs.insert(0, ("confidence", repr(float(confidence))))
    if lifetime is not None:
        pairs.insert(0, ("lifetime", lifetime))
    return tuple(pairs)


def from_stated(event: Event) -> StateChange:
    """The `State` fields that an event states; invalid values count as not stated."""
    change: StateChange = {}
    given = dict(event.stated)
    if "provenance" in given and (provenance := _provenance(given["provenance"])) is not None:
        change["provenance"] = provenance
    if (priority := _PRIORITY.get(given.get("priority", ""))) is not None:
        change["priority"] = priority
    if (due := _due(given.get("due"))) is not None:
        change["due"] = due
    tags = tuple(value for name, value in event.stated if name == "tag" and is_one_line(value))
    if tags:
        change["tags"] = tags
    for name, value in event.stated:
        if name == "confidence" and (number := _number(value)) is not None:
            change["confidence"] = number
        if name == "importance" and (number := _number(value)) is not None:
            change["importance"] = number
        if name == "project" and value:
            change["project"] = value
        for lifetime in LIFETIMES:
            if (name, value) == ("lifetime", lifetime):
                change["lifetime"] = lifetime
    return change


def annotated(found: Annotations) -> tuple[tuple[str, str], ...]:
    """The pairs of `Event.stated` for the annotations of a file; a trigger is a tag, which a question can name."""
    triggers = dict.fromkeys(" ".join(trigger.split()) for trigger in found.triggers[:MAX_TAGS])  # one may have a tab
    pairs = [("tag", trigger) for trigger in triggers if len(trigger) <= MAX_TAG_CHARS]
    if found.importance is not None:
        pairs.insert(0, ("importance", repr(found.importance / 10)))
    if found.project is not None and len(found.project) <= MAX_PROJECT_CHARS:
        pairs.insert(0, ("project", found.project))
    return tuple(pairs)


def stated_entities(names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The pairs of `Event.stated` for the entities of an episode."""
    return tuple(("entity", name) for name in dict.fromkeys(names))


def entities_of(stated: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The entities among the pairs of `Event.stated`."""
    return tuple(value for name, value in stated if name == "entity")


def time_to_live(stated: Iterable[tuple[str, str]]) -> timedelta | None:
    """How long after it was stored a memory ends, as its caller stated; None without a valid number."""
    for name, value in stated:
        if name == "ttl_seconds" and (seconds := _number(value, MAX_TTL_S)):
            return timedelta(seconds=seconds)
    return None


def metadata_of(stated: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The metadata among the pairs of `Event.stated`; empty without."""
    for name, value in stated:
        if name == "metadata":
            try:
                found = json.loads(value)
            except ValueError:
                return {}
            return found if isinstance(found, dict) else {}
    return {}


def stated_values(stated: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The arguments of `to_stated` for pairs of `Event.stated`."""
    pairs = list(stated)
    numbers = {name: float(value) for name, value in pairs if name in ("confidence", "importance", "ttl_seconds")}
    tags = [value for name, value in pairs if name == "tag"]
    given = dict(pairs)
    more: dict[str, Any] = {name: given.get(name) for name in ("lifetime", "priority", "due")}
    more |= {"tags": tags, "metadata": metadata_of(pairs)}
    if provenance := _provenance(given.get("provenance", "")):
        more["provenance"] = {"kind": provenance.kind, "ref": provenance.ref}
    return numbers | {name: value for name, value in more.items() if value}


_PRIORITY: Mapping[str, Priority] = {one: one for one in PRIORITIES}


def _provenance(written: str) -> Provenance | None:
    kind, _, ref = written.partition(" ")
    try:
        return parse_provenance({"kind": kind, "ref": ref}) if kind else None
    except BadInput:
        return None


def _due(written: str | None) -> Moment | None:
    try:
        return None if written is None else moment(written)
    except ValueError:
        return None


def due_as_written(due: str) -> str:
    """A time at which something is due, as it was written. Raises BadInput for what is no time."""
    try:
        moment(due)
    except ValueError:
        raise BadInput('due: write ISO 8601, "2026-03" or "2026-03-31" or "2026-03-31T09:30:00Z"') from None
    return due.strip()


def _number(text: str, most: float = 1.0) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= most else None
