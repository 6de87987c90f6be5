"""What `fusion tune` learns from: a data set's questions, recorded once, as cases that any recipe can be tried on.

`fusion` does not import this: it asks for it by name where it is there. Data sets need stores of their own, many homes
filled and thrown away again, and that is what the benchmarks are; they lie beside the sources, not in the wheel.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.__main__ import load_dataset
from benchmarks.arms import Arm
from benchmarks.datasets import DataError, Question
from benchmarks.figures import commit
from benchmarks.live import recording
from benchmarks.options import Run, checked, unbiased
from benchmarks.progress import bar
from benchmarks.recorded import Recorded, Tape, scope_of
from benchmarks.rows import Scorer
from benchmarks.store import BACKENDS, TIMEOUT_MS
from fusion.compare.tune import Case
from fusion.errors import BadInput
from fusion.recall.engine import FuseRequest, Outcome
from fusion.recipe import ExpandSettings, Recipe


@dataclass(frozen=True, slots=True)
class Material:
    """The cases, and where they are from, for the recipe's first lines."""

    cases: tuple[Case, ...]
    data: str
    commit: str | None


def material(options: Mapping[str, Any], base: Recipe, span: int) -> Material:
    """Records what is not recorded yet. Raises BadInput for data, a corpus or a format that cannot be had."""
    try:
        corpora = load_dataset(options["format"], options["data"], options["queries"])
        run = Run(
            dataset=options["data"].resolve().stem,
            corpora=corpora,
            conversations=options["conversations"],
            limit=options["limit"],
            recordings=options["recordings"],
            cache=options["cache"],
        )
        run, _ = checked(run)
        unbiased(base, run.corpora, run.limit)
        wide = replace(base, expand=ExpandSettings(max(base.expand.span, span), base.expand.max_pool))
        cases: list[Case] = []
        recorders: set[str] = set()
        with bar("recording", sum(len(c.memories) + len(c.asked(run.limit)) for c in run.corpora)) as advance:
            for corpus in run.corpora:
                one, _ = recording(corpus, run, [Arm(base.name, wide, BACKENDS)], advance)
                recorders |= {one.made.get("commit") or ""} - {""}
                items = {item.id: item for item in corpus.memories}
                scorer = Scorer(run.dataset, corpus, {ref: items[item] for ref, item in one.stored.items()})
                request = FuseRequest("", scope_of(corpus), backends=BACKENDS, timeout_ms=TIMEOUT_MS)
                cases += [_case(corpus.id, q, request, one, scorer) for q in corpus.asked(run.limit)]
    except DataError as error:
        raise BadInput(str(error)) from None
    return Material(
        tuple(cases), f"{run.dataset} ({', '.join(c.id for c in run.corpora)})", _commits(commit(), recorders)
    )


def _commits(now: str | None, recorders: Set[str]) -> str | None:
    """The commit that chooses, and those that had answered where they are others."""
    others = ", ".join(sorted(recorders - {now}))
    return f"{now}, on answers recorded by {others}" if now and others else now


def _case(fold: str, question: Question, request: FuseRequest, one: Recorded, scorer: Scorer) -> Case:
    def found(outcome: Outcome) -> float:
        return scorer.share(question, outcome) or 0.0

    def answer(outcome: Outcome, budget: int) -> Mapping[str, Any]:
        told = outcome.fused.recipe
        arm = Arm(told["name"], Recipe(name=told["name"]), BACKENDS)
        return scorer.row(question, arm, budget, outcome, outcome.fused.took_ms, 0.0).answer()

    return Case(
        fold=fold,
        request=replace(request, query=question.text),
        world=Tape(one.recordings[question.index]),
        answerable=question.answerable,
        found=found,
        useful=lambda ref: scorer.is_evidence(question, ref),
        answer=answer,
    )
