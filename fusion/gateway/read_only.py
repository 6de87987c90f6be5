"""Opens a home on a full or read-only disk from a private copy, for reading only."""

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
from fusion.home import explain_lock, owner, refuse_links
from fusion.settings import Settings
from fusion.store.writable import unwritable

log = logging.getLogger(__name__)

SPARE_BYTES = 16 * 1024 * 1024
"""bytes to leave free on the disk of the copy, for files that the stores write"""
_SKIP = shutil.ignore_patterns(
    "embeddings", "server.*", "receipts.sqlite*", "access.sqlite*", "*.lost-*", "lock", ".lock", "*.sock"
)
"""files that are not copied since no question needs them: caches, logs, earlier receipts and accesses, locks"""
_MEMORY_FOLDERS = ("/dev/shm", "/run/shm")  # noqa: S108 — in memory, if the disk is full
PREFIX = "memory-fusion-copy-"


@dataclass(frozen=True, slots=True)
class WritableHome:
    """Settings whose home can be written to. ``reason`` says why that is a copy; empty for the home itself."""

    settings: Settings
    reason: str = ""


@asynccontextmanager
async def writable_home(settings: Settings) -> AsyncIterator[WritableHome]:
    """The home itself if it can be written to, else a copy that is deleted at the end of the block.

    Raises HomeLocked if a server has the home, and StoreFull if there is no space for a copy.
    """
    home = settings.home
    why = await asyncio.to_thread(unwritable, home)
    if not why:
        yield WritableHome(settings)
        return
    if (holder := owner(home)) is not None:
        raise HomeLocked(explain_lock(home, holder))
    refuse_links(home)
    copy = await asyncio.to_thread(_copy, home, why)
    reason = (
        f"the home {home} cannot be written to ({why}), so it is only read, from a copy: nothing is remembered or "
        "forgotten. Make room or make it writable, and start again"
    )
    log.error("%s", reason)
    try:
        yield WritableHome(settings.model_copy(update={"home": copy}), reason)
    finally:
        await asyncio.to_thread(shutil.rmtree, copy, True)


def _copy(home: Path, why: str) -> Path:
    """Copy a home to the first folder with enough space. Raises StoreFull."""
    files = [path for path in home.rglob("*") if path.is_file()]
    needed = sum(path.stat().st_size for path in files) + SPARE_BYTES
    for place in (tempfile.gettempdir(), *_MEMORY_FOLDERS):
        if not os.access(place, os.W_OK) or shutil.disk_usage(place).free < needed:
            continue
        copy = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        try:
            shutil.copytree(home, copy, symlinks=True, ignore=_SKIP, dirs_exist_ok=True, copy_function=shutil.copy)
        except OSError:
            shutil.rmtree(copy, ignore_errors=True)
            continue
        return copy
    raise StoreFull(
        f"The home {home} cannot be written to ({why}), and there is no room for a copy of {needed / 1e6:.0f} MB in "
        f"{tempfile.gettempdir()} either. Make room, or name a folder that has some: TMPDIR=…"
    )
