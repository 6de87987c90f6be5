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


def uses_database(home: Path) -> bool:
    """Whether the journals of a home are in a database server, [database] url."""
    named = setting(home, "database", "url", "") or setting(home, "database", "url_env", "")
    return bool(named or table_of(home / "fusion.toml", "home").get("database"))


def with_database(table: Mapping[str, Any]) -> dict[str, Any]:
    """Settings in which ``[home] database`` is written as ``[database] url``, which it is a short form of.

    `home` is a path otherwise. Raises SettingsError for other keys of a table ``[home]``, and for both forms at once.
    """
    home = table.get("home")
    if not isinstance(home, Mapping):
        return dict(table)
    database, rest = table.get("database", {}), sorted(set(home) - {"database"})
    if rest:
        raise SettingsError(f"[home] {rest[0]}: there is no such setting; [home] has database alone")
    if not isinstance(database, Mapping) or database.get("url"):
        raise SettingsError("[home] database and [database] url say the same: leave one out")
    others = {name: value for name, value in table.items() if name != "home"}
    return {**others, "database": {**database, "url": home.get("database", "")}}


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
