"""Tuning from the command line: `fusion tune` by feedback, `python -m benchmarks tune` by questions.

A data set needs stores of its own, which the benchmarks fill. They import this module and pass their questions to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

import fusion
from fusion.compare.learn import Trained, learn, learn_from_votes, read_labels
from fusion.compare.learn import steps as steps_of_learning
from fusion.compare.recipe_file import toml
from fusion.compare.tune import ReadQuestions, Tuned, answers, is_better, largest_span, select_knobs, tune
from fusion.compare.tune import steps as steps_of_tuning
from fusion.doors import terminal
from fusion.doors.cli.plural import counted
from fusion.doors.cli.progress import bar
from fusion.errors import BadInput, NotFound
from fusion.lib.gbdt import MAX_BYTES
from fusion.recipe import Recipe
from fusion.settings import Settings, read_recipe, recipes, shipped_recipes
from fusion.store.private_files import write_atomically

BUDGETS = (6000, 3000, 1500)
"""characters of the answers that a referee sees"""


@dataclass(frozen=True, slots=True)
class Job:
    """What to tune or learn. ``only`` names numbers by a part of their path; empty is all of them."""

    data: Path
    name: str
    base: Recipe
    folder: Path
    """where the recipe goes"""
    answers: Path | None = None
    """where the held-out answers go, a line of JSON each, for a referee"""
    learner: bool = False
    force: bool = False
    only: tuple[str, ...] = ()

    @property
    def recipe_file(self) -> Path:
        return self.folder / f"{self.name}.toml"

    @property
    def model_file(self) -> Path:
        return self.folder / f"{self.name}.txt"


def job_of(settings: Settings, data: Path, *, recipe: str | None, **options: Any) -> Job:
    """A job of a home: its recipe goes where the home looks for recipes. Raises BadInput for an unknown recipe."""
    known = recipes(settings)
    base = recipe or settings.recipe
    if base not in known:
        raise BadInput(f"--recipe {base!r}: there are {', '.join(sorted(known))}")
    return Job(data, base=known[base], folder=settings.home / "recipes", **options)


def from_feedback(job: Job) -> dict[str, Any]:
    """Learns trees from an export of feedback, writes them with their recipe if they are better, and gives the figures.

    Raises BadInput for labels, NotFound for a file that does not exist, SettingsError where a package is missing.
    """
    _check(job)
    if not job.learner:
        raise BadInput("feedback has no questions to ask again, so no number can be tried on it; add --learner")
    made = learn_from_votes(read_labels(job.data), job.base, job.model_file.name)
    return _finish(made, job, _origin(job, job.data.name, None))


def from_questions(job: Job, read: ReadQuestions, *, quiet: bool = False) -> dict[str, Any]:
    """Chooses numbers, or learns trees, by recorded questions; writes a recipe if it is better, and gives the figures.

    Nothing is written where anything fails. Raises as `from_feedback` does.
    """
    _check(job)
    knobs = select_knobs(job.only)
    found = read(job.base, largest_span(knobs))
    made: Tuned | Trained
    if job.learner:
        with bar("learning", steps_of_learning(found.cases), quiet=quiet) as advance:
            taught = learn(found.cases, job.base, job.model_file.name, advance)
        made = replace(taught, recipe=found.remembered_by(taught.recipe))
    else:
        with bar("trying values", steps_of_tuning(found.cases, knobs), quiet=quiet) as advance:
            tuned = tune(found.cases, job.base, knobs, advance)
        made = replace(tuned, recipe=found.remembered_by(tuned.recipe))
    if job.answers is not None:
        with bar("answers", len(made.held_out) * len(BUDGETS), quiet=quiet) as advance:
            rows = answers(found.cases, made.held_out, BUDGETS, advance)
        _write(job.answers, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return _finish(made, job, _origin(job, found.data, found.commit))


def _check(job: Job) -> None:
    if not job.name.replace("-", "").replace("_", "").isalnum():
        raise BadInput(f"--name {job.name!r}: letters, digits, - and _")
    if job.name in shipped_recipes() and not job.force:
        raise BadInput(
            f"--name {job.name!r} is a recipe that comes with the project, and what asks by that name would ask by "
            "yours; --force takes the name all the same, --name gives another one"
        )
    for file in (job.recipe_file, *([job.model_file] if job.learner else [])):
        if file.exists() and not job.force:
            raise BadInput(f"{file} is there already; --force writes it anew, --name gives another one")
    if not job.data.exists():
        raise NotFound(f"--data {job.data}: there is no such file or folder")


# The file --------------------------------------------------------------------------------------------------------


def _origin(job: Job, data: str, commit: str | None) -> dict[str, Any]:
    return {
        "data": data,
        "date": datetime.now(UTC).date().isoformat(),
        "version": fusion.__version__,
        "commit": commit,
        "base": f"{job.base.name} {job.base.hash}",
    }


def _finish(made: Tuned | Trained, job: Job, origin: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the recipe, and the model of trees, if they are better or ``--force`` was given; gives the figures."""
    figures = made.as_json()
    written = []
    write = is_better(figures) or job.force
    if write and isinstance(made, Trained):
        if len(made.text.encode()) > MAX_BYTES:
            raise BadInput(f"the model has more than {MAX_BYTES} bytes")
        _write(job.model_file, made.text)
        written.append(str(job.model_file))
    if write and (not isinstance(made, Tuned) or made.changed):
        comment = [
            f"Made by `fusion tune` on {origin['date']} from {origin['data']}, as of {origin['base']}.",
            *_verdict(made),
        ]
        if origin["commit"]:
            comment[0] += f" Commit {origin['commit']}."
        # Read before it takes its place: a file that cannot be read must not stay.
        _write(job.recipe_file, toml(made.recipe, comment), check=not isinstance(made, Trained))
        written.append(str(job.recipe_file))
    return {**origin, "written": written, "name": job.name, **figures}


def _verdict(made: Tuned | Trained) -> list[str]:
    """The cross-validated score in words: never the score on the questions that chose the numbers."""
    report = made.as_json() if isinstance(made, Trained) else dict(made.validated)
    if "cross_validated_pairs_right" in report:
        return [
            (
                f"Pairs of a useful and a useless memory ordered rightly, cross-validated over "
                f"{counted(report['answers'], 'answer')}:"
            ),
            f"{report['cross_validated_pairs_right']}, and {report['base_pairs_right']} by the recipe of that time.",
        ]
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


def _write(file: Path, text: str, *, check: bool = False) -> None:
    """Writes the whole file or nothing, readable by its owner only."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(file, text.encode(), check=read_recipe if check else None)


def _difference(pair: Mapping[str, Any]) -> str:
    return f"difference {pair['difference']:+.4f} [{pair['low']:+.4f}, {pair['high']:+.4f}]"


# For people ------------------------------------------------------------------------------------------------------


def show(report: Mapping[str, Any]) -> None:
    """Prints the curve of each number, then the verdict."""
    is_learned = "model_hash" in report
    console = terminal.console()
    for name, points in report.get("curves", {}).items():
        table = Table("value", "evidence in block", "over the base", "± over folds", title=escape(name))
        for p in points:
            mark = " ← chosen" if report["changed"].get(name) == p["value"] else " (base)" if p["base"] else ""
            gain = f"{p['gain']:+.4f} ± {p['error']:.4f}"
            table.add_row(f"{p['value']:g}{mark}", f"{p['eib']:.4f}", gain, f"{p['spread']:.4f}")
        console.print(table)
    if "cross_validated_pairs_right" in report:
        console.print(
            f"Pairs ordered rightly, cross-validated: {report['cross_validated_pairs_right']:.4f} "
            f"(base {report['base_pairs_right']:.4f}; "
            f"{counted(report['answers'], 'answer')}, {counted(report['votes'], 'vote')})"
        )
    else:
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
    if not is_learned and not report["changed"]:
        console.print("No number gained more than its standard error, so there is no file to write.")
    elif not report["written"]:
        console.print("Keep the base: no file is written for what does not pay; --force writes it all the same.")
    for file in report["written"]:
        console.print(f"Wrote {escape(file)}", soft_wrap=True)
    if report["written"]:
        console.print(f"Ask with --recipe {report['name']}; a running server reads it when it starts again.")
