"""Compares the rankings of the Markdown backend (hybrid, words alone, vectors alone) by kind of question.

The project wrote both the vault in `data/vault` and its questions: they show what each half is good for, and prove
nothing.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from adapters.embedders.local import LocalEmbedder
from adapters.markdown import Markdown
from adapters.markdown.ranking import MERGES, Ranking
from benchmarks.datasets import DataError, field, read_json
from benchmarks.figures import commit
from fusion.contract import Opening, Query, Scope

DATA = Path(__file__).parent / "data" / "vault"
TOP = 5
DEPTH = 50
NOW = datetime(2026, 5, 1, tzinfo=UTC)
SCOPE = Scope(audience="private")
RANKINGS: Mapping[str, Ranking] = {
    **{f"hybrid ({merge})": Ranking(merge) for merge in MERGES},
    "hybrid, no mentions": Ranking(mention_lift=0),
    "words alone": Ranking("weighted", vector_weight=0, text_weight=1, mention_lift=0),
    "vectors alone": Ranking("weighted", vector_weight=1, text_weight=0, mention_lift=0),
}


@dataclass(frozen=True, slots=True)
class VaultQuestion:
    text: str
    kind: str
    files: frozenset[str]


def run(vault: Path = DATA / "notes", questions: Path = DATA / "questions.json") -> dict[str, Any]:
    """By kind of question and way of searching: the share of questions with a right file among the first five, and the
    mean reciprocal rank of the first one. Raises DataError."""
    asked = read(questions)
    ranks = asyncio.run(_ranks(vault, asked))
    kinds = list(dict.fromkeys(one.kind for one in asked))
    return {
        "questions": len(asked),
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "by_kind": {
            kind: {way: figures(_of_kind(kind, asked, found)) for way, found in ranks.items()} for kind in kinds
        },
        "all": {way: figures(found) for way, found in ranks.items()},
    }


def read(path: Path) -> tuple[VaultQuestion, ...]:
    entries = read_json(path)
    if not isinstance(entries, list) or not entries:
        raise DataError(f"{path}: a list of queries is expected")
    return tuple(
        VaultQuestion(
            field(entry, "query", str, f"{path}, query {n}"),
            str(entry.get("category", "all")),
            frozenset(field(entry, "files", list, f"{path}, query {n}")),
        )
        for n, entry in enumerate(entries)
    )


def _of_kind(kind: str, asked: Sequence[VaultQuestion], found: Sequence[int | None]) -> list[int | None]:
    return [rank for rank, one in zip(found, asked, strict=True) if one.kind == kind]


def figures(ranks: Sequence[int | None]) -> dict[str, float]:
    """``ranks`` of the first right file, from 1; None where there was none."""
    return {
        "hit_at_5": round(sum(rank is not None and rank <= TOP for rank in ranks) / len(ranks), 4),
        "mrr": round(sum(1 / rank for rank in ranks if rank is not None) / len(ranks), 4),
    }


async def _ranks(vault: Path, asked: Sequence[VaultQuestion]) -> Mapping[str, list[int | None]]:
    with tempfile.TemporaryDirectory(prefix="memory-fusion-vault-") as folder:
        embedder = await LocalEmbedder.open(Path(folder) / "embedder", {})
        backend = await Markdown.open(Opening("markdown", Path(folder) / "home", {"paths": [str(vault)]}, embedder))
        try:
            await backend.settle()
            return {way: [await _rank(backend, one, ranking) for one in asked] for way, ranking in RANKINGS.items()}
        finally:
            await backend.close()
            await embedder.close()


async def _rank(backend: Markdown, asked: VaultQuestion, ranking: Ranking) -> int | None:
    """The rank of the first hit in a right file."""
    found = await backend.find(Query(asked.text, SCOPE, NOW, limit=DEPTH), ranking)
    files = [item.hit.place.document.partition("/")[2] for item in found if item.hit.place]
    return next((rank for rank, file in enumerate(files, start=1) if file in asked.files), None)
