"""The TOML text of a recipe's file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields

from fusion.recipe import Recipe


def toml(recipe: Recipe, comment: Sequence[str]) -> str:
    """The text of a recipe's file: the numbers that differ from those of `Recipe()`, below lines of comment."""
    out = [f"# {line}" for line in comment]
    out.append("# What is not written here is as in fusion/recipe.py, which gives each number's unit and reason.")
    if recipe.tuned_on:
        out += ["", "# Hashes of the questions that chose its numbers: no figure is reported on these.", "tuned_on = ["]
        out += [f"  {json.dumps(recipe.tuned_on[n : n + 10])[1:-1]}," for n in range(0, len(recipe.tuned_on), 10)]
        out.append("]")
    plain = Recipe()
    for part in (f.name for f in fields(Recipe) if f.name not in ("name", "tuned_on")):
        mine, usual = getattr(recipe, part), getattr(plain, part)
        numbers = {f.name: getattr(mine, f.name) for f in fields(mine)}
        tables = {key: dict(value) for key, value in numbers.items() if isinstance(value, Mapping) and value}
        model = numbers.pop("model", None)
        numbers.pop("calibrations", None)  # they have files of their own
        changed = {
            key: value
            for key, value in numbers.items()
            if not isinstance(value, Mapping) and value != getattr(usual, key)
        }
        if model is not None:
            changed |= {"model": model.file, "model_hash": model.hash}
        if changed:
            out += ["", f"[{part}]", *(f"{key} = {json.dumps(value)}" for key, value in changed.items())]
        for key, table in tables.items():
            out += ["", f"[{part}.{key}]", *(f"{json.dumps(n)} = {json.dumps(_round(v))}" for n, v in table.items())]
    return "\n".join(out) + "\n"


def _round(value: float) -> float:
    return int(value) if float(value).is_integer() else value
