"""Fills and asks other memory libraries by their own calls, with our vectors and no language model.

A system answers with passages, each of which is one memory of the block. mnemostack's may be three neighbouring items
joined, so a passage is named by the ids of its items, a line each.
"""

from __future__ import annotations

import asyncio
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from adapters.mem0 import library
from benchmarks.datasets import Corpus, DataError, Question
from benchmarks.progress import Advance
from fusion.contract import Embedder

Ranking = Sequence[tuple[str, float]]
"""passages with their scores, best first"""

NEEDS = {
    "bm25": ("rank_bm25", "benchmarks"),
    "mem0": ("mem0", "mem0"),
    "mnemostack": ("mnemostack", "mnemostack"),
}
"""by baseline: the module that it needs, and the extra that installs it"""
WINDOW = 3
"""turns in a passage of mnemostack: the size that its own documents recommend for conversations"""
RESULTS = 10
"""results asked of mnemostack, its own `top_k`; what it returns depends on how many are asked"""


def installed(name: str, find: Callable[[str], object] = find_spec) -> bool:
    """Whether a baseline can run here."""
    return name not in NEEDS or find(NEEDS[name][0]) is not None


def require(names: Sequence[str], find: Callable[[str], object] = find_spec) -> None:
    """Raises DataError for a baseline that is not installed: it says how to install it."""
    for name in names:
        if not installed(name, find):
            raise DataError(
                f"the baseline {name!r} is not installed: pip install '/path/to/checkout[{NEEDS[name][1]}]'"
            )


async def mem0(
    corpus: Corpus, questions: Sequence[Question], embedder: Embedder, depth: int, advance: Advance
) -> dict[int, Ranking]:
    """The mem0 library on a store of its own, by its `add` and `search`, on one thread."""
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory(prefix="memory-fusion-mem0-") as folder, ThreadPoolExecutor(1) as worker:

        def opened() -> Any:
            memory = library(Path(folder)).from_config(
                {
                    "vector_store": {
                        "provider": "qdrant",
                        "config": {"path": f"{folder}/qdrant", "embedding_model_dims": embedder.dimensions},
                    },
                    "embedder": {"provider": "langchain", "config": {}},
                    "llm": {"provider": "langchain", "config": {}},
                    "history_db_path": ":memory:",
                }
            )
            memory.embedding_model.connect(embedder, loop)
            for item in corpus.memories:
                memory.add(item.spoken, user_id="everybody", infer=False, metadata={"item": item.id})
                advance(1)
            return memory

        def asked(memory: Any, text: str) -> Ranking:
            found = memory.search(text, filters={"user_id": "everybody"}, top_k=depth, threshold=0.0)["results"]
            advance(1)
            return [(one["metadata"]["item"], float(one["score"])) for one in found]

        memory = await loop.run_in_executor(worker, opened)
        try:
            return {q.index: await loop.run_in_executor(worker, asked, memory, q.text) for q in questions}
        finally:
            await loop.run_in_executor(worker, memory.vector_store.client.close)


async def mnemostack(
    corpus: Corpus, questions: Sequence[Question], embedder: Embedder, advance: Advance
) -> dict[int, Ranking]:
    """mnemostack's `Ingestor` with windows of three, and its `recall_flow` over the retrievers of its own server.

    Those are vectors, BM25 and dates; the fourth, a graph, needs a server and a language model to fill it. The stages
    that learn from use are off, as its documents advise for benchmarks. Qdrant runs in this process.
    """
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as worker:
        return await loop.run_in_executor(worker, _ask_mnemostack, corpus, questions, embedder, loop, advance)


def _ask_mnemostack(
    corpus: Corpus,
    questions: Sequence[Question],
    embedder: Embedder,
    loop: asyncio.AbstractEventLoop,
    advance: Advance,
) -> dict[int, Ranking]:
    from mnemostack import IngestItem, Ingestor
    from mnemostack.embeddings.base import EmbeddingProvider
    from mnemostack.recall import BM25Retriever, Recaller, TemporalRetriever, VectorRetriever, build_full_pipeline
    from mnemostack.recall.flow import recall_flow
    from mnemostack.recall.trace import RecallTrace
    from mnemostack.vector import VectorStore
    from qdrant_client import QdrantClient
    from qdrant_client.models import Distance

    class Vectors(EmbeddingProvider):  # type: ignore[misc]  # mnemostack ships no types
        """Ours, under its interface. It calls on its own threads, never on the loop's."""

        dimension, name = embedder.dimensions, f"memory-fusion:{embedder.identity}"

        def embed(self, text: str) -> list[float]:
            return self.embed_batch([text])[0]

        def embed_batch(self, texts: list[str]) -> list[list[float]]:
            vectors = asyncio.run_coroutine_threadsafe(embedder.embed(texts, keep=False), loop).result()
            return [vector.tolist() for vector in vectors]

    class Store(VectorStore):  # type: ignore[misc]
        """Its store on Qdrant's local mode: its own constructor knows addresses of servers only."""

        def __init__(self) -> None:
            self.collection, self.dimension, self.distance = "memories", embedder.dimensions, Distance.COSINE
            self.client = QdrantClient(":memory:")

    vectors, store = Vectors(), Store()
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Payload indexes have no effect")
            store.ensure_collection()

        def passages() -> Iterator[Any]:
            for place, item in enumerate(corpus.memories):
                yield IngestItem(
                    text=item.spoken,
                    source=item.document or item.id,  # an item without a document has no neighbours
                    offset=place,
                    timestamp=item.at.isoformat() if item.at else None,
                )
                advance(1)

        stored = Ingestor(vectors, store, window_size=WINDOW).ingest(passages())
        if stored.failed:
            raise RuntimeError(f"mnemostack did not store {stored.failed} of {stored.seen} passages")
        recaller = Recaller(
            retrievers=[
                VectorRetriever(embedding=vectors, vector_store=store),
                BM25Retriever.from_qdrant(store.client, store.collection),
                TemporalRetriever(embedding=vectors, vector_store=store),
            ]
        )
        pipeline = build_full_pipeline(enable_stateful_stages=False)
        answers: dict[int, Ranking] = {}
        for question in questions:
            trace = RecallTrace()
            found = recall_flow(recaller, question.text, limit=RESULTS, pipeline=pipeline, trace=trace)
            if faults := set(trace.degraded) - set(trace.notes):
                raise RuntimeError(f"mnemostack's answer is degraded, its figures would mean nothing: {faults}")
            answers[question.index] = [(_passage(corpus, one.payload), float(one.score)) for one in found]
            advance(1)
        return answers
    finally:
        store.client.close()


def _passage(corpus: Corpus, payload: Mapping[str, Any]) -> str:
    """The name of a passage of mnemostack: an item, or the window around one, given by both ends."""
    start, end = (payload.get(f"chunk_{side}_offset", payload["offset"]) for side in ("start", "end"))
    return "\n".join(item.id for item in corpus.memories[start : end + 1])
