"""Signals of what a memory is, regardless of the question's words: its state, use, kind and project.

| signal        | meaning |
|---------------|---------|
| recency       | exp(-ln 2 · hours since it was last in a block / 168); .1 if it never was (seed 000) |
| use           | min(1, log2(1 + n) / 10) for a memory that was in n blocks (seed 000) |
| type          | the kind: rule 1, procedure .867, fact .667, episode .533, preference .467 (seed 000) |
| ownership     | of the question's project 1, permanent .667, another .533 (seed 000 calls it scope) |
| confidence    | how sure its source was (seed 000) |
| reinforcement | min(1, log2(n + 1) / 5) for a memory that was said again n times (seed 000) |
| tags          | the share of its tags whose words are all in the question (seed 000) |
| importance    | what its owner or a grader gave it; absent if nobody did |
| trust         | 1 trusted, .67 unknown, .33 untrusted |
| conflict      | 1 for a side of an open conflict, else 0 |
| superseded    | 1 if a memory that replaces or contradicts it later is in the pool, else 0 |

The factors of seed 004 (`fusion.lib.seed004_factors`), which multiply a score (`RerankSettings.factors`):

| signal            | meaning |
|-------------------|---------|
| importance_weight | 1 must be remembered, .83 nice to have or unknown, .67 the rest |
| recency_decay     | .5 ^ (age / half-life of its kind) |
| use_boost         | .77 never in a block, 1 from 20 blocks on |
| state_gate        | 1 active, .9 made of others, .5 stale, 0 archived |

A recipe that weighs none of them costs no time for them. External memories have the state of a new memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from math import nan
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fusion.contract import NEW, Hit, Query, State, Trust
from fusion.lib.paraphrase import Kind
from fusion.lib.seed000_factors import (
    confidence,
    frequency,
    recency,
    reinforcement,
    scope_boost,
    tag_affinity,
    type_boost,
)
from fusion.lib.seed004_factors import importance_weight, recency_decay, state_gate, use_boost
from fusion.lib.words import words
from fusion.recall.dedup import Rival
from fusion.recall.expand import Pooled
from fusion.recall.filter import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STANDING_SIGNALS = (
    *("recency", "use", "type", "ownership", "confidence", "reinforcement", "tags", "importance", "trust"),
    *("conflict", "superseded"),
    *("importance_weight", "recency_decay", "use_boost", "state_gate"),
)
STANDING = frozenset(STANDING_SIGNALS)
USE = frozenset({"recency", "use", "use_boost"})
"""the signals for which the use of each memory is read"""
_TRUST: Mapping[Trust, float] = {"trusted": 1.0, "unknown": 0.67, "untrusted": 0.33, "quarantined": 0.0}


class Standing(NamedTuple):
    """What the journal knows of a memory besides its text. ``included`` is the number of blocks it was in.

    ``derived``: it was made of other memories.
    """

    event_id: str = ""
    state: State = NEW
    supersedes: str | None = None
    included: int = 0
    last_included_at: datetime | None = None
    derived: bool = False


UNKNOWN = Standing()
"""the standing of an external memory"""


class Use(Protocol):
    """How often a memory was in a block, and when last."""

    @property
    def included(self) -> int: ...
    @property
    def last_included_at(self) -> datetime: ...


def standings_of(
    records: Mapping[str, Record], wanted: Collection[str], uses: Mapping[str, Use]
) -> dict[str, Standing]:
    """By ref, the standings that matter: of all records if signals of them are ``wanted``, else of open conflicts.

    ``uses`` are by event id.
    """
    found = {}
    for event_id, record in records.items():
        if wanted or record.state.conflict_status == "active":
            use = uses.get(event_id)
            event = record.event
            found[record.ref] = Standing(
                event_id,
                record.state,
                event.supersedes,
                included=0 if use is None else use.included,
                last_included_at=None if use is None else use.last_included_at,
                derived=bool(event.derived_from),
            )
    return found


def with_conflicts(pool: Sequence[Pooled], standings: Mapping[str, Standing]) -> Sequence[Pooled]:
    """The pool, in which the sides of an open conflict are rivals of that kind, however their texts differ."""
    groups: dict[str, list[str]] = {}
    for entry in pool:
        state = standings.get(entry.ref, UNKNOWN).state
        if state.conflict_status == "active" and state.conflict_group is not None:
            groups.setdefault(state.conflict_group, []).append(entry.ref)
    opponents = {ref: [one for one in group if one != ref] for group in groups.values() for ref in group}
    if not any(opponents.values()):
        return pool
    return [_with_rivals(entry, opponents.get(entry.ref, ())) for entry in pool]


def _with_rivals(entry: Pooled, opponents: Sequence[str]) -> Pooled:
    if not opponents:
        return entry
    others = (rival for rival in entry.candidate.rivals if rival.ref not in opponents)
    rivals = (*others, *(Rival(ref, Kind.CONFLICT) for ref in opponents))
    return entry._replace(candidate=entry.candidate._replace(rivals=rivals))


def standing_signals(
    query: Query, pool: Sequence[Pooled], standings: Mapping[str, Standing], wanted: Collection[str]
) -> dict[str, NDArray[np.float64]]:
    """The wanted signals of each memory of ``pool``, in its order."""
    names = [name for name in STANDING_SIGNALS if name in wanted]
    if not names:
        return {}
    import numpy as np

    asked, now, project = words(query.text), query.now, query.scope.project
    known = [standings.get(entry.ref, UNKNOWN) for entry in pool]
    hits = [entry.candidate.hit for entry in pool]
    replaced = _replaced(known)

    def column(name: str) -> list[float]:
        return [_value(name, one, hit, asked, project, now, replaced) for one, hit in zip(known, hits, strict=True)]

    return {name: np.array(column(name)) for name in names}


def _value(
    name: str,
    one: Standing,
    hit: Hit,
    asked: Collection[str],
    project: str | None,
    now: datetime,
    replaced: Collection[str],
) -> float:
    state = one.state
    match name:
        case "recency":
            return recency(one.last_included_at, now)
        case "use":
            return frequency(one.included)
        case "type":
            return type_boost(hit.kind)
        case "ownership":
            return scope_boost(state.lifetime, hit.scope.project, project)
        case "confidence":
            return confidence(state.confidence)
        case "reinforcement":
            return reinforcement(state.reinforced_count)
        case "tags":
            return tag_affinity(state.tags, asked)
        case "importance":
            return nan if state.importance is None else state.importance
        case "trust":
            return _TRUST[hit.trust]
        case "conflict":
            return float(state.conflict_status == "active")
        case "importance_weight":
            return importance_weight(state)
        case "recency_decay":
            return recency_decay(hit.kind, hit.began, now)
        case "use_boost":
            return use_boost(one.included)
        case "state_gate":
            return state_gate(state, now, derived=one.derived, replaced=one.event_id in replaced)
        case _:
            return float(one.event_id in replaced)


def _replaced(known: Sequence[Standing]) -> set[str]:
    """The event ids that another memory of the pool replaces: a newer version, or the later side of a conflict.

    Event ids are UUIDs of version 7, so the later one is the greater.
    """
    found = {one.supersedes for one in known if one.supersedes}
    found |= {
        one.state.contradicts
        for one in known
        if one.state.conflict_status == "active" and one.state.contradicts and one.state.contradicts < one.event_id
    }
    return found
