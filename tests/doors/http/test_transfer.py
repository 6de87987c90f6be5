"""`GET /v1/export` and `POST /v1/import`, over real connections, with both clients."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from fusion.client import AsyncClient, Client
from fusion.contract import Scope
from fusion.doors.http.app import create_app
from fusion.doors.http.middleware import Rules
from fusion.errors import BadInput, TooLarge
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.settings import Settings
from tests.doors.contract import Checked
from tests.doors.fakes import FakeFusion, serving
from tests.gateway.helpers import small

TEXT = "The bookings database moves to Postgres in March"


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with Gateway.open(small(tmp_path / "here")) as gateway:
        await gateway.remember([NewMemory(f"{TEXT}, part {n}") for n in range(50)])
        yield gateway


@pytest.fixture
async def there(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with Gateway.open(small(tmp_path / "there")) as gateway:
        yield gateway


def served(gateway: Gateway, **server: Any) -> Any:
    settings = gateway.settings
    if server:
        settings = settings.model_copy(update={"server": settings.server.model_copy(update=server)})
    return serving(cast(FakeFusion, gateway), settings)


@pytest.mark.row("A163", "both clients export and import a home over HTTP, piece by piece")
async def test_both_clients_move_memories(here: Gateway, there: Gateway) -> None:
    async with served(here) as source, served(there) as target:
        async with AsyncClient(source) as client:
            export = b"".join([piece async for piece in client.export()])
        async with AsyncClient(target) as client:
            assert (await client.import_export(lambda: pieces(export), dry_run=True))["tenants"][0]["new"] == 50
            assert (await client.import_export(lambda: pieces(export)))["tenants"][0]["new"] == 50

        def again() -> Any:
            with Client(source) as client, Client(target) as other:
                lines = b"".join(client.export(tenant="default"))
                return other.import_export(lambda: pieces(lines))["tenants"][0]

        assert (await asyncio.to_thread(again))["known"] == 50


def pieces(export: bytes) -> Iterator[bytes]:
    """An export in small pieces, which have no announced size."""
    for start in range(0, len(export), 1000):
        yield export[start : start + 1000]


async def test_import_streams_progress_refs_and_result(here: Gateway, there: Gateway) -> None:
    await there.remember([NewMemory("Another home has this under the first ref")])
    async with served(here) as source, served(there) as target, httpx.AsyncClient(timeout=60) as http:
        export = (await http.get(f"{source}/v1/export")).content
        headers = {"content-type": "application/x-ndjson", "accept": "application/x-ndjson"}
        reply = await http.post(f"{target}/v1/import?refs=true", content=export, headers=headers)
    parts = [json.loads(line) for line in reply.text.splitlines()]
    assert parts[-1]["result"]["tenants"][0]["new_refs"] == 50
    refs = [json.loads(part["line"]) for part in parts if "line" in part]
    assert {"tenant": "default", "old": "m1", "new": "m2"} in refs
    assert len(refs) == 50
    assert parts[-2]["progress"]["done"] == 50


async def test_refused_import_names_the_line_and_leaves_nothing(here: Gateway, there: Gateway) -> None:
    async with served(here) as source, served(there) as target:
        async with AsyncClient(source) as client:
            export = b"".join([piece async for piece in client.export()])
        async with AsyncClient(target) as client:
            broken = export.replace(b'"type":"event"', b'"type":"nothing"', 1)
            with pytest.raises(BadInput, match="line 3"):
                await client.import_export(lambda: pieces(broken))
            cut = export[: export.rindex(b"\n", 0, -1) + 1]
            with pytest.raises(BadInput, match="lacks the footer"):
                await client.import_export(lambda: pieces(cut))
    assert (await there.memories(Scope(audience="private")))["memories"] == []
    assert [path.name for path in there.settings.home.iterdir() if path.name.startswith("transfer")] == []


async def test_import_is_bounded(here: Gateway, there: Gateway) -> None:
    async with served(here) as source, served(there, max_import_mb=0.001) as target:
        async with AsyncClient(source) as client:
            export = b"".join([piece async for piece in client.export()])
        async with httpx.AsyncClient(base_url=target, timeout=60) as http:
            headers = {"content-type": "application/x-ndjson"}
            assert (await http.post("/v1/import", content=export, headers=headers)).status_code == 413
        async with AsyncClient(target) as client:
            with pytest.raises(TooLarge):
                await client.import_export(lambda: pieces(export))


async def test_other_routes_take_no_lines_and_stay_bounded(there: Gateway) -> None:
    async with served(there) as url, httpx.AsyncClient(base_url=url, timeout=60) as http:
        lines = {"content-type": "application/x-ndjson"}
        assert (await http.post("/fuse", content=b"{}", headers=lines)).status_code == 415
        body = b" " * (there.settings.server.max_body_bytes + 1)
        assert (await http.post("/fuse", content=body, headers={"content-type": "application/json"})).status_code == 413
        assert (await http.post("/v1/import", content=b"x", headers={"content-type": "text/plain"})).status_code == 415


async def test_silent_body_is_given_up(there: Gateway) -> None:
    rules = Rules.of(there.settings)
    app = create_app(there, there.settings)
    app.rules = replace(rules, body_timeout_s=0.05)
    silence = asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await silence.wait()

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
        reply = await http.post("/v1/import", content=body(), headers={"content-type": "application/x-ndjson"})
    assert reply.status_code == 408


async def test_key_of_a_tenant_moves_its_own_memories_alone(here: Gateway) -> None:
    await here.remember([NewMemory("Acme keeps bees", scope=Scope("acme"))], tenant="acme")
    key = {"name": "acme", "sha256": sha256(b"acme-key").hexdigest(), "tenant": "acme"}
    settings = Settings.model_validate({**here.settings.model_dump(), "server": {"keys": [key]}})
    transport = Checked(create_app(here, settings, local_token="owner"))
    async with (
        AsyncClient.over(transport, api_key="acme-key") as acme,
        AsyncClient.over(transport, api_key="owner") as owner,
    ):
        mine = b"".join([piece async for piece in acme.export()])
        every = b"".join([piece async for piece in owner.export()])
        assert (mine.count(b"Acme keeps bees"), mine.count(b"Postgres")) == (1, 0)
        assert (every.count(b"Acme keeps bees"), every.count(b"Postgres")) == (1, 50)
        with pytest.raises(BadInput, match="another tenant"):
            [piece async for piece in acme.export(tenant="default")]
        report = await acme.import_export(lambda: pieces(every))
        assert [one["tenant"] for one in report["tenants"]] == ["acme"]
        with pytest.raises(BadInput, match="owner"):
            await acme.import_export(lambda: pieces(mine), trust="keep")


async def test_received_export_is_private(there: Gateway) -> None:
    with there.spool() as file:
        assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
