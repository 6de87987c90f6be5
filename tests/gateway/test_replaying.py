"""A question that is watched and recorded, and answered again by other numbers without asking a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from adapters.inmemory import InMemory
from fusion.contract import Asker, Hit, Query, Scope
from fusion.errors import BadInput, NobodyNamed, NotFound
from fusion.gateway.gateway import Gateway
from fusion.gateway.recordings import MAX_RECORDINGS, Recordings
from fusion.gateway.replaying import TEXT_CHARS, ReplayRequest
from fusion.ingest.forget import ForgetRequest
from fusion.ingest.intake import NewMemory
from fusion.recall.engine import FuseRequest
from fusion.recall.gather import Answer
from tests.patience import load

ADA = Scope(user_id="ada")
TEXTS = (
    "The harbour master is called Marta.",
    "The harbour opens at six in the morning.",
    "Boats wait outside the harbour at night, " + "and the lamps are lit, " * 40,
    "The harbour café sells tea.",
)
FLOORS = ("floor", "abstain", "floor_probability", "abstain_probability", "abstain_without_model")
QUESTION = "what is there to know about the harbour?"


class Counted(InMemory):
    """An in-memory backend that counts its searches; there is one for all tests."""

    searches = 0

    async def search(self, query: Query) -> Sequence[Hit]:
        Counted.searches += 1
        return await super().search(query)


@asynccontextmanager
async def opened(home: Path, **more: Any) -> AsyncIterator[Gateway]:
    backends = {"memory": {"adapter": "tests.gateway.test_replaying:Counted", "deadline_ms": 60_000}}
    chosen: dict[str, Any] = {"backends_only": True, "backends": backends, "embedder": {"adapter": ""}, **more}
    async with Gateway.open(load(home=home, **chosen)) as gateway:
        yield gateway


async def remember(gateway: Gateway, *texts: str, scope: Scope = ADA) -> list[str]:
    kept = await gateway.remember([NewMemory(text, scope) for text in texts])
    await gateway.settle()
    return [one.ref for one in kept]


async def ask(gateway: Gateway, question: str = QUESTION, scope: Scope = ADA, **more: Any) -> dict[str, Any]:
    seen: list[Answer] = []
    request = FuseRequest(question, scope, timeout_ms=60_000, fill=True, **{"record": True, **more})
    found = await gateway.ask(request, seen.append)
    return {**found, "seen": seen}


def refs(answer: Any) -> list[str]:
    return [member.ref for excerpt in answer.memories for member in excerpt.members]


@pytest.mark.feature("`POST /v1/ask` streams each backend's answer, then the block and every candidate with its text")
async def test_ask_reports_each_backend_and_every_candidate(home: Path) -> None:
    async with opened(home) as gateway:
        kept = await remember(gateway, *TEXTS)
        found = await ask(gateway, max_results=1)
    assert [(one.backend, one.status, len(one.hits)) for one in found["seen"]] == [("memory", "ok", 4)]
    by_ref = {row["ref"]: row for row in found["candidates"]}
    assert by_ref.keys() == {*kept}
    assert {ref: row["text"] for ref, row in by_ref.items()} == {
        ref: text[:TEXT_CHARS] for ref, text in zip(kept, TEXTS, strict=True)
    }
    assert len(refs(found["answer"])) == 1
    assert found["recording"] == found["answer"].receipt_id


async def test_ask_records_only_if_it_is_told_to(home: Path) -> None:
    async with opened(home) as gateway:
        await remember(gateway, *TEXTS)
        found = await ask(gateway, record=False)
        assert found["recording"] is None
        with pytest.raises(NotFound, match=r"POST /v1/ask with record = true"):
            await gateway.replay(ReplayRequest(found["answer"].receipt_id))


@pytest.mark.feature("`POST /v1/replay` answers a recorded question by other numbers, and asks no store")
async def test_replay_answers_by_other_numbers_without_a_store(home: Path) -> None:
    """Without a change it is the same block; with one it is the block that the question would have got."""
    async with opened(home) as gateway:
        await remember(gateway, *TEXTS)
        found = await ask(gateway)
        first, receipt_id = found["answer"], found["recording"]
        before, receipts = Counted.searches, gateway.receipts.last
        same = await gateway.replay(ReplayRequest(receipt_id))
        assert (same["answer"].block, same["candidates"]) == (first.block, found["candidates"])
        fewer = await gateway.replay(ReplayRequest(receipt_id, changes={"pack": {"max_results": 1}}))
        assert refs(fewer["answer"]) == refs(first)[:1]
        assert fewer["answer"].recipe["hash"] != first.recipe["hash"]
        assert refs((await gateway.replay(ReplayRequest(receipt_id, max_results=2)))["answer"]) == refs(first)[:2]
        short = await gateway.replay(ReplayRequest(receipt_id, budget_chars=300))
        assert len(short["answer"].block) <= 300
        high = await gateway.replay(ReplayRequest(receipt_id, changes={"rerank": dict.fromkeys(FLOORS, 1)}))
        assert high["answer"].block == ""
        cut = await gateway.replay(ReplayRequest(receipt_id, changes={"gather": {"depth": 2, "max_depth": 0}}))
        assert cut["answer"].backends[0]["count"] == 2
        other = await gateway.replay(ReplayRequest(receipt_id, recipe="seed003"))
        assert other["answer"].recipe["name"] == "seed003"
        assert (Counted.searches, gateway.receipts.last) == (before, receipts)


async def test_replay_changes_what_the_question_itself_limits(home: Path) -> None:
    """A slider that the question's own number would override would do nothing."""
    async with opened(home) as gateway:
        await remember(gateway, *TEXTS)
        found = await ask(gateway, max_results=1, budget_tokens=500)
        more = {"pack": {"max_results": 3, "budget_chars": 6000}}
        assert len(refs((await gateway.replay(ReplayRequest(found["recording"], changes=more)))["answer"])) == 3


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"pakc": {"max_results": 3}}, "no part 'pakc'; there are gather"),
        ({"pack": {"max_result": 3}}, "pack.max_result: there is no such number; did you mean max_results"),
        ({"pack": {"max_results": "many"}}, "pack.max_results: "),
        ({"rerank": {"floor": 2}}, "rerank.floor: Input should be less than or equal to 1"),
        ({"rerank": {"floor": -1}}, "rerank.floor = -1.0 is negative"),
        ({"rerank": {"judge": "maybe"}}, "rerank.judge: Input should be 'never'"),
        ({"rerank": {"signals": {"bm52": 1}}}, "no signal is called 'bm52'"),
        ({"rerank": {"model": "x"}}, "rerank.model is read from a file"),
        ({"expand": {"span": 50}}, "the recipe wants 50. Ask the question again"),
    ],
)
async def test_replay_names_what_is_wrong_in_a_change(home: Path, changes: Any, named: str) -> None:
    async with opened(home) as gateway:
        await remember(gateway, *TEXTS)
        found = await ask(gateway)
        with pytest.raises(BadInput) as caught:
            await gateway.replay(ReplayRequest(found["recording"], changes=changes))
        assert named in str(caught.value)


@pytest.mark.feature("… nothing that was forgotten or quarantined since", of="`POST /v1/replay` answers")
async def test_replay_has_nothing_that_was_forgotten_since(home: Path) -> None:
    """Forgetting drops every recording at once; one that is put back is found to name what is gone."""
    async with opened(home) as gateway:
        one, two, *_ = await remember(gateway, *TEXTS)
        found = await ask(gateway)
        recorded = gateway.recordings.of(found["recording"])
        await gateway.forget_many(ForgetRequest(ADA, refs=(one,)))
        assert not gateway.recordings.has(found["recording"])
        gateway.recordings.keep(recorded)
        with pytest.raises(NotFound, match="no recording"):
            await gateway.replay(ReplayRequest(found["recording"]))
        found = await ask(gateway)
        await gateway.journal.decide(
            {(await gateway.journal.find(two, ADA)).event.event_id: {"trust": "quarantined"}}, "ada", "a test"
        )
        again = await gateway.replay(ReplayRequest(found["recording"]))
        assert two not in {row["ref"] for row in again["candidates"]}
        assert "six in the morning" not in again["answer"].block


async def test_replay_is_of_the_user_and_tenant_that_asked(home: Path) -> None:
    async with opened(home) as gateway:
        await remember(gateway, *TEXTS)
        found = await ask(gateway)
        with pytest.raises(NotFound):
            await gateway.replay(ReplayRequest(found["recording"], user_id="bob"))
        with pytest.raises(NotFound):
            await gateway.replay(ReplayRequest(found["recording"], tenant="acme"), "acme")
        await remember(gateway, "Bob has a boat", scope=Scope(user_id="bob"))
        with pytest.raises(NobodyNamed):
            await ask(gateway, scope=Scope())


async def test_replay_leaves_out_what_the_session_had(home: Path) -> None:
    """The context of the session is that of the question, also after later questions."""
    async with opened(home, recipe="hook") as gateway:
        await remember(gateway, *TEXTS)
        asker = Asker(session_id="s1")
        found = await ask(gateway, asker=asker, gate=False)
        await ask(gateway, asker=asker, gate=False)
        again = await gateway.replay(ReplayRequest(found["recording"]))
        assert refs(again["answer"]) == refs(found["answer"])


async def test_recordings_are_few_small_and_kept_for_a_while(home: Path) -> None:
    async with opened(home) as gateway:
        await remember(gateway, *TEXTS)
        names = [(await ask(gateway))["recording"] for _ in range(MAX_RECORDINGS + 1)]
        assert [gateway.recordings.has(name) for name in names] == [False] + [True] * MAX_RECORDINGS
        one = gateway.recordings.of(names[-1])
    small = Recordings(max_bytes=one.bytes - 1)
    small.keep(one)
    assert not small.has(one.receipt_id)
    brief = Recordings(kept_s=0)
    brief.keep(one)
    assert brief.has(one.receipt_id)
    await asyncio.sleep(0.001)  # the timer of no time has fired
    assert not brief.has(one.receipt_id)


@pytest.mark.feature("`GET /v1/recipes` lists the recipes of the home with the range and default of each value")
async def test_recipes_are_listed_with_ranges(home: Path) -> None:
    async with opened(home) as gateway:
        found = await gateway.recipes_of_home()
    named = {one["name"]: one for one in found["recipes"]}
    assert found["default"] in named
    assert named["hook"]["fields"]["pack"]["format"]
    assert found["ranges"]["pack"]["max_results"] == {"type": "integer", "minimum": 0, "maximum": 1000, "default": 8}
    assert found["ranges"]["rerank"]["judge"]["enum"] == ["never", "gate", "always"]
    for recipe in named.values():  # every value of every recipe has its range
        for part, values in recipe["fields"].items():
            assert values.keys() == found["ranges"][part].keys()
