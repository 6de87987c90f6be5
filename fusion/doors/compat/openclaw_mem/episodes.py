"""Episodes as openclaw-mem's commands print them, around those of `/v1/episodes/…`. Its scope is our project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, get_args

import orjson

from fusion import wire
from fusion.errors import BadInput
from fusion.lib.observation import PAYLOAD_BYTES, REFS_BYTES, EpisodeType

GLOBAL = "global"
"""the scope of what belongs to no project"""
SCHEMA = "openclaw-mem.episodic.v0"


@dataclass(frozen=True, slots=True)
class NewEpisode:
    """An event to append, in the words of openclaw-mem."""

    scope: str
    session_id: str
    agent_id: str
    type: str
    summary: str
    payload: Any = None
    refs: Any = None
    event_id: str | None = None
    ts_ms: int | None = None

    def draft(self, owner: Mapping[str, Any]) -> dict[str, Any]:
        """The request of `append_episodes`. Raises BadInput for an unknown type."""
        if self.type not in get_args(EpisodeType):
            raise BadInput(f"invalid type: {self.type[:80]}; allowed: {', '.join(sorted(get_args(EpisodeType)))}")
        refs = self.refs if self.refs is None or isinstance(self.refs, Mapping) else {"refs": self.refs}
        draft = {
            **owner,
            "project": self.scope,
            "session_id": self.session_id,
            "agent_id": self.agent_id,
            "type": self.type,
            "summary": self.summary,
            "payload": self.payload,
            "refs": refs,
            "event_id": self.event_id,
            "ts": None if self.ts_ms is None else moment_of(self.ts_ms),
        }
        return {name: value for name, value in draft.items() if value is not None}

    def receipt(self, kept: wire.EpisodeKept, now: datetime) -> dict[str, Any]:
        """The event and the limits, as ``episodes append`` prints them."""
        return {
            "ok": kept["status"] in ("stored", "duplicate"),
            "event": {
                "event_id": kept["event_id"],
                "ref": kept["ref"],
                "ts_ms": int(now.timestamp() * 1000) if self.ts_ms is None else self.ts_ms,
                "scope": self.scope,
                "session_id": self.session_id,
                "agent_id": self.agent_id,
                "type": self.type,
                "summary": self.summary,
                "payload_bytes": _size(self.payload),
                "refs_bytes": _size(self.refs),
                "schema_version": SCHEMA,
                "redacted": kept["redacted"] > 0,
                "payload_present": self.payload is not None,
                "refs_present": self.refs is not None,
            },
            "status": kept["status"],
            "reason": kept["reason"],
            "caps": {
                "payload_cap_bytes": PAYLOAD_BYTES[self.type],  # type: ignore[index]  # `draft` has checked it
                "refs_cap_bytes": REFS_BYTES,
            },
        }


def moment_of(ts_ms: int) -> str:
    """A time of openclaw-mem, in milliseconds since 1970. Raises BadInput for one beyond the calendar."""
    try:
        return datetime.fromtimestamp(ts_ms / 1000, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        raise BadInput("invalid ts_ms: give milliseconds since 1970") from None


def item(episode: wire.Episode, *, include_payload: bool) -> dict[str, Any]:
    """An episode as a query prints it."""
    found = {
        "id": number_of(episode["ref"]),
        "event_id": episode["event_id"],
        "ts_ms": int(datetime.fromisoformat(episode["ts"]).timestamp() * 1000),
        "scope": episode["project"] or GLOBAL,
        "session_id": episode["session_id"],
        "agent_id": episode["agent_id"],
        "type": episode["type"],
        "summary": episode["summary"],
        "refs": episode.get("refs"),
        "redacted": episode["redacted"],
        "schema_version": SCHEMA,
        "created_at": episode["ts"],
    }
    return {**found, "payload": episode.get("payload")} if include_payload else found


def number_of(ref: str) -> int | None:
    """The integer of an episode's ref, ep:4."""
    number = ref.rpartition(":")[2]
    return int(number) if number.isdigit() else None


def page(episodes: Sequence[wire.Episode], *, include_payload: bool) -> list[dict[str, Any]]:
    """Episodes as a query prints them, oldest first."""
    return [item(one, include_payload=include_payload) for one in episodes]


def filters(session_id: str | None, types: Sequence[str], limit: int, *, include_payload: bool) -> dict[str, Any]:
    """The filters of a query, as it prints them."""
    return {
        "session_id": session_id,
        "from_ts_ms": None,
        "to_ts_ms": None,
        "types": list(types),
        "limit": limit,
        "include_payload": include_payload,
    }


def _size(value: Any) -> int:
    return 0 if value is None else len(orjson.dumps(value))
