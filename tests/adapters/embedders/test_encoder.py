"""The real model from its wheel: what its vectors mean."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from adapters.embedders.encoder import (
    DIMENSIONS,
    MAX_TOKENS,
    MINILM,
    VOCABULARY,
    VOCABULARY_SHA256,
    WINDOW,
    Encoder,
)
from adapters.embedders.local import LocalEmbedder
from fusion.contract import Embedder, TokenVectors
from fusion.errors import ModelMissing
from fusion.local_models.files import find, verify

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder()


def restored(tokens: TokenVectors) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return tokens.vectors.astype(np.float32) * tokens.scale


@pytest.mark.feature("ONNX Runtime reports to no server, and stores no device id")
def test_loading_the_runtime_sends_no_telemetry(tmp_path: Path) -> None:
    """ONNX Runtime of PyPI would make an id of this device in the user's home, and tell its makers of the process."""
    encode = "from adapters.embedders.encoder import Encoder; print(len(Encoder().encode(['tea'])))"
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    run = subprocess.run([sys.executable, "-c", encode], env=environment, capture_output=True, text=True, check=True)
    assert (run.stdout, [*tmp_path.rglob("*")]) == ("1\n", [])


def test_the_files_are_the_pinned_ones(tmp_path: Path) -> None:
    """Model and vocabulary have the hashes that the code names; a vocabulary with one line less is refused."""
    assert sha256(find(MINILM).read_bytes()).hexdigest() == MINILM.sha256
    assert sha256(VOCABULARY.read_bytes()).hexdigest() == VOCABULARY_SHA256
    short = tmp_path / "vocab.txt"
    short.write_text("".join(VOCABULARY.read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")
    with pytest.raises(ModelMissing, match=r"another sha256"):
        Encoder(vocabulary=short)


def test_a_paraphrase_is_nearer_than_anything_else(encoder: Encoder) -> None:
    """Of six texts, each one's nearest is its paraphrase, by a wide margin."""
    texts = [
        "The cat sat on the mat.",
        "A cat was sitting on a rug.",
        "We decided to use PostgreSQL as our database.",
        "The team chose Postgres for storage.",
        "Julia's birthday is in March.",
        "Julia was born in March.",
    ]
    dense = np.stack([one.dense for one in encoder.encode(texts)])
    cosines = dense @ dense.T
    np.fill_diagonal(cosines, -1)
    assert cosines.argmax(axis=1).tolist() == [1, 0, 3, 2, 5, 4]
    paraphrases = cosines[[0, 2, 4], [1, 3, 5]]
    assert paraphrases.min() > 0.5
    assert np.sort(cosines.ravel())[:-12].max() < 0.4


def test_all_vectors_have_unit_length(encoder: Encoder) -> None:
    """Dense ones exactly; those of tokens to within what int8 leaves, 2 %."""
    (one,) = encoder.encode(["Where did Caroline go on holiday?"], question=True)
    assert np.linalg.norm(one.dense) == pytest.approx(1, abs=1e-5)
    assert np.linalg.norm(restored(one.tokens), axis=1) == pytest.approx(1, abs=0.02)
    assert one.tokens.words == ("where", "did", "caroline", "go", "on", "holiday", "?")
    assert one.tokens.tokens == one.tokens.words


def test_a_text_has_the_same_vector_in_any_company(encoder: Encoder) -> None:
    """Batches and padding do not change it (beyond float noise): results do not depend on what was stored with it."""
    texts = [" ".join(["memory", "of", "a", "day"][: 1 + i % 4] * (1 + i)) for i in range(40)]
    together = encoder.encode(texts)
    for text, one in zip(texts, together, strict=True):
        (alone,) = encoder.encode([text])
        assert alone.dense == pytest.approx(one.dense, abs=1e-5)
        assert np.abs(alone.tokens.vectors.astype(int) - one.tokens.vectors).max() <= 1


@pytest.mark.feature(
    "a chunk longer than the model's 256 tokens is read in windows, every token once (`pytest -m model`)"
)
def test_a_long_text_is_read_in_windows(encoder: Encoder) -> None:
    """The end of a text beyond the model's window still counts; every token has one vector, up to the bound."""
    filler = "the weather was fine and nothing much happened that day "
    end = "we moved the database to another server because searches were slow and disk space ran out " * 3
    (long, short, target) = encoder.encode([filler * 40 + end, filler * 20, end], question=True)
    assert len(long.tokens.vectors) == len(long.tokens.words) == 40 * 10 + 3 * 16 > WINDOW
    assert long.tokens.words[-1] == "out"
    assert float(long.dense @ target.dense) > float(short.dense @ target.dense) + 0.1
    best = (restored(target.tokens) @ restored(long.tokens).T).argmax(axis=1)
    assert (best >= 400).all()
    (longest,) = encoder.encode(["word " * 3000])
    assert longest.tokens.vectors.shape == (MAX_TOKENS, DIMENSIONS)


@pytest.mark.feature(
    "a chunk longer than the model's 256 tokens is read in windows, every token once (`pytest -m model`)"
)
@pytest.mark.parametrize("tokens", [0, 1, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW, MAX_TOKENS - 1, MAX_TOKENS])
def test_windows_cover_each_token_once(encoder: Encoder, tokens: int) -> None:
    """At every length, also at the edges: as many vectors as tokens, and a dense vector of unit length."""
    (one,) = encoder.encode(["word " * tokens])
    assert one.tokens.vectors.shape == (tokens, DIMENSIONS)
    assert np.linalg.norm(one.dense) == pytest.approx(1, abs=1e-5)


async def test_open_gives_a_whole_embedder(tmp_path: Path) -> None:
    """Opened as the gateway does, in a folder that was not there: dense vectors, token vectors, a query's names."""
    model: Embedder = await LocalEmbedder.open(tmp_path / "new" / "embeddings", {})
    try:
        assert model.identity == "all-MiniLM-L6-v2-int8@8199be6f"
        (dense,) = await model.embed(["Ann: I moved to Oslo."])
        (query,) = await model.embed(["Where does Ann live?"], keep=False)
        assert float(dense @ query) > 0.4
        (tokens,) = await model.tokens(["Ann: I moved to Oslo."], 0)
        assert tokens is not None
        assert tokens.vectors.shape == (7, 384)
        assert (await model.query_tokens("Where does Ann live?")).words == ("where", "does", "ann", "live", "?")
    finally:
        await model.close()


def test_verify_reads_the_files_and_loads_nothing() -> None:
    """The wheel's model has the pinned hash; another file in its place is named with how to fix it."""
    LocalEmbedder.verify({})
    with pytest.raises(ModelMissing, match=r"is cut or another one.*pip install --force-reinstall"):
        verify(MINILM, VOCABULARY)
