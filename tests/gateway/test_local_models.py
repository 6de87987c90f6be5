"""A home whose settings name a local model: another one over its index, and a model that is damaged or gone.

The models are small ones that the tests make.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapters.index.vectors import rows_file
from adapters.reindex import Reindex
from fusion.contract import Scope
from fusion.doors.cli.doctor import examine
from fusion.errors import ModelMissing, SettingsError
from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.local_models import files
from fusion.local_models.registry import MODELS
from fusion.settings import Settings
from fusion.trust import allow
from tests.patience import load
from tests.small_onnx import encoder_onnx, small_model, written

CONTENT = {"one": encoder_onnx(seed=1), "two": encoder_onnx(seed=2)}
ONE = small_model(CONTENT["one"], "one")
TWO = small_model(CONTENT["two"], "two", query_prefix="query: ", passage_prefix="passage: ", pooling="cls")
TEXTS = [f"Nadia planted tree number {n}" for n in range(20)]
QUESTION = "which tree did Nadia plant?"


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for model in (ONE, TWO):
        written(files.own_path(model), CONTENT[model.name])
        monkeypatch.setitem(MODELS, model.name, model)  # type: ignore[misc]


def chosen(home: Path, model: str) -> Settings:
    backends = {
        "triples": {"adapter": "adapters.triples:Triples"},
        "markdown": {"adapter": "adapters.markdown:Markdown"},
    }
    return load(home=home, backends_only=True, embedder={"model": model}, backends=backends)


async def filled(gateway: Gateway) -> None:
    await gateway.remember([NewMemory(text) for text in TEXTS])
    await gateway.settle()


async def moved(gateway: Gateway, verb: Reindex, backend: str = "triples") -> dict[str, Any]:
    async def line(text: str) -> None:
        raise AssertionError(text)

    found: Any = await gateway.do(backend, verb, Scope(), line, lambda done, total: None)
    return dict(found)


async def found_by(gateway: Gateway, backend: str) -> list[str]:
    return [hit.text for hit in (await gateway.search(backend, QUESTION, Scope())).hits]


def row_files(home: Path, backend: str) -> set[str]:
    return {path.name for path in (home / "backends" / backend).rglob("vectors*.i8")}


@pytest.mark.feature("another local model in the settings: every index gets the new model's vectors, none are mixed")
@pytest.mark.parametrize("backend", ["triples", "markdown"])
async def test_another_model_in_the_settings_replaces_all_vectors(backend: str, home: Path) -> None:
    """After a restart with another model its vectors are the only ones, and so they are after the way back."""
    async with Gateway.open(chosen(home, "one")) as gateway:
        await filled(gateway)
        assert row_files(home, backend) == {"vectors.i8"}
    for model in (TWO, ONE):
        async with Gateway.open(chosen(home, model.name)) as gateway:
            await gateway.settle()
            state = {state["name"]: state for state in await gateway.backends()}[backend]
            assert (state["vectors_pending"], state["notes"]) == (0, [])
            assert row_files(home, backend) == {rows_file(model.identity)}
            assert (await gateway.status())["embedder"] == model.identity
            assert await found_by(gateway, backend)


@pytest.mark.feature("`reindex --model NAME` moves a backend to another local model, and the home remembers it")
async def test_reindex_moves_to_another_local_model(home: Path) -> None:
    """After a restart too. An unknown or missing model is refused with its fix, and moves nothing."""
    async with Gateway.open(chosen(home, "one")) as gateway:
        await filled(gateway)
        with pytest.raises(SettingsError, match=r"no local embedder is called 'three', only: minilm"):
            await moved(gateway, Reindex(model="three"))
        with pytest.raises(ModelMissing, match=r"fusion models add e5-small-v2$"):
            await moved(gateway, Reindex(provider="local", model="e5-small-v2"))
        assert not (home / "backends" / "triples" / "embedder.json").exists()
        found = await moved(gateway, Reindex(model="two"))
        assert (found["from"], found["to"], found["moved"]) == (ONE.identity, TWO.identity, True)
    async with Gateway.open(chosen(home, "one")) as gateway:
        states = {state["name"]: state for state in await gateway.backends()}
        assert states["triples"]["vectors_pending"] == 0
        assert row_files(home, "triples") == {rows_file(TWO.identity)}
        assert row_files(home, "markdown") == {"vectors.i8"}
        assert await found_by(gateway, "triples")


DAMAGED = {
    "gone": (None, "the model one is not installed"),
    "cut": (CONTENT["one"][:500], "is cut or another one"),
    "another": (CONTENT["two"] + b" ", "another sha256"),
}


@pytest.mark.feature("a home whose model is damaged or gone finds by words, names the fix, and keeps its vectors")
@pytest.mark.parametrize("case", DAMAGED)
async def test_a_home_without_its_model_finds_by_words(case: str, home: Path) -> None:
    """Status and doctor have the command. Once the model is back, all is as it was; nothing is recomputed."""
    content, why = DAMAGED[case]
    async with Gateway.open(chosen(home, "one")) as gateway:
        await filled(gateway)
    before = {path: path.read_bytes() for path in (home / "backends").rglob("vectors*.i8")}
    assert before
    files.remove(ONE)
    if content is not None:
        written(files.own_path(ONE), content)
    async with Gateway.open(chosen(home, "one")) as gateway:
        (note,) = [note for note in (await gateway.status())["notes"] if "embedding model" in note]
        assert why in note
        assert note.endswith(": fusion models add one")
        assert set(await found_by(gateway, "triples")) <= set(TEXTS)
        assert await found_by(gateway, "triples")
    written(files.own_path(ONE), CONTENT["one"])
    async with Gateway.open(chosen(home, "one")) as gateway:
        states = {state["name"]: state for state in await gateway.backends()}
        assert [states[name]["vectors_pending"] for name in ("triples", "markdown")] == [0, 0]
    assert {path: path.read_bytes() for path in before} == before
    files.remove(ONE)
    (home / "fusion.toml").write_text('[embedder]\nmodel = "one"\n')
    allow(home)
    (finding,) = [one for one in examine(home) if one.check == "embedder"]
    assert (finding.status, finding.fix) == ("fail", "fusion models add one")


@pytest.mark.feature("an answer by a model without a calibration has raw scores, and says so")
async def test_an_answer_says_that_the_model_is_not_calibrated(home: Path) -> None:
    async with Gateway.open(chosen(home, "one")) as gateway:
        await filled(gateway)
        answer = await gateway.fuse(QUESTION)
    assert answer.block
    assert answer.rerank["uncalibrated"] == f"there is no calibration for {ONE.identity}, so the raw scores decide"
    assert {member.probability for excerpt in answer.memories for member in excerpt.members} == {None}
