"""Distributes the corpora of a run over processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.queues import Queue
from queue import Empty
from typing import Any

from benchmarks.datasets import Corpus
from benchmarks.options import Run
from benchmarks.progress import Advance

Work = Callable[[Corpus, Advance], Any]


def map_corpora(options: Run, work: Work, advance: Advance) -> Iterator[Any]:
    """Yields ``work`` of every corpus, in their order, from ``options.jobs`` processes."""
    if options.jobs < 2:
        yield from (work(corpus, advance) for corpus in options.corpora)
        return
    context = multiprocessing.get_context("spawn")
    steps: Queue[int] = context.Queue()
    with ProcessPoolExecutor(options.jobs, mp_context=context, initializer=_initialise, initargs=(steps,)) as pool:
        waiting = {pool.submit(_in_process, work, corpus): i for i, corpus in enumerate(options.corpora)}
        done: dict[int, Any] = {}
        while len(done) < len(waiting):
            try:
                advance(steps.get(timeout=0.5))
            except Empty:
                for future in [f for f in waiting if f.done() and waiting[f] not in done]:
                    done[waiting[future]] = future.result()
        for future in as_completed(waiting):
            done[waiting[future]] = future.result()
    yield from (done[i] for i in range(len(options.corpora)))


class _Worker:
    """State of a process of the pool: the queue of its progress."""

    steps: Queue[int]


def _initialise(steps: Queue[int]) -> None:
    _Worker.steps = steps


def _in_process(work: Work, corpus: Corpus) -> Any:
    return work(corpus, _Worker.steps.put)
