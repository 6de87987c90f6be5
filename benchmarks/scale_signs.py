"""What a search among very many vectors finds when their signs choose the rows that are compared.

A row is a mixture of the local model's vectors of two texts, with noise of the same covariance; the texts are the
docstrings of Python's standard library. A question is the vector of a text that is in no row. Vectors drawn evenly
from the sphere would have no neighbours, so "the nearest" of them would say nothing.
"""

from __future__ import annotations

import ast
import asyncio
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

import numpy as np

from adapters.embedders.local import LocalEmbedder
from adapters.index.matrix import Matrix, quantised
from benchmarks.progress import bar

if TYPE_CHECKING:
    from fusion.contract import Floats

ROWS = 1_000_000
TEXTS, QUESTIONS = 4_000, 50
LONGEST = 400
"""characters of a text"""
NEAREST = 100
BATCH = 20_000
SHARE, NOISE = 0.6, 0.5
"""of a row: its first text, and noise"""


class Exact(Matrix):
    """Compares every row."""

    many = 2**40


def run(rows: int = ROWS, texts: int = TEXTS) -> dict[str, Any]:
    """The share of the nearest that is found among ``rows``, and milliseconds of CPU of both searches."""
    vectors = asyncio.run(_encoded(list(islice(docstrings(), texts))))
    asked, base = vectors[:QUESTIONS], vectors[QUESTIONS:]
    with tempfile.TemporaryDirectory(prefix="signs-") as folder:
        exact = Exact(Path(folder) / "rows", base.shape[1])
        sums = _fill(exact, base, rows)
        by_signs = Matrix(Path(folder) / "rows", base.shape[1])
        by_signs.load(np.arange(rows), np.ones(rows, np.int64), np.array(sums, np.int64))
        wanted, exact_ms = _searched(exact, asked)
        found, signs_ms = _searched(by_signs, asked)
        for matrix in (exact, by_signs):
            matrix.close()
    shares = [len(one & other) / len(one) for one, other in zip(wanted, found, strict=True)]
    return {
        "rows": rows,
        "texts": len(base),
        f"recall_at_{NEAREST}": round(mean(shares), 4),
        "least_recall": round(min(shares), 4),
        "cpu_ms": round(signs_ms, 1),
        "exact_cpu_ms": round(exact_ms, 1),
    }


def docstrings() -> Iterator[str]:
    """The docstrings of Python's standard library, each text once, in the order of its files."""
    known = set[str]()
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = (ast.get_docstring(node) or "")[:LONGEST]
                if text not in known:
                    known.add(text)
                    yield text


async def _encoded(texts: Sequence[str]) -> Floats:
    with tempfile.TemporaryDirectory(prefix="signs-") as folder:
        embedder = await LocalEmbedder.open(Path(folder), {})
        try:
            return await embedder.embed(texts, keep=False)
        finally:
            await embedder.close()


def _fill(matrix: Matrix, base: Floats, rows: int) -> list[int]:
    """Write the rows; their checksums."""
    sums: list[int] = []
    draw = np.random.default_rng(5)
    spread = np.linalg.cholesky(np.cov(base.T) + 1e-6 * np.eye(base.shape[1])).astype(np.float32)
    with bar(f"{rows:,} rows", rows) as advance:
        for start in range(0, rows, BATCH):
            count = min(BATCH, rows - start)
            first, second = (base[draw.integers(0, len(base), count)] for _ in range(2))
            noise = draw.standard_normal((count, base.shape[1]), np.float32) @ spread.T
            made = SHARE * first + (1 - SHARE) * second + NOISE * noise
            made /= np.linalg.norm(made, axis=1, keepdims=True)
            sums += matrix.write(range(start, start + count), [1] * count, [quantised(row) for row in made])
            advance(count)
    return sums


def _searched(matrix: Matrix, asked: Floats) -> tuple[list[set[str]], float]:
    found = []
    began = time.process_time()
    for query in asked:
        hits = matrix.search(query, None, NEAREST, lambda slots: [(slot, str(slot)) for slot in slots])
        found.append({name for name, _ in hits})
    return found, (time.process_time() - began) * 1000 / len(asked)
