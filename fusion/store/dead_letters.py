"""A file that lists what could not be taken in: where it was, and why. It has no text of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import orjson

from fusion.store.private_files import write_atomically

MAX_BYTES = 1_000_000
"""size from which the older half of the entries goes"""
MAX_REASON_CHARS = 300


class DeadLetter(NamedTuple):
    """One record that was refused: ``where`` is ``file:line`` or a pointer, ``line`` the record itself."""

    where: str
    reason: str
    line: bytes = b""


class DeadLetters:
    """The list in one file. Entries have the size and the hash of a record, so that its owner can find it again."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()

    def add(self, letters: Sequence[DeadLetter], at: datetime) -> None:
        """Append entries. A full disk loses them, and nothing else: the caller has counted the records."""
        if not letters:
            return
        entries = b"".join(orjson.dumps(_entry(letter, at)) + b"\n" for letter in letters)
        with self._lock, suppress(OSError):
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(
                self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
            with os.fdopen(descriptor, "ab") as opened:
                opened.write(entries)
            if self.file.stat().st_size > MAX_BYTES:
                lines = self.file.read_bytes().splitlines(keepends=True)
                write_atomically(self.file, b"".join(lines[len(lines) // 2 :]))


def _entry(letter: DeadLetter, at: datetime) -> dict[str, object]:
    return {
        "at": at.isoformat(),
        "where": letter.where,
        "reason": letter.reason[:MAX_REASON_CHARS],
        "bytes": len(letter.line),
        "sha256": sha256(letter.line).hexdigest(),
    }
