"""Answers whose memories no model compared with the question: what probabilities they have, and what is left out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from math import exp
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fusion.gateway.gateway import Gateway
from fusion.ingest.intake import NewMemory
from fusion.local_models import files
from fusion.local_models.registry import MODELS
from fusion.recall.decision import Decision
from fusion.recall.engine import Fused, FuseRequest
from fusion.recipe_files import recipes
from tests.fakes import FakeEmbedder
from tests.gateway.helpers import NADIA
from tests.patience import load
from tests.small_onnx import encoder_onnx, small_model

ANSWER = "The spare key of the boathouse hangs behind the blue oar"
OTHERS = [
    f"On day {n} we painted the {thing} of the boathouse"
    for n, thing in enumerate(("door", "roof", "floor", "gate", "stairs", "window", "bench", "wall"), start=1)
]
PATIENCE_MS = 50_000
ASKED = FuseRequest(
    "where is the spare key of the boathouse?", NADIA, timeout_ms=PATIENCE_MS, explain=True, gate=False, max_results=20
)
MODEL = small_model(encoder_onnx(seed=1), "gone")


class Embedders:
    """Opens embedders that a test can let fail."""

    opened: ClassVar[list[FakeEmbedder]] = []

    @classmethod
    async def open(cls, folder: Path, options: Mapping[str, Any]) -> FakeEmbedder:
        cls.opened.append(FakeEmbedder())
        return cls.opened[-1]


def fail() -> None:
    Embedders.opened[-1].failing = True


CASES: Mapping[str, tuple[dict[str, Any], Callable[[], None], bool]] = {
    "no model is configured": ({"adapter": ""}, lambda: None, False),
    "the model's file is missing": ({"model": "gone"}, lambda: None, True),
    "the model fails while serving": ({"adapter": "tests.gateway.test_by_words:Embedders"}, fail, True),
}
"""the embedder of the settings, what happens before the question, and whether the answer is degraded"""


@pytest.fixture(autouse=True)
def uninstalled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that the registry knows, and whose file is not there."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setitem(MODELS, MODEL.name, MODEL)  # type: ignore[misc]
    assert not files.own_path(MODEL).exists()


@asynccontextmanager
async def filled(home: Path, embedder: Mapping[str, Any]) -> AsyncIterator[Gateway]:
    backends = {"memory": {"adapter": "adapters.inmemory:InMemory"}}
    async with Gateway.open(load(home=home, backends_only=True, embedder=embedder, backends=backends)) as gateway:
        await gateway.remember([NewMemory(text, NADIA, kind="fact") for text in (*OTHERS, ANSWER)])
        await gateway.settle()
        yield gateway


def probabilities(fused: Fused) -> set[float | None]:
    return {member.probability for excerpt in fused.memories for member in excerpt.members}


@pytest.mark.feature("an answer found by words alone is cut by probabilities, and its receipt names their calibration")
@pytest.mark.parametrize("case", CASES)
async def test_answer_by_words_is_cut_by_probabilities(case: str, home: Path) -> None:
    """The block has the answer alone; what shares one word with the question is left out, and the receipt says so."""
    embedder, happens, degraded = CASES[case]
    async with filled(home, embedder) as gateway:
        happens()
        fused = await gateway.fuse(ASKED)
        receipt = await gateway.receipt(fused.receipt_id)
        everything = await gateway.fuse(ASKED, fill=True)
    assert [excerpt.members[0].text for excerpt in fused.memories] == [ANSWER]
    assert len(everything.memories) == len(OTHERS) + 1
    assert None not in probabilities(everything)
    decisions = [row["decision"] for row in receipt["candidates"]]
    assert decisions == ["packed", *[str(Decision.ADDS_TOO_LITTLE)] * len(OTHERS)]
    assert receipt["calibration"]["scores_by"] == "words"
    assert "uncalibrated" not in fused.rerank
    assert fused.degraded is degraded


@pytest.mark.feature("words alone never empty a block: in other words, a poor answer and no answer look the same")
@pytest.mark.parametrize("case", CASES)
async def test_words_alone_keep_what_little_they_found(case: str, home: Path) -> None:
    embedder, happens, _ = CASES[case]
    async with filled(home, embedder) as gateway:
        happens()
        fused = await gateway.fuse(ASKED, query="who has ever repaired anything at the boathouse, and at whose cost?")
    assert fused.memories


@pytest.mark.feature("an answer by words alone with weights of one's own has raw scores, and says so")
async def test_answer_by_words_without_a_calibration_says_so(home: Path) -> None:
    """A recipe of one's own, with other weights."""
    (home / "recipes").mkdir(parents=True)
    (home / "recipes" / "mine.toml").write_text("[rerank.signals]\nbm25 = 3\nfusion = 1\n", encoding="utf-8")
    async with filled(home, {"adapter": ""}) as gateway:
        fused = await gateway.fuse(ASKED, recipe="mine")
        receipt = await gateway.receipt(fused.receipt_id)
    assert fused.rerank["uncalibrated"].endswith("so the raw scores decide")
    assert receipt["calibration"] is None
    assert probabilities(fused) == {None}
    assert fused.memories


@pytest.mark.feature("a home's own calibration for words alone goes before the one that comes with the project")
async def test_homes_own_calibration_for_words_is_used(home: Path) -> None:
    """The receipt says that it is the home's."""
    weights = recipes(load(home=home))["default"].rerank.by_words.weights_hash
    (home / "recipes").mkdir(parents=True)
    curve = f'model = ""\nweights = "{weights}"\n[note]\nbias = -3\nscore = 6\n'
    (home / "recipes" / "mine.calibration").write_text(curve, encoding="utf-8")
    async with filled(home, {"adapter": ""}) as gateway:
        fused = await gateway.fuse(ASKED)
        receipt = await gateway.receipt(fused.receipt_id)
    assert receipt["calibration"]["of_home"] is True
    best = fused.memories[0].members[0]
    assert best.probability == pytest.approx(1 / (1 + exp(3 - 6 * best.score)), abs=1e-3)
