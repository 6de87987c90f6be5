"""Options of the cortex, checked when it is opened."""

from __future__ import annotations

from dataclasses import dataclass, field

from adapters.cortex.rank import Weights
from adapters.graph import Walking
from fusion.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Options(Walking):
    """``candidates`` is how many memories are looked at by words, by meaning and by the graph each, before they are
    ranked: seed 000's 50. ``by_words`` is what words count within the factor of similarity; 0 is the seed's cosine
    alone, which finds fewer of the turns that answer a question about a conversation. ``weights`` is a table of
    the nine factors, which must add up to 1. ``guarded`` merges a statement only into one that has all its words;
    without it a cosine of .80 is enough, as in the seed, and "prefers coffee" is lost beside "prefers tea"."""

    candidates: int = 50
    by_words: float = 0.5
    guarded: bool = True
    weights: Weights = field(default_factory=Weights)

    def __post_init__(self) -> None:
        Walking.__post_init__(self)
        self._within("candidates", 1, 1000)
        self._within("by_words", 0, 1)
        if not isinstance(self.guarded, bool):
            raise SettingsError(f"guarded = {self.guarded!r} must be true or false")
        if not isinstance(self.weights, Weights):
            object.__setattr__(self, "weights", Weights.of(self.weights))
