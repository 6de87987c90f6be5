"""The options of a run, checked before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks import memory_libraries
from benchmarks.arms import BASELINES, Arm, ablations, check_names, full_store_arms, parse, single_and_without
from benchmarks.compound_questions import join_questions
from benchmarks.datasets import Corpus, DataError
from benchmarks.fill_stores import BACKENDS, Table
from fusion.recipe import Recipe, mark
from fusion.recipe_files import recipes as load_recipes
from fusion.settings import load as load_settings


@dataclass(frozen=True, slots=True)
class Run:
    """The options of a run."""

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
    others: Mapping[str, Table] = field(default_factory=dict)
    """the tables of backends that ``backends`` may name besides the embedded ones"""
    home: Path | None = None
    """kept between runs, so that a second one with another recipe need not store again"""
    seed: int = 0

    @property
    def setup(self) -> str:
        """What figures are of, as every row has it: the data set, and how it was stored and is asked."""
        how = ["captions"] * self.captions + ["scattered"] * self.scattered
        return " ".join([self.dataset, *how, *[f"joined {self.joined}"] * (self.joined > 1)])


def check_run(options: Run) -> tuple[Run, tuple[Arm, ...]]:
    """The run with its defaults filled in, and its arms, the main one first. Raises DataError."""
    check_names(options.backends, (*BACKENDS, *options.others), "backend")
    if options.scattered and len(options.backends) < 2:
        raise DataError("memories are scattered over two backends or more")
    memory_libraries.require(check_names(options.baselines, BASELINES, "baseline"))
    for name in options.conversations:
        check_names((name,), [c.id for c in options.corpora], "conversation")
    chosen = tuple(c for c in options.corpora if not options.conversations or c.id in options.conversations)
    alone = options.joined == 1
    corpora = chosen if alone else tuple(join_questions(c, options.joined, options.seed) for c in chosen)
    corpora = tuple(c for c in corpora if c.asked(options.limit))
    if not corpora and not alone:
        raise DataError(f"no corpus of {options.dataset} has {options.joined} answerable questions to join")
    if not corpora:
        lost = sum(len(q.unresolved) for c in chosen for q in c.questions)
        why = f": {lost} of its evidence ids name nothing that is there" if lost else ""
        raise DataError(f"{options.dataset} has no question that can be scored{why}")
    if options.scattered:
        require_answerable(options.dataset, corpora, options.limit)
    arms = parse((options.recipe, *options.arms), all_recipes(options.recipes_folder), options.backends)
    for arm in arms:
        refuse_tuned(arm.recipe, chosen, options.limit if alone else None)
    if options.ablate:
        arms = (*arms, *ablations(arms[0].recipe, options.backends))
        options = replace(options, against=options.against or arms[0].name)
    if options.scattered and options.baselines:
        raise DataError("--scattered: the baselines know one store only; leave out --baselines")
    names = [*(arm.name for arm in arms), *options.baselines]
    if options.scattered:
        names += [
            arm.name
            for arm in (*single_and_without(arms[0], options.backends), *full_store_arms(arms[0], options.backends))
        ]
    against = options.against or next(iter(options.baselines[::-1]), arms[0].name)
    if "handset" in options.baselines and options.against is None:
        against = "handset"
    check_names((against,), names, "arm")
    for file in (options.answers, options.rows):
        if file is not None and not file.absolute().parent.is_dir():
            raise DataError(f"{file} cannot be written: there is no folder {file.parent}")
        if file is not None and file.is_dir():
            raise DataError(f"{file} cannot be written: it is a folder")
    for folder in (options.recordings, options.home):
        if folder is not None and folder.exists() and not folder.is_dir():
            raise DataError(f"{folder} is no folder")
    return replace(options, corpora=corpora, against=against), arms


def require_answerable(dataset: str, corpora: Sequence[Corpus], limit: int | None) -> None:
    """Raises DataError where no question has an answer: stores could not be compared."""
    if not any(question.answerable for corpus in corpora for question in corpus.asked(limit)):
        raise DataError(f"{dataset} has no question with evidence: stores are compared by how much of it they find")


def refuse_tuned(recipe: Recipe, corpora: Sequence[Corpus], limit: int | None) -> None:
    """Raises DataError for a recipe that was tuned on questions of these corpora: its figures would flatter it."""
    check_names = frozenset(recipe.tuned_on)
    seen = [c.id for c in corpora if any(mark(question.text) in check_names for question in c.asked(limit))]
    if check_names and seen:
        raise DataError(
            f"recipe {recipe.name!r} was tuned on questions of {', '.join(seen)}: what it finds there would flatter "
            "it. Its file says what it finds where it had not looked; ask others (--conversations), or another recipe"
        )


def all_recipes(folder: Path | None) -> Mapping[str, Recipe]:
    """The shipped recipes, and those of ``folder``."""
    if folder is not None and not folder.is_dir():
        raise DataError(f"there is no folder of recipes {folder}")
    return load_recipes(load_settings(home=Path("/nonexistent"), recipes_folder=folder))
