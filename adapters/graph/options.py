"""Options of a store that walks a graph, checked when it is opened."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

from fusion.contract import Opening
from fusion.errors import SettingsError
from fusion.lib.did_you_mean import hint


@dataclass(frozen=True, slots=True)
class WalkOptions:
    """The depth and width of a walk.

    ``hops`` between what a query names and a memory: one that mentions it is 1 away, one that mentions its neighbour 2.
    Seed 000 walks 2; a third brings in most of a small graph. ``fan_out`` is how many edges of one entity are walked,
    newest first; an entity with more mentions is a hub. ``similar_weight`` and ``graph_weight`` are what text search
    and the graph count in the fusion: seed 000's numbers, its vector list being our hybrid one.
    """

    hops: int = 2
    fan_out: int = 64
    similar_weight: float = 0.6
    graph_weight: float = 0.4

    def __post_init__(self) -> None:
        self._within("hops", 1, 3)
        self._within("fan_out", 1, 10_000)
        self._within("similar_weight", 0, 1)
        self._within("graph_weight", 0, 1)

    @classmethod
    def of(cls, opening: Opening) -> Self:
        """The options of an opening. Raises ``SettingsError`` that names the option and its valid values."""
        allowed = [field.name for field in fields(cls)]
        for name in opening.options:
            if name not in allowed:
                only = f"only: {', '.join(allowed)}{hint(name, allowed)}"
                raise SettingsError(f"[backends.{opening.name}] has no option {name!r}, {only}")
        try:
            return cls(**opening.options)  # type: ignore[arg-type]  # each value is checked in __post_init__
        except SettingsError as error:
            raise SettingsError(f"[backends.{opening.name}] {error}") from None

    def _within(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        whole = isinstance(type(self).__dataclass_fields__[name].default, int)
        fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
        if not fits or not low <= value <= high:
            raise SettingsError(f"{name} = {value!r} must be a {'whole ' * whole}number from {low} to {high}")
