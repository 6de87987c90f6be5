"""Gain and cost of `triples`: questions of several hops with and without it, and searches of a large graph.

The graph has as many entities and relations as asked for, drawn from a fixed seed: five arrows a note, and one entity
in thousands of notes. CPU is that of a whole search by words, its lexical index included.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from adapters.triples import Triples
from benchmarks.adapter_cost import mem0_latency_ratio, parse_cpu_ms
from benchmarks.arms import Arm
from benchmarks.corpus_processes import map_corpora
from benchmarks.figures import FULL, cost
from benchmarks.fill_stores import BATCH
from benchmarks.metrics import mean, ranking
from benchmarks.options import Run, check_run
from benchmarks.progress import bar
from benchmarks.run_dataset import heading, measure, steps
from benchmarks.scored_rows import Row
from fusion.compare.verdict import paired
from fusion.contract import Event, Extracted, Extraction, Opening, Query, Scope
from fusion.gateway.interpreter import settled_heap
from fusion.ingest.extract import extract

A_NOTE = 5
"""relations in one memory, and sentences"""
ADA = Scope(user_id="ada", audience="private")
NOW = datetime(2026, 1, 1, tzinfo=UTC)

_SENTENCES = (
    "{a} works at {b}.",
    "We met {a} in {b}, who likes {c}.",
    "{a} uses {b} and depends on {c}.",
    "The {a} team moved to {b} last week.",
    "Yesterday it rained, so nobody went out.",
    "{a} -> blocked by -> {b}",
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of a run: the graph and its questions, sentences to store, mem0's memories and questions."""

    entities: int = 100_000
    relations: int = 300_000
    hub: int = 50_000
    asked: int = 50
    sentences: int = 2_000
    mem0: int = 1_000
    mem0_asked: int = 60


def run(options: Run, sizes: Sizes = Sizes()) -> dict[str, Any]:
    """The figures, JSON-ready. Raises DataError before anything is built."""
    options, arms = _arms(options)
    with tempfile.TemporaryDirectory(prefix="memory-fusion-graph-") as folder:
        large = asyncio.run(large_graph(Path(folder), sizes))
    return {
        **several_hops(options, arms),
        **large,
        "rules_sentences_per_s": asyncio.run(sentences_per_s(sizes.sentences)),
        "mem0_latency_ratio": asyncio.run(mem0_latency_ratio(sizes.mem0, sizes.mem0_asked)),
        "parse_cpu_ms": parse_cpu_ms(),
    }


# Questions of several hops -----------------------------------------------------------------------------------------


def _arms(options: Run) -> tuple[Run, tuple[Arm, ...]]:
    """The checked run and its arms: all backends, and all but `triples`."""
    without = "+".join(name for name in options.backends if name != "triples")
    return check_run(replace(options, arms=(f"{options.recipe}@{without}",)))


def several_hops(options: Run, arms: tuple[Arm, ...]) -> dict[str, Any]:
    """Supporting R@5 of all backends, of all but `triples`, and the difference question by question."""
    with bar("memories and questions", steps(options, arms)) as advance:
        rows = [
            row for t in map_corpora(options, partial(measure, options=options, arms=arms), advance) for row in t.rows
        ]
    with_, less = (_recall([r for r in rows if r.arm == arm.name and r.budget == FULL]) for arm in arms)
    return {
        **heading(options, arms[0].recipe),
        "n": len(with_),
        "musique_r5_with": mean(with_),
        "musique_r5_without": mean(less),
        "musique_r5_gain": asdict(paired(less, with_, seed=options.seed)),
        "cpu_ms_per_query": {a.name: cost([r for r in rows if r.arm == a.name])["cpu_ms_per_query"] for a in arms},
    }


def _recall(rows: Sequence[Row]) -> list[float]:
    scored = sorted((row for row in rows if row.eib is not None), key=lambda row: row.key)
    return [one["r_at_5"] for one in ranking([(row.gold, row.ranked) for row in scored])]


# A large graph -----------------------------------------------------------------------------------------------------


async def large_graph(folder: Path, sizes: Sizes) -> dict[str, Any]:
    """Median milliseconds of CPU of a question that names one entity, two hops, and of one that names a hub."""
    draw = Random(7)
    names = [f"Node{n}" for n in range(sizes.entities)]
    notes = [
        "\n".join(f"{draw.choice(names)} -> uses -> {draw.choice(names)}" for _ in range(A_NOTE))
        for _ in range((sizes.relations - sizes.hub) // A_NOTE)
    ]
    notes += [f"Hub -> uses -> {draw.choice(names)}" for _ in range(sizes.hub)]
    triples = await Triples.open(Opening("triples", folder / "triples"))
    try:
        with bar("large graph", len(notes)) as advance:
            for start in range(0, len(notes), BATCH * 20):
                events = [_event(start + i, text) for i, text in enumerate(notes[start : start + BATCH * 20])]
                await triples.remember([Extracted(event, Extraction()) for event in events])
                advance(len(events))
        asked = [f"what does {draw.choice(names)} use?" for _ in range(sizes.asked)]
        of_hub = [f"what does the Hub use with {name}?" for name in names[: sizes.asked]]
        return {
            "entities": sizes.entities,
            "relations": sizes.relations,
            "hop2_cpu_ms": await _cpu_ms(triples, asked),
            "hub_edges": sizes.hub,
            "hub_cpu_ms": await _cpu_ms(triples, of_hub),
        }
    finally:
        await triples.close()


async def _cpu_ms(triples: Triples, asked: Sequence[str]) -> float:
    taken = []
    with settled_heap():  # as `fusion serve` has it
        for text in asked:
            started = time.process_time()
            await triples.search(Query(text, ADA, NOW, 100))
            taken.append((time.process_time() - started) * 1000)
    return round(median(taken), 2)


# Ingest ------------------------------------------------------------------------------------------------------------


async def sentences_per_s(memories: int) -> int:
    """Sentences a second of CPU, from text to disk: capture's rules, `triples`' own, SQLite and the lexical index."""
    draw = Random(7)
    names = [f"{first}{last}" for first in ("Mira", "Tomo", "Ada", "Kel") for last in ("van", "lin", "dor", "sen")]

    def sentence() -> str:
        a, b, c = draw.sample(names, 3)
        return draw.choice(_SENTENCES).format(a=a, b=b, c=c)

    texts = [" ".join(sentence() for _ in range(A_NOTE)) for _ in range(memories)]
    with tempfile.TemporaryDirectory(prefix="memory-fusion-graph-") as folder:
        triples = await Triples.open(Opening("triples", Path(folder) / "triples"))
        try:
            started = time.process_time()
            with bar("sentences", memories) as advance:
                for start in range(0, memories, BATCH):
                    events = [_event(start + i, text) for i, text in enumerate(texts[start : start + BATCH])]
                    await triples.remember([Extracted(event, extract(event)) for event in events])
                    advance(len(events))
            return round(memories * A_NOTE / (time.process_time() - started))
        finally:
            await triples.close()


def _event(number: int, text: str) -> Event:
    return Event(f"01890000-0000-7000-8000-{number:012x}", text, NOW, ADA)
