"""Finds the verbs (module ``cli``) and drop-in routes (module ``routes``) that an adapter's package exports.

    adapters/cortex/cli.py      VERBS = {"lifecycle": Lifecycle, …}
    adapters/cortex/routes.py   ROUTES = (Route("POST", "/v1/remember", remember), …)

An adapter in a single file has none.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from fusion.extension import Route, Verb


def verbs_of(adapter: str) -> Mapping[str, type[Verb]]:
    """The verbs of an adapter ``package.module:Class``, by name."""
    module = _exported(adapter, "cli")
    return {} if module is None else module.VERBS


def routes_of(adapter: str) -> Sequence[Route]:
    """The drop-in routes of an adapter."""
    module = _exported(adapter, "routes")
    return () if module is None else module.ROUTES


def has_verbs(adapter: str) -> bool:
    """Whether an adapter has verbs; does not import it."""
    return _has(adapter.partition(":")[0], "cli")


def _exported(adapter: str, name: str) -> ModuleType | None:
    package = adapter.partition(":")[0]
    return importlib.import_module(f"{package}.{name}") if _has(package, name) else None


def _has(package: str, name: str) -> bool:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # no such package: opening the backend reports it
        return False
    folders = (spec.submodule_search_locations if spec else None) or ()
    return any(Path(folder, f"{name}.py").is_file() for folder in folders)
