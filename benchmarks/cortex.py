"""The cortex at 10,000 and 100,000 memories, and what its graph adds to its own vectors.

Memories at scale are synthetic: a text of 120 characters whose words are drawn as natural ones are, three facts between
names drawn the same way, so that there are hubs, and random unit vectors for embeddings, which cost a search what real
ones cost. The graph's signal is measured with the local model on conversations of yours: recall in the seed's order,
by cosine, with the graph and without.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any

from adapters.cortex import Cortex
from adapters.cortex.options import Options
from adapters.cortex.port import View
from adapters.cortex.recall import recall
from adapters.cortex.sqlite import SqliteGraph, visible
from adapters.embedders.local import LocalEmbedder
from adapters.graph.options import WalkOptions
from adapters.graph.traversal import mention_pairs, query_entities, walk
from benchmarks.figures import commit
from benchmarks.markdown_vault import RandomEmbedder, random_vectors
from benchmarks.progress import bar
from benchmarks.synthetic_text import sentence, word
from fusion.compare.verdict import paired
from fusion.contract import Entity, Event, Extracted, Extraction, Fact, Moment, Opening, Place, Query, Scope
from fusion.gateway.interpreter import settled_heap
from fusion.ingest.extract import extract

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.datasets import Corpus
    from fusion.contract import Embedder
    from fusion.store.sqlite import Connection

SMALL, LARGE = 10_000, 100_000
CHARACTERS = 120
FACTS = 3
BATCH = 200
"""memories stored in one call, as the gateway does"""
STORED = 4_000
"""memories that storing is measured with"""
QUESTIONS = 60
WALKS = 200
SEED_ORDER = Options(by_words=0.0)
"""similarity is the cosine alone"""
R_AT = 10
START = datetime(2026, 1, 1, tzinfo=UTC)
OWNER = Scope(user_id="ada")
PREDICATES = ("uses", "owns", "works on", "knows", "prefers")


def run(data: Path | None) -> dict[str, Any]:
    """Measures all figures, those of the graph's signal only with ``data``. Raises DataError."""
    corpora: Sequence[Corpus] = ()
    if data is not None:
        from benchmarks.datasets import locomo

        corpora = locomo.load(data)
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as name:
        figures = asyncio.run(_run(Path(name), corpora))
    return {"commit": commit(), "date": datetime.now(UTC).date().isoformat(), **figures}


async def _run(folder: Path, corpora: Sequence[Corpus]) -> dict[str, Any]:
    figures: dict[str, Any] = {"store_per_s": round(await store_per_s(folder / "stored"))}
    for size, name in ((SMALL, "10k"), (LARGE, "100k")):
        async with opened(folder / name, RandomEmbedder()) as cortex:
            with bar(f"{size} memories", size) as advance:
                for batch in batches(size):
                    await cortex.remember(batch)
                    advance(len(batch))
            await cortex.settle()
            figures[f"recall_cpu_ms_{name}"] = round(await recall_ms(cortex), 2)
            if size == LARGE:
                figures[f"hop2_ms_{name}"] = round(await walk_ms(cortex), 2)
    if corpora:
        embedder = await LocalEmbedder.open(folder / "embedded", {})
        try:
            figures |= await signal(folder, corpora, embedder)
        finally:
            await embedder.close()
    return figures


@asynccontextmanager
async def opened(folder: Path, embedder: Embedder | None) -> AsyncIterator[Cortex]:
    cortex = await Cortex.open(Opening("cortex", folder, {}, embedder))
    try:
        yield cortex
    finally:
        await cortex.close()


# At scale


def batches(size: int) -> Iterator[list[Extracted]]:
    draw = Random(size)
    names = Names(size)
    for start in range(0, size, BATCH):
        yield [_memory(draw, names, n) for n in range(start, min(start + BATCH, size))]


class Names:
    """Draws names, as many as there are memories, the n-th 1/n as often as the first."""

    def __init__(self, size: int) -> None:
        self._size = size

    def one(self, draw: Random) -> str:
        return f"{word(draw).capitalize()} {int(self._size ** draw.random()):x}"


def _memory(draw: Random, names: Names, n: int) -> Extracted:
    event = Event(
        event_id=f"01890000-0000-7000-8000-{n:012x}",
        text=sentence(draw, CHARACTERS),
        recorded_at=START + timedelta(seconds=n),
        scope=OWNER,
        kind="turn",
    )
    facts = tuple(Fact(names.one(draw), draw.choice(PREDICATES), names.one(draw)) for _ in range(FACTS))
    entities = tuple(Entity(name) for fact in facts for name in (fact.subject, fact.object))
    return Extracted(event, Extraction("turn", entities, facts))


async def store_per_s(folder: Path) -> float:
    """Memories with their facts that are stored durably in a second of the clock, without embedding and model."""
    first, *others = batches(BATCH + STORED)
    async with opened(folder, None) as cortex:
        await cortex.remember(first)  # which loads what is loaded once
        with settled_heap():  # as `fusion serve` has it
            started = time.perf_counter()
            for batch in others:
                await cortex.remember(batch)
            return STORED / (time.perf_counter() - started)


def _questions(size: int, many: int) -> list[Query]:
    """Questions about a name, drawn as those in the facts, and four words."""
    draw, names = Random("questions"), Names(size)
    return [
        Query(
            f"what about {names.one(draw)} and {' '.join(word(draw) for _ in range(4))}?",
            OWNER,
            START + timedelta(days=30),
            100,
            60.0,
        )
        for _ in range(many)
    ]


async def recall_ms(cortex: Cortex) -> float:
    """CPU of one recall, its query encoded already."""
    size = (await cortex.describe()).items
    asked = _questions(size, QUESTIONS + 5)
    vectors = random_vectors([query.text for query in asked])
    taken = []
    with settled_heap():
        for query, vector in zip(asked, vectors, strict=True):
            before = time.process_time()
            await recall(cortex.graph, query, vector, Options())
            taken.append(time.process_time() - before)
    return fmean(taken[5:]) * 1000


async def walk_ms(cortex: Cortex) -> float:
    """CPU of one traversal of two hops: from a name to the adjacent entities and the memories of all of them."""
    assert isinstance(cortex.graph, SqliteGraph)
    draw, names = Random("walks"), Names(LARGE)
    view, walking = visible(View(OWNER, START + timedelta(days=30))), WalkOptions()

    def traverse(db: Connection) -> float:
        start = list(query_entities(db, names.one(draw), OWNER))
        before = time.thread_time()
        mention_pairs(db, view, walk(db, view, start, walking), (), walking)
        return time.thread_time() - before

    taken = [await cortex.graph._database.read(traverse) for _ in range(WALKS)]
    return fmean(taken[5:]) * 1000


# What the graph adds


async def signal(folder: Path, corpora: Sequence[Corpus], embedder: Embedder) -> dict[str, Any]:
    """Recall of the gold turns among the first ten, in the seed's order, with the graph and without."""
    with_graph: list[float] = []
    without: list[float] = []
    with bar("conversations", len(corpora)) as advance:
        for corpus in corpora:
            async with opened(folder / corpus.id, embedder) as cortex:
                ids = await _conversation(cortex, corpus)
                for question in (q for q in corpus.questions if q.answerable):
                    query = Query(question.text, Scope(user_id=corpus.id), datetime.now(UTC), 100, 60.0)
                    (vector,) = await embedder.embed([question.text], keep=False)
                    for linked, into in ((True, with_graph), (False, without)):
                        found = await recall(cortex.graph, query, vector, SEED_ORDER, linked=linked)
                        first = {ids[ranked.memory.id] for ranked in found[:R_AT]}
                        into.append(len(first & set(question.gold)) / len(set(question.gold)))
            advance(1)
    gain = paired(without, with_graph)
    return {
        "graph_signal_r10_gain": gain.difference,
        "graph_signal_ci_low": gain.low,
        "graph_signal_ci_high": gain.high,
        "graph_signal_questions": gain.n,
        "vectors_r10": round(fmean(without), 4),
        "vectors_and_graph_r10": round(fmean(with_graph), 4),
    }


async def _conversation(cortex: Cortex, corpus: Corpus) -> dict[str, str]:
    """Stores all turns as the gateway does, captured by rules; gives the data set's id of each stored id."""
    batch = []
    ids = {}
    for n, item in enumerate(corpus.memories):
        event = Event(
            event_id=f"01890000-0000-7000-8000-{n:012x}",
            text=item.text,
            recorded_at=(item.at or START) + timedelta(seconds=n),
            scope=Scope(user_id=corpus.id),
            kind=item.kind,
            speaker=item.speaker,
            at=Moment(item.at) if item.at else None,
            place=Place(item.document, item.position, item.end or item.position, item.unit),
        )
        ids[event.event_id] = item.id
        batch.append(Extracted(event, extract(event)))
    for start in range(0, len(batch), BATCH):
        await cortex.remember(batch[start : start + BATCH])
    await cortex.settle()
    return ids
