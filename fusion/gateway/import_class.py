"""Imports the class that a setting names, and explains how to fix an import that fails."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from pathlib import Path
from typing import Any

from fusion.errors import FusionError, PackageMissing, SettingsError
from fusion.lib.did_you_mean import hint, nearest

_EXTRAS = {
    "mem0": "mem0",
    "qdrant_client": "mem0",
    "anthropic": "anthropic",
    "json_repair": "anthropic",
    "psycopg": "postgres",
}


def resolve(path: str, key: str) -> Any:
    """The class at ``path``, written `package.module:Class`; ``key`` is the setting that names it.

    Raises SettingsError, and PackageMissing if the module needs a package that is not installed.
    """
    module, _, name = path.partition(":")
    if module.partition(".")[0] == "adapters":
        _require_our_adapters()
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name and module.startswith(error.name):
            folder = Path(__file__).resolve().parents[2] / "adapters"
            package, _, last = error.name.rpartition(".")
            near = nearest(last, (one.name for one in pkgutil.iter_modules([str(folder)])))
            suggestion = f"; did you mean adapters.{near}?" if near and package in ("", "adapters") else ""
            raise SettingsError(
                f"{key} = {path!r}: there is no module {error.name}{suggestion}; ours are in {folder}"
            ) from None
        raise PackageMissing(f"{key} = {path!r} needs the package {error.name}: {_fix(str(error.name))}") from None
    except (AttributeError, ValueError):
        loaded = sys.modules.get(module)
        near = hint(name, (one for one in vars(loaded) if one[0].isupper())) if loaded and name else ""
        raise SettingsError(f"{key} = {path!r}: write package.module:Class{near}") from None


def _require_our_adapters() -> None:
    """Raise SettingsError if another installed package is called adapters too and comes first on the path."""
    ours = Path(__file__).resolve().parents[2]
    spec = importlib.util.find_spec("adapters")
    found = Path(spec.origin).resolve().parent.parent if spec and spec.origin else ours
    if found != ours:
        raise SettingsError(
            f"another package called adapters is installed in {found}, before ours in {ours}: "
            "memory-fusion is an application and needs a virtual environment of its own"
        )


def why(error: Exception) -> str:
    """An error's text, with the fix if it is known; an unexpected exception of an adapter is shown with its type."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _fix(error.name)
    return str(error) if isinstance(error, FusionError | OSError) else f"{type(error).__name__}: {error}"


def _fix(package: str) -> str:
    extra = _EXTRAS.get(package.partition(".")[0])
    return f'pip install "/path/to/checkout[{extra}]"' if extra else f"pip install {package}"
