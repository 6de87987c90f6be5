"""Reads a table of the settings into a frozen dataclass.

Its fields are the options' names, their defaults give the types, and `number` and `choice` the valid values. Rules for
several options together are in its ``__post_init__``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, Field, field, fields, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any, TypeVar

from fusion.contract import DIMENSIONS, KINDS, NAME_PLACEHOLDER, Features, Opening
from fusion.errors import SettingsError
from fusion.lib.did_you_mean import hint

T = TypeVar("T")

FULL_FEATURES = Features(filters=frozenset(DIMENSIONS), tenants=True, as_of=True, no_user=True, kinds=frozenset(KINDS))
"""features of a backend that stores every kind of memory with its scope and times"""
EMBEDDED_FEATURES = replace(FULL_FEATURES, embedded=True)
"""the same of a backend that keeps them in the gateway's own folder"""

_TYPES = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "a table",
    tuple: "a list of texts",
}


def number(default: float, least: float, most: float = inf) -> Any:
    """A field for a number within these bounds; a whole number if ``default`` is one."""
    return field(default=default, metadata={"least": least, "most": most})


def choice(default: str | tuple[str, ...], among: Iterable[str]) -> Any:
    """A field for one of these texts; for some of them if ``default`` is a list."""
    return field(default=default, metadata={"among": tuple(among)})


def table(keys: Iterable[str], default: Mapping[str, str] | None = None) -> Any:
    """A field for a table of texts with some of these keys, or with any if there are none."""
    return field(default_factory=lambda: dict(default or {}), metadata={"keys": tuple(keys)})


def owner() -> Any:
    """A field for the owner of all memories of a backend: some dimensions of a scope with their values."""
    return table(DIMENSIONS)


def build(kind: type[T], given: Mapping[str, object], where: str, also: Collection[str] = ()) -> T:
    """The options of a table that errors call ``where``; ``also`` names options that others read. Lists become tuples.

    Raises SettingsError, which names the option and its valid values.
    """
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]  # typing has no name for a dataclass
    values = {name: value for name, value in given.items() if name not in also}
    try:
        for name, value in values.items():
            if name not in known:
                names = (*also, *known)
                raise SettingsError(f"has no option {name!r}, only: {', '.join(names)}{hint(name, names)}")
            values[name] = _checked(known[name], value)
        return kind(**values)
    except SettingsError as error:
        raise SettingsError(f"{where} {error}") from None


def build_known(kind: type[T], given: Mapping[str, object], where: str) -> T:
    """As `build`, from a table that also has the options of others."""
    names = {one.name for one in fields(kind)}  # type: ignore[arg-type]  # typing has no name for a dataclass
    return build(kind, {name: value for name, value in given.items() if name in names}, where)


def read(kind: type[T], opening: Opening, also: Collection[str] = ()) -> T:
    """The options of a backend. Raises what `build` raises."""
    return build(kind, opening.options, f"[backends.{opening.name}]", also)


def verified(kind: type[T], options: Mapping[str, object], also: Collection[str] = ()) -> T:
    """The options as written in a file, before anything is opened. Raises what `build` raises."""
    return read(kind, Opening(NAME_PLACEHOLDER, Path(), options), also)


def _checked(option: Field[Any], value: object) -> object:
    """The value of an option. Raises SettingsError for one of another type than its default, or out of bounds."""
    default = option.default if option.default_factory is MISSING else option.default_factory()
    bounds = option.metadata
    if type(default) in _TYPES and not (_fits(value, default) and _within(value, bounds)):
        raise SettingsError(f"{option.name} = {repr(value)[:80]} must be {_wanted(_TYPES[type(default)], bounds)}")
    return tuple(value) if isinstance(value, list) else value


def _fits(value: object, default: object) -> bool:
    """Whether a value is of the type that its default has."""
    if isinstance(default, tuple):
        return isinstance(value, list | tuple) and all(isinstance(one, str | Path) and str(one) for one in value)
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(default, dict):
        return isinstance(value, Mapping)
    return type(value) is type(default)


def _within(value: Any, bounds: Mapping[str, Any]) -> bool:
    match bounds:
        case {"least": least, "most": most}:
            return isfinite(value) and bool(least <= value <= most)
        case {"among": among}:
            return {value} <= set(among) if isinstance(value, str) else set(value) <= set(among)
        case {"keys": keys}:
            return set(value) <= set(keys or value) and all(isinstance(one, str) for one in value.values())
    return True


def _wanted(kind: str, bounds: Mapping[str, Any]) -> str:
    match bounds:
        case {"among": among}:
            return f"{'one' if kind == _TYPES[str] else 'a list'} of {', '.join(filter(None, among))}"
        case {"keys": keys}:
            return f"{kind} of texts{', for some of ' * bool(keys)}{', '.join(keys)}"
        case {"least": least, "most": most} if most == inf:
            return f"{kind} of at least {least:g}"
        case {"least": least, "most": most}:
            return f"{kind} from {least:.9g} to {most:.9g}"
    return kind


def features_of(filters: Collection[str], bound: Mapping[str, str], tenant: str, **more: Any) -> Features:
    """The features of a backend with these options: read-only, unless ``more`` says otherwise."""
    return Features(
        filters=frozenset(d for d in DIMENSIONS if d in filters),
        bound={d: bound[d] for d in DIMENSIONS if d in bound},
        tenant=tenant,
        **more,
    )
