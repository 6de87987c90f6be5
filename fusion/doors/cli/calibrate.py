"""`fusion tune --calibrate`: fits the probabilities of a recipe from votes, or from questions with known answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

import fusion
from fusion.calibration import Calibration
from fusion.compare.calibrate import (
    Fitted,
    Key,
    Labelled,
    fit,
    in_words,
    labels_of,
    read_rows,
    rows_of_answer,
    toml,
    too_few_for,
)
from fusion.compare.queries import Asked, Expected, read_queries
from fusion.doors import terminal
from fusion.doors.cli.plural import counted
from fusion.doors.cli.progress import bar
from fusion.errors import BadInput, NotFound
from fusion.lib.budget import MAX_BUDGET_CHARS
from fusion.local_models.registry import of_identity
from fusion.recipe import Recipe
from fusion.recipe_files import CALIBRATION, read_calibration, recipes
from fusion.store.private_files import write_atomically
from fusion.trust import changing

if TYPE_CHECKING:
    from fusion.client import AsyncClient
    from fusion.doors.cli.command import Target

MAX_RESULTS = 100
TIMEOUT_MS = 30_000
"""longer than a recipe's, because what is found counts here, not how fast"""


@dataclass(frozen=True, slots=True)
class Options:
    """What `fusion tune --calibrate` was given."""

    data: Path
    recipe: str | None = None
    held_out: Path | None = None
    dry_run: bool = False
    force: bool = False


async def calibrate(target: Target, options: Options) -> dict[str, Any]:
    """Fits a calibration for each model that the labels name, and writes it into the home.

    Raises BadInput for too few labels and for a file that is there already, NotFound for data that are not there.
    """
    settings = target.settings()
    known = recipes(settings)
    name = options.recipe or settings.recipe
    if name not in known:
        raise BadInput(f"--recipe {name!r}: there are {', '.join(sorted(known))}")
    recipe = known[name]
    if recipe.rerank.model is not None:
        raise BadInput(f"--recipe {name!r}: its trees were calibrated when they were learned")
    labels = await _labels(target, options.data, recipe)
    held_out = await _labels(target, options.held_out, recipe) if options.held_out is not None else {}
    weights = recipe.rerank.weights_hash
    by_words = recipe.rerank.by_words.weights_hash
    mine = {key: found for key, found in labels.items() if key.weights == (weights if key.model else by_words)}
    if not mine:
        raise BadInput(f"{options.data}: {too_few_for(weights, labels)}")
    fitted = [_fit(key, found, held_out.get(key, ()), recipe, options) for key, found in mine.items()]
    folder = settings.home / "recipes"
    files = {folder / f"{name}-{model_name(one.calibration)}{CALIBRATION}": one for one in fitted}
    if not options.dry_run:
        with changing(settings.home):
            _write(files, options)
    return {
        "recipe": name,
        "data": options.data.name,
        "held_out_by": options.held_out.name if options.held_out is not None else "cross-validation by answer",
        "dry_run": options.dry_run,
        "calibrations": [{"file": str(file), **one.as_json()} for file, one in files.items()],
    }


def _fit(
    key: Key, labels: Sequence[Labelled], held_out: Sequence[Labelled], recipe: Recipe, options: Options
) -> Fitted:
    if options.held_out is not None and not held_out:
        raise BadInput(f"--held-out {options.held_out}: no label is for {key.model or 'homes without a model'}")
    found = (one for one in reversed(recipe.rerank.calibrations) if (one.model, one.second, one.weights) == key)
    before: Calibration | None = next(found, None)
    try:
        return fit(key, labels, held_out=held_out, before=before, fitted_on=options.data.name)
    except BadInput as error:
        raise BadInput(f"{options.data}: {error}") from None


def model_name(calibration: Calibration) -> str:
    """The models of a calibration as a part of a file's name: `minilm`, `minilm-e5-small-v2`, `words`."""
    identities = [one for one in (calibration.model or "words", calibration.second) if one]
    models = [known.name if (known := of_identity(one)) is not None else one for one in identities]
    return re.sub(r"[^\w.]+", "-", "-".join(models))


def _write(files: Mapping[Path, Fitted], options: Options) -> None:
    for file in files:
        if file.exists() and not options.force:
            raise BadInput(f"{file} is there already; --force writes it anew")
    day = datetime.now(UTC).date().isoformat()
    for file, fitted in files.items():
        made = (
            f"Made by `fusion tune --calibrate` on {day} from {options.data.name}, memory-fusion {fusion.__version__}."
        )
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(file, toml(fitted, [made]).encode(), check=read_calibration)


# Labels ----------------------------------------------------------------------------------------------------------


async def _labels(target: Target, file: Path, recipe: Recipe) -> dict[Key, list[Labelled]]:
    """The labels of a file of votes, or of the answers to a file of questions."""
    if not file.is_file():
        raise NotFound(f"--data {file}: there is no such file")
    if _has_votes(file):
        return read_rows(file)
    asked = [one for one in read_queries(file) if one.expected is not None]
    if not asked:
        raise BadInput(f"{file}: no question has expected memories, texts or files")
    rows: list[dict[str, Any]] = []
    async with target.client() as client:
        with bar("asking", len(asked), quiet=target.as_json, transient=True) as advance:
            for number, question in enumerate(asked):
                rows += await _asked(client, question, recipe, f"q{number}")
                advance(1)
    return labels_of(rows)


def _has_votes(file: Path) -> bool:
    with file.open("rb") as stream:
        first = next((line for line in stream if line.strip()), b"")
    return first.lstrip().startswith(b"{") and b'"receipt_id"' in first


async def _asked(client: AsyncClient, question: Asked, recipe: Recipe, name: str) -> list[dict[str, Any]]:
    """The best memories for a question as labels: those that fit what is expected help."""
    given: dict[str, Any] = dict(question.given)
    answer = await client.fuse(
        question.query,
        recipe=recipe.name,
        fill=True,
        gate=False,
        budget_chars=MAX_BUDGET_CHARS,
        max_results=MAX_RESULTS,
        timeout_ms=TIMEOUT_MS,
        **given,
    )
    expected = question.expected or Expected()
    helpful = {
        member["ref"]
        for memory in answer["memories"]
        for member in memory["members"]
        if expected.fits(member, memory["document"])
    }
    helpful |= {*expected.refs, *expected.any}
    receipt = await client.receipt(answer["receipt_id"])
    return rows_of_answer(receipt, helpful.__contains__, name)


# For people ------------------------------------------------------------------------------------------------------


def show(report: Mapping[str, Any]) -> None:
    """Prints how well the probabilities of each calibration hold, and its file."""
    console = terminal.console()
    for one in report["calibrations"]:
        models = " and ".join(name for name in (one["model"], one["second"]) if name) or "words alone, without a model"
        console.print(f"{escape(models)}, weights of {escape(report['recipe'])} ({one['weights_hash']})")
        for sort, labels in one["labels"].items():
            console.print(f"  {sort:9} {_fate(sort, one, labels)}", soft_wrap=True)
        verb = "Would write" if report["dry_run"] else "Wrote"
        console.print(f"{verb} {escape(one['file'])}", soft_wrap=True)
    console.print(f"Held out: {escape(report['held_out_by'])}. A running server reads the file when it starts again.")


def _fate(sort: str, one: Mapping[str, Any], labels: Mapping[str, int]) -> str:
    count = counted(sum(labels.values()), "label")
    if one["held_out"].get(sort):
        return f"{count}; held out: {in_words(one['held_out'][sort])}"
    what = "keeps what it had" if sort in one["kept"] else "has no probabilities"
    return f"{count}, {labels['helpful']} of them helpful: too few, {what}"
