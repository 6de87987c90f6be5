"""The list of what was answered: who asked, when, how large the block was, and what each backend did."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fusion.contract import Asker, Scope
from fusion.errors import BadInput, NobodyNamed, NotFound
from fusion.gateway.decisions import StateRequest
from fusion.gateway.gateway import Gateway
from fusion.gateway.receipts import ReceiptsRequest
from fusion.gateway.recent_questions import MAX_CHARS, MAX_CHARS_OF_ALL, MAX_QUESTIONS, RecentQuestions
from fusion.ingest.intake import NewMemory
from fusion.lib.budget import estimate_tokens
from fusion.recall.engine import FuseRequest
from fusion.recall.receipt import Receipt
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
    assert row.pop("candidate_tokens") == estimate_tokens("The harbour master is called Marta.")
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


@pytest.mark.feature("`GET /v1/activity` counts by day and source what was remembered, forgotten, decided and asked")
async def test_activity_counts_what_happened_on_each_day(home: Path) -> None:
    async with opened(home) as gateway:
        kept = [await remember(gateway, f"Note {n}") for n in range(3)]
        await gateway.remember([NewMemory("From a file", ADA, source="mail:inbox/1")])
        await remember(gateway, "Bob's", BOB)
        await gateway.forget(kept[0], ADA)
        await gateway.set_state(StateRequest(kept[1], ADA, archived=True))
        await gateway.fuse("a question", scope=ADA)
        days = (await gateway.activity(ADA, 3))["days"]
        of_bob = (await gateway.activity(BOB, 1))["days"]
        assert (await gateway.activity(Scope("acme"), 1))["days"][0]["remembered"] == 0
    assert [day["remembered"] for day in days] == [0, 0, 4]
    today = days[-1]
    assert today["day"] == datetime.now(UTC).date().isoformat()
    assert (today["forgotten"], today["decisions"], today["questions"]) == (1, 1, 1)
    assert today["sources"] == {"direct": 3, "mail": 1}
    assert (of_bob[0]["remembered"], of_bob[0]["forgotten"], of_bob[0]["questions"]) == (1, 0, 0)


def kept_answer(*parts: tuple[str, str, float, int, int], memories: int = 1) -> dict[str, Any]:
    names = ("name", "status", "took_ms", "in_block", "alone")
    return {
        "receipt_id": f"r{id(parts)}",
        "at": "2026-03-14T09:30:00+00:00",
        "memories": memories,
        "prepared": False,
        "backends": [{**dict(zip(names, part, strict=True)), "count": 1} for part in parts],
    }


@pytest.mark.feature("`GET /v1/backends/history` has each backend's percentiles of time and its share in the blocks")
async def test_history_of_backends_has_times_and_shares(home: Path) -> None:
    async with opened(home) as gateway:
        answers = [
            kept_answer(("a", "ok", float(n), 1, int(n <= 5)), ("b", "timeout" if n > 10 else "ok", 100.0 * n, 0, 0))
            for n in range(1, 21)
        ]
        answers += [
            kept_answer(("a", "ok", 50.0, 0, 0), memories=0),
            {**kept_answer(("a", "ok", 1e9, 1, 1)), "prepared": True},
        ]
        for n, row in enumerate(answers):
            gateway.receipts.keep(Receipt(f"r{n}", "default", time.time(), {}, {}, row))
        found = await gateway.backend_history(ALL, 100)
        assert (await gateway.backend_history(ALL, 1))["answers"] == 0  # the latest one was prepared
    assert (found["answers"], found["blocks"]) == (21, 20)
    one, two = found["backends"]
    assert [span["p50_ms"] for span in one.pop("spans")][:3] == [1.0, 3.0, 5.0]
    assert [span["answered"] for span in two["spans"]] == [1] * 10 + [0] * 10
    assert one == {
        "name": "a",
        "asked": 21,
        "answered": 21,
        "p50_ms": 11.0,
        "p95_ms": 20.0,
        "contributed": 1.0,
        "alone": 0.25,
        "votes": {"useful": 0, "useless": 0},
        "moments": [],
    }
    assert (two["asked"], two["answered"], two["p50_ms"], two["contributed"]) == (20, 10, 500.0, 0.0)


@pytest.mark.feature(
    "… the votes on what it found, and what its breaker and backlog were",
    of="`GET /v1/backends/history` has each backend's percentiles of time and its share in the blocks",
)
async def test_history_has_votes_and_the_states_of_backends(home: Path) -> None:
    async with opened(home) as gateway:
        ref = await remember(gateway, "The harbour master is called Marta.")
        fused = await gateway.fuse(FuseRequest("who is the harbour master?", ADA))
        await gateway.feedback(fused.receipt_id, ADA, useful=[ref])
        await gateway.note_backends()
        gateway.backend_log.note(datetime.now(UTC), {"memory": ("open", 7)})
        found = await gateway.backend_history(ADA, 100)
        of_bob = await gateway.backend_history(BOB, 100)
    (backend,) = found["backends"]
    assert backend["votes"] == {"useful": 1, "useless": 0}
    assert [(one["status"], one["backlog"]) for one in backend["moments"][-2:]] == [("ready", 0), ("open", 7)]
    (recipe,) = found["votes"]["recipes"]
    assert (recipe["name"], recipe["answers"], recipe["useful"], recipe["share"]) == (fused.recipe["name"], 1, 1, 1.0)
    assert found["votes"]["better"] is None
    assert of_bob["votes"]["recipes"] == []
