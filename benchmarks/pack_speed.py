"""Measures how long a context pack takes compared with ``/fuse``, on one home with 10,000 memories.

The same questions are asked in both ways by turns, so that the load of the machine is the same for both; the figure is
the ratio. One memory in twenty is long, since its layers cost something.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from benchmarks.fill_stores import BATCH, TIMEOUT_MS
from benchmarks.pack import Data
from benchmarks.progress import bar
from benchmarks.synthetic_text import question, sentence
from fusion.contract import Scope
from fusion.gateway.gateway import Gateway
from fusion.gateway.interpreter import settled_heap
from fusion.gateway.packing import PackRequest
from fusion.ingest.intake import NewMemory
from fusion.settings import load

MEMORIES = 10_000
QUESTIONS = 200
SENTENCES_OF_LONG = 15
LONG_IN = 20
"""one memory in so many is long"""
CHARACTERS = 80
SCOPE = Scope(user_id="ada", audience="private")


def measure(data: Data) -> dict[str, Any]:
    """The median milliseconds of a pack and of ``/fuse``, and their ratio; ``data.limit`` limits the questions."""
    return asyncio.run(pack_speed(questions=data.limit or QUESTIONS))


async def pack_speed(memories: int = MEMORIES, questions: int = QUESTIONS) -> dict[str, Any]:
    """The same, with so many memories."""
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        async with Gateway.open(load(home=Path(folder) / "home")) as gateway:
            await _fill(gateway, memories)
            draw = Random("pack speed")
            asked = [question(draw) for _ in range(questions)]
            for text in asked:  # encodes the texts that it finds, and fills the caches for both
                await gateway.fuse(text, scope=SCOPE, timeout_ms=TIMEOUT_MS, gate=False)
            await gateway.settle()
            pairs = []
            with bar("questions", questions) as advance, settled_heap():
                for number, text in enumerate(asked):
                    pairs.append(await _pair(gateway, text, pack_first=bool(number % 2)))
                    advance(1)
    packs, fused = zip(*pairs, strict=True)
    return {
        "memories": memories,
        "questions": questions,
        "pack_p50_ms": round(median(packs) * 1000, 2),
        "fuse_p50_ms": round(median(fused) * 1000, 2),
        "ratio_of_p50": round(median(packs) / median(fused), 3),
        "median_ratio": round(median(pack / fuse for pack, fuse in pairs), 3),
    }


async def _fill(gateway: Gateway, memories: int) -> None:
    draw = Random("memories")
    texts = [
        " ".join(sentence(draw, CHARACTERS) for _ in range(SENTENCES_OF_LONG if number % LONG_IN == 0 else 1))
        for number in range(memories)
    ]
    for start in range(0, memories, BATCH):
        await gateway.remember([NewMemory(text, SCOPE) for text in texts[start : start + BATCH]])
    await gateway.settle()


async def _pair(gateway: Gateway, text: str, *, pack_first: bool) -> tuple[float, float]:
    """The seconds of a pack, and of ``/fuse`` at the same limit of tokens."""

    async def packed() -> object:
        return await gateway.pack(PackRequest(text, SCOPE, timeout_ms=TIMEOUT_MS))

    async def fused() -> object:
        return await gateway.fuse(text, scope=SCOPE, timeout_ms=TIMEOUT_MS, gate=False, budget_tokens=1200)

    if pack_first:
        pack = await _seconds(packed)
        return pack, await _seconds(fused)
    fuse = await _seconds(fused)
    return await _seconds(packed), fuse


async def _seconds(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began
