"""The options of `triples`, checked when it is opened."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.graph.options import WalkOptions


@dataclass(frozen=True, slots=True)
class Options(WalkOptions):
    """``hops`` is how often a walk passes from passages through names to other passages. An entity with more than
    ``fan_out`` mentions is a hub: no walk passes through it, and one that begins there sees its newest mentions.
    ``facts`` is how many of 100 hits may be facts: they are short and repeat what passages say in full."""

    facts: int = 20

    def __post_init__(self) -> None:
        WalkOptions.__post_init__(self)
        self._within("facts", 0, 100)
