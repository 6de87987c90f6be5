"""What is to be measured, and how; what cannot be is refused before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import memory_libraries
from benchmarks.arms import BASELINES, Arm, ablations, known, parse, parts, wholes
from benchmarks.compound_questions import joined
from benchmarks.datasets import Corpus, DataError
from benchmarks.fill_stores import BACKENDS
from fusion.recipe import Recipe, mark
from fusion.settings import load as load_settings
from fusion.settings import recipes as load_recipes


@dataclass(frozen=True, slots=True)
class Run:
    """What is measured, and how."""

    dataset: str
    corpora: tuple[Corpus, ...]
    recipe: str = "default"
    backends: tuple[str, ...] = BACKENDS
    arms: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    against: str | None = None
    ablate: bool = False
    """the main recipe with one thing left out at a time, too"""
    recipes_folder: Path | None = None
    recordings: Path | None = None
    cache: bool = False
    """whether ``recordings`` are the program's own: what was recorded otherwise is then recorded again, not refused"""
    captions: bool = False
    scattered: bool = False
    joined: int = 1
    """answerable questions of a corpus that are asked in one sentence"""
    conversations: tuple[str, ...] = ()
    limit: int | None = None
    """questions of each corpus, from its first"""
    jobs: int = 1
    answers: Path | None = None
    rows: Path | None = None
    home: Path | None = None
    """kept between runs, so that a second one with another recipe need not store again"""
    seed: int = 0

    @property
    def setup(self) -> str:
        """What figures are of, as every row has it: the data set, and how it was stored and is asked."""
        how = ["captions"] * self.captions + ["scattered"] * self.scattered
        return " ".join([self.dataset, *how, *[f"joined {self.joined}"] * (self.joined > 1)])


def checked(options: Run) -> tuple[Run, tuple[Arm, ...]]:
    """The run with its defaults filled in, and its arms, the main one first. Raises DataError."""
    known(options.backends, BACKENDS, "backend")
    if options.scattered and len(options.backends) < 2:
        raise DataError("memories are scattered over two backends or more")
    memory_libraries.require(known(options.baselines, BASELINES, "baseline"))
    for name in options.conversations:
        known((name,), [c.id for c in options.corpora], "conversation")
    chosen = tuple(c for c in options.corpora if not options.conversations or c.id in options.conversations)
    alone = options.joined == 1
    corpora = chosen if alone else tuple(joined(c, options.joined, options.seed) for c in chosen)
    corpora = tuple(c for c in corpora if c.asked(options.limit))
    if not corpora and not alone:
        raise DataError(f"no corpus of {options.dataset} has {options.joined} answerable questions to join")
    if not corpora:
        lost = sum(len(q.unresolved) for c in chosen for q in c.questions)
        why = f": {lost} of its evidence ids name nothing that is there" if lost else ""
        raise DataError(f"{options.dataset} has no question that can be scored{why}")
    if options.scattered:
        answerable(options.dataset, corpora, options.limit)
    arms = parse((options.recipe, *options.arms), all_recipes(options.recipes_folder), options.backends)
    for arm in arms:
        unbiased(arm.recipe, chosen, options.limit if alone else None)
    if options.ablate:
        arms = (*arms, *ablations(arms[0].recipe, options.backends))
        options = replace(options, against=options.against or arms[0].name)
    if options.scattered and options.baselines:
        raise DataError("--scattered: the baselines know one store only; leave out --baselines")
    names = [*(arm.name for arm in arms), *options.baselines]
    if options.scattered:
        names += [arm.name for arm in (*parts(arms[0], options.backends), *wholes(arms[0], options.backends))]
    against = options.against or next(iter(options.baselines[::-1]), arms[0].name)
    if "handset" in options.baselines and options.against is None:
        against = "handset"
    known((against,), names, "arm")
    for file in (options.answers, options.rows):
        if file is not None and not file.absolute().parent.is_dir():
            raise DataError(f"{file} cannot be written: there is no folder {file.parent}")
        if file is not None and file.is_dir():
            raise DataError(f"{file} cannot be written: it is a folder")
    for folder in (options.recordings, options.home):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise DataError(f"{folder} is no folder")
    return replace(options, corpora=corpora, against=against), arms


def answerable(dataset: str, corpora: Sequence[Corpus], limit: int | None) -> None:
    """Raises DataError where nothing that is asked has an answer: no store could be told from another."""
    if not any(question.answerable for corpus in corpora for question in corpus.asked(limit)):
        raise DataError(f"{dataset} has no question with evidence: stores are told apart by what they find of it")


def unbiased(recipe: Recipe, corpora: Sequence[Corpus], limit: int | None) -> None:
    """Raises DataError for a recipe that was tuned on questions of these: its figures there would flatter it."""
    known = frozenset(recipe.tuned_on)
    seen = [c.id for c in corpora if any(mark(question.text) in known for question in c.asked(limit))]
    if known and seen:
        raise DataError(
            f"recipe {recipe.name!r} was tuned on questions of {', '.join(seen)}: what it finds there would flatter "
            "it. Its file says what it finds where it had not looked; ask others (--conversations), or another recipe"
        )


def all_recipes(folder: Path | None) -> Mapping[str, Recipe]:
    """The shipped recipes, and those of ``folder``."""
    if folder is not None and not folder.is_dir():
        raise DataError(f"there is no folder of recipes {folder}")
    return load_recipes(load_settings(home=Path("/nonexistent"), recipes_folder=folder))
