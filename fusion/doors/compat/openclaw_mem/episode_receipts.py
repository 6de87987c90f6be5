"""What openclaw-mem's commands ``episodes …`` print: our replies with its fields added."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusion import wire
from fusion.doors.compat.openclaw_mem.episodes import GLOBAL, item, number_of, page
from fusion.doors.compat.openclaw_mem.ledger import envelope
from fusion.lib.observation import TYPES

RRF_K = 60
"""the constant of reciprocal rank fusion there"""
EMBED_BATCH = 32


@dataclass(frozen=True, slots=True)
class SessionSearch:
    """A search as openclaw-mem asks it: for sessions, best first, each with its best episodes."""

    query: str
    query_en: str | None
    scope: str | None
    mode: str
    sessions: int
    per_session: int
    episodes: int
    include_payload: bool
    trace: bool


def searched(found: wire.EpisodeSearchReply, asked: SessionSearch) -> dict[str, Any]:
    """What ``search`` prints. ``episodes`` has those of the sessions that are shown."""
    ranked = list(enumerate(found["episodes"], 1))
    lanes = _lanes(found, asked.mode)
    by_session: dict[str, list[tuple[int, wire.Episode]]] = {}
    for rank, one in ranked:
        by_session.setdefault(one["session_id"] or "", []).append((rank, one))
    best = list(by_session.items())[: asked.sessions]
    shown = {one["ref"] for _, hits in best for _, one in hits[: asked.per_session]}
    sessions = [_session(at, name, hits, lanes, asked) for at, (name, hits) in enumerate(best, 1)]
    words = {"text": asked.query, "text_en": asked.query_en}
    result = {
        "count": len(sessions),
        "session_limit": asked.sessions,
        "per_session_limit": asked.per_session,
        "search_limit": asked.episodes,
        "include_payload": asked.include_payload,
        "mode": asked.mode,
        "sessions": sessions,
    }
    receipt = envelope("episodes.search", "v0", ok=True, scope=asked.scope or GLOBAL, query=words, result=result)
    printed = {**found, **receipt, "episodes": [one for one in found["episodes"] if one["ref"] in shown]}
    if asked.trace:
        fused = [_traced(rank, one, lanes) for rank, one in ranked]
        by_lane = {lane: [one for one in fused if lane in one["lanes"]] for lane in ("fts", "vector")}
        printed["trace"] = {
            **(found["trace"] or {}),
            "mode": asked.mode,
            "model": "",
            "query": words,
            "fts_top_k": by_lane["fts"],
            "vec_top_k": by_lane["vector"],
            "vec_query_en_top_k": [],
            "fused_ranking": fused,
        }
    return printed


def replayed(found: wire.EpisodePage, scope: str | None, session: str, limit: int, *, payload: bool) -> dict[str, Any]:
    """What ``replay`` prints."""
    items = page(found["episodes"], include_payload=payload)
    said = {"session_id": session, "count": len(items), "limit": limit, "include_payload": payload, "items": items}
    return {**found, **envelope("episodes.replay", "v0", ok=True, scope=scope or GLOBAL, **said)}


def embedded(done: wire.EpisodesEmbedded, scope: str | None, limit: int) -> dict[str, Any]:
    """What ``embed`` prints. Which episodes got a vector is not known here, so ``ids`` is empty."""
    each = [{"scope": scope, "count": done["embedded"]}] if scope and done["embedded"] else []
    said = {"scope_filter": scope, "limit": limit, "batch": EMBED_BATCH, "ids": [], "per_scope": each}
    return {**done, **envelope("episodes.embed", "v0", ok=True, **said)}


def redacted(
    done: wire.EpisodesRedacted, scope: str | None, session: str | None, event_id: str | None
) -> dict[str, Any]:
    """What ``redact`` prints."""
    target = {"event_id": event_id, "session_id": session, "scope": scope}
    said = {"target": target, "replacement": "placeholder", "redacted_count": done["redacted"]}
    return {**done, **envelope("episodes.redact", "v0", ok=True, **said)}


def expired(done: wire.JobRan, scope: str | None, kept_days: Mapping[Any, float], now_ms: int) -> dict[str, Any]:
    """What ``gc`` prints. The job deletes in every scope, by the days of the settings; null keeps for ever."""
    counts = done["run"]["receipt"].get("result", {}) if done["run"] is not None else {}
    by_type = {each: counts.get(f"deleted_{each}", 0) for each in TYPES}
    return {**done, **deleted(by_type, scope, kept_days, now_ms)}


def deleted(
    by_type: Mapping[Any, int], scope: str | None, kept_days: Mapping[Any, float], now_ms: int
) -> dict[str, Any]:
    """What ``gc`` prints of the numbers that it deleted, by type."""
    said = {
        "scope": scope or GLOBAL,
        "now_ts_ms": now_ms,
        "deleted_total": sum(by_type.values()),
        "deleted_by_type": {each: by_type.get(each, 0) for each in TYPES},
        "policy_days": {each: kept_days.get(each) for each in TYPES},
    }
    return envelope("episodes.gc", "v0", ok=True, **said)


def _session(
    at: int,
    name: str,
    hits: Sequence[tuple[int, wire.Episode]],
    lanes: Mapping[str, Sequence[str]],
    asked: SessionSearch,
) -> dict[str, Any]:
    """A session among the results; ``hits`` are its episodes with their ranks, best first."""
    rank, first = hits[0]
    items = [item(one, include_payload=asked.include_payload) for _, one in hits]
    matched = [
        {**each, "match": _match(rank, one, lanes)}
        for each, (rank, one) in zip(items[: asked.per_session], hits, strict=False)
    ]
    scope = items[0]["scope"]
    types = Counter(one["type"] for one in items)
    return {
        "rank": at,
        "session_id": name,
        "hit_count": len(hits),
        "best_match_rank": rank,
        "best_match_score": -first.get("score", 0.0),
        "best_rrf_score": 1 / (RRF_K + rank),
        "latest_ts_ms": max(one["ts_ms"] for one in items),
        "agent_ids": sorted({one["agent_id"] for one in items if one["agent_id"]}),
        "type_counts": [{"type": each, "count": count} for each, count in types.most_common()],
        "summary": first["summary"],
        "replay_hint": {
            "scope": scope,
            "session_id": name,
            "command": f"fusion mem episodes replay {name} --scope {scope} --json",
        },
        "matched_items": matched,
    }


def _match(rank: int, one: wire.Episode, lanes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """How an episode was found. A score is negative, because lower is better there."""
    return {
        "lanes": lanes[one["ref"]],
        "rank": rank,
        "rrf_score": 1 / (RRF_K + rank),
        "snippet": one["summary"],
        "fts_score": -one.get("score", 0.0),
    }


def _traced(rank: int, one: wire.Episode, lanes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    found = _match(rank, one, lanes)
    named = {"id": number_of(one["ref"]), "event_id": one["event_id"], "session_id": one["session_id"]}
    return {**named, "score": found["fts_score"], **found}


def _lanes(found: wire.EpisodeSearchReply, mode: str) -> dict[str, list[str]]:
    """By episode, the searches that found it: ``fts`` by words, ``vector`` by meaning."""
    if mode != "hybrid":
        return {one["ref"]: ["vector" if mode == "vector" else "fts"] for one in found["episodes"]}
    lists = found["trace"] or {}
    by = {
        lane: {one["ref"] for one in lists.get(name, ())} for lane, name in (("fts", "lexical"), ("vector", "vector"))
    }
    return {one["ref"]: [lane for lane, refs in by.items() if one["ref"] in refs] for one in found["episodes"]}
