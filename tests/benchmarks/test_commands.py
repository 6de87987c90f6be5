"""The whole of `python -m benchmarks locomo`, on a conversation of seven words."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.arms import BASELINES
from benchmarks.memory_libraries import installed
from fusion.recipe import mark
from tests.benchmarks.helpers import HOPS, KITCHEN

FIGURES = {
    "dataset", "n", "recipe", "recipe_hash", "commit", "date", "backends", "eib_frac", "eib_all", "eib_1500_frac",
    "eib_3000_frac", "r_at_5", "r_at_10", "ndcg_at_10", "abstained_on_unanswerable", "abstained_on_answerable",
    "by_category", "p50_ms", "p95_ms", "p50_cpu_ms", "cpu_ms_per_query", "ingest_per_s", "ingest_per_cpu_s",
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kitchen.json"
    path.write_text(json.dumps([KITCHEN]), encoding="utf-8")
    return path


@pytest.mark.feature("LoCoMo runs through the gateway: the figures are one line of JSON")
@pytest.mark.model
@pytest.mark.slow
def test_locomo_prints_its_figures_and_writes_its_answers(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three turns fit any block, so all evidence is in it; the last line is the figures, and a row is kept a budget."""
    answers = tmp_path / "answers.jsonl"
    assert main(["locomo", "--data", str(file), "--json", "--answers", str(answers)]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures.keys() >= FIGURES
    assert (figures["n"], figures["eib_frac"], figures["eib_all"], figures["r_at_10"]) == (2, 1.0, 1.0, 1.0)
    assert (figures["over_budget"], figures["duplicate_pairs"]) == (0, 0)
    rows = [json.loads(line) for line in answers.read_text(encoding="utf-8").splitlines()]
    assert [(row["question"], row["budget"]) for row in rows] == [(q, b) for q in (0, 1, 2) for b in (6000, 3000, 1500)]
    assert all(set(row["ranked"]) <= {"D2:1", "D2:2", "D10:1"} for row in rows)


@pytest.mark.feature("memories scattered over four stores are all found")
@pytest.mark.model
@pytest.mark.slow
def test_scattered_memories_are_found_in_every_store(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asking all stores finds more than the best alone, the figures of every arm are there, and rows say the set-up."""
    rows = tmp_path / "rows.jsonl"
    assert (
        main(
            [
                "locomo",
                "--data",
                str(file),
                "--json",
                "--scattered",
                "--arms",
                "hook",
                "--rows",
                str(rows),
                "--against",
                "only mem0",
            ]
        )
        == 0
    )
    assert {json.loads(line)["dataset"] for line in rows.read_text("utf-8").splitlines()} == {"kitchen scattered"}
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures.keys() >= FIGURES | {"over_best_single", "duplicate_pairs", "eib_one_down", "told_twice"}
    assert figures["one_store_eib_frac"] == 1.0
    assert figures["best_single_eib_frac"] < figures["eib_frac"]
    assert figures["eib_frac_of_one"].keys() == figures["eib_one_down"].keys() == set(figures["backends"])
    assert figures["one_down_loss_beyond_own"] == max(figures["one_down_loss_beyond_own_of"].values()) <= 0.0
    assert figures["arms"]["hook"]["eib_frac"] == figures["eib_frac"]
    assert figures["arms"]["without mem0"]["against"]["baseline"] == "only mem0"


def _folder(root: Path) -> tuple[str, str]:
    """Notes of our own, and queries; as arguments."""
    notes = {
        "oven.md": "# Oven\n\nThe oven broke on Sunday.\n\n# Repair\n\nIt was repaired for ninety crowns.\n",
        "garden/tomatoes.md": "# Tomatoes\n\nNobody watered them in May.\n",
        "work.md": "# Work\n\nPer works at the harbour now.\n",
    }
    for name, text in notes.items():
        file = root / "notes" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    queries = [
        {"query": "What did the repair of the oven cost?", "files": ["oven.md"]},
        {"query": "Where does Per work?", "files": ["work.md"], "category": "people"},
    ]
    (root / "queries.json").write_text(json.dumps(queries), encoding="utf-8")
    return str(root / "notes"), str(root / "queries.json")


@pytest.mark.model
@pytest.mark.slow
def test_a_folder_of_notes_is_measured_with_arms_and_baselines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both files are found; every arm and baseline has a row a question and budget, and a verdict on the baseline."""
    data, queries = _folder(tmp_path)
    rows = tmp_path / "rows.jsonl"
    command = ["folder", "--data", data, "--queries", queries, "--arms", "hook,seed003@markdown+cortex"]
    command += ["--recordings", str(tmp_path / "recordings"), "--rows", str(rows), "--baselines", "all", "--json"]
    assert main(command) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (first["n"], first["eib_frac"], first["by_category"].keys()) == (2, 1.0, {"answerable", "people"})
    arms = {"default", "hook", "seed003@markdown+cortex", *filter(installed, BASELINES)}
    assert first["arms"].keys() == arms
    assert first["arms"]["default"]["against"]["baseline"] == "handset"
    kept = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    assert len(kept) == 2 * 3 * len(arms)
    assert all(0 < row["best"] <= 1 if row["recipe_hash"] else row["best"] is None for row in kept)
    assert main(command) == 0  # and once more, from the recordings
    second = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (second["ingest_per_s"], second["ingest_per_cpu_s"]) == (None, None)
    assert second["recorded_by"] == [first["commit"]]
    assert {name: arm["eib_frac"] for name, arm in second["arms"].items()} == {
        name: arm["eib_frac"] for name, arm in first["arms"].items()
    }


@pytest.mark.model
@pytest.mark.slow
def test_contribution_of_a_folder_of_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The shares sum to what all find together, and each backend has its sentence."""
    data, queries = _folder(tmp_path)
    assert main(["contribution", "--data", data, "--queries", queries, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["shapley"].keys() == set(figures["backends"])
    assert sum(figures["shapley"].values()) == pytest.approx(figures["eib_frac"], abs=1e-4)
    assert len(figures["verdicts"]) == 4


def record_anew(file: Path, commit: str) -> None:
    """The same recording as if another commit had made it."""
    with np.load(file, allow_pickle=False) as kept:
        arrays = dict(kept)
    table = json.loads(zlib.decompress(arrays["table"].tobytes()))
    table["made"]["commit"] = commit
    arrays["table"] = np.frombuffer(zlib.compress(json.dumps(table).encode()), np.uint8)
    np.savez(file, **arrays)


@pytest.mark.feature(
    "… also from your own files, with the contribution of each backend", of="memories scattered over four"
)
@pytest.mark.model
@pytest.mark.slow
def test_a_folder_of_notes_is_scattered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three files over four stores: all find what no store has alone; what was recorded serves the contribution. Of
    both recordings the commit is told."""
    data, queries = _folder(tmp_path)
    what = ["--data", data, "--queries", queries, "--recordings", str(tmp_path / "recordings"), "--json"]
    assert main(["folder", "--scattered", *what]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["dataset"] == "notes scattered"
    assert figures["eib_frac"] == figures["one_store_eib_frac"] == 1.0
    assert figures["best_single_eib_frac"] < 1.0
    assert figures["duplicate_pairs"] == 0
    assert figures["one_down_loss_beyond_own"] <= 0.0
    assert main(["contribution", "--scattered", *what]) == 0
    shares = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert shares["dataset"] == "notes scattered"
    assert sum(shares["shapley"].values()) == pytest.approx(1.0, abs=1e-4)
    assert {name: round(worth, 4) for name, worth in shares["alone"].items()} == figures["eib_frac_of_one"]
    [whole] = [file for file in (tmp_path / "recordings").iterdir() if "scattered" not in file.name]
    record_anew(whole, "elsewhere")
    assert main(["folder", "--scattered", *what]) == 0
    again = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert again["recorded_by"] == sorted([figures["commit"], "elsewhere"])


@pytest.mark.feature("a recipe with one thing left out at a time: an ablation is an arm")
@pytest.mark.model
@pytest.mark.slow
def test_ablations_measure_each_part_of_a_recipe(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An arm for each part that is left out, each with its verdict against the whole recipe."""
    assert main(["locomo", "--data", str(file), "--ablate", "--json"]) == 0
    arms = json.loads(capsys.readouterr().out.splitlines()[-1])["arms"]
    assert {"without window5", "without neighbours", "without excerpts", "depth 30"} < arms.keys()
    assert {arm["against"]["baseline"] for name, arm in arms.items() if name != "default"} == {"default"}


@pytest.mark.model
@pytest.mark.slow
def test_questions_in_one_sentence_have_a_recording_of_their_own(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two answerable questions become one with the evidence of both; the single ones are asked as well."""
    recordings = ["--baselines", "none", "--json", "--recordings", str(tmp_path / "kept")]
    assert main(["locomo", "--data", str(file), "--joined", "2", *recordings]) == 0
    joined = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (joined["n"], joined["eib_all"], list(joined["by_category"])) == (1, 1.0, ["joined"])
    assert main(["locomo", "--data", str(file), *recordings]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["n"] == 2
    assert len(list((tmp_path / "kept").glob("*.npz"))) == 2


@pytest.mark.model
@pytest.mark.slow
def test_musique_prints_the_baselines_of_the_same_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three paragraphs fit any first five, so everybody has all of them."""
    file = tmp_path / "hops.json"
    file.write_text(json.dumps(HOPS), encoding="utf-8")
    assert main(["musique", "--data", str(file), "--json", "--baselines", "none"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [figures[name] for name in ("n", "r_at_5", "bm25_r_at_5", "dense_r_at_5")] == [2, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--limit", "x"), "argument --limit: 'x' is no whole number"),
        (("--limit", "0"), "argument --limit: 0 is less than 1"),
        (("--joined", "1"), "argument --joined: 1 is less than 2"),
    ],
)
def test_an_option_that_is_not_a_number_is_named(
    given: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words, and not by the name of a function of ours."""
    with pytest.raises(SystemExit) as ended:
        main(["locomo", "--data", "any.json", *given])
    assert (ended.value.code, says in capsys.readouterr().err) == (2, True)


@pytest.mark.feature("bad input of a benchmark is one line that names it, exit code 2")
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["locomo", "--data", "none.json"], "none.json cannot be read: No such file"),
        (["locomo", "--data", "FILE", "--arms", "hook@qdrant"], "there is no backend 'qdrant'"),
        (["locomo", "--data", "FILE", "--arms", "quick"], "there is no recipe 'quick'"),
        (["locomo", "--data", "FILE", "--joined", "9"], "no corpus of kitchen has 9 answerable questions to join"),
        (["locomo", "--data", "FILE", "--scattered", "--baselines", "bm25"], "baselines know one store only"),
        (["locomo", "--data", "FILE", "--backends", "qdrant"], "no backend is called 'qdrant'"),
        (["locomo", "--data", "FILE", "--baselines", "google"], "no baseline is called 'google'"),
        (["locomo", "--data", "FILE", "--against", "google"], "no arm is called 'google'"),
        (["locomo", "--data", "FILE", "--conversations", "cellar"], "no conversation is called 'cellar'"),
        (["locomo", "--data", "FILE", "--answers", "nowhere/answers.jsonl"], "there is no folder nowhere"),
        (["locomo", "--data", "FILE", "--recordings", "FILE"], "kitchen.json is no folder"),
        (["locomo", "--data", "FILE", "--rows", "."], ". cannot be written: it is a folder"),
        (["contribution", "--data", "FILE", "--home", "FILE"], "kitchen.json is no folder"),
        (["contribution", "--data", "FILE", "--rows", "nowhere/rows.jsonl"], "there is no folder nowhere"),
        (["locomo", "--data", "FILE", "--recipes", "nowhere"], "there is no folder of recipes nowhere"),
        (["musique", "--data", "FILE"], "question 0: 'id' must be str"),
        (["folder", "--data", "."], "needs --queries"),
        (["contribution", "--data", "FILE", "--backends", "markdown"], "two backends or more"),
        (["contribution", "--data", "FILE", "--format", "beir", "--scattered"], "beir has not"),
        (["locomo", "--data", "FILE", "--backends", "markdown", "--scattered"], "two backends or more"),
    ],
)
def test_bad_input_is_named_and_ends_with_2(
    command: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on stderr, nothing on stdout, exit code 2, before anything is stored."""
    assert main([str(file) if part == "FILE" else part for part in command]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert message in told.err
    assert [f.name for f in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("command", [["contribution"], ["locomo", "--scattered"]])
def test_scattering_needs_an_answerable_question(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only an unanswerable question: said before anything is stored, exit code 2."""
    file = tmp_path / "kitchen.json"
    file.write_text(json.dumps([{**KITCHEN, "qa": [{"question": "Which cat?", "category": 5}]}]), encoding="utf-8")
    assert main([*command, "--data", str(file)]) == 2
    assert "kitchen has no question with evidence" in capsys.readouterr().err


@pytest.mark.feature("a data set with broken ids or of an unknown format is reported, nothing is written, exit code 2")
@pytest.mark.parametrize("command", ["locomo", "contribution"])
def test_a_data_set_with_broken_ids_is_named_and_ends_with_2(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two turns with one id: the error names the file and the id, and neither figures nor rows are written."""
    twice = json.loads(json.dumps([KITCHEN]))
    twice[0]["conversation"]["session_2"][1]["dia_id"] = "D2:1"
    file, rows = tmp_path / "twice.json", tmp_path / "rows.jsonl"
    file.write_text(json.dumps(twice), encoding="utf-8")
    assert main([command, "--data", str(file), "--rows", str(rows), "--json"]) == 2
    told = capsys.readouterr()
    assert (told.out, rows.exists()) == ("", False)
    assert "twice.json" in told.err
    assert "the id 'D2:1' occurs twice" in told.err


@pytest.mark.feature(
    "… a tuned recipe lists its questions: the benchmarks and `tune` do not report on them, and "
    "`compare` does not count them",
    of="`tune` changes a number only",
)
@pytest.mark.parametrize("command", [["locomo", "--arms", "mine"], ["contribution", "--recipe", "mine"]])
def test_benchmarks_refuse_questions_that_a_recipe_was_tuned_on(
    command: list[str], file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of the conversation's questions chose the recipe's numbers: refused by name, before anything is stored."""
    asked = KITCHEN["qa"][0]["question"]
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.toml").write_text(f'tuned_on = ["{mark(asked)}"]\n', encoding="utf-8")
    assert main([*command, "--data", str(file), "--recipes", str(tmp_path / "recipes")]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert f"recipe 'mine' was tuned on questions of {KITCHEN['sample_id']}" in told.err


def test_an_unknown_format_is_named_and_ends_with_2(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error lists the existing ones."""
    with pytest.raises(SystemExit) as ended:
        main(["contribution", "--data", str(file), "--format", "squad"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "invalid choice: 'squad'" in told
    assert "longmemeval" in told
