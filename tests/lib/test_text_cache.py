"""Caches of what was computed for a text: a forgotten text is in none of them."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from pathlib import Path
from uuid import uuid4

import pytest

from fusion.gateway.gateway import Gateway
from fusion.lib.text_cache import empty_text_caches, text_cache
from tests.gateway.helpers import NADIA, embedded, remember

TEXTS = frozenset("text question prompt said sentence word words one_text beginning predicate name term".split())
"""parameters that are a text, or a part of one"""
NO_MEMORIES = {
    "fusion/lib/moment.py:zone_of": "a time zone",
    "adapters/qdrant/payload.py:_microseconds": "a time",
}


def test_cache_is_emptied() -> None:
    calls = []

    @text_cache(8)
    def length(text: str) -> int:
        calls.append(text)
        return len(text)

    assert (length("tea"), length("tea"), calls) == (3, 3, ["tea"])
    empty_text_caches()
    assert (length("tea"), calls) == (3, ["tea", "tea"])


def cached_functions(file: Path) -> Iterator[tuple[str, set[str]]]:
    """The functions of a module that are cached by `functools`, with the names of their parameters."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef):
            decorators = {ast.unparse(one).partition("(")[0] for one in node.decorator_list}
            if decorators & {"lru_cache", "cache", "functools.lru_cache", "functools.cache"}:
                yield node.name, {argument.arg for argument in node.args.args}


@pytest.mark.feature("every cache that has texts of memories as its keys is emptied when something is forgotten")
def test_functions_of_texts_are_cached_in_a_text_cache() -> None:
    root = Path(__file__).parents[2]
    found = {
        f"{file.relative_to(root)}:{name}"
        for folder in ("fusion", "adapters")
        for file in (root / folder).rglob("*.py")
        for name, parameters in cached_functions(file)
        if parameters & TEXTS
    }
    assert found == set(NO_MEMORIES)


@pytest.mark.feature("a forgotten text is in no cache of the process")
async def test_forgotten_text_is_nowhere_in_memory(home: Path) -> None:
    """Asked for, packed, forgotten: no object of the process has it any more."""
    name = f"Zq{uuid4().hex[:12]}"
    async with Gateway.open(embedded(home)) as gateway:
        (ref,) = await remember(gateway, f"The harbour pilot {name} does not like to work on Sundays")
        fused = await gateway.fuse("does the harbour pilot work on sundays?", scope=NADIA)
        assert name in fused.block
        del fused
        await gateway.forget(ref, NADIA)
        await gateway.settle()
        gc.collect()
        assert holders(name) == []


def holders(name: str) -> list[str]:
    """The objects that hold a text with a name in it, other than this test's own."""
    found = []
    for one in gc.get_objects():
        if isinstance(one, (dict, list, tuple, set, frozenset, _lru_cache_wrapper)):
            texts = [text for text in gc.get_referents(one) if type(text) is str and name in text and text != name]
            named = getattr(getattr(one, "__wrapped__", None), "__qualname__", type(one).__name__)
            found += [f"{named}: {texts[0][:60]}"] if texts else []
    return found
