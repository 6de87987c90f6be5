"""The options of `triples`."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.graph.options import WalkOptions
from adapters.options import number


@dataclass(frozen=True, slots=True)
class Options(WalkOptions):
    """``hops`` is how often a walk passes from passages through names to other passages. An entity with more than
    ``fan_out`` mentions is a hub: no walk passes through it, and one that begins there sees its newest mentions.
    ``facts`` is how many of 100 hits may be facts: they are short and repeat what passages say in full."""

    facts: int = number(20, 0, 100)
