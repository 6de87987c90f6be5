"""Items over HTTP: paths with any label, statuses, roles and tenants, and the client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from fusion.client import AsyncClient
from fusion.doors.http.app import create_app
from fusion.errors import NotFound, RoleTooLow
from fusion.gateway.gateway import Gateway
from fusion.settings import Settings
from tests.doors.contract import Checked
from tests.patience import load

KEYS = {"writer": ("acme", "writer"), "reader": ("acme", "reader"), "globex": ("globex", "writer")}
"""the tenant and the role of each key"""
ODD = ("a.b/c~d", "..", "ü ?#%")
"""labels that a path cannot have as they are"""


def served(home: Path) -> Settings:
    keys = [
        {"name": name, "sha256": sha256(f"key of {name}".encode()).hexdigest(), "tenant": tenant, "role": role}
        for name, (tenant, role) in KEYS.items()
    ]
    backends = {"one": {"adapter": "adapters.inmemory:InMemory"}}
    return load(home=home, backends_only=True, embedder={"adapter": ""}, server={"keys": keys}, backends=backends)


@pytest.fixture
async def transport(home: Path) -> AsyncIterator[Checked]:
    async with Gateway.open(served(home)) as gateway:
        yield Checked(create_app(gateway, gateway.settings))


def client_of(transport: httpx.AsyncBaseTransport, key: str = "writer") -> AsyncClient:
    return AsyncClient.over(transport, api_key=f"key of {key}")


@pytest.mark.parametrize("key", ["theme", "a/b.c~1", "..", "ü ?#&=%2F"])
async def test_every_namespace_and_key_goes_through_a_path(transport: Checked, key: str) -> None:
    async with client_of(transport) as memory:
        kept = await memory.put_item(ODD, key, {"colour": "dark"}, user_id="ada")
        assert (kept["namespace"], kept["key"]) == (list(ODD), key)
        found = await memory.item(ODD, key, user_id="ada")
        assert found["value"] == {"colour": "dark"}
        assert [one["key"] for one in (await memory.search_items(ODD[:2], user_id="ada"))["items"]] == [key]
        assert (await memory.item_namespaces(user_id="ada"))["namespaces"] == [list(ODD)]
        assert (await memory.forget_item(ODD, key, user_id="ada"))["ref"] == kept["ref"]
        with pytest.raises(NotFound):
            await memory.item(ODD, key, user_id="ada")


async def test_a_reader_reads_and_another_tenant_does_not(transport: Checked) -> None:
    async with client_of(transport) as writer:
        await writer.put_item(["users"], "theme", {"colour": "dark"})
    async with client_of(transport, "reader") as reader:
        assert (await reader.item(["users"], "theme"))["value"] == {"colour": "dark"}
        for refused in (reader.put_item(["users"], "theme", {}), reader.forget_item(["users"], "theme")):
            with pytest.raises(RoleTooLow):
                await refused
    async with client_of(transport, "globex") as other:
        assert (await other.search_items())["items"] == []
        with pytest.raises(NotFound):
            await other.item(["users"], "theme")


async def test_a_put_is_created_once(transport: Checked) -> None:
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        headers = {"authorization": "Bearer key of writer"}
        replies = [
            await http.put("/v1/items/users.42/theme", json={"value": {"n": n}}, headers=headers) for n in (1, 1, 2)
        ]
    assert [reply.status_code for reply in replies] == [201, 200, 200]
    assert [reply.json()["status"] for reply in replies] == ["stored", "duplicate", "superseded"]


@pytest.mark.parametrize(
    "path",
    ["a..b/k", "/k", ".".join("abcdefghijklmnopq") + "/k", f"{'x' * 129}/k", f"a/{'x' * 257}", "a%0Ab/k", "a/k%00"],
)
async def test_a_wrong_address_is_refused(transport: Checked, path: str) -> None:
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        headers = {"authorization": "Bearer key of writer"}
        reply = await http.put(f"/v1/items/{path}", json={"value": {}}, headers=headers)
    assert reply.status_code in (404, 405, 422), reply.text
