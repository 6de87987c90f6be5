"""Options of a store that walks a graph."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.options import number


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """The depth and width of a walk.

    ``hops`` between what a query names and a memory: one that mentions it is 1 away, one that mentions its neighbour 2.
    Seed 000 walks 2; a third brings in most of a small graph. ``fan_out`` is how many edges of one entity are walked,
    newest first; an entity with more mentions is a hub. ``similar_weight`` and ``graph_weight`` are what text search
    and the graph count in the fusion: seed 000's numbers, its vector list being our hybrid one.
    """

    hops: int = number(2, 1, 3)
    fan_out: int = number(64, 1, 10_000)
    similar_weight: float = number(0.6, 0, 1)
    graph_weight: float = number(0.4, 0, 1)
