"""A vault of Markdown for the benchmarks: synthetic notes, random vectors, and the backend opened on a folder.

The words of the notes are drawn as natural ones are (`benchmarks.synthetic_text`). Random unit vectors, drawn by each
text's hash, stand in for embeddings: brute force costs the same for any vectors, and random ones are harder to rank
than real ones, which lie further from each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from benchmarks.synthetic_text import sentence

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import numpy as np
    from numpy.typing import NDArray

    from adapters.markdown import Markdown
    from fusion.contract import Embedder, TokenVectors
    from fusion.lib.watch import Changes

    Floats = NDArray[np.float32]

SECTIONS = 10
"""of a file, each of them a chunk"""
CHARACTERS = 420
"""of a section: about 75 words"""
DIMENSIONS = 384
LIMIT = 20
"""hits of a question"""
QUESTIONS = 60
MOST_S = 3600.0
"""a time that never passes during a benchmark"""


class RandomEmbedder:
    """A random unit vector for each text, the same in every process."""

    identity = "drawn@1"
    dimensions = DIMENSIONS

    async def embed(self, texts: Sequence[str], *, keep: bool = True) -> Floats:
        return random_vectors(texts)

    async def query_tokens(self, text: str) -> TokenVectors:
        raise TypeError("random vectors have no tokens; with none in the store, no question asks for its own")

    async def tokens(self, texts: Sequence[str], deadline_s: float) -> Sequence[TokenVectors | None]:
        return [None] * len(texts)

    async def forget(self, texts: Sequence[str]) -> None:
        pass

    async def close(self) -> None:
        pass


def random_vectors(texts: Sequence[str]) -> Floats:
    """One unit vector for each text."""
    import numpy as np

    return np.array([_random_vector(text) for text in texts], np.float32).reshape(len(texts), DIMENSIONS)


@lru_cache(maxsize=QUESTIONS)
def _random_vector(text: str) -> Floats:
    """Cached, as an embedder caches a question: to draw it again would count as searching."""
    import numpy as np

    from fusion.lib.words import content_hash

    row = np.random.default_rng(int(content_hash(text)[:16], 16)).standard_normal(DIMENSIONS, np.float32)
    return np.asarray(row / np.linalg.norm(row), np.float32)


def write_vault(folder: Path, chunks: int) -> None:
    """Writes a vault: files of ten sections, in a hundred folders."""
    draw = Random(chunks)
    for number in range(chunks // SECTIONS):
        path = folder / f"area {number % 100:02}" / f"note {number:06}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        sections = (f"## {sentence(draw, 24)}\n\n{sentence(draw, CHARACTERS)}\n" for _ in range(SECTIONS))
        path.write_text("\n".join(sections), encoding="utf-8")


@asynccontextmanager
async def open_vault(
    home: Path, vault: Path, embedder: Embedder | None, changes: Changes | None = None
) -> AsyncIterator[Markdown]:
    """Open the Markdown backend on a vault. ``changes`` reports changes of files; without it, nothing is watched."""
    from adapters.markdown import Markdown, Timing
    from fusion.contract import Opening

    options = {
        "paths": [str(vault)],
        "watch": changes is not None,
        "debounce_s": MOST_S,
        "interval_s": 0,
        "scan_interval_s": MOST_S,
    }
    timing = Timing() if changes is None else Timing(changes=changes)
    backend = await Markdown.open(Opening("markdown", home, options, embedder), timing=timing)
    try:
        yield backend
    finally:
        await backend.close()
