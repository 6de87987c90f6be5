"""After a run of the lifecycle, every door gives the same answer: HTTP, the cortex's recall, MCP and the hook."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest

from fusion.client import AsyncClient
from fusion.contract import Scope
from fusion.errors import BadInput
from fusion.gateway.gateway import Gateway
from fusion.home import ServerRecord, write_record
from fusion.ingest.intake import NewMemory
from fusion.journal import Journal
from fusion.trust.token import home_token
from tests.doors.claude_hooks import context, hook
from tests.doors.fakes import FakeFusion, app_over, serving
from tests.doors.test_mcp import connected, said
from tests.patience import load

QUESTION = "when does the ferry leave?"
FERRIES = {
    "Bergen": {"lifetime": "ttl"},
    "Oslo": {"lifetime": "session"},
    "Stavanger": {"confidence": "0.9"},
    "Kirkenes": {"confidence": "0.6"},
    "Tromsø": {},
}
STORES = ("markdown", "mem0", "triples", "cortex")
DOORS = (*STORES, "fuse", "cortex recall", "hook", "mcp")
SOON = {"ttl_hours": 1e-9, "idle_hours": 1e-9}


async def remember(gateway: Gateway) -> dict[str, str]:
    """The event id of each ferry; two of them contradict each other."""
    memories = [
        NewMemory(f"The ferry to {city} leaves at nine", kind="fact", scope=Scope(), stated=tuple(stated.items()))
        for city, stated in FERRIES.items()
    ]
    ids = dict(zip(FERRIES, [one.event_id for one in await gateway.remember(memories)], strict=True))
    await gateway.settle()
    one, other = ids["Stavanger"], ids["Kirkenes"]
    await decide(gateway.journal, one, other)
    return ids


async def decide(journal: Journal, one: str, other: str) -> None:
    await journal.decide(
        {
            one: {"conflict_group": "g", "conflict_status": "active", "contradicts": other},
            other: {"conflict_group": "g", "conflict_status": "active", "contradicts": one},
        },
        "test",
        "they contradict each other",
    )


def cities(text: str) -> set[str]:
    return {city for city in FERRIES if city in text}


async def run(client: AsyncClient, by: str) -> Mapping[str, Any]:
    """The report of a run by the gateway's own command, or by the cortex's verb."""
    if by == "lifecycle":
        return await client.lifecycle(**SOON)
    return cast(Mapping[str, Any], await client.do("cortex", "lifecycle", SOON))


async def answers(home: Path, url: str, client: AsyncClient) -> dict[str, set[str]]:
    """The ferries that each door, and the search of each backend, answers with."""
    recalled = await client.do("cortex", "recall", {"message": QUESTION})
    payload = {"prompt": QUESTION, "session_id": str(uuid4()), "cwd": str(home)}
    printed, _ = await asyncio.to_thread(hook, "user-prompt-submit", payload, "--home", home)
    async with AsyncClient(url, api_key=home_token(home)) as other, connected(other) as mcp:
        told = said(await mcp.call_tool("memory_fuse", {"query": QUESTION}))
    searched = {
        name: cities(" ".join(hit["text"] for hit in (await client.search(name, QUESTION))["hits"])) for name in STORES
    }
    return searched | {
        "fuse": cities((await client.fuse(QUESTION))["block"]),
        "cortex recall": cities(recalled["context"]),
        "hook": cities(context("user-prompt-submit", printed)),
        "mcp": cities(told),
    }


@pytest.mark.row(
    "A045", "A046", "after the lifecycle, /fuse, cortex recall, MCP and the hook agree; after its undo, too"
)
@pytest.mark.parametrize("by", ["lifecycle", "cortex lifecycle"])
async def test_every_door_agrees_after_the_lifecycle_and_its_undo(home: Path, by: str) -> None:
    settings = load(home=home, embedder={"adapter": ""})
    async with Gateway.open(settings) as gateway:
        await remember(gateway)
        app = app_over(cast(FakeFusion, gateway), settings, local_token=home_token(home))
        async with (
            serving(cast(FakeFusion, gateway), app=app) as url,
            AsyncClient(url, api_key=home_token(home)) as client,
        ):
            write_record(home, ServerRecord(os.getpid(), url, "now"))
            assert await answers(home, url, client) == {door: {*FERRIES} for door in DOORS}
            report = await run(client, by)
            assert (report["expired"], report["decayed"], report["conflicts_resolved"]) == (1, 1, 1)
            assert await answers(home, url, client) == {door: {"Stavanger", "Tromsø"} for door in DOORS}
            assert {one["run"] for one in (await client.decisions())["decisions"]} == {report["run"], None}
            assert (await client.undo_decision(run=report["run"]))["undone"] == 3
            await client.settle()
            assert await answers(home, url, client) == {door: {*FERRIES} for door in DOORS}
            with pytest.raises(BadInput, match="each of its decisions was undone already"):
                await client.undo_decision(run=report["run"])
            assert (await run(client, by))["run"] == "", "what was undone is not decided again"
