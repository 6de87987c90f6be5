"""The episodes over HTTP: the working set of a session, and one episode with its payload."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from fusion.client import calls
from fusion.doors.http.app import create_app
from fusion.gateway.gateway import Gateway
from fusion.settings import Settings
from tests.doors.contract import Checked
from tests.patience import load

ADA = {"user_id": "ada", "session_id": "s1"}
KEYS = {
    "writer": ("acme", "writer"),
    "reader": ("acme", "reader"),
    "operator": ("acme", "operator"),
    "globex": ("globex", "operator"),
}
"""the tenant and the role of each key"""


def served(home: Path) -> Settings:
    """A home with two tenants; of one there is also a key that only reads."""
    keys = [
        {"name": name, "sha256": sha256(f"key of {name}".encode()).hexdigest(), "tenant": tenant, "role": role}
        for name, (tenant, role) in KEYS.items()
    ]
    backends = {"one": {"adapter": "adapters.inmemory:InMemory"}}
    return load(home=home, backends_only=True, embedder={"adapter": ""}, server={"keys": keys}, backends=backends)


@pytest.fixture
async def gateway(home: Path) -> AsyncIterator[Gateway]:
    async with Gateway.open(served(home)) as opened:
        yield opened


@pytest.fixture
async def client(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    transport = Checked(create_app(gateway, gateway.settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as opened:
        yield opened


def of(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer key of {key}"}


async def append(client: httpx.AsyncClient, *texts: str, **scope: str) -> None:
    episodes = [{"type": "tool.result", "tool": "Bash", "payload": {"stdout": text}, **ADA, **scope} for text in texts]
    reply = await client.post("/v1/episodes/append", json=episodes, headers=of("writer"))
    assert reply.status_code == 201, reply.text


async def read(client: httpx.AsyncClient, path: str, key: str = "reader", **parameters: str) -> Any:
    reply = await client.get(path, params=parameters, headers=of(key))
    return reply.json() if reply.is_success else reply.status_code


@pytest.mark.row("A140", "`GET /v1/episodes/{ref}` has one episode with its payload, for a key that only reads")
async def test_an_episode_is_read_by_its_ref(client: httpx.AsyncClient) -> None:
    await append(client, "3 migrations applied")
    found = await read(client, calls.episode("ep:1").path)
    assert (found["ref"], found["payload"]) == ("ep:1", {"stdout": "3 migrations applied"})
    assert found["trust"] == "untrusted"
    assert await read(client, "/v1/episodes/ep:1", user_id="ada") == found


@pytest.mark.parametrize("ref", ["ep:2", "ep:0", "ep:-1", "ep:99999999999999999999", "m1", "obs:m1", "ep:1%27--", "ep"])
async def test_no_other_ref_is_an_episode(client: httpx.AsyncClient, ref: str) -> None:
    await append(client, "3 migrations applied")
    assert await read(client, f"/v1/episodes/{ref}") == 404


async def test_an_episode_of_another_owner_is_not_found(client: httpx.AsyncClient) -> None:
    await append(client, "the deploy key was rotated")
    assert await read(client, "/v1/episodes/ep:1", user_id="omar") == 404
    assert await read(client, "/v1/episodes/ep:1", session_id="s2") == 404
    assert await read(client, "/v1/episodes/ep:1", audience="group") == 404
    assert await read(client, "/v1/episodes/ep:1", "globex") == 404
    assert await read(client, "/v1/episodes/ep:1", "nobody") == 401


@pytest.mark.row("A140", "`GET /v1/episodes/working-set` has the latest of one session of one owner, oldest first")
async def test_a_working_set_is_that_of_one_session(client: httpx.AsyncClient) -> None:
    await append(client, "step 1", "step 2", "step 3")
    await append(client, "elsewhere", session_id="s2")
    await append(client, "of omar", user_id="omar")
    found = await read(client, "/v1/episodes/working-set", limit="2", **ADA)
    assert [one["summary"] for one in found["episodes"]] == ["stdout: step 2", "stdout: step 3"]
    assert "payload" not in found["episodes"][0]
    assert await read(client, "/v1/episodes/working-set", "globex", **ADA) == {"episodes": []}
    assert await read(client, "/v1/episodes/working-set", audience="group", **ADA) == {"episodes": []}


@pytest.mark.parametrize("wrong", [{}, {"user_id": "ada"}, {**ADA, "limit": "0"}, {**ADA, "limit": "101"}])
async def test_a_working_set_needs_a_session_and_a_bound(client: httpx.AsyncClient, wrong: dict[str, str]) -> None:
    assert await read(client, "/v1/episodes/working-set", **wrong) == 422


async def grade(client: httpx.AsyncClient, importance: object, key: str = "operator", **more: str) -> Any:
    body = {"importance": importance, "why": "the outage came from it", **more}
    reply = await client.patch("/v1/episodes/ep:1", json=body, headers=of(key))
    return reply.json()["importance"] if reply.is_success else reply.status_code


@pytest.mark.row("A124", "an episode's importance is set by hand, with who decided and why, and what it replaces")
async def test_an_importance_is_set_by_hand(client: httpx.AsyncClient) -> None:
    await append(client, "3 migrations applied")
    first = await grade(client, "86%")
    assert (first["score"], first["label"], first["method"]) == (0.86, "must_remember", "manual")
    assert (first["by"], first["rationale"], first["replaces"]) == ("key operator", "the outage came from it", None)
    again = await grade(client, "unknown", user_id="ada")
    assert (again["score"], again["label"]) == (None, "unknown")
    assert again["replaces"] == {name: value for name, value in first.items() if name != "replaces"}
    assert (await read(client, "/v1/episodes/ep:1"))["importance"] == again


async def test_an_importance_is_set_by_whoever_may_decide(client: httpx.AsyncClient) -> None:
    await append(client, "3 migrations applied")
    for key in ("reader", "writer"):
        assert await grade(client, "ignore", key) == 403
    assert await grade(client, "ignore", "globex") == 404
    assert await grade(client, "ignore", user_id="omar") == 404
    for wrong in ("urgent", 1.1, -1, [], {"score": "x"}):
        assert await grade(client, wrong) == 422
    assert (await read(client, "/v1/episodes/ep:1"))["importance"] is None
