"""When each hook of a home was last called and what it complained of, for `fusion doctor`.

A hook fails open and says why in one line, which a host shows to nobody: a hook that is dead or whose input has changed
after an upgrade of the host would go unnoticed. So each call leaves its notice in a small file of its own in the home;
two hooks at the same time write different files, or the same lines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from fusion.store.private_files import read_regular

FOLDER = "hook-calls"
UNKNOWN = "unknown"
"""the name under which calls of hooks are recorded that do not exist"""
MAX_BYTES = 2000
"""bytes of a notice that are kept"""
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class LastCall(NamedTuple):
    """The last call of one hook: its time in seconds since 1970, and its notice; "" for none."""

    hook: str
    at: float
    notice: str


def record(home: Path, hook: str, notice: str) -> None:
    """Record a call in a home that exists. A failure is none of the hook's: doctor then knows of no call."""
    with suppress(OSError):
        if home.is_dir():
            (home / FOLDER).mkdir(mode=0o700, exist_ok=True)
            with _opened(home) as folder:
                file = os.open(hook, _FLAGS | os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=folder)
                try:
                    os.write(file, notice.encode("utf-8", "replace")[:MAX_BYTES])
                finally:
                    os.close(file)


def last_calls(home: Path) -> Iterator[LastCall]:
    """The last call of each hook that was ever called, by the names of the hooks."""
    folder = home / FOLDER
    with suppress(OSError):
        for file in sorted(folder.iterdir()):
            at, notice = file.lstat().st_mtime, read_regular(file, MAX_BYTES, ours=True)
            yield LastCall(file.name, at, notice.decode("utf-8", "replace"))


@contextmanager
def _opened(home: Path) -> Iterator[int]:
    """A descriptor of the folder of the calls, which is opened through no link."""
    folder = os.open(home / FOLDER, _FLAGS | os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)
