"""The second encoder: what it reads of a text in its context, and that forgetting reaches it. The models are small."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from adapters.embedders.encoder import Encoder
from adapters.embedders.local import LocalEmbedder
from adapters.embedders.second import SecondEncoder
from fusion.contract import CosineScale, EncodesLater, KnowsVectors, text_scale, token_scale
from fusion.errors import ModelMissing, SettingsError
from fusion.lib.in_context import in_context
from fusion.local_models import files
from fusion.local_models.registry import MODELS
from tests.small_onnx import encoder_onnx, small_model, written

CONTENT = encoder_onnx()
SCALES = {"text_scale": CosineScale(3.0, -2.0), "token_scale": CosineScale(2.0, -1.0)}
E5 = small_model(CONTENT, "like-e5", query_prefix="query: ", passage_prefix="passage: ", **SCALES)
BGE = small_model(CONTENT, "like-bge", pooling="cls")
OTHER = small_model(encoder_onnx(seed=2), "other")
BEFORE, TURN, AFTER = "Ann: where is it?", "Bo: on the shelf", "Ann: thank you"
AROUND = in_context(TURN, BEFORE, AFTER)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All three are in the registry, and in the folder of models."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for model, content in ((E5, CONTENT), (BGE, CONTENT), (OTHER, encoder_onnx(seed=2))):
        written(files.own_path(model), content)
        monkeypatch.setitem(MODELS, model.name, model)  # type: ignore[misc]


@pytest.fixture
async def second(tmp_path: Path) -> AsyncIterator[SecondEncoder]:
    opened = await SecondEncoder.open(tmp_path / "embeddings", {"model": "like-e5", "threads": 1})
    yield opened
    await opened.close()


@pytest.mark.parametrize("model", [E5, BGE], ids=lambda model: model.name)
def test_a_text_in_context_has_the_vectors_of_its_own_words(model):  # type: ignore[no-untyped-def]
    """The model reads all three; there is a vector for each token of the middle one, and their mean is its vector."""
    encoder = Encoder(model, in_context=True)
    alone, around, other = encoder.encode([TURN, AROUND, in_context(TURN, BEFORE, "Ann: no, it is not")])
    assert around.tokens.vectors.shape == alone.tokens.vectors.shape
    assert not np.allclose(around.dense, alone.dense, atol=0.01)
    assert not np.allclose(around.dense, other.dense, atol=0.001), "what is around a text says what it means"
    rows = around.tokens.vectors.astype(np.float32) * around.tokens.scale
    ids = [piece.id for piece in encoder.pieces(TURN)]
    prefix = [piece.id for piece in encoder.pieces(model.passage_prefix)]
    before, after = ([piece.id for piece in encoder.pieces(text)] for text in (BEFORE, AFTER))
    states, _ = encoder._run([[101, *prefix, *before, *ids, *after, 102]])
    own = states[0, 1 + len(prefix) + len(before) :][: len(ids)]
    assert around.dense == pytest.approx(own.mean(axis=0) / np.linalg.norm(own.mean(axis=0)), abs=1e-5)
    assert rows == pytest.approx(own / np.linalg.norm(own, axis=1, keepdims=True), abs=0.02)


def test_a_text_without_room_for_its_context_is_read_alone() -> None:
    encoder = Encoder(E5, in_context=True)
    for words in (251, 252, 600):
        long = "word " * words
        around, alone = encoder.encode([in_context(long, BEFORE, AFTER), long])
        assert len(around.tokens.vectors) == words
        if words > 251:
            assert around.dense.shape == alone.dense.shape
            assert np.array_equal(around.tokens.vectors, alone.tokens.vectors)


def test_long_neighbours_leave_room_for_the_text() -> None:
    """Of what is around it, each side has at most half of the room that it leaves."""
    (found,) = Encoder(E5, in_context=True).encode([in_context(TURN, "before " * 900, "after " * 900)])
    assert len(found.tokens.vectors) == len(Encoder(E5).pieces(TURN))


def test_the_first_encoder_reads_no_contexts() -> None:
    """To it, such a text is a text like others."""
    assert len(Encoder(E5).encode([AROUND])[0].tokens.vectors) > len(Encoder(E5).encode([TURN])[0].tokens.vectors)


async def test_it_is_a_local_embedder_with_a_scale(second: SecondEncoder) -> None:
    assert isinstance(second, KnowsVectors)
    assert isinstance(second, EncodesLater)
    assert (text_scale(second), token_scale(second)) == (SCALES["text_scale"], SCALES["token_scale"])


async def test_it_shares_no_vectors_with_the_first_encoder_of_the_same_model(
    second: SecondEncoder, tmp_path: Path
) -> None:
    await second.embed([AROUND])
    first = await LocalEmbedder.open(tmp_path / "embeddings", {"model": "like-e5"})
    assert await first.known([AROUND]) == {}
    await first.close()


@pytest.mark.feature("forgetting a turn deletes the vectors of the turns that were read together with it")
@pytest.mark.parametrize("forgotten", [BEFORE, TURN, AFTER])
async def test_forgetting_reaches_texts_in_context(second: SecondEncoder, tmp_path: Path, forgotten: str) -> None:
    """In memory and on disk; what is not next to it keeps its vectors."""
    far = in_context("Ann: bye", "Bo: see you", "")
    second.encode_later([AROUND, far, BEFORE, TURN, AFTER])
    await second.settle()
    await second.forget([forgotten])
    left = {BEFORE, TURN, AFTER, far} - {forgotten}
    everything = [AROUND, far, BEFORE, TURN, AFTER]
    assert set(await second.known(everything)) == left
    found = await second.tokens(everything, 0)
    assert {text for text, one in zip(everything, found, strict=True) if one is not None} == left
    await second.close()
    (file,) = (tmp_path / "embeddings").glob("*.sqlite")
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("select count(*) from text").fetchone() == (3,)
        assert database.execute("select count(*) from tokens").fetchone() == (3,)
        assert database.execute("select count(*) from part").fetchone() == (2,)


async def test_forgetting_reaches_an_unused_second_encoder(second: SecondEncoder, tmp_path: Path) -> None:
    """The home's settings name it no longer; its file is still there."""
    await second.embed([AROUND])
    await second.close()
    first = await LocalEmbedder.open(tmp_path / "embeddings", {"model": "other"})
    await first.forget([BEFORE])
    await first.close()
    again = await SecondEncoder.open(tmp_path / "embeddings", {"model": "like-e5"})
    assert await again.known([AROUND]) == {}
    await again.close()


async def test_a_model_that_is_not_installed_or_cannot_do_it_is_refused(tmp_path: Path) -> None:
    files.own_path(E5).unlink()
    with pytest.raises(ModelMissing, match="fusion models add like-e5"):
        await SecondEncoder.open(tmp_path, {"model": "like-e5"})
    with pytest.raises(SettingsError, match="second = 'multilingual-e5-small'"):
        await SecondEncoder.open(tmp_path, {"model": "multilingual-e5-small"})
    with pytest.raises(SettingsError, match="no local embedder is called"):
        await SecondEncoder.open(tmp_path, {"model": "like-e6"})
