"""The view of an episode: one observation of a session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fusion.doors.cli.render.tables import say

if TYPE_CHECKING:
    from fusion import wire


_GRADE = ("label", "score", "method", "by", "graded_at", "rationale")
"""what is shown of an importance"""


def episode(found: wire.Episode) -> None:
    """Prints one episode: its summary, what was said, called or returned, then its fields."""
    say(found["summary"] + "\n")
    payload = found.get("payload")
    if payload is not None:
        say(_text(payload) + "\n")
    owner = {name: found[name] for name in ("user_id", "agent_id", "session_id", "project")}
    importance = found["importance"] or {}
    facts = {
        "ref": found["ref"],
        "type": found["type"],
        "lane": found["lane"],
        "tool": found["tool"],
        "happened": found["ts"],
        "of": ", ".join(f"{name} {value}" for name, value in owner.items() if value),
        "trust": found["trust"],
        "importance": ", ".join(str(importance[name]) for name in _GRADE if importance.get(name) not in (None, "")),
        "cut": "the payload was longer than its type allows" if found["truncated"] else None,
        "redacted": "secrets or texts were replaced" if found["redacted"] else None,
        "refers to": _text(found["refs"]) if found.get("refs") else None,
        "log": found["pointer"],
    }
    for name, value in facts.items():
        if value:
            say(f"{name:<10} {value}")


def _text(value: Any) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
