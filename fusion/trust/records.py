"""The record of one allowed home, a JSON file of the user's state folder.

Named tuples, because a hook imports this before each prompt: a data class takes a millisecond to make.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from time import gmtime, strftime
from types import MappingProxyType
from typing import Any, NamedTuple

from fusion.store.private_files import read_state, state_path, write_state
from fusion.trust.decides import Named

FOLDER = "homes"
VERSION = 1
MAX_RECORDS = 500
"""from which on the records of homes that are gone are removed"""


class Seen(NamedTuple):
    """A settings file as it was allowed: its hash, what it names, and the hashes of all else that decides."""

    settings: str
    recipes_folder: str | None = None
    modules: tuple[str, ...] = ()
    files: Mapping[str, str] = MappingProxyType({})
    variables: tuple[str, ...] = ()
    """environment variables that it names for keys, and that are not the gateway's own"""
    key_files: tuple[str, ...] = ()
    """files that it names for keys, and that are not in the home"""

    @property
    def named(self) -> Named:
        return Named(self.recipes_folder, self.modules)


class Record(NamedTuple):
    """A home that may be opened: its folder by path, device and inode, and its settings files as they were allowed.

    ``variables`` and ``files`` are environment variables and key files that the user allowed by name.
    """

    home: str
    device: int
    inode: int
    at: str
    how: str
    """made, named or allowed"""
    seen: Mapping[str, Seen] = MappingProxyType({})
    variables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @classmethod
    def of(cls, home: Path, about: os.stat_result, how: str) -> Record:
        return cls(str(home), about.st_dev, about.st_ino, strftime("%Y-%m-%dT%H:%M:%SZ", gmtime()), how)

    def is_of(self, about: os.stat_result) -> bool:
        """Whether this is the very folder that was allowed."""
        return (self.device, self.inode) == (about.st_dev, about.st_ino)


def read(home: Path) -> Record | None:
    """The record of a home; None for none, or for one that cannot be understood: then the user is asked again."""
    content = read_state(_name(home))
    if content is None:
        return None
    try:
        table = json.loads(content)
        if table.pop("version") != VERSION or table["home"] != str(home):
            return None
        seen = {file: _seen(one) for file, one in table.pop("seen").items()}
        variables, files = tuple(table.pop("variables")), tuple(table.pop("files"))
        return Record(**table, seen=seen, variables=variables, files=files)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def write(record: Record) -> None:
    """Keeps a record; the one before is replaced. Raises SettingsError where the state folder cannot be written."""
    _forget_homes_that_are_gone()
    seen = {file: one._asdict() for file, one in record.seen.items()}
    table = {"version": VERSION, **record._asdict(), "seen": seen}
    write_state(_name(Path(record.home)), json.dumps(table, indent=1).encode())


def _forget_homes_that_are_gone() -> None:
    """Keeps the folder of records small: tests and benchmarks make many homes that do not last."""
    with suppress(OSError):
        files = list((state_path() / FOLDER).iterdir())
        for file in files if len(files) > MAX_RECORDS else ():
            with suppress(OSError, ValueError, KeyError, TypeError):
                if not Path(json.loads(file.read_bytes())["home"]).exists():
                    file.unlink()


def remove(home: Path) -> bool:
    """Forgets the record of a home; False: there was none."""
    with suppress(FileNotFoundError):
        (state_path() / _name(home)).unlink()
        return True
    return False


def _seen(table: Mapping[str, Any]) -> Seen:
    given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in table.items()}
    return Seen(**given)


def _name(home: Path) -> str:
    return f"{FOLDER}/{sha256(os.fsencode(home)).hexdigest()[:32]}.json"
