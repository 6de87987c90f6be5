"""Markdown memory: what it costs at scale, and what fusing words and vectors gains on MuSiQue."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import commit
from benchmarks.markdown_musique import musique, read_musique
from benchmarks.markdown_scale import LARGE, MILLION, SMALL, measure, steps_of
from benchmarks.progress import steps


def run(data: Path | None, million: bool) -> dict[str, Any]:
    """Measures all figures, those of MuSiQue only with ``data``, those of a million chunks only with ``million``."""
    corpus = None if data is None else read_musique(data)
    sizes = (SMALL, LARGE, MILLION) if million else (SMALL, LARGE)
    titles = [*steps_of(sizes), *(["MuSiQue"] if corpus is not None else ())]
    figures: dict[str, Any] = {"vectors": "random unit vectors stand in for embeddings, but for MuSiQue"}
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as name, steps(titles) as done:
        figures |= measure(Path(name), sizes, done)
        if corpus is not None:
            figures |= asyncio.run(musique(Path(name), corpus))
            done()
    return {**figures, "commit": commit(), "date": datetime.now(UTC).date().isoformat()}
