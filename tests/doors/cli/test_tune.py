"""`fusion tune`: what it writes can be read and asked, what it cannot do it says, and nothing is left half-written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fusion.doors.cli import app
from fusion.doors.cli.tune import pays, toml
from fusion.errors import SettingsError
from fusion.lib.gbdt import digest
from fusion.recipe import (
    DedupSettings,
    FuseSettings,
    GatherSettings,
    Learned,
    PackSettings,
    Recipe,
    RerankSettings,
    mark,
)
from fusion.settings import load as load_settings
from fusion.settings import read_recipe, recipes
from tests.compare.test_learn import labels
from tests.lib.test_gbdt import MODEL


def tune(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["tune", *map(str, arguments)])
    return done.exit_code, done.stdout, done.stderr


def test_a_recipe_that_is_written_is_read_back_the_same(tmp_path: Path) -> None:
    """Numbers, truths, texts, weights and signals, and what it was tuned on, which is no part of its hash."""
    recipe = Recipe(
        name="mine",
        gather=GatherSettings(depth=42),
        dedup=DedupSettings(guarded=False),
        fuse=FuseSettings(k=30, weights={"my notes": 0.5}),
        rerank=RerankSettings(signals={"bm25": 2.0, "dense": 0.5}, judge="always", floor=0.35),
        pack=PackSettings(source_share=0.6, excerpts=False),
        tuned_on=tuple(mark(f"question {n}?") for n in range(23)),
    )
    file = tmp_path / "mine.toml"
    file.write_text(toml(recipe, ["Made from nothing."]), encoding="utf-8")
    assert read_recipe(file) == recipe
    assert read_recipe(file).hash == recipe.hash == replace(recipe, tuned_on=()).hash
    assert file.read_text(encoding="utf-8").startswith("# Made from nothing.\n# What is not written here")


def test_a_recipe_and_its_model_are_one(tmp_path: Path) -> None:
    """With its model beside it the recipe has trees; the model changes its hash; changed or gone, the weights are left,
    and the fault says so."""
    plain = Recipe(name="learned", rerank=RerankSettings(signals={"bm25": 1.0}))
    (tmp_path / "learned.txt").write_text(MODEL, encoding="utf-8")
    file = tmp_path / "learned.toml"
    file.write_text(
        f'[rerank]\nmodel = "learned.txt"\nmodel_hash = "{digest(MODEL)}"\n[rerank.signals]\nbm25 = 1\n',
        encoding="utf-8",
    )
    read = read_recipe(file)
    assert isinstance(read.rerank.model, Learned)
    assert read.rerank.model.trees is not None
    assert read.hash != plain.hash
    (tmp_path / "learned.txt").write_text(MODEL + "\n", encoding="utf-8")
    changed = read_recipe(file)
    assert changed.rerank.model is not None
    assert (changed.rerank.model.trees, changed.hash) == (None, plain.hash)
    assert changed.rerank.model.fault.endswith("it is not the one that the recipe was made with")
    (tmp_path / "learned.txt").unlink()
    gone = read_recipe(file).rerank.model
    assert gone is not None
    assert "No such file" in gone.fault


@pytest.mark.parametrize(
    "line",
    [
        'model = "../other.txt"\nmodel_hash = "ab"',
        'model = ""\nmodel_hash = "ab"',
        'model = "a.txt"',
        'model_hash = "ab"',
    ],
)
def test_a_model_is_a_file_beside_its_recipe(tmp_path: Path, line: str) -> None:
    """A path, nothing, one without a hash, or a hash alone: the recipe is refused and its file named."""
    (tmp_path / "learned.toml").write_text(f"[rerank]\n{line}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"learned\.toml: rerank\.model"):
        read_recipe(tmp_path / "learned.toml")


@pytest.mark.feature(
    "… a recipe file is read back the same; one that is there is written over only by `--force`",
    of="`fusion tune` moves a number where it gains more than its error",
)
def test_feedback_becomes_a_recipe_that_can_be_asked_with(tmp_path: Path) -> None:
    """Its recipe stands among the home's, its trees are there; a second time it is not written over without --force."""
    pytest.importorskip("lightgbm")
    home, file = tmp_path / "home", labels(tmp_path / "votes.jsonl", 40)
    arguments = ("--home", home, "--data", file, "--format", "feedback", "--learner", "--json")
    code, out, _ = tune(*arguments)
    told = json.loads(out)
    assert (code, told["answers"]) == (0, 40)
    found = recipes(load_settings(home=home))["learned"]
    assert found.hash == told["recipe_hash"]
    assert found.rerank.model is not None
    assert found.rerank.model.trees is not None
    assert sorted(p.name for p in (home / "recipes").iterdir()) == ["learned.toml", "learned.txt"]
    code, _, err = tune(*arguments)
    assert (code, "--force" in err) == (2, True)
    assert tune(*arguments, "--force")[0] == 0


@pytest.mark.feature(
    "… nothing is written for what does not pay; a shipped recipe's name wants `--force`",
    of="`fusion tune` moves a number where it gains more than its error",
)
@pytest.mark.parametrize(
    ("better", "left_empty", "paid"),
    [("tuned", 0.0, True), (None, 0.0, False), (None, 0.5, True), ("base", 0.5, False)],
)
def test_what_does_not_pay_is_not_written(better: str | None, left_empty: float, paid: bool) -> None:
    """More evidence beyond chance pays, and as much where more of the unanswerable stay empty; nothing else does."""
    told = {"cross_validated_left_empty": left_empty, "base_left_empty": 0.0, "verdict": {"better": better}}
    assert pays(told) is paid
    assert not pays({"cross_validated_pairs_right": 0.5, "base_pairs_right": 0.5})


@pytest.mark.feature(
    "… what cannot be is named, and nothing is written",
    of="`fusion tune` moves a number where it gains more than its error",
)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--data", "nowhere.json"), "there is no such file"),
        (("--data", ".", "--recipe", "best"), "there are deep, default, hook, seed003"),
        (("--data", ".", "--name", "a/b"), "letters, digits"),
        (("--data", ".", "--name", "default"), "a recipe that comes with the project"),
        (("--data", ".", "--only", "luck"), "there are rerank.signals.maxsim"),
        (("--data", ".", "--format", "feedback"), "add --learner"),
        (("--data", ".", "--format", "novel"), "no format is called 'novel'"),
        (("--data", ".", "--format", "folder"), "needs --queries"),
    ],
)
def test_what_cannot_be_is_named(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    """Exit code 2, one line of a problem, and nothing is written."""
    code, _, err = tune("--home", tmp_path / "home", "--json", *arguments)
    assert (code, says in json.loads(err)["detail"]) == (2, True)
    assert not (tmp_path / "home").exists()


@pytest.mark.feature(
    "… a tuned recipe remembers its questions: the benchmarks and `tune` do not report on these, and `compare` "
    "does not count them",
    of="`fusion tune` moves a number where it gains more than its error",
)
def test_what_a_recipe_was_tuned_on_is_not_tuned_on_again(tmp_path: Path) -> None:
    """The base saw the question, written otherwise: its figures would flatter it, so it is refused before any work."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "oven.md").write_text("# Oven\n\nIt broke.\n", encoding="utf-8")
    queries = tmp_path / "queries.json"
    queries.write_text(json.dumps([{"query": "What broke?", "files": ["oven.md"]}]), encoding="utf-8")
    recipes_folder = tmp_path / "home" / "recipes"
    recipes_folder.mkdir(parents=True)
    text = f'tuned_on = ["{mark("what  BROKE?")}"]\n[rerank.signals]\nbm25 = 1\n'
    (recipes_folder / "mine.toml").write_text(text, encoding="utf-8")
    given = ("--home", tmp_path / "home", "--data", tmp_path / "notes", "--format", "folder", "--queries", queries)
    code, _, err = tune(*given, "--recipe", "mine")
    assert (code, "recipe 'mine' was tuned on questions of notes" in err) == (2, True)
    assert [file.name for file in (tmp_path / "home").iterdir()] == ["recipes"]


@pytest.mark.feature(
    "… answers are recorded once and kept; one's own notes and queries do",
    of="`fusion tune` moves a number where it gains more than its error",
)
@pytest.mark.model
@pytest.mark.slow
def test_ones_own_notes_are_recorded_once_and_tuned(tmp_path: Path) -> None:
    """Ten notes, ten queries, and one without an answer: held-out answers of three sizes each, and a second run stores
    nothing again. A query or a note that was edited is recorded again; what the caller keeps is not replaced."""
    things = ("oven", "van", "boat", "clock", "lamp", "chair", "kettle", "ladder", "piano", "stove")
    notes = tmp_path / "notes"
    notes.mkdir()
    for n, thing in enumerate(things):
        (notes / f"{thing}.md").write_text(
            f"# Repairs\n\nThe {thing} was repaired for {n}0 crowns.\n", encoding="utf-8"
        )
    queries = [{"query": f"What did the repair of the {thing} cost?", "files": [f"{thing}.md"]} for thing in things]
    queries.append({"query": "Who watered the moon?", "files": []})
    (tmp_path / "queries.json").write_text(json.dumps(queries), encoding="utf-8")
    home, answers = tmp_path / "home", tmp_path / "answers.jsonl"
    arguments = ("--home", home, "--data", notes, "--format", "folder", "--queries", tmp_path / "queries.json")
    code, out, err = tune(*arguments, "--only", "bm25", "--answers", answers, "--json")
    assert code == 0, err
    told = json.loads(out)
    assert (told["questions"], told["unanswerable"], len(told["folds"])) == (10, 1, 5)
    assert (told["base_eib"], told["cross_validated_eib"]) == (1.0, 1.0)
    assert (told["changed"], told["written"]) == ({}, [])
    assert "notes (notes)" in told["data"]
    assert len(answers.read_text(encoding="utf-8").splitlines()) == 11 * 3
    kept = {file: file.stat().st_mtime_ns for file in (home / "tuning").iterdir()}
    code, out, _ = tune(*arguments, "--only", "bm25")
    assert (code, "so there is no file to write" in " ".join(out.split())) == (0, True)
    assert kept == {file: file.stat().st_mtime_ns for file in (home / "tuning").iterdir()}
    queries[0] = {"query": "How much was paid for mending the oven?", "files": ["oven.md"]}
    (tmp_path / "queries.json").write_text(json.dumps(queries), encoding="utf-8")
    (notes / "van.md").write_text("# Repairs\n\nThe van was repaired for 999 crowns.\n", encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    (home / "tuning").rename(elsewhere)
    code, _, err = tune(*arguments, "--only", "bm25", "--recordings", elsewhere)
    assert (code, "recorded otherwise (content differ)" in " ".join(err.split())) == (2, True)
    elsewhere.rename(home / "tuning")
    assert tune(*arguments, "--only", "bm25")[0] == 0
    assert kept != {file: file.stat().st_mtime_ns for file in (home / "tuning").iterdir()}
