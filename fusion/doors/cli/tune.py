"""`fusion tune`: recordings in, a recipe file out, with the curve that led to it.

Labels of feedback are read here. A data set has to be stored and asked first, which is what the benchmarks do; they
lie beside the sources and not in the wheel, so they are asked for by name, as adapters are.
"""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from rich.markup import escape
from rich.table import Table

import fusion
from fusion.compare.learn import Taught, learn, learn_from_votes, read_labels
from fusion.compare.learn import steps as steps_of_learning
from fusion.compare.tune import KNOBS, Case, Knob, Tuned, answers, tune
from fusion.compare.tune import steps as steps_of_tuning
from fusion.doors import terminal
from fusion.doors.cli.plural import counted
from fusion.doors.cli.progress import bar
from fusion.errors import BadInput, NotFound, SettingsError
from fusion.lib.gbdt import MAX_BYTES
from fusion.recipe import Recipe, mark
from fusion.settings import read_recipe, shipped_recipes

Made = TypeVar("Made", Tuned, Taught)

FEEDBACK = "feedback"
BUDGETS = (6000, 3000, 1500)
"""characters of the answers that a referee sees"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller asks for. ``only`` names numbers by a part of their path; empty is all of them."""

    data: Path
    format: str
    queries: Path | None
    name: str
    base: Recipe
    folder: Path
    """where the recipe goes"""
    recordings: Path
    cache: bool = False
    """whether ``recordings`` are our own, to be replaced where the data or the questions have changed"""
    answers: Path | None = None
    """where the held-out answers go, a line of JSON each, for a referee"""
    learner: bool = False
    force: bool = False
    limit: int | None = None
    conversations: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


def run(wanted: Wanted, *, quiet: bool = False) -> dict[str, Any]:
    """Chooses or learns, writes, and tells. Nothing is written where anything fails.

    Raises BadInput for data, NotFound for a file that is not there, SettingsError where a package is missing.
    """
    file, model = wanted.folder / f"{wanted.name}.toml", wanted.folder / f"{wanted.name}.txt"
    if not wanted.name.replace("-", "").replace("_", "").isalnum():
        raise BadInput(f"--name {wanted.name!r}: letters, digits, - and _")
    if wanted.name in shipped_recipes() and not wanted.force:
        raise BadInput(
            f"--name {wanted.name!r} is a recipe that comes with the project, and what asks by that name would ask by "
            "yours; --force takes the name all the same, --name gives another one"
        )
    for one in (file, *([model] if wanted.learner else [])):
        if one.exists() and not wanted.force:
            raise BadInput(f"{one} is there already; --force writes it anew, --name gives another one")
    if not wanted.data.exists():
        raise NotFound(f"--data {wanted.data}: there is no such file or folder")
    knobs = chosen_knobs(wanted.only)
    if wanted.format == FEEDBACK:
        if not wanted.learner:
            raise BadInput("feedback has no questions to ask again, so no number can be tried on it; add --learner")
        made = learn_from_votes(read_labels(wanted.data), wanted.base, model.name)
        return _told(made, wanted, file, model, _origin(wanted, wanted.data.name, None), quiet)
    found = _benchmarks().material(asdict_of(wanted), wanted.base, max(_span(knobs), 0))
    origin = _origin(wanted, found.data, found.commit)
    if wanted.learner:
        with bar("learning", steps_of_learning(found.cases), quiet=quiet) as advance:
            taught = _marked(learn(found.cases, wanted.base, model.name, advance), found.cases)
        _answers(found.cases, taught, wanted.answers, quiet)
        return _told(taught, wanted, file, model, origin, quiet)
    with bar("trying values", steps_of_tuning(found.cases, knobs), quiet=quiet) as advance:
        tuned = _marked(tune(found.cases, wanted.base, knobs, advance), found.cases)
    _answers(found.cases, tuned, wanted.answers, quiet)
    return _told(tuned, wanted, file, None, origin, quiet)


def _marked(made: Made, cases: Sequence[Case]) -> Made:
    """What was made, remembering the questions that made it: nothing is to be reported of it on these."""
    seen = {*made.recipe.tuned_on, *(mark(case.request.query) for case in cases)}
    return replace(made, recipe=replace(made.recipe, tuned_on=tuple(sorted(seen))))


def _answers(cases: Sequence[Case], made: Tuned | Taught, file: Path | None, quiet: bool) -> None:
    if file is None:
        return
    with bar("answers", len(made.held_out) * len(BUDGETS), quiet=quiet) as advance:
        rows = answers(cases, made.held_out, BUDGETS, advance)
    _put(file, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def chosen_knobs(only: Sequence[str]) -> tuple[Knob, ...]:
    """The numbers to try. Raises BadInput for a name that is part of none."""
    for name in only:
        if not any(name in knob.name for knob in KNOBS):
            raise BadInput(f"--only {name}: there are {', '.join(knob.name for knob in KNOBS)}")
    return tuple(knob for knob in KNOBS if not only or any(name in knob.name for name in only))


def asdict_of(wanted: Wanted) -> dict[str, Any]:
    """Which data, and where its recordings are, for who reads it."""
    names = ("data", "format", "queries", "limit", "conversations", "recordings", "cache")
    return {name: getattr(wanted, name) for name in names}


def _span(knobs: Sequence[Knob]) -> int:
    return max((int(value) for knob in knobs if knob.name == "expand.span" for value in knob.values), default=0)


def _benchmarks() -> Any:
    try:
        found = importlib.import_module("benchmarks.tune")
    except ModuleNotFoundError as error:
        found = None
        missing = error.name
    else:
        missing = None
    beside = Path(fusion.__file__).resolve().parent.parent / "benchmarks"
    if found is None or Path(str(found.__file__)).resolve().parent != beside:
        if missing and not missing.startswith("benchmarks"):
            raise SettingsError(f"reading a data set needs {missing}: pip install '/path/to/checkout[benchmarks]'")
        raise SettingsError(
            f"data sets are read by the benchmarks, which are not in the wheel (there is no {beside}): run fusion tune "
            f"in a checkout of the sources, or give --format {FEEDBACK}"
        )
    return found


# The file --------------------------------------------------------------------------------------------------------


def _origin(wanted: Wanted, data: str, commit: str | None) -> dict[str, Any]:
    return {
        "data": data,
        "date": datetime.now(UTC).date().isoformat(),
        "version": fusion.__version__,
        "commit": commit,
        "base": f"{wanted.base.name} {wanted.base.hash}",
    }


def _told(
    made: Tuned | Taught, wanted: Wanted, file: Path, model: Path | None, origin: Mapping[str, Any], quiet: bool
) -> dict[str, Any]:
    figures = made.as_json()
    written = []
    kept = pays(figures) or wanted.force
    if kept and isinstance(made, Taught) and model is not None:
        if len(made.text.encode()) > MAX_BYTES:
            raise BadInput(f"the model has more than {MAX_BYTES} bytes")
        _put(model, made.text)
        written.append(str(model))
    if kept and (not isinstance(made, Tuned) or made.changed):
        lines = [
            f"Made by `fusion tune` on {origin['date']} from {origin['data']}, as of {origin['base']}.",
            *_says(made),
        ]
        if origin["commit"]:
            lines[0] += f" Commit {origin['commit']}."
        # Read back before it takes its place: a file that cannot be read must not be left behind.
        _put(file, toml(made.recipe, lines), check=not isinstance(made, Taught))
        written.append(str(file))
    told = {**origin, "written": written, "name": wanted.name, **figures}
    if not quiet:
        show(told, isinstance(made, Taught))
    return told


def pays(figures: Mapping[str, Any]) -> bool:
    """Whether questions that had no say speak for it: more evidence, beyond chance; or as much, and more of those
    without an answer left empty. Of votes: more pairs ordered rightly.
    """
    if "cross_validated_pairs_right" in figures:
        return bool(figures["cross_validated_pairs_right"] > figures["base_pairs_right"])
    emptier = (figures["cross_validated_left_empty"] or 0) > (figures["base_left_empty"] or 0)
    better = figures["verdict"]["better"]
    return better == "tuned" or (better is None and emptier)


def _says(made: Tuned | Taught) -> list[str]:
    """What is known of its worth: cross-validated, never what it gets on what it was made from."""
    told = made.as_json() if isinstance(made, Taught) else dict(made.validated)
    if "cross_validated_pairs_right" in told:
        return [
            (
                f"Pairs of a useful and a useless memory ordered rightly, cross-validated over "
                f"{counted(told['answers'], 'answer')}:"
            ),
            f"{told['cross_validated_pairs_right']}, and {told['base_pairs_right']} by the recipe of that time.",
        ]
    pair = told["verdict"]
    lines = [
        (
            f"Share of evidence in the block, {counted(told['questions'], 'question')}, each answered by what was made "
            "without its"
        ),
        f"fold: {told['cross_validated_eib']}; base {told['base_eib']}; {_difference(pair)}.",
    ]
    if pair["better"] != "tuned":
        lines.append("That is no better than the base beyond chance.")
    lines += [f"  {name}: {fold['held_out_eib']}, base {fold['base_eib']}" for name, fold in told["folds"].items()]
    return lines


def toml(recipe: Recipe, says: Sequence[str]) -> str:
    """A recipe's file: what differs from `Recipe`, under lines of comment."""
    out = [f"# {line}" for line in says]
    out.append("# What is not written here is as in fusion/recipe.py, which gives each number's unit and reason.")
    if recipe.tuned_on:
        out += ["", "# The questions that made it, so that nobody reports what it finds for these.", "tuned_on = ["]
        out += [f"  {json.dumps(recipe.tuned_on[n : n + 10])[1:-1]}," for n in range(0, len(recipe.tuned_on), 10)]
        out.append("]")
    plain = Recipe()
    for part in (f.name for f in fields(Recipe) if f.name not in ("name", "tuned_on")):
        mine, usual = getattr(recipe, part), getattr(plain, part)
        numbers = {f.name: getattr(mine, f.name) for f in fields(mine)}
        tables = {key: dict(value) for key, value in numbers.items() if isinstance(value, Mapping) and value}
        model = numbers.pop("model", None)
        changed = {
            key: value
            for key, value in numbers.items()
            if not isinstance(value, Mapping) and value != getattr(usual, key)
        }
        if model is not None:
            changed |= {"model": model.file, "model_hash": model.hash}
        if changed:
            out += ["", f"[{part}]", *(f"{key} = {json.dumps(value)}" for key, value in changed.items())]
        for key, table in tables.items():
            out += ["", f"[{part}.{key}]", *(f"{json.dumps(n)} = {json.dumps(_round(v))}" for n, v in table.items())]
    return "\n".join(out) + "\n"


def _round(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def _put(file: Path, text: str, *, check: bool = False) -> None:
    """Whole or not at all, for its owner only."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=".tune-", suffix=file.suffix)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        if check:
            read_recipe(Path(name))
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _difference(pair: Mapping[str, Any]) -> str:
    return f"difference {pair['difference']:+.4f} [{pair['low']:+.4f}, {pair['high']:+.4f}]"


# For people ------------------------------------------------------------------------------------------------------


def show(told: Mapping[str, Any], learned: bool) -> None:
    """The curve of each number, then the verdict."""
    console = terminal.console()
    for name, points in told.get("curves", {}).items():
        table = Table("value", "evidence in block", "over the base", "± over folds", title=escape(name))
        for p in points:
            mark = " ← chosen" if told["changed"].get(name) == p["value"] else " (base)" if p["base"] else ""
            gain = f"{p['gain']:+.4f} ± {p['error']:.4f}"
            table.add_row(f"{p['value']:g}{mark}", f"{p['eib']:.4f}", gain, f"{p['spread']:.4f}")
        console.print(table)
    if "cross_validated_pairs_right" in told:
        console.print(
            f"Pairs ordered rightly, cross-validated: {told['cross_validated_pairs_right']:.4f} "
            f"(base {told['base_pairs_right']:.4f}; "
            f"{counted(told['answers'], 'answer')}, {counted(told['votes'], 'vote')})"
        )
    else:
        pair = told["verdict"]
        console.print(
            f"Cross-validated over {counted(len(told['folds']), 'fold')}, {counted(told['questions'], 'question')}: "
            f"{told['cross_validated_eib']} against {told['base_eib']} of {told['base']}; {_difference(pair)}"
        )
        if told["unanswerable"]:
            console.print(
                f"Of {counted(told['unanswerable'], 'question')} without an answer, this share got an empty block: "
                f"{told['cross_validated_left_empty']}; {told['base_left_empty']} with the base"
            )
        if pair["better"] != "tuned":
            console.print("That is no better than the base beyond chance.")
    if not learned and not told["changed"]:
        console.print("No number gained more than its standard error, so there is no file to write.")
    elif not told["written"]:
        console.print("Keep the base: no file is written for what does not pay; --force writes it all the same.")
    for file in told["written"]:
        console.print(f"Wrote {escape(file)}", soft_wrap=True)
    if told["written"]:
        console.print(f"Ask with --recipe {told['name']}; a running server reads it when it starts again.")
