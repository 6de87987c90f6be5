"""Memories, and their histories, in the fields of mem0's replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusion import wire
from fusion.doors.compat.mem0.requests import OWNERS
from fusion.doors.quarantine import is_quarantined

Versions = Sequence[wire.StoredMemory]
"""a memory with its earlier versions, the oldest first"""


def id_of(versions: Versions) -> str:
    """The id of a memory at this door: the ref of its first version, because mem0's ids outlive an update."""
    return versions[0]["ref"]


def record(versions: Versions) -> dict[str, Any]:
    """A memory as mem0 returns it. It was created with its first version, and updated with its last."""
    now = versions[-1]
    whose: Mapping[str, str] = now["scope"]
    return {
        "id": id_of(versions),
        "memory": now["text"],
        "metadata": metadata_of(now),
        "categories": [],
        **{name: whose.get(name) for name in OWNERS},
        "actor_id": now["speaker"],
        "created_at": versions[0]["recorded_at"] or versions[0]["at"],
        "updated_at": now["recorded_at"] or now["at"],
        "expiration_date": now.get("valid_to"),
    }


def found_record(versions: Versions, item: wire.ToolSearchItem) -> dict[str, Any]:
    """A result of a search, with its score from 0 to 1; ``backends`` are the systems that found it."""
    return {**record(versions), "score": round(item["score"], 6), "backends": item["backends"]}


def bare_record(item: wire.ToolSearchItem) -> dict[str, Any]:
    """A result of which nothing more can be read now, because its system does not answer a second time."""
    return {
        "id": item["ref"],
        "memory": item["snippet"],
        "metadata": {},
        "categories": [],
        **dict.fromkeys(OWNERS),
        "actor_id": item.get("speaker"),
        "created_at": item.get("at"),
        "updated_at": item.get("at"),
        "expiration_date": None,
        "score": round(item["score"], 6),
        "backends": item["backends"],
    }


def entities(memories: Sequence[wire.StoredMemory]) -> dict[str, Any]:
    """The owners of memories in the fields of mem0's entities; ``memories`` are the newest first."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for memory in memories:
        whose: Mapping[str, str] = memory["scope"]
        for owner in OWNERS:
            if name := whose.get(owner):
                kind = owner.removesuffix("_id")
                times = {"created_at": memory["recorded_at"], "updated_at": memory["recorded_at"]}
                entity = found.setdefault(
                    (kind, name), {"id": f"{kind}:{name}", "type": kind, "name": name, "total_memories": 0, **times}
                )
                entity["total_memories"] += 1
                entity["created_at"] = memory["recorded_at"]
    return {"count": len(found), "next": None, "previous": None, "results": list(found.values())}


def metadata_of(memory: wire.StoredMemory) -> dict[str, Any]:
    """What the caller of a memory stated besides."""
    return dict(memory.get("metadata") or {})


def history(versions: Versions) -> list[dict[str, Any]]:
    """The changes of a memory, the oldest first, in mem0's words: it was added, then updated.

    A version that is quarantined has no text here.
    """
    texts = [None if is_quarantined(one) else one["text"] for one in versions]
    changes: list[dict[str, Any]] = []
    for number, one in enumerate(versions):
        whose: Mapping[str, str] = one["scope"]
        changes.append(
            {
                "id": one["ref"],
                "memory_id": id_of(versions),
                "event": "UPDATE" if number else "ADD",
                "old_memory": texts[number - 1] if number else None,
                "new_memory": texts[number],
                "metadata": {} if is_quarantined(one) else metadata_of(one),
                **{name: whose.get(name) for name in OWNERS},
                "actor_id": None if is_quarantined(one) else one["speaker"],
                "created_at": versions[0]["recorded_at"],
                "updated_at": one["recorded_at"],
                "is_deleted": False,
            }
        )
    return changes
