"""`python -m benchmarks tune`: chooses a recipe by a data set's questions, which are recorded once.

`fusion` does not import this module: the questions are handed to it as a value. A data set needs stores of its own,
many homes that are filled and thrown away again, which is what the benchmarks are for.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.arms import Arm
from benchmarks.datasets import Question
from benchmarks.datasets.load import load
from benchmarks.figures import commit
from benchmarks.fill_stores import BACKENDS, TIMEOUT_MS
from benchmarks.measure_corpus import corpus_recording
from benchmarks.options import Run, check_run, refuse_tuned
from benchmarks.progress import bar
from benchmarks.recordings import CorpusRecording
from benchmarks.replay import TrimmedReplay, scope_of
from benchmarks.scored_rows import Scorer
from fusion.compare.tune import Case, Questions
from fusion.doors.cli.connect import settings_of
from fusion.doors.cli.tune import from_questions, job_of
from fusion.recall.engine import FuseRequest, Outcome
from fusion.recipe import ExpandSettings, Recipe
from fusion.trust import changing


@dataclass(frozen=True, slots=True)
class Data:
    """Which questions to ask, and where their recordings are kept: below the home without ``recordings``."""

    format: str
    path: Path
    queries: Path | None = None
    conversations: tuple[str, ...] = ()
    limit: int | None = None
    """questions of each corpus"""
    recordings: Path | None = None


def run(data: Data, *, home: Path | None, config: Path | None, quiet: bool, **job: Any) -> dict[str, Any]:
    """Tunes or learns, writes the recipe into the home if it is better, and gives the figures; ``job`` is of `job_of`.

    Raises DataError, BadInput, NotFound, SettingsError.
    """
    settings = settings_of(home, config)
    read = partial(read_questions, data, settings.home / "tuning")
    with changing(settings.home):
        return from_questions(job_of(settings, data.path, **job), read, quiet=quiet)


def read_questions(data: Data, cache: Path, base: Recipe, span: int) -> Questions:
    """Records what is not recorded yet; recordings in ``cache`` are replaced where data or questions have changed.

    Raises DataError for data that cannot be asked, and for questions on which ``base`` was tuned.
    """
    run, _ = check_run(
        Run(
            dataset=data.path.resolve().stem,
            corpora=load(data.format, data.path, data.queries),
            conversations=data.conversations,
            limit=data.limit,
            recordings=data.recordings or cache,
            cache=data.recordings is None,
        )
    )
    refuse_tuned(base, run.corpora, run.limit)
    wide = replace(base, expand=ExpandSettings(max(base.expand.span, span), base.expand.max_pool))
    cases: list[Case] = []
    recorders: set[str] = set()
    with bar("recording", sum(len(c.memories) + len(c.asked(run.limit)) for c in run.corpora)) as advance:
        for corpus in run.corpora:
            one, _ = corpus_recording(corpus, run, [Arm(base.name, wide, BACKENDS)], advance)
            recorders |= {one.made.get("commit") or ""} - {""}
            items = {item.id: item for item in corpus.memories}
            scorer = Scorer(run.dataset, corpus, {ref: items[item] for ref, item in one.stored.items()})
            request = FuseRequest("", scope_of(corpus), backends=BACKENDS, timeout_ms=TIMEOUT_MS)
            cases += [_case(corpus.id, q, request, one, scorer) for q in corpus.asked(run.limit)]
    name = f"{run.dataset} ({', '.join(c.id for c in run.corpora)})"
    return Questions(tuple(cases), name, _commits(commit(), recorders))


def _commits(now: str | None, recorders: Set[str]) -> str | None:
    """The commit that chooses, and those that had answered where they are others."""
    others = ", ".join(sorted(recorders - {now}))
    return f"{now}, on answers recorded by {others}" if now and others else now


def _case(fold: str, question: Question, request: FuseRequest, one: CorpusRecording, scorer: Scorer) -> Case:
    def found(outcome: Outcome) -> float:
        return scorer.share(question, outcome) or 0.0

    def answer(outcome: Outcome, budget: int) -> Mapping[str, Any]:
        name = outcome.fused.recipe["name"]
        arm = Arm(name, Recipe(name=name), BACKENDS)
        return scorer.row(question, arm, budget, outcome, outcome.fused.took_ms, 0.0).answer()

    return Case(
        fold=fold,
        request=replace(request, query=question.text),
        io=TrimmedReplay(one.recordings[question.index]),
        answerable=question.answerable,
        found=found,
        useful=lambda ref: scorer.is_evidence(question, ref),
        answer=answer,
    )
