"""Measures the isolation of tenants: fields of replies to one that depend on another, and words that leak."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.progress import bar
from tests.fire.tenants import PLANTED, TOPICS, Act, compared, drawn, oracle

PAIRS = (("acme", "globex"), ("default", "globex"), ("acme", "default"))
"""who asks, and who else works: two customers, the owner and a customer, a customer and the owner"""
SEEDS, SEEDS_SHORT = 30, 1
WORDS_SHORT = 3
ACTS, ACTS_SHORT = 10, 4


def measure(full: bool) -> dict[str, Any]:
    """``tenant_bits``: fields that differ between a home with another tenant at work and one without, over all seeds.
    ``oracle_words``: the share of the planted words that anything shows."""
    seeds = SEEDS if full else SEEDS_SHORT
    words = PLANTED if full else PLANTED[:WORDS_SHORT]
    different: list[str] = []
    replies = 0
    with bar("tenants", seeds + 1) as advance:
        for seed in range(seeds):
            found, asked = asyncio.run(_compared(seed, ACTS if full else ACTS_SHORT))
            different += [f"seed {seed}: {one}" for one in found]
            replies += asked
            advance(1)
        shown = asyncio.run(_oracle(words))
        advance(1)
    return {
        "tenant_bits": len(different),
        "oracle_words": len(shown) / len(words),
        "seeds": seeds,
        "replies": replies,
        "words": len(words),
        "different": different[:10],
    }


async def _compared(seed: int, acts: int) -> tuple[list[str], int]:
    """One run with a flood of memories on a shared subject; every second run has the local model."""
    draw = Random(seed)
    mine, theirs = drawn(draw, acts), [*drawn(draw, acts), Act("flood", draw.choice(TOPICS))]
    draw.shuffle(theirs)
    more: dict[str, Any] = {} if seed % 2 else {"embedder": {"adapter": ""}}
    with TemporaryDirectory() as folder:
        return await compared(Path(folder), PAIRS[seed % len(PAIRS)], mine, theirs, TOPICS[:2], **more)


async def _oracle(words: tuple[str, ...]) -> list[str]:
    with TemporaryDirectory() as folder:
        return await oracle(Path(folder), PAIRS[0], words, embedder={"adapter": ""})
