"""What a home holds, looked at without opening a store: names, sizes, links, and whether its settings are under Git."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fusion.store.private_files import read_regular
from fusion.trust.decides import FILE

MAX_ENTRIES = 20_000
"""of a home that are looked at; its first levels come first"""
MAX_INDEX = 256 << 20
PICKLES = (".pkl", ".pickle")


@dataclass(frozen=True, slots=True)
class Survey:
    """Everything in a home that is no plain folder of files: ``traps`` are links and special files."""

    files: int = 0
    bytes: int = 0
    stores: tuple[str, ...] = ()
    pickles: tuple[str, ...] = ()
    traps: tuple[str, ...] = ()
    complete: bool = True
    repository: str = ""
    """the work tree whose Git index has the settings file"""


def survey(home: Path) -> Survey:
    """Looks through a home, within bounds. Nothing is opened but a Git index."""
    files = size = count = 0
    stores: list[str] = []
    pickles: list[str] = []
    traps: list[str] = []
    for path, about in walk(home):
        count += 1
        name = path.relative_to(home).as_posix()
        if is_trap(about):
            traps.append(name)
        elif stat.S_ISREG(about.st_mode):
            files, size = files + 1, size + about.st_size
            if path.suffix in (".sqlite", ".db"):
                stores.append(name)
            # Qdrant's local mode keeps each point as a pickle in this file.
            if path.suffix in PICKLES or path.name == "storage.sqlite":
                pickles.append(name)
    complete = count < MAX_ENTRIES
    return Survey(files, size, tuple(stores), tuple(pickles), tuple(traps), complete, repository_of(home / FILE))


def traps_in(home: Path) -> list[str]:
    """The names of links and special files in a home: of all that is in it, for many files could hide one."""
    return [path.relative_to(home).as_posix() for path, about in walk(home, most=None) if is_trap(about)]


def is_trap(about: os.stat_result) -> bool:
    """Whether opening it may reach outside of the home, or block: it is a link, a FIFO or a device.

    A Unix socket cannot be opened as a file, and a server may keep one in its home.
    """
    kind = about.st_mode
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISSOCK(kind))


def walk(home: Path, *, most: int | None = MAX_ENTRIES) -> Iterator[tuple[Path, os.stat_result]]:
    """What is in a home, level by level, up to a bound. No link is followed; what goes away meanwhile is left out."""
    folders, count = [home], 0
    while folders:
        below: list[Path] = []
        for folder in folders:
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(OSError):
                        about = entry.stat(follow_symlinks=False)
                        if stat.S_ISDIR(about.st_mode):
                            below.append(Path(entry.path))
                        yield Path(entry.path), about
                        count += 1
                    if most is not None and count >= most:
                        return
        folders = below


def repository_of(file: Path) -> str:
    """The work tree whose Git index lists a file; empty where none does. Git itself is not run: a repository's
    settings make it run programs."""
    for folder in file.parents:
        for index in _indexes(folder):
            with suppress(OSError):
                content = read_regular(index, MAX_INDEX)
                if _lists(content, os.fsencode(file.relative_to(folder).as_posix())):
                    return str(folder)
    return ""


def _indexes(folder: Path) -> Iterator[Path]:
    """The index of a work tree; a linked work tree has a file that names where its own is."""
    dot_git = folder / ".git"
    if dot_git.is_dir():
        yield dot_git / "index"
    elif dot_git.is_file():
        with suppress(OSError, ValueError):
            word, _, where = read_regular(dot_git, 4096).decode().partition(":")
            if word == "gitdir":
                yield folder / where.strip() / "index"


def _lists(index: bytes, path: bytes) -> bool:
    """Whether an index has a path. Version 4 shares the beginnings of paths, so there the file's name is looked for."""
    version = int.from_bytes(index[4:8], "big")
    return (path.rpartition(b"/")[2] if version == 4 else path) + b"\0" in index
