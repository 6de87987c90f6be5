"""Reads the replies of mem0's library and server, in the shapes of 1.x and 2.x.

2.x     {"results": [{"id": "…", "memory": "…", "score": 0.8, "user_id": "…", "created_at": "…", "metadata": {…}}]}
1.x     the same, with "relations" next to it; its earliest form is the list alone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from adapters.hits import read_each
from adapters.qdrant.payload import hit_of
from fusion.contract import Hit, Query, Scope
from fusion.errors import InvalidAnswer

OWN = ("user_id", "agent_id", "run_id")
"""the dimensions by which mem0 itself separates memories"""


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a memory's history: ``event`` in mem0's word (ADD, UPDATE, DELETE), ``at`` in ISO 8601.

    ``was`` and ``memory`` are what it said before and since; None where that is not known, or there is nothing.
    """

    event: str
    at: str | None = None
    memory: str | None = None
    was: str | None = None
    by: str | None = None


def items_of(reply: Any) -> list[Any]:
    """The memories of a reply. Raises InvalidAnswer for an unknown form."""
    found = reply.get("results") if isinstance(reply, dict) else reply
    if not isinstance(found, list):
        raise InvalidAnswer("mem0 answered in another shape: there are no results")
    return found


def hits_of(items: Sequence[Any], query: Query, tenant: str) -> tuple[list[Hit], int]:
    """The visible memories, best first, and the number of invalid items. Raises InvalidAnswer if all are invalid."""
    fault = "mem0 answered in another shape: none of {} results is a memory"
    found, dropped = read_each(items, lambda item: hit_of_item(item, query.scope, tenant), fault)
    return [hit for hit in found if query.admits(hit)], dropped


def hit_of_item(item: Any, asked: Scope, tenant: str) -> Hit:
    """One result as a hit. A missing owner is that of the query; an external memory belongs to ``tenant``.

    Raises KeyError, TypeError, ValueError or AttributeError for an invalid one.
    """
    metadata = item.get("metadata") or {}
    payload = {**metadata, **{key: value for key, value in item.items() if value is not None}}
    payload["data"] = item["memory"]
    if "event_id" in payload:
        payload.setdefault("actor_id", payload.get("speaker"))
    if not isinstance(item["memory"], str) or not item["memory"]:
        raise ValueError("a memory has a text")
    hit = hit_of(str(item["id"]), payload)
    hit.score = item.get("score")  # the hit is new and not shared yet
    if "event_id" not in payload:
        whose = hit.scope
        if whose.user_id is whose.agent_id is whose.run_id is None:
            whose = replace(whose, user_id=asked.user_id, agent_id=asked.agent_id, run_id=asked.run_id)
        hit.scope = replace(whose, tenant=tenant)
    elif payload.get("inferred"):
        hit.event_id, hit.derived_from = None, (payload["event_id"],)
    return hit


def changes_of(reply: Any) -> list[Change]:
    """Parse a memory's history from mem0's library or server, oldest first. Raises InvalidAnswer."""
    try:
        return [
            Change(
                str(one["event"]),
                one.get("updated_at") or one.get("created_at"),
                one.get("new_memory"),
                one.get("old_memory"),
                one.get("actor_id"),
            )
            for one in items_of(reply)
        ]
    except (KeyError, TypeError, AttributeError):
        raise InvalidAnswer("mem0 returned a memory's history in an unknown form") from None


def changes_said(payload: Mapping[str, Any]) -> list[Change]:
    """The history in a memory's own fields: when it was added, and when it was last changed."""
    added, changed, text = payload.get("created_at"), payload.get("updated_at"), payload.get("data")
    by = payload.get("actor_id")
    if not changed or changed == added:
        return [Change("ADD", added, text, by=by)]
    return [Change("ADD", added, by=by), Change("UPDATE", changed, text)]
