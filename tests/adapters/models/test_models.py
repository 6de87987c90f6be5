"""Language models, through the real SDK and the real HTTP client, against servers of our own on loopback."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("anthropic", reason="needs the SDK: pip install '/path/to/checkout[anthropic]'")

from adapters.models.anthropic import Anthropic
from adapters.models.gateway import API, Gateway
from fusion.contract import LanguageModel
from fusion.errors import (
    BackendError,
    BackendTimeout,
    BackendUnreachable,
    HttpStatus,
    InvalidAnswer,
    ModelMissing,
    RateLimited,
    SettingsError,
    Unauthorized,
)
from tests import chaos
from tests.adapters.embedders.small_model import SmallModel
from tests.chaos import Behaviour, Chaos, blackhole, refusing
from tests.patience import PATIENT_MS

KEY = "sk-made-up-canary"


def messages(text: object = "Hello.", stop_reason: str = "end_turn", **fields: object) -> dict[str, Any]:
    """A reply of Anthropic's Messages API, as it is documented."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [{"type": "text", "text": text}],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 3},
        **fields,
    }


def completion(text: object = "Hello.", finish_reason: str = "stop", **fields: object) -> dict[str, Any]:
    """A reply of OpenAI's chat completions, as it is documented."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_770_000_000,
        "model": "small",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "logprobs": None,
                "finish_reason": finish_reason,
            }
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
        **fields,
    }


def says(reply: object) -> Behaviour:
    return chaos.body(json.dumps(reply).encode())


class Dialect:
    """One of the two, and how its server speaks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind: type[Anthropic] | type[Gateway] = Anthropic if name == "anthropic" else Gateway
        self.reply = messages if name == "anthropic" else completion
        self.cut = "max_tokens" if name == "anthropic" else "length"
        self.refused = "refusal" if name == "anthropic" else "content_filter"

    def options(self, url: str, **more: object) -> Mapping[str, object]:
        return {
            "model": "small",
            "base_url": url,
            "api_key_env": "MY_KEY",
            "timeout_ms": PATIENT_MS,
            "connect_ms": PATIENT_MS,
            **more,
        }

    @asynccontextmanager
    async def opened(self, url: str, **more: object) -> AsyncIterator[LanguageModel]:
        model: LanguageModel = self.kind.open(self.options(url, **more), {"MY_KEY": KEY})
        try:
            yield model
        finally:
            await model.close()
            await model.close()


@pytest.fixture(params=["anthropic", "gateway"])
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return Dialect(request.param)


@pytest.mark.row(
    "A043",
    "language models: Anthropic's SDK and any OpenAI-compatible gateway implement one port, chosen by the "
    "configuration",
)
async def test_one_question_one_answer(dialect: Dialect):
    """The documented request, with the key in its header, and the text of the documented reply."""
    async with Chaos(behaviour=says(dialect.reply("Hello. ✓"))) as server, dialect.opened(server.url) as model:
        assert await model.complete("Be kind.", "Hi", 77) == "Hello. ✓"
        assert model.name == "small"
        (call,) = server.calls
    body = call.json
    if dialect.name == "anthropic":
        assert call.path == "/v1/messages"
        assert any(value.endswith(KEY) for value in call.headers.values())
        assert (body["system"], body["messages"]) == ("Be kind.", [{"role": "user", "content": "Hi"}])
    else:
        assert call.path == "/chat/completions"
        assert call.headers["authorization"] == f"Bearer {KEY}"
        assert body["messages"] == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    assert (body["model"], body["max_tokens"]) == ("small", 77)


async def test_what_is_no_whole_answer_is_an_invalid_one(dialect: Dialect):
    """Cut at its longest, refused, empty, without text, in another form, HTML, half a JSON."""
    odd = [says(dialect.reply('["looks whole"]', stop)) for stop in (dialect.cut, dialect.refused)]
    odd += [says(dialect.reply(text)) for text in ("", "  ", None, 7)]
    odd += [says(value) for value in ({}, [], None, "text", {"choices": []}, {"choices": [None]}, {"content": "x"})]
    odd += [chaos.html, chaos.truncated]
    async with Chaos() as server, dialect.opened(server.url) as model:
        for behaviour in odd:
            server.behaviour = behaviour
            with pytest.raises((InvalidAnswer, BackendUnreachable)):
                await model.complete("s", "u", 9)
        assert len(server.calls) == len(odd)  # once each: nothing is retried here


@pytest.mark.row(
    "A043",
    "… every fault is one of the gateway's own errors, after one call; the deadline covers all of it",
    of="language models",
)
@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        (chaos.status(401), Unauthorized),
        (chaos.status(403), Unauthorized),
        (chaos.status(429, Retry_After="7"), RateLimited),
        (chaos.status(429), RateLimited),
        (chaos.status(400), HttpStatus),
        (chaos.status(500), HttpStatus),
        (chaos.status(503), HttpStatus),
        (chaos.reset_at_once, BackendUnreachable),
    ],
)
async def test_each_fault_is_named(dialect: Dialect, behaviour: Behaviour, error: type[BackendError]):
    """As our own errors, after one call, without the question or the key in them."""
    async with Chaos(behaviour=behaviour) as server, dialect.opened(server.url) as model:
        with pytest.raises(error) as caught:
            await model.complete("s", "the canary Zerlina", 9)
        assert len(server.calls) == 1
    assert "Zerlina" not in str(caught.value)
    assert KEY not in str(caught.value)
    if isinstance(caught.value, RateLimited):
        assert caught.value.retry_after_s in (7.0, None)


@pytest.mark.parametrize("behaviour", [chaos.hang, chaos.hang_after_headers, chaos.trickle])
async def test_the_deadline_is_for_the_whole_call(dialect: Dialect, behaviour: Behaviour):
    """A server that hangs or trickles is left after ``timeout_ms``, and is asked once."""
    async with Chaos(behaviour=says(dialect.reply())) as server:
        async with dialect.opened(server.url) as model:
            await model.complete("s", "u", 9)  # the SDK is loaded
        server.behaviour = behaviour
        async with dialect.opened(server.url, timeout_ms=500) as model:
            with pytest.raises(BackendTimeout):
                await model.complete("s", "u", 9)
        assert len(server.calls) <= 2  # on a busy machine the time may be over before the request has left


async def test_connect_ms_bounds_a_new_connection_of_the_gateway():
    """A server that accepts no connection is left after `connect_ms`, long before the call's deadline."""
    with blackhole() as url:
        async with Dialect("gateway").opened(url, connect_ms=40, timeout_ms=3_600_000) as model:
            with pytest.raises(BackendUnreachable, match="no connection within 40 ms"):
                await model.complete("s", "u", 9)


async def test_nobody_there(dialect: Dialect):
    """A refused connection; and after `close` nobody is asked."""
    with refusing() as url:
        async with dialect.opened(url) as model:
            with pytest.raises(BackendUnreachable):
                await model.complete("s", "u", 9)
            await model.close()
            with pytest.raises(BackendUnreachable, match="closed"):
                await model.complete("s", "u", 9)


async def test_nothing_is_logged(dialect: Dialect, caplog: pytest.LogCaptureFixture):
    """Neither text nor key, at any level."""
    caplog.set_level(logging.DEBUG)
    async with Chaos(behaviour=says(dialect.reply("Zerlina's answer"))) as server, dialect.opened(server.url) as model:
        await model.complete("s", "the canary Zerlina", 9)
    assert "Zerlina" not in caplog.text
    assert KEY not in caplog.text


@pytest.mark.feature("… a key goes to another server only when the configuration names it", of="language models")
def test_a_key_goes_to_another_server_only_when_it_is_named():
    """OPENAI_API_KEY is for OpenAI; a gateway of one's own gets the key that the configuration names, or none."""
    environ = {"OPENAI_API_KEY": "sk-openai", "ANTHROPIC_API_KEY": "sk-ant", "MINE": "sk-mine"}
    assert _key(Gateway.open({"model": "m"}, environ)) == "Bearer sk-openai"
    assert _key(Gateway.open({"model": "m", "base_url": "http://127.0.0.1:1"}, environ)) is None
    named = {"model": "m", "base_url": "http://127.0.0.1:1", "api_key_env": "MINE"}
    assert _key(Gateway.open(named, environ)) == "Bearer sk-mine"
    with pytest.raises(SettingsError, match="api_key_env"):
        Anthropic.open({"model": "m", "base_url": "http://127.0.0.1:1"}, environ)


def _key(model: Gateway) -> str | None:
    return model._http._headers().get("Authorization")


def test_each_provider_gets_the_token_limit_in_its_own_field():
    """OpenAI's newer models refuse ``max_tokens``; gateways know nothing else."""
    assert Gateway.open({"model": "m"}, {"OPENAI_API_KEY": "k"})._limit == "max_completion_tokens"
    assert Gateway.open({"model": "m", "base_url": API.replace("api", "my")}, {})._limit == "max_tokens"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"base_url": "ftp://x"}, "base_url"),
        ({"base_url": "http://user:word@x"}, "base_url"),
        ({"model": ""}, "model"),
        ({"model": 7}, "model"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"timeout_ms": True}, "timeout_ms"),
        ({"connect_ms": 0}, "connect_ms"),
    ],
)
def test_a_wrong_option_is_named(dialect: Dialect, wrong: Mapping[str, object], error: str):
    """Before anything is opened or sent."""
    with pytest.raises(SettingsError, match=error):
        dialect.kind.verify(dialect.options("http://127.0.0.1:1", **wrong), {"MY_KEY": KEY})


def test_a_key_that_is_wanted_and_not_there(dialect: Dialect):
    """The variable is named, with the command."""
    with pytest.raises(ModelMissing, match="export MY_KEY="):
        dialect.kind.verify(dialect.options("http://127.0.0.1:1"), {})


@pytest.mark.llm
@pytest.mark.timeout(300)
async def test_a_real_small_model_answers_through_both():
    """Plumbing only: SmolLM2 behind both APIs, through both adapters; a model of 135M parameters has no judgement."""
    with SmallModel() as served:
        for name in ("anthropic", "gateway"):
            url = served.url if name == "anthropic" else f"{served.url}/v1"
            async with Dialect(name).opened(url, timeout_ms=200_000) as model:
                try:
                    said = await model.complete("Answer in one word.", "What is the capital of France?", 24)
                except InvalidAnswer as error:
                    said = str(error)  # it may talk until it is cut, which is told
                assert said
