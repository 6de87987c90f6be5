"""Describes faults of settings and recipes: the key, its file or variable, and the nearest key that exists."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import ValidationError

from fusion.lib.did_you_mean import hint, nearest


def explain(error: ValidationError, root: type, file: Path | None, built_in: Collection[str] = ()) -> str:
    """The faults of settings or of a recipe (``root``), each with its key, its file or variable, and a hint.

    ``built_in`` are the names of the backends that need no adapter in the settings.
    """
    return "; ".join(
        f"{_where(e['loc'], file)}: "
        f"{_no_adapter(e, built_in) or _WORDS.get(e['type']) or e['msg'].removeprefix('Value error, ')}{_near(e, root)}"
        for e in error.errors(include_input=False, include_url=False)
    )


def _no_adapter(error: Mapping[str, object], built_in: Collection[str]) -> str:
    """The error for a backend that is not built in and names no adapter, with the nearest built-in name; else ''."""
    match error:
        case {"type": "missing", "loc": ("backends", str(name), "adapter")}:
            near = nearest(name, built_in)
            fix = f"did you mean {near}?" if near else f"the built-in backends are {', '.join(built_in)}."
            return f"{fix} A backend of your own names its adapter, package.module:Class"
    return ""


_WORDS = {"extra_forbidden": "there is no such setting", "unexpected_keyword_argument": "there is no such number"}


def _near(error: Any, root: Any) -> str:
    """A hint for a key that does not exist: the most similar one of its table, or the table that has it."""
    if error["type"] not in _WORDS:
        return ""
    *path, key = error["loc"]
    if said := hint(str(key), _keys(_table(root, path))):
        return said
    homes = [name for name in _keys(root) if str(key) in _keys(_table(root, [name]))]
    return f"; it belongs in [{homes[0]}]" if homes else ""


def _keys(kind: Any) -> Sequence[str]:
    """The keys of a table: the fields of a model or a dataclass."""
    fields: Mapping[str, Any] = getattr(kind, "model_fields", None) or getattr(kind, "__dataclass_fields__", {})
    return tuple(fields)


def _table(kind: Any, path: Sequence[int | str]) -> Any:
    """The type of the table at ``path`` below a model or dataclass; None where that is no table."""
    for step in path:
        if isinstance(step, str):
            kind = get_type_hints(kind).get(step) if _keys(kind) else None
        while get_args(kind):
            kind = next((one for one in reversed(get_args(kind)) if _keys(one)), None)
    return kind


def _where(loc: Sequence[int | str], file: Path | None) -> str:
    """The variable that a key comes from, or the key with its file."""
    variable = "FUSION_" + "__".join(map(str, loc)).upper()
    if loc and variable in {name.upper() for name in os.environ}:
        return variable
    key = ".".join(map(str, loc)) or "settings"
    return f"{file}: {key}" if file else key
