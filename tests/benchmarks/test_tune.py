"""`python -m benchmarks tune`: a data set's questions, recorded once, choose a recipe of the home."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from fusion.recipe import mark

ROOT = Path(__file__).parents[2]
Tune = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tune(capsys: pytest.CaptureFixture[str]) -> Tune:
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = main(["tune", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--data", "nowhere.json"), "there is no such file"),
        (
            ("--data", ".", "--recipe", "best"),
            "there are deep, default, hook, local-plus, seed000",
        ),
        (("--data", ".", "--name", "a/b"), "letters, digits"),
        (("--data", ".", "--only", "luck"), "there are rerank.signals.maxsim"),
        (("--data", ".", "--format", "folder"), "needs --queries"),
    ],
)
def test_tune_names_what_is_wrong_and_writes_nothing(
    tune: Tune, tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    """Exit code 2 and one line on stderr; the home is not made."""
    code, out, err = tune("--home", tmp_path / "home", *arguments)
    assert (code, out, reason in err) == (2, "", True)
    assert not (tmp_path / "home").exists()


def test_fusion_names_no_module_of_the_benchmarks() -> None:
    """No string of the package could be imported as one of them: the contract on imports sees statements only."""
    files = sorted((ROOT / "fusion").rglob("*.py"))
    assert len(files) > 100
    named = [file for file in files if re.search(r"""["']benchmarks(\.\w+)*["']""", file.read_text(encoding="utf-8"))]
    assert named == []


@pytest.mark.feature(
    "… a tuned recipe lists its questions: the benchmarks and `tune` do not report on them, and "
    "`compare` does not count them",
    of="`tune` changes a number only",
)
def test_tune_refuses_questions_that_the_recipe_was_tuned_on(tune: Tune, tmp_path: Path) -> None:
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
    "… answers are recorded once and kept, also for your own notes and queries",
    of="`tune` changes a number only",
)
@pytest.mark.model
@pytest.mark.slow
def test_tune_records_a_folder_of_notes_once(tune: Tune, tmp_path: Path) -> None:
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
    queries[0] = {"query": "How much was paid for repairing the oven?", "files": ["oven.md"]}
    (tmp_path / "queries.json").write_text(json.dumps(queries), encoding="utf-8")
    (notes / "van.md").write_text("# Repairs\n\nThe van was repaired for 999 crowns.\n", encoding="utf-8")
    elsewhere = tmp_path / "elsewhere"
    (home / "tuning").rename(elsewhere)
    code, _, err = tune(*arguments, "--only", "bm25", "--recordings", elsewhere)
    assert (code, "recorded otherwise (content differ)" in " ".join(err.split())) == (2, True)
    elsewhere.rename(home / "tuning")
    assert tune(*arguments, "--only", "bm25")[0] == 0
    assert kept != {file: file.stat().st_mtime_ns for file in (home / "tuning").iterdir()}
