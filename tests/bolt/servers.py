"""Real databases for tests, each a process on loopback that ends with the tests: ArcadeDB, and Neo4j Community.

ArcadeDB comes as a wheel with its own Java, and speaks enough Bolt and Cypher for all that is common to the databases;
what it says differently is a dialect of its own, which only tests need. Neo4j comes from Maven Central: `make
test-neo4j` fetches it and runs the tests that are marked so.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from adapters.bolt.dialects import Schema, TextIndex, VectorIndex
from adapters.bolt.driver import Bolt
from adapters.bolt.options import Server

HERE = Path(__file__).parent
CLASSPATH = HERE.parent.parent / ".cache" / "neo4j" / "classpath"
"""written by `make test-neo4j`"""

START_S = 90
CONNECT_MS = 60_000
"""no test depends on how quickly a busy machine connects"""


class ArcadeDB:
    """ArcadeDB's dialect: its indexes of vectors and texts cannot be made over Bolt, so it looks through all nodes."""

    name = "arcadedb"
    database: str | None = "test"
    existing: Sequence[str] = ()

    def names_of(self, rows: Iterable[Mapping[str, object]]) -> Mapping[str, int | None]:
        return {}

    def ddl(self, schema: Schema, existing: Collection[str]) -> Sequence[str]:
        return (
            *(
                f"CREATE CONSTRAINT {label}_{prop} IF NOT EXISTS FOR (n:{label}) REQUIRE n.{prop} IS UNIQUE"
                for label, prop in schema.unique
            ),
            *(
                f"CREATE INDEX {label}_{prop} IF NOT EXISTS FOR (n:{label}) ON (n.{prop})"
                for label, prop in schema.indexed
            ),
        )

    def drop(self, index: VectorIndex | TextIndex) -> str:
        return "RETURN 1"

    def identity(self, element: str) -> str:
        return f"elementId({element})"

    def nearest(self, index: VectorIndex) -> str:
        return (
            f"MATCH (node:{index.label}) WHERE node.{index.property} IS NOT NULL "
            f"WITH node, {self.cosine('node', index)} AS similarity ORDER BY similarity DESC LIMIT $k"
        )

    def matching(self, index: TextIndex) -> str:
        return (
            f"MATCH (node:{index.label}) "
            f"WITH node, size([w IN split($words, ' ') WHERE toLower(node.{index.property}) CONTAINS w]) AS score "
            "WHERE score > 0 WITH node, toFloat(score) AS score ORDER BY score DESC LIMIT $k"
        )

    def cosine(self, node: str, index: VectorIndex) -> str:
        return f"vector.similarity.cosine({node}.{index.property}, $vector)"


class Process:
    """A server in a child process that says where it is, in one line of JSON, and ends with its standard input."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
        start_s: float = START_S,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "log"
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env=environment
            )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], start_s)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            self.kill()
            raise RuntimeError(f"{command[0]} did not start:\n{log.read_text('utf-8', 'replace')[-3000:]}")
        self.ready: Mapping[str, str] = json.loads(line)
        """what it said when it was up"""
        self.url: str = self.ready.get("bolt", self.ready.get("url", "")).rstrip("/")

    def command(self, command: str) -> None:
        """Send a line to its standard input, and wait for the line that says that it is done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise RuntimeError(f"{command}: the server's process has ended")

    def kill(self) -> None:
        self._process.kill()
        self._finish()

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._finish()

    def _finish(self) -> None:
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def start_arcade(folder: Path, port: int = 0) -> Process:
    return Process([sys.executable, str(HERE / "arcade_server.py"), str(folder / "data"), str(port)], folder)


def arcade_at(url: str, tmp_path: Path) -> Server:
    """Where it is; its password is in a file of the test."""
    file = tmp_path / "arcade-password"
    file.write_text("test-password")
    return Server(url, database="test", user="root", password_file=str(file), connect_ms=CONNECT_MS)


@pytest.fixture(scope="session")
def arcade(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an ArcadeDB that all tests of this process share."""
    pytest.importorskip("arcadedb_embedded")
    process = start_arcade(tmp_path_factory.mktemp("arcade"))
    yield process.url
    process.stop()


@pytest.fixture(scope="session")
def neo4j_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Neo4j Community, without log-on, that all tests of this process share."""
    if not CLASSPATH.exists():
        pytest.skip("no Neo4j was fetched: make test-neo4j")
    folder = tmp_path_factory.mktemp("neo4j")
    options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={folder}"]
    command = ["java", *options, "-cp", CLASSPATH.read_text().strip(), str(HERE / "Neo4jServer.java"), str(folder)]
    process = Process(command, folder)
    yield process.url
    process.stop()


async def empty(bolt: Bolt) -> None:
    """Forgets all that an earlier test left."""
    await bolt.write("MATCH (n) DETACH DELETE n", {}, 60.0)


def memgraph_at_hand() -> Server:
    """The Memgraph of compose/memgraph.yaml, or another that MEMGRAPH_URL names; for tests marked `live`."""
    url = os.environ.get("MEMGRAPH_URL", "bolt://127.0.0.1:7687")
    if os.environ.get("MEMGRAPH_PASSWORD"):
        return Server(url, user="fusion", password_env="MEMGRAPH_PASSWORD", connect_ms=CONNECT_MS)
    return Server(url, connect_ms=CONNECT_MS)
