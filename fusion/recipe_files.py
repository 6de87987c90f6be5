"""Reads the shipped recipes and the user's own from their files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError

from fusion.calibration import Calibration
from fusion.errors import BadInput, SettingsError
from fusion.home import config_root
from fusion.lib.did_you_mean import hint
from fusion.lib.gbdt import MAX_BYTES, Trees, digest
from fusion.recipe import EARLIER_SIGNALS, Learned, Recipe, with_current_names
from fusion.settings import Settings
from fusion.settings_errors import explain

_RECIPE: TypeAdapter[Recipe] = TypeAdapter(Recipe)
_CALIBRATION: TypeAdapter[Calibration] = TypeAdapter(Calibration)
CALIBRATION = ".calibration"
"""how the name of a calibration's file ends"""


def recipes(settings: Settings) -> dict[str, Recipe]:
    """The shipped recipes and the user's own (`recipes/*.toml` in the home, or ``recipes_folder``), by name.

    Each has all calibrations of these folders (`*.calibration`), the shipped ones first.
    """
    folders = [settings.home / "recipes"]
    if settings.recipes_folder is not None:
        folders.append(settings.recipes_folder)
    shipped = config_root() / "recipes"
    calibrations = calibrations_of(shipped)
    for folder in folders:
        calibrations += (replace(one, of_home=True) for one in calibrations_of(folder))
    found = {}
    for folder in (shipped, *folders):
        for file in sorted(folder.glob("*.toml")):
            recipe = read_recipe(file)
            found[file.stem] = replace(recipe, rerank=replace(recipe.rerank, calibrations=tuple(calibrations)))
    if settings.recipe not in found:
        known = ", ".join(sorted(found))
        raise SettingsError(f"recipe = {settings.recipe!r}: there are {known}{hint(settings.recipe, found)}")
    return found


def shipped_recipes() -> tuple[str, ...]:
    """The names of the recipes that come with the project."""
    return tuple(sorted(file.stem for file in (config_root() / "recipes").glob("*.toml")))


def calibrations_of(folder: Path) -> list[Calibration]:
    """The calibrations of a folder of recipes, by the names of their files."""
    return [read_calibration(file) for file in sorted(folder.glob(f"*{CALIBRATION}"))]


@contextmanager
def _errors_named(file: Path, kind: type[Any]) -> Iterator[None]:
    """Raise SettingsError, which names the file, for errors while it is read as a ``kind``."""
    try:
        yield
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not TOML: {error}") from None
    except ValidationError as error:
        raise SettingsError(explain(error, kind, file)) from None
    except ValueError as error:
        raise SettingsError(f"{file}: {error}") from None


def read_calibration(file: Path) -> Calibration:
    """Reads a calibration's file, which is TOML. Raises SettingsError, which names what is wrong in it."""
    with _errors_named(file, Calibration):
        return _CALIBRATION.validate_python(tomllib.loads(_small(file)))


def read_recipe(file: Path) -> Recipe:
    """Reads a recipe file; missing keys have the defaults of `Recipe`. Raises SettingsError, which names the key."""
    with _errors_named(file, Recipe):
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        table = with_current_names(table)
        if "calibrations" in table.get("rerank", {}):
            raise ValueError(f"rerank.calibrations: a calibration is a file of its own, *{CALIBRATION} in this folder")
        table, model = _model(table, file)
        recipe = _RECIPE.validate_python({**table, "name": file.stem})
        _refuse_negative(recipe)
    return replace(recipe, rerank=replace(recipe.rerank, model=model)) if model is not None else recipe


def with_changes(recipe: Recipe, changes: Mapping[str, Mapping[str, Any]]) -> Recipe:
    """The recipe with other values, nested as in a file: {"pack": {"max_results": 3}}.

    A table replaces single weights of the recipe's. Raises BadInput, which names what is wrong.
    """
    try:
        changed = {part: _changed_part(part, getattr(recipe, part, None), given) for part, given in changes.items()}
        made = replace(recipe, **changed)
        _refuse_negative(made)
    except ValidationError as error:
        raise BadInput(f"changes: {explain(error, Recipe, None)}") from None
    except ValueError as error:
        raise BadInput(f"changes: {error}") from None
    return made


def _changed_part(name: str, part: Any, given: Mapping[str, Any]) -> Any:
    """One part of a recipe with other values. Raises ValueError, and ValidationError for a wrong value."""
    if name not in PARTS:
        raise ValueError(f"a recipe has no part {name!r:.64}; there are {', '.join(PARTS)}")
    if fixed := _FIXED.intersection(given):
        raise ValueError(f"{name}.{min(fixed)} is read from a file of the recipe's folder and cannot be changed here")
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    merged = {
        key: {**values[key], **value} if isinstance(value, Mapping) and isinstance(values.get(key), Mapping) else value
        for key, value in given.items()
    }
    table = with_current_names({name: {**values, **merged}})[name]
    # As a recipe of this part alone, so that an error names the part, too.
    return getattr(_RECIPE.validate_python({name: table}), name)


PARTS: Mapping[str, type[Any]] = {
    name: kind for name, kind in get_type_hints(Recipe).items() if is_dataclass(kind) and isinstance(kind, type)
}
"""the parts of a recipe by name"""
_FIXED = frozenset({"model", "calibrations"})
"""what a recipe has from other files"""


def ranges() -> dict[str, dict[str, Any]]:
    """By part and name, the JSON schema of each value of a recipe, with its range or choices, and its default."""
    return {
        part: {
            field.name: _schema(hints[field.name], getattr(kind(), field.name))
            for field in fields(kind)
            if field.name not in _FIXED
        }
        for part, kind in PARTS.items()
        if (hints := get_type_hints(kind, include_extras=True))
    }


def _schema(hint: Any, default: Any) -> dict[str, Any]:
    schema = TypeAdapter(hint).json_schema()
    of_values = schema.get("additionalProperties")
    for one in (schema, of_values if isinstance(of_values, dict) else {}):
        if one.get("type") in ("integer", "number"):
            one["minimum"] = 0
    return {**schema, "default": default}


def values_of(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """By part and name, the values of a recipe, without what it has from other files."""
    return {
        part: {
            field.name: getattr(getattr(recipe, part), field.name) for field in fields(kind) if field.name not in _FIXED
        }
        for part, kind in PARTS.items()
    }


def _refuse_negative(recipe: Recipe) -> None:
    for key, number in _numbers(asdict(recipe)):
        if number < 0:
            raise ValueError(f"{key} = {number} is negative")


def _model(table: dict[str, Any], file: Path) -> tuple[dict[str, Any], Learned | None]:
    """A recipe's table without its model, and the model. If it cannot be loaded, the weights score instead."""
    part = table.get("rerank")
    if not isinstance(part, dict) or not {"model", "model_hash"} & part.keys():
        return table, None
    rest = {key: value for key, value in part.items() if key not in ("model", "model_hash")}
    name, wanted = part.get("model"), part.get("model_hash")
    if not isinstance(name, str) or not isinstance(wanted, str) or Path(name).name != name or not name:
        raise SettingsError(f"{file}: rerank.model names a file in the same folder, and model_hash is its hash")
    model = Learned(name, wanted, None)
    try:
        text = _small(file.with_name(name))
        if digest(text) != wanted:
            raise ValueError("its hash is not model_hash")
        trees = Trees.parse(text)
        trees = replace(trees, names=tuple(EARLIER_SIGNALS.get(signal, signal) for signal in trees.names))
        model = Learned(name, wanted, trees)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        model = Learned(name, wanted, None, f"{name} cannot be used, so the weights score: {why}")
    return {**table, "rerank": rest}, model


def _small(file: Path) -> str:
    if file.stat().st_size > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    return file.read_text(encoding="utf-8")


def _numbers(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, float]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{path}{key}.")
        elif isinstance(value, int | float):
            yield f"{path}{key}", value
