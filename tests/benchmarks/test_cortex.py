"""`python -m benchmarks cortex`, on forty memories."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import cortex as bench
from benchmarks.datasets import Corpus, Item, Question
from benchmarks.markdown_vault import RandomEmbedder
from tests.fakes import FakeEmbedder


def test_synthetic_memories_are_the_same_each_time() -> None:
    """Three facts each, hubs among their names, in batches of 200."""
    first, second = (list(bench.batches(500)) for _ in range(2))
    assert first == second
    assert [len(batch) for batch in first] == [200, 200, 100]
    facts = [fact for batch in first for memory in batch for fact in memory.extraction.facts]
    assert len(facts) == 1500
    assert len({fact.subject for fact in facts}) < 1500


async def test_recall_and_walk_are_measured(tmp_path: Path) -> None:
    """Both take some time on forty memories."""
    async with bench.opened(tmp_path, RandomEmbedder()) as cortex:
        for batch in bench.batches(40):
            await cortex.remember(batch)
        await cortex.settle()
        assert await bench.recall_ms(cortex) > 0
        assert await bench.walk_ms(cortex) > 0


@pytest.mark.feature("figures: the cortex's recall, traversal, storing and the worth of its graph")
async def test_the_graph_is_compared_with_vectors_alone(tmp_path: Path) -> None:
    """One conversation, one question: shares of it with the graph and without, and their paired difference."""
    turns = [Item(f"D1:{n}", f"turn {n} about a pottery class", "D1", n, speaker="Ann") for n in range(1, 4)]
    corpus = Corpus("c", tuple(turns), (Question(0, "which pottery class?", "single", ("D1:1", "D1:2")),))
    figures = await bench.signal(tmp_path, [corpus], FakeEmbedder())
    assert figures["vectors_r10"] == figures["vectors_and_graph_r10"] == 1.0
    assert (figures["graph_signal_r10_gain"], figures["graph_signal_questions"]) == (0.0, 1)
