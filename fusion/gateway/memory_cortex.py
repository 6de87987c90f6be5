"""Memory Cortex's search over all memories, by a score of words and one of vectors (seed 002)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, cast

from fusion import wire
from fusion.contract import Hit
from fusion.gateway.synthesis import Remembered
from fusion.journal.rows import Record
from fusion.journal.sessions import Session
from fusion.lib.budget import clip
from fusion.lib.grading import grade_of
from fusion.lib.ids import parse_short_ref
from fusion.lib.importance import stated_importance
from fusion.lib.junk import stated
from fusion.lib.words import spoken
from fusion.recall.engine import Fused, Outcome
from fusion.recall.mask import shown as without_secrets
from fusion.recall.pack import Member
from fusion.recall.signals import ROLES
from fusion.recipe import GateSettings, Recipe

WORDS, VECTORS = 0.4, 0.6
"""the weights of the two scores (seed 002)"""
MIN_COSINE = 0.2
"""least vector score of a result that vectors found; any two texts have a small one"""
MAX_FACT_CHARS = 600
"""maximum characters of one result; a client has 500 tokens, about 2,000 characters, for all"""
_EXTERNAL_ID = 1 << 48
"""least id of a memory that is in an external system alone; ids of the journal start at 1"""


def recipe_for(seed: Recipe, configured: Recipe, limit: int) -> Recipe:
    """The seed's recipe for a number of results, without a gate, because a search always searches."""
    depth = max(limit, seed.gather.depth, configured.gather.depth)
    gather = replace(seed.gather, depth=depth, timeout_ms=configured.gather.timeout_ms)
    return replace(seed, gather=gather, gate=GateSettings())


def found_ids(outcome: Outcome) -> list[str]:
    """The event ids of all hits of an answer."""
    return list(dict.fromkeys(hit.event_id for _, hits in outcome.hits for hit in hits if hit.event_id))


def results(outcome: Outcome, records: Mapping[str, Record], limit: int) -> list[wire.CortexResult]:
    """The best distinct candidates of an answer by ``.4 · words + .6 · vectors``.

    The score of words is BM25 as a share of the best one's, that of vectors the cosine with the question; one that a
    memory lacks is 0, as every vector's is while no model answers.
    """
    rows = [row for row in outcome.receipt.body["candidates"] if not row["neighbour_of"]]
    best = max((row["signals"].get("bm25", 0.0) for row in rows), default=0.0) or 1.0
    found: dict[str, wire.CortexResult] = {}
    for row in rows:
        words = max(0.0, row["signals"].get("bm25", 0.0)) / best
        vectors = min(1.0, max(0.0, row["signals"].get("dense", 0.0)))
        hit = _hit(outcome, row)
        named = [name for name, is_found in (("fts5", words > 0), ("vector", vectors >= MIN_COSINE)) if is_found]
        fact = "" if hit is None or not named else fact_of(hit)
        if hit is None or not fact:
            continue
        one = _result(row["ref"], hit, fact, records.get(hit.event_id or ""))
        found[row["ref"]] = {**one, "score": round(WORDS * words + VECTORS * vectors, 4), "source": "+".join(named)}
    return sorted(found.values(), key=lambda one: -one["score"])[:limit]


def session_state(
    session_id: str,
    ingested_at: datetime | None,
    asked: Session,
    synthesis: tuple[str, object, float] | None,
    lines: Sequence[str],
    now: datetime,
) -> wire.SessionState:
    """The fields that Memory Cortex keeps of a session, with its names; times are milliseconds since 1970."""
    cached = None
    if synthesis is not None and lines:
        cached_at = now - timedelta(seconds=synthesis[2])
        cached = {"query": synthesis[0], "response": " ".join(lines), "cachedAt": _milliseconds(cached_at) or 0}
    return {
        "session_id": session_id,
        "memoryCortexIngestedAt": _milliseconds(ingested_at),
        "memoryCortexRecalledAt": _milliseconds(asked.asked_at),
        "memoryCortexFactsInjected": asked.injected,
        "memoryCortexSynthesis": cast("wire.CachedSynthesis | None", cached),
    }


def _milliseconds(at: datetime | None) -> int | None:
    return None if at is None else int(at.timestamp() * 1000)


def _hit(outcome: Outcome, row: Mapping[str, Any]) -> Hit | None:
    """The hit of a candidate, without secrets, in the answer of the first backend that found it."""
    wanted = {backend: (native_id,) for backend, _, native_id, *_ in reversed(row["source_hits"])}
    hits: Sequence[Hit] = [*outcome.found(wanted).values()]
    return without_secrets(hits[0]) if hits else None


def _result(ref: str, hit: Hit, fact: str, record: Record | None) -> wire.CortexResult:
    importance, tags = (stated_importance(record.state), record.state.tags) if record is not None else (None, ())
    grade = grade_of(fact, hit.kind, importance, tags)
    at = hit.at.utc if hit.at is not None else hit.recorded_at
    return {
        "id": id_of(ref),
        "ref": ref,
        "user_id": hit.scope.user_id or "",
        "topic": grade.topic,
        "fact": clip(said_by(fact, hit.speaker), MAX_FACT_CHARS),
        "importance": grade.importance,
        "created_at": "" if at is None else at.isoformat(),
        "score": 0.0,
        "source": "",
    }


def fact_of(memory: Hit | Member) -> str:
    """What a memory states; "" for a turn of a conversation that only greets, asks or offers something."""
    return stated(memory.text, memory.speaker) if memory.kind == "turn" else memory.text


def said_by(text: str, speaker: str | None) -> str:
    """A text with its speaker's name; a role such as "user" is no name."""
    return text if (speaker or "").lower() in ROLES else spoken(text, speaker)


def remembered(fused: Fused) -> list[Remembered]:
    """The memories of a block for a synthesis, best first."""
    members = sorted((one for each in fused.memories for one in each.members), key=lambda one: -one.score)
    return [
        Remembered(one.ref, said_by(fact, one.speaker), (one.at or "")[:10])
        for one in members
        if (fact := fact_of(one))
    ]


def id_of(ref: str) -> int:
    """The numeric id of a memory, as Memory Cortex has it: stable, and small enough to be exact in JSON."""
    number = parse_short_ref(ref)
    if number is not None:
        return number
    return _EXTERNAL_ID + int.from_bytes(blake2b(ref.encode(), digest_size=6).digest())
