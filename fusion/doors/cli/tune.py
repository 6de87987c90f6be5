"""`fusion tune`: learns trees from feedback, and writes the recipe that uses them.

`python -m benchmarks tune` chooses numbers and learns by a data set's questions. It writes its recipe by this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.markup import escape

import fusion
from fusion.compare.learn import learn_from_votes, read_labels
from fusion.compare.recipe_file import toml
from fusion.doors import terminal
from fusion.doors.cli.plural import counted
from fusion.errors import BadInput, NotFound
from fusion.lib.gbdt import MAX_BYTES
from fusion.recipe import Recipe
from fusion.recipe_files import read_recipe, recipes, shipped_recipes
from fusion.settings import Settings
from fusion.store.private_files import write_atomically


@dataclass(frozen=True, slots=True)
class Job:
    """What to tune or learn, and the recipe to write."""

    data: Path
    name: str
    base: Recipe
    folder: Path
    """where the recipe goes"""
    learner: bool = False
    force: bool = False

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
    check(job)
    if not job.learner:
        raise BadInput("feedback has no questions to ask again, so no number can be tried on it; add --learner")
    made = learn_from_votes(read_labels(job.data), job.base, job.model_file.name)
    origin, figures = origin_of(job, job.data.name), made.as_json()
    right, base_right = figures["cross_validated_pairs_right"], figures["base_pairs_right"]
    verdict = [
        (
            f"Pairs of a useful and a useless memory ordered rightly, cross-validated over "
            f"{counted(figures['answers'], 'answer')}:"
        ),
        f"{right}, and {base_right} by the recipe of that time.",
    ]
    better = right > base_right or job.force
    written = write_recipe(job, made.recipe, origin, verdict, model=made.text) if better else []
    return {**origin, "written": written, "name": job.name, **figures}


def check(job: Job) -> None:
    """Raises BadInput or NotFound for a job that cannot be done, before any work."""
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


def origin_of(job: Job, data: str, commit: str | None = None) -> dict[str, Any]:
    """Where a recipe comes from, for its file and the figures."""
    return {
        "data": data,
        "date": datetime.now(UTC).date().isoformat(),
        "version": fusion.__version__,
        "commit": commit,
        "base": f"{job.base.name} {job.base.hash}",
    }


def write_recipe(
    job: Job, recipe: Recipe, origin: Mapping[str, Any], verdict: Sequence[str], *, model: str | None = None
) -> list[str]:
    """Writes a recipe with the text of its model, if it has one; returns the paths of the written files.

    ``verdict`` has the cross-validated score in words: never the score on the questions that chose the numbers.
    """
    written = []
    if model is not None:
        if len(model.encode()) > MAX_BYTES:
            raise BadInput(f"the model has more than {MAX_BYTES} bytes")
        write(job.model_file, model)
        written.append(str(job.model_file))
    commit = f" Commit {origin['commit']}." if origin["commit"] else ""
    made = f"Made by `fusion tune` on {origin['date']} from {origin['data']}, as of {origin['base']}.{commit}"
    # Read before it takes its place: a file that cannot be read must not stay.
    write(job.recipe_file, toml(recipe, [made, *verdict]), check=model is None)
    written.append(str(job.recipe_file))
    return written


def write(file: Path, text: str, *, check: bool = False) -> None:
    """Writes the whole file or nothing, readable by its owner only."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(file, text.encode(), check=read_recipe if check else None)


# For people ------------------------------------------------------------------------------------------------------


def show(report: Mapping[str, Any]) -> None:
    """Prints the score of trees that were learned from feedback, then the files."""
    terminal.console().print(
        f"Pairs ordered rightly, cross-validated: {report['cross_validated_pairs_right']:.4f} "
        f"(base {report['base_pairs_right']:.4f}; "
        f"{counted(report['answers'], 'answer')}, {counted(report['votes'], 'vote')})"
    )
    show_files(report)


def show_files(report: Mapping[str, Any]) -> None:
    """Prints which files were written and how to ask with the recipe, or why there are none."""
    console = terminal.console()
    if not report["written"]:
        console.print("Keep the base: no file is written for what does not pay; --force writes it all the same.")
    for file in report["written"]:
        console.print(f"Wrote {escape(file)}", soft_wrap=True)
    if report["written"]:
        console.print(f"Ask with --recipe {report['name']}; a running server reads it when it starts again.")
