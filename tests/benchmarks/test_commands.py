"""The whole of `python -m benchmarks locomo`, on a conversation of seven words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from tests.benchmarks.datasets.test_locomo import KITCHEN

FIGURES = {
    "dataset", "n", "recipe", "recipe_hash", "commit", "date", "backends", "eib_frac", "eib_all", "eib_1500_frac",
    "eib_3000_frac", "r_at_5", "r_at_10", "ndcg_at_10", "abstained_on_unanswerable", "abstained_on_answerable",
    "by_category", "p50_ms", "p95_ms", "cpu_ms_per_query", "ingest_per_s",
}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kitchen.json"
    path.write_text(json.dumps([KITCHEN]), encoding="utf-8")
    return path


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


@pytest.mark.model
@pytest.mark.slow
def test_scattered_memories_are_found_wherever_they_lie(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Asking all stores finds more than the best alone, and the figures of every arm are there."""
    assert main(["locomo", "--data", str(file), "--json", "--scattered"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["one_store_eib_frac"] == 1.0
    assert figures["best_single_eib_frac"] < figures["eib_frac"]
    assert figures["eib_frac_of_one"].keys() == figures["eib_one_down"].keys() == set(figures["backends"])
