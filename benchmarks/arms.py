"""Arms: recipes over sets of backends, named as on a command line (`fusion.compare.arms` parses the names)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from benchmarks.datasets import DataError
from fusion.compare.arms import ArmReader
from fusion.errors import BadInput
from fusion.recipe import Recipe

BASELINES = ("bm25", "dense", "rrf", "handset", "mem0", "mnemostack")
"""measured in the same run: see `benchmarks.baselines`"""

SHALLOW_DEPTH = 30
"""hits asked of each backend where the deep pool is left out"""


@dataclass(frozen=True, slots=True)
class Arm:
    name: str
    recipe: Recipe
    backends: tuple[str, ...]


def parse(names: Sequence[str], recipes: Mapping[str, Recipe], backends: Sequence[str]) -> tuple[Arm, ...]:
    """The arms of these names, each once; one without a recipe has that of the first, or the default.

    Raises DataError for an unknown recipe or backend, naming it.
    """
    main = names[0].partition("@")[0]
    choice = ArmReader(recipes, backends, main if main in recipes else "default")
    found: dict[str, Arm] = {}
    for name in names:
        try:
            read = choice.arm(repr(name), name)
        except BadInput as error:
            raise DataError(str(error)) from None
        found[name] = Arm(name, read.recipe, read.backends)
    return tuple(found.values())


def check_names(names: Sequence[str], among: Sequence[str], what: str) -> tuple[str, ...]:
    """``names`` if each is ``among`` those. Raises DataError, naming the one that is not."""
    for name in names:
        if name not in among:
            raise DataError(f"no {what} is called {name!r}; there are {', '.join(among)}")
    return tuple(names)


def subsets(backends: Sequence[str]) -> list[tuple[str, ...]]:
    """Every set of one or more backends, small ones first."""
    return [chosen for size in range(1, len(backends) + 1) for chosen in combinations(backends, size)]


def ablations(recipe: Recipe, backends: Sequence[str]) -> tuple[Arm, ...]:
    """Arms of the recipe with one part left out each."""
    rerank, backends = recipe.rerank, tuple(backends)
    without = {
        name: replace(rerank, signals={n: weight for n, weight in rerank.signals.items() if n != name})
        for name, weight in rerank.signals.items()
        if weight
    }
    without["graph boost"] = replace(rerank, graph_boost=0.0)
    without["second hop"] = replace(rerank, named_boost=0.0)
    without["sub-questions"] = replace(rerank, sub_questions=1)
    without["floor"] = replace(rerank, floor=0.0)
    without["abstain"] = replace(rerank, abstain=0.0, abstain_probability=0.0)
    changed = {f"without {name}": replace(recipe, rerank=other) for name, other in without.items()}
    shallow = min(SHALLOW_DEPTH, recipe.gather.depth)
    changed |= {
        "without neighbours": replace(recipe, expand=replace(recipe.expand, span=0)),
        f"depth {shallow}": replace(recipe, gather=replace(recipe.gather, depth=shallow, max_depth=0)),
        "without guards": replace(recipe, dedup=replace(recipe.dedup, guarded=False)),
        "without cut": replace(recipe, pack=replace(recipe.pack, fill=True)),
        "without excerpts": replace(recipe, pack=replace(recipe.pack, excerpts=False)),
    }
    return tuple(Arm(name, other, backends) for name, other in changed.items() if other != recipe)


def single_and_without(main: Arm, backends: Sequence[str]) -> list[Arm]:
    """Arms of each scattered store alone, and of all but each."""
    alone = [Arm(f"only {name}", main.recipe, (name,)) for name in backends]
    return alone + [Arm(f"without {name}", main.recipe, tuple(n for n in backends if n != name)) for name in backends]


def full_store_arms(main: Arm, backends: Sequence[str]) -> list[Arm]:
    """Arms of each store that holds everything."""
    return [Arm(f"all in {name}", main.recipe, (name,)) for name in backends]
