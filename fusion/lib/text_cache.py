"""Caches of what was computed for a text, which are emptied when a memory is forgotten.

Memories are ranked again and again, so what their words are is kept for a while, under their texts. A forgotten text
must not stay in the process until others take its place. Use `text_cache` instead of `functools.lru_cache` for every
function of a text of a memory, or of its words.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Protocol, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class Cache(Protocol):
    """What can be emptied."""

    def cache_clear(self) -> None: ...


_caches: WeakSet[Cache] = WeakSet()


def text_cache(maxsize: int) -> Callable[[Callable[..., T]], _lru_cache_wrapper[T]]:
    """A decorator that keeps the results for the ``maxsize`` arguments that were used last."""

    def cached(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
        cache = lru_cache(maxsize)(function)
        _caches.add(cache)
        return cache

    return cached


def emptied_with_texts(cache: Cache) -> None:
    """Empty another cache together with those of `text_cache`, for as long as it exists."""
    _caches.add(cache)


def empty_text_caches() -> None:
    """Empty all of them: what they had is computed again when it is needed."""
    for cache in list(_caches):
        cache.cache_clear()
