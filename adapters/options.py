"""Reads a backend's options into a frozen dataclass: its fields are their names, its defaults give their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

from fusion.contract import DIMENSIONS, NAME_PLACEHOLDER, Features, Opening
from fusion.errors import SettingsError
from fusion.lib.did_you_mean import hint

T = TypeVar("T")

_SAID = {
    str: "text",
    bool: "true or false",
    int: "whole number",
    float: "number",
    dict: "table",
    tuple: "list of texts",
}


def read(kind: type[T], opening: Opening) -> T:
    """The options of a backend. Every field of ``kind`` has a default; lists become tuples.

    Raises SettingsError, which names the option and its valid values; what ``__post_init__`` of ``kind`` raises
    gets the name of the table.
    """
    where = f"[backends.{opening.name}]"
    known: dict[str, Any] = {
        one.name: one.default if one.default_factory is MISSING else one.default_factory()
        for one in fields(kind)  # type: ignore[arg-type]  # typing has no name for a dataclass
    }
    given: dict[str, Any] = dict(opening.options)
    for name, value in given.items():
        if name not in known:
            raise SettingsError(f"{where} has no option {name!r}, only: {', '.join(known)}{hint(name, known)}")
        if not _fits(value, known[name]):
            raise SettingsError(f"{where} {name} must be a {_SAID[type(known[name])]}")
        if isinstance(value, list):
            given[name] = tuple(value)
    try:
        return kind(**given)
    except SettingsError as error:
        raise SettingsError(f"{where} {error}") from None


def verified(kind: type[T], options: Mapping[str, object]) -> T:
    """The options as written in a file, before anything is opened. Raises what ``read`` raises."""
    return read(kind, Opening(NAME_PLACEHOLDER, Path(), options))


def _fits(value: object, default: object) -> bool:
    """Whether a setting is of the kind that its default is."""
    if isinstance(default, tuple):
        return isinstance(value, list | tuple) and all(isinstance(one, str) and one for one in value)
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(default, dict):
        return isinstance(value, Mapping)
    return type(value) is type(default)


def check_connect_ms(value: object) -> None:
    """Check ``connect_ms``, the time for a new connection. Raises SettingsError."""
    if type(value) is not int or not 1 <= value <= 60_000:
        raise SettingsError(f"connect_ms = {value!r} must be a whole number from 1 to 60000")


def within(filters: Sequence[str], bound: Mapping[str, object]) -> None:
    """Raises SettingsError where what a backend filters by, or is bound to, is no dimension of a scope."""
    if not set(filters) <= set(DIMENSIONS):
        raise SettingsError(f"filters names some of {', '.join(DIMENSIONS)}")
    if not all(dimension in DIMENSIONS and isinstance(who, str) for dimension, who in bound.items()):
        raise SettingsError(f"bound gives texts to some of {', '.join(DIMENSIONS)}")


def features_of(filters: Sequence[str], bound: Mapping[str, str], tenant: str) -> Features:
    """The features of a read-only backend with these options."""
    return Features(
        filters=frozenset(d for d in DIMENSIONS if d in filters),
        bound={d: bound[d] for d in DIMENSIONS if d in bound},
        tenant=tenant,
    )
