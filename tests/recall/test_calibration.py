"""Probabilities from scores: they follow the score, hold for one model and one recipe, and are absent otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from adapters.embedders.local import IDENTITY
from fusion.contract import Hit, Place
from fusion.lib.passages import SAID_CHARS
from fusion.local_models.registry import MODELS
from fusion.recall.calibration import calibration_of, missing, with_probabilities
from fusion.recall.pack import pack
from fusion.recall.rerank import Scored, nothing_fits
from fusion.recall.signals import SignalTable
from fusion.recipe import Learned, PackSettings, Recipe, RerankSettings
from fusion.recipe_files import recipes
from fusion.settings import load
from tests.recall.helpers import MINILM, WEIGHTS, pooled


def scored(*locals_: float, unit: str = "line", text: str = "words") -> tuple[Scored, ...]:
    """Memories with these scores, best first, each in a document of its own, with their probabilities."""
    table = SignalTable.of([{"bm25": 0.3, "length": 0.2, "speaker": 0.5, "fusion": 0.3} for _ in locals_])
    hits = [Hit(f"n{i}", text, place=Place(f"d{i}", 1, 1, unit)) for i in range(len(locals_))]  # type: ignore[arg-type]
    order = [Scored(pooled(f"n{i}", hits[i]), table, i, local) for i, local in enumerate(locals_)]
    return with_probabilities(order, MINILM)


def probabilities(order: tuple[Scored, ...]) -> list[float]:
    return [one.probability or 0.0 for one in order]


@pytest.mark.feature("each memory of an answer has the probability that it helps, at every door and in the receipt")
def test_probability_falls_with_the_score_and_depends_on_the_sort_of_memory() -> None:
    notes, turns = probabilities(scored(0.7, 0.5, 0.3)), probabilities(scored(0.7, 0.5, 0.3, unit="turn"))
    long_turns = probabilities(scored(0.7, 0.5, 0.3, unit="turn", text="x" * (SAID_CHARS + 1)))
    for found in (notes, turns, long_turns):
        assert 1 > found[0] > found[1] > found[2] > 0
    assert notes[0] > turns[0] > long_turns[0]


def test_memory_that_lacks_a_signal_has_no_probability() -> None:
    order = [replace_complete(one) if i else one for i, one in enumerate(scored(0.7, 0.5))]
    first, second = with_probabilities(order, MINILM)
    assert first.probability is not None
    assert second.probability is None
    assert with_probabilities((), MINILM) == ()


def replace_complete(one: Scored) -> Scored:
    return one._replace(complete=False, probability=None)


def test_calibration_holds_for_one_model_and_one_set_of_weights() -> None:
    numbers = RerankSettings(signals=WEIGHTS, calibrations=(MINILM,))
    assert calibration_of(numbers, MINILM.model) is MINILM
    others = (
        ("another@1", numbers, "there is no calibration for another@1, so the raw scores decide"),
        (
            MINILM.model,
            replace(numbers, signals={**WEIGHTS, "bm25": 9}),
            "there is no calibration for these weights, so the raw scores decide",
        ),
        (
            MINILM.model,
            replace(numbers, model=Learned("trees.txt", "0", None)),
            "there is no calibration for these weights, so the raw scores decide",
        ),
        ("", numbers, "no model compared the question with the memories, so the raw scores decide"),
    )
    for model, weights, why in others:
        assert calibration_of(weights, model) is None
        assert missing(weights, model) == why
    assert calibration_of(numbers, MINILM.model, "e5@1") is None
    assert missing(numbers, MINILM.model, "e5@1") == (
        f"there is no calibration for {MINILM.model} with e5@1, so the raw scores decide"
    )


def test_shipped_recipes_are_calibrated_for_the_model_that_comes_with_the_project() -> None:
    """Fails for new weights: measure whether the probabilities still hold before the calibration gets them."""
    shipped = recipes(load(home=Path("/nonexistent")))
    for name in ("default", "hook", "deep", "local-plus"):
        assert calibration_of(shipped[name].rerank, IDENTITY) is not None, name


@pytest.mark.feature("probabilities exist for MiniLM, e5, bge and local-plus with its second encoder")
def test_shipped_recipes_are_calibrated_for_each_english_model() -> None:
    shipped = recipes(load(home=Path("/nonexistent")))
    e5, bge = MODELS["e5-small-v2"].identity, MODELS["bge-small-en-v1.5"].identity
    for model in (e5, bge):
        assert calibration_of(shipped["default"].rerank, model) is not None, model
    assert calibration_of(shipped["local-plus"].rerank, IDENTITY, e5) is not None


@pytest.mark.feature("probabilities exist for words alone, too: each shipped recipe has a calibration for them")
def test_shipped_recipes_are_calibrated_for_words_alone() -> None:
    """Their weights there are others, so what was fitted with a model does not hold for them."""
    shipped = recipes(load(home=Path("/nonexistent")))
    for name in ("default", "hook", "deep", "local-plus"):
        numbers = shipped[name].rerank
        assert calibration_of(numbers.by_words, "") is not None, name
        assert calibration_of(numbers, "") is None
        assert numbers.by_words.signals["bm25"] > numbers.signals["bm25"]
        assert numbers.by_words.abstain_probability == 0 < numbers.abstain_probability


@pytest.mark.feature("floor_probability and abstain_probability of a recipe limit what is shown by its probability")
def test_floors_hold_for_probabilities() -> None:
    order = scored(0.6, 0.35)
    first, second = probabilities(order)
    floors = RerankSettings(floor_probability=(first + second) / 2)
    block = pack(order, PackSettings(), floors, "0123")
    assert list(block.decisions.values()) == ["packed", "below_floor"]
    assert not nothing_fits(order, floors)


def test_block_stays_empty_if_probably_neither_of_the_best_two_helps() -> None:
    order = scored(0.6, 0.35, 0.34)
    first, second, _ = probabilities(order)
    either = 1 - (1 - first) * (1 - second)
    assert not nothing_fits(order, RerankSettings(abstain_probability=either - 0.001))
    abstaining = RerankSettings(abstain_probability=either + 0.001)
    assert nothing_fits(order, abstaining)
    assert pack(order, PackSettings(), abstaining, "0123").text == ""
    assert not nothing_fits(order[:1], RerankSettings(abstain_probability=0.99))
    judged = [order[0]._replace(judge=9.0), *order[1:]]
    asked_for = [order[0]._replace(asked_for=True), *order[1:]]
    half = [order[0], *(one._replace(probability=None) for one in order[1:])]
    for others in (judged, asked_for, half):
        assert not nothing_fits(others, abstaining)


@pytest.mark.feature(
    "raw floors of a recipe apply only to memories without a probability, or if the recipe limits none"
)
def test_probabilities_decide_in_the_place_of_raw_scores() -> None:
    """So a recipe keeps its meaning with every model; one that has raw floors alone keeps that of before."""
    order = scored(0.6, 0.35)
    raw = RerankSettings(floor=0.5, abstain=0.7)
    assert nothing_fits(order, raw)
    assert [one.is_below(raw) for one in order] == [False, True]
    both = replace(raw, floor_probability=1e-6, abstain_probability=1e-6)
    assert not nothing_fits(order, both)
    assert [one.is_below(both) for one in order] == [False, False]


def test_memories_of_a_home_without_a_model_have_probabilities() -> None:
    """There the signals of a model are missing for all of them."""
    order = [replace_complete(one) for one in scored(0.6, 0.35)]
    by_words = with_probabilities(order, replace(MINILM, model=""))
    assert [one.probability is not None for one in by_words] == [True, True]


def test_raw_floors_hold_without_a_calibration() -> None:
    order = [one._replace(probability=None) for one in scored(0.6, 0.35)]
    assert nothing_fits(order, RerankSettings(abstain=0.7, abstain_probability=0.1))
    assert not nothing_fits(order, RerankSettings(abstain=0.5, abstain_probability=1.0))
    assert [one.is_below(RerankSettings(floor=0.4, floor_probability=1.0)) for one in order] == [False, True]


def test_recipes_without_probabilities_keep_their_hash() -> None:
    rerank = RerankSettings(floor=0.3)
    assert Recipe(rerank=rerank).hash == Recipe(rerank=replace(rerank, abstain_probability=0.0)).hash
    assert Recipe(rerank=rerank).hash != Recipe(rerank=replace(rerank, abstain_probability=0.2)).hash
