"""Stores one corpus and asks its questions, live or into a recording from which any arm can be replayed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import baselines, figures, memory_libraries, recordings, replay
from benchmarks.arms import Arm
from benchmarks.datasets import Corpus, DataError, Question
from benchmarks.fill_stores import (
    TIMEOUT_MS,
    Stored,
    content_digest,
    corpus_home,
    encoders,
    open_home,
    scattered_copies,
    store_copies,
    store_corpus,
)
from benchmarks.options import Run
from benchmarks.progress import Advance
from benchmarks.recordings import BUDGETS, CorpusRecording
from benchmarks.replay import scope_of
from benchmarks.scored_rows import Row, Scorer
from fusion import FuseRequest, Gateway
from fusion.recall.engine import Outcome, fuse
from fusion.recipe import Recipe

TIMED_QUESTIONS = 20
"""questions of each corpus that are asked live with each backend left out, for the time that this saves"""


@dataclass(frozen=True, slots=True)
class CorpusResult:
    """The rows of one corpus, the first arm's first, and how it was stored."""

    rows: tuple[Row, ...]
    stored: Stored | None
    """None where all answers are replayed"""
    alone: Mapping[str, str] = field(default_factory=dict)
    """by item, the store that alone has it (scattered only)"""
    recorded_by: tuple[str | None, ...] = ()
    """the commits whose answers are replayed; none where they were asked live"""


async def ask_live(
    corpus: Corpus, options: Run, arm: Arm, advance: Advance
) -> tuple[list[Row], dict[str, dict[int, memory_libraries.Ranking]], Stored]:
    """Asks the first arm live, and the baselines over the same memories."""
    with corpus_home(options.home, corpus.id, _filled(corpus, options)) as home:
        async with open_home(home, options.backends, others=options.others) as fusion:
            stored = await store_corpus(fusion, corpus, captions=options.captions, advance=advance)
            asker = _Asker(fusion, corpus, options.setup, stored)
            rows: list[Row] = []
            for question in corpus.asked(options.limit):
                rows += [await asker.ask(question, arm, budget) for budget in BUDGETS]
                advance(1)
            return rows, await _rankings(fusion, corpus, options, advance), stored


def _filled(corpus: Corpus, options: Run) -> dict[str, str]:
    """What the content of the stores depends on: on the backends only if scattered, because otherwise each has all."""
    captions = "with" if options.captions else "without"
    over = f"{options.seed} over {'+'.join(options.backends)}" if options.scattered else "not"
    return {"content": content_digest(corpus), "captions": captions, "scattered": over}


async def _rankings(
    fusion: Gateway, corpus: Corpus, options: Run, advance: Advance
) -> dict[str, dict[int, memory_libraries.Ranking]]:
    if not options.baselines:
        return {}
    if fusion.live.embedder is None:
        raise DataError("the baselines need the embedding model; --baselines none does without")
    questions = corpus.asked(options.limit)
    return await baselines.rankings(options.baselines, corpus, questions, fusion.live.embedder, advance)


class _Asker:
    """Asks one corpus's questions live and scores the answers."""

    def __init__(self, fusion: Gateway, corpus: Corpus, dataset: str, stored: Stored) -> None:
        self._fusion, self._corpus = fusion, corpus
        self._scorer = Scorer(dataset, corpus, stored.items)

    async def ask(self, question: Question, arm: Arm, budget: int) -> Row:
        request = FuseRequest(
            question.text,
            scope_of(self._corpus),
            budget_chars=budget,
            backends=arm.backends,
            timeout_ms=TIMEOUT_MS,
        )
        costs: list[tuple[float, float]] = []

        async def fused() -> Outcome:
            cpu = time.process_time()
            # As `Gateway.fuse`, without marking memories as used: a measurement must not change what it measures.
            outcome = await fuse(request, arm.recipe, self._fusion.live)
            costs.append((outcome.fused.took_ms, (time.process_time() - cpu) * 1000))
            return outcome

        outcome = await replay.until_encoded(self._fusion.live, fused)
        if outcome.fused.degraded:
            raise RuntimeError(f"the answer is degraded, its figures would mean nothing: {outcome.fused.backends}")
        cpu = time.process_time()
        self._fusion.receipts.keep(outcome.receipt)
        (took_ms, cpu_ms), keep_ms = costs[0], (time.process_time() - cpu) * 1000
        return self._scorer.row(question, arm, budget, outcome, took_ms, cpu_ms + keep_ms)


def corpus_recording(
    corpus: Corpus, options: Run, arms: Sequence[Arm], advance: Advance, *, timed: bool = False
) -> tuple[CorpusRecording, Stored | None]:
    """The recording of a corpus, from ``options.recordings`` or made now and kept there."""
    recipe = replay.widest_recipe([arm.recipe for arm in arms])
    how = " ".join(
        [f"scattered {options.seed}"] * options.scattered
        + ["captions"] * options.captions
        + [f"joined {options.joined} {options.seed}"] * (options.joined > 1)
    )
    made = recordings.made_from(corpus, options.backends, recipe, encoders(), how=how)
    questions = corpus.asked(options.limit)
    if options.recordings is not None:
        one = _load_kept(options.recordings, made, questions, cache=options.cache)
        if one is not None and set(options.baselines) <= set(one.rankings) and (one.timed or not timed):
            asked, memories = len(questions), len(corpus.memories)
            advance(memories + asked + baselines.steps(options.baselines, memories, asked))
            return one, None
    one, stored = asyncio.run(_record(corpus, options, recipe, made, advance, timed=timed))
    if options.recordings is not None:
        recordings.save(one, options.recordings)
    return one, stored


def _load_kept(
    folder: Path, made: Mapping[str, Any], questions: Sequence[Question], *, cache: bool
) -> CorpusRecording | None:
    try:
        return recordings.load(folder, made, questions)
    except DataError:
        if not cache:
            raise
        return None


async def _record(
    corpus: Corpus, options: Run, recipe: Recipe, made: Mapping[str, Any], advance: Advance, *, timed: bool
) -> tuple[CorpusRecording, Stored]:
    name = f"{corpus.id}-scattered" if options.scattered else corpus.id
    with corpus_home(options.home, name, _filled(corpus, options)) as home:
        async with open_home(home, options.backends) as fusion:
            if options.scattered:
                copies = scattered_copies(corpus, options.backends, options.seed)
                stored = await store_copies(fusion, corpus, copies, home / "scattered.json", advance=advance)
            else:
                stored = await store_corpus(fusion, corpus, captions=options.captions, advance=advance)
            by_question, costs = {}, {}
            questions = corpus.asked(options.limit)
            for question in questions:
                by_question[question.index], costs[question.index] = await replay.record(
                    fusion.live, scope_of(corpus), question, recipe, options.backends
                )
                advance(1)
            times = await _timed(fusion, corpus, questions[:TIMED_QUESTIONS], recipe, options.backends) if timed else {}
            one = CorpusRecording(
                made={**made, "commit": figures.commit()},
                asked={question.index: question.text for question in questions},
                recordings=by_question,
                stored={ref: item.id for ref, item in stored.items.items()},
                costs=costs,
                rankings=await _rankings(fusion, corpus, options, advance),
                timed=times,
            )
    return one, stored


async def _timed(
    fusion: Gateway, corpus: Corpus, questions: Sequence[Question], recipe: Recipe, backends: Sequence[str]
) -> dict[str, list[float]]:
    """Milliseconds of each question of all backends (under "") and of all but one, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in ("", *backends)} if len(backends) > 1 else {"": []}
    for question in questions:
        for left_out, taken in times.items():
            asked = tuple(name for name in backends if name != left_out)
            request = FuseRequest(question.text, scope_of(corpus), backends=asked, timeout_ms=TIMEOUT_MS)
            started = time.perf_counter()
            await fuse(request, recipe, fusion.live)
            taken.append(round((time.perf_counter() - started) * 1000, 3))
    return times
