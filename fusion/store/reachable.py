"""Checks that the files a database writes to are still the files at its path.

A process keeps its open files when they are deleted, moved or replaced: commits succeed, and nothing of them can be
read after a restart. So the journal compares its open files with those at the path before and after every commit, by
device and inode, with a few ``stat`` calls.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from fusion.errors import HomeGone

Identity = tuple[int, int]
"""device and inode of a file"""

_CHUNK = 1 << 20
_WAL_HEADER_BYTES = 32


class Reachable:
    """The identities of a database file, its write-ahead log and its folder at the time they were opened.

    The open descriptors prevent the reuse of the inodes, so an equal inode is the same file. They are closed after
    SQLite's own, because closing any descriptor of a database file drops SQLite's locks on it.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._log = file.with_name(file.name + "-wal")
        self._memory = file.with_name(file.name + "-shm")
        self._held: dict[Path, int] = {}
        self._known: dict[Path, Identity] = {}
        self._seal: tuple[int, ...] | None = None
        self._gone: str | None = None

    def hold(self) -> None:
        """Record the files' identities; call it when SQLite has just opened them, log included."""
        for path in (self._file.parent, self._file, self._log):
            with suppress(FileNotFoundError):
                self._held[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                self._known[path] = _identity(os.fstat(self._held[path]))
        with suppress(FileNotFoundError):
            self._known[self._memory] = _identity(self._memory.stat())
        self.seal()

    def require(self) -> None:
        """Raises HomeGone when a file is no longer at its path, and from then on always."""
        if self._gone is None:
            self._gone = self._missing()
        if self._gone is not None:
            raise HomeGone(self._gone)

    def give_up(self, what: str) -> HomeGone:
        """Make every later check fail with this reason; returns the error."""
        if self._gone is None:
            self._gone = self._explained(what)
        return HomeGone(self._gone)

    def seal(self) -> None:
        """Record sizes and times of the files after a commit of this process."""
        self._seal = self._sizes()

    def unseal(self) -> None:
        """Make `touched` return True."""
        self._seal = None

    def touched(self) -> bool:
        """Whether another process wrote to the files since the last seal."""
        return self._seal != self._sizes()

    def copy_to(self, folder: Path) -> Path:
        """Copy the database and its log as a new process would find them."""
        for path in (self._file, self._log):
            if path in self._held:
                _copy(self._held[path], folder / path.name)
        return folder / self._file.name

    def close(self) -> None:
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held = {}

    def _missing(self) -> str | None:
        for path, identity in self._known.items():
            try:
                found = _identity(path.stat())
            except OSError:
                what = f"{path} was deleted or moved away"
            else:
                if found == identity:
                    continue
                what = f"{path} was replaced by another {'folder' if path == self._file.parent else 'file'}"
            return self._explained(what)
        return None

    def _explained(self, what: str) -> str:
        return (
            f"{what} while a server had it open. That server acknowledges nothing any more and ends; the next command "
            f"starts one for what is at {self._file.parent} then. If that was a mistake, put it back first, from where "
            "it was moved to or from a backup. A journal alone can be rebuilt from the stores: fusion repair"
        )

    def _sizes(self) -> tuple[int, ...]:
        found: list[int] = []
        for path in (self._file, self._log):
            if path in self._held:
                about = os.fstat(self._held[path])
                found += (about.st_size, about.st_mtime_ns)
        return tuple(found)

    @property
    def log_is_sound(self) -> bool:
        """Whether the log is empty or begins with a header; a truncated one begins with zeros."""
        if self._log not in self._held:
            return True
        header = os.pread(self._held[self._log], _WAL_HEADER_BYTES, 0)
        return not header or any(header)


def same_content(reachable: Reachable, counts: str, expected: object) -> str | None:
    """How a copy of the files differs from what their connection sees, in words; None if it does not.

    ``counts`` is a query whose row must be ``expected``.
    """
    with TemporaryDirectory(prefix="memory-fusion-") as folder:
        copy = reachable.copy_to(Path(folder))
        try:
            with closing(sqlite3.connect(copy)) as db:
                verdict = db.execute("pragma integrity_check(1)").fetchone()[0]
                if verdict != "ok":
                    return str(verdict).splitlines()[-1]
                found = db.execute(counts).fetchone()
        except sqlite3.Error as error:
            return str(error)
    return None if found == expected else f"it holds {found}, and {expected} was written"


def _identity(about: os.stat_result) -> Identity:
    return about.st_dev, about.st_ino


def _copy(source: int, target: Path) -> None:
    with target.open("wb") as file:
        offset = 0
        while chunk := os.pread(source, _CHUNK, offset):
            file.write(chunk)
            offset += len(chunk)
