"""MuSiQue as a vault of Markdown: how well its paragraphs are found by the ranking and by each half of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from benchmarks.markdown_vault import LIMIT, open_vault

if TYPE_CHECKING:
    from benchmarks.datasets import Corpus
    from fusion.contract import Embedder

R_AT = 5


def read_musique(data: Path) -> Corpus:
    """MuSiQue's one corpus. Raises DataError."""
    from benchmarks.datasets.musique import load

    [corpus] = load(data)
    return corpus


async def musique(folder: Path, corpus: Corpus) -> dict[str, Any]:
    """The share of the supporting paragraphs that are among the first five files.

    The arms are the default ranking, the same without mentions (`mention_lift = 0`), by rank (`merge = "rrf"`), and
    each half alone.
    """
    from adapters.embedders.local import LocalEmbedder
    from fusion.compare.verdict import paired

    vault, home = folder / "musique", folder / "home-musique"
    files = write_paragraphs(vault, corpus)
    embedder = await LocalEmbedder.open(folder / "model", {})
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
    """Writes a file for each paragraph, named by its title. Returns the paragraph's id for each document."""
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
    async with open_vault(home, vault, embedder) as backend:
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
