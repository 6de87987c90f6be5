"""Embedding providers: the form of each one's API, as its documentation shows it, on a loopback server."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters.embedders.compatible import COMPATIBLE, LM_STUDIO
from adapters.embedders.gemini import GEMINI
from adapters.embedders.http_embedder import HttpEmbedder
from adapters.embedders.local import LocalEmbedder
from adapters.embedders.mistral import MISTRAL
from adapters.embedders.ollama import OLLAMA
from adapters.embedders.openai import OPENAI
from adapters.embedders.options import Options
from adapters.embedders.provider_spec import ProviderSpec
from adapters.embedders.providers import Composed, Providers, choose
from adapters.embedders.rate_limit import MinuteLimit
from adapters.embedders.voyage import VOYAGE
from fusion.contract import Embedder, HasLocalModel
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
from tests.chaos import Call, Chaos
from tests.fakes import FakeEmbedder, word_vector
from tests.patience import PATIENT_MS
from tests.test_settings import environment

KEY = "sk-canary-1234"
OF_OPENAI = """{"object": "list", "data": [
  {"object": "embedding", "index": 1, "embedding": [0.0, 3.0, 4.0]},
  {"object": "embedding", "index": 0, "embedding": [-0.006929283495992422, 0.0, 0.0]}],
  "model": "text-embedding-3-small", "usage": {"prompt_tokens": 5, "total_tokens": 5}}"""
OF_GEMINI = """{"embeddings": [{"values": [-0.006929283495992422, 0.0, 0.0]}, {"values": [0.0, 3.0, 4.0]}]}"""
OF_VOYAGE = """{"object": "list", "data": [
  {"object": "embedding", "embedding": [-0.006929283495992422, 0.0, 0.0], "index": 0},
  {"object": "embedding", "embedding": [0.0, 3.0, 4.0], "index": 1}],
  "model": "voyage-4-large", "usage": {"total_tokens": 10}}"""
OF_MISTRAL = """{"id": "9f852f4006f847dda16f82c9ce0d5ae4", "object": "list", "data": [
  {"object": "embedding", "embedding": [-0.0069, 0.0, 0.0], "index": 0},
  {"object": "embedding", "embedding": [0.0, 3.0, 4.0], "index": 1}],
  "model": "mistral-embed", "usage": {"prompt_tokens": 65, "total_tokens": 65, "completion_tokens": 0}}"""
OF_OLLAMA = """{"model": "nomic-embed-text", "embeddings": [[-0.010071029, 0.0, 0.0], [0.0, 3.0, 4.0]],
  "total_duration": 14143917, "load_duration": 1019500, "prompt_eval_count": 8}"""
OF_LM_STUDIO = """{"object": "list", "data": [
  {"object": "embedding", "embedding": [-0.005118194036185741, 0.0, 0.0], "index": 0},
  {"object": "embedding", "embedding": [0.0, 3.0, 4.0], "index": 1}],
  "model": "nomic-ai/nomic-embed-text-v1.5-GGUF", "usage": {"prompt_tokens": 0, "total_tokens": 0}}"""
REPLIES = {
    "openai": OF_OPENAI,
    "gemini": OF_GEMINI,
    "voyage": OF_VOYAGE,
    "mistral": OF_MISTRAL,
    "ollama": OF_OLLAMA,
    "lmstudio": OF_LM_STUDIO,
    "compatible": OF_OPENAI,
}
APIS = {api.name: api for api in (OPENAI, GEMINI, VOYAGE, MISTRAL, OLLAMA, LM_STUDIO, COMPATIBLE)}


def said(body: str, status: int = 200, **headers: str) -> chaos.Behaviour:
    async def behave(call: Call) -> None:
        await call.reply(body.encode(), status, **headers)

    return behave


async def embedding(call: Call) -> None:
    """An OpenAI-like server with a vector of four numbers for each text; ``refuse`` in a text is too long for it."""
    texts: Sequence[str] = call.json["input"]
    if any("refuse" in text for text in texts):
        await call.reply(b'{"error": {"message": "maximum context length", "type": "invalid_request_error"}}', 400)
        return
    data = [{"index": n, "embedding": word_vector(text, 4).tolist()} for n, text in enumerate(texts)]
    await call.reply(json.dumps({"object": "list", "data": data}).encode())


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@asynccontextmanager
async def hosted(
    folder: Path, server: Chaos, api: ProviderSpec = COMPATIBLE, clock: Clock | None = None, **options: Any
) -> AsyncIterator[HttpEmbedder]:
    clock = clock or Clock()
    patient = {"connect_ms": PATIENT_MS, "query_timeout_ms": PATIENT_MS, "timeout_s": PATIENT_MS / 1000}
    given = {"model": api.model or "some-model", "dimensions": 4, "url": server.url, **patient, **options}
    model = await HttpEmbedder.open(api, folder, Options(api.name, **given), clock=clock, sleep=clock.sleep)
    try:
        yield model
    finally:
        await model.close()


def sent(server: Chaos) -> list[str]:
    """The texts of all calls, in their order."""
    return [text for call in server.calls for text in call.json["input"]]


# The forms


@pytest.mark.row("A002", "providers: each API's replies are parsed, one vector for each text")
@pytest.mark.parametrize("name", list(APIS))
async def test_replies_of_the_documented_form_are_read(name: str, tmp_path: Path) -> None:
    """A vector a text, in the order of the texts, at unit length: (0, 3, 4) has length 5 and becomes (0, .6, .8)."""
    async with (
        Chaos(behaviour=said(REPLIES[name])) as server,
        hosted(tmp_path, server, APIS[name], dimensions=3) as model,
    ):
        vectors = await model.embed(["first", "second"])
    assert vectors.dtype == np.float32
    assert np.allclose(vectors, [[-1, 0, 0], [0, 0.6, 0.8]])


FORMS: Mapping[str, tuple[str, Mapping[str, str], object, object]] = {
    "openai": (
        "/embeddings",
        {"authorization": f"Bearer {KEY}"},
        {"model": "text-embedding-3-small", "input": ["a"], "encoding_format": "float", "dimensions": 3},
        {"model": "text-embedding-3-small", "input": ["q"], "encoding_format": "float", "dimensions": 3},
    ),
    "gemini": (
        "/models/gemini-embedding-001:batchEmbedContents",
        {"x-goog-api-key": KEY},
        {
            "requests": [
                {
                    "model": "models/gemini-embedding-001",
                    "taskType": "RETRIEVAL_DOCUMENT",
                    "outputDimensionality": 3,
                    "content": {"parts": [{"text": "a"}]},
                }
            ]
        },
        {
            "requests": [
                {
                    "model": "models/gemini-embedding-001",
                    "taskType": "RETRIEVAL_QUERY",
                    "outputDimensionality": 3,
                    "content": {"parts": [{"text": "q"}]},
                }
            ]
        },
    ),
    "voyage": (
        "/embeddings",
        {"authorization": f"Bearer {KEY}"},
        {"model": "voyage-4-large", "input": ["a"], "input_type": "document", "output_dimension": 3},
        {"model": "voyage-4-large", "input": ["q"], "input_type": "query", "output_dimension": 3},
    ),
    "mistral": (
        "/embeddings",
        {"authorization": f"Bearer {KEY}"},
        {"model": "mistral-embed", "input": ["a"], "encoding_format": "float", "output_dimension": 3},
        {"model": "mistral-embed", "input": ["q"], "encoding_format": "float", "output_dimension": 3},
    ),
    "ollama": (
        "/api/embed",
        {},
        {"model": "nomic-embed-text", "input": ["search_document: a"], "truncate": True, "dimensions": 3},
        {"model": "nomic-embed-text", "input": ["search_query: q"], "truncate": True, "dimensions": 3},
    ),
    "lmstudio": (
        "/embeddings",
        {},
        {
            "model": "text-embedding-nomic-embed-text-v1.5",
            "input": ["search_document: a"],
            "encoding_format": "float",
            "dimensions": 3,
        },
        {
            "model": "text-embedding-nomic-embed-text-v1.5",
            "input": ["search_query: q"],
            "encoding_format": "float",
            "dimensions": 3,
        },
    ),
}


@pytest.mark.row("A002", "A079", "providers: each API's requests have their documented form")
@pytest.mark.parametrize("name", list(FORMS))
async def test_requests_have_the_documented_form(name: str, tmp_path: Path) -> None:
    """Path, key, model and texts as each API wants them; a question is told from a text where the model does."""
    path, headers, storing, asking = FORMS[name]
    one = json.dumps({"data": [{"embedding": [1, 0, 0]}], "embeddings": [[1, 0, 0]]})
    reply = '{"embeddings": [{"values": [1, 0, 0]}]}' if name == "gemini" else one
    keyed = {"api_key_env": "PROVIDERS_TEST_KEY"} if headers else {}
    with environment(PROVIDERS_TEST_KEY=KEY):
        async with (
            Chaos(behaviour=said(reply)) as server,
            hosted(tmp_path, server, APIS[name], dimensions=3, **keyed) as model,
        ):
            await model.embed(["a"])
            await model.embed(["q"], keep=False)
    assert [call.path for call in server.calls] == [path, path]
    assert [call.json for call in server.calls] == [storing, asking]
    for call in server.calls:
        assert {name: call.headers[name] for name in headers} == headers
        assert headers or "authorization" not in call.headers


OPENCLAWS: Mapping[str, Mapping[str, Sequence[int]]] = {
    "openai": {"text-embedding-3-small": [1536]},
    "gemini": {"gemini-embedding-001": [3072, 1536, 768], "gemini-embedding-2-preview": [3072, 1536, 768]},
    "voyage": {"voyage-4-large": [1024]},
    "mistral": {"mistral-embed": [1024]},
    "ollama": {"nomic-embed-text": [768]},
}
"""by provider, in OpenClaw's order: its default model first; of each model its usual vector length first"""


@pytest.mark.row("A079", "providers: each has OpenClaw's default model, and the dimensions of that model")
@pytest.mark.parametrize("name", list(OPENCLAWS))
async def test_each_provider_has_openclaws_model_and_dimensions(name: str, tmp_path: Path) -> None:
    """The first is what the provider uses unless the settings say otherwise; every length can be asked for."""
    api, models = APIS[name], OPENCLAWS[name]
    assert api.model == next(iter(models))
    for model, lengths in models.items():
        assert api.dimensions[model] == lengths[0]
        for length in lengths:
            async with (
                Chaos(behaviour=said("{}")) as server,
                hosted(tmp_path, server, api, model=model, dimensions=length) as opened,
            ):
                assert opened.identity == f"{name}/{model}@{length}"


@pytest.mark.feature("… and adapters/README.md lists them", of="providers: each has OpenClaw's default model")
def test_the_table_of_providers_is_that_of_the_code() -> None:
    """Name, default model and vector length, in the order of `auto`; the rest of a row is prose."""
    page = (Path(__file__).parents[3] / "adapters" / "README.md").read_text(encoding="utf-8")
    rows = [[cell.strip(" `") for cell in line.split("|")[1:4]] for line in page.splitlines() if line.startswith("| `")]
    listed = [row for row in rows if row[0] in (*APIS, "local")]
    apis = [api for api in APIS.values() if api.model]
    expected = [[api.name, api.model, str(api.dimensions[api.model])] for api in apis]
    assert listed == [["local", "all-MiniLM-L6-v2", "384"], *expected]


@pytest.mark.row("A002", "providers: Ollama's `nomic-embed-text` with 768 dimensions over `/api/embed`, and LM Studio")
async def test_ollamas_model_has_768_numbers(tmp_path: Path) -> None:
    """Seed 000's model is known: it is opened without asking, and nothing is said of dimensions in a request."""
    reply = json.dumps({"embeddings": [word_vector("a", 768).tolist()]})
    async with Chaos(behaviour=said(reply)) as server, hosted(tmp_path, server, OLLAMA, dimensions=0) as model:
        assert model.identity == "ollama/nomic-embed-text@768"
        assert not server.calls
        assert (await model.embed(["a"])).shape == (1, 768)
        assert "dimensions" not in server.calls[0].json


ERRORS: Sequence[tuple[str, int, str, type[BackendError], str]] = [
    (
        "openai",
        401,
        (
            '{"error": {"message": "Incorrect API key provided: sk-canary-1234.", "type": "invalid_request_error", '
            '"param": null, "code": "invalid_api_key"}}'
        ),
        Unauthorized,
        "set OPENAI_API_KEY",
    ),
    (
        "openai",
        429,
        (
            '{"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "param": null, '
            '"code": "insufficient_quota"}}'
        ),
        RateLimited,
        "asks to wait",
    ),
    (
        "gemini",
        400,
        (
            '{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.", '
            '"status": "INVALID_ARGUMENT", "details": [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", '
            '"reason": "API_KEY_INVALID"}]}}'
        ),
        HttpStatus,
        "neither .* model nor key",
    ),
    (
        "gemini",
        429,
        '{"error": {"code": 429, "message": "Resource has been exhausted", "status": "RESOURCE_EXHAUSTED"}}',
        RateLimited,
        "asks to wait",
    ),
    ("gemini", 404, '{"error": {"code": 404, "status": "NOT_FOUND"}}', HttpStatus, "not one of its models"),
    ("voyage", 401, '{"detail": "Provided API key is invalid."}', Unauthorized, "set VOYAGE_API_KEY"),
    ("voyage", 400, '{"detail": "Model foo is not supported."}', HttpStatus, "neither .* model nor key"),
    (
        "mistral",
        400,
        (
            '{"object": "error", "message": "Too many tokens in batch. Max is 16384 got 17555", '
            '"type": "invalid_request_error", "param": null, "code": null}'
        ),
        HttpStatus,
        "neither .* model nor key",
    ),
    (
        "mistral",
        422,
        '{"detail": [{"loc": ["body", "input"], "msg": "field required", "type": "value_error"}]}',
        HttpStatus,
        "neither .* model nor key",
    ),
    ("mistral", 429, '{"message": "Requests rate limit exceeded"}', RateLimited, "asks to wait"),
    (
        "ollama",
        404,
        '{"error": "model \\"nomic-embed-text\\" not found, try pulling it first"}',
        HttpStatus,
        "ollama pull nomic-embed-text",
    ),
    ("ollama", 400, '{"error": "the input length exceeds the context length"}', HttpStatus, "not the text"),
    ("ollama", 500, '{"error": "llama runner process has terminated"}', HttpStatus, "answered 500"),
    ("lmstudio", 404, '{"error": "Unexpected endpoint or method."}', HttpStatus, "lms get"),
]


@pytest.mark.feature("providers: each API's errors are reported with their fix, without text or key")
@pytest.mark.parametrize(("name", "status", "body", "kind", "told"), ERRORS)
async def test_errors_of_the_documented_form_are_named(
    name: str,
    status: int,
    body: str,
    kind: type[BackendError],
    told: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each says how to fix it; neither the reply, nor the text, nor the key is quoted, in the error or in the log."""
    caplog.set_level(logging.DEBUG)
    with environment(PROVIDERS_TEST_KEY=KEY):
        async with (
            Chaos(behaviour=said(body, status)) as server,
            hosted(tmp_path, server, APIS[name], api_key_env="PROVIDERS_TEST_KEY") as model,
        ):
            with pytest.raises(kind, match=told) as caught:
                await model.embed(["canary text"])
    assert "canary" not in f"{caught.value!r} {caught.value.__cause__!r}"
    assert "canary" not in caplog.text


# A reply counts whole


@pytest.mark.feature("providers: a reply with a wrong count, a wrong length, NaN or zeros is refused as a whole")
@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ('{"data": [{"index": 0, "embedding": [1, 0, 0, 0]}]}', "1 vectors for 2 texts"),
        ('{"data": [{"embedding": [1, 0, 0]}, {"embedding": [1, 0, 0]}]}', "have 3 numbers, not 4"),
        ('{"data": [{"embedding": [1, 0, 0, 0]}, {"embedding": [1, 0, 0]}]}', "not one of"),
        ('{"data": [{"embedding": [1, 0, 0, 0]}, {"embedding": [NaN, 0, 0, 1]}]}', "not a number"),
        ('{"data": [{"embedding": [1, 0, 0, 0]}, {"embedding": [null, 0, 0, 1]}]}', "not a number"),
        ('{"data": [{"embedding": [1, 0, 0, 0]}, {"embedding": [1e300, 1e300, 0, 1]}]}', "not a number"),
        ('{"data": [{"embedding": [1, 0, 0, 0]}, {"embedding": [0, 0, 0, 0]}]}', "is zero"),
        ('{"data": [{"index": 0, "embedding": [1, 0, 0, 0]}, {"index": 0, "embedding": [1, 0, 0, 0]}]}', "not one of"),
        ('{"data": [{"index": 5, "embedding": [1, 0, 0, 0]}, {"index": 6, "embedding": [1, 0, 0, 0]}]}', "not one of"),
        ('{"data": "?"}', "not one of"),
        ("[]", "not one of"),
        ("<html>", "not JSON"),
    ],
)
async def test_a_reply_that_makes_no_sense_is_refused_whole(reply: str, told: str, tmp_path: Path) -> None:
    """Wrong count, wrong length, NaN, null, zero, nonsense: an error for all of its texts, and nothing is kept."""
    async with Chaos(behaviour=said(reply)) as server, hosted(tmp_path, server) as model:
        with pytest.raises(InvalidAnswer, match=told):
            await model.embed(["a", "b"])
        server.behaviour = embedding
    async with Chaos(behaviour=embedding) as server, hosted(tmp_path, server) as model:
        await model.embed(["a", "b"])
        assert sent(server) == ["a", "b"]


async def test_an_unknown_models_dimensions_are_asked_for(tmp_path: Path) -> None:
    """One word is sent at opening; where nobody answers, the error says which line would do instead."""
    async with Chaos(behaviour=embedding) as server:
        async with hosted(tmp_path, server, dimensions=0) as model:
            assert (model.identity, model.dimensions) == ("compatible/some-model@4", 4)
        assert sent(server) == ["dimensions"]
        server.behaviour = said("{}", 503)
        with pytest.raises(SettingsError, match=r"answered 503.*write dimensions = "):
            async with hosted(tmp_path / "new", server, dimensions=0):
                raise AssertionError("it opened")


async def test_server_that_is_down_does_not_keep_a_known_model_closed(tmp_path: Path) -> None:
    """Memory Cortex's embedder is opened without a request; nothing listens there."""
    async with Chaos() as server:
        pass
    async with hosted(tmp_path, server, model="nomic-embed-text", dimensions=0) as model:
        assert model.identity == "compatible/nomic-embed-text@768"
        with pytest.raises(BackendUnreachable):
            await model.embed(["a"])


@pytest.mark.parametrize("name", ["some-model", "org/some.model:7b@q4"])
async def test_server_that_is_down_leaves_the_dimensions_of_the_stored_vectors(name: str, tmp_path: Path) -> None:
    """The server's answer wins while it gives one; stored vectors of another model or provider say nothing."""
    async with Chaos(behaviour=embedding) as server:
        async with hosted(tmp_path, server, model=name, dimensions=0) as model:
            (stored,) = await model.embed(["a"])
        async with hosted(tmp_path, server, model=f"{name}-8", dimensions=8):
            pass
        server.behaviour = said(json.dumps({"data": [{"embedding": [1, 0, 0]}]}))
        async with hosted(tmp_path / "changed", server, model=name, dimensions=4):
            pass
        async with hosted(tmp_path / "changed", server, model=name, dimensions=0) as model:
            assert model.dimensions == 3
    async with hosted(tmp_path, server, model=name, dimensions=0) as model:
        assert model.identity == f"compatible/{name}@4"
        assert (await model.embed(["a"]) == stored).all()
        with pytest.raises(BackendUnreachable):
            await model.embed(["b"])
    with pytest.raises(SettingsError, match="write dimensions = "):
        async with hosted(tmp_path, server, replace(COMPATIBLE, name="other"), model=name, dimensions=0):
            raise AssertionError("it opened")


# What is sent, and when


@pytest.mark.row("A078", "providers: a text is sent once; the cache key is provider, model and hash")
async def test_a_text_is_sent_once(tmp_path: Path) -> None:
    """A078: four who store the same at once cost one request; after a restart nothing is sent. Keyed by model: another
    model has a cache of its own, and vectors of the two never meet."""
    async with Chaos(behaviour=embedding) as server:
        async with hosted(tmp_path, server) as model:
            first, *others = await asyncio.gather(*(model.embed(["a", "b", "a"]) for _ in range(4)))
            assert all(np.array_equal(first, other) for other in others)
            assert np.array_equal(first[0], first[2])
        async with hosted(tmp_path, server) as model:
            assert np.array_equal(await model.embed(["b", "a"]), first[[1, 0]])
        assert sent(server) == ["a", "b"]
        async with hosted(tmp_path, server, model="another") as model:
            await model.embed(["a"])
        assert sent(server) == ["a", "b", "a"]


async def test_a_question_leaves_no_trace_on_disk(tmp_path: Path) -> None:
    """It is remembered in memory, apart from texts of the same words, which some models embed otherwise."""
    async with Chaos(behaviour=embedding) as server:
        async with hosted(tmp_path, server) as model:
            await asyncio.gather(model.embed(["who"], keep=False), model.embed(["who"], keep=False))
            await model.embed(["who"], keep=False)
            assert sent(server) == ["who"]
            await model.embed(["who"])
            assert sent(server) == ["who", "who"]
            await model.forget(["who"])
        async with hosted(tmp_path, server) as model:
            await model.embed(["who"], keep=False)
        assert len(sent(server)) == 3


async def test_requests_are_as_large_as_the_api_takes(tmp_path: Path) -> None:
    """At most three texts; and at most 20 estimated tokens: ten words are 10 × 1.25 × 1.1 = 13.75, so 14, and two such
    texts are 28, too many for one request."""
    api = replace(COMPATIBLE, most_texts=3, most_tokens=20)
    async with Chaos(behaviour=embedding) as server, hosted(tmp_path, server, api) as model:
        await model.embed([f"t{n}" for n in range(7)])
        assert [len(call.json["input"]) for call in server.calls] == [3, 3, 1]
        await model.embed(["one " * 10, "two " * 10])
        assert [len(call.json["input"]) for call in server.calls[3:]] == [1, 1]


async def test_a_long_text_is_cut(tmp_path: Path) -> None:
    """Of what a model cannot read, nothing is sent: 10 tokens are about 40 characters."""
    async with (
        Chaos(behaviour=embedding) as server,
        hosted(tmp_path, server, replace(COMPATIBLE, max_text_tokens=10)) as model,
    ):
        await model.embed(["x" * 1000])
        assert sent(server) == ["x" * 40]


async def test_one_text_that_is_refused_does_not_keep_the_others(tmp_path: Path) -> None:
    """Once the provider has answered, what it refuses is halved until the culprit stands alone, and that one is sent
    by its first half: of 400 characters with the bad word at their end, the first 200 are accepted."""
    bad = "x" * 394 + "refuse"
    async with Chaos(behaviour=embedding) as server, hosted(tmp_path, server) as model:
        await model.embed(["before"])
        assert (await model.embed(["a", "b", bad, "c"])).shape == (4, 4)
        assert "x" * 200 in sent(server)
        with pytest.raises(HttpStatus):
            await model.embed(["refuse"])
        assert (await model.embed(["after"])).shape == (1, 4)


async def test_what_is_refused_at_first_is_the_configuration(tmp_path: Path) -> None:
    """Before anything was answered a 400 is not blamed on a text: one request, and what to look at."""
    async with Chaos(behaviour=embedding) as server, hosted(tmp_path, server) as model:
        with pytest.raises(HttpStatus, match="neither"):
            await model.embed(["refuse", "a", "b"])
        assert len(server.calls) == 1


@pytest.mark.feature("providers: requests and tokens a minute are bounded; a question does not wait")
async def test_the_budget_of_the_minute_is_kept(tmp_path: Path) -> None:
    """Two requests a minute: of five, the third waits 60 s, the fifth 60 more. A question does not wait."""
    clock, api = Clock(), replace(COMPATIBLE, most_texts=1)
    async with (
        Chaos(behaviour=embedding) as server,
        hosted(tmp_path, server, api, clock, requests_per_minute=2) as model,
    ):
        await model.embed([f"t{n}" for n in range(5)])
        assert clock.slept == [60, 60]
        await model.embed(["who"], keep=False)
        await model.embed(["where"], keep=False)
        assert clock.slept == [60, 60]


def test_tokens_of_the_minute_are_counted() -> None:
    """100 tokens a minute. 60 at 0 s and 30 at 10 s leave 10: for 50 wait until the 60 are gone, at 60 s; for 90 until
    all are, at 70 s. One that never fits goes when nothing else counts."""
    clock = Clock()
    limit = MinuteLimit(0, 100, clock)
    limit.spend(60)
    clock.now += 10
    limit.spend(30)
    assert [limit.wait_s(tokens) for tokens in (10, 50, 90, 500)] == [0, 50, 60, 60]
    clock.now += 60
    assert limit.wait_s(500) == 0
    assert MinuteLimit(0, 0, clock).wait_s(10**9) == 0


@pytest.mark.feature("providers: one that asks to wait, or is down, is left alone")
async def test_a_provider_that_asks_to_wait_is_left_alone(tmp_path: Path) -> None:
    """429 with Retry-After: for 120 s questions and texts hear at once, and nothing is sent; then it is asked again."""
    clock = Clock()
    async with Chaos(behaviour=embedding) as server, hosted(tmp_path, server, clock=clock) as model:
        server.schedule.append(chaos.status(429, Retry_After="120"))
        with pytest.raises(RateLimited):
            await model.embed(["a"])
        clock.now += 119
        for keep in (True, False):
            with pytest.raises(RateLimited, match="asked again in 1 s"):
                await model.embed(["b"], keep=keep)
        assert len(server.calls) == 1
        clock.now += 1
        await model.embed(["a"])


async def test_a_server_that_is_down_is_asked_less_and_less(tmp_path: Path) -> None:
    """2 s after the first failure, 4 after the second, 60 at most; one answer, and the next failure costs 2 s again."""
    clock = Clock()
    async with Chaos(behaviour=said("{}", 503)) as server, hosted(tmp_path, server, clock=clock) as model:
        for rest in (2, 4, 8, 16, 32, 60, 60):
            with pytest.raises(HttpStatus, match=r"answered 503$"):
                await model.embed(["a"])
            with pytest.raises(HttpStatus, match=f"asked again in {rest} s"):
                await model.embed(["a"])
            clock.now += rest
        server.behaviour = embedding
        await model.embed(["a"])
        server.behaviour = said("{}", 503)
        with pytest.raises(HttpStatus, match=r"answered 503$"):
            await model.embed(["b"])
        with pytest.raises(HttpStatus, match="asked again in 2 s"):
            await model.embed(["b"])


async def test_a_question_has_a_deadline_of_its_own(tmp_path: Path) -> None:
    """A server that hangs costs a question its few milliseconds, and the next one nothing."""
    async with Chaos(behaviour=chaos.hang) as server, hosted(tmp_path, server, query_timeout_ms=20) as model:
        with pytest.raises(BackendTimeout, match="20 ms"):
            await model.embed(["who"], keep=False)
        with pytest.raises(BackendTimeout, match="asked again"):
            await model.embed(["who"], keep=False)
        assert len(server.calls) <= 1  # on a busy machine the time may be over before the request has left


async def test_connect_ms_bounds_a_new_connection(tmp_path: Path) -> None:
    """A server that accepts no connection is left after `connect_ms`, long before the time of a request."""
    with chaos.blackhole() as url:
        options = Options("compatible", "m", url, dimensions=4, connect_ms=40, timeout_s=3600.0)
        model = await HttpEmbedder.open(COMPATIBLE, tmp_path, options)
        with pytest.raises(BackendUnreachable, match="no connection within 40 ms"):
            await model.embed(["a"])
        await model.close()


async def test_a_local_server_that_does_not_run_is_named_with_what_starts_it(tmp_path: Path) -> None:
    """Nobody listens there any more."""
    async with Chaos() as server:
        pass
    async with hosted(tmp_path, server, OLLAMA) as model:
        with pytest.raises(BackendUnreachable, match="ollama serve"):
            await model.embed(["a"])


async def test_what_was_sent_before_a_failure_is_kept(tmp_path: Path) -> None:
    """Of three requests the third fails: the next time only its text is sent."""
    clock, api = Clock(), replace(COMPATIBLE, most_texts=1)
    async with Chaos(behaviour=embedding) as server, hosted(tmp_path, server, api, clock) as model:
        server.schedule.extend([embedding, embedding, chaos.reset])
        with pytest.raises(BackendError):
            await model.embed(["a", "b", "c"])
        clock.now += 60
        await model.embed(["a", "b", "c"])
        assert sent(server) == ["a", "b", "c", "c"]


async def test_forgetting_reaches_the_file(tmp_path: Path) -> None:
    """A forgotten text's vector is neither in memory nor in the file, nor kept when its request is under way."""
    async with Chaos(behaviour=embedding) as server, hosted(tmp_path, server) as model:
        kept, gone = await model.embed(["kept", "gone"])
        await model.forget(["gone"])
        go = asyncio.Event()

        async def held(call: Call) -> None:
            await go.wait()
            await embedding(call)

        server.behaviour = held
        storing = asyncio.create_task(model.embed(["under way"]))
        server.called.clear()
        await server.called.wait()
        forgetting = asyncio.create_task(model.forget(["under way"]))
        await asyncio.sleep(0)
        go.set()
        (under_way,) = await storing
        await forgetting
    (file,) = tmp_path.glob("*.sqlite")
    content = file.read_bytes()
    assert kept.tobytes() in content
    assert gone.tobytes() not in content
    assert under_way.tobytes() not in content


@pytest.mark.feature("forgetting reaches the caches of all models, also of those no longer used")
async def test_a_model_that_nobody_uses_any_more_forgets_too(tmp_path: Path) -> None:
    """What is forgotten under one model goes from the file of the one before it; the rest stays there."""
    async with Chaos(behaviour=embedding) as server:
        async with hosted(tmp_path, server, model="former") as model:
            kept, gone = await model.embed(["kept", "gone"])
        async with hosted(tmp_path, server) as model:
            await model.forget(["gone"])
    (file,) = tmp_path.glob("*former*.sqlite")
    assert kept.tobytes() in file.read_bytes()
    assert gone.tobytes() not in file.read_bytes()


async def test_a_closed_embedder_says_so(tmp_path: Path) -> None:
    """To who waits and to who comes later; closing twice is fine, and no texts are no request."""
    async with Chaos(behaviour=chaos.hang) as server, hosted(tmp_path, server) as model:
        assert (await model.embed([])).shape == (0, 4)
        storing = asyncio.create_task(model.embed(["a"]))
        await server.called.wait()
        await model.close()
        await model.close()
        for late in (storing, model.embed(["b"])):
            with pytest.raises(ModelMissing, match="closed"):
                await late


# Keys


async def test_a_key_may_be_renewed_in_its_file(tmp_path: Path) -> None:
    """The file is read for each request; one that is gone, empty or not a line is named, not quoted."""
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    clock = Clock()
    async with (
        Chaos(behaviour=embedding) as server,
        hosted(tmp_path, server, OPENAI, clock, api_key_file=str(file)) as model,
    ):
        await model.embed(["a"])
        file.write_text("renewed")
        await model.embed(["b"])
        assert [call.headers["authorization"] for call in server.calls] == [f"Bearer {KEY}", "Bearer renewed"]
        for content in ("", "two\nlines"):
            file.write_text(content)
            with pytest.raises(Unauthorized, match="key"):
                await model.embed(["c"])
            clock.now += 60
        file.unlink()
        with pytest.raises(Unauthorized, match="cannot be read"):
            await model.embed(["c"])
        assert len(server.calls) == 2


# Which one


@pytest.fixture
def no_keys() -> Iterator[None]:
    with environment(OPENAI_API_KEY="", GEMINI_API_KEY="", VOYAGE_API_KEY="", MISTRAL_API_KEY=""):
        yield


@pytest.mark.row("A079", "providers: a key in the environment alone sends nothing out")
def test_a_key_in_the_environment_alone_sends_nothing_out(no_keys: None) -> None:
    """A079: without a word in the configuration the local model it is, whatever keys lie about."""
    with environment(OPENAI_API_KEY=KEY, GEMINI_API_KEY=KEY):
        assert choose({})[0] is None
        assert choose({"provider": "local"})[0] is None


class Uninstalled(LocalEmbedder):
    """The local model on a machine that does not have it."""

    @classmethod
    def verify(cls, options: Mapping[str, object]) -> None:
        raise ModelMissing("the embedding model is not installed: pip install it")


@pytest.mark.row("A079", "providers: `auto` takes local, openai, gemini, voyage, mistral, never Ollama")
def test_auto_takes_the_first_that_can_be_had(no_keys: None) -> None:
    """A079: local, openai, gemini, voyage, mistral, in this order; never Ollama; a provider is had by its key."""
    with environment(OPENAI_API_KEY=KEY):
        assert choose({"provider": "auto"}, local=LocalEmbedder)[0] is None
        found, options = choose({"provider": "auto"}, local=Uninstalled)
        assert found is OPENAI
        assert (options.model, options.api_key_env) == ("text-embedding-3-small", "OPENAI_API_KEY")
    order = {"MISTRAL_API_KEY": MISTRAL, "VOYAGE_API_KEY": VOYAGE, "GEMINI_API_KEY": GEMINI, "OPENAI_API_KEY": OPENAI}
    have: dict[str, str] = {}
    for variable, api in order.items():
        have[variable] = KEY
        with environment(**have):
            assert choose({"provider": "auto"}, local=Uninstalled)[0] is api
    with pytest.raises(SettingsError, match=r"finds none of OPENAI_API_KEY.*pip install it"):
        choose({"provider": "auto"}, local=Uninstalled)
    with pytest.raises(SettingsError, match="name one"):
        choose({"provider": "auto", "model": "voyage-4"})


@pytest.mark.row("A079", "providers: if a named provider is not available, the start fails")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"provider": "openai"}, "there is no key in OPENAI_API_KEY: set OPENAI_API_KEY"),
        ({"provider": "voyage", "api_key_file": "/no/such/file"}, "api_key_file cannot be read"),
        ({"provider": "openai", "api_key_env": "A", "api_key_file": "b"}, "not both"),
        ({"provider": "compatible"}, "needs url"),
        ({"provider": "compatible", "url": "http://127.0.0.1:1"}, "needs model"),
        ({"provider": "compatible", "url": "ftp://host", "model": "m"}, "http://"),
        ({"provider": "cohere"}, "there are local, embed-serve, openai"),
        ({"provider": 5}, "provider = 5 must be a text"),
        ({"provider": "openai", "dimensions": -1}, "at least 0"),
        ({"provider": "openai", "timeout_s": 0}, "at least 0.001"),
    ],
)
async def test_a_named_provider_that_cannot_be_had_is_an_error(
    options: Mapping[str, object], told: str, no_keys: None, tmp_path: Path
) -> None:
    """A079: fail closed. It says what to write, and no other provider stands in, whatever keys are there."""
    with environment(MISTRAL_API_KEY=KEY):
        with pytest.raises(SettingsError, match=told):
            Providers.verify(options)
        with pytest.raises(SettingsError, match=told):
            await Providers.open(tmp_path, options)


def test_description_names_the_embedder(no_keys: None) -> None:
    """In words, with where texts go: for `fusion doctor`."""
    assert "on this machine" in Providers.verify({})
    told = Providers.verify({"provider": "ollama"})
    assert told == "ollama/nomic-embed-text at http://127.0.0.1:11434: texts are sent there"


# Beside the local model


async def test_token_vectors_stay_the_local_models(tmp_path: Path) -> None:
    """Dense vectors are the provider's, token vectors the local model's; forgetting and closing reach both."""
    local = FakeEmbedder()
    async with Chaos(behaviour=embedding) as server, hosted(tmp_path, server) as dense:
        both: Embedder = Composed(dense, local)
        assert isinstance(both, HasLocalModel)
        assert (both.identity, both.dimensions) == (dense.identity, 4)
        assert (await both.embed(["a"])).shape == (1, 4)
        (tokens,) = await both.tokens(["b c"], 1.0)
        assert tokens is not None
        assert tokens.vectors.shape == (2, 32)
        assert (await both.query_tokens("d")).tokens == ("d",)
        assert sent(server) == ["a"]
        await both.forget(["a"])
        assert local.forgotten == ["a"]
        await both.close()
        assert local.closed


async def test_what_the_provider_stores_gets_token_vectors_in_the_background(tmp_path: Path) -> None:
    """No question makes them; a question itself is not stored."""
    local = FakeEmbedder()
    async with Chaos(behaviour=embedding) as server, hosted(tmp_path, server) as dense:
        both = Composed(dense, local)
        await both.embed(["a", "b"])
        await both.embed(["asked"], keep=False)
        await both.embed(["a", "b", "c"])
        assert local.encoded == {"a": 1, "b": 1, "c": 1}
        assert None not in await both.tokens(["a", "b", "c"], 0)


async def test_without_the_local_model_there_are_no_token_vectors(tmp_path: Path) -> None:
    """The provider's dense vectors are there all the same."""
    async with Chaos(behaviour=embedding) as server, hosted(tmp_path, server) as dense:
        alone = Composed(dense, None)
        assert (await alone.embed(["a"])).shape == (1, 4)
        with pytest.raises(ModelMissing, match="local model"):
            await alone.query_tokens("a")
        with pytest.raises(ModelMissing, match="local model"):
            await alone.tokens(["a"], 1.0)
        await alone.forget(["a"])
        await alone.close()
