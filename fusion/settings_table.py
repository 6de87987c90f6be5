"""Reads single settings of a home without `fusion.settings`, for processes that an agent waits for.

The server checks the settings; here a value is taken as it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fusion.errors import SettingsError


def setting(home: Path, table: str, name: str, default: Any = None) -> Any:
    """One setting of the home: of the environment, else of its file, else the default."""
    given = os.environ.get(f"FUSION_{table.upper()}__{name.upper()}")
    return table_of(home / "fusion.toml", table).get(name, default) if given is None else given


def table_of(file: Path, name: str) -> Mapping[str, Any]:
    """A table of a settings file; {} if there is none. Raises SettingsError for a file that is not TOML."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    if name not in text:
        return {}
    import tomllib  # slow to import, and seldom needed

    try:
        table = tomllib.loads(text).get(name)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file} is not TOML: {error}") from None
    return table if isinstance(table, dict) else {}
