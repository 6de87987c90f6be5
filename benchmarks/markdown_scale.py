"""Markdown memory at scale: what a search, a start, a change and a scan cost.

Each size is asked in a process of its own, so that its memory and its CPU are those of the search alone. What only the
benchmark needs is imported where it is used, because such a process pays for what it imports.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from benchmarks.markdown_vault import (
    LIMIT,
    MOST_S,
    QUESTIONS,
    RandomEmbedder,
    open_vault,
    random_vectors,
    write_vault,
)
from benchmarks.synthetic_text import sentence

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from adapters.index import Entry
    from adapters.markdown import Markdown

SMALL, LARGE, MILLION = 10_000, 100_000, 1_000_000
EXACT = 20
"""questions whose answers are compared with exact ones"""
TIMES = 5
"""repetitions of a figure that is not a mean of many: the median of CPU, and the best time by the clock, because the
others show how busy the machine was"""
LONG_ENOUGH_S = 0.1
"""until a file's last change is too old to be mistaken for one within the same tick of its clock"""


def steps_of(sizes: Sequence[int]) -> list[str]:
    """The titles of the steps of `measure`."""
    titles = [f"{chunks:,} chunks: {work}" for chunks in sizes for work in ("writing", "indexing", "asking")]
    return [*titles, "changes and starts"]


def measure(folder: Path, sizes: Sequence[int], done: Callable[[], None]) -> dict[str, Any]:
    """The figures of vaults of these sizes, ``LARGE`` among them; ``done`` is called after each step."""
    figures: dict[str, Any] = {}
    for chunks in sizes:
        home, vault = folder / f"home-{chunks}", folder / f"vault-{chunks}"
        write_vault(vault, chunks)
        done()
        built = asyncio.run(build(home, vault))
        done()
        asked = child("ask-million" if chunks == MILLION else "ask", home, vault)
        figures |= of_size(chunks, built, asked)
        done()
    home, vault = folder / f"home-{LARGE}", folder / f"vault-{LARGE}"
    figures |= asyncio.run(follow(home, vault))
    figures |= starts(home, vault)
    done()
    return figures


def of_size(chunks: int, built: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """The figures of one size, by their names."""
    if chunks == MILLION:
        return {
            "million_rss_mb": asked["rss_mb"],
            "million_rss_peak_mb": asked["rss_peak_mb"],
            "million_cpu_ms": asked["hybrid_cpu_ms"],
            "million_vs_exact": asked["vs_exact"],
            "million_index_chunks_per_s": built["index_chunks_per_s"],
        }
    short = f"{chunks // 1000}k"
    figures = {f"{name}_{short}": asked[name] for name in ("hybrid_cpu_ms", "bare_cpu_ms", "ratio_to_bare", "vs_exact")}
    return figures | (built if chunks == LARGE else {})


async def build(home: Path, vault: Path) -> dict[str, Any]:
    """Indexes words, which is timed, and then vectors."""
    before = time.process_time()
    async with open_vault(home, vault, None) as backend:
        spent = time.process_time() - before
        count = (await backend.describe()).items
    async with open_vault(home, vault, RandomEmbedder()) as backend:
        await backend.settle()
        described = await backend.describe()
        if described.vectors != count or described.degraded:
            raise RuntimeError(f"not everything is indexed: {described}")
    return {"index_chunks_per_s": round(count / spent)}


async def follow(home: Path, vault: Path) -> dict[str, Any]:
    """Times a scan that finds nothing new, and the way of one changed file until a search has it.

    Both by the clock, the best of several, and in CPU.
    """
    from fusion.contract import Query, Scope

    looks: list[float] = []
    whole: list[float] = []
    waits: list[float] = []
    spent: list[float] = []
    file = min(vault.rglob("*.md"))
    changes: asyncio.Queue[set[Path]] = asyncio.Queue()

    async def events(folder: Path, _: bool) -> AsyncGenerator[set[Path], None]:
        yield set()
        while True:
            if folder != vault.resolve():
                await asyncio.Event().wait()
            yield await changes.get()

    async with open_vault(home, vault, RandomEmbedder(), events) as backend:
        for number in range(TIMES):
            started, before = time.perf_counter(), time.process_time()
            await backend.refresh()
            looks.append(time.process_time() - before)
            whole.append(time.perf_counter() - started)
            word = f"kestrel{number}touched"
            file.write_text(f"{file.read_text(encoding='utf-8')}\n{word}\n", encoding="utf-8")
            changes.put_nowait({file.resolve()})
            await asyncio.sleep(LONG_ENOUGH_S)
            written, before = time.perf_counter(), time.process_time()
            hits = await backend.search(Query(word, Scope(), datetime.now(UTC), LIMIT, MOST_S))
            waits.append(time.perf_counter() - written)
            spent.append(time.process_time() - before)
            if not any(word in hit.text for hit in hits):  # the first, but for a vector that is near by chance
                raise RuntimeError("a touched file was not found")
    return {
        "noop_sync_ms": round(min(whole) * 1000, 1),
        "noop_sync_cpu_ms": round(median(looks) * 1000, 1),
        "touch_visible_ms": round(min(waits) * 1000, 1),
        "touch_cpu_ms": round(median(spent) * 1000, 1),
    }


def starts(home: Path, vault: Path) -> dict[str, Any]:
    """Time of a new process until its first answer, imports included: the best by the clock, and CPU."""
    clocks: list[float] = []
    spent: list[float] = []
    for _ in range(TIMES):
        before = time.perf_counter()
        figures = child("start", home, vault)
        clocks.append(time.perf_counter() - before - figures["end_s"])
        spent.append(figures["cpu_s"])
    return {"cold_start_s": round(min(clocks), 3), "cold_start_cpu_s": round(median(spent), 3)}


def child(step: str, home: Path, vault: Path) -> dict[str, Any]:
    """Runs a step in its own process and returns what it measured."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.markdown_scale", step, str(home), str(vault)],
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


# What the child process measures


def main(step: str, home: Path, vault: Path) -> None:
    chosen = {"start": start, "ask": ask, "ask-million": ask}[step]
    print(json.dumps(asyncio.run(chosen(home, vault, step == "ask"))))


async def start(home: Path, vault: Path, _: bool) -> dict[str, Any]:
    from fusion.contract import Query, Scope

    async with open_vault(home, vault, RandomEmbedder()) as backend:
        [question] = questions(1)
        if not await backend.search(Query(question, Scope(), datetime.now(UTC), LIMIT)):
            raise RuntimeError("nothing was found")
        cpu_s = time.process_time()
        ended = time.perf_counter()
    return {"cpu_s": cpu_s, "end_s": time.perf_counter() - ended}


async def ask(home: Path, vault: Path, bare: bool) -> dict[str, Any]:
    """Asks the store and the bare engines, over the same texts and vectors, in turns."""
    from fusion.contract import Query, Scope

    asked = questions(QUESTIONS)
    ours: list[float] = []
    theirs: list[float] = []
    async with open_vault(home, vault, RandomEmbedder()) as backend:
        engines = Bare(home.with_name(f"{home.name}-bare"), backend) if bare else None
        for text in asked:
            query = Query(text, Scope(), datetime.now(UTC), LIMIT)
            random_vectors([text])  # encoding the question is not counted
            before = time.process_time()
            hits = await backend.search(query)
            ours.append(time.process_time() - before)
            if len(hits) != LIMIT:
                raise RuntimeError(f"{len(hits)} hits for {text!r}")
            if engines is not None:
                before = time.process_time()
                engines.search(text)
                theirs.append(time.process_time() - before)
        figures: dict[str, Any] = {
            "hybrid_cpu_ms": round(fmean(ours) * 1000, 2),
            "rss_mb": round(memory_mb("VmRSS")),
            "rss_peak_mb": round(memory_mb("VmHWM")),
            "vs_exact": await vs_exact(backend, asked[:EXACT]),
        }
    if engines is not None:
        figures["bare_cpu_ms"] = round(fmean(theirs) * 1000, 2)
        figures["ratio_to_bare"] = round(fmean(ours) / fmean(theirs), 2)
    return figures


def questions(count: int) -> list[str]:
    """Questions as people ask them: a third of the words are function words, and some of the others are common."""
    draw = Random("questions")
    return [f"what did we say about {sentence(draw, draw.randrange(30, 70))}?" for _ in range(count)]


def memory_mb(name: str) -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(next(line for line in status.splitlines() if line.startswith(f"{name}:")).split()[1]) / 1024


async def vs_exact(backend: Markdown, asked: Sequence[str]) -> float:
    """The share of the 20 nearest by unrounded vectors that the int8 search finds."""
    import numpy as np

    from fusion.contract import Scope

    queries = random_vectors(asked)
    best: list[list[tuple[float, str]]] = [[] for _ in asked]
    for entries in portions(iter(backend.entries()), 5000):
        cosines = queries @ random_vectors([entry.text for entry in entries]).T
        for row, kept in zip(cosines, best, strict=True):
            near = np.argpartition(-row, LIMIT)[:LIMIT] if len(row) > LIMIT else range(len(row))
            kept.extend((float(row[i]), entries[i].key) for i in near)
            kept.sort(reverse=True)
            del kept[LIMIT:]
    shares = []
    for text, kept in zip(asked, best, strict=True):
        found = {key for key, _ in await backend.index.similar(text, Scope(), LIMIT)}
        shares.append(sum(key in found for _, key in kept) / len(kept))
    return round(fmean(shares), 4)


def portions(items: Iterator[Entry], size: int) -> Iterator[list[Entry]]:
    while portion := list(islice(items, size)):
        yield portion


class Bare:
    """The bare engines: tantivy over the same terms, numpy over the same int8 rows."""

    def __init__(self, folder: Path, backend: Markdown) -> None:
        import numpy as np
        import tantivy

        from adapters.index.lexical import terms
        from adapters.index.matrix import quantised

        folder.mkdir()
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("key", stored=True, tokenizer_name="raw", index_option="basic")
        builder.add_text_field("terms", tokenizer_name="whitespace", index_option="freq")
        self._index = tantivy.Index(builder.build(), path=str(folder))
        writer = self._index.writer(heap_size=100_000_000, num_threads=1)
        self._keys: list[str] = []
        rows: list[Any] = []
        for entries in portions(iter(backend.entries()), 5000):
            for entry in entries:
                writer.add_document(tantivy.Document(key=entry.key, terms=" ".join(terms(entry.text))))
            self._keys += [entry.key for entry in entries]
            rows += [quantised(vector) for vector in random_vectors([entry.text for entry in entries])]
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._rows = np.stack(rows)
        self._scales = np.asarray(1 / np.linalg.norm(self._rows.astype(np.float32), axis=1), np.float32)

    def search(self, text: str) -> list[str]:
        """The keys of both lists, fused by rank."""
        import numpy as np
        from tantivy import Occur, Query

        from adapters.index.lexical import terms
        from fusion.lib.rank_fusion import rank_fusion, ranked

        schema, searcher = self._index.schema, self._index.searcher()
        wanted = [(Occur.Should, Query.term_query(schema, "terms", term)) for term in dict.fromkeys(terms(text))]
        hits = searcher.search(Query.boolean_query(wanted), LIMIT).hits
        words = [searcher.doc(address).get_first("key") for _, address in hits]
        query = random_vectors([text])[0]
        cosines = np.empty(len(self._rows), np.float32)
        for low in range(0, len(cosines), 2048):
            np.dot(self._rows[low : low + 2048].astype(np.float32), query, out=cosines[low : low + 2048])
        cosines *= self._scales
        near = np.argpartition(-cosines, LIMIT)[:LIMIT]
        vectors = [self._keys[i] for i in near[np.argsort(-cosines[near])]]
        scores = rank_fusion(map(ranked, (words, vectors)))
        return sorted(scores, key=lambda key: -scores[key])[:LIMIT]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
