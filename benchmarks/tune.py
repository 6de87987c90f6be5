"""`python -m benchmarks tune`: chooses a recipe by a data set's questions, which are recorded once.

A data set needs stores of its own, many homes that are filled and thrown away again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from benchmarks.arms import Arm
from benchmarks.datasets import Question
from benchmarks.datasets.load import load
from benchmarks.figures import commit
from benchmarks.fill_stores import BACKENDS, TIMEOUT_MS
from benchmarks.learning import learn
from benchmarks.learning import steps as steps_of_learning
from benchmarks.measure_corpus import corpus_recording
from benchmarks.options import Run, check_run, refuse_tuned
from benchmarks.progress import bar
from benchmarks.recordings import CorpusRecording
from benchmarks.replay import TrimmedReplay, scope_of
from benchmarks.scored_rows import Scorer
from benchmarks.scored_rows import write as write_rows
from benchmarks.tuning import (
    Case,
    Questions,
    ReadQuestions,
    Tuned,
    answers,
    is_better,
    largest_span,
    select_knobs,
    tune,
)
from benchmarks.tuning import steps as steps_of_tuning
from fusion.compare.calibrate import rows_of_answer
from fusion.compare.learn import Trained
from fusion.doors import terminal
from fusion.doors.cli.connect import settings_of
from fusion.doors.cli.plural import counted
from fusion.doors.cli.tune import Job, check, job_of, origin_of, show_files, write, write_recipe
from fusion.recall.engine import FuseRequest, Outcome, fuse
from fusion.recipe import ExpandSettings, Recipe
from fusion.trust import changing

BUDGETS = (6000, 3000, 1500)
"""characters of the answers that a referee sees"""


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


def run(
    data: Data,
    *,
    home: Path | None,
    config: Path | None,
    quiet: bool,
    answers: Path | None = None,
    only: tuple[str, ...] = (),
    **job: Any,
) -> dict[str, Any]:
    """Tunes or learns, writes the recipe into the home if it is better, and gives the figures; ``job`` is of `job_of`.

    ``answers`` is where the held-out answers go, a line of JSON each, for a referee. ``only`` names numbers by a part
    of their path; empty is all of them.

    Raises DataError, BadInput, NotFound, SettingsError.
    """
    settings = settings_of(home, config)
    read = partial(read_questions, data, settings.home / "tuning")
    with changing(settings.home):
        return from_questions(job_of(settings, data.path, **job), read, answers_file=answers, only=only, quiet=quiet)


def write_labels(
    data: Data, file: Path, *, home: Path | None, config: Path | None, recipe: str | None, quiet: bool
) -> dict[str, Any]:
    """Writes the best memories for each answerable question, with whether they help, for `fusion tune --calibrate`.

    Raises DataError, BadInput, SettingsError.
    """
    settings = settings_of(home, config)
    base = job_of(settings, data.path, recipe=recipe, name="labels").base
    questions = read_questions(data, settings.home / "tuning", base, base.expand.span)
    cases = [case for case in questions.cases if case.answerable]
    with bar("labels", len(cases), quiet=quiet) as advance:
        rows = asyncio.run(_label_rows(cases, base, advance))
    write_rows(file, rows)
    return {"data": questions.data, "recipe": base.name, "answers": len(cases), "labels": len(rows), "file": str(file)}


async def _label_rows(cases: Sequence[Case], recipe: Recipe, advance: Callable[[int], None]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, case in enumerate(cases):
        outcome = await fuse(case.request, recipe, case.io)
        rows += rows_of_answer(outcome.receipt.body, case.useful, f"{case.fold} {number}")
        advance(1)
    return rows


def from_questions(
    job: Job, read: ReadQuestions, *, answers_file: Path | None, only: tuple[str, ...], quiet: bool
) -> dict[str, Any]:
    """Chooses numbers, or learns trees, by recorded questions; writes a recipe if it is better, and gives the figures.

    Nothing is written where anything fails.
    """
    check(job)
    knobs = select_knobs(only)
    found = read(job.base, largest_span(knobs))
    made: Tuned | Trained
    if job.learner:
        with bar("learning", steps_of_learning(found.cases), quiet=quiet) as advance:
            made = learn(found.cases, job.base, job.model_file.name, advance)
    else:
        with bar("trying values", steps_of_tuning(found.cases, knobs), quiet=quiet) as advance:
            made = tune(found.cases, job.base, knobs, advance)
    if answers_file is not None:
        with bar("answers", len(made.held_out) * len(BUDGETS), quiet=quiet) as advance:
            rows = answers(found.cases, made.held_out, BUDGETS, advance)
        write(answers_file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    origin, figures = origin_of(job, found.data, found.commit), made.as_json()
    model = made.text if isinstance(made, Trained) else None
    written: list[str] = []
    if (is_better(figures) or job.force) and (model is not None or figures["changed"]):
        written = write_recipe(job, found.remembered_by(made.recipe), origin, _verdict(made.validated), model=model)
    return {**origin, "written": written, "name": job.name, **figures}


def _verdict(report: Mapping[str, Any]) -> list[str]:
    """The cross-validated score in words."""
    pair = report["verdict"]
    lines = [
        (
            f"Share of evidence in the block, {counted(report['questions'], 'question')}, each answered by what was "
            "made without its"
        ),
        f"fold: {report['cross_validated_eib']}; base {report['base_eib']}; {_difference(pair)}.",
    ]
    if pair["better"] != "tuned":
        lines.append("That is no better than the base beyond chance.")
    lines += [f"  {name}: {fold['held_out_eib']}, base {fold['base_eib']}" for name, fold in report["folds"].items()]
    return lines


def _difference(pair: Mapping[str, Any]) -> str:
    return f"difference {pair['difference']:+.4f} [{pair['low']:+.4f}, {pair['high']:+.4f}]"


def show(report: Mapping[str, Any]) -> None:
    """Prints the curve of each number, then the verdict."""
    console = terminal.console()
    for name, points in report.get("curves", {}).items():
        table = Table("value", "evidence in block", "over the base", "± over folds", title=escape(name))
        for p in points:
            mark = " ← chosen" if report["changed"].get(name) == p["value"] else " (base)" if p["base"] else ""
            gain = f"{p['gain']:+.4f} ± {p['error']:.4f}"
            table.add_row(f"{p['value']:g}{mark}", f"{p['eib']:.4f}", gain, f"{p['spread']:.4f}")
        console.print(table)
    pair = report["verdict"]
    console.print(
        f"Cross-validated over {counted(len(report['folds']), 'fold')}, {counted(report['questions'], 'question')}"
        f": {report['cross_validated_eib']} against {report['base_eib']} of {report['base']}; {_difference(pair)}"
    )
    if report["unanswerable"]:
        console.print(
            f"Of {counted(report['unanswerable'], 'question')} without an answer, this share got an empty block: "
            f"{report['cross_validated_left_empty']}; {report['base_left_empty']} with the base"
        )
    if pair["better"] != "tuned":
        console.print("That is no better than the base beyond chance.")
    if report.get("changed") == {}:
        console.print("No number gained more than its standard error, so there is no file to write.")
    else:
        show_files(report)


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
