"""Evidence in block of context packs, compared with ``/fuse`` at the same characters, on LoCoMo.

``fuse_at_limit`` may fill as many characters as a pack may; ``fuse_at_size`` as many as the pack of that question has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from benchmarks.datasets import Corpus, DataError, Question
from benchmarks.fill_stores import BACKENDS, TIMEOUT_MS, content_digest, corpus_home, open_home, store_corpus
from benchmarks.metrics import mean, texts_in_block
from benchmarks.pack import Data
from benchmarks.replay import scope_of, until_encoded
from fusion.gateway.gateway import Gateway
from fusion.gateway.packing import ContextPack, PackRequest
from fusion.lib.words import spoken
from fusion.recall.engine import Fused

Found = tuple[list[bool], int]
"""for each evidence turn whether the block has it, and the block's characters"""


def measure(data: Data) -> dict[str, Any]:
    """The figures over all conversations."""
    if not data.corpora:
        raise DataError("eib needs --data, a copy of LoCoMo")
    rows = [row for corpus in data.corpora for row in asyncio.run(_corpus(corpus, data))]
    return {
        "questions": len(rows),
        **{name: _figures([row[name] for row in rows]) for name in ("pack", "fuse_at_limit", "fuse_at_size")},
        "lines": mean([row["lines"][1] for row in rows]),
        "at_l1": mean([all(row["lines"][0]) for row in rows]),
    }


def _figures(found: Sequence[Found]) -> dict[str, float | None]:
    return {
        "frac": mean([sum(each) / len(each) for each, _ in found]),
        "all": mean([all(each) for each, _ in found]),
        "chars": mean([chars for _, chars in found], 0),
    }


async def _corpus(corpus: Corpus, data: Data) -> list[dict[str, Found]]:
    with corpus_home(data.home, corpus.id, {"content": content_digest(corpus)}) as home:
        async with open_home(home, BACKENDS) as gateway:
            await store_corpus(gateway, corpus)
            return [
                await _question(gateway, corpus, question)
                for question in corpus.asked(data.limit)
                if question.answerable
            ]


async def _question(gateway: Gateway, corpus: Corpus, question: Question) -> dict[str, Found]:
    texts = {item.id: spoken(item.text, item.speaker) for item in corpus.memories}
    gold = [texts[item] for item in question.gold]
    scope = scope_of(corpus)

    async def packed() -> ContextPack:
        return await gateway.pack(PackRequest(question.text, scope, timeout_ms=TIMEOUT_MS))

    async def fused(**budget: int) -> Fused:
        return await gateway.fuse(question.text, scope=scope, timeout_ms=TIMEOUT_MS, gate=False, **budget)

    pack = await until_encoded(gateway.live, packed)
    limit = await fused(budget_tokens=pack.meta.budgetTokens)
    size = await fused(budget_chars=max(1, len(pack.bundle_text)))
    blocks = {"pack": pack.bundle_text, "fuse_at_limit": limit.block, "fuse_at_size": size.block}
    return {
        **{name: (texts_in_block(gold, block), len(block)) for name, block in blocks.items()},
        "lines": ([item.layer == "L1" for item in pack.items], len(pack.bundle_text.splitlines())),
    }
