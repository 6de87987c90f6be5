"""What a key of each role may do: every route needs one role, and a lower one is refused before anything is written."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute

from fusion.contract import ROLES, Role
from fusion.doors.http.app import create_app
from fusion.doors.http.routes import router
from fusion.doors.roles import NEEDS, allows, role_of, role_of_drop_in
from fusion.gateway.gateway import Gateway
from tests.doors.contract import Checked
from tests.patience import load

JSON = {"content-type": "application/json"}
ROUTES = [
    (method, route.path_format) for route in router.routes if isinstance(route, APIRoute) for method in route.methods
]


def key_of(role: Role) -> str:
    return f"the key of a {role}"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("roles") / "home"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture
async def client(home: Path) -> AsyncIterator[httpx.AsyncClient]:
    keys = [
        {"name": role, "sha256": sha256(key_of(role).encode()).hexdigest(), "role": role, "all_users": True}
        for role in ROLES
    ]
    settings = load(
        home=home,
        backends_only=True,
        embedder={"adapter": ""},
        server={"keys": keys},
        backends={"cortex": {"adapter": "adapters.cortex:Cortex"}},
    )
    async with Gateway.open(settings) as fusion:
        await fusion.settle()  # what an opening home still writes would look like a write of a refused request
        await fusion.health.compare()
        transport = Checked(create_app(fusion, settings))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as http:
            yield http


async def sent(client: httpx.AsyncClient, role: Role, method: str, path: str) -> httpx.Response:
    headers = {**JSON, "authorization": f"Bearer {key_of(role)}"}
    body = b"{}" if method in ("POST", "PATCH") else None
    return await client.request(method, path, headers=headers, content=body)


def contents(home: Path) -> list[str]:
    """All rows of the journal, but for the count of its commits: a home that was just opened has some of its own."""
    with closing(sqlite3.connect(home / "journal.sqlite")) as db:
        return [row for row in db.iterdump() if not row.startswith('INSERT INTO "mark"')]


def filled(path: str) -> str:
    path = path.replace("/episodes/{ref}", "/episodes/ep:1")
    for name in ("{receipt_id}", "{ref}", "{name}", "{backend}", "{verb}", "{proposal}"):
        path = path.replace(name, "x1")
    return path


def test_every_route_has_a_role() -> None:
    """A route that nobody thought of needs the last role; the table names all that there are, and no others."""
    mcp = {("POST", path) for path in ("/mcp", "/mcp/cortex", "/mcp/openclaw-mem", "/mcp/qmd")}
    named = set(NEEDS) - mcp - {("GET", "/openapi.json"), ("GET", "/docs")}
    assert named == set(ROUTES)
    assert role_of("POST", "/v1/tomorrow") == "operator"
    assert role_of_drop_in("DELETE", asks=False) == "writer"
    assert role_of_drop_in("POST", asks=True) == role_of_drop_in("GET", asks=False) == "reader"


@pytest.mark.parametrize("role", ROLES)
async def test_a_lower_role_is_refused_on_every_route(client: httpx.AsyncClient, home: Path, role: Role) -> None:
    """The refusal comes before the body is read, names the role that is needed, and writes nothing."""
    refused = [route for route in ROUTES if not allows(role, role_of(*route))]
    before = contents(home)
    for method, path in refused:
        reply = await sent(client, role, method, filled(path))
        needed = role_of(method, path)
        assert reply.status_code == 403, (method, path, reply.text)
        assert f"needs the role {needed}, and this key is a {role}" in reply.json()["detail"]
    assert before == contents(home)
    assert bool(refused) == (role != "operator")


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_that_suffices_is_not_refused(client: httpx.AsyncClient, role: Role) -> None:
    for method, path in ROUTES:
        if allows(role, role_of(method, path)) and path not in ("/v1/export", "/v1/import"):
            reply = await sent(client, role, method, filled(path))
            assert reply.status_code != 403, (method, path, reply.text)


async def test_a_reader_stores_nothing_through_a_drop_in_route(client: httpx.AsyncClient) -> None:
    path = "/compat/cortex/v1/remember"
    headers = {**JSON, "authorization": f"Bearer {key_of('reader')}"}
    reply = await client.post(path, headers=headers, json={"content": "the keys are under the mat"})
    assert reply.status_code == 403
    assert "needs the role writer" in reply.json()["detail"]
    asked = await client.post("/compat/cortex/v1/search", headers=headers, json={"message": "keys"})
    assert asked.status_code == 200


async def test_a_tool_has_the_role_of_its_caller(client: httpx.AsyncClient) -> None:
    """The tools of /mcp call the same routes, with the role of the key that called them."""
    headers = {"authorization": f"Bearer {key_of('reader')}", "accept": "application/json, text/event-stream"}
    call = {"name": "memory_store", "arguments": {"text": "the keys are under the mat", "user_id": "ada"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    reply = (await client.post("/mcp", headers=headers, json=body)).json()["result"]
    assert reply["isError"]
    assert "needs the role writer" in reply["content"][0]["text"]
