"""Evidence in block of ``/fuse`` and of context packs on LoCoMo, before and after ten results of tools a turn are kept.

Each result has half of the words of its turn, so a store that mixed them with the memories would find them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.datasets import Corpus, DataError, Question
from benchmarks.fill_stores import BACKENDS, TIMEOUT_MS, content_digest, corpus_home, open_home, store_corpus
from benchmarks.metrics import mean, texts_in_block
from benchmarks.pack import Data
from benchmarks.replay import scope_of, until_encoded
from benchmarks.tool_noise import batches, observations
from fusion.gateway.gateway import Gateway
from fusion.gateway.packing import ContextPack, PackRequest
from fusion.lib.words import spoken
from fusion.recall.engine import Fused

EACH = 10
"""observations a turn"""

Found = dict[str, list[bool]]
"""by block, for each evidence turn whether the block has it"""


def measure(data: Data) -> dict[str, Any]:
    """The figures over all conversations: the fraction of evidence in a block, and what the noise takes from it."""
    if not data.corpora:
        raise DataError("noise needs --data, a copy of LoCoMo")
    found = [asyncio.run(_corpus(corpus, data)) for corpus in data.corpora]
    before = [row for rows, _, _ in found for row in rows]
    after = [row for _, rows, _ in found for row in rows]
    figures: dict[str, Any] = {"questions": len(before), "observations": sum(count for _, _, count in found)}
    for name in ("fuse", "pack"):
        without, noisy = _fraction(before, name), _fraction(after, name)
        figures[name] = {"without": without, "with": noisy, "loss": round(without - noisy, 4)}
    return figures


def _fraction(rows: Sequence[Found], name: str) -> float:
    return mean([sum(row[name]) / len(row[name]) for row in rows]) or 0.0


async def _corpus(corpus: Corpus, data: Data) -> tuple[list[Found], list[Found], int]:
    """The answers before and after the noise, and how many observations that is."""
    folder = data.home / "noise" if data.home is not None else None
    with corpus_home(folder, corpus.id, {"content": content_digest(corpus)}) as home:
        async with open_home(home, BACKENDS) as gateway:
            await store_corpus(gateway, corpus)
            before = await _answers(gateway, corpus, data)
            scope = replace(scope_of(corpus), session_id="noise", audience="private")
            noise = [*observations(corpus, scope, EACH)]
            for batch in batches(noise):
                await gateway.append_episodes(batch)
            await gateway.settle()
            return before, await _answers(gateway, corpus, data), len(noise)


async def _answers(gateway: Gateway, corpus: Corpus, data: Data) -> list[Found]:
    return [await _answer(gateway, corpus, question) for question in corpus.asked(data.limit) if question.answerable]


async def _answer(gateway: Gateway, corpus: Corpus, question: Question) -> Found:
    texts = {item.id: spoken(item.text, item.speaker) for item in corpus.memories}
    gold = [texts[item] for item in question.gold]
    scope = scope_of(corpus)

    async def packed() -> ContextPack:
        return await gateway.pack(PackRequest(question.text, scope, timeout_ms=TIMEOUT_MS))

    async def fused() -> Fused:
        return await gateway.fuse(question.text, scope=scope, timeout_ms=TIMEOUT_MS, gate=False)

    block = (await until_encoded(gateway.live, fused)).block
    bundle = (await until_encoded(gateway.live, packed)).bundle_text
    return {"fuse": texts_in_block(gold, block), "pack": texts_in_block(gold, bundle)}
