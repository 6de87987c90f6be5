"""Entries, openings and comparisons of a small index, which its tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from adapters.index import Entry, Index, SearchResult
from fusion.contract import Embedder, Scope

ANN, BOB = Scope(user_id="ann"), Scope(user_id="bob")
CATS = [
    Entry("cat", ANN, "the red cat sleeps on the sofa"),
    Entry("dog", ANN, "a blue dog barks at the postman"),
    Entry("car", ANN, "the red car was sold in March"),
    Entry("bob", BOB, "the red cat of Bob"),
]


class Large(Index):
    """One whose halves are searched in two threads, however little it holds."""

    small = -1


both_ways = pytest.mark.parametrize("kind", [Index, Large])


@asynccontextmanager
async def opened(
    folder: Path, embedder: Embedder | None, truth: Iterable[Entry] = CATS, kind: type[Index] = Index
) -> AsyncIterator[Index]:
    index = await kind.open(folder, embedder, truth)
    try:
        yield index
    finally:
        await index.close()


def keys(found: Sequence[SearchResult] | Sequence[tuple[str, float]]) -> list[str]:
    return [hit.key if isinstance(hit, SearchResult) else hit[0] for hit in found]


LONG = "red cat; blue dog; green parrot"
"""a text of three passages"""


def entry_of(number: int, text: str) -> Entry:
    return Entry(f"k{number}", ANN, text, tuple(text.split("; ")) if text == LONG else ())


async def found_everywhere(index: Index) -> list[list[tuple[str, float]]]:
    await index.settle()
    return [
        [(hit.key, hit.cosine or 0.0) for hit in await index.search(text, scope, 10)]
        for text in ("red cat", "blue dog", "car sold in March")
        for scope in (ANN, BOB, Scope())
    ]
