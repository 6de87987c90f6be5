"""The language model of `[model]` as the judge, through both of its clients."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from adapters.judges.model import ModelJudge
from fusion.contract import LanguageModel, Passage, Verdict
from fusion.errors import (
    BackendTimeout,
    BackendUnreachable,
    FusionError,
    InvalidAnswer,
    RateLimited,
    SettingsError,
    Unauthorized,
)
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.settings import Settings
from tests.chaos import Call, Chaos
from tests.fakes import Asked, FakeModel
from tests.gateway.helpers import NADIA
from tests.patience import load

LONG_S = 60.0
PASSAGES = [Passage(f"id{n}", f"Passage {n} tells of the canary Zerlina.") for n in range(4)]
GOOD = '{"scores": [{"id": "id0", "score": 8}, {"id": "id1", "score": 10}]}'
JUDGE = {"adapter": "adapters.judges.model:ModelJudge"}


class Clock:
    """A clock that stands still until a test moves it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def judging(model: LanguageModel | None, clock: Clock | None = None, **options: object) -> ModelJudge:
    return ModelJudge.open_over(model, options, clock or Clock())


async def ask_it(judge: ModelJudge, deadline_s: float = LONG_S) -> Verdict:
    return await judge.judge("Who is Zerlina?", PASSAGES, deadline_s)


def favours(word: str) -> str:
    """The pattern of a passage that contains this word; the group is its id."""
    return rf'<passage-\w+ id="(\w+)">\n[^<]*{word}'


def scored_by_word(prompt: str) -> str:
    """The answer of a model that gives 10 to each passage about lilies, and 0 to the others."""
    ids = re.findall(r'<passage-\w+ id="(\w+)">', prompt)
    best = re.findall(favours("lilies"), prompt)
    return json.dumps({"scores": [{"id": one, "score": 10 if one in best else 0} for one in ids]})


async def anthropic(call: Call) -> None:
    text = scored_by_word(call.json["messages"][0]["content"])
    reply = {"id": "m", "type": "message", "role": "assistant", "model": "small", "stop_reason": "end_turn"}
    content = {"content": [{"type": "text", "text": text}], "usage": {"input_tokens": 1, "output_tokens": 1}}
    await call.reply(json.dumps({**reply, **content}).encode())


async def openai(call: Call) -> None:
    text = scored_by_word(call.json["messages"][1]["content"])
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    await call.reply(json.dumps({"id": "c", "object": "chat.completion", "choices": [choice]}).encode())


def home_with(home: Path, **model: object) -> Settings:
    return load(
        home=home,
        backends_only=True,
        embedder={"adapter": ""},
        judge={**JUDGE, "timeout_ms": 60_000},
        model={"quiet_s": 3600.0, **model},
        backends={"one": {"adapter": "adapters.inmemory:InMemory"}},
    )


FLOWERS = ("The florist sells white lilies", "The florist sells white roses", "The florist sells white tulips")


async def first_answer(gateway: Gateway) -> tuple[str, Mapping[str, int]]:
    """The best memory of a question that the judge is asked about, and what became of the judge."""
    await gateway.remember([NewMemory(text, scope=NADIA) for text in reversed(FLOWERS)])
    await gateway.settle()
    fused = await gateway.fuse(
        "What white flowers does the florist sell?", scope=NADIA, recipe="deep", timeout_ms=60_000
    )
    status = await gateway.status()
    return fused.memories[0].members[0].text, status["judged"]


@pytest.fixture
async def server() -> AsyncIterator[Chaos]:
    async with Chaos() as server:
        yield server


@pytest.mark.row(
    "A043", "the judge asks the model of `[model]`: an OpenAI-compatible server or Anthropic, as distilling does"
)
@pytest.mark.parametrize("client", ["anthropic", "gateway"])
async def test_judge_ranks_through_either_client(tmp_path: Path, server: Chaos, client: str) -> None:
    """The memory that the server prefers is first, by either client's own form of request and reply."""
    if client == "anthropic":
        pytest.importorskip("anthropic", reason="needs the SDK: pip install '/path/to/checkout[anthropic]'")
    server.behaviour = anthropic if client == "anthropic" else openai
    adapter = "adapters.models.anthropic:Anthropic" if client == "anthropic" else "adapters.models.gateway:Gateway"
    allowed = {"adapter": adapter, "base_url": server.url, "model": "small", "connect_ms": 60_000}
    if client == "anthropic":
        allowed["api_key_env"] = "PATH"  # any variable that is set: the server is a test's
    async with Gateway.open(home_with(tmp_path, **allowed)) as gateway:
        text, judged = await first_answer(gateway)
        assert (await gateway.status())["judge"] == "small"
    assert (text, judged) == (FLOWERS[0], {"ok": 1})
    assert len(server.calls) == 1


async def test_judge_without_a_configured_model_stops_the_start(tmp_path: Path) -> None:
    """The settings would never ask anybody."""
    with pytest.raises(SettingsError, match=r"\[judge\] this judge asks the language model of \[model\]"):
        async with Gateway.open(home_with(tmp_path)):
            raise AssertionError("it opened")


async def test_judge_of_a_missing_model_is_disabled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without the model's key the gateway starts, one warning says so, and the local order is used."""
    chosen = {"adapter": "adapters.models.gateway:Gateway", "api_key_env": "NOBODYS_KEY"}
    async with Gateway.open(home_with(tmp_path, **chosen)) as gateway:
        _, judged = await first_answer(gateway)
    assert judged == {"disabled": 1}
    assert "The judge is disabled" in caplog.text


async def test_address_of_the_judge_belongs_to_the_model() -> None:
    """An address in `[judge]` would never be asked: it is refused."""
    with pytest.raises(SettingsError, match="base_url"):
        judging(FakeModel(GOOD), base_url="http://127.0.0.1:1")


async def test_verdict_has_scores_model_and_estimated_tokens() -> None:
    """One call with the judge's prompt and its longest answer; the tokens are estimated."""
    model = FakeModel(f"```json\n{GOOD}\n```")
    verdict = await ask_it(judging(model, max_tokens=77))
    assert (verdict.status, verdict.scores, verdict.model) == ("ok", {"id0": 8.0, "id1": 10.0}, "fake")
    assert verdict.input_tokens > 100 < verdict.input_tokens + verdict.output_tokens
    [asked] = model.asked
    assert asked.max_tokens == 77
    assert all(passage.text in asked.user for passage in PASSAGES)


async def test_no_passages_ask_no_model() -> None:
    model = FakeModel(GOOD)
    assert await judging(model).judge("q", [], LONG_S) == Verdict("ok", model="fake")
    assert model.asked == []


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BackendTimeout("fake: no answer within 60 s"), "timeout"),
        (RateLimited("fake: this minute's budget is spent", 7), "cooldown"),
        (Unauthorized("fake: the API refused the key (HTTP 401)"), "error"),
        (BackendUnreachable("fake: connection refused"), "error"),
        (InvalidAnswer("fake: the model refused"), "invalid"),
    ],
)
@pytest.mark.row("A024", "a fault of the judge's model: the local order is kept, and the receipt names it")
async def test_fault_of_the_model_is_a_verdict(error: FusionError, status: str) -> None:
    verdict = await ask_it(judging(FakeModel(error)))
    assert (verdict.status, dict(verdict.scores), verdict.fault) == (status, {}, str(error))


async def test_unexpected_error_of_the_model_is_a_verdict_without_its_text() -> None:
    verdict = await ask_it(judging(FakeModel(RuntimeError("the secret"))))
    assert (verdict.status, verdict.fault) == ("error", "RuntimeError")


async def test_answer_that_is_no_json_is_invalid() -> None:
    assert (await ask_it(judging(FakeModel("I like all of them.")))).status == "invalid"


async def test_hanging_model_is_cut_at_the_deadline() -> None:
    """The call ends with the deadline, and cancelling the question ends it at once."""
    model = FakeModel(GOOD, gate=asyncio.Event())
    verdict = await ask_it(judging(model), 0.31)
    assert (verdict.status, verdict.fault) == ("timeout", "no answer within 0.31 s")
    task = asyncio.create_task(ask_it(judging(model)))
    model.reached.clear()
    await model.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_budget_and_usual_time_bound_the_calls() -> None:
    """Too many calls, too many tokens, or too little time: the model is not asked, and after a minute it is again."""
    clock = Clock()
    model = FakeModel(GOOD)
    judge = judging(model, clock, calls_per_minute=1)
    assert (await ask_it(judge, 0.29)).status == "skipped_budget"
    assert (await ask_it(judge)).status == "ok"
    assert (await ask_it(judge)).fault == "1 calls a minute are spent"
    clock.now += 61
    assert (await ask_it(judge)).status == "ok"
    assert (await ask_it(judging(model, tokens_per_minute=10))).fault == "10 tokens a minute are spent"
    assert len(model.asked) == 2


def _slow(clock: Clock, seconds: float) -> FakeModel:
    def answer(_: Asked) -> str:
        clock.now += seconds
        return GOOD

    return FakeModel(answer)


async def test_slow_model_is_not_asked_with_little_time_left() -> None:
    clock = Clock()
    judge = judging(_slow(clock, 5.0), clock)
    assert (await ask_it(judge)).status == "ok"
    assert (await ask_it(judge, 4.9)).fault == "4.90 s are left, a call takes 5.00 s"
