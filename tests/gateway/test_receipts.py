"""The list of what was answered: who asked, when, how large the block was, and what each backend did."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fusion.contract import Asker, Scope
from fusion.errors import BadInput, NobodyNamed, NotFound
from fusion.gateway.gateway import Gateway
from fusion.gateway.receipts import ReceiptsRequest
from fusion.gateway.recent_questions import MAX_CHARS, MAX_CHARS_OF_ALL, MAX_QUESTIONS, RecentQuestions
from fusion.ingest.intake import NewMemory
from fusion.recall.engine import FuseRequest
from tests.patience import load

ADA, BOB = Scope(user_id="ada"), Scope(user_id="bob")
ALL = Scope()


@asynccontextmanager
async def opened(home: Path, **more: Any) -> AsyncIterator[Gateway]:
    chosen: dict[str, Any] = {"backends_only": True}
    chosen |= {"backends": {"memory": {"adapter": "adapters.inmemory:InMemory"}}, "embedder": {"adapter": ""}, **more}
    async with Gateway.open(load(home=home, **chosen)) as gateway:
        yield gateway


async def remember(gateway: Gateway, text: str, scope: Scope = ADA) -> str:
    (kept,) = await gateway.remember([NewMemory(text, scope)])
    await gateway.settle()
    return kept.ref


async def rows(gateway: Gateway, scope: Scope = ADA, **more: Any) -> list[dict[str, Any]]:
    return [dict(one) for one in (await gateway.receipts_page(ReceiptsRequest(scope, **more)))["receipts"]]


@pytest.mark.feature("`GET /v1/receipts` lists what was answered: sizes, times, backends, refs and who asked")
async def test_row_of_a_receipt_says_what_was_answered(home: Path) -> None:
    async with opened(home) as gateway:
        ref = await remember(gateway, "The harbour master is called Marta.")
        asker = Asker(agent_id="claude", session_id="s1")
        fused = await gateway.fuse(FuseRequest("who is the harbour master?", ADA, asker=asker))
        (row,) = await rows(gateway)
        assert (await gateway.receipt(fused.receipt_id))["query"] == "who is the harbour master?"
    (backend,) = row.pop("backends")
    assert (backend["name"], backend["status"], backend["count"]) == ("memory", "ok", 1)
    assert (backend["in_block"], backend["alone"]) == (1, 1)
    assert row.pop("tokens") > 0
    row.pop("at")
    assert row == {
        "receipt_id": fused.receipt_id,
        "query": "who is the harbour master?",
        "took_ms": fused.took_ms,
        "characters": len(fused.block),
        "memories": 1,
        "refs": [ref],
        "recipe": fused.recipe,
        "degraded": fused.degraded,
        "abstained": None,
        "prepared": False,
        "user_id": "ada",
        "agent_id": "claude",
        "session_id": "s1",
    }


@pytest.mark.feature(
    "… and `after` what was answered since, so that a page can follow it", of="`GET /v1/receipts` lists"
)
async def test_receipts_are_followed_by_their_latest(home: Path) -> None:
    async with opened(home) as gateway:
        first = await gateway.fuse("a question", scope=ADA)
        page = await gateway.receipts_page(ReceiptsRequest(ADA))
        assert await rows(gateway, after=page["latest"]) == []
        later = [(await gateway.fuse(f"question {n}", scope=ADA)).receipt_id for n in range(3)]
        assert [row["receipt_id"] for row in await rows(gateway, after=page["latest"])] == later[::-1]
        assert [row["receipt_id"] for row in await rows(gateway, after=first.receipt_id)] == later[::-1]
        part = await gateway.receipts_page(ReceiptsRequest(ADA, limit=2, after=first.receipt_id))
        rest = await rows(gateway, limit=2, after=first.receipt_id, cursor=part["next_cursor"])
        assert [row["receipt_id"] for row in (*part["receipts"], *rest)] == later[::-1]
        with pytest.raises(NotFound, match="no receipt rnone"):
            await rows(gateway, after="rnone")
        with pytest.raises(BadInput, match="cursor"):
            await rows(gateway, cursor="nonsense")


@pytest.mark.feature("… of the user that is named alone", of="`GET /v1/receipts` lists")
async def test_receipts_of_users_are_apart(home: Path) -> None:
    """Where several have memories, a list that names nobody is refused, as a question is."""
    async with opened(home) as gateway:
        for scope in (ADA, BOB):
            await remember(gateway, f"{scope.user_id} has a boat", scope)
            await gateway.fuse(f"does {scope.user_id} have a boat?", scope=scope)
        assert [row["query"] for row in await rows(gateway, ADA)] == ["does ada have a boat?"]
        assert [row["query"] for row in await rows(gateway, BOB)] == ["does bob have a boat?"]
        with pytest.raises(NobodyNamed):
            await rows(gateway, ALL)
        assert len(await rows(gateway, ALL, all_users=True)) == 2


@pytest.mark.feature("questions of receipts are in memory alone, few, masked, and none if the settings say so")
async def test_questions_are_in_memory_alone(home: Path) -> None:
    async with opened(home) as gateway:
        await gateway.fuse("is my password: hunter2hunter2 any good?", scope=ADA)
        (row,) = await rows(gateway)
        assert row["query"].startswith("is my password")
        assert "hunter2" not in row["query"]
        await gateway.receipts.flush()
    assert not [file for file in home.rglob("*") if file.is_file() and b"hunter2" in file.read_bytes()]
    async with opened(home) as gateway:
        (row,) = await rows(gateway)
        assert row["query"] is None
    async with opened(home, receipts={"remember_questions": False}) as gateway:
        await gateway.fuse("a question", scope=ADA)
        assert [row["query"] for row in await rows(gateway)] == [None, None]


def test_recent_questions_are_bounded() -> None:
    """In number and in characters; the oldest is forgotten first."""
    questions = RecentQuestions()
    for n in range(MAX_QUESTIONS + 1):
        questions.note(f"r{n}", "short")
    assert questions.of("r0") is None
    assert questions.of("r1") == "short"
    for n in range(MAX_CHARS_OF_ALL // MAX_CHARS + 1):
        questions.note(f"long{n}", "x " * MAX_CHARS)
    assert questions.of("long0") is None
    assert len(questions.of("long1") or "") == MAX_CHARS
    assert questions.of(f"r{MAX_QUESTIONS}") is None
