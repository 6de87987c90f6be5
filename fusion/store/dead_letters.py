"""A file that lists what could not be taken in: where it was, and why. It has no text of it.

A person who has seen the list sets its entries aside, in a second file. A record that is in either is not listed again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from fusion.store.private_files import read_regular, write_atomically

MAX_BYTES = 1_000_000
"""size from which the older half of the entries goes"""
MAX_READ_BYTES = 16 * MAX_BYTES
"""a larger file is not ours, and is not read"""
MAX_REASON_CHARS = 300
SEEN = ".seen"
"""what the name of the file with the entries set aside has before its ending"""


class DeadLetter(NamedTuple):
    """One record that was refused: ``where`` is ``file:line`` or a pointer, ``line`` the record itself."""

    where: str
    reason: str
    line: bytes = b""


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry of the list. ``fields`` are those of its line."""

    at: datetime
    where: str
    reason: str
    fields: dict[str, Any]

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells one refused record from another. Lines of a file may move, as long as they have the same bytes."""
        place = self.where.rpartition(":")[0] if self.fields.get("bytes") else ""
        return place or self.where, self.reason, str(self.fields.get("sha256", ""))


class DeadLetters:
    """The list in one file. Entries have the size and the hash of a record, so that its owner can find it again."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.seen_file = file.with_suffix(SEEN + file.suffix)
        self._lock = threading.Lock()

    def add(self, letters: Sequence[DeadLetter], at: datetime) -> None:
        """Append entries, each record once. A full disk loses them, and nothing else: the caller has counted them."""
        if not letters:
            return
        with self._lock, suppress(OSError):
            known = {entry.key for file in (self.file, self.seen_file) for entry in _entries(file)}
            new = [entry for letter in letters if (entry := _entry(letter, at)).key not in known]
            _append(self.file, new)

    def listed(self) -> list[Listed]:
        """The entries that nobody has set aside, oldest first. Lines that are no entries are left out."""
        return list(_entries(self.file))

    def set_aside(self, until: datetime, by: str, why: str, now: datetime) -> int:
        """Move the entries up to a time into the second file, with who did it and why. Returns their number.

        Raises OSError if a file cannot be written; then no entry is lost.
        """
        with self._lock:
            entries = self.listed()
            seen = [entry for entry in entries if entry.at <= until]
            if seen:
                note = {"at": now.isoformat(), "by": by, "why": why[:MAX_REASON_CHARS]}
                moved = [Listed(one.at, one.where, one.reason, {**one.fields, "seen": note}) for one in seen]
                _append(self.seen_file, moved)
                write_atomically(self.file, b"".join(_line(entry) for entry in entries if entry.at > until))
        return len(seen)


def _append(file: Path, entries: Sequence[Listed]) -> None:
    """Append entries to a file of the list, and leave out its older half if it is too long."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "ab") as opened:
        opened.write(b"".join(map(_line, entries)))
    if file.stat().st_size > MAX_BYTES:
        lines = file.read_bytes().splitlines(keepends=True)
        write_atomically(file, b"".join(lines[len(lines) // 2 :]))


def _entries(file: Path) -> Iterator[Listed]:
    try:
        lines = read_regular(file, MAX_READ_BYTES).splitlines()
    except OSError:  # there is none yet, or it is not ours
        return
    for line in lines:
        with suppress(ValueError, KeyError, TypeError, AttributeError):  # a line that was cut or edited
            fields = orjson.loads(line)
            at = datetime.fromisoformat(fields["at"])
            if at.tzinfo is not None:
                yield Listed(at, str(fields["where"]), str(fields["reason"]), fields)


def _line(entry: Listed) -> bytes:
    return orjson.dumps(entry.fields) + b"\n"


def _entry(letter: DeadLetter, at: datetime) -> Listed:
    reason = letter.reason[:MAX_REASON_CHARS]
    fields = {
        "at": at.isoformat(),
        "where": letter.where,
        "reason": reason,
        "bytes": len(letter.line),
        "sha256": sha256(letter.line).hexdigest(),
    }
    return Listed(at, letter.where, reason, fields)
