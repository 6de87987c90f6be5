"""Measures a data set through the gateway: stores every memory, asks every question, scores the packed blocks.

Each corpus has a home of its own with the embedded backends, so that figures do not depend on the number of processes.
A single arm is asked live, once for each budget; several arms are replayed from recordings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from benchmarks import baselines, figures, replay, scattered_stores
from benchmarks.arms import Arm
from benchmarks.corpus_processes import map_corpora
from benchmarks.datasets import UNANSWERABLE, Corpus
from benchmarks.fill_stores import count_split
from benchmarks.measure_corpus import CorpusResult, ask_live, corpus_recording
from benchmarks.options import Run, check_run
from benchmarks.progress import Advance, bar
from benchmarks.recordings import BUDGETS
from benchmarks.scored_rows import write, write_rows
from fusion.recipe import Recipe


def run(options: Run) -> dict[str, Any]:
    """Measures all corpora and gives the figures, JSON-ready. Writes ``answers`` and ``rows`` at the end.

    Raises DataError, before anything is stored, for options that name something unknown.
    """
    options, arms = check_run(options)
    too_long = count_split(options.corpora, options.captions)
    with bar("memories and questions", steps(options, arms)) as advance:
        results = list(map_corpora(options, partial(measure, options=options, arms=arms), advance))
    rows = [row for result in results for row in result.rows]
    main = [row for row in rows if row.arm == arms[0].name]
    if options.answers is not None:
        write(options.answers, (row.answer() for row in main))
    if options.rows is not None:
        write_rows(options.rows, rows)
    out = {
        **heading(options, arms[0].recipe, [commit for result in results for commit in result.recorded_by]),
        **({"split": too_long} if too_long else {}),
        **figures.quality(main),
        **figures.cost(main),
        **figures.ingest([result.stored for result in results if result.stored is not None]),
    }
    if options.scattered:
        out |= scattered_stores.figures(options, results, main)
    if len({row.arm for row in rows}) > 1:
        out["arms"] = figures.arms(rows, options.against, seed=options.seed)
    return out


def steps(options: Run, arms: Sequence[Arm]) -> int:
    """The number of progress steps: for memories stored, questions asked or recorded, replays, and the baselines."""
    memories = sum(len(corpus.memories) for corpus in options.corpora)
    asked = [question for corpus in options.corpora for question in corpus.asked(options.limit)]
    if options.scattered:
        return 2 * memories + 3 * len(asked) + 2 * sum(question.answerable for question in asked)
    by_baselines = baselines.steps(options.baselines, memories, len(asked))
    return memories + len(asked) * (2 if _is_replayed(options, arms) else 1) + by_baselines


def heading(options: Run, recipe: Recipe, recorded_by: Iterable[str | None] = ()) -> dict[str, Any]:
    """Data set, recipe, commit and date, with which every printed object begins.

    ``commit`` is of the code that ranked and packed, ``recorded_by`` of the code that recorded replayed answers.
    """
    recorders = sorted({one for one in recorded_by if one})
    return {
        "dataset": options.setup,
        "recipe": recipe.name,
        "recipe_hash": recipe.hash,
        "commit": figures.commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "backends": list(options.backends),
        **_unresolved(options.corpora),
        **({"recorded_by": recorders} if recorders else {}),
    }


def _unresolved(corpora: Sequence[Corpus]) -> dict[str, Any]:
    """Counts evidence ids that name nothing in the corpus, and questions without any other, which are not asked; empty
    if all ids resolve."""
    broken = [q for corpus in corpora for q in corpus.questions if q.unresolved and q.category != UNANSWERABLE]
    if not broken:
        return {}
    lost = {"ids": sum(len(q.unresolved) for q in broken), "questions_not_asked": sum(not q.gold for q in broken)}
    return {"evidence_unresolved": lost}


def measure(corpus: Corpus, advance: Advance, *, options: Run, arms: tuple[Arm, ...]) -> CorpusResult:
    """Stores one corpus and asks it under every arm."""
    if options.scattered:
        return scattered_stores.measure(corpus, options, arms, advance)
    if not _is_replayed(options, arms):
        rows, ranked, stored = asyncio.run(ask_live(corpus, options, arms[0], advance))
        rows += baselines.rows(options.setup, corpus, ranked, BUDGETS)
        return CorpusResult(tuple(rows), stored)
    one, fresh = corpus_recording(corpus, options, arms, advance)
    asked = replace(corpus, questions=tuple(corpus.asked(options.limit)))
    indexes = {question.index for question in asked.questions}
    wanted = {
        name: {i: ranking for i, ranking in one.rankings[name].items() if i in indexes} for name in options.baselines
    }
    rows = replay.replay([one], [asked], arms, dataset=options.setup, advance=advance)
    rows += baselines.rows(options.setup, asked, wanted, BUDGETS)
    return CorpusResult(
        tuple(rows),
        fresh,
        recorded_by=(one.made.get("commit"),),
    )


def _is_replayed(options: Run, arms: Sequence[Arm]) -> bool:
    """Whether answers are replayed; a single arm is asked live, for its true latency."""
    return len(arms) > 1 or options.recordings is not None
