"""Names of arms, and the subsets of backends."""

from __future__ import annotations

import pytest

from benchmarks.arms import ablations, check_names, parse, subsets
from benchmarks.datasets import DataError
from fusion.recipe import DedupSettings, ExpandSettings, GatherSettings, PackSettings, Recipe, RerankSettings

RECIPES = {"default": Recipe(), "hook": Recipe(name="hook")}


@pytest.mark.feature("… arms have the notation of `fusion compare`", of="benchmarks: a kept home holds")
def test_an_arm_name_is_a_recipe_and_backends() -> None:
    """Without backends it has all; with some it has them in the configured order; each name is one arm. Without a
    recipe it has the first one's, and `-` takes away, as `fusion compare` reads it."""
    names = ["default", "hook@b+a", "default", "hook@-b", "@b", "-a-b"]
    found = parse(names, RECIPES, ("a", "b", "c"))
    assert [(arm.name, arm.recipe.name, arm.backends) for arm in found] == [
        ("default", "default", ("a", "b", "c")),
        ("hook@b+a", "hook", ("a", "b")),
        ("hook@-b", "hook", ("a", "c")),
        ("@b", "default", ("b",)),
        ("-a-b", "default", ("c",)),
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("quick", r"arm 'quick': there is no recipe 'quick'; there are default, hook"),
        ("hook@a+d", r"arm 'hook@a\+d': there is no backend 'd'; there are a, b, c"),
        ("hook@", r"arm 'hook@': nothing follows the @"),
        ("-a-b-c", "leaves no backend to ask"),
    ],
)
def test_an_unknown_recipe_or_backend_is_named(name: str, message: str) -> None:
    """The error for an unknown name lists the existing ones."""
    with pytest.raises(DataError, match=message):
        parse([name], RECIPES, ("a", "b", "c"))


def test_check_names_names_an_unknown_one() -> None:
    """As for arms, so for baselines and conversations."""
    assert check_names(["x"], ["x", "y"], "baseline") == ("x",)
    with pytest.raises(DataError, match="no baseline is called 'z'; there are x, y"):
        check_names(["z"], ["x", "y"], "baseline")


def test_subsets_are_all_but_the_empty_one() -> None:
    """Of four there are 2⁴ - 1 = 15, small ones first."""
    found = subsets("abcd")
    assert (len(found), len(set(found)), found[0], found[-1]) == (15, 15, ("a",), ("a", "b", "c", "d"))


@pytest.mark.feature("a recipe with one thing left out at a time: an ablation is an arm")
def test_an_ablation_leaves_out_one_thing() -> None:
    """Each arm differs from the recipe in what it is called by; what is out already has no arm."""
    recipe = Recipe(rerank=RerankSettings(signals={"bm25": 2, "date": 1, "dense": 0}, floor=0.3, sub_questions=4))
    found = {arm.name: arm.recipe for arm in ablations(recipe, ("a", "b"))}
    signals = {"bm25": 2, "date": 1, "dense": 0}
    assert found == {
        "without bm25": Recipe(rerank=RerankSettings(signals={"date": 1, "dense": 0}, floor=0.3, sub_questions=4)),
        "without date": Recipe(rerank=RerankSettings(signals={"bm25": 2, "dense": 0}, floor=0.3, sub_questions=4)),
        "without sub-questions": Recipe(rerank=RerankSettings(signals=signals, floor=0.3)),
        "without floor": Recipe(rerank=RerankSettings(signals=signals, sub_questions=4)),
        "without neighbours": Recipe(rerank=recipe.rerank, expand=ExpandSettings(span=0)),
        "depth 30": Recipe(rerank=recipe.rerank, gather=GatherSettings(depth=30)),
        "without guards": Recipe(rerank=recipe.rerank, dedup=DedupSettings(guarded=False)),
        "without excerpts": Recipe(rerank=recipe.rerank, pack=PackSettings(excerpts=False)),
    }
