"""Seals: whether large files are as a process left them when it closed them, so that an opening need not read them all.

A seal is a small file with the size and the times of each file. It is written after an orderly close and taken away by
the next opening, so that none is left where a process was killed; then everything is checked, as it is for files that
anybody has written to or copied since. What rots on the disk meanwhile is found by the job `checks`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar


class Seal:
    """The seal in ``path``; ``of`` are the files that it is for."""

    least_bytes: ClassVar[int] = 16_000_000
    """size of all files together below which none is written: they are checked in a moment"""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, of: Iterable[Path]) -> None:
        """Seal files that are closed. Where the seal cannot be written, there is none."""
        with suppress(OSError):
            states = _states(of)
            if sum(size for size, *_ in states.values()) >= self.least_bytes:
                new = self._path.with_name(f"{self._path.name}.new")
                new.unlink(missing_ok=True)
                descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
                with os.fdopen(descriptor, "w", encoding="ascii") as file:
                    json.dump(states, file)
                new.replace(self._path)

    def take(self, of: Iterable[Path]) -> bool:
        """Whether the files are as they were when they were sealed; the seal is gone when this returns."""
        try:
            text = self._path.read_text(encoding="ascii")
            self._path.unlink()
            return bool(json.loads(text) == _states(of))
        except (OSError, ValueError):
            return False


def _states(of: Iterable[Path]) -> dict[str, list[int]]:
    """By name, what a write changes: size, times, and the file's number."""
    found = {}
    for path in of:
        if path.exists():
            stat = path.lstat()
            found[path.name] = [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino]
    return found
