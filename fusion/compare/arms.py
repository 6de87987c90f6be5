"""Arms of a comparison: a recipe and the backends it asks, read from what a user writes.

    arm      = recipe ["@" backends] | "@" backends | "all" | ("-" name)+
    backends = "all" | name ("+" name)* | ("-" name)+

Examples: `default`, `seed003@markdown+cortex`, `hook@-mem0`, `@markdown`, `all`, `-mem0-triples`. Without a recipe the
arm has the home's own, without backends all of them; `-` removes backends from all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fusion.errors import BadInput
from fusion.recipe import Recipe

ALL_BACKENDS = "all"


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison; ``text`` is what the user wrote."""

    text: str
    recipe: Recipe
    backends: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArmReader:
    """Reads arms for a home with these recipes and backends; ``recipe`` is the one of an arm that names none."""

    recipes: Mapping[str, Recipe]
    backends: Sequence[str]
    recipe: str

    def arms(self, a: str, b: str) -> tuple[Arm, Arm]:
        """Both arms of a comparison. Raises BadInput as `arm` does, and if both are the same."""
        one, other = self.arm("a", a), self.arm("b", b)
        if (one.recipe, one.backends) == (other.recipe, other.backends):
            recipe = next((name for name in sorted(self.recipes) if name != one.recipe.name), "")
            others = [recipe] * bool(recipe) + [f"-{name}" for name in self.backends[:1] if len(self.backends) > 1]
            fix = f": name another one, such as {' or '.join(others)}" if others else ""
            raise BadInput(f"both arms are {one.recipe.name} over {', '.join(one.backends)}{fix}")
        return one, other

    def arm(self, side: str, text: str) -> Arm:
        """The arm of this text. Raises BadInput, which names the side ("a", "b") and the possible values."""
        text = text.strip()
        if not text:
            raise BadInput(f"arm {side} is empty: write a recipe, @backends, all, or -backend")
        recipe, at, backends = text.partition("@")
        if not at and (text == ALL_BACKENDS or text.startswith("-")):
            recipe, backends = "", text
        elif at and not backends:
            raise BadInput(f"arm {side}: nothing follows the @; {self._backends()}")
        return Arm(text, self._recipe(side, recipe), self._chosen(side, backends or ALL_BACKENDS))

    def _recipe(self, side: str, name: str) -> Recipe:
        found = self.recipes.get(name or self.recipe)
        if found is None:
            there = f"there are {', '.join(sorted(self.recipes))}"
            fix = f"; backends are written @{name}" if {*name.split("+")} <= {*self.backends} else ""
            raise BadInput(f"arm {side}: there is no recipe {name[:64]!r}; {there}{fix}")
        return found

    def _chosen(self, side: str, text: str) -> tuple[str, ...]:
        """The chosen backends in the home's order, so that two spellings of a choice are equal."""
        if text == ALL_BACKENDS:
            return tuple(self.backends)
        if text.startswith("-"):
            gone = self._taken_away(side, text)
            left = tuple(name for name in self.backends if name not in gone)
            if not left:
                raise BadInput(f"arm {side}: {text} leaves no backend to ask")
            return left
        named = text.split("+")
        for name in named:
            if name not in self.backends:
                raise self._unknown(side, name)
        return tuple(name for name in self.backends if name in named)

    def _taken_away(self, side: str, text: str) -> set[str]:
        """The names after each `-`; names may contain hyphens, so the longest match counts."""
        gone: set[str] = set()
        while text:
            rest = text.removeprefix("-")
            fitting = [name for name in self.backends if rest == name or rest.startswith(name + "-")]
            if not fitting:
                raise self._unknown(side, rest)
            name = max(fitting, key=len)
            gone.add(name)
            text = rest.removeprefix(name)
        return gone

    def _unknown(self, side: str, name: str) -> BadInput:
        return BadInput(f"arm {side}: there is no backend {name[:64]!r}; {self._backends()}")

    def _backends(self) -> str:
        return f"there are {', '.join(self.backends)}"
