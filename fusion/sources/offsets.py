"""How far files that grow were read, so that the next run begins there.

A cache only: the natural keys are the truth. What a bookmark says is believed while the file still has the same bytes
before it, and while the home still has the journal that it had then; else the file is read from its beginning, which
costs time and remembers nothing twice.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from dataclasses import astuple, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from fusion.contract import DIMENSIONS, Scope
from fusion.store.private_files import read_regular

FILE = "ingest.json"
JOURNAL = "journal.sqlite"
MAX_BYTES = 64 << 20
MOST = 50_000
"""bookmarks kept; of more, those that were moved longest ago go"""
TAIL_BYTES = 4096
"""before a bookmark, that must still be the same"""


@dataclass(frozen=True, slots=True)
class ReadOffset:
    """``offset`` bytes of the file with this ``inode`` were read, the last of them hashing to ``digest``.

    In them were ``lines``, of those ``turns`` (the last ``unattended`` or not, as `Transcript` has it), and of those
    ``memories`` were handed on. In a database the offset is a row's number.
    """

    inode: int
    offset: int
    digest: str
    lines: int = 0
    turns: int = 0
    unattended: bool = False
    memories: int = 0


class ReadOffsets:
    """The bookmarks of one home, for one scope: another owner's memories are other memories.

    What is ``reached`` counts once it is committed, which is when everything before it was acknowledged.
    """

    def __init__(self, home: Path, whose: Scope) -> None:
        self.known = 0
        """memories that earlier runs handed on, in the files of this one"""
        self._file = home / FILE
        self._journal = home / JOURNAL
        self._whose = orjson.dumps([whose.tenant, *(whose.named().get(dimension) for dimension in DIMENSIONS)]).decode()
        self._marks = self._load()
        self._reached: dict[str, ReadOffset] = {}

    def find(self, name: str) -> ReadOffset | None:
        """How far a file was read; what it has before there counts as known once `resumed` says so."""
        found = self._marks.get(self._key(name))
        try:
            return ReadOffset(*found) if found is not None else None
        except TypeError:  # written by another version
            return None

    def resumed(self, mark: ReadOffset) -> None:
        """Notes that reading goes on from there."""
        self.known += mark.memories

    def reached(self, name: str, mark: ReadOffset) -> None:
        """Notes how far a file was read; not yet for good."""
        self._reached[self._key(name)] = mark

    def commit(self) -> None:
        """Keeps what was reached. Other processes' bookmarks stay; a disk that is full costs the bookmarks only."""
        if not self._reached:
            return
        self._marks = self._load()
        for key, mark in self._reached.items():
            self._marks.pop(key, None)
            self._marks[key] = astuple(mark)
        self._reached.clear()
        kept = dict(list(self._marks.items())[-MOST:])
        with suppress(OSError):
            self._write(orjson.dumps({"journal": self._identity(), "marks": kept}))

    def drop(self) -> None:
        """Forgets what was reached since the last commit."""
        self._reached.clear()

    def _key(self, name: str) -> str:
        return f"{self._whose} {name}"

    def _load(self) -> dict[str, Any]:
        try:
            found = orjson.loads(read_regular(self._file, MAX_BYTES))
            *which, size = found["journal"]
            *now, grown = self._identity()
            return dict(found["marks"]) if which == now and size <= grown else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}

    def _identity(self) -> tuple[int, int, int]:
        """Which journal the home has: one that was set aside, deleted or restored from a copy knows other memories.

        Its size is part of it because an inode is soon used again, and a journal never shrinks.
        """
        about = self._journal.stat()
        return about.st_dev, about.st_ino, about.st_size

    def _write(self, data: bytes) -> None:
        """Whole or not at all, readable by its owner only."""
        descriptor, name = tempfile.mkstemp(dir=self._file.parent, prefix=".ingest-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            Path(name).replace(self._file)
        except BaseException:
            Path(name).unlink()
            raise


def forget_all(home: Path) -> None:
    """Drops a home's bookmarks: every file is read from its beginning again, and what is known is skipped."""
    with suppress(OSError):
        (home / FILE).unlink()


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _digest_before(fd: int, offset: int) -> str:
    start = max(0, offset - TAIL_BYTES)
    return digest(os.pread(fd, offset - start, start))


def up_to(fd: int, offset: int) -> ReadOffset:
    """A bookmark in a file that only ever grows at its end."""
    return ReadOffset(os.fstat(fd).st_ino, offset, _digest_before(fd, offset))


def begins_so(mark: ReadOffset, fd: int) -> bool:
    """Whether a file still begins with what was read up to a bookmark."""
    about = os.fstat(fd)
    if about.st_ino != mark.inode or about.st_size < mark.offset:
        return False
    return _digest_before(fd, mark.offset) == mark.digest


def whole(about: os.stat_result, memories: int) -> ReadOffset:
    """A bookmark behind a file that anybody may have edited anywhere: it holds while nobody touched it.

    By the time of its last change, which nobody can put back, as rsync and touch do with that of the last edit.
    """
    return ReadOffset(about.st_ino, about.st_size, f"{about.st_ctime_ns} ns", memories=memories)


def is_untouched(mark: ReadOffset, about: os.stat_result) -> bool:
    return whole(about, mark.memories) == mark
