"""Four memories behind one question: Markdown and mem0 here, a real Cognee and a real graph database as they are run.

`make test-cognee ARGS='-s tests/cognee/test_four.py'` prints what it answers; adapters/README.md shows that.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from adapters.bolt.dialects import DIALECTS
from adapters.bolt.driver import Bolt
from adapters.bolt.options import Server
from fusion.client import stop_server
from fusion.trust import allow
from tests.bolt.servers import CONNECT_MS, arcade_at, empty
from tests.cognee.servers import start_cognee

pytestmark = [pytest.mark.cognee, pytest.mark.timeout(600)]

SAMPLE = Path(__file__).parents[2] / "config" / "sample"
QUESTION = "Why did Spindle leave SQLite, and who decided it?"
IN_COGNEE = (
    ("spindle", "left_sqlite_because_of", "locked database"),
    ("locked database", "stopped_bookings_at", "hjulhuset"),
    ("teo", "rehearsed", "migration"),
)
"""of what was found out"""
IN_THE_DATABASE = """
CREATE (mara:Person {name: 'Mara Lindqvist'}), (spindle:Project {name: 'Spindle'}),
    (sqlite:Tool {name: 'SQLite'}), (postgres:Tool {name: 'Postgres'}), (fjordbase:Company {name: 'Fjordbase'}),
    (mara)-[:DECIDED_TO_LEAVE]->(sqlite), (mara)-[:OWNS]->(spindle),
    (spindle)-[:USES]->(postgres), (postgres)-[:HOSTED_BY]->(fjordbase)
"""
"""of who did what"""
SETTINGS = """
backends_only = true

[backends.markdown]
adapter = "adapters.markdown:Markdown"
paths = [{notes}]

[backends.mem0]
adapter = "adapters.mem0:Mem0"

[backends.cognee]
adapter = "adapters.cognee:Cognee"
url = {cognee}
deadline_ms = 60000

[backends.neo4j]
adapter = "adapters.neo4j:Neo4j"
{bolt}
entities = ["Person", "Project", "Tool", "Company"]
deadline_ms = 60000
"""
PATIENTLY = ("--timeout-ms", 60_000)
"""on a busy machine Cognee takes its time, and a database plans its first question"""


@pytest.fixture(scope="module")
def cognee(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = start_cognee(tmp_path_factory.mktemp("cognee"), IN_COGNEE, ENABLE_BACKEND_ACCESS_CONTROL="false")
    yield server.url
    server.stop()


@pytest.fixture(params=["arcade", "neo4j_url"], ids=["ArcadeDB", "Neo4j"])
async def bolt(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, object]:
    """Where a graph database is that has the graph: ArcadeDB always, Neo4j where `make test-neo4j` has fetched it."""
    url = request.getfixturevalue(request.param)
    server = arcade_at(url, tmp_path) if request.param == "arcade" else Server(url, connect_ms=CONNECT_MS)
    database = Bolt(server, DIALECTS["neo4j"])
    try:
        await empty(database)
        await database.write(IN_THE_DATABASE, {}, 60.0)
    finally:
        await database.close()
    names = ("url", "user", "password_file", "database", "connect_ms")
    return {name: value for name in names if (value := getattr(server, name))}


@pytest.fixture
def home(tmp_path: Path, cognee: str, bolt: Mapping[str, object]) -> Iterator[Path]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    table = "\n".join(f"{name} = {json.dumps(value)}" for name, value in bolt.items())
    notes = json.dumps(str(SAMPLE / "workspace"))
    (home / "fusion.toml").write_text(SETTINGS.format(notes=notes, cognee=json.dumps(cognee), bolt=table))
    allow(home, files=[str(value) for name, value in bolt.items() if name == "password_file"])
    yield home
    stop_server(home)


def fusion(home: Path, verb: str, *arguments: object) -> str:
    """What a command prints."""
    command = [sys.executable, "-m", "fusion", verb, "--home", home, *arguments]
    environment = {**os.environ, "COLUMNS": "120"}
    done = subprocess.run(
        list(map(str, command)), check=False, capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def answer_with_all_vectors(home: Path, *asked: object) -> dict[str, Any]:
    """The first answer that has vectors of every candidate.

    The server encodes what Cognee and the database answered after the first question. Until then the order differs.
    """
    for _ in range(100):
        answer: dict[str, Any] = json.loads(fusion(home, "fuse", *asked, "--json"))
        if not answer["rerank"].get("without_vectors"):
            return answer
    pytest.fail("the server has not encoded the candidates of one question while it answered it a hundred times")


@pytest.mark.row(
    "A115",
    "Four at once: Markdown, mem0's library, a real Cognee and a real Bolt server (ArcadeDB; Neo4j where it was "
    "fetched) answer one `/fuse`; its block and receipt have something of each, and doctor finds nothing wrong",
)
def test_one_question_is_answered_by_all_four(home: Path) -> None:
    """Notes and facts say when and why, Cognee what was found out, the database who decided: one block has something of
    each, and beside it the path on which a graph found it. The receipt knows it later, and doctor finds nothing wrong.
    """
    fusion(home, "ingest", SAMPLE / "facts.jsonl")
    asked = (QUESTION, "--budget", 1500, "--max-results", 8, "--fill", *PATIENTLY)
    told = answer_with_all_vectors(home, *asked)
    shown = fusion(home, "fuse", *asked, "-v")
    print(shown)  # noqa: T201  # for who asks for it, by -s
    four = ("markdown", "mem0", "cognee", "neo4j")
    assert {row["name"]: row["status"] for row in told["backends"]} == dict.fromkeys(four, "ok")
    assert (told["degraded"], told["coverage"]["ratio"]) == (False, 1.0)
    members = {member["ref"]: member for memory in told["memories"] for member in memory["members"]}
    assert {name for member in members.values() for name in member["backends"]} == set(four)
    paths = [member["path"] for member in members.values()]
    assert ["Mara Lindqvist", "decided_to_leave", "SQLite"] in paths
    assert ["spindle", "left_sqlite_because_of", "locked database"] in paths
    assert "Mara Lindqvist → decided_to_leave → SQLite" in " ".join(shown.split())  # a table may wrap it
    receipt = json.loads(fusion(home, "receipt", told["receipt_id"], "--json"))
    assert members.keys() <= {row["ref"] for row in receipt["candidates"] if row["decision"] == "packed"}
    findings = fusion(home, "doctor")
    assert ", 0 failures." in findings
    assert "backend cognee" in findings
