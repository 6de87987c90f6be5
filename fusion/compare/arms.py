"""An arm: a recipe, and which backends it asks. What a person writes for one is read here, and nowhere else.

    arm      = recipe ["@" backends] | "@" backends | "all" | ("-" name)+
    backends = "all" | name ("+" name)* | ("-" name)+

`default`, `seed003@markdown+cortex`, `hook@-mem0`, `@markdown`, `all`, `-mem0-triples`: without a recipe it is the
home's own, without backends it is all of them, and `-` takes away from all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fusion.errors import BadInput
from fusion.recipe import Recipe

ALL_BACKENDS = "all"


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison; ``text`` is how it was written."""

    text: str
    recipe: Recipe
    backends: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ArmReader:
    """What arms can be made of: a home's recipes and backends, and the recipe of an arm that names none."""

    recipes: Mapping[str, Recipe]
    backends: Sequence[str]
    recipe: str

    def arms(self, a: str, b: str) -> tuple[Arm, Arm]:
        """Both arms of a comparison. Raises BadInput as `arm`, and where the two are one, however it is written."""
        one, other = self.arm("a", a), self.arm("b", b)
        if (one.recipe, one.backends) == (other.recipe, other.backends):
            recipe = next((name for name in sorted(self.recipes) if name != one.recipe.name), "")
            others = [recipe] * bool(recipe) + [f"-{name}" for name in self.backends[:1] if len(self.backends) > 1]
            fix = f": name another one, such as {' or '.join(others)}" if others else ""
            raise BadInput(f"both arms are {one.recipe.name} over {', '.join(one.backends)}{fix}")
        return one, other

    def arm(self, side: str, text: str) -> Arm:
        """The arm that ``text`` means. Raises BadInput, which names the arm ("a", "b") and what there is."""
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
        """The backends meant, in the home's order, so that two ways to write a choice are one arm."""
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
        """The names behind each `-`; a name may itself have hyphens, so the longest that fits is meant."""
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
