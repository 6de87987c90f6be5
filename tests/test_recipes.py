"""Recipes: every number that changes a result, checked, hashed, and for `seed003` the seed's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from fusion.calibration import Calibration, SortWeights, weights_hash
from fusion.errors import SettingsError
from fusion.gateway.bootstrap import checked
from fusion.home import config_root
from fusion.lib.budget import MAX_BUDGET_CHARS, Budget
from fusion.lib.gbdt import Trees, digest
from fusion.recall.calibration import calibration_of
from fusion.recall.signals import SIGNALS
from fusion.recipe import Learned, Recipe, RerankSettings
from fusion.recipe_files import calibrations_of, read_recipe, recipes
from fusion.settings import load
from tests.lib.test_gbdt import MODEL

SHIPPED = {file.stem: read_recipe(file) for file in (config_root() / "recipes").glob("*.toml")}


def read(folder: Path, text: str) -> Recipe:
    file = folder / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return read_recipe(file)


def other(value: Any) -> Any:
    """A value of the same type that is another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return "always" if value == "never" else "never"
    if value is None:
        return Learned("mine.txt", "0123", Trees((), 1.0, 0.0, 0, *[np.zeros(0)] * 7))
    if isinstance(value, tuple):
        return (Calibration("a@1", weights_hash({}), of_home=True),)
    return {**value, "fusion": 0.5}


def variants() -> Iterator[Any]:
    """The default recipe with each of its numbers changed, one at a time."""
    default = Recipe()
    for part in fields(Recipe):
        value = getattr(default, part.name)
        if is_dataclass(value):
            for number in fields(value):
                given = ("use_boost",) if number.name == "factors" else other(getattr(value, number.name))
                changed = replace(value, **{number.name: given})  # type: ignore[type-var]
                yield pytest.param(replace(default, **{part.name: changed}), id=f"{part.name}.{number.name}")


class TestShipped:
    def test_ten_of_them_with_signals_that_exist(self, home: Path) -> None:
        """`hook`, `default`, `deep`, `local-plus` and one for each seed load in any home."""
        found = recipes(load(home=home))
        seeds = {"seed000-hook", *(f"seed00{n}" for n in range(5))}
        assert set(found) == {"hook", "default", "deep", "local-plus", *seeds}
        assert checked(found) == found
        assert all(found[name].name == name for name in found)
        assert len({recipe.hash for recipe in found.values()}) == 10

    @pytest.mark.row(
        "A007", "A024", "`seed000` ranks by the seed's nine weights and two penalties; its hook waits 100 ms"
    )
    def test_seed000_has_the_seeds_numbers(self) -> None:
        """The weights add up to 1: .45 + .08 + .05 + .10 + .08 + .07 + .07 + .05 + .05 = 1."""
        seed, hook = SHIPPED["seed000"], SHIPPED["seed000-hook"]
        assert list(seed.rerank.signals.values()) == [0.45, 0.08, 0.05, 0.1, 0.08, 0.07, 0.07, 0.05, 0.05]
        assert sum(seed.rerank.signals.values()) == pytest.approx(1.0)
        assert seed.rerank.penalties == hook.rerank.penalties == {"superseded": 0.3, "conflict": 0.8}
        assert (seed.rerank.judge_timeout_ms, hook.rerank.judge_timeout_ms) == (3000, 100)
        assert (seed.rerank.gate_top, seed.rerank.gate_spread, seed.gather.depth) == (4, 0.15, 50)
        assert hook.rerank.signals == seed.rerank.signals

    @pytest.mark.row("A147", "`seed004` ranks by relevance times weight, decay, use and state; no other recipe does")
    def test_seed004_has_the_seeds_factors(self) -> None:
        factors = ("importance_weight", "recency_decay", "use_boost", "state_gate")
        assert SHIPPED["seed004"].rerank.factors == factors
        assert all(not recipe.rerank.factors for name, recipe in SHIPPED.items() if name != "seed004")

    @pytest.mark.row("A116", "A117", "A118", "`seed003` has exactly the seed's numbers")
    def test_seed003_has_the_seeds_numbers(self) -> None:
        """Jaccard .6 unguarded, RRF alone, the judge always and alone, 8 single memories in 6,000 characters."""
        seed = SHIPPED["seed003"]
        assert (seed.dedup.jaccard, seed.dedup.guarded) == (0.6, False)
        assert (seed.fuse.k, dict(seed.fuse.weights)) == (60, {})
        assert dict(seed.rerank.signals) == {"fusion": 1}
        assert seed.expand.span == 0
        assert (seed.rerank.judge, seed.rerank.judge_weight) == ("always", 1.0)
        assert (seed.rerank.floor, seed.rerank.abstain, seed.rerank.judge_floor) == (0, 0, 0)
        assert (seed.pack.budget_chars, seed.pack.max_results, seed.pack.excerpts) == (6000, 8, False)

    def test_the_judge_of_seed003_sees_everything_that_may_be_packed(self) -> None:
        """The seed scores each result: the head is no shorter than what three stores of depth ten can bring."""
        assert SHIPPED["seed003"].rerank.head >= 3 * SHIPPED["seed003"].gather.depth

    @pytest.mark.row("A096", "A154", "the recipe `hook` has 200 ms and never asks a language model")
    def test_the_hook_is_quick(self) -> None:
        """200 ms end to end, and never a call to a language model."""
        assert SHIPPED["hook"].gather.timeout_ms == 200
        assert SHIPPED["hook"].rerank.judge == "never"

    @pytest.mark.parametrize("name", sorted(SHIPPED))
    def test_k_is_60(self, name: str) -> None:
        """RRF as published, and the word-set similarity of seed 003, in each recipe."""
        assert SHIPPED[name].fuse.k == 60
        assert SHIPPED[name].dedup.jaccard == 0.6

    @pytest.mark.parametrize("name", ["deep", "default", "hook", "local-plus", "seed003"])
    def test_the_block_has_8_results_in_6000_characters(self, name: str) -> None:
        """The numbers of seed 003, without a limit in tokens."""
        pack = SHIPPED[name].pack
        assert (pack.budget_chars, pack.budget_tokens, pack.max_results, pack.max_items) == (6000, 0, 8, 0)
        assert (pack.snippet_chars, pack.format) == (0, "fence")

    @pytest.mark.row("A096", "A155", "the recipes of the seeds have the seeds' budgets")
    @pytest.mark.parametrize(
        ("name", "tokens", "items", "block_format"),
        [("seed000", 2000, 0, "cortex"), ("seed002", 500, 15, "long-term"), ("seed004", 1200, 12, "context-pack")],
    )
    def test_three_seeds_count_tokens(self, name: str, tokens: int, items: int, block_format: str) -> None:
        """2,000 tokens; 500 tokens and 15 facts; 1,200 tokens and 12 items: no other limit binds, and each is alone."""
        pack = SHIPPED[name].pack
        assert (pack.budget_tokens, pack.max_items, pack.format) == (tokens, items, block_format)
        assert pack.budget == Budget(MAX_BUDGET_CHARS, tokens)
        assert (pack.max_results, pack.excerpts) == (items or 100, False)

    @pytest.mark.row("A155", "A076", "the recipe `seed001` shows 700 characters of each of six memories")
    def test_seed001_shows_snippets(self) -> None:
        pack = SHIPPED["seed001"].pack
        assert (pack.snippet_chars, pack.max_results, pack.excerpts) == (700, 6, False)

    @pytest.mark.row("A023", "A025", "the recipe `seed000` asks the judge by the seed's gate, about ten memories")
    def test_seed000_has_the_seeds_gate(self) -> None:
        """A spread of at most .15 among the best four; the judge decides the order of what it sees."""
        rerank = SHIPPED["seed000"].rerank
        assert (rerank.judge, rerank.gate_top, rerank.gate_spread) == ("gate", 4, 0.15)
        assert (rerank.head, rerank.judge_weight, rerank.judge_floor) == (10, 1.0, 0.0)
        assert SHIPPED["seed000"].gather.depth == 50

    @pytest.mark.row("A096", "the recipe `seed002` answers within 200 ms and asks no language model")
    def test_seed002_is_quick(self) -> None:
        assert SHIPPED["seed002"].gather.timeout_ms == 200
        assert SHIPPED["seed002"].rerank.judge == "never"

    @pytest.mark.parametrize("name", ["hook", "deep"])
    def test_signals_are_those_of_the_default(self, name: str) -> None:
        """The files say "as in default.toml"."""
        assert SHIPPED[name].rerank.signals == SHIPPED["default"].rerank.signals
        assert SHIPPED[name].rerank.floor == SHIPPED["default"].rerank.floor
        assert SHIPPED[name].rerank.abstain == SHIPPED["default"].rerank.abstain


class TestOnesOwn:
    def test_what_is_left_out_is_the_default(self, tmp_path: Path) -> None:
        """One line makes a recipe, named after its file."""
        recipe = read(tmp_path, "[fuse.weights]\nmarkdown = 2\n")
        assert recipe == replace(Recipe(), name="mine", fuse=replace(Recipe().fuse, weights={"markdown": 2.0}))

    def test_the_homes_own_win_over_the_shipped(self, home: Path) -> None:
        """Shipped < `recipes/` in the home < `recipes_folder`."""
        for folder, depth in ((home / "recipes", 7), (home.parent / "more", 8)):
            folder.mkdir(parents=True)
            (folder / "deep.toml").write_text(f"[gather]\ndepth = {depth}\n", encoding="utf-8")
        assert recipes(load(home=home))["deep"].gather.depth == 7
        assert recipes(load(home=home, recipes_folder=home.parent / "more"))["deep"].gather.depth == 8

    def test_an_unknown_one_lists_what_there_is(self, home: Path) -> None:
        """`recipe = "fast"`."""
        with pytest.raises(SettingsError, match="'fast': there are deep, default, hook, local-plus, seed000"):
            recipes(load(home=home, recipe="fast"))

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            ("gahter = 1", "gahter: there is no such number"),
            ("[gather]\ndpeth = 1", "gather.dpeth: there is no such number"),
            ("[gather]\ndepth = 'deep'", "gather.depth: "),
            ("[gather]\ndepth = -1", "gather.depth = -1 is negative"),
            ("[rerank]\njudge = 'maybe'", "rerank.judge: "),
            ("[rerank]\nfloor = nan", "rerank.floor: "),
            ("[pack]\nbudget_tokens = -1", "pack.budget_tokens = -1 is negative"),
            ("[pack]\nformat = 'xml'", "pack.format: "),
            ("[rerank.signals]\nbm25 = -0.5", "rerank.signals.bm25 = -0.5 is negative"),
            ("[rerank.signals]\nbm25 = inf", "rerank.signals.bm25: "),
            ("[fuse.weights]\nmarkdown = -1", "fuse.weights.markdown = -1.0 is negative"),
            ("[rerank", "is not TOML"),
        ],
    )
    def test_a_mistake_is_named(self, tmp_path: Path, text: str, named: str) -> None:
        """A misspelt number would silently keep its default: the key and the file are told instead."""
        with pytest.raises(SettingsError) as caught:
            read(tmp_path, text)
        assert named in str(caught.value)
        assert str(tmp_path / "mine.toml") in str(caught.value)

    def test_a_misspelt_signal_is_named(self, tmp_path: Path) -> None:
        """It would weigh nothing; the signals that there are stand beside."""
        with pytest.raises(SettingsError) as caught:
            checked({"mine": read(tmp_path, "[rerank.signals]\nbm52 = 1\n")})
        assert "recipe mine: no signal is called 'bm52'" in str(caught.value)
        assert all(name in str(caught.value) for name in SIGNALS)

    @pytest.mark.feature("a recipe with the signal names and keys of an earlier version is read as before")
    @pytest.mark.parametrize(
        ("earlier", "current"),
        [
            ("[rerank]\nlift = 0.3\n", "[rerank]\ngraph_boost = 0.3\n"),
            ("[rerank]\nparts = 4\n", "[rerank]\nsub_questions = 4\n"),
            ("[rerank.signals]\nown = 6\n", "[rerank.signals]\nsimilarity = 6\n"),
            ("[rerank.signals]\nagreement = 1\n", "[rerank.signals]\nfusion = 1\n"),
            ("[rerank.signals]\nlinked = 2\n", "[rerank.signals]\ngraph = 2\n"),
        ],
    )
    def test_an_earlier_name_is_read_as_the_current_one(self, tmp_path: Path, earlier: str, current: str) -> None:
        """Both texts give the same recipe, with the same hash."""
        assert read(tmp_path, earlier) == read(tmp_path, current) != replace(Recipe(), name="mine")

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            ("[rerank]\nlift = 0.3\ngraph_boost = 0.2\n", "lift is called graph_boost now, and both are given"),
            ("[rerank.signals]\nown = 6\nsimilarity = 5\n", "own is called similarity now, and both are given"),
        ],
    )
    def test_both_names_of_one_number_are_refused(self, tmp_path: Path, text: str, named: str) -> None:
        """One of the two values would silently lose."""
        with pytest.raises(SettingsError, match=named):
            read(tmp_path, text)

    def test_a_model_trained_on_earlier_signal_names_still_scores(self, tmp_path: Path) -> None:
        """The hash is that of the file, which keeps its names; the trees read the current signals."""
        text = MODEL.replace("dense", "own")
        (tmp_path / "learned.txt").write_text(text, encoding="utf-8")
        model = read(tmp_path, f'[rerank]\nmodel = "learned.txt"\nmodel_hash = "{digest(text)}"\n').rerank.model
        assert model is not None
        assert model.trees is not None
        assert "similarity" in model.trees.names
        assert "own" not in model.trees.names

    def test_a_signal_of_the_first_versions_gets_a_hint(self, tmp_path: Path) -> None:
        """`alone` had another scale than `similarity`, so the user decides its weight anew."""
        with pytest.raises(SettingsError, match="write similarity"):
            checked({"mine": read(tmp_path, "[rerank.signals]\nalone = 6\n")})

    def test_a_model_of_other_signals_leaves_it_to_the_weights(self) -> None:
        """Each of its signals that is not there any more would be missing from every memory."""
        for name, usable in (("similarity", True), ("alone", False)):
            model = Learned("learned.txt", "ab", Trees.parse(MODEL.replace("dense", name)))
            recipe = Recipe(rerank=RerankSettings(model=model))
            found = checked({"mine": recipe})["mine"].rerank.model
            assert found is not None
            assert (found.trees is not None) == usable
            assert ("'alone'" in found.fault) != usable


class TestHash:
    @pytest.mark.feature("each number of a recipe changes the hash in its receipts")
    @pytest.mark.parametrize("changed", list(variants()))
    def test_each_number_changes_it(self, changed: Recipe) -> None:
        """Whatever changes a result changes the hash in its receipt."""
        assert changed.hash != Recipe().hash

    def test_hashes_of_recipes_are_those_of_before(self) -> None:
        """Receipts and results of earlier versions name them: a number that was added counts only where it is used."""
        assert Recipe().hash == "73a65b4396a0"

    def test_the_name_does_not(self) -> None:
        """Two recipes with the same numbers give the same result, whatever they are called."""
        assert replace(Recipe(), name="other").hash == Recipe().hash

    def test_the_order_in_the_file_does_not(self, tmp_path: Path) -> None:
        """Nor whether a number is written 1 or 1.0."""
        first = read(tmp_path, "[rerank.signals]\nbm25 = 1\nspeaker = 2\n")
        second = read(tmp_path, "[rerank.signals]\nspeaker = 2.0\nbm25 = 1.0\n")
        assert first.hash == second.hash
        assert len(first.hash) == 12


class TestCalibrations:
    CURVE: ClassVar[str] = 'model = "mine@1"\nweights = "67f2b58d0eff"\n[note]\nbias = -3\nscore = 6\n'

    def test_each_shipped_one_holds_for_a_shipped_recipe(self, home: Path) -> None:
        """Each file says on what it was fitted, and no two are for the same models and weights."""
        numbers = [one for recipe in SHIPPED.values() for one in (recipe.rerank, recipe.rerank.by_words)]
        weights = {one.weights_hash for one in numbers}
        found = calibrations_of(config_root() / "recipes")
        assert found
        assert {one.weights for one in found} <= weights
        assert all(one.fitted_on and one.sorts for one in found)
        assert len({(one.model, one.second, one.weights) for one in found}) == len(found)
        assert all(recipe.rerank.calibrations == tuple(found) for recipe in recipes(load(home=home)).values())

    @pytest.mark.feature("a calibration in the home overrides the shipped one")
    def test_the_homes_own_is_found_first(self, home: Path) -> None:
        """It changes the hash of the recipes for whose weights it is, as receipts show other probabilities."""
        before = recipes(load(home=home))
        (home / "recipes").mkdir(parents=True)
        (home / "recipes" / "mine.calibration").write_text(self.CURVE, encoding="utf-8")
        after = recipes(load(home=home))
        own = calibration_of(after["default"].rerank, "mine@1")
        assert own is not None
        assert (own.note, own.turn) == (SortWeights(-3, 6), None)
        assert calibration_of(before["default"].rerank, "mine@1") is None
        assert {name for name, recipe in after.items() if recipe.hash != before[name].hash} == {
            name for name, recipe in SHIPPED.items() if recipe.rerank.weights_hash == "67f2b58d0eff"
        }

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            ("[note", "is not TOML"),
            ('weights = "67f2b58d0eff"', "model: "),
            (CURVE + "scroe = 2\n", "note.scroe: "),
            (CURVE.replace("-3", "inf"), "note.bias: "),
        ],
    )
    def test_a_mistake_in_its_file_is_named(self, home: Path, text: str, named: str) -> None:
        file = home / "recipes" / "mine.calibration"
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
        with pytest.raises(SettingsError) as caught:
            recipes(load(home=home))
        assert named in str(caught.value)
        assert str(file) in str(caught.value)

    def test_a_recipe_has_none_in_its_own_file(self, tmp_path: Path) -> None:
        with pytest.raises(SettingsError, match="a calibration is a file of its own"):
            read(tmp_path, "[rerank]\ncalibrations = []\n")
