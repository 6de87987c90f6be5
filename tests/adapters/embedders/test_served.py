"""`fusion embed-serve` and the gateways that use it: the real server in a process of its own, and bad ones."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.embedders.compatible import COMPATIBLE
from adapters.embedders.encoder import MINILM, Encoder
from adapters.embedders.http_embedder import HttpEmbedder
from adapters.embedders.local import LocalEmbedder
from adapters.embedders.options import Options
from adapters.embedders.providers import Providers
from adapters.embedders.served import TEXTS, ServedEncoder, read_reply
from fusion.contract import Encoded, TokenVectors
from fusion.doors.http.embed import MAX_BODIES_BYTES, MAX_BODY_BYTES, MAX_WAITING, EncodingServer, create_app
from fusion.errors import (
    BackendTimeout,
    BackendUnreachable,
    HttpStatus,
    InvalidAnswer,
    RateLimited,
    SettingsError,
    Unauthorized,
)
from tests.chaos import Behaviour, Call, Chaos, reset
from tests.patience import PATIENT_MS

TEXTS_READ = ("The mill at the harbour was closed.", "a café\ud800 and a ½ cup", "")
KEY = "served-canary-77"


def options(url: str, **more: Any) -> Options:
    patient = {"connect_ms": PATIENT_MS, "query_timeout_ms": PATIENT_MS, "timeout_s": PATIENT_MS / 1000}
    return Options("embed-serve", **{"url": url, **patient, **more})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A running `fusion embed-serve`."""
    command = [sys.executable, "-m", "fusion", "embed-serve", "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()


# The real server


@pytest.mark.feature("models: fusion embed-serve gives any number of gateways the vectors of one model, the very same")
@pytest.mark.model
@pytest.mark.parametrize("question", [False, True])
def test_the_vectors_are_those_of_the_model_in_this_process(url: str, question: bool) -> None:
    """Dense vectors, token vectors and the names of tokens are equal; half a surrogate pair is a "?"."""
    served, here = ServedEncoder(MINILM, options(url)), Encoder()
    texts = [text.encode("utf-8", "replace").decode() for text in TEXTS_READ]
    try:
        found = served.encode(TEXTS_READ, question=question)
    finally:
        served.close()
    for one, other in zip(found, here.encode(texts, question=question), strict=True):
        assert np.array_equal(one.dense, other.dense)
        assert np.array_equal(one.tokens.vectors, other.tokens.vectors)
        assert (one.tokens.scale, one.tokens.tokens, one.tokens.words) == (
            other.tokens.scale,
            other.tokens.tokens,
            other.tokens.words,
        )
    assert served.knows("harbour") is here.knows("harbour")


@pytest.mark.model
async def test_a_home_may_change_between_the_server_and_its_own_model(url: str, tmp_path: Path) -> None:
    """What the one has encoded, the other finds in the cache: the identity is the same."""
    chosen = {"provider": "embed-serve", "url": url, "query_timeout_ms": PATIENT_MS, "timeout_s": PATIENT_MS / 1000}
    served = await Providers.open(tmp_path, chosen)
    vectors = await served.embed(TEXTS_READ[:1])
    await served.close()
    local = await Providers.open(tmp_path, {})
    assert isinstance(local, LocalEmbedder)
    assert local.identity == served.identity
    assert np.array_equal((await local.known(TEXTS_READ[:1]))[TEXTS_READ[0]], vectors[0])
    await local.close()
    assert "texts are sent there" in Providers.verify(chosen)


@pytest.mark.model
async def test_other_programs_use_it_by_openais_api(url: str, tmp_path: Path) -> None:
    """Our own client of OpenAI's API gets the vectors that the model gives."""
    chosen = Options("compatible", "minilm", f"{url}/v1", query_timeout_ms=PATIENT_MS, timeout_s=PATIENT_MS / 1000)
    model = await HttpEmbedder.open(COMPATIBLE, tmp_path, chosen)
    try:
        assert model.dimensions == 384
        (found,) = await model.embed(TEXTS_READ[:1])
    finally:
        await model.close()
    assert np.allclose(found, Encoder().encode(TEXTS_READ[:1])[0].dense, atol=1e-6)


@pytest.mark.model
def test_other_forms_give_the_same_vector(url: str) -> None:
    """base64 of OpenAI's API, and Text Embeddings Inference."""
    with httpx.Client(base_url=url, trust_env=False) as client:
        body = {"model": "minilm", "input": TEXTS_READ[0], "encoding_format": "base64", "user": "unknown fields pass"}
        written = client.post("/v1/embeddings", json=body).json()
        tei = client.post("/embed", json={"inputs": TEXTS_READ[0]}).json()
        assert client.get("/info").json()["model_id"] == "minilm"
        assert client.get("/v1/models").json()["data"][0]["id"] == "minilm"
    floats = np.frombuffer(base64.b64decode(written["data"][0]["embedding"]), "<f4")
    assert np.allclose(floats, tei[0])
    assert written["usage"]["prompt_tokens"] == 8  # the mill at the harbour was closed .


@pytest.mark.model
def test_a_server_for_other_machines_wants_a_key() -> None:
    """Without one it does not start, and says which variable has it."""
    command = [sys.executable, "-m", "fusion", "embed-serve", "--host", "0.0.0.0", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode != 0
    assert "FUSION_EMBED_KEY" in done.stderr


# Bad servers


def said(body: object, status: int = 200) -> Behaviour:
    async def behave(call: Call) -> None:
        await call.reply(body if isinstance(body, bytes) else json.dumps(body).encode(), status)

    return behave


def reply(**changed: Any) -> dict[str, Any]:
    """A right reply to one text, but for what is changed."""
    dense = np.zeros(384, "<f4")
    dense[0] = 1
    written = {"vectors": base64.b64encode(bytes(384)).decode(), "dimensions": 384, "scale": 0.1}
    tokens = [{**written, "tokens": ["a"], "words": ["a"]}]
    return {"model": MINILM.identity, "dense": base64.b64encode(dense.tobytes()).decode(), "tokens": tokens, **changed}


async def failure(behaviour: Behaviour, **more: Any) -> Exception:
    """What a call raises."""
    async with Chaos(behaviour=behaviour) as server:
        encoder = ServedEncoder(MINILM, options(server.url, **more))
        try:
            await asyncio.to_thread(encoder.encode, ["a"])
        except Exception as error:  # noqa: BLE001 — the tests say which it is to be
            return error
        finally:
            encoder.close()
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe",
        [],
        {},
        reply(model="another"),
        reply(tokens=[]),
        reply(dense=""),
        reply(dense=base64.b64encode(np.full(384, np.nan, "<f4").tobytes()).decode()),
        reply(dense=base64.b64encode(np.ones(384, "<f4").tobytes()).decode()),  # its length is 19.6, not 1
        reply(tokens=[{**reply()["tokens"][0], "words": ["a", "b"]}]),
        reply(tokens=[{**reply()["tokens"][0], "scale": float("inf")}]),
    ],
    ids=range(10),
)
async def test_a_reply_that_is_none_of_its_own_is_refused(body: object) -> None:
    """Nothing of it is cached: a wrong vector would stay."""
    assert isinstance(await failure(said(body)), InvalidAnswer)


async def test_a_right_reply_is_read() -> None:
    """The reply that the other tests spoil."""
    async with Chaos(behaviour=said(reply())) as server:
        encoder = ServedEncoder(MINILM, options(server.url))
        (found,) = await asyncio.to_thread(encoder.encode, ["a"])
        encoder.close()
    assert found.dense[0] == 1
    assert found.tokens.words == ("a",)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, Unauthorized), (404, HttpStatus), (500, HttpStatus), (302, HttpStatus), (503, RateLimited)],
)
async def test_a_refusal_is_the_error_that_fits(status: int, kind: type[Exception]) -> None:
    """401 names the key, 404 the model; no redirect is followed."""
    assert isinstance(await failure(said({}, status)), kind)


async def test_a_server_that_breaks_off_or_hangs_is_named() -> None:
    """By its address alone."""
    assert isinstance(await failure(reset), BackendUnreachable)
    slow = await failure(Call.forever, timeout_s=0.05)
    assert isinstance(slow, BackendTimeout)


async def test_a_key_is_sent_and_never_shown(tmp_path: Path) -> None:
    """As a bearer token; the error of a refused one does not have it."""
    file = tmp_path / "key"
    file.write_text(KEY, encoding="utf-8")
    async with Chaos(behaviour=said({}, 401)) as server:
        encoder = ServedEncoder(MINILM, options(server.url, api_key_file=str(file)))
        with pytest.raises(Unauthorized) as raised:
            await asyncio.to_thread(encoder.encode, ["a"])
        encoder.close()
        assert server.calls[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(raised.value)


async def test_a_server_that_failed_is_asked_again_after_a_pause() -> None:
    """A question must not wait for it each time: for two seconds it is not asked at all."""
    now = 100.0
    async with Chaos(behaviour=reset) as server:
        encoder = ServedEncoder(MINILM, options(server.url), clock=lambda: now)
        for _ in range(3):
            with pytest.raises(BackendUnreachable):
                await asyncio.to_thread(encoder.encode, ["a"])
        assert len(server.calls) == 1
        now, server.behaviour = 102.0, said(reply())
        assert len(await asyncio.to_thread(encoder.encode, ["a"])) == 1
        encoder.close()


async def test_many_texts_are_sent_in_portions() -> None:
    """As many as the server takes at once."""

    async def behave(call: Call) -> None:
        count = len(call.json["texts"])
        one = reply()
        dense = base64.b64decode(one["dense"]) * count
        body = {**one, "dense": base64.b64encode(dense).decode(), "tokens": one["tokens"] * count}
        await call.reply(json.dumps(body).encode())

    async with Chaos(behaviour=behave) as server:
        encoder = ServedEncoder(MINILM, options(server.url))
        assert len(await asyncio.to_thread(encoder.encode, ["a"] * (TEXTS + 1))) == TEXTS + 1
        encoder.close()
        assert [len(call.json["texts"]) for call in server.calls] == [TEXTS, 1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda one: st.lists(one) | st.dictionaries(st.text(), one),
)


@given(st.dictionaries(st.sampled_from(sorted(reply())), JSON))
def test_no_reply_does_more_than_be_refused(changed: Mapping[str, Any]) -> None:
    """With any values in its fields it is read or is one of the errors that become InvalidAnswer."""
    try:
        read_reply({**reply(), **changed}, MINILM, 1)
    except (KeyError, IndexError, TypeError, ValueError):
        return
    assert changed.keys() <= {"model", "dense", "tokens"}


@pytest.mark.parametrize("url", ["", "ftp://a", "http://user:secret@a"])
def test_a_wrong_address_is_refused_with_the_settings(url: str) -> None:
    """Before anything is opened, and without showing a password."""
    with pytest.raises(SettingsError) as raised:
        Providers.verify({"provider": "embed-serve", "url": url})
    assert "secret" not in str(raised.value)


# The server's own limits, without a model


class Blocks:
    """An encoder that waits until it may go on."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()

    def encode(self, texts: Sequence[str], *, question: bool = False) -> list[Encoded]:
        self.may_go_on.wait()
        dense = np.zeros(384, np.float32)
        return [Encoded(dense, TokenVectors(np.zeros((1, 384), np.int8), 1.0)) for _ in texts]

    def knows(self, word: str) -> bool:
        return True

    def close(self) -> None: ...


def client(server: EncodingServer, key: str = "") -> httpx.AsyncClient:
    app = create_app(server, frozenset({"localhost"}), key)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", headers=headers)


@pytest.fixture
def server() -> Iterator[EncodingServer]:
    encoder = Blocks()
    encoder.may_go_on.set()
    made = EncodingServer(MINILM, encoder, 2)
    yield made
    encoder.may_go_on.set()
    made.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "evil.example"}, 421),
        ({"origin": "http://localhost"}, 403),
        ({"authorization": "Bearer wrong"}, 401),
    ],
)
async def test_pages_and_strangers_are_refused(server: EncodingServer, headers: dict[str, str], status: int) -> None:
    """A rebinding Host, any Origin, and a wrong key."""
    async with client(server, KEY) as http:
        assert (await http.post("/embed", json={"inputs": "a"}, headers=headers)).status_code == status


async def test_the_body_has_a_limit(server: EncodingServer) -> None:
    """8 MiB; and 256 texts."""
    async with client(server) as http:
        assert (await http.post("/embed", content=b"x" * (MAX_BODY_BYTES + 1))).status_code == 413
        refused = await http.post("/embed", json={"inputs": ["a"] * 257})
    assert refused.status_code == 422
    assert "inputs" in refused.json()["detail"]


async def test_bodies_under_way_have_a_limit_together(server: EncodingServer) -> None:
    """Eight of 8 MiB are all that fits; a short one more gets 503 until one of them ends."""
    held, end = asyncio.Semaphore(0), asyncio.Event()

    async def unfinished() -> AsyncIterator[bytes]:
        yield b"x" * (MAX_BODIES_BYTES // 8)
        held.release()
        await end.wait()

    async with client(server) as http:
        waiting = [asyncio.create_task(http.post("/embed", content=unfinished())) for _ in range(8)]
        for _ in waiting:
            await held.acquire()
        refused = await http.post("/embed", json={"inputs": "a"})
        assert (refused.status_code, "come again" in refused.json()["detail"]) == (503, True)
        assert (await http.get("/readyz")).status_code == 200
        end.set()
        assert [one.status_code for one in await asyncio.gather(*waiting)] == [422] * 8
        assert (await http.post("/embed", json={"inputs": "a"})).status_code == 200


async def test_a_wrong_body_is_told_its_fields_and_not_its_text(server: EncodingServer) -> None:
    """Texts stand in no error."""
    async with client(server) as http:
        refused = await http.post("/encode", json={"model": 1, "texts": [KEY, None]})
    assert refused.status_code == 422
    assert KEY not in refused.text


async def test_too_many_that_wait_are_asked_to_come_again() -> None:
    """The 65th waiting request gets 503 at once, and the others their answers."""
    encoder = Blocks()
    server = EncodingServer(MINILM, encoder, 1)
    async with client(server) as http:
        waiting = [asyncio.ensure_future(server.encode(["a"])) for _ in range(MAX_WAITING)]
        await asyncio.sleep(0)
        assert (await http.post("/embed", json={"inputs": "a"})).status_code == 503
        encoder.may_go_on.set()
        assert len(await asyncio.gather(*waiting)) == MAX_WAITING
        assert (await http.post("/embed", json={"inputs": "a"})).status_code == 200
    server.close()


async def test_it_says_that_it_drains(server: EncodingServer) -> None:
    """A balancer sees it by /readyz; requests are still served."""
    async with client(server) as http:
        assert (await http.get("/readyz")).status_code == 200
        server.draining = True
        assert (await http.get("/readyz")).status_code == 503
        assert (await http.post("/embed", json={"inputs": "a"})).status_code == 200
