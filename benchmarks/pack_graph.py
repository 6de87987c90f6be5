"""Evidence in block of context packs with the graph off, auto and on, on LoCoMo.

``used`` is the share of the questions whose pack has lines of the graph. LoCoMo's talks name people rather than
systems, and assert no facts, so this shows what the graph costs where it has little to say.
"""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.datasets import Corpus, DataError, Question
from benchmarks.fill_stores import BACKENDS, TIMEOUT_MS, content_digest, corpus_home, open_home, store_corpus
from benchmarks.metrics import mean, texts_in_block
from benchmarks.pack import Data
from benchmarks.replay import scope_of, until_encoded
from fusion.gateway.gateway import Gateway
from fusion.gateway.graph_lane import GraphMode
from fusion.gateway.packing import ContextPack, PackRequest
from fusion.lib.words import spoken

MODES: tuple[GraphMode, ...] = ("off", "auto", "on")
OF_GRAPH = frozenset({"temporal_fact", "graph_path", "synthesis_card"})


def measure(data: Data) -> dict[str, Any]:
    """For each mode, the share of evidence that packs have, and how often the graph adds a line."""
    if not data.corpora:
        raise DataError("graph needs --data, a copy of LoCoMo")
    rows = [row for corpus in data.corpora for row in asyncio.run(_corpus(corpus, data))]
    figures: dict[str, dict[str, float | None]] = {
        mode: {"frac": mean([row[mode][0] for row in rows]), "used": mean([row[mode][1] for row in rows])}
        for mode in MODES
    }
    return {"questions": len(rows), **figures}


async def _corpus(corpus: Corpus, data: Data) -> list[dict[str, tuple[float, bool]]]:
    with corpus_home(data.home, corpus.id, {"content": content_digest(corpus)}) as home:
        async with open_home(home, BACKENDS) as gateway:
            await store_corpus(gateway, corpus)
            asked = [question for question in corpus.asked(data.limit) if question.answerable]
            return [await _question(gateway, corpus, question) for question in asked]


async def _question(gateway: Gateway, corpus: Corpus, question: Question) -> dict[str, tuple[float, bool]]:
    texts = {item.id: spoken(item.text, item.speaker) for item in corpus.memories}
    gold = [texts[item] for item in question.gold]
    found: dict[str, tuple[float, bool]] = {}
    for mode in MODES:
        request = PackRequest(question.text, scope_of(corpus), timeout_ms=TIMEOUT_MS, graph=mode)

        async def packed(request: PackRequest = request) -> ContextPack:
            return await gateway.pack(request)

        pack = await until_encoded(gateway.live, packed)
        held = texts_in_block(gold, pack.bundle_text)
        found[mode] = (sum(held) / len(held), any(item.type in OF_GRAPH for item in pack.items))
    return found
