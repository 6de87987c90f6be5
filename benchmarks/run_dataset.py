"""Any data set through the gateway: every memory stored, every question asked, the packed blocks scored.

Each corpus has a home of its own, opened with the embedded backends, so that figures do not depend on how many
processes share the work. The first arm is asked live, once for each budget; the others are replayed from recordings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from benchmarks import baselines, figures, recordings, scattered_stores
from benchmarks.arms import Arm
from benchmarks.corpus_processes import each
from benchmarks.datasets import UNANSWERABLE, Corpus
from benchmarks.fill_stores import split_up
from benchmarks.measure_corpus import Told, live, recording
from benchmarks.options import Run, checked
from benchmarks.progress import Advance, bar
from benchmarks.recordings import BUDGETS
from benchmarks.scored_rows import write, write_rows
from fusion.recipe import Recipe


def run(options: Run) -> dict[str, Any]:
    """Everything, and one JSON-ready object of figures. Writes ``answers`` and ``rows`` at the end.

    Raises DataError before anything is stored where what is asked for does not exist.
    """
    options, arms = checked(options)
    too_long = split_up(options.corpora, options.captions)
    with bar("memories and questions", steps(options, arms)) as advance:
        told = list(each(options, partial(tell, options=options, arms=arms), advance))
    rows = [row for t in told for row in t.rows]
    main = [row for row in rows if row.arm == arms[0].name]
    if options.answers is not None:
        write(options.answers, (row.answer() for row in main))
    if options.rows is not None:
        write_rows(options.rows, rows)
    ingested = [t for t in told if t.ingest_s]
    out = {
        **heading(options, arms[0].recipe, [one for t in told for one in t.recorded_by]),
        **({"split": too_long} if too_long else {}),
        **figures.quality(main),
        **figures.cost(main),
        "ingest_per_s": round(sum(t.copies for t in ingested) / sum(t.ingest_s or 0.0 for t in ingested), 1)
        if ingested
        else None,
    }
    if options.scattered:
        out |= scattered_stores.figures(options, told, main)
    if len({row.arm for row in rows}) > 1:
        out["arms"] = figures.arms(rows, options.against, seed=options.seed)
    return out


def steps(options: Run, arms: Sequence[Arm]) -> int:
    """How often a bar moves: for a memory stored, a question asked or recorded, its replay, and as baselines say."""
    memories = sum(len(corpus.memories) for corpus in options.corpora)
    asked = [question for corpus in options.corpora for question in corpus.asked(options.limit)]
    if options.scattered:
        return 2 * memories + 3 * len(asked) + 2 * sum(question.answerable for question in asked)
    beside = baselines.steps(options.baselines, memories, len(asked))
    return memories + len(asked) * (2 if _is_replayed(options, arms) else 1) + beside


def heading(options: Run, recipe: Recipe, recorded_by: Iterable[str | None] = ()) -> dict[str, Any]:
    """By what figures were made: every object that is printed begins with it.

    ``commit`` ranked and packed; where answers were replayed, ``recorded_by`` are the commits that gave them.
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
    """How many evidence ids name nothing that is there, and how many questions have no other, so that nobody asks them;
    nothing where the key is whole."""
    broken = [q for corpus in corpora for q in corpus.questions if q.unresolved and q.category != UNANSWERABLE]
    if not broken:
        return {}
    lost = {"ids": sum(len(q.unresolved) for q in broken), "questions_not_asked": sum(not q.gold for q in broken)}
    return {"evidence_unresolved": lost}


def tell(corpus: Corpus, advance: Advance, *, options: Run, arms: tuple[Arm, ...]) -> Told:
    """One corpus stored and asked, under every arm."""
    if options.scattered:
        return scattered_stores.tell(corpus, options, arms, advance)
    if not _is_replayed(options, arms):
        rows, ranked, stored = asyncio.run(live(corpus, options, arms[0], advance))
        rows += baselines.rows(options.setup, corpus, ranked, BUDGETS)
        return Told(tuple(rows), stored.copies, stored.seconds)
    one, fresh = recording(corpus, options, arms, advance)
    asked = replace(corpus, questions=tuple(corpus.asked(options.limit)))
    indexes = {question.index for question in asked.questions}
    wanted = {
        name: {i: ranking for i, ranking in one.rankings[name].items() if i in indexes} for name in options.baselines
    }
    rows = recordings.replay([one], [asked], arms, dataset=options.setup, advance=advance)
    rows += baselines.rows(options.setup, asked, wanted, BUDGETS)
    return Told(
        tuple(rows),
        fresh.copies if fresh else 0,
        fresh.seconds if fresh else None,
        recorded_by=(one.made.get("commit"),),
    )


def _is_replayed(options: Run, arms: Sequence[Arm]) -> bool:
    """Whether figures come from recordings; a single arm is asked live, which gives its true latency."""
    return len(arms) > 1 or options.recordings is not None
