"""Cost of adapters: mem0 through the gateway against its library alone, and the parsing of replies."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from adapters.hits import hit_of
from adapters.mem0.library import config, library
from adapters.mem0.replies import hits_of
from adapters.options import read
from adapters.qdrant.collection import Reader
from adapters.qdrant.memories import hits_of_points
from adapters.qdrant.options import MEM0, Theirs
from adapters.qdrant.payload import payload_of
from benchmarks.fill_stores import open_home, wait_until_stored
from benchmarks.progress import bar
from benchmarks.synthetic_text import question, sentence
from fusion.contract import Embedder, Event, Opening, Query, Scope
from fusion.ingest.intake import NewMemory

MEMORIES, QUESTIONS, WARM_UP = 1000, 60, 5
CHARACTERS = 160
PLACES = 100
"""that both are asked for: what the gateway asks each backend for"""
HITS, REPEATS = 40, 200
WHO = Scope(user_id="ada")
SEED = 20261


async def mem0_latency_ratio(memories: int = MEMORIES, questions: int = QUESTIONS) -> float:
    """The median latency of mem0's answers as the gateway waits for them, over that of the library's own search.

    Both on local Qdrant with the same memories, in one process, asked in turns, each question with its vector at hand:
    encoding it is the embedder's cost, and the same for both.
    """
    draw = Random(SEED)
    texts = [sentence(draw, CHARACTERS) for _ in range(memories)]
    asked = [question(draw) for _ in range(questions + WARM_UP)]
    with tempfile.TemporaryDirectory(prefix="memory-fusion-mem0-") as folder, ThreadPoolExecutor(1) as worker:
        async with open_home(Path(folder) / "home", ("mem0",)) as fusion:
            for start in range(0, memories, 100):
                await fusion.remember([NewMemory(text, scope=WHO) for text in texts[start : start + 100]])
            await wait_until_stored(fusion)
            embedder = fusion.embedders.configured
            if embedder is None:
                raise RuntimeError("the comparison needs the embedding model")
            loop = asyncio.get_running_loop()
            vectors = (await embedder.embed(texts)).tolist()
            alone = await loop.run_in_executor(worker, _filled, Path(folder), embedder, loop, texts, vectors)
            through, by_itself = [], []
            try:
                with bar("mem0", len(asked)) as advance:
                    for text in asked:
                        await embedder.embed([text], keep=False)
                        fused = await fusion.fuse(text, scope=WHO)
                        through.append(next(row["took_ms"] for row in fused.backends if row["name"] == "mem0"))
                        by_itself.append(await loop.run_in_executor(worker, _took_ms, alone, text))
                        advance(1)
            finally:
                await loop.run_in_executor(worker, _close, alone)
    ratio: float = median(through[WARM_UP:]) / median(by_itself[WARM_UP:])
    return round(ratio, 3)


def _filled(
    folder: Path, embedder: Embedder, loop: asyncio.AbstractEventLoop, texts: Sequence[str], vectors: list[list[float]]
) -> Any:
    """The library on a folder of its own, with what its ``add`` would have stored."""
    store = {
        "collection_name": "alone",
        "path": str(folder / "alone"),
        "embedding_model_dims": embedder.dimensions,
        "on_disk": True,
    }
    memory = library(folder).from_config(config(store))
    memory.embedding_model.connect(embedder, loop)
    events = [_event(n, text) for n, text in enumerate(texts)]
    payloads = [{key: value for key, value in payload_of(event).items() if key in _OWN} for event in events]
    memory.vector_store.insert(vectors=vectors, payloads=payloads, ids=[event.event_id for event in events])
    return memory


_OWN = frozenset({"data", "hash", "created_at", "updated_at", "text_lemmatized", "user_id"})


def _took_ms(memory: Any, text: str) -> float:
    began = time.perf_counter()
    found = memory.search(text, filters={"user_id": WHO.user_id}, top_k=PLACES, threshold=0.0)["results"]
    took = (time.perf_counter() - began) * 1000
    if not found:
        raise RuntimeError("mem0 found nothing")
    return took


def _close(memory: Any) -> None:
    memory.close()
    memory.vector_store.client.close()


def parse_cpu_ms(repeats: int = REPEATS) -> float:
    """CPU milliseconds to read a reply of 40 hits: the slowest of our readers, the median of ``repeats``."""
    draw = Random(SEED)
    events = [_event(n, sentence(draw, CHARACTERS)) for n in range(HITS)]
    payloads = [payload_of(event) for event in events]
    points = [
        {"id": event.event_id, "version": 1, "score": 0.5, "payload": payload}
        for event, payload in zip(events, payloads, strict=True)
    ]
    items = [
        {"id": event.event_id, "memory": event.text, "score": 0.5, "user_id": "ada", "metadata": payload}
        for event, payload in zip(events, payloads, strict=True)
    ]
    plain = [{"native_id": event.event_id, "text": event.text, "score": 0.5, "user_id": "ada"} for event in events]
    fields = {**MEM0, "kind": "kind", "event_id": "event_id"}
    reader = Reader(read(Theirs, Opening("facts", Path("unused"), {"collection": "facts", "fields": fields})))
    query = Query("anything", WHO, datetime.now(UTC))
    readers: tuple[Callable[[], object], ...] = (
        lambda: reader.hits(points, WHO),
        lambda: hits_of_points(points),
        lambda: hits_of(items, query, "default"),
        lambda: [hit_of(item) for item in plain],
    )
    return round(max(_cpu_ms(one, repeats) for one in readers), 4)


def _cpu_ms(work: Callable[[], object], repeats: int) -> float:
    took = []
    for _ in range(repeats):
        began = time.thread_time()
        work()
        took.append((time.thread_time() - began) * 1000)
    return median(took)


def _event(number: int, text: str) -> Event:
    at = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=number)
    return Event(f"01890000-0000-7000-8000-{number:012x}", text, at, WHO)
