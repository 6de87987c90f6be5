"""What needs attention, as openclaw-mem's command ``triage`` prints it: what it looks for, and what waits for a person.

Its cron jobs are our jobs; what `fusion triage` lists stands under ``review``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from fusion import wire
from fusion.doors.compat.openclaw_mem.episodes import number_of
from fusion.doors.compat.openclaw_mem.ledger import Ledger, envelope
from fusion.store.private_files import write_atomically

KEYWORDS = (
    *("error", "failed", "exception", "traceback", "timeout", "rate_limit", "unauthorized", "forbidden", "not allowed"),
    "db locked",
)
"""words of observations that are reported by default"""
LOOKED_AT = 500
"""latest observations, and latest memories, that are looked through"""
REMEMBERED = 2_000
"""refs that the file of what was reported keeps"""
TASKS = ("task", "plan")


@dataclass(frozen=True, slots=True)
class Asked:
    """What to look for. ``state`` is the file of what was reported; None reports everything again."""

    mode: str
    since_minutes: int
    tasks_since_minutes: int
    limit: int
    keywords: Sequence[str]
    importance_min: float
    state: Path | None

    def wants(self, mode: str) -> bool:
        return self.mode in ("heartbeat", mode)


async def triage(ledger: Ledger, asked: Asked) -> dict[str, Any]:
    """What the command prints; what is new is remembered as reported."""
    now = datetime.now(UTC)
    since = now - timedelta(minutes=asked.since_minutes)
    tasks_since = now - timedelta(minutes=asked.tasks_since_minutes)
    waiting = (await ledger.client.triage(limit=100, **ledger.scope))["items"]
    jobs = [_job(one) for one in waiting if one["kind"] == "failed_job"] if asked.wants("cron-errors") else []
    found = {
        "observations": await _observations(ledger, asked, since) if asked.wants("observations") else [],
        "cron": jobs,
        "tasks": await _tasks(ledger, asked, tasks_since) if asked.wants("tasks") else [],
        "review": [{**one} for one in waiting if one["kind"] != "failed_job"] if asked.mode == "heartbeat" else [],
    }
    reported = _reported(asked.state)
    new = {
        name: [one for one in matches if _name(one) not in reported][: asked.limit] for name, matches in found.items()
    }
    fresh = [_name(one) for matches in new.values() for one in matches]
    if asked.state is not None and fresh:
        write_atomically(asked.state, orjson.dumps({"reported": [*fresh, *reported][:REMEMBERED]}))
    return envelope(
        "triage",
        "v0",
        ok=True,
        mode=asked.mode,
        dedupe=asked.state is not None,
        since_minutes=asked.since_minutes,
        since_utc=_utc(since),
        keywords=list(asked.keywords),
        cron_jobs_path="",
        tasks_since_minutes=asked.tasks_since_minutes,
        tasks_since_utc=_utc(tasks_since),
        importance_min=asked.importance_min,
        state_path="" if asked.state is None else str(asked.state),
        needs_attention=bool(fresh),
        **{
            name: {"found_total": len(found[name]), "found_new": len(matches), "matches": matches}
            for name, matches in new.items()
        },
    )


async def _observations(ledger: Ledger, asked: Asked, since: datetime) -> list[dict[str, Any]]:
    """The latest observations with one of the words, newest first."""
    everybody = None if ledger.scope else True
    page = await ledger.client.query_episodes(
        after=since, limit=LOOKED_AT, newest_first=True, all_users=everybody, **ledger.scope
    )
    return [
        {
            "id": number_of(one["ref"]),
            "recordRef": one["ref"],
            "ts": one["ts"],
            "kind": one["type"],
            "tool_name": one["tool"],
            "summary": one["summary"],
        }
        for one in page["episodes"]
        if any(word in f"{one['summary']} {one['tool'] or ''}".casefold() for word in asked.keywords)
    ]


async def _tasks(ledger: Ledger, asked: Asked, since: datetime) -> list[dict[str, Any]]:
    """The tasks among the latest memories that are important enough, newest first."""
    rows = [
        row
        for row in await ledger.newest(LOOKED_AT)
        if row["kind"] in TASKS and datetime.fromisoformat(row["ts"] or _NEVER) >= since
    ]
    graded = {row["recordRef"]: _importance(row) for row in await ledger.get([row["recordRef"] for row in rows])}
    return [
        {name: row[name] for name in ("id", "recordRef", "ts", "kind", "tool_name", "summary")}
        | {"importance": graded[row["recordRef"]]}
        for row in rows
        if graded.get(row["recordRef"], 0.0) >= asked.importance_min
    ]


_NEVER = "1970-01-01T00:00:00+00:00"


def _importance(row: Mapping[str, Any]) -> float:
    graded = json.loads(row["detail_json"]).get("importance")
    return float(graded["score"]) if isinstance(graded, Mapping) else 0.0


def _job(item: wire.TriageItem) -> dict[str, Any]:
    """A job of ours whose last run failed."""
    at = None if item["at"] is None else int(datetime.fromisoformat(item["at"]).timestamp() * 1000)
    return {
        "id": item["id"],
        "name": item["id"],
        "enabled": True,
        "lastStatus": "error",
        "lastRunAtMs": at,
        "lastErrorLine": item["why"],
        "why": item["why"],
    }


def _name(match: Mapping[str, Any]) -> str:
    """What a match is remembered by: a job by its run."""
    return f"{match.get('recordRef') or match['id']}@{match.get('lastRunAtMs') or ''}"


def _reported(state: Path | None) -> list[str]:
    """What was reported before; nothing if the file is missing or broken, so that all is reported again."""
    try:
        known = orjson.loads(state.read_bytes())["reported"] if state is not None else []
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [one for one in known if isinstance(one, str)] if isinstance(known, list) else []


def _utc(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
