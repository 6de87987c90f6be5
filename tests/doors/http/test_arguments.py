"""What a request may say: nothing that decides where texts go, which file or variable is read, what is loaded."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import httpx
import pytest
from mcp import Client
from pydantic import BaseModel
from typer.testing import CliRunner

import adapters
from fusion.doors import schemas
from fusion.doors.cli.app import app
from fusion.doors.http.app import create_app
from fusion.doors.mcp.server import tools_server
from fusion.doors.mcp.tools import Caller
from fusion.extension import Route, Verb
from fusion.gateway.extensions import routes_of, verbs_of
from fusion.gateway.gateway import Gateway
from tests.doors.contract import Checked
from tests.patience import load

DENIED = frozenset(
    "url uri urls href host hostname port address addresses endpoint server proxy path paths file files filename "
    "folder folders dir directory env environ variable var key keys secret token password login credentials adapter "
    "module package plugin class import command cmd exec script database dsn socket".split()
)
KNOWN = {
    ("DocumentQuery", "path"): "the name of a remembered document, looked up among those",
    ("GetToolBody", "path"): "the same, by the name that OpenClaw's tool gives it",
    ("RetireBody", "files"): "names of sources, compared with those of memories",
    ("WhereBody", "folder"): "a part of the names of remembered documents",
}
"""fields of requests that are called so and open nothing, with what they are"""
PACKAGES = {path.parent.name for path in Path(adapters.__path__[0]).glob("*/cli.py")}
REFUSED = {
    "url": "http://127.0.0.1:9",
    "api_key_env": "HOME",
    "api_key_file": "/etc/passwd",
    "base_url": "http://127.0.0.1:9",
    "path": "/etc/passwd",
    "file": "/etc/passwd",
    "adapter": "os:system",
    "headers": {"x": "y"},
}


def verbs() -> Iterator[tuple[str, str, type[Verb]]]:
    for package in sorted(PACKAGES):
        for name, kind in verbs_of(f"adapters.{package}:Any").items():
            yield package, name, kind


def suspicious(name: str, hint: object = None) -> bool:
    """Whether a field's name or type is of something to open, reach or load."""
    return bool(set(re.split(r"[_\W]+", name.lower())) & DENIED) or "Path" in str(hint) or "Url" in str(hint)


def test_all_verbs_and_routes_are_looked_at() -> None:
    """The rule would hold of nothing if it found nothing."""
    found = {(package, name) for package, name, _ in verbs()}
    assert {("cortex", "migrate"), ("cortex", "reembed"), ("markdown", "reindex"), ("mem0", "history")} <= found
    assert routes_of("adapters.cortex:Cortex")
    assert suspicious("api_key_env")
    assert suspicious("base_url")
    assert not suspicious("keyword")


@pytest.mark.feature("no verb and no request accepts an address, a variable, a file or a module")
@pytest.mark.parametrize(("package", "name", "kind"), verbs_list := [*verbs()])
def test_no_verb_takes_an_address_a_variable_a_file_or_a_module(package: str, name: str, kind: type[Verb]) -> None:
    hints = get_type_hints(kind)
    own = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    assert [field for field in own if suspicious(field, hints[field])] == []


@pytest.mark.parametrize(
    "model", [m for m in vars(schemas).values() if isinstance(m, type) and issubclass(m, BaseModel)]
)
def test_no_request_takes_an_address_a_variable_a_file_or_a_module(model: type[BaseModel]) -> None:
    """Every body and query string, but for fields that are called so and only name what is remembered."""
    found = [name for name, field in model.model_fields.items() if suspicious(name, field.annotation)]
    assert [name for name in found if (model.__name__, name) not in KNOWN] == []


@pytest.mark.parametrize(("cortex", "count"), [(False, 12), (True, 5)])
async def test_no_mcp_tool_takes_an_address_a_variable_a_file_or_a_module(cortex: bool, count: int) -> None:
    """``path`` of memory_get names a remembered document, as in the route."""

    async def nobody(context: object) -> Caller:
        raise AssertionError("no tool is called")

    async with Client(tools_server(nobody, cortex=cortex)) as mcp:
        tools = (await mcp.list_tools()).tools
    assert len(tools) == count
    found = {(tool.name, name) for tool in tools for name in tool.input_schema["properties"] if suspicious(name)}
    assert found <= {("memory_get", "path")}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("arguments") / "home"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture
async def client(home: Path) -> AsyncIterator[httpx.AsyncClient]:
    kinds = {
        name: {"adapter": f"adapters.{name}:{name.capitalize()}"} for name in ("markdown", "cortex", "triples", "mem0")
    }
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=kinds)
    async with Gateway.open(settings) as fusion:
        transport = Checked(create_app(fusion, settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


@pytest.mark.feature("… each verb and each route of another system refuses them", of="no verb and no request accepts")
async def test_what_names_something_outside_is_refused_by_every_verb_and_route(client: httpx.AsyncClient) -> None:
    """422 before anything is done, for each verb and each drop-in route, with each such argument."""
    replies: dict[tuple[str, str], int] = {}
    for argument, value in REFUSED.items():
        for package, name, _ in verbs_list:
            reply = await client.post(f"/v1/backends/{package}/{name}", json={argument: value})
            replies[f"{package} {name}", argument] = reply.status_code
        for route in routes_of("adapters.cortex:Cortex"):
            if route.method in ("POST", "PUT"):
                replies[route.path, argument] = await sent(client, route, {argument: value})
    assert {at: status for at, status in replies.items() if status != 422} == {}


async def sent(client: httpx.AsyncClient, route: Route, body: dict[str, Any]) -> int:
    path = f"/compat/cortex{route.path.replace('{id}', '1')}"
    return (await client.request(route.method, path, json=body)).status_code


async def test_reindex_reads_no_file_and_sends_no_text_elsewhere(client: httpx.AsyncClient, tmp_path: Path) -> None:
    """The request that sent any file, as a key, and all texts to any address."""
    (tmp_path / "secret").write_text("s3cret")
    body = {
        "provider": "compatible",
        "model": "m",
        "url": "http://127.0.0.1:9",
        "api_key_file": str(tmp_path / "secret"),
    }
    reply = await client.post("/v1/backends/markdown/reindex", json=body)
    assert reply.status_code == 422
    assert "[embedder.next] url" in reply.json()["detail"]
    for provider in ("compatible", "openai", "ollama"):
        reply = await client.post("/v1/backends/markdown/reindex", json={"provider": provider, "model": "m"})
        assert reply.status_code == 422
        assert f'[embedder.next] provider = "{provider}"' in reply.json()["detail"]


@pytest.mark.feature("… an option that became a setting names that setting", of="no verb and no request accepts")
@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ("markdown reindex --url http://127.0.0.1:9", "[embedder.next] url"),
        ("cortex reembed --api-key-file /etc/passwd", "[embedder.next] api_key_file"),
        ("cortex migrate neo4j --url bolt://127.0.0.1:9", "[backends.cortex.migrate_to] url"),
        ("cortex migrate neo4j --login ada", "[backends.cortex.migrate_to] user"),
    ],
)
def test_an_option_that_became_a_setting_says_which(home: Path, line: str, setting: str) -> None:
    """In one line, with exit code 2; the help does not show the option."""
    result = CliRunner().invoke(app, [*line.split(), "--home", str(home), "--direct"])
    assert result.exit_code == 2
    assert setting in result.output
    shown = CliRunner().invoke(app, [*line.split()[:2], "--help"])
    assert line.split()[-2] not in shown.output
