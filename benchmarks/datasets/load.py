"""Loads a data set by the name of its format."""

from __future__ import annotations

from pathlib import Path

from benchmarks.datasets import Corpus, DataError, beam, beir, folder, locomo, longmemeval, musique


def load(dataset: str, data: Path, queries: Path | None = None) -> tuple[Corpus, ...]:
    """The corpora of a data set. Raises DataError for an unknown format and for data that cannot be read."""
    if dataset == "folder":
        if queries is None:
            raise DataError("a folder needs --queries FILE: a JSON list of queries with the files that answer them")
        return folder.load(data, queries)
    loaders = {
        "locomo": locomo.load,
        "musique": musique.load,
        "longmemeval": longmemeval.load,
        "beam": beam.load,
        "beir": beir.load,
    }
    if dataset not in loaders:
        raise DataError(f"no format is called {dataset!r}; there are folder, {', '.join(loaders)}")
    return loaders[dataset](data)
