"""Reciprocal rank fusion (`fusion.lib.rank_fusion`) of the candidates over the backends.

A backend has one vote per memory: its best rank of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fusion.lib.rank_fusion import highest, reciprocal
from fusion.recall.dedup import Candidate
from fusion.recipe import FuseSettings


class Ranked(NamedTuple):
    """A candidate with its RRF score: the sum of ``parts``, one per backend that found it."""

    candidate: Candidate
    score: float
    parts: Mapping[str, float]


def rrf(candidates: Sequence[Candidate], numbers: FuseSettings) -> tuple[Ranked, ...]:
    """The candidates by RRF score, best first; ties go to the smaller ref."""
    ranked = []
    for candidate in candidates:
        parts: dict[str, float] = {}
        for source_hit in candidate.source_hits:
            vote = reciprocal(source_hit.rank, numbers.weights.get(source_hit.backend, 1.0), numbers.k)
            parts[source_hit.backend] = max(vote, parts.get(source_hit.backend, 0.0))
        ranked.append(Ranked(candidate, sum(parts.values()), parts))
    return tuple(sorted(ranked, key=lambda r: (-r.score, r.candidate.ref)))


def ceiling(backends: Sequence[str], numbers: FuseSettings) -> float:
    """The highest possible RRF score when ``backends`` answer: first place in each."""
    return highest([numbers.weights.get(name, 1.0) for name in backends], numbers.k)
