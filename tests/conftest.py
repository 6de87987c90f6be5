"""Applies to every test: no network except loopback, no user's home, no keys."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import typer.testing
from hypothesis import settings

from tests.bolt.servers import arcade, neo4j_url  # noqa: F401 – fixtures: one database for all tests
from tests.network_guard import GUARD
from tests.postgres.servers import journal_server, postgres, postgres_database  # noqa: F401 – fixtures: one server for all tests

# Set before numpy is imported: two test processes on two cores, each with one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A slow example on a busy machine is not a failure.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# Typer makes the tree of all commands anew for each one that a test calls: that was half the time of these tests.
typer.testing._get_command = cache(typer.main.get_command)

PRIVATE = ("FUSION_", "ANTHROPIC_", "OPENAI_", "MEM0_", "QDRANT_", "XDG_")


GIB = 1 << 30
IN_MEMORY = Path("/dev/shm")  # noqa: S108 – only for folders with random names, as in /tmp


def use_memory_for_files() -> None:
    """Let servers and processes that tests start have their temporary files in memory, if there is enough of it.

    A place that ``TMPDIR`` names is kept. The databases of tests make and remove millions of files, and half their time
    was the disk's. pytest's own ``tmp_path`` stays where it is: it has looked for its place already.
    """
    if "TMPDIR" in os.environ or not os.access(IN_MEMORY, os.W_OK | os.X_OK):
        return
    place = os.statvfs(IN_MEMORY)
    memory = re.search(r"^MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    free = min(place.f_bavail * place.f_frsize, int(memory[1]) * 1024 if memory else 0)
    if free >= 8 * GIB and not place.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(IN_MEMORY)


use_memory_for_files()
NOBODY = TemporaryDirectory(prefix="nobody-")


def pytest_configure() -> None:
    """Set an empty HOME and remove the user's keys and settings, before any test module is imported."""
    for name in list(os.environ):
        if name.startswith(PRIVATE) or name.endswith("_API_KEY"):
            del os.environ[name]
    os.environ["HOME"] = NOBODY.name
    # No test depends on how fast this machine is.
    os.environ["FUSION_HOOKS__RECALL_TIMEOUT_MS"] = "15000"
    os.environ["FUSION_HOOKS__HELLO_TIMEOUT_MS"] = "15000"


def pytest_unconfigure() -> None:
    NOBODY.cleanup()


def pytest_collection_finish() -> None:
    """Exclude all tests and modules from garbage collection.

    Fifteen thousand tests are a heap of a gigabyte. To look through it takes a quarter of all CPU time.
    """
    gc.collect()
    gc.freeze()
    # Python waits with a full collection until a quarter of what the last one left is new. This leaves next to nothing.
    gc.collect()
    gc.set_threshold(5_000, 10, 10)


sys.addaudithook(GUARD)


class LeftOpen:
    """An audit hook that keeps references to SQLite connections that qdrant-client's local mode does not close.

    Python 3.13 warns of each unclosed connection; this keeps the warnings for our own code.
    """

    def __init__(self) -> None:
        self.kept: list[object] = []

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event == "sqlite3.connect/handle":
            caller = sys._getframe(1).f_globals.get("__name__")
            if caller == "qdrant_client.local.persistence":
                self.kept.append(arguments[0])


LEFT_OPEN = LeftOpen()
sys.addaudithook(LEFT_OPEN)


@pytest.fixture(autouse=True)
def _loopback_only(request: pytest.FixtureRequest) -> Iterator[None]:
    GUARD.allowed = request.node.get_closest_marker("live") is not None
    yield
    GUARD.allowed = False


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The path of a home that does not exist yet."""
    return tmp_path / "home"
