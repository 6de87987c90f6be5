"""Expansion of the ranked candidates into a pool: what happened then and neighbours join, after filter and dedup.

Neighbours come from the journal, which has every event in its order, or from a backend that `FindsNeighbours`. This
stage gets them as an argument and decides which are new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fusion.lib.passages import Span
from fusion.recall.dedup import Candidate, join
from fusion.recall.filter import Admitted
from fusion.recall.rrf import Ranked
from fusion.recipe import DedupSettings, ExpandSettings


class Pooled(NamedTuple):
    """A memory of the pool, or a passage of a long one (`fusion.recall.long_memories`).

    A neighbour has the ref of its candidate in ``neighbour_of``, and an ``rrf`` of 0.
    """

    candidate: Candidate
    rrf: float
    parts: Mapping[str, float]
    neighbour_of: str | None = None
    passage: Span | None = None
    """the part of the memory's text that the candidate's hit has; None if it has all of it"""

    @property
    def ref(self) -> str:
        return self.candidate.ref

    @property
    def key(self) -> str:
        """The memory's ref, of a passage with its beginning: no two entries of a pool have the same."""
        return self.ref if self.passage is None else f"{self.ref}:{self.passage.start}"


def expand(
    ranked: Sequence[Ranked],
    neighbours: Mapping[str, Sequence[Admitted]],
    numbers: ExpandSettings,
    rules: DedupSettings,
    happened: Sequence[Admitted] = (),
) -> tuple[Pooled, ...]:
    """The ranked candidates, then their new neighbours in the candidates' order; at most ``numbers.max_pool``.

    ``neighbours`` has each candidate's neighbours, by its ref. Between both comes what ``happened`` in a time that the
    query names and no backend found; it has an ``rrf`` of 0, too.
    """
    pool = [Pooled(r.candidate, r.score, r.parts) for r in ranked[: numbers.max_pool]]
    finds = {entry.candidate.ref for entry in pool}
    neighbour_of: dict[str, str | None] = {}
    others = []
    for item in happened:
        if item.ref not in finds and item.ref not in neighbour_of:
            neighbour_of[item.ref] = None
            others.append((item.ref, item.hit))
    for entry in pool:
        for item in neighbours.get(entry.candidate.ref, ()):
            if item.ref not in finds and item.ref not in neighbour_of:
                neighbour_of[item.ref] = entry.candidate.ref
                others.append((item.ref, item.hit))
    new = join([entry.candidate for entry in pool], others, rules)
    pool += [Pooled(candidate, 0.0, {}, neighbour_of[candidate.ref]) for candidate in new]
    return tuple(pool[: numbers.max_pool])
