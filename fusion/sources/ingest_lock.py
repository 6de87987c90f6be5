"""The lock on reading files into a home: commands share it, and the server that follows notes takes it alone.

Two processes that read one file at different moments would undo each other: the first would retire at its end what the
second has remembered since. The lock is on ``home/ingest.lock``, and ends with its process.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from fusion.errors import BadInput, StoreBusy

FILE = "ingest.lock"
RETRY_S = 0.05
"""seconds between two attempts of a command; the server holds the lock for a few files at a time"""


@asynccontextmanager
async def lock_for_command(home: Path | None) -> AsyncIterator[Callable[[], None]]:
    """Takes the lock for a command, shared with other commands; yields a function that releases it early.

    Takes no lock without a home, and in one that is missing or cannot be written to.
    """
    if home is None or not (home.is_dir() and os.access(home, os.W_OK)):
        yield lambda: None
        return
    with _file(home) as descriptor:
        while not _try_lock(descriptor, fcntl.LOCK_SH):  # noqa: ASYNC110 — another process has it
            await asyncio.sleep(RETRY_S)
        yield lambda: fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def lock_for_server(home: Path) -> Iterator[None]:
    """Takes the lock for the server alone. Raises StoreBusy while a command reads."""
    with _file(home) as descriptor:
        if not _try_lock(descriptor, fcntl.LOCK_EX):
            raise StoreBusy("another process is reading files in")
        yield


@contextmanager
def _file(home: Path) -> Iterator[int]:
    try:
        descriptor = os.open(home / FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise BadInput(f"{home / FILE} is a link, which is not followed: delete it") from error
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
