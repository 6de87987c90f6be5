"""Bookmarks: how far files were read, so that the next run continues there.

A bookmark is valid while the file still has the same bytes before it, and the home the same journal. Otherwise the file
is read from its beginning, which costs time but is idempotent: memories have natural keys.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import astuple, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from fusion.contract import DIMENSIONS, Scope
from fusion.ingest.intake import name_of_file
from fusion.store.private_files import read_regular, write_atomically

FILE = "ingest.json"
JOURNAL = "journal.sqlite"
MAX_BYTES = 64 << 20
MAX_BOOKMARKS = 50_000
"""maximum bookmarks that are kept; those that changed longest ago are dropped"""
TAIL_BYTES = 4096
"""the bytes before a bookmark that must still be the same"""


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A bookmark: ``offset`` bytes of the file with this ``inode`` were read; ``digest`` hashes the last of them.

    They held ``lines``, ``turns`` (``unattended``: the state of `Transcript` after the last one) and ``memories``. In a
    database the offset is the number of a row.
    """

    inode: int
    offset: int
    digest: str
    lines: int = 0
    turns: int = 0
    unattended: bool = False
    memories: int = 0


class Bookmarks:
    """The bookmarks of one home for one owner. New ones take effect by `commit`."""

    def __init__(self, home: Path, owner: Scope) -> None:
        self.known = 0
        """the memories that earlier runs read from the resume files"""
        self._file = home / FILE
        self._journal = home / JOURNAL
        self._owner = orjson.dumps([owner.tenant, *(owner.named().get(dimension) for dimension in DIMENSIONS)]).decode()
        self._marks = self._load()
        self._new: dict[str, Bookmark] = {}

    def find(self, name: str) -> Bookmark | None:
        """The bookmark of a file or database; None without one."""
        found = self._marks.get(self._key(name))
        try:
            return Bookmark(*found) if found is not None else None
        except TypeError:  # written by another version
            return None

    def latest(self, name: str) -> Bookmark | None:
        """The bookmark of a file or database, also before `commit`."""
        return self._new.get(self._key(name)) or self.find(name)

    def resume(self, mark: Bookmark) -> None:
        """Counts the memories before a bookmark as known, because reading continues there."""
        self.known += mark.memories

    def set(self, name: str, mark: Bookmark) -> None:
        """Sets the bookmark of a file until the next `commit`."""
        self._new[self._key(name)] = mark

    def commit(self) -> None:
        """Writes the new bookmarks. Those of other processes stay; a full disk loses only the bookmarks."""
        if not self._new:
            return
        self._marks = self._load()
        for key, mark in self._new.items():
            self._marks.pop(key, None)
            self._marks[key] = astuple(mark)
        self._new.clear()
        kept = dict(list(self._marks.items())[-MAX_BOOKMARKS:])
        with suppress(OSError):
            write_atomically(self._file, orjson.dumps({"journal": self._identity(), "marks": kept}))

    def _key(self, name: str) -> str:
        return f"{self._owner} {name_of_file(name)}"

    def _load(self) -> dict[str, Any]:
        try:
            found = orjson.loads(read_regular(self._file, MAX_BYTES))
            *which, size = found["journal"]
            *now, grown = self._identity()
            return dict(found["marks"]) if which == now and size <= grown else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def _identity(self) -> tuple[int, int, int]:
        """Identifies the home's journal: one that was replaced or restored has other memories.

        The size is part of it because inodes are reused, and a journal never shrinks.
        """
        about = self._journal.stat()
        return about.st_dev, about.st_ino, about.st_size


def forget_all(home: Path) -> None:
    """Removes a home's bookmarks, so that every file is read from its beginning again."""
    with suppress(OSError):
        (home / FILE).unlink()


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _digest_before(fd: int, offset: int) -> str:
    start = max(0, offset - TAIL_BYTES)
    return digest(os.pread(fd, offset - start, start))


def at_offset(fd: int, offset: int) -> Bookmark:
    """A bookmark in a file that only grows at its end."""
    return Bookmark(os.fstat(fd).st_ino, offset, _digest_before(fd, offset))


def still_begins(mark: Bookmark, fd: int) -> bool:
    """Whether a file still has the same bytes up to a bookmark."""
    about = os.fstat(fd)
    if about.st_ino != mark.inode or about.st_size < mark.offset:
        return False
    return _digest_before(fd, mark.offset) == mark.digest


def at_end(about: os.stat_result, memories: int) -> Bookmark:
    """A bookmark at the end of a file that may be edited anywhere: valid while the file is unchanged.

    The digest is the ctime, which, unlike the mtime, rsync and touch cannot set back.
    """
    return Bookmark(about.st_ino, about.st_size, f"{about.st_ctime_ns} ns", memories=memories)


def is_untouched(mark: Bookmark, about: os.stat_result) -> bool:
    """Whether a file is unchanged since its bookmark of `at_end`."""
    return at_end(about, mark.memories) == mark
