"""What a list of answers shows of each: its times, sizes, backends and refs, and never a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from fusion.contract import Asker, Scope
from fusion.recall.decision import Decision, decision_of

MAX_REFS = 100
"""refs of a block that its row has; ``memories`` counts all of them"""

Shown = Sequence[tuple[str, Collection[str]]]
"""the memories of a block: the ref of each, and the backends that found it"""

_FINE = frozenset({"ok", "empty", "skipped", "disabled"})


def row_of(
    summary: Mapping[str, Any],
    shown: Shown,
    scope: Scope,
    asker: Asker | None,
    *,
    degraded: bool,
    abstained: str | None,
) -> dict[str, Any]:
    """The row of an answer with this ``summary`` of its receipt."""
    asker = asker or Asker()
    found = Counter(backend for _, backends in shown for backend in backends)
    alone = Counter(backend for _, backends in shown if len(backends) == 1 for backend in backends)
    return {
        "receipt_id": summary["receipt_id"],
        "at": summary["at"],
        "took_ms": summary["took_ms"],
        "characters": summary["characters"],
        "tokens": summary["budget"]["used_tokens"],
        "candidate_tokens": summary.get("candidate_tokens"),
        "memories": len(shown),
        "refs": [ref for ref, _ in shown[:MAX_REFS]],
        "recipe": summary["recipe"],
        "degraded": degraded,
        "abstained": abstained,
        "prepared": bool(summary.get("prepared")),
        "backends": [
            {
                **{name: row[name] for name in ("name", "status", "took_ms", "count")},
                "in_block": found[row["name"]],
                "alone": alone[row["name"]],
            }
            for row in summary["backends"]
        ],
        "user_id": scope.user_id,
        "agent_id": asker.agent_id or scope.agent_id,
        "session_id": asker.session_id or scope.session_id,
    }


def row_of_earlier(body: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a receipt that was stored without one; why its block is empty is not known any more."""
    columns = body["candidates"]
    shown = [
        (ref, {hit[0] for hit in hits})
        for ref, decision, hits in zip(
            columns["ref"], columns["decision"], columns.get("source_hits") or columns["sightings"], strict=True
        )
        if decision_of(decision) == Decision.PACKED
    ]
    asker = body.get("asker", {})
    scope = Scope(user_id=body.get("user_id"), agent_id=asker.get("agent_id"), session_id=asker.get("session_id"))
    degraded = any(row["status"] not in _FINE for row in body["backends"])
    return row_of(body, shown, scope, None, degraded=degraded, abstained=None)
