"""Ranked → Pool: what stands beside a find joins the pool, through the same filter and dedup.

Neighbours come from the journal, which has every event in its order, or from a backend that `FindsNeighbours`; this
stage is handed them and only decides which are new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fusion.recall.dedup import Candidate, join
from fusion.recall.filter import Admitted
from fusion.recall.rrf import Ranked
from fusion.recipe import DedupSettings, ExpandSettings


class Pooled(NamedTuple):
    """A memory of the pool. ``rrf`` is 0 and ``neighbour_of`` names the find where it came in as a neighbour."""

    candidate: Candidate
    rrf: float
    parts: Mapping[str, float]
    neighbour_of: str | None = None

    @property
    def ref(self) -> str:
        return self.candidate.ref


def expand(
    ranked: Sequence[Ranked],
    neighbours: Mapping[str, Sequence[Admitted]],
    numbers: ExpandSettings,
    rules: DedupSettings,
) -> tuple[Pooled, ...]:
    """Every ranked candidate, then its new neighbours, in the candidates' order; at most ``numbers.max_pool``.

    ``neighbours`` has, by ref, what stands beside each candidate.
    """
    pool = [Pooled(r.candidate, r.score, r.parts) for r in ranked[: numbers.max_pool]]
    finds = {entry.candidate.ref for entry in pool}
    neighbour_of: dict[str, str] = {}
    others = []
    for entry in pool:
        for item in neighbours.get(entry.candidate.ref, ()):
            if item.ref not in finds and item.ref not in neighbour_of:
                neighbour_of[item.ref] = entry.candidate.ref
                others.append((item.ref, item.hit))
    new = join([entry.candidate for entry in pool], others, rules)
    pool += [Pooled(candidate, 0.0, {}, neighbour_of[candidate.ref]) for candidate in new]
    return tuple(pool[: numbers.max_pool])
