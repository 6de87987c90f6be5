"""Who reads files into a home: whoever asks for it, and behind them the server that follows its notes.

Two that read one file at different moments would undo each other: the one that saw it first would retire, at its end,
what the other one has remembered since. A lock on ``home/ingest.lock`` keeps them apart; it dies with its process.
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
AGAIN_S = 0.05
"""until a command looks again whether the server is done, which takes in few files at once"""


@asynccontextmanager
async def reading(home: Path | None) -> AsyncIterator[Callable[[], None]]:
    """For a command, beside others: the server waits until the end, or until what this gives is called.

    Without a home, before it is there, and in one that may not be written to, nobody is kept waiting.
    """
    if home is None or not (home.is_dir() and os.access(home, os.W_OK)):
        yield lambda: None
        return
    with _file(home) as descriptor:
        while not _locked(descriptor, fcntl.LOCK_SH):  # noqa: ASYNC110 — it is another process that has it
            await asyncio.sleep(AGAIN_S)
        yield lambda: fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def reading_behind(home: Path) -> Iterator[None]:
    """For the server, alone. Raises StoreBusy while a command reads."""
    with _file(home) as descriptor:
        if not _locked(descriptor, fcntl.LOCK_EX):
            raise StoreBusy("files are being read in by another process")
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


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
