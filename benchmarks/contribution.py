"""What each backend contributes: its share in the evidence found, and what asking it costs.

Each question is recorded once; then every subset of the backends is replayed. A conversation is scattered over the
backends first: where all hold everything, each can be left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from benchmarks import replay
from benchmarks.arms import Arm, subsets
from benchmarks.corpus_processes import map_corpora
from benchmarks.datasets import Corpus, DataError
from benchmarks.measure_corpus import corpus_recording
from benchmarks.metrics import mean, percentile
from benchmarks.options import Run, check_run, require_answerable
from benchmarks.progress import Advance, bar
from benchmarks.recordings import BUDGETS, Cost
from benchmarks.run_dataset import heading
from benchmarks.scattered_stores import as_scattered
from benchmarks.scored_rows import Row, write_rows
from benchmarks.shapley import shapley

FULL = BUDGETS[0]


@dataclass(frozen=True, slots=True)
class SubsetResult:
    """The rows of one corpus, for each question and subset, and the costs of its backends."""

    rows: tuple[Row, ...]
    costs: tuple[Mapping[str, Cost], ...]
    timed: Mapping[str, Sequence[float]]
    recorded_by: str | None = None
    """the commit whose answers are replayed"""


def run(options: Run) -> dict[str, Any]:
    """The figures, JSON-ready. Writes ``options.rows`` at the end. Raises DataError."""
    if len(options.backends) < 2:
        raise DataError("a contribution needs two backends or more")
    options, arms = check_run(options)
    require_answerable(options.dataset, options.corpora, options.limit)
    asked = [question for corpus in options.corpora for question in corpus.asked(options.limit)]
    memories = sum(len(corpus.memories) for corpus in options.corpora)
    steps = memories + len(asked) + sum(question.answerable for question in asked)
    with bar("memories and questions", steps) as advance:
        results = list(map_corpora(options, partial(_measure, options=options, arm=arms[0]), advance))
    rows = [row for result in results for row in result.rows]
    if options.rows is not None:
        write_rows(options.rows, rows)
    made = heading(options, arms[0].recipe, [result.recorded_by for result in results])
    return {**made, **figures(rows, results, options.backends)}


def _measure(corpus: Corpus, advance: Advance, *, options: Run, arm: Arm) -> SubsetResult:
    sets = [Arm("+".join(names), arm.recipe, names) for names in subsets(options.backends)]
    one, _ = corpus_recording(corpus, options, [arm], advance, timed=True)
    if options.scattered:
        corpus = as_scattered(corpus)
    questions = tuple(question for question in corpus.asked(options.limit) if question.answerable)
    rows = replay.replay(
        [one],
        [replace(corpus, questions=questions)],
        sets,
        dataset=options.setup,
        budgets=(FULL,),
        advance=advance,
    )
    return SubsetResult(tuple(rows), tuple(one.costs.values()), one.timed, one.made.get("commit"))


def figures(rows: Sequence[Row], results: Sequence[SubsetResult], backends: Sequence[str]) -> dict[str, Any]:
    """The figures of all corpora: shares of 1 and milliseconds; ``verdicts`` has them in sentences."""
    scores: dict[frozenset[str], list[float]] = {}
    for row in rows:
        if row.eib is not None:
            scores.setdefault(frozenset(row.backends), []).append(row.eib)
    worth = {names: sum(values) / len(values) for names, values in scores.items()}
    everything = frozenset(backends)
    shares = shapley(backends, worth)
    loses = {name: worth[everything] - worth[everything - {name}] for name in backends}
    saves = {name: _saves_ms(name, [result.timed for result in results]) for name in backends}
    costs = {name: [c[name] for result in results for c in result.costs if name in c] for name in backends}
    cpu = {name: mean((c.cpu_ms for c in costs[name]), 1) for name in backends}
    alone = {name: percentile(0.5, (c.ms for c in costs[name])) for name in backends}
    return {
        "n": len(scores[everything]),
        "eib_frac": round(worth[everything], 4),
        "shapley": {name: round(share, 6) for name, share in shares.items()},
        "alone": {name: round(worth[frozenset({name})], 4) for name in backends},
        "leave_one_out": {name: round(lost, 4) for name, lost in loses.items()},
        "saves_ms": {name: None if ms is None else round(ms, 1) for name, ms in saves.items()},
        "p50_ms_alone": {name: None if ms is None else round(ms, 1) for name, ms in alone.items()},
        "cpu_ms_per_query": cpu,
        "eib_frac_of": {"+".join(n for n in backends if n in names): round(v, 4) for names, v in worth.items()},
        "verdicts": [sentence(name, loses[name], shares[name], saves[name], cpu[name]) for name in backends],
    }


def _saves_ms(name: str, timed: Sequence[Mapping[str, Sequence[float]]]) -> float | None:
    """Milliseconds saved without a backend, the median over questions; None where it was not timed."""
    pairs = [(a, b) for t in timed if name in t for a, b in zip(t[""], t[name], strict=True)]
    return median(a - b for a, b in pairs) if pairs else None


def sentence(name: str, loses: float, share: float, saves_ms: float | None, cpu_ms: float | None) -> str:
    """The figures of a backend in a sentence: points are hundredths of the evidence found."""
    points = round(loses * 100, 1)
    text = f"dropping {name} {'gains' if points < 0 else 'costs'} {abs(points):.1f} points"
    if saves_ms is not None:
        text += f" and {'saves' if saves_ms >= 0 else 'adds'} {abs(saves_ms):.0f} ms"
    text += f"; its fair share of what all find together is {share * 100:.1f} points"
    return text + (f", for {cpu_ms:.1f} ms of CPU a question" if cpu_ms is not None else "")
