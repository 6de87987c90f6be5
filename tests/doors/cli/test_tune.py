"""`fusion tune`: what it writes can be read and asked, what it cannot do it says, and nothing is left half-written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fusion.compare.recipe_file import toml
from fusion.doors.cli import app
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
from fusion.recipe_files import read_recipe, recipes
from fusion.settings import load as load_settings
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
    assert changed.rerank.model.fault.endswith("its hash is not model_hash")
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
    "… a recipe file is read back unchanged; an existing one is overwritten only with `--force`",
    of="`tune` changes a number only",
)
def test_feedback_becomes_a_recipe_that_can_be_asked_with(tmp_path: Path) -> None:
    """Its recipe and its trees are in the home; a second time they are not overwritten without --force."""
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


def test_trees_that_order_feedback_no_better_are_not_written(tmp_path: Path) -> None:
    """The scores of the recipe put all useful memories first already."""
    pytest.importorskip("lightgbm")
    file = labels(tmp_path / "votes.jsonl", 40)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows = [{**row, "local": float(row["useful"])} for row in rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    home = tmp_path / "home"
    code, out, err = tune("--home", home, "--data", file, "--format", "feedback", "--learner")
    assert (code, "Keep the base: no file is written" in out) == (0, True), err
    assert not (home / "recipes").exists()


@pytest.mark.feature(
    "… impossible options are reported, and nothing is written",
    of="`tune` changes a number only",
)
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--data", "nowhere.json"), "there is no such file"),
        (
            ("--data", ".", "--recipe", "best"),
            "there are deep, default, hook, local-plus, seed000",
        ),
        (("--data", ".", "--name", "a/b"), "letters, digits"),
        (("--data", ".", "--name", "default"), "a recipe that comes with the project"),
        (("--data", ".", "--format", "feedback"), "add --learner"),
        (("--data", ".", "--format", "locomo"), "with the same options: python -m benchmarks tune"),
        (("--data", ".", "--only", "signals"), "with the same options: python -m benchmarks tune"),
    ],
)
def test_what_cannot_be_is_named(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    """Exit code 2, one line of a problem, and nothing is written."""
    code, _, err = tune("--home", tmp_path / "home", "--json", *arguments)
    assert (code, says in json.loads(err)["detail"]) == (2, True)
    assert not (tmp_path / "home").exists()
