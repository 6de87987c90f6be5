"""Options of the cortex."""

from __future__ import annotations

from dataclasses import dataclass, field

from adapters.cortex.rank import Weights
from adapters.graph.options import WalkOptions
from adapters.options import number

REMOVED = ("guarded",)
"""options of earlier versions, which a home may still set; they have no effect"""


@dataclass(frozen=True, slots=True)
class Options(WalkOptions):
    """Options of a cortex, besides those of the graph walk.

    ``candidates``: memories from each of words, vectors and graph that are ranked (seed 000: 50). ``by_words``: share
    of BM25 in the similarity factor, 0 to 1; the seed uses 0, which finds fewer turns of a conversation. ``weights``:
    a table of the nine ranking factors; they add up to 1.
    """

    candidates: int = number(50, 1, 1000)
    by_words: float = number(0.5, 0, 1)
    weights: Weights = field(default_factory=Weights)

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Weights):
            object.__setattr__(self, "weights", Weights.of(self.weights))
