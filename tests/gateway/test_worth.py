"""Votes on recipes, and the log of what backends were."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fusion.gateway.measures import ModelUse
from fusion.gateway.worth import votes_on_recipes
from fusion.lib.wilson import interval

NOW = datetime(2026, 3, 14, tzinfo=UTC)


def labels(recipe: str, useful: int, useless: int) -> list[dict[str, Any]]:
    votes = [True] * useful + [False] * useless
    return [
        {"receipt_id": f"{recipe}{n}", "useful": vote, "decision": "packed", "recipe": {"name": recipe, "hash": "h"}}
        for n, vote in enumerate(votes)
    ]


@pytest.mark.feature("a recipe is called better by votes only if its 95 % interval is above every other's")
def test_recipe_is_better_only_where_votes_are_many() -> None:
    few = votes_on_recipes([*labels("a", 3, 0), *labels("b", 1, 2)])
    assert ([one["name"] for one in few["recipes"]], few["better"]) == (["a", "b"], None)
    many = votes_on_recipes([*labels("a", 90, 10), *labels("b", 40, 60)])
    assert many["better"] == "a"
    assert votes_on_recipes(labels("a", 90, 0))["better"] is None
    assert votes_on_recipes([]) == {"recipes": [], "better": None}


def test_votes_on_what_was_left_out_say_nothing_of_a_recipe() -> None:
    out = [{**one, "decision": "below_floor"} for one in labels("a", 5, 5)]
    assert votes_on_recipes(out)["recipes"] == []


def test_wilsons_interval_is_that_of_the_tables() -> None:
    low, high = interval(8, 10)
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)
    assert interval(0, 0) == (0.0, 1.0)
    assert interval(0, 10)[0] == 0.0
    assert interval(10, 10)[1] > 0.9999


def test_cost_of_a_model_is_by_a_million_tokens() -> None:
    used = ModelUse()
    used.note("ok", read=2_000_000, written=500_000)
    assert used.cost((0.4, 2.0)) == 1.8
