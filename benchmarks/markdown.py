"""Markdown memory at scale: what a search, a start, a change and a look cost; and what fusing gains on MuSiQue.

The vault is synthetic: files of ten sections, their words drawn as natural ones are (`benchmarks.synthetic_text`).
Random unit vectors, drawn by each text's hash, stand in for embeddings: brute force costs the same for any vectors, and
random ones are harder to rank than real ones, which lie further from each other. MuSiQue is embedded for real.

Each size is asked in a process of its own, so that its memory and its CPU are those of the search alone; what only the
benchmark needs is imported where it is used, for such a process pays for what it imports.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from benchmarks.synthetic_text import sentence

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    import numpy as np
    from numpy.typing import NDArray

    from adapters.index import Entry
    from adapters.markdown import Markdown
    from benchmarks.datasets import Corpus
    from fusion.contract import Embedder, TokenVectors
    from fusion.lib.watch import Changes

    Floats = NDArray[np.float32]

SMALL, LARGE, MILLION = 10_000, 100_000, 1_000_000
SECTIONS = 10
"""of a file, each of them a chunk"""
CHARACTERS = 420
"""of a section: about 75 words"""
DIMENSIONS = 384
LIMIT = 20
QUESTIONS = 60
EXACT = 20
"""questions whose answers are compared with exact ones"""
TIMES = 5
"""a figure that is not a mean of many is taken so often: the median of CPU, the best of times by the clock, which show
how busy the machine was"""
R_AT = 5
MOST_S = 3600.0
LONG_ENOUGH_S = 0.1
"""until a file's last change is too old to be taken for one that may follow within the same tick of its clock"""


class Drawn:
    """A random unit vector for each text, the same in every process."""

    identity = "drawn@1"
    dimensions = DIMENSIONS

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        return drawn(texts)

    async def query_tokens(self, text: str) -> TokenVectors:
        raise NotImplementedError

    async def tokens(self, texts: Sequence[str], deadline_s: float) -> Sequence[TokenVectors | None]:
        return [None] * len(texts)

    async def forget(self, texts: Sequence[str]) -> None:
        pass

    async def close(self) -> None:
        pass


def drawn(texts: Sequence[str]) -> Floats:
    import numpy as np

    return np.array([_one(text) for text in texts], np.float32).reshape(len(texts), DIMENSIONS)


@lru_cache(maxsize=QUESTIONS)
def _one(text: str) -> Floats:
    """Cached, as an embedder caches a question: to draw it again would count as searching."""
    import numpy as np

    from fusion.lib.words import content_hash

    row = np.random.default_rng(int(content_hash(text)[:16], 16)).standard_normal(DIMENSIONS, np.float32)
    return np.asarray(row / np.linalg.norm(row), np.float32)


def run(data: Path | None, million: bool) -> dict[str, Any]:
    """Measures all figures, those of MuSiQue only with ``data``, those of a million chunks only with ``million``."""
    from benchmarks.figures import commit
    from benchmarks.progress import steps

    corpus = None if data is None else read_musique(data)
    sizes = (SMALL, LARGE, MILLION) if million else (SMALL, LARGE)
    titles = [f"{chunks:,} chunks: {work}" for chunks in sizes for work in ("writing", "indexing", "asking")]
    titles += ["changes and starts", *(["MuSiQue"] if corpus is not None else ())]
    figures: dict[str, Any] = {"vectors": "random unit vectors stand in for embeddings, but for MuSiQue"}
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as name, steps(titles) as done:
        folder = Path(name)
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
        if corpus is not None:
            figures |= asyncio.run(musique(folder, corpus))
            done()
    return {**figures, "commit": commit(), "date": datetime.now(UTC).date().isoformat()}


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


def write_vault(folder: Path, chunks: int) -> None:
    """Writes a vault: files of ten sections, in a hundred folders."""
    draw = Random(chunks)
    for number in range(chunks // SECTIONS):
        path = folder / f"area {number % 100:02}" / f"note {number:06}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        sections = (f"## {sentence(draw, 24)}\n\n{sentence(draw, CHARACTERS)}\n" for _ in range(SECTIONS))
        path.write_text("\n".join(sections), encoding="utf-8")


@asynccontextmanager
async def opened(
    home: Path, vault: Path, embedder: Embedder | None, heard: Changes | None = None
) -> AsyncIterator[Markdown]:
    """``heard`` reports changes of files."""
    from adapters.markdown import Markdown, Timing
    from fusion.contract import Opening

    options = {
        "paths": [str(vault)],
        "watch": heard is not None,
        "debounce_s": MOST_S,
        "interval_s": 0,
        "scan_interval_s": MOST_S,
    }
    timing = Timing() if heard is None else Timing(changes=heard)
    backend = await Markdown.open(Opening("markdown", home, options, embedder), timing=timing)
    try:
        yield backend
    finally:
        await backend.close()


async def build(home: Path, vault: Path) -> dict[str, Any]:
    """Indexes words, which is timed, and then vectors."""
    before = time.process_time()
    async with opened(home, vault, None) as backend:
        spent = time.process_time() - before
        count = (await backend.describe()).items
    async with opened(home, vault, Drawn()) as backend:
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

    async def notices(folder: Path, _: bool) -> AsyncGenerator[set[Path], None]:
        yield set()
        while True:
            if folder != vault.resolve():
                await asyncio.Event().wait()
            yield await changes.get()

    async with opened(home, vault, Drawn(), notices) as backend:
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
    """Runs a step in a process of its own, and gives what it measured."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.markdown", step, str(home), str(vault)],
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


# What a process of its own measures


def main(step: str, home: Path, vault: Path) -> None:
    measure = {"start": start, "ask": ask, "ask-million": ask}[step]
    print(json.dumps(asyncio.run(measure(home, vault, step == "ask"))))


async def start(home: Path, vault: Path, _: bool) -> dict[str, Any]:
    from fusion.contract import Query, Scope

    async with opened(home, vault, Drawn()) as backend:
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
    async with opened(home, vault, Drawn()) as backend:
        engines = Bare(home.with_name(f"{home.name}-bare"), backend) if bare else None
        for text in asked:
            query = Query(text, Scope(), datetime.now(UTC), LIMIT)
            drawn([text])  # encoding the question is not counted
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

    queries = drawn(asked)
    best: list[list[tuple[float, str]]] = [[] for _ in asked]
    for entries in portions(iter(backend.entries()), 5000):
        cosines = queries @ drawn([entry.text for entry in entries]).T
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
            rows += [quantised(vector) for vector in drawn([entry.text for entry in entries])]
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
        query = drawn([text])[0]
        cosines = np.empty(len(self._rows), np.float32)
        for low in range(0, len(cosines), 2048):
            np.dot(self._rows[low : low + 2048].astype(np.float32), query, out=cosines[low : low + 2048])
        cosines *= self._scales
        near = np.argpartition(-cosines, LIMIT)[:LIMIT]
        vectors = [self._keys[i] for i in near[np.argsort(-cosines[near])]]
        scores = rank_fusion(map(ranked, (words, vectors)))
        return sorted(scores, key=lambda key: -scores[key])[:LIMIT]


# MuSiQue


def read_musique(data: Path) -> Corpus:
    """MuSiQue's one corpus. Raises DataError."""
    from benchmarks.datasets.musique import load

    [corpus] = load(data)
    return corpus


async def musique(folder: Path, corpus: Corpus) -> dict[str, Any]:
    """Of the paragraphs that support an answer, the share among the first five files: by the default ranking, by the
    same without what hits lead to (`mention_lift = 0`), by rank (`merge = "rrf"`), and by either half alone."""
    from adapters.embedders.minilm import MiniLM
    from fusion.compare.verdict import paired

    vault, home = folder / "musique", folder / "home-musique"
    files = write_paragraphs(vault, corpus)
    embedder = await MiniLM.open(folder / "model", {})
    try:
        found = await rankings(home, vault, corpus, embedder)
    finally:
        await embedder.close()
    recalls: dict[str, list[float]] = {}
    for arm, ranked in found.items():
        recalls[arm] = [
            sum(files[document] in set(question.gold) for document in documents[:R_AT]) / len(question.gold)
            for question, documents in zip(corpus.questions, ranked, strict=True)
        ]
    figures: dict[str, Any] = {f"musique_{arm}_r5": round(fmean(values), 4) for arm, values in recalls.items()}
    for arm in ("bm25", "dense"):
        figures[f"musique_hybrid_over_{arm}"] = asdict(paired(recalls[arm], recalls["hybrid"]))
        figures[f"musique_unlinked_over_{arm}"] = asdict(paired(recalls[arm], recalls["unlinked"]))
    return figures


def write_paragraphs(vault: Path, corpus: Corpus) -> dict[str, str]:
    """Writes a file for each paragraph, called by its title; gives the paragraph's id of each document."""
    vault.mkdir()
    files: dict[str, str] = {}
    for item in corpus.memories:
        title = re.sub(r"[^\w' -]+", " ", item.text.partition(". ")[0])[:80].strip() or "note"
        name, copy = title, 1
        while f"{vault.name}/{name}.md" in files:
            copy += 1
            name = f"{title} {copy}"
        files[f"{vault.name}/{name}.md"] = item.id
        (vault / f"{name}.md").write_text(f"{item.text}\n", encoding="utf-8")
    return files


async def rankings(home: Path, vault: Path, corpus: Corpus, embedder: Embedder) -> dict[str, list[list[str]]]:
    """By arm, the documents found for each question, best first."""
    from adapters.markdown.ranking import Ranking
    from fusion.contract import Query, Scope

    others = {"unlinked": Ranking(mention_lift=0), "rrf": Ranking("rrf", mention_lift=0)}
    found: dict[str, list[list[str]]] = {arm: [] for arm in ("hybrid", *others, "bm25", "dense")}
    async with opened(home, vault, embedder) as backend:
        await backend.settle()
        for question in corpus.questions:
            query = Query(question.text, Scope(), datetime.now(UTC), LIMIT)
            hits = await backend.search(query)
            words = await backend.index.lexical(question.text, Scope(), LIMIT)
            vectors = await backend.index.similar(question.text, Scope(), LIMIT)
            found["hybrid"].append(documents(hit.native_id for hit in hits))
            for arm, ranking in others.items():
                items = await backend.find(query, ranking)
                found[arm].append(documents(item.hit.native_id for item in items))
            found["bm25"].append(documents(key for key, _ in words))
            found["dense"].append(documents(key for key, _ in vectors))
    return found


def documents(ids: Iterable[str]) -> list[str]:
    """The files that ids of chunks are in, each once."""
    return list(dict.fromkeys(one.rpartition("#")[0] for one in ids))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
