"""The records of allowed homes: one JSON file each in the user's state folder.

Records are named tuples, because a hook imports this module before each prompt and a dataclass takes a millisecond to
create.
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
from fusion.trust.fingerprint import References

FOLDER = "homes"
VERSION = 1
MAX_RECORDS = 500
"""with more records than this, those of deleted homes are removed"""


class Snapshot(NamedTuple):
    """A settings file as the user allowed it: its hash, the names in it, and the hashes of other deciding files."""

    settings: str
    recipes_folder: str | None = None
    modules: tuple[str, ...] = ()
    files: Mapping[str, str] = MappingProxyType({})
    variables: tuple[str, ...] = ()
    """environment variables that it names for keys, except the gateway's own"""
    key_files: tuple[str, ...] = ()
    """files outside the home that it names for keys"""

    @property
    def references(self) -> References:
        return References(self.recipes_folder, self.modules)


class Record(NamedTuple):
    """A home that may be opened: its folder by path, device and inode, and its settings files as they were allowed.

    ``variables`` and ``files`` are the environment variables and key files that the user allowed by name. ``seen`` has
    a snapshot for each settings file. The names of the fields are the keys of the stored JSON.
    """

    home: str
    device: int
    inode: int
    at: str
    how: str
    """made, named or allowed"""
    seen: Mapping[str, Snapshot] = MappingProxyType({})
    variables: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    @classmethod
    def of(cls, home: Path, about: os.stat_result, how: str) -> Record:
        return cls(str(home), about.st_dev, about.st_ino, strftime("%Y-%m-%dT%H:%M:%SZ", gmtime()), how)

    def is_of(self, about: os.stat_result) -> bool:
        """Whether a folder is the one that was allowed, and not another in its place."""
        return (self.device, self.inode) == (about.st_dev, about.st_ino)


def read(home: Path) -> Record | None:
    """Reads the record of a home; None without one, or for one that cannot be read: then the user is asked again."""
    content = read_state(_name(home))
    if content is None:
        return None
    try:
        table = json.loads(content)
        if table.pop("version") != VERSION or table["home"] != str(home):
            return None
        seen = {file: _snapshot(one) for file, one in table.pop("seen").items()}
        variables, files = tuple(table.pop("variables")), tuple(table.pop("files"))
        return Record(**table, seen=seen, variables=variables, files=files)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def write(record: Record) -> None:
    """Writes a record in place of the earlier one. Raises SettingsError where the state folder cannot be written."""
    _remove_stale()
    seen = {file: one._asdict() for file, one in record.seen.items()}
    table = {"version": VERSION, **record._asdict(), "seen": seen}
    write_state(_name(Path(record.home)), json.dumps(table, indent=1).encode())


def _remove_stale() -> None:
    """Removes the records of deleted homes once there are many; tests and benchmarks make short-lived homes."""
    with suppress(OSError):
        files = list((state_path() / FOLDER).iterdir())
        for file in files if len(files) > MAX_RECORDS else ():
            with suppress(OSError, ValueError, KeyError, TypeError):
                if not Path(json.loads(file.read_bytes())["home"]).exists():
                    file.unlink()


def remove(home: Path) -> bool:
    """Removes the record of a home; False where there was none."""
    with suppress(FileNotFoundError):
        (state_path() / _name(home)).unlink()
        return True
    return False


def _snapshot(table: Mapping[str, Any]) -> Snapshot:
    given: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in table.items()}
    return Snapshot(**given)


def _name(home: Path) -> str:
    return f"{FOLDER}/{sha256(os.fsencode(home)).hexdigest()[:32]}.json"
