"""Lets the system read files before a search does, which would wait for the disk at each place after a boot."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def read_ahead(file: int) -> None:
    """Ask for all of an open file, if the system can be asked; returns before it is read."""
    if sys.platform == "linux":
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)


def read_files_ahead(paths: Iterable[Path]) -> None:
    """The same of the files at these paths, as far as they can be opened."""
    for path in paths:
        with suppress(OSError):
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                read_ahead(file)
            finally:
                os.close(file)
