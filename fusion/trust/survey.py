"""Counts what a home holds without opening a store: files, sizes, links, and whether its settings are under Git."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fusion.store.private_files import read_regular
from fusion.trust.fingerprint import FILE

MAX_ENTRIES = 20_000
"""maximum entries of a home that are counted; its upper levels come first"""
MAX_INDEX = 256 << 20
PICKLES = (".pkl", ".pickle")


@dataclass(frozen=True, slots=True)
class Survey:
    """The counts of one home. ``traps`` names links and special files, which are never opened."""

    files: int = 0
    bytes: int = 0
    stores: tuple[str, ...] = ()
    pickles: tuple[str, ...] = ()
    traps: tuple[str, ...] = ()
    complete: bool = True
    repository: str = ""
    """the work tree whose Git index has the settings file"""


def survey(home: Path) -> Survey:
    """Counts what is in a home, up to `MAX_ENTRIES`. Only a Git index is opened."""
    files = size = count = 0
    stores: list[str] = []
    pickles: list[str] = []
    traps: list[str] = []
    for path, about in walk(home):
        count += 1
        name = path.relative_to(home).as_posix()
        if is_link_or_special(about):
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


def find_links(home: Path) -> list[str]:
    """The names of all links and special files in a home, without a bound: many files could hide one."""
    return [path.relative_to(home).as_posix() for path, about in walk(home, most=None) if is_link_or_special(about)]


def is_link_or_special(about: os.stat_result) -> bool:
    """Whether an entry is a link, a FIFO or a device: opening it could reach outside of the home, or block.

    A Unix socket is allowed: it cannot be opened as a file, and a server may keep one in its home.
    """
    kind = about.st_mode
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind) or stat.S_ISSOCK(kind))


def walk(home: Path, *, most: int | None = MAX_ENTRIES) -> Iterator[tuple[Path, os.stat_result]]:
    """Yields the entries of a home level by level, at most ``most``; no link is followed."""
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
    """The work tree whose Git index lists a file; empty where none does.

    Git itself is not run, because a repository's settings can make it run programs.
    """
    for folder in file.parents:
        for index in _indexes(folder):
            with suppress(OSError):
                content = read_regular(index, MAX_INDEX)
                if _lists(content, os.fsencode(file.relative_to(folder).as_posix())):
                    return str(folder)
    return ""


def _indexes(folder: Path) -> Iterator[Path]:
    """The index of a work tree. In a linked work tree, ``.git`` is a file that names another folder."""
    dot_git = folder / ".git"
    if dot_git.is_dir():
        yield dot_git / "index"
    elif dot_git.is_file():
        with suppress(OSError, ValueError):
            word, _, where = read_regular(dot_git, 4096).decode().partition(":")
            if word == "gitdir":
                yield folder / where.strip() / "index"


def _lists(index: bytes, path: bytes) -> bool:
    """Whether an index lists a path. Version 4 compresses paths, so only the file's name is searched there."""
    version = int.from_bytes(index[4:8], "big")
    return (path.rpartition(b"/")[2] if version == 4 else path) + b"\0" in index
