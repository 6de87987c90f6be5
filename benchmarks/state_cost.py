"""Measures the CPU that the states of memories cost a question.

One home, of whose memories each has a state of its own and some are in open conflicts; none is hidden, so that both
arms rank the same. The same questions are asked in interleaved blocks, with the states applied and without.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from random import Random
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.progress import bar
from benchmarks.synthetic_text import question, sentence
from fusion.contract import Scope, StateChange
from fusion.gateway.gateway import Gateway
from fusion.gateway.interpreter import settled_heap
from fusion.ingest.intake import NewMemory
from fusion.journal.state import Change
from fusion.journal.use import Counts, Retrieval, Use, UseLog
from fusion.recall.engine import FuseRequest
from fusion.settings import load

MEMORIES = 1_000
QUESTIONS = 20
"""questions of one block"""
ROUNDS = 30
"""pairs of blocks"""
DEPTH = 150
"""hits of each of the four backends: some 200 candidates, as they have many in common"""
CONFLICTS = 20
CHARACTERS = 80
SCOPE = Scope(user_id="ada", audience="private")
TIMEOUT_MS = 60_000


async def state_cost(memories: int = MEMORIES, rounds: int = ROUNDS) -> dict[str, Any]:
    """CPU milliseconds of a question in both arms, and by how much the one with states exceeds the other."""
    with tempfile.TemporaryDirectory(prefix="memory-fusion-") as folder:
        async with Gateway.open(load(home=Path(folder) / "home")) as gateway:
            await _fill(gateway, memories)
            arms = _Arms(gateway)
            candidates = await arms.warm_up()
            spent: dict[str, list[float]] = {"with": [], "without": []}
            with bar("blocks", rounds) as advance, settled_heap():
                for number in range(rounds):
                    for arm in ("with", "without") if number % 2 else ("without", "with"):
                        spent[arm].append(await arms.block(arm))
                    advance(1)
    ratios = [one / other for one, other in zip(spent["with"], spent["without"], strict=True)]
    return {
        "state_candidates": candidates,
        "state_blocks": rounds,
        **{f"cpu_ms_{arm}_state": round(median(blocks) * 1000 / QUESTIONS, 3) for arm, blocks in spent.items()},
        "state_cpu_pct": round((median(ratios) - 1) * 100, 2),
    }


async def _fill(gateway: Gateway, memories: int) -> None:
    draw = Random("state cost")
    texts = [sentence(draw, CHARACTERS) for _ in range(memories)]
    ids: list[str] = []
    for start in range(0, memories, 100):
        kept = await gateway.remember([NewMemory(text, SCOPE) for text in texts[start : start + 100]])
        ids += [one.event_id for one in kept]
    await gateway.settle()
    await gateway.journal.decide(_states(ids), "benchmark", "states to apply")
    await gateway.settle()


def _states(ids: Sequence[str]) -> Mapping[str, Change]:
    """A state for each memory; the first ones are in conflicts of two."""
    changes: dict[str, Change] = {}
    for number, event_id in enumerate(ids):
        change: StateChange = {
            "confidence": 0.5 + number / len(ids) / 2,
            "importance": number / len(ids),
            "tags": (f"tag {number}",),
            "reinforced_count": number % 7,
            "trust": "trusted",
        }
        if number < CONFLICTS * 2:
            group = f"group {number // 2}"
            change |= {"conflict_group": group, "conflict_status": "active", "contradicts": ids[number ^ 1]}
        changes[event_id] = change
    return changes


class _Arms:
    """The same questions to one home, with the states of its memories and without."""

    def __init__(self, gateway: Gateway) -> None:
        draw = Random("questions")
        self._questions = [question(draw) for _ in range(QUESTIONS)]
        recipe = gateway.recipes["default"]
        deep = replace(recipe, gather=replace(recipe.gather, depth=DEPTH, max_depth=0))
        gateway = replace(gateway, recipes={"default": deep})
        self._gateways = {"with": gateway, "without": replace(gateway, use=_NoUse(_keep_nothing, _nothing_written))}

    async def warm_up(self) -> int:
        """Encode all texts; returns the median number of candidates."""
        counts = []
        for text in self._questions:
            fused = await self._gateways["with"].fuse(FuseRequest(text, SCOPE, timeout_ms=TIMEOUT_MS, explain=True))
            counts.append(len((fused.explain or {})["candidates"]))
        for arm in self._gateways:
            await self.block(arm)
        return int(median(counts))

    async def block(self, arm: str) -> float:
        """CPU seconds of all questions, with all threads of this process."""
        gateway = self._gateways[arm]
        with _states_ignored() if arm == "without" else nullcontext():
            before = time.process_time()
            for text in self._questions:
                await gateway.fuse(FuseRequest(text, SCOPE, timeout_ms=TIMEOUT_MS))
            await gateway.use.flush()
            return time.process_time() - before


class _NoUse(UseLog):
    """Counts no use."""

    def note(self, items: Iterable[str], at: datetime, retrieved: Iterable[str] = ()) -> None: ...


async def _keep_nothing(uses: Mapping[str, Use], retrievals: Mapping[str, Retrieval]) -> None: ...


async def _nothing_written(item: str) -> Counts:
    return None, None


@contextmanager
def _states_ignored() -> Iterator[None]:
    """The read path without what it does about states: hide, rank, and pair the sides of a conflict."""
    with (
        patch("fusion.recall.filter.hidden_by_state", lambda state, query: None),
        patch("fusion.recall.engine.standings_of", lambda records, wanted, uses: {}),
        patch("fusion.recall.engine.with_conflicts", lambda pool, standings: pool),
    ):
        yield
