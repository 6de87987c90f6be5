"""Questions and fresh memories while a large file is being ingested, from the command's reader to the stores."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path

import httpx
import pytest

from fusion import Gateway
from fusion.client import AsyncClient
from fusion.contract import DIMENSIONS, KINDS, Features, Scope
from fusion.doors.cli.ingest import ingest
from fusion.doors.http.app import create_app
from fusion.ingest.deliver import BATCH_EVENTS
from tests.ingest.helpers import FakeStore
from tests.patience import load

KNOWN = "The spare key of the harbour crane lives in the blue safe."
FRESH = "The harbour crane is closed on Mondays."
QUESTION = "What do we know of the harbour crane?"


class HeldStore(FakeStore):
    """A store that filters by owner and, once it has a gate, is held in its deliveries."""

    features = Features(filters=frozenset(DIMENSIONS), kinds=frozenset(KINDS))


def large(file: Path, sections: int) -> Path:
    """A file with so many sections."""
    words = "A paragraph about bookings, invoices, ferries and the weather of the northern coast. " * 10
    file.write_text("".join(f"# Section {n}\n\nParagraph {n}. {words}\n\n" for n in range(sections)))
    return file


async def shown(client: AsyncClient) -> set[str]:
    """The texts of an answer."""
    fused = await client.fuse(QUESTION, user_id="ada")
    return {member["text"] for memory in fused["memories"] for member in memory["members"]}


@pytest.mark.feature("a question is answered, and a fresh memory delivered first, while a large file is being ingested")
async def test_a_question_and_a_fresh_memory_do_not_wait_for_a_large_ingest(tmp_path: Path) -> None:
    """One of two stores is held in the ingest's first delivery, so the ingest cannot end while this test asks."""
    home, file = tmp_path / "home", large(tmp_path / "large.md", 2 * BATCH_EVENTS)
    backends = {
        "one": {"adapter": "adapters.inmemory:InMemory"},
        "held": {"adapter": "tests.doors.test_large_ingest:HeldStore"},
    }
    settings = load(home=home, backends_only=True, embedder={"adapter": ""}, backends=backends)
    async with Gateway.open(settings) as fusion:
        held = fusion.guarded["held"].backend
        assert isinstance(held, HeldStore)
        transport = httpx.ASGITransport(create_app(fusion, settings, local_token="t0ken"))  # type: ignore[arg-type]
        async with AsyncClient.over(transport, api_key="t0ken") as client:
            await client.remember({"text": KNOWN, "user_id": "ada"})
            await client.settle()
            held.gate = asyncio.Event()
            reading = asyncio.create_task(
                ingest([file], Scope(user_id="ada"), nullcontext(client), quiet=True, home=home)
            )
            await held.reached.wait()
            assert KNOWN in await shown(client)
            before = len(held.received)
            await client.remember({"text": FRESH, "user_id": "ada"})
            while FRESH not in await shown(client):  # the other store gets it without waiting for the held one
                pass
            assert not reading.done()
            assert len(held.received) == before
            held.gate.set()
            summary = await reading
    assert summary["settled"] is True
    assert summary["stored"] >= 2 * BATCH_EVENTS
    assert held.received[before] == (FRESH,)
    assert len(held.received) > before + 1, "the rest of the file comes after it"
