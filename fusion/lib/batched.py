"""Batches with a bounded count and size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def batched(items: Iterable[T], bytes_of: Callable[[T], int], *, most: int, most_bytes: int) -> Iterator[list[T]]:
    """Batches of at most ``most`` items and ``most_bytes`` bytes; a larger item is alone in its batch.

    Reads one item beyond each batch before it yields it.
    """
    batch: list[T] = []
    total = 0
    for item in items:
        size = bytes_of(item)
        if batch and (len(batch) == most or total + size > most_bytes):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch
