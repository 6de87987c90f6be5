"""Texts are embedded where the model allows it, and its failure costs no more than their vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from adapters.index.encode import BestEffortEmbedding, memory_vectors
from fusion.lib.passages import spoken_passages
from tests.fakes import FakeEmbedder


class Broken(FakeEmbedder):
    """A model whose library raises an error that quotes the text."""

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> NDArray[np.float32]:
        raise RuntimeError(f"cannot encode {texts[0]!r}")


async def test_best_effort_embedding_gives_vectors() -> None:
    embedding, embedder = BestEffortEmbedding("store"), FakeEmbedder()
    vectors = await embedding.vectors(embedder, [("a memory", None), ("another", "Ann")])
    assert vectors is not None
    assert vectors.shape == (2, embedder.dimensions)
    assert await embedding.query_vector(embedder, "a memory") is not None
    assert embedding.fault is None


async def test_a_long_memory_has_the_mean_direction_of_its_passages() -> None:
    """A store with one vector for a memory has it by the passages alone: the whole text is not encoded."""
    embedder = FakeEmbedder()
    long = "\n\n".join(f"paragraph{n} " + "of many words " * 30 for n in range(4))
    short, made, last = await memory_vectors(embedder, [("tea", "Ada"), (long, "Ada"), ("coffee", None)])
    parts = spoken_passages(long, "Ada")
    assert len(parts) == 4
    mean = (await embedder.embed(parts)).sum(axis=0)
    assert made == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)
    assert list(embedder.encoded) == ["Ada: tea", *parts, "coffee"]
    assert (short, last) == (pytest.approx(embedder._dense("Ada: tea")), pytest.approx(embedder._dense("coffee")))


async def test_best_effort_embedding_without_a_model_is_no_fault() -> None:
    embedding = BestEffortEmbedding("store")
    assert await embedding.vectors(None, [("a memory", None)]) is None
    assert await embedding.query_vector(None, "a memory") is None
    assert embedding.fault is None


async def test_best_effort_embedding_reports_a_fault_until_the_next_success(caplog: pytest.LogCaptureFixture) -> None:
    """The same fault is logged once, however often it is met."""
    embedding, embedder = BestEffortEmbedding("store"), FakeEmbedder(failing=True)
    assert await embedding.query_vector(embedder, "a memory") is None
    assert await embedding.vectors(embedder, [("a memory", None)]) is None
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
