"""Opens a home that cannot be written to, on a full disk or a read-only one: from a private copy, for reading only."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fusion.errors import HomeLocked, StoreFull
from fusion.home import explain_lock, owner, refuse_traps
from fusion.settings import Settings
from fusion.store.writable import unwritable

log = logging.getLogger(__name__)

SPARE_BYTES = 16 * 1024 * 1024
"""left free where the copy is made, for what the stores write into it"""
_LEFT_OUT = shutil.ignore_patterns("embeddings", "server.*", "receipts.sqlite*", "*.lost-*", "lock", ".lock", "*.sock")
"""what no question needs: caches, logs, receipts of other answers, locks"""
_PLACES = ("/dev/shm", "/run/shm")  # noqa: S108 — memory, where the disk is full
PREFIX = "memory-fusion-copy-"


@dataclass(frozen=True, slots=True)
class Readable:
    """Settings whose home can be opened. ``reason`` says why that is a copy; empty where it is the home itself."""

    settings: Settings
    reason: str = ""


@asynccontextmanager
async def readable(settings: Settings) -> AsyncIterator[Readable]:
    """The settings as they are, or those of a copy of a home that cannot be written to; it goes with the block.

    Raises HomeLocked where a server has the home, and StoreFull where there is no room for a copy either.
    """
    home = settings.home
    why = await asyncio.to_thread(unwritable, home)
    if not why:
        yield Readable(settings)
        return
    if (holder := owner(home)) is not None:
        raise HomeLocked(explain_lock(home, holder))
    refuse_traps(home)
    copy = await asyncio.to_thread(_copied, home, why)
    reason = (
        f"the home {home} cannot be written to ({why}), so it is only read, from a copy: nothing is remembered or "
        "forgotten. Make room or make it writable, and start again"
    )
    log.error("%s", reason)
    try:
        yield Readable(settings.model_copy(update={"home": copy}), reason)
    finally:
        await asyncio.to_thread(shutil.rmtree, copy, True)


def _copied(home: Path, why: str) -> Path:
    files = [path for path in home.rglob("*") if path.is_file()]
    needed = sum(path.stat().st_size for path in files) + SPARE_BYTES
    for place in (tempfile.gettempdir(), *_PLACES):
        if not os.access(place, os.W_OK) or shutil.disk_usage(place).free < needed:
            continue
        copy = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        try:
            shutil.copytree(home, copy, symlinks=True, ignore=_LEFT_OUT, dirs_exist_ok=True, copy_function=shutil.copy)
        except OSError:
            shutil.rmtree(copy, ignore_errors=True)
            continue
        return copy
    raise StoreFull(
        f"The home {home} cannot be written to ({why}), and there is no room for a copy of {needed / 1e6:.0f} MB in "
        f"{tempfile.gettempdir()} either. Make room, or name a folder that has some: TMPDIR=…"
    )
