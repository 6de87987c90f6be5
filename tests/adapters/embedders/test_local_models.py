"""Local models by name: prefixes, pooling, token vectors, and model files that are damaged, wrong or gone.

The models are small ones that the tests make; MiniLM itself runs only where it says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters.embedders.encoder import Encoder
from adapters.embedders.local import LocalEmbedder
from adapters.embedders.providers import Providers
from fusion.contract import NO_SCALE, CosineScale, TokenVectors, text_scale, token_scale
from fusion.errors import ModelMissing, SettingsError
from fusion.local_models import files
from fusion.local_models.registry import MODELS, LocalModel
from tests.small_onnx import encoder_onnx, small_model, written

CONTENT = encoder_onnx()
PLAIN = small_model(CONTENT)
E5 = small_model(CONTENT, "like-e5", query_prefix="query: ", passage_prefix="passage: ")
BGE = small_model(CONTENT, "like-bge", pooling="cls", query_prefix="Represent this: ")
OTHER = small_model(encoder_onnx(seed=2), "other")
QUESTION = "Where does Ann live?"


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All four are in the registry and in the folder of models."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for model in (PLAIN, E5, BGE):
        written(files.own_path(model), CONTENT)
    written(files.own_path(OTHER), encoder_onnx(seed=2))
    for model in (PLAIN, E5, BGE, OTHER):
        monkeypatch.setitem(MODELS, model.name, model)  # type: ignore[misc]


@asynccontextmanager
async def embedder(folder: Path, name: str) -> AsyncIterator[LocalEmbedder]:
    opened = await LocalEmbedder.open(folder, {"model": name, "threads": 1})
    try:
        yield opened
    finally:
        await opened.close()


def restored(tokens: TokenVectors | None) -> np.ndarray[Any, Any]:
    assert tokens is not None
    return tokens.vectors.astype(np.float32) * tokens.scale


@pytest.mark.feature("each local model gets the prefix and the pooling that it was trained with")
def test_prefix_and_pooling_are_the_models() -> None:
    """A question with its prefix is encoded as that whole text by a model without one; e5 pools all, bge the first."""
    plain, e5, bge = Encoder(PLAIN), Encoder(E5), Encoder(BGE)
    written_out, memory = plain.encode(["query: " + QUESTION, "passage: " + QUESTION])
    (asked,) = e5.encode([QUESTION], question=True)
    (kept,) = e5.encode([QUESTION])
    assert asked.dense == pytest.approx(written_out.dense, abs=1e-6)
    assert kept.dense == pytest.approx(memory.dense, abs=1e-6)
    assert float(asked.dense @ kept.dense) < 0.999
    (first,) = bge.encode([QUESTION])
    assert not np.allclose(first.dense, plain.encode([QUESTION])[0].dense, atol=0.01)
    states, _ = plain._run([[101, *(piece.id for piece in plain.pieces(QUESTION)), 102]])
    assert first.dense == pytest.approx(states[0, 0] / np.linalg.norm(states[0, 0]), abs=1e-6)


@pytest.mark.feature("token vectors for MaxSim come from every local model, without those of its prefix")
@pytest.mark.parametrize("model", [PLAIN, E5, BGE], ids=lambda model: model.name)
@pytest.mark.parametrize("words", [0, 1, 253, 254, 255, 600, 3000])
def test_tokens_are_those_of_the_text_alone(model: LocalModel, words: int) -> None:
    """At every length, also at the edges of windows: one vector a token, of unit length, and their names line up."""
    (one,) = Encoder(model).encode(["word " * words], question=True)
    count = min(words, 1024)
    assert one.tokens.vectors.shape == (count, 384)
    assert one.tokens.words == ("word",) * count
    assert np.linalg.norm(one.dense) == pytest.approx(1, abs=1e-5)
    if words:
        assert np.linalg.norm(restored(one.tokens), axis=1) == pytest.approx(1, abs=0.02)


@pytest.mark.feature(
    "a text has the same vectors whatever it is encoded with, also by models that round over a whole run"
)
def test_a_model_that_encodes_alone_gives_the_same_vectors_in_any_company(tmp_path: Path) -> None:
    """Texts of a run change each other's vectors by such a model, so each gets a run of its own."""
    content = encoder_onnx(crowded=True)
    path = written(tmp_path / "crowded.onnx", content)
    texts = [QUESTION, "Ann: I moved to Oslo.", "word " * 600]
    for alone in (True, False):
        encoder = Encoder(small_model(content, "crowded", encodes_alone=alone), path)
        together, first = encoder.encode(texts), encoder.encode(texts[:1])[0]
        assert np.allclose(together[0].dense, first.dense, atol=1e-6) is alone
        assert np.array_equal(together[0].tokens.vectors, first.tokens.vectors) is alone


async def test_a_text_is_encoded_apart_as_question_and_as_memory(tmp_path: Path) -> None:
    """With e5 the two differ, in memory and on disk, whichever came first."""
    for first in (True, False):
        async with embedder(tmp_path / str(first), "like-e5") as model:
            both = {keep: (await model.embed([QUESTION], keep=keep))[0] for keep in (first, not first)}
            asked, kept = Encoder(E5).encode([QUESTION], question=True)[0], Encoder(E5).encode([QUESTION])[0]
            assert both[False] == pytest.approx(asked.dense, abs=1e-6)
            assert both[True] == pytest.approx(kept.dense, abs=1e-6)
            assert (await model.known([QUESTION]))[QUESTION] == pytest.approx(kept.dense, abs=1e-6)
            [tokens] = await model.tokens([QUESTION], 60)
            assert restored(tokens) == pytest.approx(restored(kept.tokens), abs=0.02)
            assert restored(await model.query_tokens(QUESTION)) == pytest.approx(restored(asked.tokens), abs=0.02)


async def test_several_questions_at_once_are_questions(tmp_path: Path) -> None:
    """A memory of the same text on disk does not take the place of a question's vector."""
    async with embedder(tmp_path, "like-e5") as model:
        await model.embed([QUESTION, "Ann: I moved."])
    async with embedder(tmp_path, "like-e5") as model:
        found = await model.embed([QUESTION, "Who is Ann?"], keep=False)
        (asked,) = Encoder(E5).encode([QUESTION], question=True)
        assert found[0] == pytest.approx(asked.dense, abs=1e-6)


@pytest.mark.feature('`[embedder] provider = "local"` takes a model by its name, and refuses an unknown one')
async def test_the_settings_name_a_local_model(tmp_path: Path) -> None:
    assert Providers.verify({"provider": "local", "model": "like-e5"}) == f"{E5.identity}, on this machine"
    opened = await Providers.open(tmp_path, {"provider": "local", "model": "like-e5"})
    assert (opened.identity, opened.dimensions) == (E5.identity, 384)
    await opened.close()
    unknown = {"provider": "local", "model": "like-e6"}
    with pytest.raises(SettingsError, match=r"\[embedder\] model = 'like-e6'.*did you mean like-e5"):
        Providers.verify(unknown)
    with pytest.raises(SettingsError, match="no local embedder is called"):
        await Providers.open(tmp_path, unknown)


@pytest.mark.feature("two local models have their own identities and caches, and never mix their vectors")
async def test_two_models_side_by_side_do_not_mix(tmp_path: Path) -> None:
    """The same texts in the same folder: each model's vectors are its own, also after a restart."""
    texts = ["Ann: I moved to Oslo.", "Bo: the cat sat."]
    alone = {model.name: Encoder(model).encode(texts) for model in (PLAIN, OTHER)}
    for _ in range(2):
        async with embedder(tmp_path, "small") as one, embedder(tmp_path, "other") as other:
            assert one.identity != other.identity
            for model, name in ((one, "small"), (other, "other")):
                dense = await model.embed(texts)
                assert dense == pytest.approx(np.stack([found.dense for found in alone[name]]), abs=1e-6)
                tokens = await model.tokens(texts, 60)
                for found, expected in zip(tokens, alone[name], strict=True):
                    assert restored(found) == pytest.approx(restored(expected.tokens), abs=0.02)


DAMAGED: Mapping[str, tuple[bytes | None, str]] = {
    "cut": (CONTENT[: len(CONTENT) // 2], r"is cut or another one.*: fusion models add like-e5$"),
    "of another hash": (CONTENT[:-1] + b"?", r"another sha256.*: fusion models add like-e5$"),
    "gone": (None, r"the model like-e5 is not installed: fusion models add like-e5$"),
}


@pytest.mark.feature("a local model that is cut, of another hash or gone is named with the command that fixes it")
@pytest.mark.parametrize("case", DAMAGED)
async def test_a_damaged_model_is_not_opened(case: str, tmp_path: Path) -> None:
    content, why = DAMAGED[case]
    if content is None:
        files.remove(E5)
    else:
        written(files.own_path(E5), content)
    with pytest.raises(ModelMissing, match=why):
        Providers.verify({"model": "like-e5"})
    with pytest.raises(ModelMissing, match=why):
        await Providers.open(tmp_path, {"model": "like-e5"})


@pytest.mark.feature("a model of other dimensions than the registry says is refused")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (encoder_onnx(16), r"gives vectors of shape \(1, 2, 16\), and should give one of 384 numbers a token"),
        (b"not a model at all", "cannot run .*wrong-int8"),
    ],
)
async def test_a_model_of_another_form_is_not_opened(
    content: bytes, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hash is the registry's, so the entry itself is wrong; no vector of it gets into an index."""
    wrong = small_model(content, "wrong")
    written(files.own_path(wrong), content)
    monkeypatch.setitem(MODELS, "wrong", wrong)  # type: ignore[misc]
    with pytest.raises(ModelMissing, match=why):
        await LocalEmbedder.open(tmp_path, {"model": "wrong"})


@pytest.mark.feature("a model whose file disappears while it serves goes on until the next start")
async def test_a_model_that_is_gone_while_serving_goes_on(tmp_path: Path) -> None:
    """It is in memory by then. The next start says what to do, and what was encoded is still in the cache."""
    async with embedder(tmp_path, "like-e5") as model:
        before = await model.embed(["Ann: I moved to Oslo."])
        files.remove(E5)
        assert (await model.embed([QUESTION], keep=False)).shape == (1, 384)
        with pytest.raises(ModelMissing, match="fusion models add like-e5"):
            await LocalEmbedder.open(tmp_path, {"model": "like-e5"})
        written(files.own_path(E5), CONTENT)
    async with embedder(tmp_path, "like-e5") as model:
        assert [*await model.known(["Ann: I moved to Oslo."])] == ["Ann: I moved to Oslo."]
        assert (await model.embed(["Ann: I moved to Oslo."])).tolist() == before.tolist()


PROMPTS = {
    "empty": "",
    "blank": " \n\t\u00a0\u200b ",
    "huge": "the weather was fine " * 100_000,
    "one huge word": "x" * 2_000_000,
    "code": "def f(x):\n\treturn {k: v for k, v in x.items()}  # \\x00 <|endoftext|> [SEP] [CLS]\n" * 40,
    "binary": "".join(map(chr, range(1, 400))),
    "lone surrogates": "caf\udce9 \ud83d",
    "a script that the vocabulary lacks": "ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ 𐎀𐎁𐎂 ꓐꓑ ߒߞߏ",
    "Chinese": "我们上周决定使用数据库" * 400,
    "emoji": "🎉" * 5000,
    "right to left": "متى انتقلت آنا إلى أوسلو؟",
}


@pytest.mark.feature(
    "any prompt gets finite vectors: empty, huge, code, binary, in scripts that the model does not know"
)
@pytest.mark.parametrize("name", ["small", "like-e5", "like-bge", pytest.param("minilm", marks=pytest.mark.model)])
@pytest.mark.parametrize("case", PROMPTS)
async def test_any_prompt_gets_finite_vectors(case: str, name: str, tmp_path: Path) -> None:
    """As question and as memory, of unit length, with at most 1,024 token vectors; other texts are not disturbed."""
    async with embedder(tmp_path, name) as model:
        text = PROMPTS[case]
        (asked,) = await model.embed([text], keep=False)
        kept, other = await model.embed([text, "Ann: I moved to Oslo."])
        for vector in (asked, kept, other):
            assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-4)
        question = await model.query_tokens(text)
        [tokens] = await model.tokens([text], 60)
        assert tokens is not None
        assert len(question.vectors) == len(tokens.vectors) == len(question.words) <= 1024
        assert np.isfinite(restored(tokens)).all()
        async with asyncio.timeout(60):
            assert (await model.embed(["Ann: I moved to Oslo."]))[0] == pytest.approx(other, abs=1e-6)


async def test_an_embedder_has_the_scales_of_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And those of the default model change no number at all."""
    crowded = small_model(CONTENT, "crowded", text_scale=CosineScale(4.61, -3.51))
    written(files.own_path(crowded), CONTENT)
    monkeypatch.setitem(MODELS, "crowded", crowded)  # type: ignore[misc]
    async with embedder(tmp_path, "crowded") as model, embedder(tmp_path, "small") as plain:
        assert text_scale(model) == CosineScale(4.61, -3.51)
        assert text_scale(plain) == token_scale(plain) == token_scale(model) == NO_SCALE
    cosines = np.array([0.1, 1.0000001], np.float32)
    assert NO_SCALE.of_all(cosines) is cosines
