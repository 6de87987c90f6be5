"""The hashes of the files that decide what a home does: settings, recipes with their models, external adapters.

A record of an allowed home keeps these hashes. While the settings file has the recorded hash, the others are compared
without parsing it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from fusion.errors import HomeNotAllowed
from fusion.store.private_files import read_regular

MAX_SETTINGS = 1 << 20
MAX_FILE = 64 << 20
MAX_FILES = 2000
"""the largest number of recipes, or of files of one adapter's package"""
ABSENT = "absent"
RECIPES = "recipes"
FILE = "fusion.toml"
SECRETS = ("token", "reader.key")
"""the names of the secrets of `fusion.trust.token`"""


class References(NamedTuple):
    """Other files that a settings file names: a folder of recipes, and the modules of external adapters."""

    recipes_folder: str | None = None
    modules: tuple[str, ...] = ()


def settings_hash(file: Path) -> str:
    """The hash of a settings file; ABSENT for none. Raises HomeNotAllowed for a link or a special file."""
    content = read_settings(file)
    return ABSENT if content is None else sha256(content).hexdigest()


def read_settings(file: Path) -> bytes | None:
    """The bytes of a settings file; None for none. Raises HomeNotAllowed for a link or a special file."""
    try:
        return read_regular(file, MAX_SETTINGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HomeNotAllowed(f"{printable(file)} is not read: {_why(file, error)}") from None


def hash_files(home: Path, references: References) -> dict[str, str]:
    """The SHA-256 of each deciding file except the settings file, by its name.

    Raises HomeNotAllowed for a recipe that is a link or a special file.
    """
    found: dict[str, str] = {}
    folders = [home / RECIPES] + ([Path(references.recipes_folder)] if references.recipes_folder else [])
    for folder in folders:
        for file in _recipes(folder):
            found[_name(home, file)] = _hash(file)
    for module in references.modules:
        files = list(module_files(module))
        found[f"adapter {module}"] = _hash_all(files) if files else ABSENT
    return found


def module_files(module: str) -> Iterator[Path]:
    """Finds the files of a module without importing it; for a package, all its Python files."""
    parts = module.split(".")
    for base in map(Path, filter(None, sys.path)):
        folder, above = base, []
        for part in parts[:-1]:
            folder /= part
            if (folder / "__init__.py").is_file():
                above.append(folder / "__init__.py")
        last = folder / parts[-1]
        if last.with_suffix(".py").is_file():
            yield from (*above, last.with_suffix(".py"))
            return
        if (last / "__init__.py").is_file():
            yield from above
            yield from sorted(last.rglob("*.py"))[:MAX_FILES]
            return


def _recipes(folder: Path) -> list[Path]:
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        if folder.is_symlink():
            raise HomeNotAllowed(f"{printable(folder)} is a link; put the recipes themselves there")
        names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
        if len(names) > MAX_FILES:
            raise HomeNotAllowed(f"{printable(folder)} has more than {MAX_FILES:,} recipes")
        return [folder / name for name in names]
    return []


def _hash(file: Path) -> str:
    try:
        return sha256(read_regular(file, MAX_FILE)).hexdigest()
    except OSError as error:
        raise HomeNotAllowed(f"{printable(file)} is not read: {_why(file, error)}") from None


def _hash_all(files: Sequence[Path]) -> str:
    """One hash over several files. Links are followed, because an adapter may be installed through them."""
    total = sha256()
    for file in files:
        with suppress(OSError):
            content = file.read_bytes()
            total.update(f"{file}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
            total.update(content)
    return total.hexdigest()


def _name(home: Path, file: Path) -> str:
    return str(file.relative_to(home)) if file.is_relative_to(home) else str(file)


def _why(file: Path, error: OSError) -> str:
    if file.is_symlink():
        return "it is a link. Put the file itself there, or name it by --config"
    return error.strerror or str(error)


def printable(path: Path | str) -> str:
    """A path for a message: control characters are escaped."""
    text = str(path)
    return text if text.isprintable() else text.encode("unicode_escape").decode()
