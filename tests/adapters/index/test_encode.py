"""Texts are embedded where the model allows it, and its failure costs no more than their vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from adapters.index.encode import BestEffortEmbedding
from tests.fakes import FakeEmbedder


class Broken(FakeEmbedder):
    """A model whose library raises an error that quotes the text."""

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> NDArray[np.float32]:
        raise RuntimeError(f"cannot encode {texts[0]!r}")


async def test_best_effort_embedding_gives_vectors() -> None:
    embedding, embedder = BestEffortEmbedding("store"), FakeEmbedder()
    vectors = await embedding.vectors(embedder, ["a memory", "another"])
    assert vectors is not None
    assert vectors.shape == (2, embedder.dimensions)
    assert await embedding.query_vector(embedder, "a memory") is not None
    assert embedding.fault is None


async def test_best_effort_embedding_without_a_model_is_no_fault() -> None:
    embedding = BestEffortEmbedding("store")
    assert await embedding.vectors(None, ["a memory"]) is None
    assert await embedding.query_vector(None, "a memory") is None
    assert embedding.fault is None


async def test_best_effort_embedding_reports_a_fault_until_the_next_success(caplog: pytest.LogCaptureFixture) -> None:
    """The same fault is logged once, however often it is met."""
    embedding, embedder = BestEffortEmbedding("store"), FakeEmbedder(failing=True)
    assert await embedding.query_vector(embedder, "a memory") is None
    assert await embedding.vectors(embedder, ["a memory"]) is None
    assert embedding.fault == "the fake embedder is set to fail"
    assert caplog.messages == ["store works by words only: the fake embedder is set to fail"]
    embedder.failing = False
    assert await embedding.query_vector(embedder, "a memory") is not None
    assert embedding.fault is None


async def test_best_effort_embedding_never_quotes_a_text(caplog: pytest.LogCaptureFixture) -> None:
    embedding = BestEffortEmbedding("store")
    assert await embedding.query_vector(Broken(), "a secret") is None
    assert embedding.fault == "RuntimeError"
    assert "secret" not in caplog.text
