"""Asks questions into recordings, and replays them under any recipe and subset of the backends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from benchmarks.arms import Arm
from benchmarks.datasets import Corpus, DataError, Question
from benchmarks.fill_stores import TIMEOUT_MS
from benchmarks.recordings import BUDGETS, CorpusRecording, Cost
from benchmarks.scored_rows import Row, Scorer
from fusion.contract import EncodesLater, Query, Scope
from fusion.errors import ReplayGap
from fusion.recall.engine import FuseRequest, Outcome, RecallIO, fuse
from fusion.recall.gather import Answer
from fusion.recall.io import Live
from fusion.recall.recording import Recorder, Recording, Replay
from fusion.recipe import ExpandSettings, GatherSettings, Recipe

T = TypeVar("T")
MOST_ASKED = 100
"""times that a question is asked for its texts to get vectors: each time another thousand can"""


def widest_recipe(recipes: Sequence[Recipe]) -> Recipe:
    """A recipe that asks as deep, as many neighbours and as many encoders as any of these: its recording serves all."""
    first = recipes[0]
    return replace(
        first,
        rerank=replace(first.rerank, second_encoder=any(r.rerank.second_encoder for r in recipes)),
        gather=GatherSettings(timeout_ms=TIMEOUT_MS, depth=max(r.gather.depth_for(1) for r in recipes)),
        expand=ExpandSettings(
            span=max(r.expand.span for r in recipes), max_pool=max(r.expand.max_pool for r in recipes)
        ),
    )


async def until_encoded(live: Live, ask: Callable[[], Awaitable[T]]) -> T:
    """What ``ask`` gives once all texts that it finds have vectors: figures are of a home that is up to date.

    It asks again while a question puts texts off; raises RuntimeError if that does not end.
    """
    if not isinstance(live.embedder, EncodesLater):
        return await ask()
    for _ in range(MOST_ASKED):
        before = live.embedder.put_off
        found = await ask()
        if live.embedder.put_off == before:
            return found
        await live.embedder.settle()
    raise RuntimeError("texts stay without vectors, so the figures would mean nothing")


async def record(
    live: Live, scope: Scope, question: Question, recipe: Recipe, backends: Sequence[str]
) -> tuple[Recording, dict[str, Cost]]:
    """Asks all ``backends`` one question under a `widest_recipe`, and each alone for its cost.

    Raises RuntimeError where one of them fails: a replay of that would mean nothing.
    """
    costs: dict[str, Cost] = {}
    now = live.now()
    if live.embedder is not None:
        await live.embedder.embed([question.text], keep=False)  # or the first backend alone would pay for it
    for name in backends:
        query = Query(question.text, scope, now, recipe.gather.depth, TIMEOUT_MS / 1000)
        started, cpu = time.perf_counter(), time.process_time()
        await live.answers(query, [name], TIMEOUT_MS / 1000)
        took_ms, cpu_ms = (time.perf_counter() - started) * 1000, (time.process_time() - cpu) * 1000
        costs[name] = Cost(round(took_ms, 3), round(cpu_ms, 3))
    request = FuseRequest(question.text, scope, backends=tuple(backends), timeout_ms=TIMEOUT_MS)

    async def ask() -> tuple[Recorder, Outcome]:
        recorder = Recorder.of(live)
        return recorder, await fuse(request, recipe, recorder)

    recorder, outcome = await until_encoded(live, ask)
    if outcome.fused.degraded:
        raise RuntimeError(f"the answer is degraded, its figures would mean nothing: {outcome.fused.backends}")
    return recorder.recording, costs


class TrimmedReplay(Replay):
    """A replay that hands each recipe as many hits as it asks for: a shallower answer is the head of a deeper one."""

    __slots__ = ()

    async def answers(self, query: Query, names: Sequence[str] | None, deadline_s: float) -> Sequence[Answer]:
        answers = await super().answers(query, names, deadline_s)
        return [replace(a, hits=a.hits[: query.limit]) if len(a.hits) > query.limit else a for a in answers]


def replay(
    recorded: Sequence[CorpusRecording],
    corpora: Sequence[Corpus],
    arms: Sequence[Arm],
    *,
    dataset: str = "",
    budgets: Sequence[int] = BUDGETS,
    advance: Callable[[int], None] = lambda steps: None,
) -> list[Row]:
    """Replays every arm over every recorded question, without a store or a model.

    A row's ``took_ms`` is the slowest of its backends as recorded, plus ranking and packing now; ``cpu_ms`` their sum.
    Neither has the encoding of the query. Raises DataError where an arm wants what was not recorded.
    """
    by_id = {corpus.id: corpus for corpus in corpora}
    rows: list[Row] = []

    async def all_of_it() -> None:
        for one in recorded:
            corpus = by_id[one.made["corpus"]]
            items = {item.id: item for item in corpus.memories}
            scorer = Scorer(dataset, corpus, {ref: items[item] for ref, item in one.stored.items()})
            for question in corpus.questions:
                if question.index in one.recordings:
                    for arm in arms:
                        rows.extend([await _row(one, corpus, question, arm, budget, scorer) for budget in budgets])
                    advance(1)

    asyncio.run(all_of_it())
    return rows


async def _row(one: CorpusRecording, corpus: Corpus, question: Question, arm: Arm, budget: int, scorer: Scorer) -> Row:
    if (depth := arm.recipe.gather.depth_for(len(arm.backends))) > one.made["depth"]:
        raise DataError(f"arm {arm.name!r} wants {depth} hits; {one.made['depth']} were recorded")
    recording = one.recordings[question.index]
    io: RecallIO = TrimmedReplay(recording)
    request = FuseRequest(
        question.text,
        scope_of(corpus),
        budget_chars=budget,
        backends=arm.backends,
        timeout_ms=TIMEOUT_MS,
    )
    started, cpu = time.perf_counter(), time.process_time()
    try:
        outcome = await fuse(request, arm.recipe, io)
    except ReplayGap as error:
        raise DataError(f"arm {arm.name!r}, {corpus.id}, question {question.index}: {error}") from None
    took_ms, cpu_ms = (time.perf_counter() - started) * 1000, (time.process_time() - cpu) * 1000
    costs = one.costs.get(question.index, {})
    spent = [costs[name] for name in arm.backends if name in costs]
    took_ms += max((cost.ms for cost in spent), default=0.0)
    return scorer.row(question, arm, budget, outcome, took_ms, cpu_ms + sum(cost.cpu_ms for cost in spent))


def scope_of(corpus: Corpus) -> Scope:
    """Each corpus belongs to a user of its own."""
    return Scope(user_id=corpus.id, audience="private")
