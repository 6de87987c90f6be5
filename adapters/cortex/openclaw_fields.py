"""Memories in openclaw-cortex's fields, for the verbs and the compatible routes, and as lines for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from adapters.cortex.port import Memory
from fusion.contract import KINDS, Kind
from fusion.errors import BadInput


def shaped(memory: Memory, successor: Memory | None = None) -> dict[str, Any]:
    """A memory in the fields of openclaw-cortex's data model.

    ``valid_to`` is when a newer version replaced it or it ended; ``valid_until`` is the end stated in advance.
    """
    event, state = memory.event, memory.state
    ended = [state.ended_at] if state.ended_at else []
    if successor is not None and state.conflict_status != "active":  # both sides of an open conflict are valid
        ended.append(successor.event.valid_from or successor.event.recorded_at)
    return {
        "id": memory.id,
        "content": event.text,
        "type": memory.kind,
        "scope": state.lifetime,
        "visibility": "private" if event.scope.audience == "private" else "shared",
        "confidence": round(state.confidence, 6),
        "tags": list(state.tags),
        "project": event.scope.project,
        "user_id": event.scope.user_id,
        "source": event.source,
        "speaker": event.speaker,
        "created_at": event.recorded_at,
        "last_accessed": state.last_accessed,
        "access_count": state.access_count,
        "reinforced_at": state.reinforced_at,
        "reinforced_count": state.reinforced_count,
        "supersedes_id": memory.supersedes,
        "valid_from": event.valid_from or (event.at.utc if event.at else event.recorded_at),
        "valid_to": min(ended, default=None),
        "valid_until": event.valid_to,
        "ttl_seconds": _ttl_seconds(memory),
        "conflict_group_id": state.conflict_group,
        "conflict_status": state.conflict_status,
        "contradicts_id": state.contradicts,
        "merged_into": state.merged_into,
    }


def _ttl_seconds(memory: Memory) -> float | None:
    """The seconds that a memory of the scope ttl was given; None for those that end by the home's rule, or never."""
    if memory.state.lifetime != "ttl" or memory.event.valid_to is None:
        return None
    return round((memory.event.valid_to - memory.event.recorded_at).total_seconds(), 3)


def chain(versions: Sequence[Memory]) -> list[dict[str, Any]]:
    """Versions of a memory, oldest first, each valid until the next."""
    return [shaped(one, then) for one, then in zip(versions, [*versions[1:], None], strict=True)]


def kind_of(type: str | None) -> Kind:
    """The kind with this name, "note" for none. Raises ``BadInput``, which lists all kinds."""
    for kind in KINDS:
        if kind == (type or "note"):
            return kind
    raise BadInput(f"type: there are {', '.join(KINDS)}")


def listing(memories: Sequence[Mapping[str, Any]]) -> str:
    """One line for each memory: id, time, text, then kind, lifetime, confidence, tags and conflicts."""
    lines = []
    for one in memories:
        marks = [one["type"], one["scope"], f"{one['confidence']:.2f}", *(f"#{tag}" for tag in one["tags"])]
        if one["valid_to"]:
            marks.append(f"until {_minute(one['valid_to'])}")
        if one["conflict_status"] == "active":
            marks.append(f"contradicts {str(one['contradicts_id'])[-8:]}")
        elif one["conflict_status"]:
            marks.append("lost a conflict")
        if one["merged_into"]:
            marks.append(f"says the same as {one['merged_into'][-8:]}")
        who = f"{one['speaker']}: " if one["speaker"] else ""
        lines.append(f"{one['id']}  {_minute(one['valid_from'])}  {who}{one['content']}  ({', '.join(marks)})")
    return "\n".join(lines) or "nothing"


def _minute(time: datetime | str) -> str:
    text = time if isinstance(time, str) else time.isoformat()
    return text[:16].replace("T", " ")
