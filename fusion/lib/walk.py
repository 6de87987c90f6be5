"""Listing the files below a folder, and opening them, without following links.

Each folder on the way is opened by ``O_NOFOLLOW``, so a link that takes its place at any moment leads nowhere.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fusion.lib.ignore import Ignored

PASS = getattr(os, "O_PATH", os.O_RDONLY)
"""the access to folders on the way to a file: where the system has O_PATH, those that cannot be listed are passed"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, link or special file below the folder; ``path`` is relative to it, with ``/``.

    ``listed`` gives its metadata until the next entry is taken.
    """

    path: str
    listed: os.DirEntry[str]


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A folder that could not be listed; ``path`` is empty for the walked folder itself."""

    path: str
    error: OSError


def walk(folder: Path, ignored: Ignored) -> Iterator[Entry | Unlisted]:
    """Lists what is below a folder and not ignored: the files of each folder by name, then its folders.

    Ignored folders are not entered.
    """
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        inner: list[str] = []
        try:
            with open_folder(folder, prefix.split("/")[:-1]) as fd, os.scandir(fd) as listing:
                for listed in sorted(listing, key=lambda entry: entry.name):
                    path = prefix + listed.name
                    is_folder = listed.is_dir(follow_symlinks=False)
                    if ignored(path, is_folder):
                        continue
                    if is_folder:
                        inner.append(f"{path}/")
                    else:
                        yield Entry(path, listed)
        except OSError as error:
            yield Unlisted(prefix.removesuffix("/"), error)
        waiting.extend(reversed(inner))


def is_listed(path: str, ignored: Ignored, is_folder: bool = False) -> bool:
    """Whether `walk` comes to a path: neither it nor a folder above it is ignored."""
    parents = (path[:end] for end, character in enumerate(path) if character == "/")
    return not ignored(path, is_folder) and not any(ignored(parent, True) for parent in parents)


def leads_out(folder: Path, path: str) -> bool:
    """Whether a link below a folder leads out of it."""
    return not Path(os.path.realpath(folder / path)).is_relative_to(folder)


@contextmanager
def open_folder(folder: Path, steps: Sequence[str], access: int = os.O_RDONLY) -> Iterator[int]:
    """The descriptor of a folder that is reached from ``folder`` by these names, without following a link."""
    fd = os.open(folder, access | os.O_DIRECTORY)
    try:
        for step in steps:
            inner = os.open(step, access | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


@contextmanager
def open_parent(folder: Path, path: str) -> Iterator[tuple[int, str]]:
    """The descriptor of the folder that holds ``path``, and its name there. Raises FileNotFoundError for ``..``."""
    *steps, name = path.split("/")
    if not {"", ".", ".."}.isdisjoint([*steps, name]):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    with open_folder(folder, steps) as fd:
        yield fd, name


def open_file(path: Path) -> int:
    """The descriptor of a file, for reading. No part of its path may be a link; a pipe does not block."""
    path = path.absolute()
    with open_folder(Path(path.anchor), path.parts[1:-1], PASS) as folder:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(path.name or ".", flags, dir_fd=folder)
