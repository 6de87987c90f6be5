"""The ranking of seed 000: a weighted sum of nine factors, each 0 to 1, then two penalties. Pure functions.

    score = (.45 similarity + .08 recency + .05 frequency + .10 type + .08 scope + .07 confidence
             + .07 reinforcement + .05 tags + .05 graph) · .3 if superseded · .8 if in conflict

Where openclaw-cortex differs from the seed, the docstring of the factor says which one is used here, and why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from operator import itemgetter

from adapters.cortex.port import Link, Matches, Memory
from adapters.index.merge import fused_keys
from adapters.options import build, number
from fusion.contract import Kind
from fusion.errors import SettingsError
from fusion.lib.rank_fusion import rank_fusion, ranked
from fusion.lib.seed000_factors import (
    CONFLICT_PENALTY,
    SUPERSEDED_PENALTY,
    confidence,
    frequency,
    recency,
    reinforcement,
    scope_boost,
    tag_affinity,
    type_boost,
)
from fusion.lib.words import words

TOLERANCE = 0.01
"""maximum difference of the weights' sum from 1"""


# What is made for every candidate is not frozen, as `fusion.contract.Hit` is not, and for the same reason.


@dataclass(slots=True, unsafe_hash=True)
class Weights:
    """The weight of each factor, at least 0 each and 1 ± .01 in sum; the defaults are the seed's.

    Other sums are refused when the store is opened. (openclaw-cortex logs a warning and uses its defaults.)
    """

    similarity: float = number(0.45, 0)
    recency: float = number(0.08, 0)
    frequency: float = number(0.05, 0)
    type: float = number(0.10, 0)
    scope: float = number(0.08, 0)
    confidence: float = number(0.07, 0)
    reinforcement: float = number(0.07, 0)
    tags: float = number(0.05, 0)
    graph: float = number(0.05, 0)

    @classmethod
    def of(cls, table: object) -> Weights:
        """The weights of ``[backends.NAME.weights]``. Raises ``SettingsError`` for an invalid weight."""
        if not isinstance(table, Mapping):
            raise SettingsError(f"weights must be a table of {', '.join(field.name for field in fields(cls))}")
        weights = build(cls, table, "weights:")
        total = sum(asdict(weights).values())
        if abs(total - 1) > TOLERANCE + 1e-9:  # a sum of nine floats is off by less than that
            raise SettingsError(f"weights add up to {total:g}, and must to 1 ± {TOLERANCE}")
        return weights


@dataclass(slots=True, unsafe_hash=True)
class Candidate:
    """A found memory with its evidence.

    ``cosine`` is None without a vector; ``words`` is its BM25 relative to the best one's; ``blended`` its fused score
    relative to the best possible, used where neither says how similar it is. ``hops`` and ``share`` are as in `Link`.
    """

    memory: Memory
    cosine: float | None
    blended: float
    words: float = 0.0
    hops: int | None = None
    share: float = 1.0
    path: tuple[str, ...] = ()


@dataclass(slots=True, unsafe_hash=True)
class Ranked:
    """A memory with its score, its factors before weighting, and its penalty, 1 for none."""

    memory: Memory
    score: float
    factors: Weights
    penalty: float = 1.0
    path: tuple[str, ...] = ()


def rank(
    candidates: Sequence[Candidate],
    text: str,
    project: str | None,
    now: datetime,
    weights: Weights,
    by_words: float = 0.0,
) -> list[Ranked]:
    """All of ``candidates``, best first; ties by fused score, then by id."""
    superseded = {id_ for c in candidates if (id_ := c.memory.supersedes) is not None}
    asked = words(text)
    # By state, kind and project, the factors that these decide, and what they weigh: most share one state.
    alike: dict[tuple[int, Kind, str | None], tuple[Standing, float]] = {}
    scored: list[tuple[float, float, str, Ranked]] = []
    for c in candidates:
        memory = c.memory
        which = id(memory.state), memory.kind, memory.event.scope.project
        if (known := alike.get(which)) is None:
            factors = standing(memory, asked, project, now)
            known = alike[which] = factors, weighed(Weights(0.0, *factors, 0.0), weights)
        factors, weighs = known
        like, near = similarity(c.cosine, c.words, c.blended, by_words), graph_proximity(c.hops, c.share)
        seen = Weights(like, *factors, near)
        penalty = penalties(memory, superseded)
        score = (weights.similarity * like + weighs + weights.graph * near) * penalty
        scored.append((-score, -c.blended, memory.event.event_id, Ranked(memory, score, seen, penalty, c.path)))
    scored.sort(key=_PLACE)
    return [ranked for *_, ranked in scored]


_PLACE = itemgetter(0, 1, 2)


def standing(memory: Memory, asked: Collection[str], project: str | None, now: datetime) -> Standing:
    """The seven factors, recency to tags, that have nothing to do with how a memory was found."""
    state = memory.state
    return (
        recency(state.last_accessed, now),
        frequency(state.access_count),
        type_boost(memory.kind),
        scope_boost(state.lifetime, memory.event.scope.project, project),
        confidence(state.confidence),
        reinforcement(state.reinforced_count),
        tag_affinity(state.tags, asked),
    )


Standing = tuple[float, float, float, float, float, float, float]


def weighed(seen: Weights, weights: Weights) -> float:
    """The weighted sum."""
    return (
        weights.similarity * seen.similarity
        + weights.recency * seen.recency
        + weights.frequency * seen.frequency
        + weights.type * seen.type
        + weights.scope * seen.scope
        + weights.confidence * seen.confidence
        + weights.reinforcement * seen.reinforcement
        + weights.tags * seen.tags
        + weights.graph * seen.graph
    )


def penalties(memory: Memory, superseded: Collection[str]) -> float:
    """The product of the penalties that apply; ``superseded`` has the ids whose successor is among the results."""
    penalty = SUPERSEDED_PENALTY if memory.event.event_id in superseded else 1.0
    return penalty * CONFLICT_PENALTY if memory.state.conflict_status == "active" else penalty


# The nine factors


def similarity(cosine: float | None, words: float, blended: float, by_words: float = 0.0) -> float:
    """(1 - by_words) · cosine, at least 0, + by_words · words. With ``by_words`` 0 it is the seed's cosine alone.

    Without a vector it is ``words`` alone, and without either the blended score (as in openclaw-cortex).
    """
    if cosine is None:
        return words or blended
    return (1 - by_words) * min(1.0, max(0.0, cosine)) + by_words * words


def graph_proximity(hops: int | None, share: float = 1.0) -> float:
    """1 for one hop from an entity of the query, .5 for two, .25 for more, 0 if unlinked; times ``share``.

    In openclaw-cortex hops never reach the score, so the factor is always 0. ``share`` makes a path through a rare name
    count more than one through a name that hundreds of memories mention.
    """
    if hops is None:
        return 0.0
    return (1.0 if hops <= 1 else 0.5 if hops == 2 else 0.25) * share


# Before ranking: fuse similar and linked memories


def fused(found: Matches) -> list[str]:
    """Both lists fused by reciprocal rank, 1/(60 + rank) with ranks from 1; ties by id."""
    return fused_keys(found.words, found.vectors)


def merged(
    similar: Iterable[str], links: Iterable[Link], similar_weight: float, graph_weight: float
) -> dict[str, float]:
    """By id, similar_weight/(60 + rank) + graph_weight/(60 + rank), ranks from 1: the seed's .6 and .4."""
    linked = ((link.id, link.rank) for link in links)
    return rank_fusion((ranked(similar), linked), (similar_weight, graph_weight))
