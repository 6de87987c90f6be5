"""QMD itself behind our adapter, and MCP Inspector at QMD's tools, its own and ours: `make test-hosts`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters.qmd import Qmd
from fusion.client import Client
from fusion.contract import Scope
from fusion.errors import BackendError
from fusion.gateway.gateway import Gateway
from tests.backend_contract import make_query
from tests.doors.fakes import server_stopped
from tests.hosts import hosts, qmd_server
from tests.hosts.hosts import World
from tests.hosts.qmd_server import Index
from tests.patience import PATIENT_MS, load, opening_at

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.timeout(900),
    pytest.mark.skipif(qmd_server.TOOLS is None or hosts.TOOLS is None, reason="run by `make test-hosts`"),
]
NOTES = {
    "database.md": "# Database\n\nWe move to Postgres in April, because SQLite was locked.\n",
    "tea.md": "# Tea\n\nNadia prefers oolong tea.\n",
    "MEMORY.md": "# Memory\n\nThe door code for Postgres is with Nadia.\n",
}
LEFT = "We left SQLite because the database was locked."
ASKED = "Why did we decide to move away from SQLite?"


@pytest.fixture
def index(tmp_path: Path) -> Index:
    """The notes as the collection `notes`, indexed by QMD's own commands."""
    node = qmd_server.node()
    if node is None:
        pytest.skip(f"QMD needs Node {qmd_server.OLDEST_NODE} or newer")
    notes = tmp_path / "notes"
    notes.mkdir()
    for name, text in NOTES.items():
        (notes / name).write_text(text, encoding="utf-8")
    found = Index(tmp_path / "berit", node)
    found.user.mkdir()
    found.run("collection", "add", str(notes), "--name", "notes")
    return found


@pytest.fixture
def qmd(index: Index) -> Iterator[str]:
    with index.served() as url:
        yield url


@pytest.mark.feature("QMD's own server (2.8.3) is asked, in `make test-hosts`")
async def test_adapter_asks_the_real_server(qmd: str) -> None:
    """A question in everyday words finds the line; a group is not shown MEMORY.md; a wrong collection is named."""
    backend = await Qmd.open(opening_at(qmd, "qmd", collections=["notes"]))
    private = await backend.search(make_query(ASKED, Scope(audience="private")))
    group = await backend.search(make_query("Postgres", Scope(audience="group")))
    described = await backend.describe()
    await backend.close()
    wrong = await Qmd.open(opening_at(qmd, "qmd", collections=["notse"]))
    with pytest.raises(BackendError, match="no collection 'notse', only: notes; did you mean notes"):
        await wrong.search(make_query(ASKED))
    degraded = await wrong.describe()
    await wrong.close()
    assert private[0].native_id == "qmd://notes/database.md"
    assert "We move to Postgres in April" in private[0].text
    assert private[0].place is not None
    assert [hit.native_id for hit in group] == ["qmd://notes/database.md"]
    assert (described.items, described.degraded, described.notes) == (len(NOTES), False, ())
    assert degraded.degraded


async def test_block_has_what_the_real_server_found(qmd: str, tmp_path: Path) -> None:
    one = {"adapter": "adapters.qmd:Qmd", "url": qmd, "connect_ms": PATIENT_MS}
    settings = load(home=tmp_path / "home", backends_only=True, embedder={"adapter": ""}, backends={"qmd": one})
    async with Gateway.open(settings) as gateway:
        fused = await gateway.fuse(ASKED)
    assert "because SQLite was locked" in fused.block
    assert [row["status"] for row in fused.backends] == ["ok"]
    assert not fused.degraded


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A user whose home has one memory."""
    found = hosts.world_in(tmp_path)
    with server_stopped(found.home):
        with Client.of_home(found.home) as client:
            client.remember([{"text": LEFT, "document": "notes/sqlite.md", "position": 1}])
            client.settle(60)
        yield found


def inspected(world: World, server: list[str], environment: dict[str, str], *words: str) -> dict[str, Any]:
    """What MCP Inspector prints of one request to a server that it starts."""
    done = hosts.run_inspector(world, *server, *words, environment=environment)
    assert done.stdout, done.stderr
    reply: dict[str, Any] = json.loads(done.stdout)
    return reply


@pytest.mark.feature("MCP Inspector sees QMD's tools here as it does at QMD itself, and calls them")
def test_inspector_uses_our_tools_as_those_of_qmd(world: World, index: Index) -> None:
    """The same names, parameters and required ones, or fewer; `query` and `get` work with what the other returned."""
    ours = [str(world.command), "mcp", "--home", str(world.home), "--qmd"]
    own = world.environment()
    theirs = [index.command, "mcp"]
    tools = {
        tool["name"]: tool["inputSchema"] for tool in inspected(world, ours, own, "--method", "tools/list")["tools"]
    }
    real = inspected(world, theirs, dict(index.environment), "--method", "tools/list")["tools"]
    assert set(tools) == {tool["name"] for tool in real}
    for tool in real:
        wanted, given = tool["inputSchema"], tools[tool["name"]]
        assert set(given.get("properties", {})) >= set(wanted.get("properties", {})) - {"candidateLimit"}
        assert set(given.get("required", [])) <= set(wanted.get("required", []))
    search = json.dumps([{"type": "lex", "query": "SQLite"}, {"type": "vec", "query": ASKED}])
    call = ["--method", "tools/call", "--tool-name"]
    found = inspected(world, ours, own, *call, "query", "--tool-arg", f"searches={search}")
    [result] = found["structuredContent"]["results"]
    assert "database was locked" in result["snippet"]
    read = inspected(world, ours, own, *call, "get", "--tool-arg", f"file={result['file']}")
    assert "database was locked" in json.dumps(read["content"])
