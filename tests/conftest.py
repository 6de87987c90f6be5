"""What holds for every test: no network but loopback, no user's home, no keys."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings

from tests.bolt.servers import arcade, neo4j_url  # noqa: F401 – fixtures: a database is started once for all who ask

# Before numpy is imported anywhere: two test processes on two cores, each with one thread.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A busy machine is no counter-example.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

PRIVATE = ("FUSION_", "ANTHROPIC_", "OPENAI_", "MEM0_", "QDRANT_", "XDG_")


NOBODY = TemporaryDirectory(prefix="nobody-")


def pytest_configure() -> None:
    """HOME is empty, and keys and settings of whoever runs the tests are gone: before any test module is imported."""
    for name in list(os.environ):
        if name.startswith(PRIVATE) or name.endswith("_API_KEY"):
            del os.environ[name]
    os.environ["HOME"] = NOBODY.name


def pytest_unconfigure() -> None:
    NOBODY.cleanup()


class NetworkUsed(BaseException):
    """A test went beyond loopback. Not an ``Exception``: what tolerates a failing backend must not tolerate this."""


class NetworkGuard:
    """Python tells an audit hook of every connection before it is made; the hook cannot be taken away, so it is one."""

    allowed = False

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.allowed:
            return
        if event in ("socket.connect", "socket.sendto"):
            address = arguments[1]
            if isinstance(address, tuple) and not _loopback(str(address[0])):
                raise NetworkUsed(f"connection to {address[:2]}: mark the test `live`, or serve it from loopback")
        elif event == "socket.getaddrinfo" and arguments[0] and not _loopback(_text(arguments[0])):
            raise NetworkUsed(f"look-up of {arguments[0]!r}: mark the test `live`, or use a name under .invalid")


def _text(host: object) -> str:
    return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)


def _loopback(host: str) -> bool:
    """Loopback, the wildcard address, or a name that by RFC 6761 exists nowhere."""
    if host in ("", "localhost", "testserver") or host.endswith((".localhost", ".invalid")):
        return True
    try:
        address = ipaddress.ip_address(host.split("%", maxsplit=1)[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


GUARD = NetworkGuard()
sys.addaudithook(GUARD)


class LeftOpen:
    """Keeps the connections of qdrant-client's local mode, which leaves some to the collector: the one by which it asks
    SQLite how it was built, and those of deleted collections. Python 3.13 warns of that, as it is to warn of ours."""

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
    """A home that does not exist yet, as a new user has it."""
    return tmp_path / "home"
